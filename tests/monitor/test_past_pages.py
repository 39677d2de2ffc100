"""Pages of the past: a task and the work queues at a time, at two, with and without scripts."""

# Raw UPDATEs: an hour has passed.

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2
import pytest
from selenium.webdriver.common.keys import Keys
from sqlalchemy import event, text
from support.browsing import Browser, at, browser, needs_browser, pages, session
from support.job_rows import reads_of
from support.monitored import command, running_task

from jedi.agent.base import World
from jedi.monitor.pages.past import written

pytestmark = needs_browser
_AGO = """
UPDATE {} SET modificationtime = modificationtime - interval '1 h'
WHERE status IN ('registered', 'defined', 'ready', 'activated', 'sent', 'starting', 'running')
"""


@pytest.fixture
def seen(world: World) -> Iterator[tuple[Browser, int]]:
    made = running_task(world)
    command(world, made.task)
    command(world, made.task, "resume")
    with world.engine.begin() as tx:  # an hour lies between the jobs' beginnings and ends
        tx.execute(text(_AGO.format("jedi_jobs_statuslog")))
        tx.execute(text("UPDATE jedi_jobs SET creationtime = creationtime - interval '1 h'"))
    with pages(world) as place, browser(place) as found:
        found.log_in(session(world, "me"))
        yield found, made.task


def test_a_task_then_and_now(seen: tuple[Browser, int]) -> None:
    here, task = seen
    now = datetime.now(UTC).timestamp()
    before = written(datetime.fromtimestamp(now - 600, UTC))
    here.go(f"/tasks/{task}/past?at={before}")
    assert "finished" not in here.find("#jobs-then").text
    here.go(f"/tasks/{task}/past")
    assert "finished" in here.find("#jobs-then").text
    here.find("#against").send_keys(before)
    here.find("#against").send_keys(Keys.ENTER)
    changed = {row.get_attribute("id"): row.text for row in here.all("#live tbody tr")}
    assert changed["difference-jobs finished"].split()[-1] == "+4"
    assert here.problems() == []


def test_the_present_has_what_happened_this_second(world: World) -> None:
    task = running_task(world).task
    with pages(world) as place:
        client = httpx2.Client(base_url=place, cookies=at(place, session(world, "me")))
        seen = []
        for _ in range(4):
            command(world, task)
            command(world, task, "resume")
            answer = client.get(f"/tasks/{task}/past", params={"as": "json"}).json()
            seen.append(len(answer["timeline"]))
    assert len(set(seen)) == 4, seen


def test_the_slider_leads_to_events(seen: tuple[Browser, int]) -> None:
    here, task = seen
    here.go(f"/tasks/{task}/past")
    here.find("#event").send_keys(Keys.HOME)
    here.wait(lambda: "at=" in here.driver.current_url or None)
    assert here.find("#event").get_attribute("value") == "0"
    here.find(".past-steps a").click()
    assert here.find("h1").text.startswith(f"Task {task}")


def test_the_slider_works_without_scripts(seen: tuple[Browser, int]) -> None:
    here, task = seen
    here.go(f"/tasks/{task}/past?event=0")
    assert here.find("#event").get_attribute("value") == "0"


def test_work_queues_then(seen: tuple[Browser, int]) -> None:
    here, _ = seen
    here.go("/queues/past?at=2020-01-01T00:00&against=2020-01-02")
    assert "Nothing had changed" in here.find("#live").text
    here.find(".past-steps a").click()
    assert "Work queues" in here.find("h1").text
    assert here.problems() == []


def test_mistakes_are_said(seen: tuple[Browser, int]) -> None:
    here, task = seen
    here.go(f"/tasks/{task}/past?at=yesterday")
    assert "is no time" in here.find("#live").text


def test_few_statements(world: World, seen: tuple[Browser, int]) -> None:
    here, task = seen
    found: list[str] = []
    event.listen(world.engine, "before_cursor_execute", lambda *given: found.append(given[2]))
    here.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    for path in (f"/tasks/{task}/past?at=2026-01-01&against=2026-01-02", "/queues/past"):
        found.clear()
        here.go(path)
        assert len(reads_of(found)) <= 10, found
