"""A backend: subjobs run in the session, while `submit` waits. Good for trying things."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jedi_client.gpi.backends import BackendSettings
from jedi_client.gpi.interfaces import (
    Accepted,
    Attempt,
    Document,
    JobState,
    OutputFile,
    Refusals,
    Status,
    Submission,
    UnitPlan,
    UnitState,
)
from jedi_client.gpi.schema import prop

_RESULTS = "in_session.json"
_UNABLE = "InSession runs subjobs while it submits them, so there is nothing to {}"


class InSession(BackendSettings):
    """This session. `submit` comes back when all subjobs have ended."""

    on_this_machine = True
    timeout_s: float = prop(60.0, doc="Time of each subjob in s")

    def connect(self, job: Any = None) -> _Runs:
        """The backend with this time limit."""
        return _Runs(self.timeout_s)


class _Runs:
    """Runs subjobs. Its id of a job is the job's workspace, which keeps the exit codes."""

    bulk = False

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def submit(self, submission: Submission) -> Accepted:
        results = {unit.k: self._run(submission, unit) for unit in submission.units}
        (submission.workspace / _RESULTS).write_text(json.dumps(results))
        return Accepted(str(submission.workspace))

    def _run(self, submission: Submission, unit: UnitPlan) -> int:
        place = submission.workspace / str(unit.k) / "output"
        place.mkdir(parents=True)
        for file in (*submission.sandbox, *unit.program.files):
            shutil.copy(file.source, place / file.name)
        command = [unit.program.executable, *unit.program.args]
        variables = {**os.environ, **unit.program.environment}
        with (place / "stdout").open("wb") as out, (place / "stderr").open("wb") as err:
            try:
                return subprocess.run(
                    command,
                    cwd=place,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    timeout=self._timeout_s,
                    check=False,
                ).returncode
            except (OSError, subprocess.TimeoutExpired) as error:
                err.write(str(error).encode())
                return 127

    def settle(self, submission: Submission) -> Accepted | None:
        done = (submission.workspace / _RESULTS).exists()
        return Accepted(str(submission.workspace)) if done else None

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        return [self._state(backend_id) for backend_id in cursors]

    def _state(self, backend_id: str) -> JobState:
        units = [
            UnitState(k, _status(code), 1, exit_code=code)
            for k, code in _results(backend_id).items()
        ]
        counts: Mapping[Status, int] = Counter(one.status for one in units)
        return JobState(backend_id, "ended", units, counts, True, "1")

    def kill(self, backend_id: str, units: Sequence[int] | None) -> Refusals:
        return dict.fromkeys([None] if units is None else units, _UNABLE.format("kill"))

    def resubmit(self, backend_id: str, units: Sequence[int] | None, options: Document) -> Refusals:
        return dict.fromkeys([None] if units is None else units, _UNABLE.format("resubmit"))

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]:
        code = _results(backend_id)[k]
        return [Attempt(1, None, _status(code), None, code, None, None)]

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        yield (_place(backend_id, k) / name).read_bytes()

    def outputs(self, backend_id: str) -> Sequence[OutputFile]:
        return [
            OutputFile(k, file.name, file.stat().st_size)
            for k in _results(backend_id)
            for file in sorted(_place(backend_id, k).iterdir())
        ]

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        fetched = []
        for one in files:
            source, target = _place(backend_id, one.k or 0), _place(str(to), one.k or 0)
            target.mkdir(parents=True, exist_ok=True)
            if source != target:
                shutil.copy(source / one.name, target)
            fetched.append(target / one.name)
        return fetched

    def remove(self, backend_id: str) -> None:
        (Path(backend_id) / _RESULTS).unlink(missing_ok=True)


def _place(backend_id: str, k: int) -> Path:
    return Path(backend_id) / str(k) / "output"


def _results(backend_id: str) -> dict[int, int]:
    """Exit codes by the number of the subjob."""
    found: dict[str, int] = json.loads((Path(backend_id) / _RESULTS).read_text())
    return {int(k): code for k, code in found.items()}


def _status(code: int) -> Status:
    return "failed" if code else "completed"
