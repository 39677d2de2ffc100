"""Files that a task names itself, not by a dataset: pfnList."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.commanding import ask, everything, jobs, sound, status, work_off
from support.generating import SECOND, generate, ready, rows
from support.helpers import put_file_dataset
from support.task_rows import OUTPUT, put
from support.taskparams import INPUT, problems

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.model.datasets.physical import Physical, files
from jedi.model.jobs.wire import AcquireRequest, Report, Resources, UnusableInput
from jedi.model.tasks.text import validate
from jedi.service.pilots import pilot_requests
from jedi.service.planning import text_plans
from jedi.service.submission.examined import Document, examined
from jedi.taskbuffer.users.users import Identity

CAT = {"type": "constant", "value": "cat ${IN/S}"}
PILOT = Identity("pilot", "SITE_A", None)


def document(
    *paths: str, items: tuple[dict[str, Any], ...] = (), output: str = "a:out", **keys: Any
) -> dict[str, Any]:
    """A task that reads these files."""
    return {
        "taskName": "t",
        "skipScout": True,
        "pfnList": [*paths],
        "site": "SITE_A",
        "jobParameters": [CAT, *items, {**OUTPUT, "dataset": output}],
        **keys,
    }


def commands(world: World) -> list[str]:
    found = rows(world, "SELECT jobparameters AS text FROM jedi_job_params ORDER BY pandaid")
    return [row.text for row in found]


def acquire(world: World, n: int) -> list[dict[str, Any]]:
    """What a pilot at the site gets."""
    request = AcquireRequest(
        request_id=str(uuid4()), pilot_id="p", site="SITE_A", n=n, resources=Resources(cores=1)
    )
    found = pilot_requests.acquire(world.engine, world.ddm, world.knobs, PILOT, request)
    return list(found["jobs"])


def read(order: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(one["lfn"], one["path"], one["size"]) for one in order["inputs"]]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/data/hits", Physical("hits", "/data/hits", None)),
        ("file:///data/hits^500", Physical("hits", "/data/hits", 500)),
        ("/x^2/hits^7", Physical("hits", "/x^2/hits", 7)),
    ],
)
def test_a_file_as_it_is_written(text: str, meant: Physical) -> None:
    assert files([text]) == [meant]


def test_where_two_have_one_name_all_are_numbered() -> None:
    assert [one.lfn for one in files(["/a/x", "/b/y"])] == ["x", "y"]
    found = files(["/a/x", "/b/x", "/b/y"])
    assert [one.lfn for one in found] == ["000001.x", "000002.x", "000003.y"]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"pfnList": ["data/hits"]}, "pfnList[0]"),
        ({"pfnList": ["/a", "root://x//a"]}, "pfnList[1]"),
        ({"pfnList": ["/data/../etc/x"]}, "pfnList[0]"),
        ({"pfnList": ["/data/a b"]}, "pfnList[0]"),
        ({"pfnList": ["/data/"]}, "pfnList[0]"),
        ({"pfnList": ["/" + "x" * 250]}, "pfnList[0]"),
        ({"pfnList": ["/a/x", "file:///a//x^5"]}, "pfnList"),
        ({"noInput": True}, "noInput"),
        ({"nGBPerJob": 2}, "nGBPerJob"),
        ({"tgtMaxOutputForNG": 2}, "tgtMaxOutputForNG"),
        ({"skipFilesUsedBy": [1]}, "skipFilesUsedBy"),
        ({"lostFiles": ["x"], "lostFilesDataset": "a:b"}, "lostFiles"),
        ({"nEventsPerJob": 5}, "pfnList"),
        ({"nEvents": 5}, "pfnList"),
    ],
)
def test_what_does_not_go_with_it_is_told(keys: dict[str, Any], path: str) -> None:
    (problem,) = problems({**document("/a/x", "/a/y^5"), **keys})
    assert problem.path == path


def test_other_inputs_follow_it_by_another_placeholder() -> None:
    validate(document("/a/x", items=(SECOND,)))
    validate({**document("/a/x", items=(INPUT | {"value": ""},)), "dsForIN2": "demo:more"})
    (problem,) = problems(document("/a/x", items=(INPUT,)))
    assert "another item feeds ${IN} already" in problem.rule
    validate(document("/a/x", nEventsPerJob=5, nEventsPerInputFile=100))


def test_jobs_get_the_paths_and_payloads_the_names(world: World) -> None:
    paths = [f"/data/{name}" for name in "abcde"]
    [task] = ready(world, document(*paths, nFilesPerJob=2))
    assert generate(world) == 1
    assert [text.partition(" >")[0] for text in commands(world)] == ["cat a b", "cat c d", "cat e"]
    orders = acquire(world, 3)
    assert [read(one) for one in orders] == [
        [("a", "/data/a", None), ("b", "/data/b", None)],
        [("c", "/data/c", None), ("d", "/data/d", None)],
        [("e", "/data/e", None)],
    ]
    [row] = rows(world, "SELECT splitrule FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    assert "PL=1" in row.splitrule
    sound(world)


def test_what_follows_comes_from_its_dataset(world: World) -> None:
    put_file_dataset(world, "demo:second", {"s": b"s"}, "SITE_A_DATADISK")
    second = {**SECOND, "attributes": "nosplit"}
    ready(world, document("/data/a", "/data/b", items=(second,), nFilesPerJob=1))
    generate(world)
    first, other = (read(one) for one in acquire(world, 2))
    assert [first[0], other[0]] == [("a", "/data/a", None), ("b", "/data/b", None)]
    assert first[1] == other[1] and first[1][::2] == ("s", 1)


def test_what_only_has_the_name_of_one_comes_from_elsewhere(world: World) -> None:
    put_file_dataset(world, "demo:second", {"a": b"a", "b": b"b"}, "SITE_A_DATADISK")
    ready(world, document("/data/b", "/data/a", items=(SECOND,), nFilesPerJob=1))
    generate(world)
    listed = {lfn: str(world.ddm.path("SITE_A_DATADISK", "demo:second", lfn)) for lfn in "ab"}
    assert [sorted(read(order)) for order in acquire(world, 2)] == [
        [("a", listed["a"], 1), ("b", "/data/b", None)],
        [("a", "/data/a", None), ("b", listed["b"], 1)],
    ]


def test_nor_is_it_for_the_same_job(world: World) -> None:
    put_file_dataset(world, "demo:second", {"a": b"a"}, "SITE_A_DATADISK")
    [task] = ready(world, document("/data/a", items=(SECOND,), nFilesPerJob=1))
    generate(world)
    [row] = rows(world, "SELECT reason_code FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    assert row.reason_code == "inputs_alike"


def test_a_build_reads_none_of_them(world: World) -> None:
    library = {"type": "constant", "value": "${LIB}"}
    spec = {"transPath": "make", "jobParameters": "${OUT}"}
    ready(world, document("/data/a", items=(library,), buildSpec=spec))
    assert generate(world) == 1
    assert [job.kind for job in rows(world, "SELECT kind FROM jedi_jobs")] == ["build"]
    assert [read(order) for order in acquire(world, 1)] == [[]]


def test_a_plan_knows_them(world: World) -> None:
    text = json.dumps(document("/data/a", "/data/b", "/data/c", nFilesPerJob=2))
    with world.engine.begin() as tx:
        plan = text_plans.plan_now(
            tx,
            world.ddm,
            examined(Document(text, "json", Path.cwd()), "anna"),
            0,
            text_plans.Alternative(),
        ).plan
    assert (plan.jobs, plan.files, plan.local) == (2, 3, 2)


def test_events_are_cut_across_files(world: World) -> None:
    part = {"type": "constant", "value": "${SKIPEVENTS} ${MAXEVENTS}"}
    ready(world, document("/data/a^3", "/data/b^3", nEventsPerJob=2, items=(part,)))
    generate(world)
    texts = [text.partition(" >")[0] for text in commands(world)]
    assert texts == ["cat a 0 2", "cat a b 2 2", "cat b 1 2"]
    assert [len(one["inputs"]) for one in acquire(world, 3)] == [1, 2, 1]


def test_more_of_the_list_is_fed_when_more_is_wanted(world: World) -> None:
    [task] = ready(world, document(*(f"/data/{n}" for n in range(4)), nFilesPerJob=1, nFiles=2))
    generate(world)
    assert work_off(world, task) == "done"
    ask(world, task, "incexec", parameters={"nFiles": 3})
    assert work_off(world, task) == "done"
    assert [text.split()[1] for text in commands(world)] == ["0", "1", "2"]
    sound(world)


def fail_to_find(world: World) -> None:
    """A pilot takes a job, and does not find its file."""
    (order,) = acquire(world, 1)
    bad = [UnusableInput(lfn=order["inputs"][0]["lfn"], problem="missing")]
    attempt = {"pandaid": order["pandaid"], "lock_seq": order["lock_seq"]}
    report = Report(**attempt, status="failed", error_code="stagein_missing", bad_inputs=bad)
    with world.engine.begin() as tx:
        assert pilot_requests.report(tx, PILOT, [report])["results"][0]["verdict"] == "accepted"
    assert Adder(world).run_once() == 1


def test_a_file_that_is_gone_is_missing_until_somebody_looks_again(
    world: World, tmp_path: Path
) -> None:
    """One that the server does see is tried again at once: the site had a problem."""
    here = tmp_path / "here"
    here.touch()
    [task] = ready(world, document("/nowhere/a", nFilesPerJob=1))
    (other,) = put(world, document(str(here), output="a:other", nFilesPerJob=1))
    everything(world)
    states = "SELECT lfn, status FROM jedi_dataset_contents WHERE type LIKE 'pseudo%' ORDER BY 1"
    assert [*map(tuple, rows(world, states))] == [("a", "running"), ("here", "running")]
    fail_to_find(world)
    everything(world)
    assert status(world, task) == "failed"
    assert [*map(tuple, rows(world, states))] == [("a", "missing"), ("here", "running")]
    sound(world)
    fail_to_find(world)
    everything(world)
    assert [*map(tuple, rows(world, states))] == [("a", "missing"), ("here", "running")]
    ask(world, task, "retry")
    everything(world)
    assert len(jobs(world, task, "activated")) == len(jobs(world, other, "activated")) == 1
    sound(world)
