"""A herd after its split: retries, outputs, merges, refusals of the splitter, ways to the end.

Expected values: RFC #15 ("JobDB changes"); docs/reference/herds.md.
"""

# Raw: a strategy is uninstalled after the submission.

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import add_inputs, ask, end, everything, sound, status, take, work_off
from support.generating import catalogue, rows
from support.helpers import put_file_dataset
from support.herds import (
    ECHO,
    RFC,
    VALUES,
    herd,
    jobs,
    members,
    next_panda_id,
    refined,
    split_all,
    with_jobs,
)
from support.merging import SPEC, merged_at_last
from support.task_rows import OUTPUT, row_of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import JediError
from jedi.ddm.interface import DatasetInfo
from jedi.service.herds import herd_report
from jedi.service.planning.text_plans import Alternative, plan_now
from jedi.service.submission.collection import submit_all
from jedi.service.submission.examined import Document, examined
from jedi.splitter.agent import Splitter
from jedi.taskbuffer.db import knobs
from jedi.taskrefiner.agent import TaskRefiner

IN = {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": "demo:in"}


def test_rescheduling_never_splits_again(world: World) -> None:
    """Expected: the originator (41) and child 43 fail; "This will prevent regenerating again the
    same herd of jobs if the originating job gets rescheduled": their second attempts have PandaIDs
    of their own, the same unit, origin and Parameter; the herd has ten members."""
    next_panda_id(world, 41)
    task = with_jobs(world, herd())
    before = members(world, task)
    take(world, [41, 43])
    end(world, [41, 43], "failed")
    everything(world)
    again = [job for job in jobs(world, task) if job.panda_id > 50]
    assert [(job.panda_id, job.originpandaid, job.unit_nr, job.attemptnr) for job in again] == [
        (51, 41, 1, 2),
        (52, 43, 3, 2),
    ]
    assert [job.jobparameters for job in again] == ["/bin/echo 1", "/bin/echo 3.99"]
    assert Splitter(world).run_once() == 0
    assert members(world, task) == before
    assert work_off(world, task) == "done"
    sound(world)


def test_a_later_attempt_finds_the_herd(world: World) -> None:
    """Expected: "they can retrieve all the jobs in the herd just by knowing any job id": PandaIDs
    51 and 52 of the second attempts find the same ten members as 41 and 43; a member shows its
    latest attempt beside the id that its submitter keeps."""
    next_panda_id(world, 41)
    task = with_jobs(world, herd())
    take(world, [41, 43])
    end(world, [41, 43], "failed")
    everything(world)
    with world.engine.begin() as tx:
        for job in (41, 43, 50, 51, 52):
            assert herd_report.task_of(tx, job) == task
        shown = herd_report.show(call(tx), task, after=0, limit=100)
    assert [one.origin_panda_id for one in shown.members] == [*range(41, 51)]
    latest = [(one.panda_id, one.n_attempts) for one in shown.members]
    assert latest == [(51, 2), (42, 1), (52, 2), *((job, 1) for job in range(44, 51))]
    assert sum(shown.statuses.values()) == 10


def test_a_retried_herd_has_the_same_units(world: World) -> None:
    """Expected: child 43 fails for good; the retry of the task makes its next attempt, and nothing
    else: no unit is made, and no other job."""
    next_panda_id(world, 41)
    task = with_jobs(world, herd(maxAttempt=1))
    before = members(world, task)
    take(world, [*range(41, 51)])
    end(world, [43], "failed")
    end(world, [one for one in range(41, 51) if one != 43])
    everything(world)
    assert status(world, task) == "finished"
    ask(world, task, "retry")
    everything(world)
    [again] = [job for job in jobs(world, task) if job.panda_id > 50]
    assert (again.originpandaid, again.unit_nr) == (43, 3)
    assert again.jobparameters == "/bin/echo 3.99"
    assert work_off(world, task) == "done"
    assert members(world, task) == before
    sound(world)


def test_names_of_outputs_have_values_of_the_unit(world: World) -> None:
    """Expected: out.00.….txt to out.09.….txt, one a child; $PANDAID is the unit's."""
    out = {**OUTPUT, "value": "> out.${UNIT/SplitID}.${SN}.txt"}
    task = with_jobs(world, herd(RFC, ECHO, {"type": "constant", "value": "$PANDAID"}, out))
    made = jobs(world, task)
    names = rows(world, "SELECT lfn FROM jedi_job_files WHERE type = 'output' ORDER BY pandaid")
    assert [row.lfn for row in names] == [f"out.{n:02}.{n + 1:06}.txt" for n in range(10)]
    assert all(f" {job.originpandaid} " in job.jobparameters for job in made)


def test_a_value_that_is_no_file_name_makes_no_job(world: World) -> None:
    """Expected: "../x" can't be part of a file name: the task is held, and no file is named so."""
    values = {**VALUES, "StdOutput": "../$Parameter"}
    out = {**OUTPUT, "value": "> ${UNIT/StdOutput}.${SN}.txt"}
    task = with_jobs(world, herd({**RFC, "values": values}, ECHO, out))
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "bad_unit_value")
    assert "../1" in row.errordialog
    assert jobs(world, task) == []


