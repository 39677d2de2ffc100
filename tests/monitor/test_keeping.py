"""Pages to keep: one file without any request, charts as PNG, tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.browsing import Browser, at, browser, needs_browser, pages, session
from support.monitored import ODD, running_task
from support.whole_world import address, fill, names

from jedi.agent.base import World
from jedi.monitor.all_pages import PAGES

pytestmark = needs_browser


@pytest.fixture
def seen(world: World) -> Iterator[tuple[Browser, dict[str, object], httpx2.Client]]:
    known = fill(world)
    cookie = session(world, "me")
    with (
        pages(world) as place,
        browser(place) as found,
        httpx2.Client(base_url=place, cookies=at(place, cookie), timeout=30) as client,
    ):
        found.log_in(cookie)
        yield found, known, client


def test_every_page_is_kept_and_opens_from_disk(
    seen: tuple[Browser, dict[str, object], httpx2.Client], tmp_path: Path
) -> None:
    here, known, client = seen
    driver: Any = here.driver
    for name in names():
        answer = client.get(address(PAGES[name], known), params={"as": "file"})
        assert answer.status_code == 200, name
        found = re.search(r'filename="([\w.-]+\.html)"', answer.headers["content-disposition"])
        assert found, name
        file = tmp_path / found[1]
        file.write_bytes(answer.content)
        driver.get(file.as_uri())
        here.find("main h1")
        asked = driver.execute_script(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
        )
        assert asked == [], name
        assert json.loads(here.find("#data").get_attribute("textContent") or "") is not None
    assert here.problems() == []


def test_every_table_is_csv_and_json(
    seen: tuple[Browser, dict[str, object], httpx2.Client],
) -> None:
    _, known, client = seen
    for name in names():
        path = address(PAGES[name], known)
        tables = client.get(path, params={"as": "json"}).json()
        for table, rows in tables.items():
            text = client.get(path, params={"as": "csv", "table": table}).text
            found = list(csv.DictReader(io.StringIO(text)))
            assert len(found) == len(rows), f"{name}: {table}"


def test_odd_texts_break_no_file(world: World, tmp_path: Path) -> None:
    made = running_task(world, ODD)
    cookie = session(world, "me")
    with pages(world) as place, browser(place) as here:
        path = f"{place}/tasks/{made.task}/past"
        answer = httpx2.get(path, params={"as": "file"}, cookies=at(place, cookie), timeout=30)
        file = tmp_path / "odd.html"
        file.write_bytes(answer.content)
        here.driver.get(file.as_uri())
        assert here.problems() == []
        scripts = here.driver.execute_script("return document.scripts.length")
    assert scripts == 1  # the data


def test_a_chart_becomes_a_picture(
    seen: tuple[Browser, dict[str, object], httpx2.Client], tmp_path: Path
) -> None:
    client = seen[2]
    tasks = client.get("/tasks", params={"as": "json"}).json()["tasks"]
    made = min(int(one["jedi_task_id"]) for one in tasks)
    picture, _ = kept_picture(seen[0], f"/tasks/{made}/past", "figure", tmp_path)
    assert len(picture) > 1_000


def test_a_curve_becomes_a_picture(
    seen: tuple[Browser, dict[str, object], httpx2.Client], tmp_path: Path
) -> None:
    """uPlot draws curves on a canvas; the others are SVG. The picture has the size that the button
    names, in the header of PNG: width and height are bytes 16 to 23."""
    picture, size = kept_picture(seen[0], "/", "#rates:has(.plot canvas)", tmp_path)
    assert len(picture) > 2_000
    assert "x".join(str(one) for one in struct.unpack(">II", picture[16:24])) == size


def kept_picture(here: Browser, path: str, figure: str, place: Path) -> tuple[bytes, str]:
    """The picture of a chart as it is downloaded, and its size in pixels as the button has it."""
    driver: Any = here.driver
    driver.execute_cdp_cmd(
        "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(place)}
    )
    here.go(path)
    here.find(f"{figure} .png:not([hidden])").click()
    size = here.find(f"{figure} .png[data-kept]").get_attribute("data-kept")
    picture = here.wait(lambda: next((one.read_bytes() for one in place.glob("*.png")), None))
    assert picture.startswith(b"\x89PNG")
    assert here.problems() == []
    return picture, size or ""
