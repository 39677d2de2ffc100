"""Other distributions add routes and operations; one that is broken stops nobody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from jedi.agent.base import World
from jedi.core.extensions import extensions, installed
from jedi.server.app import create_app

BROKEN = """[jedi.wires]
broken = no_such_module:add
wrong = jedi.core.clock:no_such_name
[jedi.operations]
sick = no_such_module
"""


@pytest.fixture
def more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of distributions beside those that are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    extensions.cache_clear()
    yield tmp_path
    extensions.cache_clear()


def put(place: Path, entry_points: str) -> None:
    """Install a distribution that has only entry points."""
    info = place / "site_wires-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-wires\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_panda_is_here() -> None:
    assert installed("jedi.wires")["panda"].startswith("jedi-panda ")
    assert [one.trouble for one in extensions("jedi.operations")] == [""]


def test_a_wire_that_is_broken_stops_nobody(more: Path, world: World) -> None:
    put(more, BROKEN)
    found = {one.name: one.trouble for one in extensions("jedi.wires")}
    assert found["panda"] == ""
    assert found["broken"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert found["wrong"].startswith("AttributeError: ")
    assert installed("jedi.wires")["broken"] == "site-wires 1.2"
    with capture_logs() as log:
        app = TestClient(create_app(world))
    assert {one["wire"] for one in log if one["event"] == "wire unusable"} == {
        *("broken", "wrong", "sick"),
    }
    assert app.get("/health").status_code == 200
    assert app.get("/api/v1/system/is_alive").status_code == 403


def test_the_server_has_all_else_without_a_wire() -> None:
    """PanDA's operations are those of its distribution alone."""
    code = (
        "import importlib.metadata as found\n"
        "points = found.entry_points\n"
        "found.entry_points = lambda group: () if group in ('jedi.wires', 'jedi.operations') "
        "else points(group=group)\n"
        "import sys\n"
        "import jedi.server.app\n"
        "from jedi.service.operations.all_operations import TABLE\n"
        "assert 'jedi_panda' not in sys.modules\n"
        "print(*sorted(TABLE))"
    )
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    from jedi.service.operations.all_operations import TABLE

    assert {*TABLE} - {*shown} == {
        *("cache.find", "cache.put", "panda.submit", "task.increase_attempts"),
    }
