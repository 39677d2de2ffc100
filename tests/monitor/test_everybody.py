"""Every page for everybody: axe finds no violation on wide and narrow screens, in light and dark;
pages can be read by keyboard, without scripts, on paper and on the largest screens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from sqlalchemy import text
from support.browsing import Browser, browser, needs_browser, pages, session
from support.whole_world import address, fill, names

from jedi.agent.base import World
from jedi.monitor.all_pages import PAGES

pytestmark = needs_browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SIZES = {"wide": (1280, 900), "narrow": (360, 800), "large": (3840, 2160)}
_ASK = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: arguments[0], resultTypes: ["violations"]}).then(
  (found) => done(JSON.stringify(found.violations.map((one) => [one.id, one.help,
    one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]))),
  (error) => done(JSON.stringify([[String(error)]])));
"""


@pytest.fixture
def seen(world: World) -> Iterator[tuple[Browser, dict[str, object]]]:
    known = fill(world)
    with pages(world) as place, browser(place) as found:
        found.log_in(session(world, "me"))
        yield found, known


def violations(seen: Browser) -> list[Any]:
    """The findings of axe on the page in sight."""
    driver: Any = seen.driver
    if not driver.execute_script("return Boolean(window.axe)"):
        driver.execute_script((resources.files("axe_core_python") / "axe.min.js").read_text())
    found: list[Any] = json.loads(driver.execute_async_script(_ASK, RULES))
    return found


def resize(seen: Browser, size: str) -> None:
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    seen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def colours(seen: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    seen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def too_wide(seen: Browser) -> bool:
    """True if the page has to be moved sideways."""
    return bool(
        seen.driver.execute_script(
            "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
    )


def examine(here: Browser, known: dict[str, object], size: str) -> None:
    """Ask axe about every page on a screen of this size, in light and dark."""
    wrong: dict[str, object] = {}
    resize(here, size)
    for name in names():
        colours(here, "light")
        here.go(address(PAGES[name], known))
        here.find("h1")
        if too_wide(here):
            wrong[f"{name}: too wide"] = []
        for scheme in ("light", "dark"):
            colours(here, scheme)
            if found := violations(here):
                wrong[f"{name}, {scheme}"] = found
    assert not wrong, json.dumps(wrong, indent=1)
    assert here.problems() == []


def test_long_lists_are_short_on_a_phone(
    world: World, seen: tuple[Browser, dict[str, object]]
) -> None:
    """346 knobs stand in parts that open; the audit comes in pages of 50 rows. At 800 px a screen,
    a list of more than 8 screens is long."""
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_audit (username, way, operation, subject, arguments) "
                "SELECT 'me', 'token', 'task.kill', 'task 17', "
                "jsonb_build_object('comment', repeat('it is time ', 20)) "
                "FROM generate_series(1, 120)"
            )
        )
    here, _ = seen
    resize(here, "narrow")
    for path in ("/knobs", "/audit"):
        here.go(path)
        here.find("main summary, main tbody tr")
        height = here.driver.execute_script("return document.documentElement.scrollHeight")
        assert height < 8 * 800, (path, height)


@pytest.mark.long
def test_axe_finds_nothing_on_wide_screens(seen: tuple[Browser, dict[str, object]]) -> None:
    examine(*seen, "wide")


@pytest.mark.long
def test_axe_finds_nothing_on_narrow_screens(seen: tuple[Browser, dict[str, object]]) -> None:
    examine(*seen, "narrow")


@pytest.mark.long
def test_axe_finds_nothing_on_large_screens(seen: tuple[Browser, dict[str, object]]) -> None:
    examine(*seen, "large")


def test_pages_are_walked_by_keyboard(seen: tuple[Browser, dict[str, object]]) -> None:
    here, _ = seen
    here.go("/tasks")
    here.find("#keys:not([hidden])")

    def press(*keys: str) -> None:
        ActionChains(here.driver).send_keys(*keys).perform()

    def focused() -> Any:
        return here.driver.switch_to.active_element

    press(Keys.TAB)
    assert focused().get_attribute("class") == "skip"
    press(Keys.ENTER, "j")
    rows = here.all("#live tbody tr")
    assert focused() == rows[0]
    press("j")
    assert focused() == rows[1]
    press(Keys.ARROW_UP)
    assert focused() == rows[0]
    press("?")
    assert here.find("dialog[open] h2").text == "Keys"
    press(Keys.ESCAPE)
    here.wait(lambda: not here.all("dialog[open]") or None)
    press("/")
    assert focused().tag_name == "input"
    here.find("#live tbody tr")
    here.driver.execute_script("document.activeElement.blur()")
    press("j", Keys.ENTER)
    here.wait(lambda: "/tasks/" in here.driver.current_url or None)
    press("g", "t")
    here.wait(lambda: here.driver.current_url.endswith("/tasks") or None)


def test_pages_print(seen: tuple[Browser, dict[str, object]]) -> None:
    here, _ = seen
    here.go("/tasks")
    here.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not here.find("header").is_displayed()
    assert here.find("#live table").is_displayed()


def test_pages_are_read_without_scripts(seen: tuple[Browser, dict[str, object]]) -> None:
    here, known = seen
    here.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    for name in names():
        here.go(address(PAGES[name], known))
        assert here.all("h1"), name
