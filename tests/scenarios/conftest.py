"""A running system for a module of scenarios, which follow each other in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scenarios.real_system import System

from jedi.demo.__main__ import still_running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A home in which nothing runs yet; nothing does any more when it is discarded."""
    system = System(tmp_path_factory.mktemp("scenario"))
    yield system
    if still_running(system.home):
        system.down()
    system.home.discard()


@pytest.fixture(scope="module")
def system(home: System) -> System:
    """The system, up."""
    home.up()
    return home
