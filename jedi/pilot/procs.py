"""Processes, as Linux shows them in /proc: our descendants, their use, their ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None, use_errno=True)

DATABASE_IDS = range(63900, 64000)
DATABASE_NAME = "postgres"
"""Accounts of databases on the same machine: each is the superuser of its database."""


@dataclass(frozen=True)
class PayloadAccount:
    """The unprivileged user that payloads run as."""

    uid: int
    gid: int
    name: str


def account(text: str | None) -> PayloadAccount | None:
    """The payload user named by NAME or uid:gid; None = ours. Root gets `nobody`, never itself.

    Raises ValueError with a remedy.
    """
    if os.geteuid() != 0:
        if text is not None and account_named(text).uid != os.geteuid():
            raise ValueError(f"only root can run payloads as {text}; leave --payload-user out")
        return None
    found = account_named(text or "nobody")
    if found.uid == 0:
        raise ValueError("payloads never run as root; name another --payload-user")
    if {found.uid, found.gid} & _database_ids():
        raise ValueError("payloads never run as a database's account; name another --payload-user")
    return found


def account_named(text: str) -> PayloadAccount:
    uid, colon, gid = text.partition(":")
    if colon and uid.isdigit() and gid.isdigit():
        return PayloadAccount(int(uid), int(gid), f"u{uid}")
    try:
        entry = pwd.getpwnam(text)
    except KeyError:
        raise ValueError(f"there is no user {text!r}; give a user's name or uid:gid") from None
    return PayloadAccount(entry.pw_uid, entry.pw_gid, entry.pw_name)


def has_name(uid: int) -> bool:
    """It is an account of this machine, which others than payloads may use."""
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _database_ids() -> set[int]:
    ids = set(DATABASE_IDS)
    with contextlib.suppress(KeyError):
        entry = pwd.getpwnam(DATABASE_NAME)
        ids |= {entry.pw_uid, entry.pw_gid}
    return ids


def become(user: PayloadAccount) -> None:
    """Give up root for good (in the child, before exec)."""
    os.setgroups([])
    os.setgid(user.gid)
    os.setuid(user.uid)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def hide() -> None:
    """Keep our memory and environment (the token) from other processes of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def become_subreaper() -> None:
    """From now on orphans among our descendants become our children, not pid 1's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def gain_no_rights() -> None:
    """From now on no program gives this process or its children more rights than they have, be it
    set-user-id or not."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when `parent` dies. After setuid: a change of user clears the wish."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(137)


@dataclass(frozen=True)
class Proc:
    """One line of /proc/<pid>/stat, as far as we need it."""

    pid: int
    ppid: int
    state: str
    cpu_ticks: int  # its own and those of the children it waited for
    threads: int
    rss_pages: int

    @property
    def alive(self) -> bool:
        """Not a zombie. A process whose first thread has ended shows Z too, but has others."""
        return self.state != "Z" or self.threads > 1


def _read(pid: int, name: str) -> bytes:
    """A file of /proc/<pid>; empty when the process is gone or not ours to look at."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _proc(pid: int) -> Proc | None:
    # the command's name stands in parentheses and may hold anything, parentheses too
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return None
    cpu = sum(int(field) for field in fields[11:15])
    return Proc(pid, int(fields[1]), fields[0].decode(), cpu, int(fields[17]), int(fields[21]))


def _pids() -> list[int]:
    names = os.listdir("/proc")  # noqa: PTH208 - each second, hundreds of them
    return [int(name) for name in names if name.isdigit()]


def descendants(root: int) -> list[Proc]:
    """All living processes below `root`."""
    children: dict[int, list[Proc]] = defaultdict(list)
    for pid in _pids():
        if (proc := _proc(pid)) is not None:
            children[proc.ppid].append(proc)
    procs, queue = [], [root]
    while queue:
        for proc in children.pop(queue.pop(), []):
            queue.append(proc.pid)
            if proc.alive:
                procs.append(proc)
    return procs


def tasks_of(uid: int) -> int:
    """Processes and threads that a user has now, as RLIMIT_NPROC counts."""
    count = 0
    for pid in _pids():
        try:
            if Path(f"/proc/{pid}").stat().st_uid == uid and (proc := _proc(pid)) is not None:
                count += proc.threads
        except OSError:
            continue
    return count


def pss_kb(pid: int) -> int:
    """Proportional set size: shared pages divided among their users."""
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1])
    return 0


def resident_kb() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


def io_bytes(path: str) -> tuple[int, int]:
    """Bytes read and written by system calls, from an `io` file of /proc."""
    try:
        text = Path(path).read_text()
    except OSError:
        return 0, 0
    numbers = dict(line.split(": ") for line in text.splitlines())
    return int(numbers["rchar"]), int(numbers["wchar"])


class Children:
    """The descendants of this process, a subreaper: reaping and ending them.

    While any descendant lives this process has a child (a living ancestor below us, or the orphan
    itself), so "waitpid knows no child" proves that nobody is left.
    """

    def __init__(self, main: int = 0) -> None:
        self._main = main
        self.status: int | None = None  # wait status of `main`, once it has ended
        self.max_rss_kb = 0  # of the largest process that was reaped, or that it had waited for

    def reap(self) -> bool:
        """Collect the dead; True while there are children."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.max_rss_kb = max(self.max_rss_kb, used.ru_maxrss)
            if pid == self._main:
                self.status = status

    def end_all(self, patience_s: float = 60.0) -> bool:
        """Kill every descendant and reap it; True if none is left.

        All are stopped before one is killed: a stopped process can't fork, so a fork bomb
        comes to rest, and it can't wait for its children, so no pid is recycled under our hand.
        Gives up after `patience_s`: a process in uninterruptible sleep can't be killed by anybody.
        """
        deadline = time.monotonic() + patience_s
        while (left := self.reap()) and time.monotonic() < deadline:
            for pid in suspend():
                _signal(pid, signal.SIGKILL)
            time.sleep(0.002)
        return not left


def suspend() -> set[int]:
    """Stop every descendant of this process, also new ones; which."""
    stopped: set[int] = set()
    while fresh := {proc.pid for proc in descendants(os.getpid())} - stopped:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def resume() -> None:
    """Let every descendant of this process go on."""
    for proc in descendants(os.getpid()):
        _signal(proc.pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone, or a setuid program: the next round sees
        return