def test_merge_jobs_are_no_children(world: World) -> None:
    """Expected: merge jobs have numbers beyond those of the units, and PandaIDs beyond theirs."""
    add_inputs(world, 3)
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 1}}
    task = with_jobs(world, herd(by_files, IN, OUTPUT, mergeOutput=True, mergeSpec=SPEC))
    assert merged_at_last(world, task) == "done"
    kinds = [(job.kind, job.unit_nr) for job in jobs(world, task)]
    assert kinds[:3] == [("normal", 1), ("normal", 2), ("normal", 3)]
    assert kinds[3:] and all(kind == "merge" and unit > 3 for kind, unit in kinds[3:])
    assert len(members(world, task)) == 3


def broken(world: World, document: dict[str, Any], change: str = "SELECT 1") -> tuple[str, str]:
    """The status and reason of a herd that can't be split. Raw: `change` comes after refining."""
    task = refined(world, document)
    with world.engine.begin() as tx:
        tx.execute(text(change))
    ContentsFeeder(world).run_once()
    split_all(world)
    assert [one.jobsplittype for one in members(world, task)] == ["WillSplit"]
    row = row_of(world, task)
    return row.status, row.reason_code


def test_what_cannot_be_divided_is_broken_with_its_reason(world: World) -> None:
    """Expected: one file has no replica; the splitter is no longer there."""
    found = catalogue(world, **{"in": 3})
    found.nowhere = frozenset({"in000001"})
    by_se = {"name": "InputDataBySE", "options": {"SplitterMaxFilesPerJob": 2}}
    assert broken(world, herd(by_se, IN)) == ("tobroken", "split_refused")
    gone = "UPDATE jedi_herds SET splitter = 'Gone' WHERE split_at IS NULL"
    assert broken(world, herd(taskName="gone"), gone) == ("tobroken", "splitter_unknown")


def test_options_of_units_are_bounded(world: World) -> None:
    """Expected: 9,000 variables that stand for 100,000 characters each are 0.9 GB in one text: the
    herd is broken before any of it is built; so is one of many units with 2 kB each beyond 1 MB."""
    long = {"Parameters": ["x" * 100_000], "Parameters.A": ["y"]}
    bomb = {
        "name": "Parametric",
        "options": long,
        "values": {"Executable": "echo", "Arguments": "$Parameter" * 9_000},
    }
    assert broken(world, herd(bomb)) == ("tobroken", "too_large_units")
    with world.engine.begin() as tx:
        knobs.put(tx, "split.max_mb", 1, "ops")
    many = {
        "name": "Parametric",
        "options": {"Parameters": 1000},
        "values": {"Executable": "echo", "Arguments": "$Parameter" + "z" * 2000},
    }
    assert broken(world, herd(many, taskName="many")) == ("tobroken", "too_large_units")


def test_a_value_that_divides_the_name_of_a_file_is_refused(world: World) -> None:
    """`names with blanks or characters of the shell are refused`, also those that values make."""
    values = {**VALUES, "StdOutput": "out_$Parameter", "OutputSandbox": ["out_$Parameter"]}
    bad = {"name": "Parametric", "options": {"Parameters": ["b", "a b"]}, "values": values}
    assert broken(world, herd(bad)) == ("tobroken", "split_refused")


FORGETFUL = """
from jedi.model.splitting.units import FileUse, Unit

class Forgetful:
    after = "contents"
    def consumes(self, manifest): return []
    def check(self, manifest): return []
    def plan(self, manifest, files): return [Unit(files=[FileUse(1)])]
"""


def test_a_splitter_that_forgets_a_file_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: no file gets lost on the way to the units: the herd is broken, and names one."""
    info = tmp_path / "forgetful-1.dist-info"
    info.mkdir()
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forgetful\nVersion: 1\n")
    points = "[jedi.split_strategies]\nForgetful = forgetful:Forgetful\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    catalogue(world, **{"in": 3})
    assert broken(world, herd({"name": "Forgetful"}, IN)) == ("tobroken", "split_refused")
    [row] = rows(world, "SELECT errordialog FROM jedi_tasks")
    assert row.errordialog == "Splitter Forgetful left out 2 files, such as in000000."


def test_a_problem_of_data_management_holds_the_herd(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: nobody knows where the files are for now: the herd waits, and is not broken."""
    found = catalogue(world, **{"in": 3})
    task = refined(world, herd({"name": "ByFiles", "options": {}}, IN))
    assert ContentsFeeder(world).run_once() == 1

    def locate(*_: Any) -> dict[str, list[str]]:
        raise JediError("The catalogue does not answer.", code="unreachable")

    monkeypatch.setattr(found, "locate", locate)
    assert Splitter(world).run_once() == 1
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "splitting_failed")
    assert steps(world, task)[2:] == [
        ("InputData", "done"),
        ("Splitter", "now"),
        ("JobScheduling", "waits"),
    ]


