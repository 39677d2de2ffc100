"""The payload monitor: a process between pilot and payload that starts, watches and ends it.

Why a process of its own: when the pilot is killed with SIGKILL nobody could tidy up after it.
The monitor holds a *lifeline*, its standard input: the pilot keeps the other end and the kernel
closes it when the pilot dies, however it dies. A closed lifeline ends the payload; orders that come
over it end the payload, suspend it or let it go on. The monitor is
a subreaper, so every descendant, also one that forked twice and left its session, stays below it
and is found. If the monitor itself is killed, the shell dies with it (PDEATHSIG) and the orphans
fall to the pilot, a subreaper too.

It starts as a fresh Python without the pilot's environment: the token is nowhere in it. One monitor
serves payload after payload: to start a Python costs ten times a payload that does nothing. When
one begins, no process of the one before is alive. A monitor that has grown is replaced: the kernel
counts its size as the least that a payload used.

Input: lines. A payload is a line of JSON (see `payload.py`); HOLD, GO and END concern the payload
that runs. Output: lines of JSON, about one a second, {"measures": {...}, "tails": [stdout,
stderr]}; the last one of a payload has "end" in addition, with "last" if the monitor ends, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import math
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import procs
from .base import END, GO, HOLD, PayloadFailure
from .command import shell_arguments
from .disk import DISK_FULL, SharedDisk
from .event_lines import READ_FD, WRITE_FD
from .monitor_pipes import LIFELINE, Lifeline, Tail
from .private_directories import PrivateDirectories, SharedDirectories
from .stage import remove_tree
from .verdict import breach, judge

_FIRST_SAMPLES_S = (0.05, 0.2, 0.5)  # short payloads are measured too
_SAMPLE_S = 1.0
_PSS_S = 5.0
_WALK_SLICE_S = 0.1
_LAST_WALK_S = 5.0
_LAST_OUTPUT_S = 5.0
_EVENTS = (READ_FD, WRITE_FD)
_GROWTH_KB = 8192
"""Growth of a monitor that serves no other payload."""
_MIB = 1 << 20


class DirectoryMeter:
    """Disk use of directory trees, measured in slices, so that a huge tree delays nothing else.

    An entry counts at least 1 kB: a flood of empty files meets the limit, too. So does a tree
    nested deeper than a path can be written.
    """

    def __init__(self, roots: list[str], more: Callable[[], list[str]] = list) -> None:
        self._roots, self._more = roots, more
        self._walk = self._steps()
        self._counted_kb = 0
        self._whole_kb = 0
        self._too_deep = False
        self.peak_kb = 0

    def step(self, seconds: float) -> float:
        """Go on for a while; the latest known size in MB (a lower bound during a long walk)."""
        until = time.monotonic() + seconds
        for finished in self._walk:
            if finished or time.monotonic() > until:
                break
        size_kb = max(self._whole_kb, self._counted_kb)
        self.peak_kb = max(self.peak_kb, size_kb)
        return math.inf if self._too_deep else size_kb / 1024

    def _steps(self) -> Iterator[bool]:
        """Endless; True at the end of each whole walk."""
        while True:
            self._counted_kb = 0
            pending = list(self._roots)
            for path in self._more():
                with contextlib.suppress(FileNotFoundError):
                    self._count(os.lstat(path))
                pending.append(path)
            while pending:
                yield False
                try:
                    self._measure(pending.pop(), pending)
                except OSError as error:  # else: it vanished, or is closed to us
                    self._too_deep |= error.errno == errno.ENAMETOOLONG
            self._whole_kb = self._counted_kb
            yield True

    def _measure(self, directory: str, pending: list[str]) -> None:
        """Add up one directory; its subdirectories are left to do."""
        with os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    self._count(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)

    def _count(self, info: os.stat_result) -> None:
        self._counted_kb += max(1, info.st_blocks // 2)


class PayloadMonitor:
    """One payload: `run()` returns when neither it nor a descendant is alive."""

    def __init__(self, spec: dict[str, Any], lifeline: Lifeline, most_kb: float = math.inf) -> None:
        self._lifeline, self._most_kb = lifeline, most_kb
        self._command: str = spec["command"]
        self._cwd: str = spec["cwd"]
        self._env: dict[str, str] = spec["env"]
        self._user = procs.PayloadAccount(*spec["user"]) if spec["user"] else None
        self._events = _EVENTS if spec.get("events") else ()
        self._limits: dict[str, int] = {name: n for name, n in spec["limits"].items() if n}
        self._attempt = Path(spec["attempt"])
        own = self._attempt / "own"
        self._apart: PrivateDirectories | None = PrivateDirectories(
            own, (str(self._attempt), *spec["share"]), self._cwd
        )
        self._commons = SharedDirectories(self._user)
        self._directories = [self._cwd, self._env["TMPDIR"], str(own)]
        self._meter = DirectoryMeter(self._directories, self._common)
        self._out = Tail(self._attempt / "payload.stdout")
        self._err = Tail(self._attempt / "payload.stderr")
        self._selector = selectors.DefaultSelector()
        self._told_tails: list[str] = []
        self._failure: PayloadFailure | None = None
        self._told_to_end = self._pilot_gone = False
        self._max_rss_kb = self._max_pss_kb = 0
        self._cpu_s = 0.0
        self._started = time.monotonic()
        self._held_since: float | None = None
        self._held_s = 0.0  # in holds that are over
        self._next_pss = 0.0
        self._ended_cpu_s = _ended_cpu_s()  # of the payloads before
        self._io_before = _payload_io()
        self._open = contextlib.ExitStack()

    def run(self) -> bool:
        """Run it to its end. False: this process must not serve another one, because a process of
        this one can't be ended, or it has more than `most_kb` of memory."""
        with self._open:
            return self._run()

    def _run(self) -> bool:
        self._part()
        self._disk = SharedDisk(self._attempt, self._limits, self._meter.step(_LAST_WALK_S))
        shell = self._start()
        for fd in self._events:  # else the pilot would never see the payload's end of them
            os.close(fd)
        children = self._children = procs.Children(shell.pid)
        self._listen(shell)
        self._tell()
        samples = iter(_FIRST_SAMPLES_S)
        due = self._started + next(samples)
        while children.status is None and self._failure is None and not self._told_to_end:
            self._pump(max(0.0, due - time.monotonic()))
            children.reap()
            if time.monotonic() >= due:
                self._sample()
                due = next(samples, time.monotonic() - self._started + _SAMPLE_S) + self._started
        wall_s = self._wall_s()
        if children.status and self._failure is None:
            # the kernel's bound on a fork bomb may have ended the shell before a sample
            self._failure = self._too_many(procs.descendants(os.getpid()))
        nobody_left = children.end_all()
        fit = self._finish(children.status, wall_s, nobody_left)
        shell.returncode = 0  # reaped above; nothing waits for it
        return fit

    # -- start

    def _part(self) -> None:
        """Make the payload's own places, if the kernel will let it have them."""
        assert self._apart
        self._apart.make(self._user)
        if not self._apart.possible():
            self._apart = None

    def _common(self) -> list[str]:
        """The payload's files in directories that it shares with others."""
        return [] if self._apart else self._commons.left()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", *shell_arguments(self._command, self._attempt)],
            cwd=self._cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=self._events,
            preexec_fn=self._child_setup(),  # noqa: PLW1509 - this process has one thread
        )

    def _child_setup(self) -> Callable[[], None]:
        """Return the steps of the child between fork and exec."""
        monitor, rlimits = os.getpid(), self._rlimits()

        def setup() -> None:
            os.umask(0o022)
            with contextlib.suppress(OSError):  # out of memory: end this, not the host's services
                Path("/proc/self/oom_score_adj").write_text("700")
            for kind, soft, hard in rlimits:
                bound = resource.getrlimit(kind)[1]
                bound = sys.maxsize if bound == resource.RLIM_INFINITY else bound
                resource.setrlimit(kind, (min(soft, bound), min(hard, bound)))
            if self._apart:
                self._apart.enter()
            if self._user:
                procs.become(self._user)
            procs.gain_no_rights()
            procs.die_with_parent(monitor)

        return setup

    def _rlimits(self) -> list[tuple[int, int, int]]:
        """(which, soft, hard) of the kernel's bounds."""
        rlimits = [(resource.RLIMIT_CORE, 0, 0)]
        if cpu_s := self._limits.get("cpu_s"):
            rlimits.append((resource.RLIMIT_CPU, cpu_s, cpu_s + 5))
        if memory_mb := self._limits.get("memory_mb"):
            rlimits.append((resource.RLIMIT_AS, memory_mb * _MIB, memory_mb * _MIB))
        if workdir_mb := self._limits.get("workdir_mb"):
            rlimits.append((resource.RLIMIT_FSIZE, workdir_mb * _MIB, workdir_mb * _MIB))
        if processes := self._limits.get("max_processes"):
            # The samples keep the limit itself. The kernel counts a user's processes and threads
            # together, so here it only bounds what a fork bomb reaches within a second: a host
            # of n cores runs about n payloads of this user, each process with a few threads.
            uid = self._user.uid if self._user else os.getuid()
            most = procs.tasks_of(uid) + 4 * processes * (os.cpu_count() or 1)
            rlimits.append((resource.RLIMIT_NPROC, most, most))
        return rlimits

    def _listen(self, shell: subprocess.Popen[bytes]) -> None:
        """Everything that may happen becomes readable: lifeline, output, the death of a child."""
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
            self._open.callback(os.close, fd)
        self._open.callback(signal.set_wakeup_fd, -1)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._open.enter_context(self._selector)
        self._register(wake_read, lambda: os.read(wake_read, 4096))
        self._register(LIFELINE, self._hear)
        self._obey()  # orders that came with the payload
        for stream, tail in ((shell.stdout, self._out), (shell.stderr, self._err)):
            assert stream is not None
            self._open.enter_context(stream)
            os.set_blocking(stream.fileno(), False)
            self._register(stream.fileno(), functools.partial(self._read, stream.fileno(), tail))

    # -- events

    def _register(self, fd: int, action: Callable[[], object]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, action)

    def _hear(self) -> None:
        self._lifeline.read()
        if self._lifeline.closed:
            self._told_to_end = True
            self._selector.unregister(LIFELINE)
        self._obey()

    def _obey(self) -> None:
        for order in self._lifeline.lines():
            if order == END:
                self._told_to_end = True
            elif order == HOLD and self._held_since is None:
                procs.suspend()
                self._held_since = time.monotonic()
            elif order == GO and self._held_since is not None:
                procs.resume()
                self._held_s += time.monotonic() - self._held_since
                self._held_since = None

    def _read(self, fd: int, tail: Tail) -> None:
        data = os.read(fd, 1 << 16)
        tail.feed(data)
        if not data:
            self._selector.unregister(fd)

    def _pump(self, timeout: float) -> bool:
        """Handle events; False: there were none."""
        events = self._selector.select(timeout)
        for key, _ in events:
            key.data()
        return bool(events)

    # -- figures

    def _wall_s(self) -> float:
        """The time that the payload has run; holds do not count."""
        return (self._held_since or time.monotonic()) - self._started - self._held_s

    def _sample(self) -> None:
        below = procs.descendants(os.getpid())
        self._failure = self._too_many(below)
        if self._failure is not None:  # to look closer at a fork bomb would only let it grow
            return
        wall_s = self._wall_s()
        self._note_cpu(sum(proc.cpu_ticks for proc in below) / procs.TICKS)
        rss_kb = sum(proc.rss_pages for proc in below) * procs.PAGE_KB
        pss_kb = 0
        if wall_s >= self._next_pss:
            self._next_pss = 0.0 if wall_s < _SAMPLE_S else wall_s + _PSS_S
            pss_kb = sum(procs.pss_kb(proc.pid) for proc in below)
        self._max_rss_kb = max(self._max_rss_kb, rss_kb)
        self._max_pss_kb = max(self._max_pss_kb, pss_kb)
        size_mb = self._meter.step(_WALK_SLICE_S)
        used = {
            "wall_s": wall_s,
            "cpu_s": self._cpu_s,
            "memory_mb": pss_kb / 1024,
            "workdir_mb": size_mb,
        }
        pids = [proc.pid for proc in below]
        self._failure = breach(used, self._limits) or self._disk.judge(size_mb, pids)
        self._tell()

    def _too_many(self, below: Sequence[object]) -> PayloadFailure | None:
        return breach({"max_processes": len(below)}, self._limits)

    def _note_cpu(self, living_s: float) -> None:
        """CPU time of the reaped and of the living: some of it can get lost, none comes back."""
        self._cpu_s = max(self._cpu_s, _ended_cpu_s() - self._ended_cpu_s + living_s)

    def _measures(self, wall_s: float) -> dict[str, float]:
        read, written = (now - old for now, old in zip(_payload_io(), self._io_before, strict=True))
        return {
            "cpu_s": round(self._cpu_s, 3),
            "max_rss_kb": self._max_rss_kb,
            "max_pss_kb": self._max_pss_kb,
            "read_bytes": max(0, read),
            "write_bytes": max(0, written),
            "workdir_kb": self._meter.peak_kb,
            "wall_s": round(wall_s, 3),
        }

    # -- end

    def _finish(self, status: int | None, wall_s: float, nobody_left: bool) -> bool:
        """All processes have ended: collect the last output and figures, and report them to the
        pilot. True if this process can serve another payload."""
        until = time.monotonic() + _LAST_OUTPUT_S  # a stranger may have been handed the pipe
        while self._pump(0.0) and time.monotonic() < until:
            continue
        # the kernel's peak of the largest single process, which no sample need have met; it
        # includes the fork before the exec, so it is never below our own size
        peak_kb = self._children.max_rss_kb
        self._max_rss_kb = max(self._max_rss_kb, peak_kb)
        self._max_pss_kb = max(self._max_pss_kb, peak_kb)
        self._note_cpu(0.0)
        size_mb = self._meter.step(_LAST_WALK_S)
        if status and self._failure is None:  # it may have met the end of the disk itself
            self._failure = self._disk.judge(size_mb, [])
        if self._failure and self._failure.code == DISK_FULL:
            for directory in self._directories:  # the log needs room
                remove_tree(Path(directory))
        if not self._apart:
            self._commons.sweep()
        self._out.save()
        self._err.save()
        exit_code = None if status is None else os.waitstatus_to_exitcode(status)
        # the shell may hide that one of its children met the bound on CPU time
        failure = self._failure or breach({"cpu_s": self._cpu_s}, self._limits)
        if failure is None and exit_code is not None:
            failure = judge(exit_code, self._err.text(), self._limits)
        why = [failure.code, failure.sentence] if failure else None
        fit = nobody_left and procs.resident_kb() <= self._most_kb
        self._tell(wall_s, {"exit_code": exit_code, "failure": why, "last": not fit})
        if self._pilot_gone:  # nobody else knows of this directory
            remove_tree(self._attempt)
        return fit

    def _tell(self, wall_s: float | None = None, end: dict[str, Any] | None = None) -> None:
        line: dict[str, Any] = {"measures": self._measures(wall_s or self._wall_s())}
        tails = [self._out.text(), self._err.text()]
        if tails != self._told_tails:
            line["tails"] = self._told_tails = tails
        if end is not None:
            line["end"] = end
        try:
            sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._told_to_end = self._pilot_gone = True


