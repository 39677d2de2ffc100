"""Times for people carry their zone: one function writes them.

Expected values: worked out by hand."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from jedi_client.cli.common import cell
from jedi_client.times import written

from jedi.monitor.filters import moment

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 29, 0, 59, 4, 987_654, UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))


def test_a_time_carries_its_zone() -> None:
    assert written(AT) == "2026-11-29 00:59:04 UTC"
    assert written(AT.astimezone(INDIA)) == "2026-11-29 00:59:04 UTC"
    assert written(AT, INDIA) == "2026-11-29 06:29:04 +05:30"
    assert written(AT, seconds=False) == "2026-11-29 00:59 UTC"


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-11-29 00:59:04 UTC"),
        ("Europe/Zurich", "2026-11-29 01:59:04 +01:00"),
        ("America/New_York", "2026-11-28 19:59:04 -05:00"),
    ],
)
def test_commands_show_the_zone_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, zone: str, shown: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert cell(AT) == shown
        assert "2026-11-29 00:59:04 UTC" in moment(AT)  # a page is read anywhere
    finally:
        monkeypatch.undo()
        time.tzset()


_NAMES_AND_TICKS = {
    # names of files and tasks
    "jedi/monitor/keeping.py",
    "jedi/service/submission/execution.py",
    "jedi/standalone/backup.py",
    # the ticks of an axis, whose end names the zone; output of ps; the pilot, which imports nothing
    "jedi/monitor/charts.py",
    "jedi/host/processes.py",
    "jedi/pilot/base.py",
}


def test_nothing_else_writes_times() -> None:
    found = {
        str(file.relative_to(ROOT))
        for top in ("jedi", "client/src", "panda/src")
        for file in (ROOT / top).rglob("*.py")
        if re.search(r"%H", file.read_text())
    }
    assert found == _NAMES_AND_TICKS
