"""Refining: from task parameters to tasks, datasets, templates; and the agent behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.event_service import MERGE
from support.helpers import put_file_dataset
from support.job_rows import watch
from support.situations import lose_task
from support.task_rows import INPUT, OUTPUT, good, put, row_of

from jedi.agent.base import World
from jedi.core.errors import Unreachable
from jedi.ddm.interface import DDM
from jedi.model.datasets.dataset import NewDataset
from jedi.model.scheduling.resource_types import ResourceType, resource_type
from jedi.model.splitting.split_rules import render_split_rule
from jedi.model.tasks.incremental import CHANGEABLE, change, revise
from jedi.model.tasks.refined import RefinedTask
from jedi.model.tasks.text import validate
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs import datasets
from jedi.taskrefiner.agent import TaskRefiner
from jedi.taskrefiner.refine import Malformed, Refined, Refiner, Submission

SECOND = {**INPUT, "value": "${IN2}", "dataset": "demo:second", "ratio": 2, "attributes": "repeat"}
SHAPES = [
    ResourceType("SCORE", 1, 1, None, 2000),
    ResourceType("MCORE", 2, None, None, 2000),
    ResourceType("SCORE_HIMEM", 1, 1, 2000, None),
    ResourceType("MCORE_HIMEM", 2, None, 2000, None),
]


def refine(
    *items: dict[str, Any], behind: Mapping[str, Sequence[str]] | None = None, **keys: Any
) -> RefinedTask:
    """Task 7 of anna with these items; `behind` are the containers among its inputs."""
    document = {"taskName": "my task", "jobParameters": list(items), "transPath": "run", **keys}
    params = validate(document)
    names = {name for item in items for name in item.get("dataset", "").split(",")}
    constituents = {name: [name] for name in names} | dict(behind or {})
    outcome = Refiner().refine(Submission(7, "anna", params, constituents, SHAPES))
    assert isinstance(outcome, Refined)
    return outcome.task


def test_a_task_with_one_input_and_one_output() -> None:
    task = refine(INPUT, OUTPUT, nFilesPerJob=5, nGBPerJob=2)
    assert task.datasets == (
        NewDataset("demo:in", "input", "IN"),
        NewDataset("a:out", "output", "OUTPUT0", provenance=0),
        NewDataset("a:out.log", "log", "LOG0", provenance=0),
    )
    output, log = task.templates
    assert (output.dataset, output.file_name_template, output.out_type) == (1, "o.${SN}", "output")
    assert (log.dataset, log.file_name_template) == (2, "my_task.7.log.${SN}.tgz")
    assert task.job_params_template == "cat ${IN/S} > ${OUTPUT0}"
    assert render_split_rule(task.rules) == "NF=5,NG=2"
    columns = task.columns
    assert columns.resource_type == "SCORE"


@pytest.mark.parametrize("key", CHANGEABLE)
def test_a_changed_key_reaches_all_rules_and_columns_that_it_feeds(key: str) -> None:
    """The revised task is the one that a submission with the new value makes."""
    base: dict[str, Any] = {"taskName": "my task", "jobParameters": [INPUT, OUTPUT]}
    if key in ("nEventsPerWorker", "nJumboJobs"):
        base |= {"nEventsPerWorker": 1, "nFilesPerJob": 1, "esmergeSpec": MERGE}
    values: tuple[Any, ...] = (2, "SITE_A", True, "use", ["run.sh"])
    value = next(value for value in values if not change(base, {key: value})[1])
    given = {name: told for name, told in base.items() if name not in ("taskName", "jobParameters")}
    before, after = refine(INPUT, OUTPUT, **given), refine(INPUT, OUTPUT, **{**given, key: value})
    for old, new in ((before, after), (after, before)):
        revision = revise(new, old.rules, [key])
        assert revision.rules == new.rules
        assert replace(old.columns, **revision.columns) == new.columns


def test_what_is_said_of_input_and_output_counts_for_brokers() -> None:
    found = refine(INPUT, OUTPUT, ioIntensity=500, ioIntensityUnit="kBPerS").columns
    assert (found.io_intensity, found.io_intensity_unit) == (500, "kBPerS")


def test_outputs_are_containers_where_each_site_has_a_dataset() -> None:
    found = refine(INPUT, OUTPUT, instantiateTmplSite=True)
    assert [one.type for one in found.datasets] == ["input", "tmpl_output", "tmpl_log"]
    assert render_split_rule(found.rules) == "IA=1"


def test_every_follower_follows_every_master() -> None:
    behind = {"demo:box": ["demo:a", "demo:b"], "demo:second": ["demo:c", "demo:d"]}
    task = refine({**INPUT, "dataset": "demo:box,demo:in"}, SECOND, OUTPUT, behind=behind)
    inputs = [d for d in task.datasets if d.type == "input"]
    assert [(d.name, d.container, d.master) for d in inputs] == [
        ("demo:a", "demo:box", None),
        ("demo:b", "demo:box", None),
        ("demo:in", None, None),
        *((f"demo:{x}", "demo:second", master) for x in "cd" for master in range(3)),
    ]
    assert {d.attributes for d in inputs[3:]} == {"repeat,ratio=2"}
    assert {d.attributes for d in inputs[:3]} == {None}


def test_a_dataset_is_taken_once() -> None:
    behind = {"demo:box": ["demo:a", "demo:in"]}
    again = {**INPUT, "value": "--list ${IN/L}"}
    task = refine(INPUT, again, {**SECOND, "dataset": "demo:box"}, OUTPUT, behind=behind)
    assert [d.name for d in task.datasets if d.type == "input"] == ["demo:in", "demo:a"]
    assert task.job_params_template == "cat ${IN/S} --list ${IN/L} ${IN2} > ${OUTPUT0}"


def test_an_empty_container_is_malformed() -> None:
    params = validate({"taskName": "t", "jobParameters": [INPUT, OUTPUT]})
    outcome = Refiner().refine(Submission(7, "anna", params, {"demo:in": []}, SHAPES))
    assert isinstance(outcome, Malformed)
    assert outcome.problems[0].value == "demo:in"


def test_a_task_without_input_counts_pseudo_files() -> None:
    number = {"type": "template", "param_type": "number", "value": "-s ${RNDMSEED}", "offset": 100}
    task = refine(number, OUTPUT, noInput=True)
    assert task.datasets[:2] == (
        NewDataset("pseudo_dataset", "pseudo_input", "IN"),
        NewDataset("pseudo_RNDMSEED", "random_seed", "RNDMSEED", master=0, attributes="of=100"),
    )
    assert task.rules.n_files_per_job == 1
    assert refine(OUTPUT, noInput=True, nFilesPerJob=4).rules.n_files_per_job == 4


def test_a_seed_anywhere_makes_one_sequence_for_the_task() -> None:
    constant = {"type": "constant", "value": "${RNDMSEED}"}
    task = refine(INPUT, constant, OUTPUT, behind={"demo:in": ["demo:a", "demo:b"]})
    seeds = [d for d in task.datasets if d.type == "random_seed"]
    assert seeds == [NewDataset("pseudo_RNDMSEED", "random_seed", "RNDMSEED", master=0)]


def test_outputs_share_datasets_and_know_the_task() -> None:
    hidden = {**OUTPUT, "value": "x=$JEDITASKID.b.${SN}", "hidden": True, "sourceName": "b"}
    task = refine(
        {**OUTPUT, "dataset": "a:$JEDITASKID"},
        hidden,
        noInput=True,
        log={"value": "l.${SN}.tgz", "dataset": "a:logs"},
    )
    assert [(d.name, d.type) for d in task.datasets[1:]] == [
        ("a:7", "output"),
        ("a:out", "output"),
        ("a:logs", "log"),
    ]
    assert [(t.dataset, t.file_name_template, t.source_name) for t in task.templates] == [
        (1, "o.${SN}", None),
        (2, "7.b.${SN}", "b"),
        (3, "l.${SN}.tgz", None),
    ]
    assert task.job_params_template == "> ${OUTPUT0}"
    joint = refine(OUTPUT, {**hidden, "hidden": False, "padding": False}, noInput=True)
    assert [d.name for d in joint.datasets[1:]] == ["a:out", "a:out.log"]
    assert joint.job_params_template == "> ${OUTPUT0} x=${OUTPUT1}"


@pytest.mark.parametrize("name", ["..", "/etc/../x", "ü" * 10, "a b", "x" * 128, "-", "a..b."])
def test_any_task_and_user_name_gives_a_good_log_name(name: str) -> None:
    params = validate({"taskName": "t", "noInput": True, "jobParameters": [], "transPath": "x"})
    params = params.model_copy(update={"task_name": name})
    log, template = Refiner().log(Submission(7, name, params, {}, SHAPES), [])
    validate(
        {
            "taskName": "t",
            "noInput": True,
            "jobParameters": [],
            "transPath": "x",
            "log": {"dataset": log, "value": template},
        }
    )


@pytest.mark.parametrize(
    ("cores", "ram", "unit", "base", "shape"),
    [
        (1, None, "MBPerCore", None, "SCORE"),
        (1, 2222, "MBPerCore", None, "SCORE"),
        (1, 2223, "MBPerCore", None, "SCORE_HIMEM"),
        (8, 2222, "MBPerCoreFixed", None, "MCORE"),
        (8, 2200, "MBPerCore", 1000, "MCORE_HIMEM"),
        (8, 16_000, "MB", None, "MCORE"),
        (0, None, "MB", None, "MCORE"),
    ],
)
def test_resource_types(
    cores: int, ram: int | None, unit: str, base: int | None, shape: str
) -> None:
    assert resource_type(SHAPES, cores, ram, unit, base) == shape
    assert resource_type([], cores, ram, unit, base) == "Undefined"


# The agent


@pytest.mark.parametrize(
    ("preset", "keys", "base"),
    [
        ("classic", {"processingType": "simul"}, 1000),
        ("classic", {"processingType": "pile"}, 1500),
        ("classic", {"processingType": "reco"}, 1000),
        ("classic", {"processingType": "evgen"}, None),
        ("classic", {"processingType": "simul", "baseRamCount": 0}, 0),
        ("classic", {"processingType": "simul", "ramUnit": "MB"}, None),
        ("current", {"processingType": "simul"}, None),
        ("current", {"processingType": "simul", "baseRamCount": 700}, 700),
    ],
)
def test_base_memory_is_fixed_per_processing_type(
    world: World, preset: str, keys: dict[str, Any], base: int | None
) -> None:
    """ "Currently it is fixed per processingtype": simul 1000, pile 1500, reco 1000."""
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        knobs.put(tx, "core.preset", preset, "op")
    (task_id,) = put(world, good(ramCount=2000, **keys))
    TaskRefiner(world).run_once()
    row = row_of(world, task_id)
    assert (row.status, row.baseramcount) == ("defined", base)
    total = 2000 + (base or 0)  # a job of one core
    assert row.resource_type == ("SCORE_HIMEM" if 0.9 * total > 2000 else "SCORE")


def test_refined_tasks_are_defined(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    ids = put(world, good(nFilesPerJob=2, ramCount=3000), good("a:two"))
    assert TaskRefiner(world).run_once() == 2
    row = row_of(world, ids[0])
    assert (row.status, row.reason_code, row.lockedby, row.lease_until) == (
        "defined",
        "refined",
        None,
        None,
    )
    assert (row.splitrule, row.rules) == ("NF=2", {"n_files_per_job": 2})
    assert (row.workqueue_id, row.gshare, row.resource_type) == (1, "user", "SCORE_HIMEM")
    with world.engine.begin() as tx:
        found = service.show(call(tx), ids[0]).datasets
        assert [(d.name, d.type, d.status) for d in found] == [
            ("demo:in", "input", "defined"),
            ("a:out", "output", "defined"),
            ("a:out.log", "log", "defined"),
        ]
        provenance = tx.scalars(
            text(
                "SELECT provenanceid FROM jedi_datasets WHERE type <> 'input' AND jeditaskid = :t"
            ),
            {"t": ids[0]},
        ).all()
        assert set(provenance) == {found[0].dataset_id}
        templates = tx.execute(text("SELECT * FROM jedi_output_template ORDER BY 1")).all()
        assert [t.datasetid for t in templates[:2]] == [d.dataset_id for d in found[1:]]
        steps = tx.execute(text("SELECT * FROM jedi_datasets_statuslog")).all()
        assert {(s.fromstatus, s.status) for s in steps} == {(None, "defined")}


def test_masters_of_followers_are_named_by_id(world: World) -> None:
    for name in ("demo:in", "demo:x", "demo:second"):
        put_file_dataset(world, name, {"f": b"x"}, "SITE_A_DATADISK")
    world.ddm.create("demo:box", "SITE_A_DATADISK", "closed", container=True)
    world.ddm.add_members("demo:box", ["demo:in", "demo:x"])
    put(
        world,
        {"taskName": "t", "jobParameters": [{**INPUT, "dataset": "demo:box"}, SECOND, OUTPUT]},
    )
    TaskRefiner(world).run_once()
    with world.engine.begin() as tx:
        rows = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input' ORDER BY 1")).all()
    assert [(r.datasetname, r.containername) for r in rows[:2]] == [
        ("demo:in", "demo:box"),
        ("demo:x", "demo:box"),
    ]
    assert [r.masterid for r in rows] == [None, None, rows[0].datasetid, rows[1].datasetid]


def test_malformed_tasks_go_to_broken_and_harm_nobody(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    bad, fine = put(world, {"taskName": "t", "nFils": 3}, good())
    assert TaskRefiner(world).run_once() == 2
    row = row_of(world, bad)
    assert (row.status, row.reason_code) == ("tobroken", "malformed")
    assert "nFils" in row.errordialog and "jobParameters" in row.errordialog
    assert row_of(world, fine).status == "defined"


def test_a_task_without_a_queue_is_malformed(world: World) -> None:
    (task_id,) = put(world, good(), label="other")
    TaskRefiner(world).run_once()
    assert row_of(world, task_id).status == "tobroken"
    assert "work queue" in row_of(world, task_id).errordialog


def test_an_open_container_is_waited_for(world: World) -> None:
    put_file_dataset(world, "demo:x", {"f": b"x"}, "SITE_A_DATADISK")
    world.ddm.create("demo:in", "SITE_A_DATADISK", "open", container=True)
    (task_id,) = put(world, good())
    refiner = TaskRefiner(world)
    assert refiner.run_once() == 1
    row = row_of(world, task_id)
    assert (row.status, row.reason_code) == ("registered", "input_open")
    assert row.next_run_at > row.modificationtime
    assert refiner.run_once() == 0


class Broken:
    """Data management that does not answer."""

    def __getattr__(self, name: str) -> Any:
        raise Unreachable("The storage does not answer.")


def test_trouble_holds_the_task(world: World) -> None:
    (task_id,) = put(world, good())
    ddm: DDM = Broken()
    world.load_ddm = lambda _tx, _knobs: ddm
    assert TaskRefiner(world).run_once() == 1
    row = row_of(world, task_id)
    assert (row.status, row.oldstatus, row.reason_code) == (
        "pending",
        "registered",
        "refining_failed",
    )
    assert "does not answer" in row.errordialog


def test_a_stale_worker_writes_nothing(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    lost, kept = put(world, good(), good("a:two"))
    refiner = TaskRefiner(world)
    with world.engine.begin() as tx:
        items = refiner.claim(tx, 10)
    results = [(item, refiner.work(item)) for item in items]
    with world.engine.begin() as tx:
        lose_task(tx, lost)
    with world.engine.begin() as tx:
        refiner.apply(tx, results)
        assert not service.show(call(tx), lost).datasets
    assert (row_of(world, lost).status, row_of(world, kept).status) == ("registered", "defined")


def test_many_tasks_take_as_many_statements_as_one(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    refiner = TaskRefiner(world)
    seen = watch(world.engine)
    counts = []
    for n in (1, 60):
        put(world, *(good(f"a:out{n}.{i}") for i in range(n)))
        seen.clear()
        assert refiner.run_once() == n
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_producers_are_found_before_and_after_refining(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    (task_id,) = put(world, good())
    for _ in range(2):
        with world.engine.begin() as tx:
            (row,) = datasets.producers(tx, ["a:out", "a:nothing"])
        assert tuple(row) == ("a:out", task_id, True)
        TaskRefiner(world).run_once()


def test_a_task_may_name_its_queue_share_and_priority(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, "
                "status) VALUES (77, 'other', 'x', 'local', 9, 'active')"
            )
        )
    good_one, no_queue = put(
        world, good(workQueueName="other", gshare="mine"), good("a:two", workQueueName="none")
    )
    TaskRefiner(world).run_once()
    row = row_of(world, good_one)
    assert (row.workqueue_id, row.gshare) == (77, "mine")
    assert row_of(world, no_queue).status == "tobroken"
    assert "workQueueName" in row_of(world, no_queue).errordialog
