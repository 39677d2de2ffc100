"""What payloads share with others of their machine: their own /tmp, or a counted and swept one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.pilot_world import DEADLINE_S, PAYLOAD_UID, PILOT, ROOT, Service, World

from jedi.pilot import private_directories, procs, stage

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
FLOOD = "for i in $(seq 6); do dd if=/dev/zero of={place}/{name}.$i bs=1M count=5; done; sleep 60"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as place:
        yield place


@pytest.fixture
def name() -> Iterator[str]:
    """Of files in shared places, none of which may be left."""
    name = f"jedi-test-{uuid.uuid4().hex}"
    yield name
    left = [path for place in PLACES for path in Path(place).glob(f"{name}*")]
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert left == []


def ordinary(world: World) -> subprocess.Popen[bytes]:
    """A pilot of an ordinary user."""
    python = next(
        (p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists()), None
    )
    if not ROOT:
        return world.start()
    if python is None:
        pytest.skip("no Python that an ordinary user can reach")
    shutil.copytree(PILOT, world.home / "pilot")
    for directory in (world.storage, world.work):
        directory.chmod(0o777)
    Path(world.url.removeprefix("unix:")).chmod(0o666)
    words = ["--site", "HERE", "--work", str(world.work), "--max-jobs", "1"]
    pilot = subprocess.Popen(
        [python, "-I", "pilot", *words],
        cwd=world.home,
        env={
            "PATH": os.environ["PATH"],
            "JEDI_PILOT_URL": world.url,
            "JEDI_PILOT_TOKEN": Service.TOKEN,
        },
        user=PAYLOAD_UID,
        group=PAYLOAD_UID,
        extra_groups=[],
    )
    world.pilots.append(pilot)
    return pilot


def confined(world: World, *words: str) -> subprocess.Popen[bytes]:
    """A pilot of a root that the kernel gives no namespaces, as in most containers."""
    setpriv = shutil.which("setpriv")
    if not ROOT or not setpriv:
        pytest.skip("needs root and setpriv")
    without = [setpriv, "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    account = f"{PAYLOAD_UID}:{PAYLOAD_UID}"
    pilot = subprocess.Popen(
        [
            *without,
            sys.executable,
            "-I",
            str(PILOT),
            "--site",
            "HERE",
            "--work",
            str(world.work),
            "--max-jobs",
            "1",
            "--payload-user",
            account,
            *words,
        ],
        env={
            "PATH": os.environ["PATH"],
            "JEDI_PILOT_URL": world.url,
            "JEDI_PILOT_TOKEN": Service.TOKEN,
        },
    )
    world.pilots.append(pilot)
    return pilot


def namespaces_allowed(*account: str) -> bool:
    probe = ["unshare", "-m", *account, "true"]
    return subprocess.call(probe, stderr=subprocess.DEVNULL) == 0


@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_a_payload_has_tmp_and_shared_memory_of_its_own(world: World, name: str, who: str) -> None:
    """ "private /tmp and /dev/shm where the kernel allows it; NoNewPrivs = 1\""""
    if who == "root" and not ROOT:
        pytest.skip("needs root")
    if not namespaces_allowed(*(["-U"] if who == "ordinary" else [])):
        pytest.skip("the kernel gives no namespaces")
    with tempfile.NamedTemporaryFile(prefix="jedi-others-") as others:
        world.order(
            f"ls -d {others.name} && exit 1; set -e; "
            f"for d in {' '.join(PLACES)}; do echo x > $d/{name}; stat -c %a $d; done; "
            "grep NoNewPrivs /proc/self/status; pwd; id -u",
        )
        pilot = world.start() if who == "root" else ordinary(world)
        assert pilot.wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert last["status"] == "finished", last
    lines = world.log()["payload.stdout"].decode().splitlines()
    assert lines[:4] == ["1777", "1777", "1777", "NoNewPrivs:\t1"]
    uid = str(PAYLOAD_UID if ROOT else os.getuid())
    assert lines[4:6] == [f"{world.work}/{last['pandaid']}.7/run", uid]
    assert list(world.work.iterdir()) == []


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
@pytest.mark.parametrize("namespaces", [True, False], ids=["own", "shared"])
def test_what_lies_there_counts(world: World, name: str, place: str, namespaces: bool) -> None:
    """ "else swept by uid and counted against maxwdir": 6 files of 5 MB are more than 20 MB."""
    world.order(FLOOD.format(place=place, name=name), limits={"workdir_mb": 20, "wall_s": 15})
    pilot = world.start() if namespaces else confined(world)
    assert pilot.wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert last["error_code"] == "workdir_limit", last
    assert last["measures"]["workdir_kb"] > 20 << 10


