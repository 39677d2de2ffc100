"""Splitters of plug-ins: found by name, and alone with their faults.

Expected values: RFC #15, "Proposed implementation" (splitters are modules that anybody adds);
docs/splitters.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.embedded import wait_for
from support.generating import catalogue, generate
from support.herds import herd, jobs, members, refined, split_all, submitted
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput
from jedi.ddm.interface import FileInfo
from jedi.host.processes import started
from jedi.model.splitting.units import FileUse, SplitFile
from jedi.service.submission.manifests import read
from jedi.splitter import strategies
from jedi.splitter.agent import Splitter
from jedi.splitter.plug_in import Limits, SplitterFailed
from jedi.taskbuffer.db import knobs

SAMPLE = Path(__file__).parents[2] / "examples" / "plugins"
FAULTS = """
import os, signal, subprocess, sys, time
from jedi.core.errors import BadInput, Problem
from jedi.model.splitting.units import FileUse, Unit

class Base:
    after = "refine"
    def consumes(self, manifest): return ["Count"]
    def check(self, manifest): return []
    def plan(self, manifest, files): return [Unit({"N": str(n)}) for n in range(3)]

class Good(Base):
    pass

class Raises(Base):
    def plan(self, manifest, files): raise ValueError("no such run")

class Refuses(Base):
    def plan(self, manifest, files): raise BadInput([Problem("Count", 7, "too odd", "Take 8")])

