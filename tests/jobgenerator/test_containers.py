"""Output containers: a dataset for each site, made when jobs need it, and what people see of it."""

# Raw UPDATEs: counts that a feed of many files would leave.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.calls import call
from support.commanding import ask, cycle, end, everything, jobs, sound, status, take
from support.generating import document, generate, ready, rows
from support.helpers import publish, put_file_dataset
from support.merging import merged_at_last
from support.situations import make_due
from support.task_rows import INPUT, put, row_of

from jedi.agent.base import World
from jedi.core.errors import BadInput, LockLost, NotFound
from jedi.model.tasks.text import validate
from jedi.service.files import contents
from jedi.service.tasks import recovering, task_details
from jedi.taskbuffer.inputs import instances
from jedi.taskbuffer.jobs import orders
from jedi.taskrefiner.agent import TaskRefiner
from jedi.taskrefiner.refine import Refiner

ENDPOINTS = {site: f"{site}_DATADISK" for site in ("SITE_A", "SITE_B")}
AT_SITES: dict[str, Any] = {"nFilesPerJob": 1, "instantiateTmplSite": True}


def task_at(world: World, *sites: str, **keys: Any) -> int:
    """A task with two files, each of which is processed at one of these sites."""
    for endpoint in ENDPOINTS.values():
        put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, endpoint)
    [task] = ready(world, document(**{**AT_SITES, **keys}))
    for n, site in enumerate(sites, 1):
        with world.engine.begin() as tx:
            tx.exec_driver_sql("UPDATE jedi_tasks SET site = %s", (site,))
            tx.exec_driver_sql(
                "UPDATE jedi_datasets SET nfilestobeused = %s WHERE type = 'input'", (n,)
            )
        make_due(world)
        assert generate(world) == 1, row_of(world, task).errordialog
    return task


def made(world: World, task: int, kind: str = "output") -> list[Any]:
    query = "SELECT * FROM jedi_datasets WHERE jeditaskid = :t AND type = :k ORDER BY datasetid"
    return rows(world, query, t=task, k=kind)


def finish(world: World, task: int) -> None:
    """All jobs end with success, where they run."""
    for site, endpoint in ENDPOINTS.items():
        query = (
            "SELECT pandaid FROM jedi_jobs WHERE jeditaskid = :t AND site = :s "
            "AND postprocessed_at IS NULL"
        )
        ids = [row.pandaid for row in rows(world, query, t=task, s=site)]
        with world.engine.begin() as tx:
            publish(world, tx, ids, endpoint)
        take(world, ids)
        end(world, ids, "finished")


def test_each_site_has_a_dataset_in_the_container(world: World) -> None:
    task = task_at(world, "SITE_A", "SITE_B")
    (template,) = made(world, task, "tmpl_output")
    at_a, at_b = made(world, task)
    assert [at_a.site, at_b.site] == ["SITE_A", "SITE_B"]
    assert {at_a.templateid, at_b.templateid} == {template.datasetid}
    assert {at_a.containername, at_b.containername} == {template.datasetname} == {"a:out"}
    assert [at_a.datasetname, at_b.datasetname] == [
        f"a:out.{one.datasetid}" for one in (at_a, at_b)
    ]
    container = world.ddm.dataset("a:out")
    assert container.is_container and container.state == "open"
    assert world.ddm.constituents("a:out") == [at_a.datasetname, at_b.datasetname]
    assert len(made(world, task, "log")) == 2
    finish(world, task)
    everything(world)
    assert status(world, task) == "done"
    assert {d.status for d in made(world, task) + made(world, task, "tmpl_output")} == {"done"}
    assert world.ddm.dataset("a:out").state == "closed"
    assert len(world.ddm.list_files("a:out")) == 2
    with world.engine.begin() as tx:
        files = task_details.outputs(call(tx), task)
        asked = call(tx, ddm=world.ddm)
        found = [contents.of_output(asked, task, file.file_id) for file in files]
    assert {one.name for one in found} == {one.lfn for one in world.ddm.list_files("a:out")}
    assert [one.path.is_file() for one in found] == [True, True]
    sound(world)


