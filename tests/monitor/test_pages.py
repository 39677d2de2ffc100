"""Pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.browsing import Browser, browser, needs_browser, pages, session
from support.task_rows import good, put

from jedi.agent.base import World

pytestmark = needs_browser


@pytest.fixture
def seen(world: World) -> Iterator[Browser]:
    put(world, good("a:out"), good("a:out2"))
    with pages(world) as address, browser(address) as found:
        found.log_in(session(world, "me"))
        yield found


def test_tasks_are_listed(world: World, seen: Browser) -> None:
    seen.go("/tasks")
    assert len(seen.all("#live tbody tr")) == 2
    seen.find("#tasks-1 a").click()
    assert "Task 1" in seen.find("h1").text
    assert seen.problems() == []


def test_a_new_task_appears_by_itself(world: World, seen: Browser) -> None:
    seen.go("/tasks")
    seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
    put(world, good("a:out3"))
    assert seen.find("tr.changed").get_attribute("id") == "tasks-3"
    assert seen.problems() == []
