"""Pages of tasks and jobs in a real browser.

Raw UPDATEs: agents would not write odd texts, and no pilot sends a log here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from support.browsing import Browser, browser, needs_browser, pages, session
from support.monitored import ODD, child_of, command, running_task, waiting_task

from jedi.agent.base import World

pytestmark = needs_browser
SHOTS = os.environ.get("JEDI_TEST_SHOTS")
"""A directory for pictures of the pages."""


@pytest.fixture
def seen(world: World) -> Iterator[Browser]:
    made = running_task(world)
    waiting_task(world)
    command(world, made.task)
    child_of(world, made.task)
    with pages(world) as address, browser(address) as found:
        found.log_in(session(world, "me"))
        yield found


def shot(seen: Browser, name: str) -> None:
    """Keep a picture of a page, if somebody wants to look at it."""
    if SHOTS:
        seen.driver.save_screenshot(str(Path(SHOTS) / f"{name}.png"))


def test_a_reader_goes_from_the_list_to_a_log(seen: Browser) -> None:
    seen.go("/tasks")
    shot(seen, "tasks")
    seen.find(".chips a[href*='status=running']").click()
    seen.wait(lambda: len(seen.all("#live tbody tr")) == 1)
    seen.find("#tasks-1 td.id a").click()
    assert "running" in seen.find("h1").text
    seen.find("#error-1 summary").click()
    assert "warning: exit code 3" in seen.find("#error-1 pre").text
    shot(seen, "task")
    seen.find("#error-1 a[href*='/jobs?']").click()
    seen.wait(lambda: len(seen.all("#live tbody tr")) == 2)
    shot(seen, "task_jobs")
    seen.find("td.id a").click()
    assert seen.find("#times svg.picture").is_displayed()
    shot(seen, "job")
    seen.find(".actions a[href$='/log']").click()
    assert "event 2" in seen.find("#stdout").text
    assert [one.text for one in seen.all(".crumbs li")] == ["Tasks", "Task 1", "Job 5", "Log"]
    assert seen.problems() == []


def test_open_parts_stay_open_while_a_page_is_read_again(world: World, seen: Browser) -> None:
    seen.go("/tasks/1")
    seen.find("#error-1 summary").click()
    seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
    command(world, 1, "resume")
    with world.engine.begin() as tx:
        tx.execute(text("SELECT nextval('jedi_tasks_statuslog_log_id_seq')"))
    seen.wait(lambda: "command resume" in seen.find("#live").text or None)
    assert seen.find("#error-1").get_attribute("open") is not None
    assert seen.problems() == []


def test_a_log_grows_while_its_job_runs(world: World, seen: Browser) -> None:
    seen.go("/jobs/8/log")
    assert seen.find("#follow").text == "Following"
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_job_tail SET stdout_tail = stdout_tail || 'event 3\n' "
                "WHERE pandaid = 8"
            )
        )
    seen.wait(lambda: "event 3" in seen.find("#stdout").text or None)
    seen.find("#follow").click()
    assert seen.find("#follow").text == "Follow"
    assert seen.problems() == []


def test_filters_groups_and_columns_are_in_the_address(seen: Browser) -> None:
    seen.go("/tasks?columns=status&columns=user")
    assert [one.text for one in seen.all("#live th")][-2:] == ["Owner", "Status"]
    seen.find("select[name=group] option[value=user]").click()
    seen.find("input[name=where]").send_keys("status!=running")
    seen.find(".filters button").click()
    assert "anna" in seen.find("#groups-anna").text
    assert "columns=status" in seen.driver.current_url
    shot(seen, "groups")
    seen.go("/tasks?where=stauts%3Drunning")
    field = seen.find("input[name=where]")
    assert field.get_attribute("aria-describedby") == "mistakes"
    assert "stauts" in seen.find("#mistakes").text
    assert len(seen.problems()) == 0


def test_chosen_tasks_go_to_a_preview(seen: Browser) -> None:
    seen.go("/tasks")
    seen.find("#tasks-1 input[type=checkbox]").click()
    seen.find("#chosen button[formaction$='task.pause']").click()
    assert seen.find('.act-form input[name="id"]').get_attribute("value") == "1"
    assert "/act/task.pause" in seen.driver.current_url


def test_narrow_and_dark_pages_fit(world: World, seen: Browser) -> None:
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET taskname = :odd, errordialog = :odd"), {"odd": ODD})
    seen.driver.set_window_size(500, 900)
    seen.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    for name, place in (
        ("tasks", "/tasks"),
        ("task", "/tasks/1"),
        ("waits", "/tasks/2"),
        ("job", "/jobs/5"),
        ("jobs", "/jobs"),
        ("log", "/jobs/5/log"),
    ):
        seen.go(place)
        seen.find("h1")
        wide = seen.driver.execute_script("return document.documentElement.scrollWidth")
        shot(seen, f"narrow-{name}")
        assert wide <= 360, (place, wide)
    seen.find("#theme").click()
    seen.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    seen.driver.set_window_size(1280, 900)
    for name, place in (("task", "/tasks/1"), ("job", "/jobs/5"), ("waits", "/tasks/2")):
        seen.go(place)
        seen.find("h1")
        shot(seen, f"dark-{name}")
    assert seen.problems() == []
