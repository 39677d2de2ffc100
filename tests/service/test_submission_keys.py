"""One key, one effect: submissions, collections, resubmissions and herds, under any interleaving.

Expected values: "`submit --key K`: a repeat gives the same id"; "a request that repeats user, key
and arguments changes nothing and gets the first answer again" (docs/access.md#speak-http).
"""

# Raw UPDATEs: a task that was removed after months, and one to retry, whose inputs play no part.

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx2
import pytest
from sqlalchemy import Connection, text
from support.generating import rows
from support.helpers import put_file_dataset
from support.races import blocked
from support.resubmission import OUT
from support.service_process import over, running
from support.task_rows import INPUT, OUTPUT, row_of
from support.units import DOCUMENT, unit
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.core.errors import Refused
from jedi.host.home import Home
from jedi.service.submission import collection, manifests
from jedi.service.submission.examined import Document
from jedi.service.submission.manifests import ReadTask
from jedi.service.submission.storing import Submitted
from jedi.service.units.unit_details import settle_key, submit_units
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.users import access

N = 8
"""Requests at the same time."""

BEFORE = "0008"
"""0.1.0, which had no table of keys."""

Step = Callable[[Connection], list[Submitted]]


def document(dataset: str = "a:out", **keys: Any) -> dict[str, Any]:
    items = [{"type": "constant", "value": "date"}, {**OUTPUT, "dataset": dataset}]
    return {"taskName": dataset, "noInput": True, "jobParameters": items, **keys}


AGAIN = {"taskName": "p", "site": "SITE_A", "nFilesPerJob": 1, "jobParameters": [INPUT, OUT]}
"""A task over demo:in."""


def submitting(world: World, *documents: dict[str, Any], key: str = "k") -> Step:
    """A submission of one task, or of a collection."""

    def run(tx: Connection) -> list[Submitted]:
        names = [str(i) for i in range(len(documents))] if len(documents) > 1 else [""]
        texts = [
            Document(json.dumps(one), "json", Path(), name)
            for one, name in zip(documents, names, strict=True)
        ]
        return collection.submit_all(tx, world.ddm, "anna", texts, key)

    return run


def raced(world: World, step: Step) -> tuple[list[Submitted], list[Submitted]]:
    """A step, and the answer of the same one that began before the first committed."""
    second: list[Submitted] = []
    with world.engine.connect() as tx, tx.begin() as first:
        done = step(tx)
        with blocked(world.engine, lambda other: second.extend(step(other))):
            first.commit()
    return done, second


def ids(found: list[Submitted]) -> list[int]:
    return [one.jedi_task_id for one in found]


@pytest.fixture
def done(world: World) -> int:
    """A task over three files, of which it used two; done."""
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in "abc"}, ENDPOINT)
    with world.engine.begin() as tx:
        [first] = submitting(world, {**AGAIN, "nFiles": 2}, key="first")(tx)
    cycle(world)
    assert row_of(world, first.jedi_task_id).status == "done"
    return first.jedi_task_id


def stored(world: World) -> list[int]:
    """All tasks."""
    return [number for (number,) in rows(world, "SELECT jeditaskid FROM jedi_tasks ORDER BY 1")]


def incexecs(world: World) -> int:
    return len(rows(world, "SELECT FROM jedi_commands WHERE command = 'incexec'"))


def test_a_submission_that_waits_for_its_twin_gets_its_task(world: World) -> None:
    """Both want a:out: the second one is no other task that wants it."""
    first, second = raced(world, submitting(world, document()))
    assert (first[0].created, second[0].created) == (True, False)
    assert ids(first) == ids(second) == stored(world)


def test_a_key_that_was_rolled_back_is_free(world: World) -> None:
    """The first submission fails after it took the key: the second one makes the task."""
    made: list[Submitted] = []
    step = submitting(world, document())
    with world.engine.connect() as tx, tx.begin() as first:
        step(tx)
        with blocked(world.engine, lambda other: made.extend(step(other))):
            first.rollback()
    assert [one.created for one in made] == [True]
    assert len(rows(world, "SELECT FROM jedi_tasks")) == 1


def test_a_collection_that_waits_for_its_twin_gets_its_tasks(world: World) -> None:
    """Its tasks build on each other: the second one reads what the first makes."""
    reads = {**AGAIN, "jobParameters": [{**INPUT, "dataset": "a:one"}, OUT]}
    first, second = raced(world, submitting(world, document("a:one"), reads))
    assert ids(first) == ids(second) and len(ids(first)) == 2
    assert [one.created for one in second] == [False, False]
    assert len(rows(world, "SELECT FROM jedi_tasks")) == 2