def test_shared_places_are_swept_by_uid_alone(world: World, name: str) -> None:
    """Others' files stay, whatever they are called; no link is followed."""
    bystander = world.scratch / "bystander"
    bystander.write_text("stays")
    with tempfile.NamedTemporaryFile(prefix="jedi-others-", dir="/dev/shm") as others:
        world.order(
            f"umask 077; mkdir -p /tmp/{name}.d/deep; ln -s {bystander} /dev/shm/{name}.link; "
            f"ln -s {world.scratch} /tmp/{name}.d/way; touch /var/tmp/{name}; "
            "grep NoNewPrivs /proc/self/status"
        )
        assert confined(world).wait(DEADLINE_S) == 0
        assert Path(others.name).exists()
    assert world.service.reports()[-1]["status"] == "finished"
    assert world.log()["payload.stdout"] == b"NoNewPrivs:\t1\n"
    assert bystander.read_text() == "stays"


def test_what_is_shared_on_purpose_is_seen(world: World, name: str) -> None:
    ticket = world.scratch / "ticket"
    ticket.write_text("krb5\n")
    world.order(f"cat {ticket}; echo y > {world.scratch}/{name}")
    assert world.start().wait(DEADLINE_S) == 0
    assert world.log()["payload.stdout"] == b"krb5\n"
    assert (world.scratch / name).read_text() == "y\n"


def test_files_of_an_account_with_a_name_are_its_own(tmp_path: Path) -> None:
    """What somebody left in /tmp before a payload began under his account is not the payload's."""
    me = procs.PayloadAccount(os.getuid(), os.getgid(), f"u{os.getuid()}")
    with tempfile.NamedTemporaryFile(prefix="jedi-others-", dir="/tmp") as others:
        os.utime(others.name)
        commons = private_directories.SharedDirectories(me)
        commons._since += 60.0
        assert others.name not in commons.left()
        commons._since -= 120.0
        assert others.name in commons.left()
        commons.sweep()  # and we are alive
        assert Path(others.name).exists()
    assert private_directories.SharedDirectories(None).left() == []


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize(
    "above, directory, file",
    [
        (0o700, 0o700, 0o600),
        (0o750, 0o750, 0o640),
        (0o755, 0o755, 0o644),
        (0o2775, 0o755, 0o644),
    ],
)
def test_what_is_stored_is_as_readable_as_its_storage(
    tmp_path: Path, above: int, directory: int, file: int
) -> None:
    """ "datasets and logs no more readable than their owners want": who owns the storage says it
    by its mode."""
    storage, made = tmp_path / "storage", tmp_path / "out"
    storage.mkdir()
    storage.chmod(above)
    made.write_text("text")
    target = storage / ".staging" / "1.1"
    stage.stage_file(made, "out", target, None, lambda: None)
    assert (mode(target) & 0o777, mode(target.parent) & 0o777) == (directory, directory)
    assert mode(target / "out") == file


def test_what_a_payload_says_is_for_no_other_payload(world: World) -> None:
    last: dict[str, Any] = world.run("stat -c %a ../pilot.log; sleep 0.3")
    assert last["status"] == "finished"
    assert world.log()["payload.stdout"] == b"600\n"
