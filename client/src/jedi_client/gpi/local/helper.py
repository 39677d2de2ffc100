"""The helper process of backend Local: `python -m jedi_client.gpi.local.helper HOME`.

It starts waiting runs, notes their ends, kills, and ends by itself when nothing is left. One helper
at a time serves a home. Killed at any instant, it is followed by another, which finds the runs by
the numbers and births of their processes.

Source: docs/reference/ganga.md#local.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from jedi_client.errors import JediError
from jedi_client.gpi.contents import Contents
from jedi_client.gpi.local import payload, runs
from jedi_client.gpi.local.payload import Launched, PayloadProblem
from jedi_client.gpi.local.processes import lives, signal_group
from jedi_client.gpi.local.runs import LocalRun, RunEnd
from jedi_client.gpi.store.database import RegistryFile

IDLE_S = 10.0
"""Seconds without work after which the helper ends."""
GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
LOOK_S = 0.25
"""Seconds between two looks at runs of an earlier helper, and at ones that are being killed."""
AGAIN_S = 2.0
"""Seconds until the next try after a passing error of the file."""
PASSING = ("no_space", "registry_busy")
"""Codes of passing errors of the file."""
PROBES_S = 0.5
"""Seconds that a new helper tries to get the lock. Sessions hold it for an instant to see whether
there is a helper."""


class Helper:
    """The runs of a home that are under way."""

    def __init__(self, home: Path, cores: int) -> None:
        self.file = RegistryFile(home / "registry.db")
        self.contents = Contents(home / "contents")
        self.cores = cores
        self._ours: dict[tuple[int, int], Launched] = {}
        self._found: dict[tuple[int, int], LocalRun] = {}
        self._dying: dict[tuple[int, int], float] = {}
        self._ends: dict[tuple[int, int], tuple[LocalRun, RunEnd]] = {}

    def adopt(self) -> None:
        """Take over the runs of an earlier helper."""
        with self.file.reading() as db:
            self._found = {(one.job, one.k): one for one in runs.running(db)}

    @property
    def busy(self) -> bool:
        """True if a run is under way, or its end not yet written."""
        return bool(self._ours or self._found or self._ends)

    @property
    def pause_s(self) -> float:
        """Seconds until the next look, if no child ends and nobody writes."""
        return LOOK_S if self._found or self._dying else IDLE_S

    def step(self) -> bool:
        """Write ends, kill, and start runs. Return True if anything happened."""
        self._look_at_ends()
        with self.file.reading() as db:
            doomed = runs.to_kill(db)
            busy = Counter(job for job, _ in (*self._ours, *self._found))
            chosen = runs.waiting(db, busy, self.cores, self._ends)
        self._kill(doomed)
        launched, failed = self._launch(chosen)
        if not (self._ends or launched or failed):
            return False
        again = [run for run, end in self._ends.values() if end.status == "waiting"]
        ends = [end for _, end in self._ends.values() if end.status != "waiting"]
        try:
            with self.file.writing() as db:
                runs.changing(db)
                runs.end(db, [*ends, *failed])
                runs.wait_again(db, again)
                noted = runs.start(
                    db,
                    (
                        (one.run.job, one.run.k, one.run.attempt, one.process.pid, one.born)
                        for one in launched
                    ),
                )
        except BaseException:
            for one in launched:
                one.forget()
            raise
        for run, end in self._ends.values():
            if end.status != "waiting" and end.kept:
                payload.clean(run)
        self._ends.clear()
        for one in launched:
            key = one.run.job, one.run.k
            if key in noted:
                self._ours[key] = one
                one.go()
            else:
                one.forget()
        return True

    def _look_at_ends(self) -> None:
        for key, one in list(self._ours.items()):
            if one.process.poll() is not None:
                self._ended(key, one.run)
                del self._ours[key]
        for key, run in list(self._found.items()):
            if not lives(run.pid, run.born):
                self._ended(key, run)
                del self._found[key]

    def _ended(self, key: tuple[int, int], run: LocalRun) -> None:
        """The end of a run whose process is gone."""
        code = payload.exit_code(run.folder)
        killed = self._dying.pop(key, None) is not None or (run.to_kill and code != 0)
        if killed or code is None:
            self._signal(run, signal.SIGKILL)
        self._ends[key] = run, _end_of(run, code, killed=killed)

    def _signal(self, run: LocalRun, number: signal.Signals) -> None:
        """Send a signal to all processes of a run."""
        one = self._ours.get((run.job, run.k))
        pid, birth = (one.process.pid, one.born) if one else (run.pid, run.born)
        if pid:
            signal_group(pid, birth, number)

    def _kill(self, doomed: list[tuple[int, int]]) -> None:
        """End the processes of runs: first politely. A run that has its exit code is over."""
        now = time.monotonic()
        for key in doomed:
            one = self._ours.get(key)
            found = one.run if one else self._found.get(key)
            if found is None or (
                key not in self._dying and payload.exit_code(found.folder) is not None
            ):
                continue
            first = self._dying.setdefault(key, now)
            late = now > first + GRACE_S
            if first == now or late:
                self._signal(found, signal.SIGKILL if late else signal.SIGTERM)

    def _launch(self, chosen: list[LocalRun]) -> tuple[list[Launched], list[RunEnd]]:
        """Prepare runs; the others have failed."""
        launched, failed = [], []
        for run in chosen:
            new = _attempt(run)
            try:
                launched.append(payload.launch(new, self.contents))
            except PayloadProblem as error:
                now = time.time()
                failed.append(
                    RunEnd(new.job, new.k, new.attempt, "failed", None, f"{error}.", now, now)
                )
        return launched, failed


def _attempt(run: LocalRun) -> LocalRun:
    return LocalRun(
        run.job,
        run.k,
        run.attempt + 1,
        run.program,
        run.place,
        run.outputs,
        run.environment,
        None,
        None,
        False,
    )


def _end_of(run: LocalRun, code: int | None, *, killed: bool) -> RunEnd:
    """The end that the files of an attempt show."""
    started, ended = payload.times(run.folder)
    last = ended or time.time()

    def end(status: str, reason: str | None, *, kept: bool = True) -> RunEnd:
        return RunEnd(run.job, run.k, run.attempt, status, code, reason, started, last, kept)

    if code is None and not killed and not payload.began(run.folder):
        return end("waiting", None)
    try:
        missing = payload.collect(run)
    except PayloadProblem as error:
        why = f"{error}. They are still in {run.folder / 'work'}."
        return end("killed" if killed else "failed", why, kept=False)
    if killed:
        return end("killed", "It was killed.")
    if code is None:
        return end(
            "failed",
            "Its process ended without an exit code: somebody killed it, or this "
            "machine went down.",
        )
    if code:
        return end("failed", _said(code, run))
    if missing:
        return end("failed", f"It made no {', '.join(missing)}.")
    return end("completed", None)


def _said(code: int, run: LocalRun) -> str:
    """An exit code in words."""
    if code > 128:
        with suppress(ValueError):
            return f"It was ended by {signal.Signals(code - 128).name}."
    name = run.program["executable"]
    meaning = {126: f": {name} can't be executed", 127: f": there is no program {name}"}
    return f"Its exit code is {code}{meaning.get(code, '')}."


@contextmanager
def alone(home: Path, patience_s: float = 0.0) -> Iterator[bool]:
    """The right to be the helper of a home; False: another one is, also after some patience."""
    until = time.monotonic() + patience_s
    with (home / "helper.lock").open("a") as file:
        while not (mine := _locked(file)) and time.monotonic() < until:
            time.sleep(0.02)
        try:
            yield mine
        finally:
            if mine:  # a process that was forked meanwhile has the file open, too
                fcntl.flock(file, fcntl.LOCK_UN)


def _locked(file: IO[str]) -> bool:
    """Lock a file. Return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