def test_the_chain_blames_the_step_that_failed(world: World) -> None:
    """Expected: "a splitter module that requires Input Data information will have to run after the
    InputDataResolution optimizer": the input was known, and the Splitter failed."""
    found = catalogue(world, **{"in": 3})
    found.nowhere = frozenset({"in000001"})
    broken(world, herd({"name": "InputDataBySE", "options": {}}, IN))
    [row] = rows(world, "SELECT jeditaskid AS task FROM jedi_tasks")
    assert steps(world, row.task) == [
        ("JobPath", "done"),
        ("JobSanity", "done"),
        ("InputData", "done"),
        ("Splitter", "failed"),
        ("JobScheduling", "skipped"),
    ]


def test_the_chain_blames_one_step_of_a_sweep(world: World) -> None:
    """Docs: "The first step that is not done is *now*, or *failed* if the task has ended": the
    Splitter failed; JobSanity stands behind it and is done, and JobScheduling was never tried."""
    task = refined(world, herd({**RFC, "options": {"Parameters": 100_000_000}}))
    assert steps(world, task) == [
        ("JobPath", "done"),
        ("Splitter", "now"),
        ("JobSanity", "done"),
        ("JobScheduling", "waits"),
    ]
    assert Splitter(world).run_once() == 1
    assert row_of(world, task).reason_code == "too_many_units"
    assert steps(world, task) == [
        ("JobPath", "done"),
        ("Splitter", "failed"),
        ("JobSanity", "done"),
        ("JobScheduling", "skipped"),
    ]


def steps(world: World, task: int) -> list[tuple[str, str]]:
    """The chain of a task: its steps and their states."""
    with world.engine.begin() as tx:
        return [(one.name, one.state) for one in herd_report.chain(call(tx), task)]


def test_an_open_dataset_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: a herd is divided once, when its input is complete."""
    found = catalogue(world, **{"in": 3})
    monkeypatch.setattr(found, "dataset", lambda name: DatasetInfo(name, "open"))
    task = refined(world, herd({"name": "ByFiles", "options": {}}, IN))
    assert ContentsFeeder(world).run_once() == 1
    assert (row_of(world, task).status, row_of(world, task).reason_code) == (
        "defined",
        "input_open",
    )
    assert Splitter(world).run_once() == 0


def test_a_hundred_manifests_in_one_call(world: World) -> None:
    """Expected: a hundred ids, a hundred originators, nothing split in the call; 1000 units when
    the Splitter has come."""
    texts = [json.dumps(herd(taskName=f"n{n}")) for n in range(100)]
    documents = [Document(one, "json", Path(), str(n)) for n, one in enumerate(texts)]
    with world.engine.begin() as tx:
        found = submit_all(tx, world.ddm, "anna", documents)
    assert len({one.jedi_task_id for one in found}) == 100
    query = "SELECT jobsplittype, count(*) AS n FROM jedi_herd_members GROUP BY 1 ORDER BY 1"
    assert rows(world, query) == [("WillSplit", 100)]
    for agent in (TaskRefiner, Splitter):
        while agent(world).run_once():
            pass
    assert rows(world, query) == [("Single", 900), ("Splitted", 100)]


def test_ten_thousand_children_take_less_than_a_second(world: World) -> None:
    """Expected: one transaction, at most 1 s of the agent's processor time (the database's is
    0.1 s); threads that other tests left do not count."""
    big = {**RFC, "options": {"Parameters": 10_000, "ParameterStep": 1, "ParameterFactor": 1}}
    task = refined(world, herd(big))
    before = time.thread_time()
    assert Splitter(world).run_once() == 1
    assert time.thread_time() - before <= 1.0
    assert len(members(world, task)) == 10_000


def planned(world: World, document: dict[str, Any]) -> tuple[int, float, float]:
    """The number of planned jobs, and the fewest and most files of one."""
    with world.engine.connect() as tx:
        found = plan_now(
            tx,
            world.ddm,
            examined(Document(json.dumps(document), "json", Path()), "anna"),
            1,
            Alternative(()),
        )
    assert found.plan.files_per_job is not None
    return found.plan.jobs, found.plan.files_per_job.least, found.plan.files_per_job.most


def test_the_plan_has_a_job_for_each_unit(world: World) -> None:
    """Expected: ten jobs of the RFC's manifest; of five files by two, three jobs; the plan writes
    nothing."""
    put_files = {f"f{n}": b"1\n" for n in range(5)}
    put_file_dataset(world, "demo:in", put_files, "SITE_A_DATADISK")
    assert planned(world, herd()) == (10, 1, 1)
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 2}}
    assert planned(world, herd(by_files, IN)) == (3, 1, 2)
    with pytest.raises(JediError, match="more than 100000 units"):
        planned(world, herd({**RFC, "options": {"Parameters": 100_001}}))
    assert rows(world, "SELECT FROM jedi_herds") == []
