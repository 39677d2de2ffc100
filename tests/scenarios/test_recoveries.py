"""Work that is done once more, in a real system: by part, for what was lost, as input comes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from scenarios.real_system import System, until
from support.adding import add_files
from support.calls import call

from jedi.service.datasets import dataset_details
from jedi.service.tasks import task_details

pytestmark = pytest.mark.long

SOURCE = {"type": "template", "param_type": "input", "value": "${IN/S}"}
SINK = {"type": "template", "param_type": "output", "value": "> out.${SN}.txt"}


def copying(source: str, target: str) -> dict[str, Any]:
    """Items of a task that copies a dataset to another."""
    return {"jobParameters": [{**SOURCE, "dataset": source}, {**SINK, "dataset": target}]}


def test_first_a_part_then_the_rest(system: System) -> None:
    lines = system.texts("user:part", 4, "DISK_A")
    again = {"taskName": "part", "nFilesPerJob": 1, **copying("user:part", "user:part.out")}
    task = system.submit("cat", nFiles=1, **again)
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines[:1]
    assert system.submit("cat", nFiles=4, **again) == task
    until(lambda: len(system.outputs(task)) == 4, "the rest is done")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    system.check()


def test_what_was_lost_another_task_makes_of_the_same_input(system: System) -> None:
    lines = system.texts("user:kept", 3, "DISK_A")
    task = system.copying("user:kept", nFilesPerJob=1)
    assert system.settle(task) == ["done"]
    lost = system.outputs(task)[1]
    content = lost.read_text()
    lost.unlink()
    second = system.copying(
        "user:kept",
        nFilesPerJob=1,
        lostFiles=[lost.name],
        lostFilesDataset=f"user:out.{task}",
        recoverInto="new",
    )
    assert system.settle(second) == ["done"]
    assert system.lines(second) == content.splitlines()
    assert set(content.splitlines()) < set(lines)
    lost.write_text(content)  # somebody finds it
    system.check()


def test_each_site_has_an_output_dataset_in_the_container(system: System) -> None:
    left = system.texts("user:left", 2, "DISK_A")
    right = system.texts("user:right", 2, "DISK_B")
    both = {**SOURCE, "dataset": "user:left,user:right"}
    task = system.submit(
        "cat",
        nFilesPerJob=1,
        instantiateTmplSite=True,
        jobParameters=[both, {**SINK, "dataset": "user:sites"}],
    )
    assert system.settle(task) == ["done"]
    assert system.lines(task) == sorted(left + right)
    made = [d.name for d in system.show(task).datasets if d.type == "output"]
    assert len(made) == 2
    assert {frozenset(system.replicas(name)) for name in made} == {
        frozenset({"DISK_A"}),
        frozenset({"DISK_B"}),
    }


def test_scouts_of_open_input_go_before_the_others(system: System) -> None:
    system.put("scout.chunks", 2)
    try:
        lines = system.texts("user:early", 4, "DISK_A")
        with system.engine.begin() as tx:
            dataset_details.create_dataset(
                tx, system.ddm(tx), "user:growing", "DISK_A", is_open=True
            )
            paths = [system.inputs / f"{line.replace(':', '.')}.txt" for line in lines]
            add_files(tx, system.ddm(tx), "user:growing", paths, "DISK_A")
        task = system.copying("user:growing", nFilesPerJob=1)
        until(lambda: len(system.outputs(task)) == 4, "scouts and others are through")
        with system.engine.begin() as tx:
            dataset_details.close_dataset(tx, system.ddm(tx), "user:growing")
        assert system.settle(task) == ["done"]
        assert system.lines(task) == lines
        with system.engine.begin() as tx:
            scouted = [
                step.reason
                for step in task_details.history(call(tx), task)
                if step.status == "scouted"
            ]
        assert scouted == ["Scout jobs processed 2 of 2 files: all others follow."]
    finally:
        system.put("scout.chunks", 0)


def test_input_on_tape_is_on_disk_before_jobs_read_it(system: System) -> None:
    system.put("watchdog.staging_period_s", 0.5)
    tape = {"ddm_endpoint": "TAPE_A", "path": "storage/tape", "is_tape": True}
    system.site_file.write_text(yaml.safe_dump([{"site": "SITE_A", "endpoints": [tape]}]))
    system.call("site", "import", str(system.site_file))
    lines = system.texts("user:old", 3, "TAPE_A")
    task = system.copying("user:old", nFilesPerJob=1, inputPreStaging=True, site="SITE_A")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    seen = system.statuses(task)
    assert seen.index("staging") < seen.index("staged") < seen.index("running")
    assert system.replicas("user:old") == {"DISK_A": 3, "TAPE_A": 3}
    system.check()
