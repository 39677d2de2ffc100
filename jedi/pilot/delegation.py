"""The system that runs this pilot: a batch engine or another grid, from its environment."""

from __future__ import annotations

from collections.abc import Mapping

_ENGINES = {
    "grid": ("GRID_GLOBAL_JOBID", "GRID_GLOBAL_JOBHOST"),
    "slurm": ("SLURM_JOB_ID", "SLURM_JOB_PARTITION"),
    "lsf": ("LSB_JOBID", "LSB_QUEUE"),
    "pbs": ("PBS_JOBID", "PBS_QUEUE"),
    "htcondor": ("CONDOR_JOB_ID", "CONDOR_QUEUE"),
}
"""By engine, the variables with its id of our job and with its queue. A gateway to a grid (ARC)
comes first: it has an engine behind it. HTCondor's are our submitter's."""


def delegation(environment: Mapping[str, str], pid: int) -> dict[str, str | None]:
    """Return the part of a request for jobs that describes this system."""
    for kind, (job, queue) in _ENGINES.items():
        if environment.get(job):
            return {"kind": kind, "queue": environment.get(queue) or None, "id": environment[job]}
    return {"kind": "local", "queue": None, "id": str(pid)}
