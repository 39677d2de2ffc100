"""Actions on pages: preview, confirmation, answers; made by those who may and nobody else."""

# Raw UPDATEs: a finished task with outputs, without pilots.

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from sqlalchemy import text
from support.browsing import at, pages, session
from support.forms import hidden
from support.job_rows import make_jobs
from support.task_rows import good, put

from jedi.agent.base import World


@pytest.fixture
def door(world: World) -> Iterator[httpx2.Client]:
    """The owner of two tasks, without a browser."""
    put(world, good("a:out"), good("a:out2"))
    with pages(world) as address, httpx2.Client(base_url=address) as found:
        found.cookies.update(at(str(found.base_url), session(world, "anna")))
        yield found


def commands(world: World) -> list[tuple[int, str]]:
    with world.engine.begin() as tx:
        rows = tx.execute(text("SELECT jeditaskid, command FROM jedi_commands ORDER BY 1, 2"))
        return [tuple(row) for row in rows]


def test_a_confirmation_does_what_the_preview_showed(world: World, door: httpx2.Client) -> None:
    page = door.get("/act/task.kill?id=1&id=2&id=99&back=/tasks")
    assert "Kill: 2 of 3 tasks" in page.text and "registered" in page.text
    assert "There is no task 99." in page.text
    assert commands(world) == []
    done = door.post("/act/task.kill", data=hidden(page))
    assert "2 accepted, 1 refused" in done.text and 'href="/tasks"' in done.text
    assert commands(world) == [(1, "kill"), (2, "kill")]


def test_a_double_click_happens_once(world: World, door: httpx2.Client) -> None:
    sent = hidden(door.get("/act/task.kill?id=1"))
    first, second = (door.post("/act/task.kill", data=sent) for _ in range(2))
    assert first.text == second.text and "1 accepted" in first.text
    assert commands(world) == [(1, "kill")]
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_audit WHERE operation = 'task.kill'")) == 1


def test_a_changed_form_is_shown_again_first(world: World, door: httpx2.Client) -> None:
    """Nothing is done that no preview has shown."""
    sent: dict[str, Any] = {**hidden(door.get("/act/task.finish?id=1")), "soft": "true"}
    again = door.post("/act/task.finish", data=sent)
    assert "Nothing is done yet" in again.text and commands(world) == []
    more = {**hidden(again), "soft": "true", "comment": "enough"}
    assert "1 accepted" in door.post("/act/task.finish", data=more).text
    assert commands(world) == [(1, "finish")]


def test_wrong_values_are_named(world: World, door: httpx2.Client) -> None:
    first = door.get("/act/task.set_priority?id=1&id=2")
    assert 'id="preview"' in first.text and 'id="confirm"' not in first.text
    wrong = door.post("/act/task.set_priority", data={**hidden(first), "priority": "high"})
    assert wrong.status_code == 422
    cells = re.findall(r"<td>([^<]*)</td>", wrong.text)
    assert cells == ["priority", "high", "must be a whole number", "Write digits alone"]
    high = door.post("/act/task.set_priority", data={**hidden(first), "priority": "99999"})
    assert high.status_code == 422 and "99999" in high.text
    shown = door.post("/act/task.set_priority", data={**hidden(first), "priority": "900"})
    assert "Priority 900" in shown.text
    assert "Nothing is done yet" not in shown.text  # the first preview: nothing was changed
    other = door.post("/act/task.set_priority", data={**hidden(shown), "priority": "800"})
    assert "Nothing is done yet" in other.text
    done = door.post("/act/task.set_priority", data={**hidden(shown), "priority": "900"})
    assert "2 accepted" in done.text


def test_lost_outputs_are_made_again(world: World, door: httpx2.Client) -> None:
    """Two jobs have an output each, which data management lacks."""
    with world.engine.begin() as tx:
        task = make_jobs(tx, 2, files=1).task
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text("UPDATE jedi_dataset_contents SET status = 'finished' WHERE type = 'output'")
        )
        tx.execute(
            text(
                "UPDATE jedi_tasks SET status = 'finished', prodsourcelabel = 'user', "
                "currentpriority = 1, statechangetime = jedi_now() "
                "WHERE jeditaskid = :task"
            ),
            {"task": task},
        )
    door.cookies.clear()
    door.cookies.update(at(str(door.base_url), session(world, "me")))
    assert f'href="/act/task.recover?id={task}' in door.get(f"/tasks/{task}").text
    page = door.get(f"/act/task.recover?id={task}&id=99")
    assert f"Lost files that are made again: 2 by task {task}." in page.text
    assert "Make lost outputs again: 1 of 2 tasks" in page.text and commands(world) == []
    assert "1 accepted, 1 refused" in door.post("/act/task.recover", data=hidden(page)).text
    assert commands(world) == [(task, "recover")]


@pytest.mark.parametrize("sign", ["", "0" * 32, "ü" * 32, None])
def test_a_wrong_sign_does_nothing(world: World, door: httpx2.Client, sign: str | None) -> None:
    sent: dict[str, Any] = {**hidden(door.get("/act/task.kill?id=1")), "sign": sign or ""}
    if sign is None:
        del sent["sign"]
    answer = door.post("/act/task.kill", data=sent)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_form")
    assert commands(world) == []


@pytest.mark.parametrize(
    "origin", ["http://evil.example.org", "null", "http://127.0.0.1:1", "http://["]
)
def test_another_origin_does_nothing(world: World, door: httpx2.Client, origin: str) -> None:
    sent = hidden(door.get("/act/task.kill?id=1"))
    answer = door.post("/act/task.kill", data=sent, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_form")
    assert commands(world) == []


def test_another_user_may_do_nothing(world: World, door: httpx2.Client) -> None:
    door.cookies.clear()
    door.cookies.update(at(str(door.base_url), session(world, "bea")))
    page = door.get("/act/task.kill?id=1")
    assert "1 refused" in page.text and 'id="confirm"' not in page.text
    with_seal = {**hidden(page), "seal": [seal_of(world, door)]}
    done = door.post("/act/task.kill", data=with_seal)
    assert "0 accepted, 1 refused" in done.text and "forbidden" in done.text
    assert commands(world) == []
    assert "/act/" not in door.get("/tasks/1").text


def seal_of(world: World, door: httpx2.Client) -> str:
    """The seal of the owner's form."""
    cookies = at(str(door.base_url), session(world, "anna"))
    with httpx2.Client(base_url=door.base_url, cookies=cookies) as owner:
        return hidden(owner.get("/act/task.kill?id=1"))["seal"][0]


def test_a_token_for_reading_sees_no_buttons(world: World, door: httpx2.Client) -> None:
    door.cookies.clear()
    door.cookies.update(at(str(door.base_url), session(world, "anna", "read")))
    assert "/act/" not in door.get("/tasks/1").text + door.get("/tasks").text
    answer = door.get("/act/task.kill?id=1")
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_too_small")


def test_what_is_no_action_is_refused(door: httpx2.Client) -> None:
    assert door.get("/act/user.set?id=1").status_code == 404
    assert door.get("/act/task.kill").status_code == 422
