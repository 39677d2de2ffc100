"""Keys of the event service at submission: accepted, refused with all reasons, forecast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.event_service import MERGE, consumers, event_task, job_sets, ranges, with_events
from support.generating import Catalogue, catalogue, document, generate, ready, use
from support.task_rows import put, row_of

from jedi.agent.base import World
from jedi.core.errors import BadInput, NotFound
from jedi.ddm.interface import DatasetInfo, Replica
from jedi.model.tasks import unsupported
from jedi.model.tasks.text import examine
from jedi.service.planning.text_plans import Alternative, plan_now
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.storing import check
from jedi.taskrefiner.agent import TaskRefiner
from jedi.taskrefiner.refine import Submission, converted


def paths_of(asked: dict[str, Any]) -> list[str]:
    """Where the problems of a document are."""
    _, problems = examine(asked)
    return [problem.path for problem in problems]


def test_all_reasons_are_given_at_once() -> None:
    """event service is refused with noOutput, without counts of events, and with
    pre-processing where that can't be; and mergeOutput. Reasons stand together."""
    task = event_task(
        esmergeSpec=None,
        mergeOutput=True,
        mergeSpec={"transPath": "m", "jobParameters": "${TRN_OUTPUT0} ${OUTPUT0}"},
        preproSpec={"transPath": "p", "jobParameters": ""},
    )
    task = {key: value for key, value in task.items() if value is not None}
    first, *_ = task["jobParameters"]
    task["jobParameters"] = [{**first, "dataset": "demo:${PP_NAME}"}]
    found = examine(task)[1]
    rules = {problem.rule for problem in found}
    assert "the task has no output to merge" in rules
    for rule in (
        "mergeOutput is set, but its outputs are merged already, out of pieces",
        "pieces of events are merged into outputs, and the task has none (noOutput)",
        "the task has no command that merges pieces",
        "the pre-processing job names the input, so nEventsPerInputFile is unknown",
    ):
        assert rule in rules, rule


@pytest.mark.parametrize(
    ("keys", "paths"),
    [
        ({}, []),
        ({"nEventsPerInputFile": 5}, []),
        ({"esmergeSpec": {"transPath": "m", "jobParameters": "${IN/L} ${SN}"}}, []),
        ({"esmergeSpec": {"jobParameters": "  "}}, ["nEventsPerWorker"]),
        (
            {"esmergeSpec": {"transPath": "m", "jobParameters": "${IN9} ${OUTPUT0/X}"}},
            ["esmergeSpec.jobParameters"] * 2,
        ),
        ({"useJobCloning": "runonce"}, ["nEventsPerWorker"]),
        ({"nEventsPerWorker": None, "useJobCloning": "runonce"}, []),
        ({"nEventsPerWorker": None, "fineGrainedProc": True}, []),
        (
            {"nEventsPerWorker": None, "fineGrainedProc": True, "esmergeSpec": None},
            ["fineGrainedProc"],
        ),
        ({"nEventsPerWorker": None}, ["esmergeSpec"]),
        ({"nEventsPerWorker": None, "nJumboJobs": 1}, ["nJumboJobs", "esmergeSpec"]),
        ({"nEventsPerWorker": None, "esConvertible": True, "esFraction": 0.5}, []),
        (
            {
                "nEventsPerWorker": None,
                "esConvertible": True,
                "esFraction": 0.5,
                "esmergeSpec": None,
            },
            ["esFraction"],
        ),
        ({"nEventsPerWorker": None, "esFraction": 0.5, "esmergeSpec": None}, ["esFraction"]),
        ({"nEventsPerWorker": None, "esFraction": 0.5}, []),
        ({"nEventsPerWorker": None, "esFraction": 1.0}, []),
        ({"nEventsPerWorker": None, "esFraction": 1.5}, ["esFraction"]),
    ],
)
def test_keys_that_fit_and_keys_that_do_not(keys: dict[str, Any], paths: list[str]) -> None:
    task = {key: value for key, value in event_task(**keys).items() if value is not None}
    assert paths_of(task) == paths


def test_keys_without_their_mode_are_reported() -> None:
    """A key is never ignored: what it needs is named."""
    task = document(maxAttemptES=3, nEsConsumers=2)
    assert [one.partition(" ")[0] for one in unsupported.kept(task)] == [
        "maxAttemptES",
        "nEsConsumers",
    ]
    assert not [*unsupported.kept(event_task(maxAttemptES=3, nEsConsumers=2))]


def test_a_task_that_names_its_site_is_warned_of_its_jumbo_jobs() -> None:
    """Expected: "This machinery is disabled if the task sets the site parameter"."""
    jumbos = {"nJumboJobs": 1, "maxJumboPerSite": 2}
    found = [*unsupported.kept(event_task(site="SITE_A", **jumbos))]
    assert [one.partition(" ")[0] for one in found] == [*jumbos]
    assert all("names its site" in one for one in found)
    assert not [*unsupported.kept(event_task(includedSite="SITE_A", **jumbos))]


def test_a_task_without_input_says_how_many_events_it_has() -> None:
    out = event_task()["jobParameters"][-1]
    task = {"taskName": "t", "transPath": "x", "noInput": True, "jobParameters": [out]}
    task |= {"nEventsPerWorker": 2, "esmergeSpec": {"transPath": "m"}}
    assert paths_of({**task, "nFiles": 3}) == ["nEventsPerWorker"]
    assert paths_of({**task, "nEvents": 30, "nEventsPerJob": 10}) == []


