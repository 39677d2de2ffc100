"""Backend Local: submissions become runs in the registry's file, which a helper process runs.

Source: docs/reference/ganga.md#submission; docs/reference/ganga.md#verbs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jedi_client.errors import JediError, NotFound
from jedi_client.gpi.contents import Contents
from jedi_client.gpi.files import CATALOGUE, SHARED
from jedi_client.gpi.interfaces import (
    Accepted,
    Attempt,
    Document,
    JobState,
    OutputFile,
    Program,
    Refusals,
    SandboxFile,
    Status,
    Submission,
    UnitState,
)
from jedi_client.gpi.local import helper, payload, runs
from jedi_client.gpi.store.database import RegistryFile
from jedi_client.gpi.workspace import home as client_home

_STATUSES: Mapping[str, Status] = {
    "new": "new",
    "waiting": "submitted",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "killed": "killed",
}
_LIVE = ("waiting", "running")
PIECE = 2**16

STARTS_S = 2.0
"""Seconds that a new helper may take until it serves."""


class _Refused(Exception):
    """A unit that can't be submitted, and why."""


class LocalBackend:
    """This machine. Bulk is emulated: each unit is accepted or refused by itself."""

    bulk = False

    def __init__(self, settings: Any = None, home: Path | None = None) -> None:
        self._settings = settings
        self._home = (home or client_home()).absolute()
        self._file = RegistryFile(self._home / "registry.db")
        self._contents = Contents(self._home / "contents")
        self._kept: dict[str, tuple[str, int]] = {}
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._started = 0.0

    def submit(self, submission: Submission) -> Accepted:
        """Queue all units that can run here; without `keep_going`, up to the first that can't."""
        self._kept = {}
        refused: dict[int, str] = {}
        units: list[tuple[int, str, str, str | None]] = []
        untried: list[int] = []
        for unit in submission.units:
            inputs = submission.inputs if unit.inputs is None else unit.inputs
            files = [*submission.sandbox, *unit.program.files]
            why: str | None = None
            if refused and not submission.keep_going:
                untried.append(unit.k)
            else:
                try:
                    units.append(
                        (unit.k, "waiting", self._program(unit.program, files, inputs), None)
                    )
                    continue
                except _Refused as error:
                    refused[unit.k] = why = str(error)
            units.append((unit.k, "new", _as_json(unit.program, _unkept(files), inputs), why))
        if len(units) == len(refused) + len(untried):
            return Accepted("", refused, untried)
        options = submission.document.get("backend") or {}
        with self._file.writing(durable=True) as db:
            job = runs.with_key(db, submission.key)
            if job is None:
                job = runs.add(
                    db,
                    submission.key,
                    submission.workspace.absolute(),
                    single=submission.document.get("splitter") is None,
                    slots=options.get("slots"),
                    outputs=submission.outputs,
                    environment=payload.environment(os.environ),
                    units=units,
                )
        self._wake()
        return Accepted(str(job), refused, untried)

    def settle(self, submission: Submission) -> Accepted | None:
        """The job of a submission, if it was written."""
        with self._file.reading() as db:
            job = runs.with_key(db, submission.key)
            if job is None:
                return None
            new = [k for k, status in runs.statuses(db, job).items() if status == "new"]
            why = {row[1]: row[5] for row in runs.changed(db, {job: -1})}
        return Accepted(
            str(job), {k: why[k] for k in new if why[k]}, [k for k in new if not why[k]]
        )

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        """States of jobs. A dead helper is replaced if there is work."""
        since = {int(job): int(cursor or -1) for job, cursor in cursors.items()}
        with self._file.reading() as db:
            changed = runs.changed(db, since)
            counted = runs.counts(db, since)
            now = str(runs.change(db))
            work = runs.is_waiting(db)
        if work:
            self._wake()
        units: dict[int, list[UnitState]] = {job: [] for job in since}
        for job, k, status, attempt, code, reason in changed:
            units[job].append(
                UnitState(k, _STATUSES[status], attempt or None, exit_code=code, reason=reason)
            )
        counts: dict[int, dict[Status, int]] = {job: {} for job in since}
        for job, status, number in counted:
            counts[job][_STATUSES[status]] = number
        return [
            JobState(str(job), _word(counts[job]), units[job], counts[job], True, now)
            for job in since
            if counts[job]
        ]

    def kill(self, backend_id: str, units: Sequence[int] | None) -> Refusals:
        """Kill live units."""
        job = int(backend_id)
        with self._file.writing(durable=True) as db:
            known = runs.statuses(db, job)
            asked = known.keys() if units is None else set(units)
            live = {k for k, status in known.items() if status in _LIVE and k in asked}
            runs.kill(db, job, live)
        self._wake()
        if units is None:
            return {} if live else {None: "No subjob of it is live."}
        return {k: _ended(known.get(k)) for k in units if k not in live}

    def resubmit(self, backend_id: str, units: Sequence[int] | None, options: Document) -> Refusals:
        """Queue ended and refused units again."""
        job = int(backend_id)
        with self._file.reading() as db:
            known = runs.statuses(db, job)
            wanted = list(known) if units is None else list(units)
            chosen = [k for k in wanted if known.get(k) not in (*_LIVE, None)]
            found = runs.programs(db, job, chosen)
        refused: dict[int | None, str] = {
            k: "It is live." if k in known else "There is no such subjob."
            for k in wanted
            if k not in found
        }
        again: dict[int, str] = {}
        for k, program in found.items():
            try:
                again[k] = self._again(program)
            except _Refused as error:
                refused[k] = str(error)
        with self._file.writing(durable=True) as db:
            runs.queue_again(db, job, again)
            if "slots" in options:
                db.execute("UPDATE local_jobs SET slots = ? WHERE id = ?", (options["slots"], job))
        self._wake()
        return refused

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]:
        """Ended attempts, and the one that runs."""
        with self._file.reading() as db:
            ended = db.execute(
                "SELECT attempt, status, exit_code, started, ended "
                "FROM local_attempts WHERE job = ? AND k = ? ORDER BY attempt",
                (int(backend_id), k),
            ).fetchall()
            row = db.execute(
                "SELECT attempt, status FROM local_runs WHERE job = ? AND k = ?",
                (int(backend_id), k),
            ).fetchone()
        found = [
            Attempt(n, None, status, None, code, _time(begin), _time(end))
            for n, status, code, begin, end in ended
        ]
        if row and row[1] == "running":
            begin = payload.times(self._folder(backend_id, k) / "attempts" / str(row[0]))[0]
            found.append(Attempt(row[0], None, "running", None, None, _time(begin), None))
        return found

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        """Pieces of stdout or stderr as they are now. NotFound."""
        if name not in payload.LOGS:
            raise NotFound(f"There is no log {name}. There are {' and '.join(payload.LOGS)}.")
        if attempt is None:
            known = self.attempts(backend_id, k)
            attempt = known[-1].attempt if known else 0
        path = self._folder(backend_id, k) / "attempts" / str(attempt) / name
        try:
            with path.open("rb") as file:
                while piece := file.read(PIECE):
                    yield piece
        except FileNotFoundError:
            raise NotFound(f"Subjob {k} has no {name} yet.", k=k) from None

    def outputs(self, backend_id: str) -> Sequence[OutputFile]:
        """The kept output files of all units."""
        place, single = self._place(backend_id)
        with self._file.reading() as db:
            ks = list(runs.statuses(db, int(backend_id)))
        return [
            OutputFile(k, file.name, file.stat().st_size)
            for k in ks
            for file in _files(runs.place_of(place, single, k) / "output")
        ]

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        """The files: they are on this machine, and copied only to another folder. NotFound."""
        place, single = self._place(backend_id)
        found = []
        for one in files:
            k = one.k or 0
            source = runs.place_of(place, single, k) / "output" / one.name
            target = runs.place_of(str(to), single, k) / "output" / one.name
            if not source.is_file():
                raise NotFound(f"Subjob {k} has no output {one.name}.", k=k)
            if source != target and not _same(source, target):
                target.parent.mkdir(parents=True, exist_ok=True)
                new = target.with_name(f".new-{target.name}")
                shutil.copy2(source, new)
                new.replace(target)
            found.append(target)
        return found

    def remove(self, backend_id: str) -> None:
        """Forget an ended job, and contents that no other job uses. JediError if it is live."""
        job = int(backend_id)
        with self._file.writing(durable=True) as db:
            if {*_LIVE} & {*runs.statuses(db, job).values()}:
                raise JediError(f"Job {job} of Local is live: kill it first.", code="job_is_live")
            for table, column in (
                ("local_attempts", "job"),
                ("local_runs", "job"),
                ("local_jobs", "id"),
            ):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (job,))
        with self._file.reading() as db:
            used = {
                row[0]
                for row in db.execute(
                    "SELECT DISTINCT json_extract(f.value, '$[2]') FROM local_runs r, "
                    "json_each(r.program, '$.files') f"
                )
            }
        self._contents.sweep(used)

    # -------------------------------------------------------------------------------- programs

    def _program(
        self, program: Program, files: Sequence[SandboxFile], inputs: Sequence[str]
    ) -> str:
        """A program with kept files as JSON. _Refused."""
        _must_be_here(program.executable, {one.name for one in files})
        _must_be_local(inputs)
        return _as_json(program, [self._keep(one) for one in files], inputs)

    def _again(self, program: dict[str, Any]) -> str:
        """The program of a unit that runs again; files that were not kept yet are kept now."""
        _must_be_here(program["executable"], {one[1] for one in program["files"]})
        program["files"] = [
            (source, name, digest, mode) if digest else self._keep(SandboxFile(source, name))
            for source, name, digest, mode in program["files"]
        ]
        return json.dumps(program)

    def _keep(self, one: SandboxFile) -> tuple[str, str, str, int]:
        """A sandbox file with the digest of its content, and its mode. _Refused."""
        if one.source not in self._kept:
            self._kept[one.source] = self._content(one)
        digest, mode = self._kept[one.source]
        return one.source, one.name, digest, mode

    def _content(self, one: SandboxFile) -> tuple[str, int]:
        if one.source.startswith(CATALOGUE):
            raise _Refused(f"{one.source} is in JEDI's catalogue, which Local does not read.")
        try:
            if one.digest:
                return one.digest, 0o755
            if one.source.startswith(SHARED):
                return self._contents.shared(one.source.removeprefix(SHARED)), 0o755
            mode = Path(one.source).stat().st_mode & 0o777
            return self._contents.keep(Path(one.source)), mode | 0o600
        except (OSError, JediError) as error:
            raise _Refused(f"{one.source} can't be read: {error}") from error

    # --------------------------------------------------------------------------------- folders

    def _place(self, backend_id: str) -> tuple[str, bool]:
        with self._file.reading() as db:
            row = db.execute(
                "SELECT place, single FROM local_jobs WHERE id = ?", (int(backend_id),)
            ).fetchone()
        if row is None:
            raise NotFound(f"Local has no job {backend_id}.")
        return row[0], bool(row[1])

    def _folder(self, backend_id: str, k: int) -> Path:
        place, single = self._place(backend_id)
        return runs.place_of(place, single, k)

    def _wake(self) -> None:
        """Wake the helper, or start one."""
        self._helpers = [one for one in self._helpers if one.poll() is None]
        helper.ring(self._home)
        with helper.alone(self._home) as nobody:
            pass
        if not nobody or (self._helpers and time.monotonic() < self._started + STARTS_S):
            return
        self._started = time.monotonic()
        with (self._home / "helper.log").open("ab") as log:
            self._helpers.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "jedi_client.gpi.local.helper", str(self._home)],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )


