"""Examples that the demo leaves out, run by a real system."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from support.adding import add_files
from support.calls import call

from jedi.core.errors import NotFound
from jedi.core.settings import caller
from jedi.demo.__main__ import EXAMPLES, Demo
from jedi.service.datasets import dataset_details
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import knobs
from jedi.service.tasks import recovering, task_details
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long


def test_events(system: System) -> None:
    """Every line of three files of 150 is read once, 100 by a job."""
    paths = [system.inputs / f"lines{i}.txt" for i in range(3)]
    lines = [[f"file {i} line {n:03}" for n in range(150)] for i in range(3)]
    for path, content in zip(paths, lines, strict=True):
        path.write_text("\n".join(content) + "\n")
    examples = packaged("examples")
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        add_files(tx, ddm, "demo:lines", paths, "DISK_A")
        text = (examples / "events.yaml").read_text()
        done = storing.submit(tx, ddm, examined(Document(text, "yaml", examples), caller()))
    assert system.settle(done.jedi_task_id) == ["done"]
    assert system.lines(done.jedi_task_id) == sorted(line for some in lines for line in some)
    written = [len(path.read_text().splitlines()) for path in system.outputs(done.jedi_task_id)]
    assert sorted(written) == [50, 100, 100, 100, 100]
    system.check()


def test_scouts(system: System) -> None:
    """Ten scouts are measured, then the other four jobs follow."""
    paths = [system.inputs / f"many{i:02}.txt" for i in range(14)]
    lines = [[f"file {i} line {n:03}" for n in range(50)] for i in range(14)]
    for path, content in zip(paths, lines, strict=True):
        path.write_text("\n".join(reversed(content)) + "\n")
    examples = packaged("examples")
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "scout.chunks", "10")
        ddm = system.ddm(tx)
        add_files(tx, ddm, "demo:many", paths, "DISK_A")
        text = (examples / "scouts.yaml").read_text()
        task = storing.submit(
            tx, ddm, examined(Document(text, "yaml", examples), caller())
        ).jedi_task_id
    assert system.settle(task) == ["done"]
    assert system.lines(task) == sorted(line for some in lines for line in some)
    with system.engine.begin() as tx:
        way = [step.status for step in task_details.history(call(tx), task)]
        kinds = [job.kind for job in task_details.jobs(tx, task)]
        measured = {one.name for one in task_details.show(call(tx), task).measured}
        knobs.put(call(tx, caller()), "scout.chunks", "0")
    assert way[-6:] == ["ready", "scouting", "scouted", "running", "prepared", "done"]
    assert sorted(kinds) == ["normal"] * 4 + ["scout"] * 10
    assert measured >= {"ramCount", "outDiskCount", "workDiskCount", "ioIntensity", "diskIO"}
    system.check()


def test_open(system: System) -> None:
    """Files that come while the task runs; those left over make a job when the dataset closes."""
    paths = [system.inputs / f"part{i}.txt" for i in range(3)]
    for i, path in enumerate(paths):
        path.write_text("word " * (i + 1))
    examples = packaged("examples")
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        dataset_details.create_dataset(tx, ddm, "user.me:run7", "DISK_A", is_open=True)
        text = (examples / "open.yaml").read_text()
        task = storing.submit(
            tx, ddm, examined(Document(text, "yaml", examples), caller())
        ).jedi_task_id
    for path in paths:
        with system.engine.begin() as tx:
            add_files(tx, ddm, "user.me:run7", [path], "DISK_A")
    with system.engine.begin() as tx:
        dataset_details.close_dataset(tx, ddm, "user.me:run7")
    assert system.settle(task) == ["done"]
    words = sorted(map(int, system.lines(task)))
    with system.engine.begin() as tx:
        made = sorted(job.n_inputs for job in task_details.jobs(tx, task))
    assert made == [1, 2]
    # file numbers come from the sessions that feed: any two may be the first
    assert words in ([1, 5], [2, 4], [3, 3])
    system.check()


def test_paths(system: System) -> None:
    """Files of this machine that no dataset holds; the dataset of each run goes to one container,
    which a second run opens again."""
    paths = [Path(f"/etc/{name}") for name in ("hosts", "passwd", "group")]
    counted = [f"{len(path.read_text().splitlines())} {path.name}" for path in paths]
    examples = packaged("examples")
    text = (examples / "paths.yaml").read_text()
    for run in (1, 2):
        with system.engine.begin() as tx:
            ddm = system.ddm(tx)
            task = storing.submit(
                tx, ddm, examined(Document(text, "yaml", examples), caller())
            ).jedi_task_id
        assert system.settle(task) == ["done"]
        assert system.lines(task) == sorted(counted)
        assert ddm.dataset("user:paths").state == "closed"
        assert len(ddm.constituents("user:paths")) == run
    system.check()


def test_parent_and_child(system: System) -> None:
    """The child sorts what the jobs of its parent found."""
    paths = [system.inputs / f"text{i:02}.txt" for i in range(45)]
    for i, path in enumerate(paths):
        path.write_text("word " * (i + 1) + f"only{i}\n")
    examples = packaged("examples")
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        add_files(tx, ddm, "demo:texts", paths, "DISK_A")
        parent, child = (
            storing.submit(
                tx,
                ddm,
                examined(Document((examples / name).read_text(), "yaml", examples), caller()),
            )
            for name in ("wordcount.yaml", "child.yaml")
        )
    assert system.settle(parent.jedi_task_id, child.jedi_task_id) == ["done", "done"]
    assert system.lines(child.jedi_task_id) == system.lines(parent.jedi_task_id)
    assert len(system.outputs(child.jedi_task_id)) == 3
    system.check()


def test_merge(system: System) -> None:
    """Jobs at two sites count words; what people get is merged, a file a site at most."""
    for endpoint, first in (("DISK_A", 0), ("DISK_B", 20)):
        paths = [system.inputs / f"words{i:02}.txt" for i in range(first, first + 20)]
        for path in paths:
            path.write_text("word again\n")
        with system.engine.begin() as tx:
            add_files(tx, system.ddm(tx), "demo:merging", paths, endpoint)
    examples = packaged("examples")
    with system.engine.begin() as tx:
        text = (examples / "merge.yaml").read_text().replace("demo:texts", "demo:merging")
        done = storing.submit(
            tx, system.ddm(tx), examined(Document(text, "yaml", examples), caller())
        )
    task = done.jedi_task_id
    assert system.settle(task) == ["done"]
    counted = Counter[str]()
    for line in system.lines(task):
        word, number = line.split()
        counted[word] += int(number)
    assert counted == {"word": 40, "again": 40}
    with system.engine.begin() as tx:
        made = task_details.jobs(tx, task)
    kinds = Counter(job.kind for job in made)
    assert kinds["normal"] == 4
    assert 1 <= kinds["merge"] == len(system.outputs(task)) <= 3
    assert {job.status for job in made} == {"finished"}
    with pytest.raises(NotFound):
        system.replicas("demo:panda.um.merged")
    system.check()


def test_exhausted(system: System) -> None:
    """Scouts are much slower than the task says: it waits for a person, and goes on when told to.
    What is lost of its outputs afterwards is made again."""
    paths = [system.inputs / f"slow{i:02}.txt" for i in range(12)]
    for i, path in enumerate(paths):
        path.write_text(f"{i}\n")
    examples = packaged("examples")
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "scout.chunks", "10")
        ddm = system.ddm(tx)
        add_files(tx, ddm, "demo:slow", paths, "DISK_A")
        text = (examples / "exhausted.yaml").read_text()
        task = storing.submit(
            tx, ddm, examined(Document(text, "yaml", examples), caller())
        ).jedi_task_id
    assert system.settle(task) == ["exhausted"]
    assert system.show(task).task.reason_code == "scouts_too_slow"
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "scout.chunks", "0")
    system.ask("retry", task)
    until(lambda: system.show(task).task.status != "exhausted", "the task goes on")
    assert system.settle(task) == ["done"]
    twice = sorted(str(2 * i) for i in range(12))
    assert system.lines(task) == twice
    lost = system.outputs(task)[:2]
    for path in lost:
        path.unlink()
    with system.engine.begin() as tx:
        found = recovering.recover(call(tx, caller(), ddm=system.ddm(tx)), [task])
    assert found.tasks[0].files == {"demo:twice": sorted(path.name for path in lost)}
    until(lambda: system.show(task).task.status != "done", "the task makes them again")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == twice
    assert not set(lost) & set(system.outputs(task))
    system.check()


def submit(system: System, name: str) -> int:
    """An example that needs nothing before it."""
    examples = packaged("examples")
    with system.engine.begin() as tx:
        text = (examples / name).read_text()
        return storing.submit(
            tx, system.ddm(tx), examined(Document(text, "yaml", examples), caller())
        ).jedi_task_id


def test_periodical(system: System) -> None:
    """One job, and another when its time has come."""
    task = submit(system, "periodical.yaml")
    assert system.settle(task) == ["done"]
    assert len(system.lines(task)) == 2
    system.check()


def test_preprocess(system: System) -> None:
    """A job tells the others what to do."""
    task = submit(system, "preprocess.yaml")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == [f"hello, world of task {task}"] * 2
    with system.engine.begin() as tx:
        kinds = [job.kind for job in task_details.jobs(tx, task)]
    assert sorted(kinds) == ["normal", "normal", "preprocess"]
    system.check()


def test_build(system: System) -> None:
    """What one job built runs in the others."""
    task = submit(system, "build.yaml")
    assert system.settle(task) == ["done"]
    assert len(system.lines(task)) == 2
    with system.engine.begin() as tx:
        kinds = [job.kind for job in task_details.jobs(tx, task)]
    assert kinds.count("normal") == 2
    assert kinds.count("build") in (1, 2)
    system.check()


ROW = re.compile(r"^\| `(\S+\.(?:yaml|jdl))` \|", re.MULTILINE)
ENDS = {"flaky.yaml": "finished", "exhausted.yaml": "exhausted"}
"""Tasks of the README that do not end as done."""


def test_the_readme_on_a_fresh_home(tmp_path: Path) -> None:
    """Its commands in their order: the system, the datasets, each task of the table, and for the
    one whose input is open the end of it."""
    demo = Demo(tmp_path)
    names = ROW.findall((EXAMPLES / "README.md").read_text())
    assert {*names} == {one.name for one in EXAMPLES.iterdir() if one.suffix in (".yaml", ".jdl")}
    names.sort(key=lambda name: name == "sum.yaml")  # "wordcount.yaml done"
    with demo.system():
        demo.prepare()
        ids = {name: demo.submit(name) for name in names[:-1]}
        demo.call("jedi", "dataset", "close", "user.me:run7")
        demo.call("jedi-task", "wait", *map(str, ids.values()), "--timeout", "600", ok=(0, 1))
        ids["sum.yaml"] = demo.submit("sum.yaml")
        demo.call("jedi-task", "wait", str(ids["sum.yaml"]), "--timeout", "200")
        ended = {
            name: demo.ask("jedi-task", "show", str(one))["task"]["status"]
            for name, one in ids.items()
        }
    assert ended == {name: ENDS.get(name, "done") for name in names}
