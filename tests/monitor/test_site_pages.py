"""Overview, sites, queues, decisions, agents, dogs and knobs in a real browser, on rows that run,
fail and wait."""

# Raw UPDATEs: texts that try to break pages, a figure that changes in sight.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest
from selenium import webdriver
from sqlalchemy import text
from support.browsing import Browser, at, browser, needs_browser, pages, session
from support.grid_rows import at_work
from support.job_rows import reads_of, watch
from support.monitored import ODD

from jedi.agent.base import World
from jedi.core.knobs import KNOBS
from jedi.monitor.sessions import COOKIE

STATEMENTS_MOST = 10
PATHS = (
    "/",
    "/sites",
    "/sites/SITE_A",
    "/queues",
    "/decisions",
    "/decisions/{decision}",
    "/decisions/{decision}?replay=true",
    "/agents",
    "/dogs",
    "/knobs",
    "/knobs/broker.local",
)


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    with browser("") as found:
        yield found.driver


@dataclass(frozen=True)
class Seen(Browser):
    """A browser in front of a grid at work, and the decision that can be repeated."""

    decision: int = 0


@pytest.fixture
def seen(world: World, driver: webdriver.Chrome) -> Iterator[Seen]:
    decision = at_work(world)
    with pages(world) as address:
        found = Seen(driver, address, decision)
        found.log_in(session(world, "me"))
        yield found
        found.go("/login")


@needs_browser
def test_the_overview_shows_what_runs_and_what_waits(seen: Seen) -> None:
    seen.go("/")
    shown = seen.find("#live").text
    for said in (
        "give no heartbeat",
        "The agent Adder fails: ValueError: 17",
        "SITE_C",
        "No site can run its jobs",
        "in use",
    ):
        assert said in shown
    assert seen.find("#rates .u-wrap canvas").is_displayed()
    assert not seen.find("#rates svg.picture").is_displayed()
    seen.find("#jobs-by-status .legend a").click()
    assert "/jobs?status=" in seen.driver.current_url
    assert seen.problems() == []


@needs_browser
def test_curves_live_on_when_the_page_is_read_again(world: World, seen: Seen) -> None:
    seen.go("/")
    seen.wait(lambda: seen.find("body").get_attribute("data-stream") == "live")
    canvas = seen.find("#rates canvas")
    seen.find("#rates .numbers summary").click()
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE job_stats_hourly SET jobs = 4711 WHERE status = 'finished'"))
        tx.execute(text("SELECT nextval('job_stats_delta_delta_id_seq')"))
    seen.wait(
        lambda: (
            "4\u202f711" in str(seen.find("#rates .numbers").get_attribute("textContent")) or None
        )
    )
    assert canvas.is_displayed()
    assert seen.all("#rates canvas") == [canvas]
    assert seen.find("#rates .numbers tbody").is_displayed()
    assert seen.problems() == []


@needs_browser
def test_from_sites_to_a_site_and_its_decision(seen: Seen) -> None:
    seen.go("/sites")
    row = seen.find("#sites-SITE_C")
    assert "little_memory 1" in row.text
    row.find_element("css selector", "a").click()
    assert "slots of 1000 MB, the jobs need 2000 MB" in seen.find("#refusals-little_memory").text
    seen.find("#refusals-little_memory a").click()
    assert f"Decision {seen.decision}" in seen.find("h1").text
    seen.go("/sites/SITE_A")
    assert "4711" in seen.find("#pilots-pilot-1").text
    assert "MB/s" in seen.find("#links-SITE_A-SITE_B-mbps_1h").text
    assert seen.problems() == []


@needs_browser
def test_a_decision_is_repeated_under_assumptions(seen: Seen) -> None:
    seen.go(f"/decisions/{seen.decision}")
    refused = seen.find("#matrix-SITE_C")
    assert "1\u202f000 / 2\u202f000 MB" in refused.text
    assert len(refused.find_elements("css selector", ".refused")) == 2
    seen.find("#sites").send_keys("SITE_C.maxrss=8000")
    seen.find("form.whatif button").click()
    assert "no_data" in seen.find("#differences-SITE_C").text
    assert "agrees with the record" in seen.find("#live").text
    seen.find("#knobs").send_keys("broker.no_such=1")
    seen.find("form.whatif button").click()
    assert "no such knob" in seen.find(".notice").text
    assert seen.problems() == []


@needs_browser
def test_knobs_are_found_by_words(seen: Seen) -> None:
    seen.go("/knobs")
    seen.find("#of-broker summary").click()
    assert seen.find("#knobs-broker\\.local").is_displayed()
    many = sum(name.startswith("broker.") for name in KNOBS)
    assert seen.find("#of-broker summary").text == f"broker {many} knobs, 2 set"
    assert not seen.find("#knobs-retention\\.snapshots_days").is_displayed()
    seen.find("#q").send_keys("DAYS snapshots")
    seen.find("#live form button").click()
    seen.find("section.sheet tbody tr")
    rows = seen.all("#live tbody tr")
    assert [one.get_attribute("id") for one in rows] == ["knobs-retention.snapshots_days"]
    seen.go("/knobs?changed=true")
    seen.find("#knobs-broker\\.local a").click()
    assert "olga" in seen.find("#history-1").text
    assert seen.problems() == []


@needs_browser
def test_queues_and_agents_and_dogs(seen: Seen) -> None:
    seen.go("/queues")
    assert "brokerage 1" in seen.find("#queues-user").text
    assert seen.find("#flow svg").is_displayed()
    seen.go("/agents")
    assert "healthy" in seen.find("#agents-JobGenerator").text
    assert "fails" in seen.find("#agents-Adder").text
    assert "silent" in seen.find("#agents-WatchDog").text
    seen.go("/dogs")
    assert "jobs" in seen.find("#dogs-timeouts").text
    assert seen.problems() == []


@needs_browser
def test_odd_texts_are_harmless(world: World, seen: Seen) -> None:
    with world.engine.begin() as tx:
        values = {"odd": ODD}
        tx.execute(text("UPDATE jedi_sites SET comment = :odd"), values)
        tx.execute(text("UPDATE jedi_agents SET last_error = :odd"), values)
        tx.execute(text("UPDATE jedi_work_queue SET criteria = :odd"), values)
        tx.execute(text("UPDATE jedi_broker_reasons SET codes = ARRAY[:odd, 'x']"), values)
        tx.execute(text("UPDATE job_stats SET gshare = :odd"), values)
    for path in PATHS[:-3]:
        seen.go(path.format(decision=seen.decision))
        assert seen.find("h1"), path
        assert not seen.all("#live script")
        assert "\u202e" not in seen.driver.page_source
        page = seen.driver.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert page[0] <= page[1], path
    assert seen.problems() == []


def test_pages_ask_few_statements(world: World) -> None:
    decision = at_work(world)
    with pages(world) as address, httpx2.Client(base_url=address) as door:
        door.cookies.update(at(address, session(world, "me")))
        door.get("/dogs")
        for path in PATHS:
            seen = watch(world.engine)
            found = door.get(path.format(decision=decision))
            assert found.status_code == 200, path
            assert len(reads_of(seen)) <= STATEMENTS_MOST, (path, seen)


def test_strangers_see_nothing(world: World) -> None:
    decision = at_work(world)
    with pages(world) as address, httpx2.Client(base_url=address) as door:
        for path in PATHS:
            found = door.get(path.format(decision=decision))
            assert (found.status_code, COOKIE in found.cookies) == (303, False), path
            assert found.headers["location"].startswith("/login"), path