def _ended_cpu_s() -> float:
    """Processor time of all processes that were reaped here."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    return reaped.ru_utime + reaped.ru_stime


def _payload_io() -> tuple[int, int]:
    """Bytes read and written by all processes that were reaped here. The kernel adds them to the
    account of this process; the account of its only thread stands apart and is taken off."""
    read, written = procs.io_bytes("/proc/self/io")
    own_read, own_written = procs.io_bytes("/proc/thread-self/io")
    return read - own_read, written - own_written


def main() -> None:
    os.umask(0o077)  # the payload's own is another one
    for order in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # to the pilot; it ends this, too
        signal.signal(order, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the pilot blocks what its threads wait for
    procs.become_subreaper()
    lifeline = Lifeline()
    most_kb = procs.resident_kb() + _GROWTH_KB
    while (spec := lifeline.next_payload()) is not None:
        _log_to(Path(spec["attempt"], "pilot.log"))
        if spec.get("events"):
            _renumber(spec["events"])
        if not PayloadMonitor(spec, lifeline, most_kb).run():
            return  # the next payload must not meet the processes, nor the size, of this one


def _log_to(log: Path) -> None:
    """Write errors of this process to the log of the payload's attempt."""
    with log.open("ab") as stderr:
        os.dup2(stderr.fileno(), 2)


def _renumber(given: list[int]) -> None:
    """Give the payload's descriptors for events the numbers that it knows, before anything else is
    opened."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(_EVENTS) + 1) for fd in given]
    for fd in given:
        os.close(fd)
    for place, fd in enumerate(high):
        os.dup2(fd, _EVENTS[place], inheritable=False)
        os.close(fd)
