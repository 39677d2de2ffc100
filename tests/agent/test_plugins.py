"""Plug-ins of other packages: found by what is installed, chosen by vo and prodSourceLabel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jedi.agent import plugins
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