def test_a_dataset_is_used_until_it_is_closed(world: World) -> None:
    assert len(made(world, task_at(world, "SITE_A", "SITE_A"))) == 1
    (one,) = made(world, task := task_at(world, "SITE_A", output="a:other"))
    make_due(world)
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "UPDATE jedi_datasets SET status = 'prepared' WHERE datasetid = %s", (one.datasetid,)
        )
        tx.exec_driver_sql(
            "UPDATE jedi_datasets SET nfilestobeused = 2 WHERE jeditaskid = %s AND type = 'input'",
            (task,),
        )
        (claimed,) = orders.claim(tx, "test", 60, 1)
        order = claimed.order()
        found = instances.at_sites(tx, order, ["SITE_A"], "test")
        assert found[one.templateid]["SITE_A"].dataset_id != one.datasetid
        with pytest.raises(LockLost):
            instances.at_sites(tx, replace(order, lock_seq=0), ["SITE_A"], "test")


def test_without_sites_one_dataset_takes_all(world: World) -> None:
    task = task_at(world, "SITE_A", "SITE_B", instantiateTmplSite=None, instantiateTmpl=True)
    (one,) = made(world, task)
    assert (one.site, one.nfiles) == (None, 2)
    replicas = {replica.endpoint for replica in world.ddm.replicas(one.datasetname)}
    assert replicas <= {"SITE_A_DATADISK", "SITE_B_DATADISK"}
    finish(world, task)
    everything(world)
    assert status(world, task) == "done"
    sound(world)


def test_an_aborted_task_leaves_no_empty_datasets(world: World) -> None:
    task = task_at(world, "SITE_A")
    names = [d.datasetname for d in made(world, task)]
    ask(world, task, "kill")
    cycle(world)
    end(world, jobs(world, task, "activated"), "cancelled")
    everything(world)
    assert status(world, task) == "aborted"
    for name in ("a:out", *names):
        with pytest.raises(NotFound):
            world.ddm.dataset(name)


def test_what_an_aborted_task_made_stays_in_its_container(world: World) -> None:
    task = task_at(world, "SITE_A", "SITE_B")
    first = rows(world, "SELECT min(pandaid) AS id FROM jedi_jobs")[0].id
    with world.engine.begin() as tx:
        publish(world, tx, [first], "SITE_A_DATADISK")
    take(world, [first])
    end(world, [first], "finished")
    ask(world, task, "kill")
    cycle(world)
    end(world, jobs(world, task, "activated", "assigned"), "cancelled")
    everything(world)
    assert status(world, task) == "aborted"
    assert len(world.ddm.list_files("a:out")) == 1
    assert world.ddm.dataset("a:out").state == "closed"
    sound(world)


def test_lost_files_are_named_by_the_container(world: World) -> None:
    task = task_at(world, "SITE_A", "SITE_B")
    finish(world, task)
    everything(world)
    (gone, kept) = made(world, task)
    (file,) = world.ddm.list_files(gone.datasetname)
    world.ddm.remove_files(gone.datasetname, [file.lfn])
    with world.engine.begin() as tx:
        found = recovering.recover(call(tx, "anna", ddm=world.ddm), dataset="a:out")
    assert found.tasks[0].files == {gone.datasetname: [file.lfn]}
    everything(world)
    finish(world, task)
    everything(world)
    assert status(world, task) == "done"
    assert len(world.ddm.list_files("a:out")) == 2
    assert [d.datasetid for d in made(world, task)] == [gone.datasetid, kept.datasetid]
    sound(world)


def test_a_child_reads_the_container_when_it_is_closed(world: World) -> None:
    task = task_at(world, "SITE_A", "SITE_B")
    child = document(output="a:child")
    child["jobParameters"][0] = {**INPUT, "dataset": "a:out"}
    [second] = put(world, child)
    everything(world)
    row = row_of(world, second)
    assert (row.status, row.reason_code) == ("registered", "input_open")
    finish(world, task)
    everything(world)
    make_due(world)
    everything(world)
    names = {d.datasetname for d in made(world, second, "input")}
    assert names == {d.datasetname for d in made(world, task)}
    assert {d.containername for d in made(world, second, "input")} == {"a:out"}


