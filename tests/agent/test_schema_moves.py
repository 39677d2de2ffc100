"""The schema under agents: no agent works with the schema of another release, and no migration
begins while agents run."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from support.helpers import make_world
from support.relay import relay
from support.releases import HERE, newer_release, part, set_revision

from jedi.agent.base import World
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.schema import migrate

PATIENCE_S = 60.0
NEWER = "A newer release has migrated the database: install that one here, too."


@pytest.fixture
def heard(tmp_path: Path) -> Callable[[str], str]:
    """Wait for a note of a process to its supervisor that begins so, and return it."""
    notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notes.bind(str(tmp_path / "notify"))
    notes.settimeout(PATIENCE_S)

    def wait(begin: str) -> str:
        while not (note := notes.recv(4096).decode()).startswith(begin):
            pass
        return note

    return wait


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def test_an_agent_ends_when_the_schema_moves(
    world: World, tmp_path: Path, heard: Callable[[str], str]
) -> None:
    """By hand: exit code 5 and the remedy, at its next heartbeat; a new start is refused at once,
    with `--once`, too."""
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.heartbeat_s", 0.1, "olga")
    home, told = tmp_path / "home", {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    agent = ("agent", "run", "TaskRefiner")
    with part(HERE, home, url_of(world.engine), *agent, **told) as process:
        heard("READY=1")
        set_revision(world.engine, "9999")
        assert NEWER in process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 5
    for words in (agent, (*agent, "--once"), ("watchdog", "run", "caps")):
        with part(HERE, home, url_of(world.engine), *words) as process:
            assert NEWER in process.communicate(timeout=PATIENCE_S)[0]
            assert process.returncode == 5


@pytest.mark.long
def test_no_migration_begins_while_agents_run(
    engine: Engine, tmp_path: Path, heard: Callable[[str], str]
) -> None:
    """By hand: `jedi db upgrade` and `jedi up` of the new release, and `jedi db downgrade` of the
    old one, name the agent of the old release and change nothing; when it has ended, the upgrade
    succeeds. A service hinders nobody."""
    world, url, new = make_world(engine, tmp_path / "world"), url_of(engine), tmp_path / "new"
    revision = newer_release(new)
    told = {"NOTIFY_SOCKET": str(tmp_path / "notify")}

    def said(code: Path, home: str, *words: str, ends: int) -> str:
        with part(code, tmp_path / home, url, *words) as process:
            found = process.communicate(timeout=PATIENCE_S)[0]
            assert process.returncode == ends, found
            return found

    with part(HERE, tmp_path / "b", url, "api", **told):
        heard("READY=1")
        with part(HERE, tmp_path / "a", url, "agent", "run", "Submitter", **told) as agent:
            heard("READY=1")
            for code, *words in (
                (new, "db", "upgrade"),
                (new, "up"),
                (HERE, "db", "downgrade", "base"),
            ):
                refused = said(code, "c", *words, ends=1)
                assert "Agents still run: Submitter on the database's host." in refused
                assert "jedi down" in refused and "systemctl stop" in refused
            assert migrate.current(world.engine) == migrate.head()
            assert said(HERE, "c", "db", "upgrade", ends=0)  # nothing to change
            agent.terminate()
            assert agent.wait(PATIENCE_S) == 0
        assert f"{migrate.head()} -> {revision}" in said(new, "c", "db", "upgrade", ends=0)


def test_a_service_waits_for_a_database_that_is_away(
    world: World, tmp_path: Path, heard: Callable[[str], str]
) -> None:
    """A service that starts before its database waits, and gives the reason."""
    place = tmp_path / "pg"
    place.mkdir()
    there = world.engine.url.set(host=None, port=None, query={"host": str(place), "port": "5432"})
    url = there.render_as_string(hide_password=False)
    told = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with part(HERE, tmp_path / "home", url, "api", **told):
        assert "The database does not answer" in heard("STATUS=")
        with relay(world.engine, place, []) as relayed:
            assert relayed == url
            heard("READY=1")