class Hangs(Base):
    def plan(self, manifest, files):
        child = subprocess.Popen(["sleep", "3600"])
        open(os.environ["TMPDIR"] + "/pids", "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(3600)

class EatsMemory(Base):
    def plan(self, manifest, files): return [Unit({"A": "x" * 2**33})]

class Prints(Base):
    def plan(self, manifest, files):
        os.write(1, b"nonsense " * 100_000)
        print("more nonsense" * 100_000, flush=True)
        return super().plan(manifest, files)

class Exits(Base):
    def plan(self, manifest, files): os._exit(0)

class IsKilled(Base):
    def plan(self, manifest, files): os.kill(os.getpid(), signal.SIGSEGV)

class Endless(Base):
    def plan(self, manifest, files):
        while True: yield Unit()

class NoUnits(Base):
    def plan(self, manifest, files): return []

class Numbers(Base):
    def plan(self, manifest, files): return [Unit({"N": 1.5})]

class Nul(Base):
    def plan(self, manifest, files): return [Unit(files=[FileUse(0)]), Unit({"N": ["a", "b\\0"]})]

class NoName(Base):
    def plan(self, manifest, files): return [Unit({"a b": "1"})]

class Beyond(Base):
    def plan(self, manifest, files): return [Unit(files=[FileUse(len(files))])]

class Twice(Base):
    def plan(self, manifest, files):
        return [Unit(files=[FileUse(0)]), Unit(files=[FileUse(0, 3, 4)])]

class Gap(Base):
    def plan(self, manifest, files):
        return [Unit(files=[FileUse(0, 0, 4)]), Unit(files=[FileUse(0, 5, 10)])]

class Half(Base):
    def plan(self, manifest, files): return [Unit(files=[FileUse(0, 0, 5)])]

class More(Base):
    def plan(self, manifest, files): return [Unit(files=[FileUse(0, 0, 11)])]

class NoFile(Base):
    def plan(self, manifest, files): return [Unit(files=[FileUse(0)]), Unit()]

class Halves(Base):
    def plan(self, manifest, files):
        return [Unit(files=[FileUse(0, 5, 10)]), Unit(files=[FileUse(0, 0, 5)])]

class NoList(Base):
    def plan(self, manifest, files): return None

class Step(Base):
    after = "never"

class BadOptions(Base):
    def consumes(self, manifest): raise ValueError("no option")

class BadCheck(Base):
    def check(self, manifest): return [1]
"""
NAMES = [
    line.split()[1].rstrip(":").partition("(")[0]
    for line in FAULTS.splitlines()
    if line.startswith("class")
]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution whose splitters have faults."""
    info = tmp_path / "faults-1.dist-info"
    info.mkdir()
    (tmp_path / "faults.py").write_text(FAULTS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faults\nVersion: 1\n")
    points = "".join(f"{name} = faults:{name}\n" for name in NAMES)
    (info / "entry_points.txt").write_text(f"[jedi.split_strategies]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("Raises", "splitter_failed", "Splitter Raises failed: ValueError: no such run."),
        ("EatsMemory", "splitter_failed", "Splitter EatsMemory failed: MemoryError."),
        ("Exits", "splitter_failed", "exit code 0 and without an answer"),
        ("IsKilled", "splitter_failed", "its process was ended by SIGSEGV"),
        ("Numbers", "splitter_nonsense", "plan.0.0.N"),
        ("Nul", "splitter_nonsense", "unit 2: option N is no text or list of texts"),
        ("NoName", "splitter_nonsense", "unit 1: 'a b' is no name of an option"),
        ("Beyond", "splitter_nonsense", "unit 1: file 1 of 1 files"),
        ("Twice", "splitter_nonsense", "file /lfn is in units 1 and 2"),
        ("Gap", "splitter_nonsense", "events 4 to 4 of file /lfn are in no unit"),
        ("Half", "splitter_nonsense", "events from 5 of file /lfn are in no unit"),
        ("More", "splitter_nonsense", "unit 1: events 0 to 11 of 10"),
        ("NoFile", "splitter_nonsense", "unit 2 has no file"),
        ("NoList", "splitter_failed", "TypeError: 'NoneType' object is not iterable"),
        ("Xyz", "splitter_unknown", "There is no splitter Xyz. There are BadCheck, BadOptions, "),
        ("Hang", "splitter_unknown", "There is no splitter Hang. Did you mean Hangs?"),
    ],
)
@pytest.mark.usefixtures("faults")
def test_a_fault_has_a_code_and_a_sentence(name: str, code: str, reason: str) -> None:
    with pytest.raises(SplitterFailed) as failed:
        strategies.plan(name, {}, [SplitFile("/lfn", 1, 10)], Limits())
    assert failed.value.code == code
    assert reason in failed.value.sentence


@pytest.mark.usefixtures("faults")
def test_prints_do_not_disturb() -> None:
    units = strategies.plan("Prints", {}, [], Limits())
    assert [unit.options for unit in units] == [{"N": "0"}, {"N": "1"}, {"N": "2"}]


@pytest.mark.usefixtures("faults")
def test_two_halves_of_a_file_are_two_units() -> None:
    files = [SplitFile("/lfn", 1, 10)]
    units = strategies.plan("Halves", {}, files, Limits())
    assert [unit.files for unit in units] == [[FileUse(0, 5, 10)], [FileUse(0, 0, 5)]]


@pytest.mark.usefixtures("faults")
def test_an_endless_splitter_gives_one_more_than_the_limit() -> None:
    assert len(strategies.plan("Endless", {}, [], Limits(max_units=7))) == 8


def test_one_that_hangs_is_killed_with_its_children(faults: Path) -> None:
    with pytest.raises(SplitterFailed, match=r"took more than 5 s") as failed:
        strategies.plan("Hangs", {}, [], Limits(timeout_s=5.0))
    assert failed.value.code == "splitter_timeout"
    pids = [int(pid) for pid in (faults / "pids").read_text().split()]
    wait_for(lambda: not any(map(started, pids)))  # a killed one may run for a moment


@pytest.mark.usefixtures("faults")
def test_questions_at_submission() -> None:
    found = strategies.describe("Good")
    assert (found.after, found.consumes({}), found.check({})) == ("refine", ["Count"], [])
    with pytest.raises(SplitterFailed, match="after: Input should be 'refine' or 'contents'"):
        assert strategies.describe("Step").after
    with pytest.raises(SplitterFailed, match="'int' object has no attribute 'path'"):
        strategies.describe("BadCheck").check({})


def test_a_splitter_that_hangs_holds_its_own_herd(world: World, faults: Path) -> None:
    """Expected: all other herds are split at once, though it may take a minute."""
    with world.engine.begin() as tx:
        knobs.put(tx, "split.timeout_s", 600.0, "ops")
    hanging = [refined(world, herd({"name": "Hangs"}, taskName=f"h{n}")) for n in range(3)]
    good = refined(world, herd({"name": "Good"}, taskName="good"))
    echo = {"type": "constant", "value": "echo ${UNIT/Parameter}"}
    parameters = {"name": "Parametric", "options": {"Parameters": 3}}
    parametric = refined(world, herd(parameters, echo))
    agent = Splitter(world)
    began = time.monotonic()
    assert agent.run_once() == 5
    assert len(members(world, parametric)) == 3
    while row_of(world, good).reason_code != "split":
        agent.run_once()
        assert time.monotonic() - began < 30
    assert len(members(world, good)) == 3
    assert all(row_of(world, one).lockedby for one in hanging)
    agent.close()
    assert not any(row_of(world, one).lockedby for one in hanging)


def test_faults_spare_other_herds(world: World, faults: Path) -> None:
    """Expected: one batch; each herd with a fault is broken by its own code, the good one is
    split."""
    with world.engine.begin() as tx:
        knobs.put(tx, "split.timeout_s", 8.0, "ops")
    codes = {
        "Raises": "splitter_failed",
        "Refuses": "split_refused",
        "Hangs": "splitter_timeout",
        "Numbers": "splitter_nonsense",
        "NoUnits": "split_made_no_units",
        "Good": "split",
    }
    tasks = {name: refined(world, herd({"name": name}, taskName=name)) for name in codes}
    gone = refined(world, herd({"name": "Exits"}, taskName="gone"))
    points = faults / "faults-1.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("Exits =", "Other ="))
    split_all(world)
    found = {name: row_of(world, task).reason_code for name, task in tasks.items()}
    assert found == codes
    assert row_of(world, gone).reason_code == "splitter_unknown"
    assert len(members(world, tasks["Good"])) == 3


def test_the_sample_is_installed_used_and_removed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: three files of run 7 and two of run 8 are two units; without the distribution its
    name is unknown."""
    by_run = herd({"name": "ByRun", "values": {"Title": "run $Run"}}, IN, TITLE)
    with pytest.raises(BadInput, match="no such splitter"):
        submitted(world, by_run)
    place = tmp_path / "place"
    install = ["install", "--no-index", "--no-build-isolation", "--no-deps", "--target", str(place)]
    command = [sys.executable, "-m", "pip", "--quiet", *install, str(SAMPLE)]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "TMPDIR": str(tmp_path)})
    monkeypatch.syspath_prepend(str(place))

    names = ["run7.a", "run8.a", "run7.b", "run7.c", "run8.b"]
    catalogue(world, in_=[FileInfo(name, 10, "00000001", None, None) for name in sorted(names)])
    with pytest.raises(BadInput, match="SplitterRunDigits"):
        submitted(world, herd({"name": "ByRun", "options": {"SplitterRunDigits": "0"}}, IN))
    task = refined(world, by_run)
    assert ContentsFeeder(world).run_once() == 1
    split_all(world)
    assert ContentsFeeder(world).run_once() == 1, row_of(world, task).errordialog
    assert generate(world) == 1
    commands = [job.jobparameters for job in jobs(world, task)]
    assert commands == ["cat run7.a run7.b run7.c run 7", "cat run8.a run8.b run 8"]

    monkeypatch.undo()
    assert "ByRun" not in strategies.names()


IN = {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": "demo:in"}
TITLE = {"type": "constant", "value": "${UNIT/Title}"}


@pytest.mark.usefixtures("faults")
def test_a_manifest_with_a_faulty_splitter_is_refused() -> None:
    with pytest.raises(BadInput, match=r"Splitter: 'BadOptions'.*ValueError: no option"):
        read('Executable = "x"; Splitter = BadOptions;', "jdl", "anna")
