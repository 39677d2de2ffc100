"""The disk that payloads share: the one that fills it ends, its neighbours do not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support.pilot_world import DEADLINE_S, ROOT, World, wait_until

from jedi.pilot.disk import to_blame

LIMITS = {"min_free_mb": 1000, "min_free_percent": 5}
WRITE = "dd if=/dev/zero of={place} bs=1M count={mb} 2>/dev/null"


@pytest.fixture
def world() -> Iterator[World]:
    """A world whose work directory is a disk of 200 MB: its floor is 10 MB."""
    if not ROOT:
        pytest.skip("needs root")
    with World() as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs", str(place.work)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("the machine mounts nothing")
        try:
            yield place
        finally:
            for pilot in place.pilots:
                pilot.kill()
                pilot.wait()
            wait_until(lambda: not place.leftovers(), "a payload outlived its pilot")
            subprocess.run(["umount", "-l", str(place.work)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        WRITE.format(place="big", mb=195) + "; sleep 60",
        WRITE.format(place="/tmp/big", mb=195) + "; sleep 60",
        WRITE.format(place="big", mb=500),  # it meets the end of the disk within a moment
        "exec 3> gone; rm gone; " + WRITE.format(place="/proc/self/fd/3", mb=195) + "; sleep 60",
    ],
    ids=["work", "tmp", "full", "unlinked"],
)
def test_the_payload_that_fills_the_disk_ends(world: World, command: str) -> None:
    """The floor is 1 GB or 5 %, whichever is less: 10 of 200 MB. The log survives, and nothing of
    the payload stays on the disk."""
    last = world.run(f"echo begins; {command}", limits=LIMITS)
    assert (last["status"], last["error_code"]) == ("failed", "disk_full"), last
    assert "Pilots keep 10 MB of it free." in last["error_diag"]
    assert world.log()["payload.stdout"].decode().startswith("begins")
    assert shutil.disk_usage(world.work).used < 1 << 20


def test_neighbours_that_use_little_go_on(world: World) -> None:
    """The job that grew ends, not its neighbour, even one that wrote more than the floor; inputs
    are nobody's growth."""
    trace = world.scratch / "over"
    inputs = [world.file("in", b"x" * (60 << 20))]
    small = world.order(
        WRITE.format(place="some", mb=20) + f"; echo x > {world.scratch}/wrote; "
        f"until [ -e {trace} ]; do sleep 0.1; done; sleep 2",
        limits=LIMITS,
        inputs=inputs,
    )
    first = world.start()
    world.trace("wrote")
    big = world.order(WRITE.format(place="big", mb=114) + "; sleep 60", limits=LIMITS)
    assert world.start().wait(DEADLINE_S) == 0
    trace.touch()
    assert first.wait(DEADLINE_S) == 0
    ends = {report["pandaid"]: report.get("error_code") for report in world.service.reports()}
    assert ends == {small["pandaid"]: None, big["pandaid"]: "disk_full"}


def test_without_a_floor_nobody_ends(world: World) -> None:
    last = world.run(WRITE.format(place="big", mb=195), limits={"min_free_percent": 5})
    assert last["status"] == "finished"


def test_to_blame() -> None:
    """The one that wrote most; nobody, if all wrote less than a tenth of the floor."""
    assert to_blame(5000, [4000, 10], 1000)
    assert not to_blame(4000, [5000, 10], 1000)
    assert not to_blame(99, [10], 1000)
    assert to_blame(101, [], 1000)
