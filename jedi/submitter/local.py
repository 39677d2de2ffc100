"""The local engine: pilots are processes of this machine, each in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from jedi.host import logfiles, processes
from jedi.host.home import SystemAccount
from jedi.host.processes import Process
from jedi.submitter.interface import Handle, KnownPilot, PilotEnd, Seen, Sent, Slot, Start

PILOT = Path(__file__).parents[1] / "pilot"
LOGS_KEPT = 1000
START_S = 5.0
"""A pilot whose process nobody has noted for so long is looked for in the process table."""

END_S = 10.0
_PATH = "/usr/local/bin:/usr/bin:/bin"
_SAID_BYTES = 500
_CRASH = ("JEDI_CRASH", "JEDI_CRASH_MARK")  # points in the pilot, for tests


class LocalEngine:
    """The engine: see `port.Engine`. Pilots that it started itself are its children, whose exit
    codes it learns."""

    at_hand = True

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def look(self, pilots: Sequence[KnownPilot]) -> Seen:
        seen = Seen()
        for pilot in pilots:
            child = self._children.get(pilot.pilot_id)
            if child:
                if (code := child.poll()) is not None:
                    seen.gone[pilot.pilot_id] = PilotEnd(describe_end(code), code != 0)
            elif pilot.process:
                if not pilot.process.alive():
                    seen.gone[pilot.pilot_id] = _gone(pilot)
            elif pilot.age_s > START_S:
                if process := find(pilot.pilot_id):
                    seen.found[pilot.pilot_id] = Handle(process)
                else:
                    seen.gone[pilot.pilot_id] = _gone(pilot)
        return seen

    def submit(self, slot: Slot, starts: Sequence[Start]) -> Sent:
        self._logs.mkdir(parents=True, exist_ok=True)
        prune(self._logs)
        for pilot in starts:
            argv = command(slot, pilot.pilot_id, pilot.account)
            log = self._logs / f"{pilot.pilot_id}.log"
            self._children[pilot.pilot_id] = start(argv, pilot_environment(slot, pilot.token), log)
        noted = {p.pilot_id: processes.note(self._children[p.pilot_id].pid) for p in starts}
        return Sent({pilot: Handle(process) for pilot, process in noted.items() if process})

    def cancel(self, pilots: Sequence[KnownPilot]) -> None:
        processes.end([pilot.process for pilot in pilots if pilot.process], END_S)

    def forget(self, pilots: Sequence[KnownPilot]) -> None:
        for pilot in pilots:
            self._children.pop(pilot.pilot_id, None)

    def tidy(self, attempt: Path) -> None:
        tidy(attempt)


def command(
    slot: Slot, pilot_id: str, account: SystemAccount | None, folder: Path | None = None
) -> list[str]:
    """The command line of a pilot; its name, the last word, marks the process. `account` runs
    its payloads (None: who runs the pilot); `folder` has its code, if it is not ours."""
    options = {
        "site": slot.site,
        "work": slot.work,
        "cores": slot.shape.cores,
        "memory-mb": slot.shape.memory_mb,
        "disk-mb": slot.shape.disk_mb,
        "min-cores": slot.shape.min_cores or None,
        "min-memory-mb": slot.shape.min_memory_mb or None,
        "max-jobs": slot.max_jobs,
        "idle-s": slot.idle_s,
        "heartbeat-s": slot.heartbeat_s,
        "path": slot.path,
        "walltime-s": slot.walltime_s,
        "payload-user": f"{account.uid}:{account.gid}" if account else None,
        "pilot-id": pilot_id,
    }
    words = [("--share", path) for path in slot.share]
    words += [(f"--{name}", str(value)) for name, value in options.items() if value is not None]
    return [slot.python, "-I", str(folder or PILOT), *(word for pair in words for word in pair)]


def pilot_environment(slot: Slot, token: str) -> dict[str, str]:
    """Return the settings that a pilot gets outside its command line, which other users can
    read."""
    certificate = {"JEDI_PILOT_CERTIFICATE": str(slot.certificate)} if slot.certificate else {}
    return {"JEDI_PILOT_URL": slot.url, "JEDI_PILOT_TOKEN": token, **certificate}


def start(argv: list[str], secrets: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a pilot that outlives us and gets only the environment that it needs."""
    crash = {name: os.environ[name] for name in _CRASH if name in os.environ}
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={
                "PATH": os.environ.get("PATH", _PATH),
                **secrets,
                **crash,
            },
        )


def find(pilot_id: str) -> Process | None:
    """The process of a pilot, by its command line."""
    ending = f"--pilot-id\0{pilot_id}\0".encode()
    pids = (int(e.name) for e in _entries() if _read(e / "cmdline").endswith(ending))
    pid = next(pids, None)
    return None if pid is None else processes.note(pid)


def _gone(pilot: KnownPilot) -> PilotEnd:
    """The end of a pilot that is not our child: this machine may have come up since."""
    up_s = _read(Path("/proc/uptime")).split()[:1]
    if up_s and pilot.age_s > float(up_s[0]):
        return PilotEnd("is gone, as all before the start of its machine", code="lost_node")
    return PilotEnd(describe_end(None))


def describe_end(code: int | None) -> str:
    """A phrase about the end of a process, from its return code; None: not a child of ours."""
    if code is None:
        return "is gone"
    if code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def last_words(log: Path) -> str:
    """The last line of a pilot's log."""
    return logfiles.tail(log, _SAID_BYTES).rpartition("\n")[2]


def prune(logs: Path) -> None:
    """Keep only the newest logs."""
    ages = []
    for log in logs.iterdir():
        with suppress(FileNotFoundError):
            ages.append((log.stat().st_mtime_ns, log))
    for _, log in sorted(ages)[:-LOGS_KEPT]:
        log.unlink(missing_ok=True)


def tidy(attempt: Path) -> None:
    """End the rest of a dead pilot's payload, and remove the directory of the attempt.

    Mostly there is nothing to do: a payload and its directory go with its payload monitor. This is
    for a killed monitor.
    """
    before: list[Process] = []
    while (left := _leftovers(attempt)) and left != before:
        for process in left:  # stopped first: what is stopped can't fork
            process.signal(signal.SIGSTOP)
        processes.end(left, grace_s=0)
        before = left
    for argv in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        if os.path.lexists(attempt):
            subprocess.run([*argv, "--", str(attempt)], check=False, stderr=subprocess.DEVNULL)


def _leftovers(attempt: Path) -> list[Process]:
    """Processes that work in the attempt's directory, or whose environment says it is their home
    (both are this attempt's alone)."""
    home = f"HOME={attempt}/run".encode()
    notes = []
    for entry in _entries():
        cwd = ""
        with suppress(OSError):
            cwd = str((entry / "cwd").readlink())
        if cwd.startswith(f"{attempt}/") or home in _read(entry / "environ").split(b"\0"):
            notes.append(processes.note(int(entry.name)))
    return [process for process in notes if process]


def _entries() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(path: Path) -> bytes:
    """A file of /proc; empty when the process is gone or not ours to look at."""
    with suppress(OSError):
        return path.read_bytes()
    return b""
