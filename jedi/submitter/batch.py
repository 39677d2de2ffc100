"""Batch systems as engines: PSI/J writes the scripts and the command lines, we run and bound them.

A pilot is a batch job of the same name, so that one whose submission was not noted is found again.
A job that the queue no longer lists has ended. PSI/J's own watching of queues is not used: it takes
an answer that it can't read for the end of all jobs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from jedi.submitter import local
from jedi.submitter.interface import (
    EngineError,
    Handle,
    KnownPilot,
    PilotEnd,
    Seen,
    Sent,
    Slot,
    Start,
)
from jedi.submitter.queues import QUEUES, BatchJob, lost_node

if TYPE_CHECKING:
    from psij import JobSpec
    from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutor

START_S = 120.0
"""A pilot that nobody has noted as submitted for so long, and no queue lists, never was."""

SPARE_S = 900
"""A slot lasts so much longer than its pilot takes jobs, for the time before and after them."""

_SAID = 300
_BATCH_ID = re.compile(r"\d[\w.\[\]-]*")
_ONCE = {"pbs": {"pbs.r": "n"}}
"""Attributes that keep a system from starting a job again by itself; Slurm reads it from the
environment."""

_WRAPPER = 'set -a; . "$1"; exec >>"$2" 2>&1; shift 2; exec "$@"'
"""The pilot's secrets come from a file that only its owner reads, not by a command line."""


