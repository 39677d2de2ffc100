"""Plug-ins of other packages: found by what is installed, chosen by vo and prodSourceLabel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commanding import add_inputs, status, work_off
from support.generating import document
from support.task_rows import put, row_of

from jedi.agent import plugins
from jedi.agent.base import World
from jedi.brokerage.generic import GenericBroker
from jedi.core.errors import NotFound

ENTRY_POINTS = """
[jedi.broker]
testvo:any = strange_brokers:Usual
testvo:managed = strange_brokers:Production
"""
SOURCE = """
from jedi.brokerage.generic import GenericBroker

class Usual(GenericBroker):
    most = 1

class Production(Usual):
    most = 2
"""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with two brokers, installed as pip leaves it."""
    information = tmp_path / "strange_brokers-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-brokers\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "strange_brokers.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield
    forget()
    sys.modules.pop("strange_brokers", None)


def forget() -> None:
    plugins.find.cache_clear()
    plugins._installed.cache_clear()


@pytest.mark.usefixtures("stranger")
def test_the_most_exact_name_wins() -> None:
    usual, production = (plugins.find("broker", "testvo", label) for label in ("user", "managed"))
    assert (usual.most, production.most) == (1, 2)
    assert issubclass(production, GenericBroker)
    assert plugins.find("broker", "local", "managed") is GenericBroker


@pytest.mark.parametrize("room", plugins.ROOMS)
def test_every_room_has_a_plugin_for_everybody(room: str) -> None:
    assert callable(plugins.find(room, "somebody", "something"))


def test_a_room_without_plugins_says_so() -> None:
    with pytest.raises(NotFound, match="No plug-in"):
        plugins.find("kitchen", "local", "user")


BAD = {
    "nowhere_to_be_found:Broker": "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    "strange_brokers:Nil": "AttributeError: module 'strange_brokers' has no attribute 'Nil'",
    "strange_brokers:unmade": "RuntimeError: not today",
}


@pytest.mark.parametrize("room", plugins.ROOMS)
@pytest.mark.parametrize("value", BAD)
def test_a_plugin_that_fails_harms_its_own_tasks_only(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str, value: str
) -> None:
    """JEDI document, "Plugins to generate jobs based on various usecases": colleagues of each use
    case maintain its plug-in. So the task of the other use case is done, and the one whose plug-in
    fails waits, with the plug-in, its distribution and the error in its reason."""
    information = tmp_path / "strange_brokers-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[jedi.{room}]\nlocal:managed = {value}\n")
    source = "def unmade():\n    raise RuntimeError('not today')\n"
    (tmp_path / "strange_brokers.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "strange_brokers", raising=False)
    forget()
    try:
        add_inputs(world, 2)
        [theirs] = put(world, document(nFilesPerJob=1, site="SITE_A"), label="managed")
        [ours] = put(world, document(nFilesPerJob=1, site="SITE_A", output="a:other"))
        work_off(world, theirs)
        assert work_off(world, ours) == "done"
        assert status(world, theirs) in {"pending", "ready", "running"}
        assert row_of(world, theirs).errordialog.endswith(
            f"The plug-in local:managed of jedi.{room} ({value}, of strange 1) fails: "
            f"{BAD[value]}. Correct or uninstall it, and restart JEDI."
        )
    finally:
        forget()
        sys.modules.pop("strange_brokers", None)