def _same(source: Path, copy: Path) -> bool:
    """True if a copy is of the present content, by its size and time."""
    try:
        old, new = copy.stat(), source.stat()
    except FileNotFoundError:
        return False
    return (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)


def _as_json(program: Program, files: Sequence[Any], inputs: Sequence[str]) -> str:
    return json.dumps(
        {
            "executable": program.executable,
            "args": list(program.args),
            "environment": dict(program.environment),
            "files": files,
            "inputs": list(inputs),
        }
    )


def _unkept(files: Sequence[SandboxFile]) -> list[tuple[str, str, None, int]]:
    return [(one.source, one.name, None, 0o755) for one in files]


def _must_be_here(executable: str, names: set[str]) -> None:
    """_Refused, unless the program is in the sandbox or on this machine."""
    if executable.removeprefix("./") in names:
        return
    if shutil.which(executable) is None:
        own = Path(executable).name
        mine = f' For your own file, take Script("{executable}").' if Path(own).is_file() else ""
        raise _Refused(f"There is no program {executable} on this machine.{mine}")


def _must_be_local(inputs: Sequence[str]) -> None:
    for name in inputs:
        if not Path(name).is_file():
            raise _Refused(f"There is no input {name} on this machine.")


def _ended(status: str | None) -> str:
    return f"It is {_STATUSES[status]} already." if status else "There is no such subjob."


def _word(counts: Mapping[Status, int]) -> str:
    if counts.get("running"):
        return "running"
    return "waiting" if counts.get("submitted") else "ended"


def _time(value: float | None) -> datetime | None:
    return None if value is None else datetime.fromtimestamp(value, UTC)


def _files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file()) if folder.is_dir() else []
