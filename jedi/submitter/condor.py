"""HTCondor for PSI/J: an executor as `psij.executors.batch` has them for other systems."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from packaging.version import Version
from psij import Job, JobExecutor, JobState, JobStatus, ResourceSpecV1, SubmitException
from psij.descriptor import Descriptor
from psij.executors.batch.batch_scheduler_executor import (
    BatchSchedulerExecutor,
    BatchSchedulerExecutorConfig,
    InvalidJobStateError,
    check_status_exit_code,
)
from psij.executors.batch.escape_functions import bash_escape

_STATES = {
    1: JobState.QUEUED,
    2: JobState.ACTIVE,
    3: JobState.CANCELED,
    4: JobState.COMPLETED,
    5: JobState.QUEUED,
    6: JobState.ACTIVE,
    7: JobState.ACTIVE,
}
_ONCE = "(JobStatus == 5) || (JobStatus == 1 && NumJobStarts > 0)"
"""Jobs that are held, or were started and put back: they are removed, since none may run twice."""


class CondorJobExecutor(BatchSchedulerExecutor):
    """Uses condor_submit, condor_q and condor_rm; files are shared, none is transferred.

    Custom attributes `htcondor.<name>` become lines of the submit description. The queue is the
    accounting group.
    """

    def __init__(
        self, url: str | None = None, config: BatchSchedulerExecutorConfig | None = None
    ) -> None:
        super().__init__(url=url, config=config or BatchSchedulerExecutorConfig())

    def generate_submit_script(
        self, job: Job, context: dict[str, object], submit_file: IO[str]
    ) -> None:
        """The description; it runs a script beside it."""
        psij: Any = context["psij"]
        where = psij["script_dir"]
        script = Path(where, f"{job.id}.sh")
        words = " ".join(bash_escape(word) for word in psij["launch_command"])
        script.write_text(
            f'#!/bin/bash\nexec &>> "{where}/$CONDOR_JOB_ID.out"\n{words}\n'
            f'echo "$?" > "{where}/$CONDOR_JOB_ID.ec"\n'
        )
        script.chmod(0o700)
        submit_file.write("\n".join([*_description(job, script), "queue", ""]))

    def get_submit_command(self, job: Job, submit_file_path: Path) -> list[str]:
        """condor_submit says `17.0 - 17.0`."""
        return ["condor_submit", "-terse", str(submit_file_path.absolute())]

    def job_id_from_submit_output(self, out: str) -> str:
        """The first id of the last line: warnings may stand above it."""
        return out.strip().rpartition("\n")[2].partition(" - ")[0].strip()

    def get_cancel_command(self, native_id: str) -> list[str]:
        """By cluster and process."""
        return ["condor_rm", native_id]

    def process_cancel_command_output(self, exit_code: int, out: str) -> None:
        """A job that has gone can't be found."""
        if "not found" in out or "Couldn't find" in out:
            raise InvalidJobStateError
        raise SubmitException(out)

    def get_status_command(self, native_ids: Collection[str]) -> list[str]:
        """The jobs' states, as JSON."""
        return [
            "condor_q",
            "-json",
            "-attributes",
            "ClusterId,ProcId,JobStatus,HoldReason",
            *native_ids,
        ]

    def parse_status_output(self, exit_code: int, out: str) -> dict[str, JobStatus]:
        """The listing by id; without jobs HTCondor prints nothing at all."""
        check_status_exit_code("condor_q", exit_code, out)
        return {
            f"{job['ClusterId']}.{job['ProcId']}": JobStatus(
                _STATES[job["JobStatus"]], message=job.get("HoldReason")
            )
            for job in (json.loads(out) if out.strip() else [])
        }

    def get_list_command(self) -> list[str]:
        """Ids, a line each."""
        return ["condor_q", "-af:j", "ProcId"]

    def parse_list_output(self, out: str) -> list[str]:
        """Each line begins with the id."""
        return [line.split()[0] for line in out.splitlines() if line.strip()]


def _description(job: Job, script: Path) -> list[str]:
    spec = job.spec
    assert spec is not None and isinstance(spec.resources, ResourceSpecV1)
    attributes, resources = spec.attributes, spec.resources
    lines: dict[str, object] = {
        "universe": "vanilla",
        "executable": str(script),
        "environment": '"CONDOR_JOB_ID=$(ClusterId).$(ProcId)"',
        "getenv": "true" if spec.inherit_environment else "false",
        "should_transfer_files": "NO",
        "request_cpus": resources.computed_process_count,
        "request_memory": resources.memory and f"{resources.memory >> 20}",
        "accounting_group": attributes.queue_name,
        "allowed_job_duration": int(attributes.duration.total_seconds()),
        "periodic_remove": _ONCE,
    }
    lines |= {
        key.removeprefix("htcondor."): value
        for key, value in (attributes.custom_attributes or {}).items()
        if key.startswith("htcondor.")
    }
    return [f"{key} = {value}" for key, value in lines.items() if value is not None]


def register() -> None:
    """Make it known to PSI/J as `htcondor`."""
    cls = f"{__name__}.{CondorJobExecutor.__name__}"
    root = str(Path(__file__).parents[__name__.count(".")])
    JobExecutor.register_executor(Descriptor("htcondor", Version("0.1"), cls), root)
