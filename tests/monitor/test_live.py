"""Live pages: many tabs of one browser, tabs out of sight, browsers without shared workers, and a
service that is restarted while pages are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.browsing import Browser, browser, needs_browser, pages, session
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.monitor import live

pytestmark = needs_browser
TABS = 8
"""HTTP/1.1 allows six connections to a host."""


@pytest.fixture
def open_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Any]]:
    """The streams of the service at any moment."""
    found: set[Any] = set()
    through = live.LiveChanges._stream

    async def follow(self: Any, stream: Any) -> Any:
        found.add(stream)
        try:
            async for piece in through(self, stream):
                yield piece
        finally:
            found.discard(stream)

    monkeypatch.setattr(live.LiveChanges, "_stream", follow)
    yield found


@pytest.fixture
def seen(world: World, open_streams: set[Any]) -> Iterator[Browser]:
    put(world, good("a:out"))
    with pages(world) as place, browser(place) as found:
        found.log_in(session(world, "me"))
        yield found


def is_live(here: Browser) -> bool | None:
    return here.find("body").get_attribute("data-stream") == "live" or None


def rows(here: Browser) -> int:
    return len(here.all("#live tbody tr"))


def test_eight_tabs_share_a_stream(world: World, seen: Browser, open_streams: set[Any]) -> None:
    for number in range(TABS):
        if number:
            seen.driver.switch_to.new_window("window")
        seen.go("/tasks")
        seen.wait(lambda: is_live(seen))
    assert len(seen.driver.window_handles) == TABS
    put(world, good("a:out2"))
    for handle in seen.driver.window_handles:
        seen.driver.switch_to.window(handle)
        seen.wait(lambda: rows(seen) == 2 or None)
    assert len(open_streams) <= 1


def test_paused_and_hidden_tabs_cost_nothing(
    world: World, seen: Browser, open_streams: set[Any]
) -> None:
    seen.go("/tasks")
    seen.wait(lambda: is_live(seen))
    pause = seen.find("#pause")
    pause.click()
    seen.wait(lambda: not open_streams or None)
    put(world, good("a:out2"))
    pause.click()
    seen.wait(lambda: rows(seen) == 2 or None)
    seen.wait(lambda: open_streams or None)
    seen.driver.switch_to.new_window("tab")  # the other one is out of sight
    seen.wait(lambda: not open_streams or None)
    put(world, good("a:out3"))
    seen.driver.close()
    seen.driver.switch_to.window(seen.driver.window_handles[0])
    seen.wait(lambda: rows(seen) == 3 or None)
    assert seen.find("#as-of").text.startswith("as of")


def test_without_shared_workers_pages_are_read_again(world: World, seen: Browser) -> None:
    driver: Any = seen.driver
    driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": """
        delete window.SharedWorker;
        const wait = window.setTimeout;
        window.setTimeout = (act, ms, ...rest) => wait(act, ms === 30000 ? 300 : ms, ...rest);
    """
        },
    )
    seen.go("/tasks")
    put(world, good("a:out2"))
    seen.wait(lambda: rows(seen) == 2 or None)
    assert seen.problems() == []


def test_pages_go_on_after_a_restart(world: World) -> None:
    put(world, good("a:out"))
    with ExitStack() as stack:
        with pages(world) as place:
            here = stack.enter_context(browser(place))
            here.log_in(session(world, "me"))
            here.go("/tasks")
            here.wait(lambda: is_live(here))
        here.wait(lambda: not is_live(here) or None)
        put(world, good("a:out2"))
        with pages(world, int(place.rpartition(":")[2])):
            here.wait(lambda: rows(here) == 2 or None)
