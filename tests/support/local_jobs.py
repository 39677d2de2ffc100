"""Jobs of backend Local: submissions, and waiting for real helper processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jedi_client.gpi.interfaces import JobState, Program, SandboxFile, Submission, UnitPlan
from jedi_client.gpi.local.backend import LocalBackend

TAKES_S = 20.0


def wait(done: Callable[[], object]) -> None:
    """Wait until it is so."""
    until = time.monotonic() + TAKES_S
    while not done():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.02)


def helper_of(home: Path) -> int | None:
    """The number of the helper process of a home."""
    shown = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True)
    for line in shown.stdout.splitlines():
        pid, _, args = line.strip().partition(" ")
        if args.endswith(f"local.helper {home}"):
            return int(pid)
    return None


def submission(
    home: Path,
    programs: Sequence[Program],
    *,
    key: str = "guid/0/1",
    outputs: Sequence[str] = (),
    sandbox: Sequence[SandboxFile] = (),
    inputs: Sequence[str] = (),
    single: bool = False,
    slots: int | None = None,
    keep_going: bool = True,
) -> Submission:
    units = [UnitPlan(k, program) for k, program in enumerate(programs)]
    document = {
        "splitter": None if single else {"type": "ArgSplitter"},
        "backend": {"type": "Local", "slots": slots},
    }
    place = home / "jobs" / key.split("/")[1]
    return Submission(
        key, "", document, programs[0], sandbox, inputs, outputs, units, None, keep_going, place
    )


def sh(script: str, *args: str, **environment: str) -> Program:
    return Program("sh", ("-c", script, "sh", *args), environment)


def state(local: LocalBackend, job: str) -> JobState:
    [found] = local.states({job: None})
    return found


def ended(local: LocalBackend, job: str) -> JobState:
    wait(lambda: state(local, job).status == "ended")
    return state(local, job)


def text(local: LocalBackend, job: str, k: int = 0, name: str = "stdout") -> str:
    return b"".join(local.log(job, k, None, name)).decode()
