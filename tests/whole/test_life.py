"""The whole system under people, pilots, crashes and time, in any order: see life.py."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from support import life_events
from support.databases import drop_database, new_database
from support.helpers import make_world
from support.life import ENDS, Life
from support.seen import note

from jedi.agent.base import World
from jedi.core import clock, states
from jedi.taskbuffer.db.engine import connect
from jedi.taskcommando.commands import COMMANDS

pytestmark = pytest.mark.long

STRESS_S = float(os.environ.get("JEDI_STRESS", "0"))
"""For so long other examples each time, instead of always the same few."""

PARTS = 3
"""Which may be lived through at the same time."""

ROUNDS = 12
"""Of five examples each, in a part; as soon as everything has happened often enough, it is over."""

AT_LEAST = 7
"""In each part, so 20 times in all."""

EXPECTED = {
    *(f"task {status}" for status in states.TASK.final),
    *(f"job {status}" for status in states.JOB_FINAL),
    *(f"command {name}" for name in COMMANDS),
    *(f"because {end['error_code']}" for end in ENDS.values() if "error_code" in end),
    *(f"kind {kind}" for kind in ("scout", "merge", "preprocess", "build")),
    *("task staging", "periodical job", "person held", "person released"),
    *("because cancelled_by_user", "because lost_heartbeat", "because output_not_reported"),
    *("crash", "refused", "stale report"),
    *life_events.EXPECTED,
}


@pytest.fixture
def begin(server: str, template: str, tablespace: str | None, tmp_path: Path) -> Iterator[None]:
    """Every example has a database and a storage of its own."""
    urls: list[str] = []
    numbers = count()

    def end() -> None:
        for url in urls:
            note(url)
            drop_database(server, url)
        urls.clear()

    def begin() -> World:
        end()
        urls.append(new_database(server, template, tablespace))
        home = tmp_path / str(next(numbers))
        home.mkdir()
        engine = connect(urls[0])
        return make_world(engine, home)

    Life.begin = staticmethod(begin)
    Life.tally.clear()
    yield
    end()


def rare() -> dict[str, int]:
    """What has not happened often enough."""
    return {what: Life.tally[what] for what in EXPECTED if Life.tally[what] < AT_LEAST}


def live(number: int, *phases: Phase) -> None:
    """Five examples, always the same for a number."""
    profile = settings(
        max_examples=5,
        stateful_step_count=50,
        deadline=None,
        database=None,
        phases=[Phase.generate, *phases],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(number)(Life), settings=profile)


@pytest.mark.timeout(600)
@pytest.mark.skipif(STRESS_S > 0, reason="make stress")
@pytest.mark.parametrize("part", range(PARTS))
def test_life(begin: None, part: int) -> None:
    """Nothing is lost, nothing happens twice, everything ends; and everything has happened."""
    for number in range(part, ROUNDS * PARTS, PARTS):
        live(number)
        if not rare():
            return
    assert rare() == {}


@pytest.mark.timeout(0)
@pytest.mark.skipif(not STRESS_S, reason="make stress")
def test_long_life(begin: None) -> None:
    end = clock.monotonic() + STRESS_S
    while clock.monotonic() < end:
        live(secrets.randbelow(2**32), Phase.shrink)
