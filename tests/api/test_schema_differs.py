"""A stale service: `two services and a stale one`. It refuses a database that another release has
migrated, at its start and later, and ends by itself."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import Engine
from support.helpers import make_world
from support.releases import HERE, newer_release, part, set_revision
from support.service_process import over

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.users import users

ENDS_S = 60.0


def test_a_running_service_refuses_a_migrated_database(world: World, service: None) -> None:
    """Operations, pilots' verbs and /ready say so at once; /health asks nobody. A pilot's token is
    trusted for 5 s, but not the schema."""
    with world.engine.begin() as tx:
        pilot = {"Authorization": f"Bearer {users.put_token(tx, 'pilot', site='SITE_A')}"}

    def beat(client: httpx2.Client) -> httpx2.Response:
        return client.post("/v1/pilot/heartbeat", json={"beats": []}, headers=pilot)

    with over(Home(world.settings.home)) as client:
        assert client.get("/v1/me").status_code == beat(client).status_code == 200
        for revision, remedy in (("9999", "install that one"), ("0008", "jedi db upgrade")):
            set_revision(world.engine, revision)
            change = client.post("/v1/tasks/pause", json={"jedi_task_ids": [1]})
            for answer in (client.get("/v1/me"), change, client.get("/ready"), beat(client)):
                assert answer.status_code == 503 and answer.headers["retry-after"]
                said = answer.json()
                assert said["code"] == "schema_differs"
                assert f"schema {revision}" in said["sentence"] and remedy in said["sentence"]
        assert client.get("/health").status_code == 200
        set_revision(world.engine, migrate.head())
        assert client.get("/v1/me").status_code == 200


def refusal(code: Path, home: Path, url: str) -> str:
    """The output of a service that refuses to start."""
    with part(code, home, url, "api") as process:
        said = process.communicate(timeout=ENDS_S)[0]
        assert process.returncode == 5, said
        return said


def asked(process: subprocess.Popen[str], home: Path) -> httpx2.Response:
    """The answer of a home's service to a question, as soon as it listens."""
    end = time.monotonic() + ENDS_S
    while True:
        try:
            with over(Home(home)) as client:
                return client.get("/v1/tasks")
        except httpx2.ConnectError:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.long
def test_an_older_release_makes_room_for_a_newer_one(engine: Engine, tmp_path: Path) -> None:
    """An older service works with its own schema; when a newer release migrates the database, it
    refuses at once, and ends; neither release starts with the schema of the other."""
    make_world(engine, tmp_path / "world")
    url = engine.url.render_as_string(False)
    new = tmp_path / "new"
    revision = newer_release(new)
    said = refusal(new, tmp_path / "a", url)
    assert f"schema {migrate.head()}; this release has {revision}" in said
    assert "jedi db upgrade" in said
    with part(HERE, tmp_path / "b", url, "api") as older:
        assert asked(older, tmp_path / "b").status_code == 200
        with part(new, tmp_path / "c", url, "db", "upgrade") as upgrade:
            assert upgrade.wait(ENDS_S) == 0
        stale = asked(older, tmp_path / "b")
        assert (stale.status_code, stale.json()["code"]) == (503, "schema_differs")
        with part(new, tmp_path / "c", url, "api") as newer:
            assert asked(newer, tmp_path / "c").status_code == 200
            assert "A newer release has migrated" in older.communicate(timeout=ENDS_S)[0]
            assert older.returncode == 5
            assert asked(newer, tmp_path / "c").status_code == 200
    assert "A newer release has migrated" in refusal(HERE, tmp_path / "d", url)
