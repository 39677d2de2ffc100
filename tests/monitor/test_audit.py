"""The page of the audit, and that of the visitor's own access."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.browsing import at, pages, session
from support.forms import hidden
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.monitor.pages import audit
from jedi.taskbuffer.users import access, users


@pytest.fixture
def door(world: World) -> Iterator[httpx2.Client]:
    """An operator."""
    put(world, good("a:out"), good("a:out2"))
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
    with pages(world) as address, httpx2.Client(base_url=address) as found:
        found.cookies.update(at(address, session(world, "olga")))
        yield found


def become(world: World, door: httpx2.Client, user: str) -> None:
    door.cookies.clear()
    door.cookies.update(at(str(door.base_url), session(world, user)))


def act(door: httpx2.Client, name: str, *ids: object, **fields: str) -> httpx2.Response:
    """Preview and confirm an action."""
    given: dict[str, Any] = {"id": [*map(str, ids)], **fields}
    page = door.get(f"/act/{name}", params=given)
    assert page.status_code == 200, page.text
    return door.post(f"/act/{name}", data={**hidden(page), **fields})


def test_operators_see_the_changes(
    world: World, door: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "PAGE", 2)
    odd = "<script>alert(1)</script>\u202e"
    for verb in ("pause", "kill", "finish"):
        act(door, f"task.{verb}", 1, comment=odd)
    act(door, "task.kill", 2)
    first = door.get("/audit")
    assert "/audit?user=olga" in first.text and 'href="/tasks/2"' in first.text
    assert "<script>alert" not in first.text and "\u202e" not in first.text
    second = door.get(httpx2.URL(f"{door.base_url}/audit?before=3"))
    assert 'rel="next" href="/audit?before=' in first.text
    assert "task.pause" in second.text and "task.pause" not in first.text
    kills = door.get("/audit?operation=task.kill&subject=task+1&as=json").json()
    assert [one["subject"] for one in kills["audit"]] == ["task 1"]
    assert 'href="/audit"' in door.get("/tasks").text


def test_nobody_else_sees_them(world: World, door: httpx2.Client) -> None:
    become(world, door, "anna")
    assert door.get("/audit").status_code == 403
    assert 'href="/audit"' not in door.get("/tasks").text


def test_a_user_revokes_a_token_of_his_own(world: World, door: httpx2.Client) -> None:
    with world.engine.begin() as tx:
        laptop = access.put_user_token(tx, "anna", "laptop", "read", 600.0)
        access.put_user_token(tx, "olga", "cron", "all", 600.0)
    become(world, door, "anna")
    page = door.get("/me")
    assert "laptop" in page.text and "cron" not in page.text and laptop not in page.text
    rows = {one["name"]: one["token_id"] for one in door.get("/me?as=json").json()["tokens"]}
    answer = act(door, "token.revoke", rows["laptop"], "0" * 12)
    assert "1 accepted, 1 refused" in answer.text
    assert "laptop" not in door.get("/me").text
    act(door, "token.revoke", rows["browser"])
    assert door.get("/me").status_code == 303
