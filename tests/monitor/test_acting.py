"""Every action clicked through in a real browser, on rows in the right status."""

# Raw UPDATEs: past the guard, statuses that only a whole life leads to.

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from sqlalchemy import text
from support.browsing import Browser, browser, needs_browser, pages, session
from support.job_rows import make_jobs
from support.service_process import reborn
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.monitor.actions import ACTIONS
from jedi.taskbuffer.users import access, users

pytestmark = needs_browser


@pytest.fixture
def seen(world: World) -> Iterator[Browser]:
    """The browser of an operator."""
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
    with pages(world) as address, browser(address) as found:
        found.log_in(session(world, "olga"))
        yield found


def place(world: World, table: str, number: str, one: int, status: str) -> None:
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text(f"UPDATE {table} SET status = :status WHERE {number} = :one"),
            {"status": status, "one": one},
        )


def says(seen: Browser, sentence: str) -> None:
    """Wait for a page that says this; the page before may still be there."""

    def text() -> str:
        return str(seen.driver.execute_script("return document.body.innerText"))

    try:
        seen.wait(lambda: sentence in text())
    except TimeoutException:
        raise AssertionError(text()) from None


@dataclass(frozen=True)
class Click:
    """A way to an action: the page with its button, the status of its row, and its fields."""

    name: str
    page: str
    status: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    in_list: bool = False


CLICKS = (
    Click("task.pause", "/tasks/{task}", "running", {"comment": "storage <b>full</b>"}),
    Click("task.resume", "/tasks/{task}", "paused"),
    Click("task.avalanche", "/tasks/{task}", "scouting"),
    Click("task.release", "/tasks/{task}", "running"),
    Click("task.retry", "/tasks/{task}", "finished", {"keep": "true"}),
    Click("task.recover", "/tasks/{task}", "finished", {"sole": "true"}),
    Click("task.incexec", "/tasks/{task}", "finished"),
    Click("task.reassign", "/tasks/{task}", "running", {"site": "SITE_A", "soft": "true"}),
    Click("task.set_priority", "/tasks/{task}", "running", {"priority": "950"}),
    Click("task.finish", "/tasks/{task}", "running", {"soft": "true"}),
    Click("task.kill", "/tasks/{task}", "running"),
    Click("task.clean", "/tasks/{task}", "finished", {"after_days": "3"}),
    Click("job.hold", "/jobs/{job}", "activated"),
    Click("job.release", "/jobs/{job}", "", {"force": "true"}),
    Click("job.cancel", "/jobs/{job}"),
    Click("job.purge", "/jobs/{job}"),
    Click("site.set", "/sites/SITE_A", "", {"settings.status": "offline", "comment": "repair"}),
    Click("config.set", "/knobs/agent.poll_s", "", {"value": "3"}),
    Click("config.unset", "/knobs/agent.poll_s"),
    Click("dog.run", "/dogs", in_list=True),
    Click("token.revoke", "/me", in_list=True),
)


@pytest.mark.long
def test_every_action_is_done_by_clicks(world: World, seen: Browser) -> None:
    assert {one.name for one in CLICKS} == ACTIONS.keys()
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        access.put_user_token(tx, "olga", "spare", "read", 600.0)
    for click in CLICKS:
        [task] = put(world, good(f"a:{click.name}"))
        if click.status and click.name.startswith("task"):
            place(world, "jedi_tasks", "jeditaskid", task, click.status)
        if click.name == "job.purge":  # outputs of a task that has ended
            place(world, "jedi_tasks", "jeditaskid", made.task, "finished")
        if click.name == "task.recover":  # an output that data management lacks
            place(world, "jedi_dataset_contents", "datasetid", made.output, "finished")
            place(world, "jedi_tasks", "jeditaskid", task := made.task, "finished")
        seen.go(click.page.format(task=task, job=made.jobs[0]))
        _press(seen, click)
        _fill(seen, click)
        says(seen, f"{ACTIONS[click.name].label}: 1 of 1")
        seen.find("#confirm").click()
        says(seen, "1 accepted")
        seen.find("#back").click()
        seen.wait(lambda: "/act/" not in seen.driver.current_url)
        assert seen.problems() == [], click.name


def _press(seen: Browser, click: Click) -> None:
    if click.in_list:
        seen.find('tbody tr input[name="id"]').click()
        seen.find(f'button[formaction="/act/{click.name}"]').click()
    else:
        seen.find(f'a[href^="/act/{click.name}?"]').click()
    seen.wait(lambda: f"/act/{click.name}" in seen.driver.current_url)


def _fill(seen: Browser, click: Click) -> None:
    """Fill the form in; a changed form is shown once more before anything is done."""
    for name, value in click.fields.items():
        one = seen.find(f'.act-form [name="{name}"]')
        if one.get_attribute("type") == "checkbox":
            one.click()
        elif one.tag_name == "select":
            Select(one).select_by_visible_text(value)
        else:
            one.send_keys(value)
    before = seen.all("#confirm")
    if {*click.fields} - {"comment"}:
        one.send_keys(Keys.ENTER) if one.tag_name == "input" else seen.find("#preview").click()
        if before:
            says(seen, "Nothing is done yet")


def test_chosen_rows_stay_chosen_while_the_page_lives(world: World, seen: Browser) -> None:
    tasks = put(world, *(good(f"a:out{n}") for n in range(3)))
    seen.go("/tasks")
    assert not seen.find("#chosen button").is_enabled()
    seen.find(f'#tasks-{tasks[0]} input[name="id"]').click()
    assert "With 1 chosen task:" in seen.find(".number-chosen").text
    seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
    [new] = put(world, good("a:new"))
    seen.find(f"#tasks-{new}")
    assert seen.find(f'#tasks-{tasks[0]} input[name="id"]').is_selected()
    assert not seen.find(f'#tasks-{new} input[name="id"]').is_selected()
    seen.find("input[data-all]").click()
    assert "With 4 chosen tasks:" in seen.find(".number-chosen").text
    seen.find('button[formaction="/act/task.kill"]').click()
    says(seen, "Kill: 4 tasks")
    seen.find("#confirm").click()
    says(seen, "4 accepted")
    assert len(seen.all(".answers tbody tr")) == 4
    seen.find("#back").click()
    assert seen.find("#chosen")
    assert seen.problems() == []


def test_a_link_and_a_button_log_in_and_out(world: World, seen: Browser) -> None:
    seen.go("/tasks")
    assert seen.find(".who").text == "olga operator"
    seen.find("#sign-out").click()
    says(seen, "With a token")
    with world.engine.begin() as tx:
        known = access.put_user_token(tx, "olga", None, "all", 600.0)
    seen.go("/login?next=/me")
    seen.find("#token").send_keys(known, Keys.ENTER)
    says(seen, "Tokens and sessions")
    assert seen.problems() == []


@pytest.mark.long
def test_a_page_outlives_the_service(world: World) -> None:
    """The page says that the service does not answer, and goes on when it is back."""
    put(world, good("a:out"))
    home, cookie = Home(world.settings.home), session(world, "me")
    with reborn(world) as life:
        pid = life()
        address = home.page_url or ""
        with browser(address) as seen:
            seen.log_in(cookie)
            seen.go("/tasks")
            seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
            os.kill(pid, signal.SIGKILL)
            seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "lost")
            life()
            seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
            [new] = put(world, good("a:new"))
            seen.find(f"#tasks-{new}")