def test_files_without_counts_are_refused_at_submission(world: World) -> None:
    """event service with nEventsPerInputFile unknown."""
    use(world, Known(catalogue(world, in_=with_events(5, None)).files))

    def submit(**keys: Any) -> None:
        text = json.dumps(event_task(**keys))
        with world.engine.begin() as tx:
            check(tx, world.ddm, examined(Document(text, "json", Path()), "anna"))

    submit(nEventsPerInputFile=5)
    with pytest.raises(BadInput) as caught:
        submit()
    (problem,) = caught.value.problems
    assert problem.rule == "the number of events in File2 of demo:in is unknown"


def test_part_of_the_convertible_tasks_goes_to_the_event_service(world: World) -> None:
    """PanDA: auto-conversion presets ND, XF, SC, ME, XA=1, XJ=0, coreCount 0."""
    catalogue(world, in_=with_events(5))
    keys = {"nEventsPerWorker": None, "esConvertible": True, "esmergeSpec": MERGE}

    def convertible(fraction: float, output: str) -> dict[str, Any]:
        task = event_task(**keys, esFraction=fraction, output=output)
        return {key: value for key, value in task.items() if value is not None}

    all_, none = put(world, convertible(1.0, "a:all"), convertible(1e-9, "a:none"))
    assert TaskRefiner(world).run_once() == 2
    found = row_of(world, all_)
    assert (found.eventservice, found.corecount) == (1, 0)
    assert {"ES=1", "XF=1", "ND=1", "SC=1", "ME=1", "XA=1", "XJ=0"} <= set(
        found.splitrule.split(",")
    )
    assert (row_of(world, none).eventservice, row_of(world, none).corecount) == (None, 1)


def test_a_converted_task_keeps_its_own_attempts() -> None:
    """PanDA: maxAttemptES and maxAttemptEsJob are set "if not in" the task; coreCount 0 and one
    event a range in any case."""
    keys = {"esFraction": 1.0, "maxAttemptES": 5, "maxAttemptEsJob": 2, "coreCount": 8}
    task = {key: value for key, value in event_task(**keys).items() if key != "nEventsPerWorker"}
    params, _ = examine(task)
    assert params is not None
    found = converted(Submission(1, "anna", params, {}, ())).params
    assert (found.max_attempt_es, found.max_attempt_es_job, found.core_count) == (5, 2, 0)
    assert (found.n_events_per_worker, found.not_discard_events) == (1, True)


def test_the_fraction_is_one_of_tasks() -> None:
    """PanDA: esFraction is compared with a random number, whether or not esConvertible is set. Of
    10,000 tasks with 0.25 that is 2,500, give or take three standard deviations of 43; a task that
    is refined again is converted again, or not."""
    task = {**event_task(esFraction=0.25), "nEventsPerWorker": None}
    params, _ = examine({key: value for key, value in task.items() if value is not None})
    assert params is not None

    def lots() -> list[bool]:
        found = (converted(Submission(i, "anna", params, {}, ())) for i in range(1, 10_001))
        return [one.params.n_events_per_worker == 1 for one in found]

    assert 2370 <= sum(lots()) <= 2630
    assert lots() == lots()


def test_a_converted_task_is_one_of_the_event_service(world: World) -> None:
    """Expected: es_only arguments are for its consumers alone; ranges of one event; cores as the
    queue has them; one attempt of a range, and no consumer that follows."""
    catalogue(world, in_=with_events(3))
    keys = {"nEventsPerWorker": None, "esFraction": 1.0}
    asked = {k: v for k, v in event_task(**keys).items() if v is not None}
    first, *rest = asked["jobParameters"]
    item = {"type": "constant", "value": "--events", "es_only": True}
    (task,) = ready(world, {**asked, "jobParameters": [first, item, *rest]})
    generate(world)
    assert [one.command for one in consumers(world, task)] == ["cat File1 --events > o.000001"]
    assert [(e.def_min_eventid, e.attemptnr) for e in ranges(world, task)] == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]
    assert [one.attempts_left for one in job_sets(world, task)] == [0]


class Known(Catalogue):
    """A data management that knows no other datasets, and where whole ones lie."""

    def dataset(self, name: str) -> DatasetInfo:
        if name not in self.files:
            raise NotFound(f"There is no dataset {name}.")
        return super().dataset(name)

    def replicas(self, name: str) -> list[Replica]:
        return [Replica(endpoint, len(self.files[name]), 10) for endpoint in self.endpoints]

    def constituents(self, name: str) -> list[str]:
        return [name]


def test_a_plan_counts_what_then_is_made(world: World) -> None:
    """Two files of 5 and 3 events, 2 a range, 2 consumers a job set: 3 + 2 ranges."""
    use(world, Known(catalogue(world, in_=with_events(5, 3)).files))
    asked = event_task(nEsConsumers=2)
    with world.engine.begin() as tx:
        text = json.dumps(asked)
        plan = plan_now(
            tx, world.ddm, examined(Document(text, "json", Path()), "anna"), 0, Alternative()
        ).plan
    assert plan.job_sets is not None
    assert (plan.jobs, plan.scouts) == (2, 0)
    assert (plan.job_sets.mode, plan.job_sets.consumers, plan.job_sets.ranges) == ("es", 4, 5)
    (task,) = ready(world, asked)
    generate(world)
    assert len(job_sets(world, task)) == plan.jobs
    assert len(consumers(world, task)) == plan.job_sets.consumers
    assert len(ranges(world, task)) == plan.job_sets.ranges
