"""Listings of batch systems: ids, names and states of our jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

BatchState = Literal["queued", "running", "ended"]


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job as its queue lists it; `queue_word` is the queue's own word for its state, or the
    reason for it."""

    batch_id: str
    name: str
    state: BatchState
    queue_word: str


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """The command that lists all our jobs in a batch system."""

    command: tuple[str, ...]
    read: Callable[[str], list[BatchJob]]
    """Raises ValueError, LookupError or TypeError for other texts."""

    name_attribute: str
    """The attribute that carries a job's name, in the system's own words."""

    none: str = ""
    """Part of the message of a queue without jobs, whose exit code is not 0."""


def _state(word: str, queued: frozenset[str], ended: frozenset[str]) -> BatchState:
    """Unknown words mean that it runs: nothing is done."""
    return "queued" if word in queued else "ended" if word in ended else "running"


_SLURM_QUEUED = frozenset(
    {
        "PENDING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)
_SLURM_ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
_LSF_QUEUED, _LSF_ENDED = frozenset({"PEND", "PROV", "PSUSP", "WAIT"}), frozenset({"DONE", "EXIT"})
_PBS_QUEUED, _PBS_ENDED = frozenset("HMQTW"), frozenset("CFX")
_CONDOR = {
    1: "IDLE",
    2: "RUNNING",
    3: "REMOVED",
    4: "COMPLETED",
    5: "HELD",
    6: "OUTPUT",
    7: "SUSPENDED",
}
_CONDOR_QUEUED, _CONDOR_ENDED = frozenset({"IDLE", "HELD"}), frozenset({"REMOVED", "COMPLETED"})


_LOST_NODE = re.compile(
    r"\b(TIMEOUT|DEADLINE|PREEMPTED|NODE_FAIL|BOOT_FAIL|LAUNCH_FAILED|RECONFIG_FAIL|REVOKED"
    r"|CANCELLED|TERM_(RUNLIMIT|WINDOW|DEADLINE|PREEMPT|ADMIN|OWNER|LOAD|REQUEUE_\w+))\b"
    r"|walltime .*exceeded|node .*(down|fail|lost)"
)


def lost_node(end: str) -> bool:
    """Return True if a batch system ended a job at its own limit or will, or lost its node, as it
    says in these words. Limits of memory and CPU time are the job's."""
    return bool(_LOST_NODE.search(end))


def _slurm(listing: str) -> list[BatchJob]:
    jobs = []
    for line in listing.splitlines():
        batch_id, word, reason, name = line.split("|", 3)
        int(batch_id.partition("_")[0])  # people have arrays of jobs beside our pilots
        why = word if reason in ("None", "") else f"{word}, {reason}"
        jobs.append(BatchJob(batch_id, name, _state(word, _SLURM_QUEUED, _SLURM_ENDED), why))
    return jobs


def _lsf(listing: str) -> list[BatchJob]:
    jobs = []
    for job in json.loads(listing)["RECORDS"]:
        if "ERROR" in job:  # one that ended while it was looked at
            continue
        word, reason = job["STAT"], job.get("EXIT_REASON") or ""
        why = f"{word}, {reason}" if reason else word
        state = _state(word, _LSF_QUEUED, _LSF_ENDED)
        jobs.append(BatchJob(job["JOBID"], job["JOB_NAME"], state, why))
    return jobs


def _pbs(listing: str) -> list[BatchJob]:
    jobs = []
    for batch_id, job in json.loads(listing).get("Jobs", {}).items():
        word = job["job_state"]
        why = f"{word}, {job['comment']}" if job.get("comment") else word
        state = _state(word, _PBS_QUEUED, _PBS_ENDED)
        jobs.append(BatchJob(batch_id, job["Job_Name"], state, why))
    return jobs


def _condor(listing: str) -> list[BatchJob]:
    jobs = []
    for job in json.loads(listing) if listing.strip() else []:
        word = _CONDOR.get(job["JobStatus"]) or f"status {int(job['JobStatus'])}"
        why = f"{word}, {job['HoldReason']}" if job.get("HoldReason") else word
        state = _state(word, _CONDOR_QUEUED, _CONDOR_ENDED)
        batch_id = f"{job['ClusterId']}.{job['ProcId']}"
        jobs.append(BatchJob(batch_id, job.get("JobBatchName", ""), state, why))
    return jobs


QUEUES = {
    "slurm": QueueCommand(
        ("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%r|%j"),
        _slurm,
        "job-name",
    ),
    "lsf": QueueCommand(
        ("bjobs", "-a", "-json", "-o", "jobid job_name stat exit_reason"),
        _lsf,
        "J",
        none="No job found",
    ),
    "pbs": QueueCommand(("qstat", "-f", "-F", "json"), _pbs, "N"),
    "htcondor": QueueCommand(
        ("condor_q", "-json", "-attributes", "ClusterId,ProcId,JobBatchName,JobStatus,HoldReason"),
        _condor,
        "batch_name",
    ),
}
"""By name of the engine."""
