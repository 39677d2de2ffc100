"""Processes forked from this one: they share its loaded modules, in memory and in time.

Threads of a process that forks hold `QUIET` while they work: a fork between them would copy locks
that nobody gives back.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.context import ForkProcess
from typing import IO

from setproctitle import getproctitle, setproctitle

from jedi.core import clock

QUIET = threading.Lock()
PATIENCE_S = 1.0
"""Seconds to wait for the threads of this process."""
_POLL_S = 0.02

os.environ.setdefault("SPT_NOENV", "1")  # titles leave the environment as /proc shows it
getproctitle()  # it finds the place of the title before the environment changes more
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Fork:
    """A forked process, with the methods of `subprocess.Popen` that a parent needs."""

    def __init__(self, process: ForkProcess, leash: IO[bytes]) -> None:
        self._process, self.stdin = process, leash
        self.terminate, self.kill = process.terminate, process.kill

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it lives."""
        return self._process.exitcode

    def wait(self, timeout: float = math.inf) -> int:
        """Wait for its end; subprocess.TimeoutExpired after `timeout` seconds. It closed the file
        by which `join` waits."""
        deadline = clock.monotonic() + timeout
        while (code := self.poll()) is None:
            if clock.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._process.name, timeout)
            time.sleep(_POLL_S)
        return code


def start(
    main: Callable[[], object], title: str, output: IO[bytes], environment: Mapping[str, str]
) -> Fork | None:
    """Fork a process that runs `main`, in a session of its own, with `output` as its output and
    the reading end of a pipe as its input. None if threads of this one are at work, or if the
    system's libraries do not take a fork without exec (macOS)."""
    if sys.platform != "linux" or not QUIET.acquire(timeout=PATIENCE_S):
        return None
    read, write = os.pipe()
    leash = os.fdopen(write, "wb")
    try:
        process = multiprocessing.get_context("fork").Process(
            target=_be, args=(main, title, read, output.fileno(), environment), name=title
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the threads are quiet
            process.start()
    except OSError:  # no more processes, or no memory: try again later
        leash.close()
        raise
    finally:
        os.close(read)
        QUIET.release()
    return Fork(process, leash)


class Daemon:
    """A forked process that outlives this one."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def outlive(
    main: Callable[[], object], title: str, output: IO[bytes], environment: Mapping[str, str]
) -> Daemon | None:
    """Fork a process that runs `main`, in a session of its own, with `output` as its output and no
    input. This process has one thread. None on systems whose libraries take no fork."""
    if sys.platform != "linux":
        return None
    nothing = os.open(os.devnull, os.O_RDONLY)
    if pid := os.fork():
        os.close(nothing)
        return Daemon(pid)
    code: object = 1
    try:
        _be(main, title, nothing, output.fileno(), environment)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - above is the parent's work, which this one must not do
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else code is not None)


def become_leader() -> None:
    """Lead a session of its own, and take signals as a new process does. For forked processes."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _be(
    main: Callable[[], object], title: str, read: int, output: int, environment: Mapping[str, str]
) -> None:
    """Be the child. The parent's objects stay as they are; their files are closed."""
    become_leader()
    if QUIET.locked():  # by the parent, for this fork
        QUIET.release()
    for source, target in ((read, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", buffering=1, closefd=False)  # a fork of a fork lets go of the first
        for number in (1, 2)
    )
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.update(environment)
    setproctitle(title)
    main()