def test_a_child_waits_for_a_container_that_nobody_has_made_yet(world: World) -> None:
    child = document(output="a:child")
    child["jobParameters"][0] = {**INPUT, "dataset": "a:out"}
    put_file_dataset(world, "demo:in", {"a": b"a"}, "SITE_A_DATADISK")
    [second] = put(world, child)
    with world.engine.begin() as tx:
        assert instances.to_come(tx, ["a:out", "demo:in"]) == set()
    [first] = put(world, document(**AT_SITES))
    with world.engine.begin() as tx:
        assert instances.to_come(tx, ["a:out", "demo:in"]) == {"a:out"}
    assert TaskRefiner(world).run_once() == 2
    assert [status(world, i) for i in (second, first)] == ["registered", "defined"]
    assert row_of(world, second).reason_code == "input_open"


def test_analysis_has_a_dataset_for_each_site_except_at_home() -> None:
    def per_site(**keys: Any) -> bool | None:
        params = validate(document(**keys))
        assert validate(params.dump()) == params
        return Refiner().rules(params).instantiate_tmpl_site

    assert per_site(vo="atlas") is True
    assert per_site(vo="atlas", instantiateTmplSite=False) is False
    assert per_site(vo="atlas", prodSourceLabel="managed") is None
    assert (per_site(), per_site(instantiateTmplSite=True)) == (None, True)


@pytest.mark.parametrize("name", ["a:out/", "a.out/"])
def test_a_name_with_a_slash_is_a_container(world: World, name: str) -> None:
    """ "A trailing `/` means container", and a name without a scope gets one:
    docs/reference/identifiers-and-names.md#dataset-names. At home, too, a container gets a dataset
    for each site that fills it."""
    task = task_at(world, "SITE_A", "SITE_B", output=name, instantiateTmplSite=None)
    (template,) = made(world, task, "tmpl_output")
    assert template.datasetname == ("a:out" if ":" in name else "a:a.out")
    assert [one.site for one in made(world, task)] == ["SITE_A", "SITE_B"]
    assert world.ddm.dataset(name).is_container
    finish(world, task)
    everything(world)
    assert status(world, task) == "done"
    sound(world)


def test_such_a_container_may_have_one_dataset() -> None:
    def rules(**keys: Any) -> tuple[bool | None, bool | None]:
        spec = document(**keys)
        spec["jobParameters"][-1]["dataset"] = "a:out/"
        params = validate(spec)
        assert validate(params.dump()) == params
        found = Refiner().rules(params)
        return found.instantiate_tmpl, found.instantiate_tmpl_site

    assert rules() == (None, True)
    assert rules(instantiateTmplSite=False) == (True, False)
    assert rules(instantiateTmpl=True) == (True, None)


def test_merge_jobs_fill_the_container(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, "SITE_A_DATADISK")
    spec = {"transPath": "sort", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}
    [task] = ready(world, document(**AT_SITES, site="SITE_A", mergeOutput=True, mergeSpec=spec))
    assert generate(world) == 1
    assert (len(made(world, task, "trn_output")), made(world, task)) == (1, [])
    assert merged_at_last(world, task) == "done"
    (one,) = made(world, task)
    assert (one.site, one.containername, one.nfiles) == ("SITE_A", "a:out", 1)
    assert world.ddm.constituents("a:out") == [one.datasetname]
    sound(world)


def in_container(world: World, *, output: str = "a:out", **keys: Any) -> int:
    """A task with two files, whose outputs and logs go to a container."""
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINTS["SITE_A"])
    spec = document(output=output, nFilesPerJob=1, site="SITE_A", **keys)
    spec["jobParameters"][-1]["container"] = "a:all.$JEDITASKID" if keys else "a:all"
    [task] = ready(world, spec)
    assert generate(world) == 1
    return task


def test_outputs_go_to_the_container_that_is_named(world: World) -> None:
    """It is closed by the last of the tasks that fill it."""
    first, second = in_container(world), in_container(world, output="a:other")
    (one,) = made(world, first)
    assert (one.datasetname, one.containername) == ("a:out", "a:all")
    assert world.ddm.constituents("a:all") == ["a:out", "a:other"]
    for task, state in ((first, "open"), (second, "closed")):
        assert work_off_alone(world, task) == "done"
        assert world.ddm.dataset("a:all").state == state
    assert len(world.ddm.list_files("a:all")) == 4
    sound(world)


