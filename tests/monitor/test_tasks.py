"""The list of tasks in a real browser."""

from __future__ import annotations

from support.browsing import browser, needs_browser, pages, session
from support.monitored import child_of, command, running_task, waiting_task

from jedi.agent.base import World

pytestmark = needs_browser


def test_shot(world: World) -> None:
    made = running_task(world)
    waiting_task(world)
    waiting_task(world, taskName="x")
    command(world, made.task)
    child_of(world, made.task)
    import os

    with pages(world) as address, browser(address) as seen:
        seen.log_in(session(world, "me"))
        for n, path in enumerate(os.environ["SHOTS"].split()):
            seen.go(path)
            seen.driver.save_screenshot(f"/tmp/shots-tasks/{n}.png")
            print(path, seen.problems())
