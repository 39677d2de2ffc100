"""Tasks at work in a database of 0.1.0: after the upgrade, today's agents bring them to their ends.

tests/data/release-0.1.0.json.gz was made by the code of 0.1.0 (support/life.py under commit
0c4498a2, 25 steps): rows, files of the home, and the orders of the pilots that have jobs.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from support import life_events
from support.life import Held, Life

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.service.system import check
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import migrate, picture
from tools import docs

DUMP = docs.ROOT / "tests/data/release-0.1.0.json.gz"


@pytest.fixture
def dump(home: Path) -> dict[str, Any]:
    """Rows, orders and time of the system of 0.1.0, whose files lie in the home."""
    dumped: dict[str, Any] = json.loads(
        gzip.decompress(DUMP.read_bytes()).decode().replace("@HOME@", str(home))
    )
    for name in dumped["directories"]:
        (home / name).mkdir(parents=True, exist_ok=True)
    for name, content in dumped["files"].items():
        (home / name).write_text(content)
    return dumped


@pytest.fixture
def engine(empty_url: str, dump: dict[str, Any]) -> Iterator[Engine]:
    """Connections to the database of 0.1.0."""
    engine = connect(empty_url)
    migrate.upgrade(engine, "0008")
    with engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_retry_rules"))  # the dump has those of a new system, too
        tx.connection.cursor().execute(dump["rows"])
    yield engine
    engine.dispose()


def seal(user: str, secret: str) -> str:
    return f"sealed for {user}"


def violated(tx: Connection) -> list[Any]:
    return [rule for rule in check.check(tx) if rule.violations]


def jobs(tx: Connection) -> Counter[str]:
    return Counter(tx.scalars(text("SELECT status FROM jedi_jobs")))


@pytest.mark.usefixtures("at")
def test_tasks_of_0_1_0_go_to_their_ends(engine: Engine, home: Path, dump: dict[str, Any]) -> None:
    """By hand: no rule is broken after the step; the pilots of 0.1.0 report their jobs to this
    release; each task comes to rest, and its files and records agree."""
    assert migrate.upgrade(engine, seal=seal) == ("0008", migrate.head())
    with engine.begin() as tx:
        for name, sql in picture.draw(tx).items():
            assert sql == (docs.ROOT / "schema" / name).read_text()
        secrets = "SELECT webhook_secret FROM jedi_users WHERE username = 'ann'"
        assert tx.scalar(text(secrets)) == "sealed for ann"
        archived = "SELECT count(*), (SELECT sum(jobs) FROM job_stats_archived) "
        assert tx.execute(text(f"{archived} FROM jedi_jobs_archived")).one() == (6, 6)
        assert violated(tx) == []
        assert jobs(tx) == {"closed": 4, "finished": 7, "holding": 2, "sent": 3}
    life = Life()
    life.time, life.tasks = datetime.fromisoformat(dump["time"]), dump["tasks"]
    life.held = [Held(order) for order in dump["orders"]]
    life.dice = Random(1)
    settings = Settings(home, engine.url.render_as_string(hide_password=False))
    life.world = World(engine, settings, knobs.load, factory.load)
    life.world.log = life.log
    life.world.refresh()
    life.ranges = life_events.RangePilots(engine, life.tally)
    clock.turn_to(life.time)
    life.start()
    assert set(life.statuses().values()) >= {"preprocessing", "defined", "running", "registered"}
    life.teardown()
    with engine.begin() as tx:
        assert jobs(tx)["finished"] > 7