def work_off_alone(world: World, task: int) -> str:
    """The jobs of a task succeed, those of others do not end."""
    ids = jobs(world, task, "activated")
    take(world, ids)
    end(world, ids)
    everything(world)
    return status(world, task)


def test_the_logs_and_what_is_merged(world: World) -> None:
    """Logs go where their item says; what is merged is no part of it."""
    spec = {"transPath": "sort", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}
    log = {"value": "l.${SN}", "dataset": "a:logs", "container": "a:all-logs"}
    task = in_container(world, mergeOutput=True, mergeSpec=spec, log=log)
    assert made(world, task, "log")[0].containername == "a:all-logs"
    assert {d.containername for d in made(world, task, "trn_output")} == {None}
    assert merged_at_last(world, task) == "done"
    assert world.ddm.constituents(f"a:all.{task}") == ["a:out"]
    sound(world)


def test_an_aborted_task_takes_its_empty_container_along(world: World) -> None:
    task = in_container(world)
    ask(world, task, "kill")
    cycle(world)
    end(world, jobs(world, task, "activated"), "cancelled")
    everything(world)
    for name in ("a:out", "a:all"):
        with pytest.raises(NotFound):
            world.ddm.dataset(name)


def test_a_child_reads_the_container_of_several_tasks(world: World) -> None:
    child = document(output="a:child", nFilesPerJob=1)
    child["jobParameters"][0] = {**INPUT, "dataset": "a:all"}
    spec = document(nFilesPerJob=1, site="SITE_A")
    spec["jobParameters"][-1]["container"] = "a:all"
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINTS["SITE_A"])
    first, second = put(world, spec, child)
    with world.engine.begin() as tx:
        assert instances.to_come(tx, ["a:all", "demo:in"]) == {"a:all"}
    assert TaskRefiner(world).run_once() == 2
    assert row_of(world, second).reason_code == "input_open"
    with world.engine.begin() as tx:
        assert instances.to_come(tx, ["a:all"]) == {"a:all"}
    everything(world)
    assert work_off_alone(world, first) == "done"
    make_due(world)
    everything(world)
    (read,) = made(world, second, "input")
    assert (read.datasetname, read.containername) == ("a:out", "a:all")


def test_an_input_is_read_as_a_part_of_its_container(world: World) -> None:
    for name in ("demo:one", "demo:two"):
        put_file_dataset(world, name, {name[5:]: b"x"}, ENDPOINTS["SITE_A"])
    world.ddm.create("demo:all", ENDPOINTS["SITE_A"], container=True)
    world.ddm.add_members("demo:all", ["demo:one"])
    items = [
        {**INPUT, "dataset": name, "container": "demo:all"} for name in ("demo:one", "demo:two")
    ]
    documents = [document(output=f"a:out{n}") for n in range(2)]
    for one, item in zip(documents, items, strict=True):
        one["jobParameters"][0] = item
    good, bad = put(world, *documents)
    everything(world)
    (read,) = made(world, good, "input")
    assert (read.datasetname, read.containername, read.nfiles) == ("demo:one", "demo:all", 1)
    assert status(world, good) == "running"
    assert status(world, bad) == "broken"
    assert "container demo:all does not hold it" in row_of(world, bad).errordialog


@pytest.mark.parametrize(
    ("keys", "items", "path"),
    [
        ({"instantiateTmplSite": True}, ["a:all"], "jobParameters[1].container"),
        ({}, ["a:out"], "jobParameters[1].container"),
        ({}, ["a:all", None], "jobParameters[2].container"),
        ({}, ["no scope"], "jobParameters[1].container"),
    ],
)
def test_which_containers_can_not_be(
    keys: dict[str, Any], items: list[str | None], path: str
) -> None:
    spec = document(**keys)
    output = spec["jobParameters"].pop()
    for n, container in enumerate(items):
        spec["jobParameters"].append({**output, "value": f"> o{n}.${{SN}}", "container": container})
    with pytest.raises(BadInput) as caught:
        validate(spec)
    assert [problem.path for problem in caught.value.problems] == [path]