class Bell:
    """Wakes the helper: sessions write to a pipe with a name, and ending children ring, too."""

    def __init__(self, home: Path) -> None:
        path = home / "helper.fifo"
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        os.set_blocking(self._read, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, longest_s: float) -> None:
        """Wait for a ring, but not longer."""
        ready, _, _ = select.select([self._pipe, self._read], [], [], longest_s)
        for fd in ready:
            with suppress(BlockingIOError):
                os.read(fd, 65536)


def ring(home: Path) -> None:
    """Wake the helper of a home, if there is one."""
    with suppress(OSError):
        pipe = os.open(home / "helper.fifo", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b"\n")
        finally:
            os.close(pipe)


def serve(home: Path, idle_s: float = IDLE_S) -> None:
    """Serve a home until nothing is left to do, unless another helper does."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    while True:
        with alone(home, PROBES_S) as mine:
            if not mine:
                return
            helper = Helper(home, cores or 1)
            _serve(helper, Bell(home), idle_s)
        with helper.file.reading() as db:  # work that came while the lock was still held
            if not runs.is_waiting(db):
                return


def _serve(helper: Helper, bell: Bell, idle_s: float) -> None:
    helper.adopt()
    quiet_since = time.monotonic()
    while helper.busy or time.monotonic() < quiet_since + idle_s:
        try:
            happened = helper.step()
        except JediError as error:
            if error.code not in PASSING:
                raise
            print(error, file=sys.stderr, flush=True)
            bell.wait(AGAIN_S)
            happened = True
        if happened:
            quiet_since = time.monotonic()
        bell.wait(0.0 if happened else min(helper.pause_s, idle_s))


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    serve(Path(sys.argv[1]), float(os.environ.get("JEDI_HELPER_IDLE_S", IDLE_S)))