def test_a_resubmission_runs_once(world: World, done: int) -> None:
    """By hand: attempt 2 takes the third file. Its key gives attempt 2 for ever, before it began
    (toincexec is its first status), and when it is over. No repeat begins another."""
    step = submitting(world, AGAIN, key="second")
    first, second = raced(world, step)
    expected = Submitted(done, "toincexec", False, again=True, attempt_nr=2)
    assert first == second == [expected]
    assert incexecs(world) == 1
    cycle(world)
    assert (row_of(world, done).status, row_of(world, done).attemptnr) == ("done", 2)
    with world.engine.begin() as tx:
        assert step(tx) == [Submitted(done, "done", False, again=True, attempt_nr=2)]
        [old] = submitting(world, {**AGAIN, "nFiles": 2}, key="first")(tx)
    assert old == Submitted(done, "done", False)
    assert incexecs(world) == 1
    cycle(world)
    assert row_of(world, done).attemptnr == 2


def test_a_resubmission_in_a_collection_runs_once(world: World, done: int) -> None:
    first, second = raced(world, submitting(world, document(), AGAIN))
    assert ids(first) == ids(second) and done in ids(first)
    assert [one.attempt_nr for one in second] == [1, 2]
    assert incexecs(world) == 1


def test_units_that_wait_for_their_twin_get_its_task(world: World) -> None:
    output = {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": "a:out"}
    document = {**DOCUMENT, "jobParameters": [*DOCUMENT["jobParameters"], output]}
    found: list[int] = []

    def step(tx: Connection) -> list[Submitted]:
        units = [unit("1"), unit("2")]
        found.append(
            submit_units(
                tx, world.ddm, "anna", document, units, Path(), "k", world.knobs, keep_going=True
            ).jedi_task_id
        )
        return []

    raced(world, step)
    assert len(found) == 2 and len({*found}) == 1
    assert len(rows(world, "SELECT FROM jedi_units")) == 2


def test_a_key_belongs_to_one_kind_of_submission(world: World) -> None:
    """`unit.settle` promises for ever that no task has a key, or names the task."""
    with world.engine.begin() as tx:
        assert settle_key(tx, "anna", "late") is None
        with pytest.raises(Refused) as late:
            submitting(world, document(), key="late")(tx)
    assert late.value.code == "key_settled"
    with world.engine.begin() as tx:
        [first] = submitting(world, document(), key="k")(tx)
        settled = settle_key(tx, "anna", "k")
    assert settled and settled.jedi_task_id == first.jedi_task_id


@pytest.mark.parametrize("other", [{"taskName": "other"}, {"nFiles": 3}])
def test_a_key_refuses_another_task(world: World, other: dict[str, Any]) -> None:
    """docs/access.md: "JEDI refuses a known key with other arguments"."""
    with world.engine.begin() as tx:
        [first] = submitting(world, document())(tx)
        with pytest.raises(Refused) as refused:
            submitting(world, document() | other)(tx)
    assert refused.value.code == "key_reused"
    assert str(refused.value) == (
        f"The key k belongs to task {first.jedi_task_id} (a:out), which has other parameters: "
        "submit this task under another key."
    )
    assert stored(world) == [first.jedi_task_id]


def test_a_key_is_that_of_the_task_not_of_its_text(world: World) -> None:
    with world.engine.begin() as tx:
        texts = (json.dumps(document()), f"# again\n{json.dumps(document(), indent=1)}")
        made = [
            collection.submit_all(tx, world.ddm, "anna", [Document(one, form, Path())], "k")
            for one, form in zip(texts, ("json", "yaml"), strict=True)
        ]
    assert ids(made[0]) == ids(made[1]) == stored(world)


def test_a_text_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its key, and for the trial and the submission of its collection."""
    seen: list[str] = []
    read = manifests.read

    def noted(text: str, format: str, who: str) -> ReadTask:
        seen.append(text)
        return read(text, format, who)

    monkeypatch.setattr(manifests, "read", noted)
    with world.engine.begin() as tx:
        submitting(world, document("a:one"), document("a:two"))(tx)
    assert seen == [json.dumps(document(name)) for name in ("a:one", "a:two")]


def test_a_collection_in_another_order_is_another_one(world: World) -> None:
    """Its tasks have the keys k/1 and k/2."""
    one, two = document("a:one"), document("a:two")
    with world.engine.begin() as tx:
        submitting(world, one, two)(tx)
        with pytest.raises(Refused, match="The key k/1 belongs to task"):
            submitting(world, two, one)(tx)


def test_the_key_of_a_removed_task_makes_no_other_one(world: World) -> None:
    with world.engine.begin() as tx:
        [first] = submitting(world, document())(tx)
        tx.execute(text("DELETE FROM jedi_tasks"))
        [again] = submitting(world, document())(tx)
    assert again == Submitted(first.jedi_task_id, "removed", False)


def test_a_check_takes_no_key(world: World) -> None:
    """A dry run has no effect, hence none that a key could have had."""
    with world.engine.begin() as tx:
        text_ = Document(json.dumps(document()), "json", Path())
        collection.submit_all(tx, world.ddm, "anna", [text_], "k", validate=True)
    assert rows(world, "SELECT FROM jedi_submission_keys") == []


def test_keys_of_the_release_before_stay(world: World) -> None:
    """It kept them in jedi_tasks alone."""
    step = submitting(world, document())
    with world.engine.begin() as tx:
        [first] = step(tx)
    migrate.downgrade(world.engine, BEFORE)
    assert rows(world, "SELECT to_regclass('jedi_submission_keys')") == [(None,)]
    migrate.upgrade(world.engine)
    with world.engine.begin() as tx:
        assert step(tx) == [Submitted(first.jedi_task_id, "registered", False)]


# ------------------------------------------------------------------------- over HTTP, all at once


@pytest.fixture
def anna(world: World) -> Iterator[Callable[..., list[httpx2.Response]]]:
    """The answers to N equal requests of anna at the same time."""
    with world.engine.begin() as tx:
        token = access.put_user_token(tx, "anna", None, "all", 600.0)
    headers = {"Authorization": f"Bearer {token}"}
    with running(world):

        def ask(path: str, header: str | None = None, **body: Any) -> list[httpx2.Response]:
            start = Barrier(N)
            more = {"Idempotency-Key": header} if header else {}

            def one(_: int) -> httpx2.Response:
                with over(Home(world.settings.home)) as client:
                    client.get("/v1/me", headers=headers)
                    start.wait(20)
                    return client.post(path, headers={**headers, **more}, json=body, timeout=60)

            with ThreadPoolExecutor(N) as pool:
                return [*pool.map(one, range(N))]

        yield ask


Ask = Callable[..., list[httpx2.Response]]


def texts(*documents: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"name": str(i), "text": json.dumps(one), "format": "json"}
        for i, one in enumerate(documents)
    ]


def agreed(answers: list[httpx2.Response]) -> Any:
    """The tasks that all answers name."""
    assert {one.status_code for one in answers} == {200}, [one.text for one in answers]
    named = {tuple(one["jedi_task_id"] for one in answer.json()) for answer in answers}
    assert len(named) == 1
    return named.pop()


def test_simultaneous_submissions(world: World, anna: Ask) -> None:
    """With the user's key in the body, as `jedi-task submit --key` sends it, and as a header."""
    body = agreed(anna("/v1/tasks", texts=texts(document("a:1")), key="k"))
    header = agreed(anna("/v1/tasks", "h", texts=texts(document("a:2"), document("a:3"))))
    assert [*body, *header] == stored(world)


@pytest.mark.parametrize("verb", ["incexec", "retry"])
def test_simultaneous_commands(world: World, done: int, anna: Ask, verb: str) -> None:
    if verb == "retry":
        with world.engine.begin() as tx:
            tx.execute(text("SET LOCAL session_replication_role = replica"))
            tx.execute(text("UPDATE jedi_tasks SET status = 'finished'"))
    answers = anna(f"/v1/tasks/{verb}", "k", jedi_task_ids=[done])
    assert len({one.text for one in answers}) == 1 and answers[0].json()[0]["accepted"]
    assert len(rows(world, f"SELECT FROM jedi_commands WHERE command = '{verb}'")) == 1


def test_simultaneous_resubmissions(world: World, done: int, anna: Ask) -> None:
    answers = anna("/v1/tasks", texts=texts(AGAIN), key="k")
    assert agreed(answers) == (done,)
    assert {(one.json()[0]["status"], one.json()[0]["attempt_nr"]) for one in answers} == {
        ("toincexec", 2)
    }
    assert incexecs(world) == 1


def test_simultaneous_units(world: World, anna: Ask) -> None:
    answers = anna("/v1/units/submit", document=DOCUMENT, units=[unit("1"), unit("2")], key="k")
    assert {one.status_code for one in answers} == {200}, [one.text for one in answers]
    assert sum(one.json()["created"] for one in answers) == 1
    assert len({one.json()["jedi_task_id"] for one in answers}) == 1
    assert len(rows(world, "SELECT FROM jedi_units")) == 2


def test_an_empty_key_is_refused(anna: Ask) -> None:
    """`--key "$UNSET"`: all tasks of a script would be the first one."""
    for answer in anna("/v1/tasks", texts=texts(document()), key=""):
        assert answer.status_code == 422
        [problem] = answer.json()["facts"]["problems"]
        assert problem["path"] == "key"