class BatchEngine:
    """The engine: see `port.Engine`. `name` is slurm, lsf, pbs or htcondor; `place` is a directory
    that worker nodes see, for scripts and tokens, `logs` one for pilots' output."""

    at_hand = False

    def __init__(self, name: str, place: Path, logs: Path, command_s: float) -> None:
        self._name, self._place, self._logs = name, place, logs
        self._queue = QUEUES[name]
        self._command_s = command_s
        self._cancelled: set[str] = set()
        for directory in (place, logs):
            directory.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
        self._pilot = _copy(local.PILOT, place)
        self._executor = _executor(name, place)
        self._executor.work_directory.mkdir(exist_ok=True)

    def look(self, pilots: Sequence[KnownPilot]) -> Seen:
        listed = self._listing()
        seen, waiting, twins = Seen(), set(), []
        for pilot in pilots:
            jobs = sorted(listed.pop(pilot.pilot_id, []), key=_rank(pilot))
            job = jobs[0] if jobs else None
            twins += [twin.batch_id for twin in jobs[1:] if twin.state != "ended"]
            if job is None and pilot.batch_id is None and pilot.age_s <= START_S:
                continue
            if job is None or job.state == "ended":
                seen.gone[pilot.pilot_id] = self._end(pilot, job)
                continue
            running = job.state == "running"
            if (job.batch_id, running) != (pilot.batch_id, pilot.running):
                seen.found[pilot.pilot_id] = Handle(batch_id=job.batch_id, running=running)
            if not running:
                waiting.add(pilot.pilot_id)
        self._remove(twins)
        seen.waiting = frozenset(waiting)
        seen.others = frozenset(
            name for name, jobs in listed.items() if any(job.state != "ended" for job in jobs)
        )
        return seen

    def submit(self, slot: Slot, starts: Sequence[Start]) -> Sent:
        local.prune(self._logs)
        sent = Sent()
        for number, start in enumerate(starts):
            try:
                batch_id = self._send(slot, start)
            except EngineError as error:
                sent.why = error
                unsure = error.code in ("batch_timeout", "batch_garbage")
                sent.refused = [other.pilot_id for other in starts[number + unsure :]]
                break
            sent.started[start.pilot_id] = Handle(batch_id=batch_id, running=False)
        return sent

    def cancel(self, pilots: Sequence[KnownPilot]) -> None:
        listed = self._listing() if pilots else {}
        self._cancelled |= {pilot.pilot_id for pilot in pilots}
        self._remove(
            [
                job.batch_id
                for pilot in pilots
                for job in listed.get(pilot.pilot_id, ())
                if job.state != "ended"
            ]
        )

    def forget(self, pilots: Sequence[KnownPilot]) -> None:
        for pilot in pilots:
            self._cancelled.discard(pilot.pilot_id)
            (self._place / f"{pilot.pilot_id}.env").unlink(missing_ok=True)
            for name in (pilot.pilot_id, pilot.batch_id):
                for suffix in ("job", "sh", "out", "ec", "nodefile"):
                    self._file(name, suffix).unlink(missing_ok=True)

    def tidy(self, attempt: Path) -> None:
        """The node is not ours; the pilot's payload monitor, or the batch system, does it."""

    def _listing(self) -> dict[str, list[BatchJob]]:
        """The jobs that the queue knows, by name."""
        code, output, why = self._run(self._queue.command)
        if code and self._queue.none and self._queue.none in output + why:
            return {}
        if code:
            raise self._refused(self._queue.command, output + why)
        try:
            jobs = self._queue.read(output)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{self._queue.command[0]} prints no list of jobs: {output[:_SAID]!r}",
                code="batch_garbage",
            ) from error
        listed: defaultdict[str, list[BatchJob]] = defaultdict(list)
        for job in jobs:
            listed[job.name].append(job)
        return listed

    def _send(self, slot: Slot, start: Start) -> str:
        """Submit one pilot; the queue's id of it."""
        from psij import Job, SubmitException

        name = start.pilot_id
        secrets = self._place / f"{name}.env"
        secrets.touch(0o600)
        variables = local.pilot_environment(slot, start.token).items()
        secrets.write_text("".join(f"{key}={shlex.quote(value)}\n" for key, value in variables))
        job = Job(self._spec(slot, start, secrets))
        script = self._file(name, "job")
        with script.open("w") as file:
            context = self._executor._create_script_context(job)
            self._executor.generate_submit_script(job, context, file)
        command = self._executor.get_submit_command(job, script)
        code, output, why = self._run(command)
        if code:
            raise self._refused(command, output + why)
        with suppress(LookupError, SubmitException):
            batch_id = self._executor.job_id_from_submit_output(output)
            if _BATCH_ID.fullmatch(batch_id):
                return batch_id
        raise EngineError(
            f"{command[0]} does not print the id of the submitted job: {output[:_SAID]!r}",
            code="batch_garbage",
        )

    def _spec(self, slot: Slot, start: Start, secrets: Path) -> JobSpec:
        from psij import JobAttributes, JobSpec, ResourceSpecV1

        log = self._logs / f"{start.pilot_id}.log"
        pilot = local.command(slot, start.pilot_id, start.account, self._pilot)
        attributes: dict[str, object] = {
            f"{self._name}.{self._queue.name_attribute}": start.pilot_id,
            **_ONCE.get(self._name, {}),
            **{f"{self._name}.{key}": value for key, value in slot.attributes.items()},
        }
        return JobSpec(
            executable="/bin/sh",
            arguments=["-c", _WRAPPER, "sh", str(secrets), str(log), *pilot],
            stderr_path=log,
            resources=ResourceSpecV1(
                node_count=1,
                processes_per_node=slot.shape.cores,
                memory=slot.shape.memory_mb << 20 or None,
            ),
            attributes=JobAttributes(
                duration=timedelta(seconds=(slot.walltime_s or 0) + SPARE_S),
                queue_name=slot.queue,
                custom_attributes=attributes,
            ),
        )

    def _end(self, pilot: KnownPilot, job: BatchJob | None) -> PilotEnd:
        """The end of a pilot, by the exit code that its script has written, else by the queue."""
        batch_id = job.batch_id if job else pilot.batch_id
        if batch_id is None:
            return PilotEnd("was never submitted")
        code = ""
        with suppress(OSError):
            code = self._file(batch_id, "ec").read_text().strip()
        gone = f"is gone: {job.queue_word if job else 'its queue knows no more of it'}"
        end = f"ended with exit code {code}" if code else gone
        failed = code != "0" if code or pilot.pilot_id not in self._cancelled else None
        how = f"({self._name} job {batch_id}) {end}"
        return PilotEnd(how, failed, "lost_node" if lost_node(how) else "lost_pilot")

    def _remove(self, batch_ids: Sequence[str]) -> None:
        """Cancel jobs; whichever is not cancelled will be listed, and come here, again."""
        if batch_ids:
            self._run([*self._executor.get_cancel_command(batch_ids[0]), *batch_ids[1:]])

    def _file(self, name: str | None, suffix: str) -> Path:
        return self._executor.work_directory / f"{name}.{suffix}"

    def _refused(self, command: Sequence[str], output: str) -> EngineError:
        return EngineError(f"{command[0]}: {output.strip()[:_SAID]}", code="batch_refused")

    def _run(self, command: Sequence[str]) -> tuple[int, str, str]:
        """A command's exit code, output and errors; it knows nothing of our database."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JEDI_", "PG"))}
        try:
            process = subprocess.Popen(
                command,
                env={**kept, "LC_ALL": "C", "SBATCH_NO_REQUEUE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(
                f"{command[0]} can't be run: {error.strerror}. Is {self._name} installed here?",
                code="batch_missing",
            ) from error
        with process:
            try:
                output, why = process.communicate(timeout=self._command_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise EngineError(
                    f"{command[0]} has not answered in {self._command_s:g} s.",
                    code="batch_timeout",
                ) from error
        return process.returncode, output, why


def _copy(code: Path, place: Path) -> Path:
    """The pilot's code where worker nodes see it. Each version stays: pilots may just be starting
    from it."""
    files = sorted(code.glob("*.py"))
    version = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    home = place / f"pilot.{version}"
    if not home.exists():
        fresh = Path(tempfile.mkdtemp(dir=place))
        try:
            shutil.copytree(code, fresh / "pilot", ignore=shutil.ignore_patterns("__pycache__"))
            fresh.rename(home)
        except OSError:
            shutil.rmtree(fresh)
            if not home.exists():  # else another process was first
                raise
    return home / "pilot"


def _rank(pilot: KnownPilot) -> Callable[[BatchJob], tuple[bool, bool, bool, str]]:
    """The order in which jobs of one name may be the pilot: a living, noted, running one comes
    first."""
    return lambda job: (
        job.state == "ended",
        job.batch_id != pilot.batch_id,
        job.state != "running",
        job.batch_id,
    )


def _executor(name: str, place: Path) -> BatchSchedulerExecutor:
    try:
        import psij
        from psij.executors.batch.batch_scheduler_executor import (
            BatchSchedulerExecutor,
            BatchSchedulerExecutorConfig,
        )

        from jedi.submitter import condor
    except ImportError as error:
        raise EngineError(
            f"{error}: batch systems need `pip install 'jedi-server[batch]'`.",
            code="batch_missing",
        ) from error
    condor.register()
    config = BatchSchedulerExecutorConfig(work_directory=place)
    executor = psij.JobExecutor.get_instance(name, config=config)
    assert isinstance(executor, BatchSchedulerExecutor)
    return executor
