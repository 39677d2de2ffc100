"""Identities by operations, on one running service. The expectations are data of this file."""

# Raw UPDATEs: the owner of a task, which nothing else changes.

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from sqlalchemy import text
from support.databases import drop_database, new_database
from support.helpers import make_world, put_file_dataset
from support.job_rows import make_jobs
from support.policy_rows import BY_NAME, GUID, JOB, MADE, ROWS, TASK, Row, places
from support.service_process import running
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.monitor.all_pages import PAGES
from jedi.server.app import create_app
from jedi.service.operations.all_operations import OPERATIONS
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.users import access, users

MISSING = 987_654_321
"""No task or job has this number."""

ROLES = ("user", "owner", "production", "operator")
MAY = {
    "anybody": {*ROLES},
    "own": {*ROLES},  # each caller's own things
    "operator": {"operator"},
    "owner": {"owner", "operator"},
    "dataset_owner": {"owner", "operator"},
    "owner_or_production": {"owner", "production", "operator"},
}
"""Users who may, by rule: anna is the owner, and the named user."""
POLICY = {"own": "self"}
"""Rules that a policy of another name contains."""

PANDA_PILOT_CALLS = (
    "getJob",
    "updateJob",
    "getStatus",
    "updateWorkerPilotStatus",
    "getEventRanges",
    "updateEventRanges",
)

OTHERS = {
    "/health",
    "/ready",
    "/metrics",
    "/openapi.json",
    "/v1/login",
    "/v1/pilot/acquire",
    "/v1/pilot/report",
    "/v1/pilot/heartbeat",
    "/v1/pilot/log",
    "/v1/sandbox/{sha256}",
    "/v1/pilot/event_ranges",
    "/v1/pilot/event_reports",
    "/v1/pilot/event_pieces",
    *(f"/server/panda/{name}" for name in PANDA_PILOT_CALLS),
    "/cache/schedconfig/{name}",
    "/cache/ddmendpoints.json",
    "/trf/user/{name}",
    "/trf/sandbox/{sha256}",
    "/cache/{file_name}",
    "/auth/{file_name}",
}
"""Routes of pilots and of nobody in particular."""

MONITOR = {
    "/act/{operation}",
    "/live",
    "/login",
    "/login/link",
    "/login/oidc",
    "/login/callback",
    "/logout",
    "/static/{version}/{name}",
    "/static/{version}/vendor/{name}",
    *(one.path for one in PAGES.values()),
}
"""Routes of pages, which ask operations in the name of the caller."""

PANDA = ("/api/v1/", "/server/panda/")
"""Beginnings of the routes of PanDA's clients, which ask operations in the name of the caller, or
refuse."""


@dataclass
class Door:
    """The service, and the headers of each identity."""

    world: World
    client: httpx2.Client
    headers: dict[str, dict[str, str]]

    def ask(
        self, identity: str, name: str, task: int | None = None, **more: Any
    ) -> httpx2.Response:
        """Ask for an operation with the arguments of its row and more; `task`: instead of a fresh
        one."""
        one, row = BY_NAME[name], ROWS[name]
        given = {key.rstrip("_"): value for key, value in row.arguments.items()}
        if places(ROWS[name]):
            number = task or fresh(self.world, ROWS[name])
            given = {key: _filled(value, number) for key, value in given.items()}
        url = one.path.format(**given)
        rest = {key: value for key, value in given.items() if key not in one.in_path} | more
        headers = self.headers[identity]
        if one.raw:
            data = rest.pop("data")
            return self.client.put(url, headers=headers, params=rest, content=data)
        if one.streams_events:
            with self.client.stream("GET", url, headers=headers, params=rest) as answer:
                lines = answer.iter_lines()
                data = next(lines) if answer.status_code == 200 else answer.read()
                return httpx2.Response(
                    answer.status_code, content=b"[]" if data == ": JEDI" else data
                )
        if one.method == "GET":
            return self.client.get(url, headers=headers, params=rest)
        return self.client.request(one.method, url, headers=headers, json=rest)


def fresh(world: World, row: Row) -> int:
    """The number of a new task of anna's, or of a new job of hers."""
    if TASK in str(row.arguments):
        return put(world, good())[0]
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(
            text("UPDATE jedi_tasks SET username = 'anna' WHERE jeditaskid = :task"),
            {"task": made.task},
        )
        return made.jobs[0]


def _filled(value: Any, number: int) -> Any:
    if isinstance(value, list):
        return [_filled(one, number) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, number) for key, one in value.items()}
    return number if value in (TASK, JOB) else value


@pytest.fixture(scope="module")
def door(server: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One service on TCP, where a request without a token has no identity at all."""
    url = new_database(server, template)
    engine, home = connect(url), tmp_path_factory.mktemp("home")
    world = make_world(engine, home)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    headers = _prepare(world, address)
    try:
        with running(world), httpx2.Client(base_url=f"http://{address}", timeout=60) as client:
            yield Door(world, client, headers)
    finally:
        Home(home).discard()
        engine.dispose()
        drop_database(server, url)


def _prepare(world: World, address: str) -> dict[str, dict[str, str]]:
    [task] = put(world, good())
    put_file_dataset(world, MADE, {"one": b"1"}, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        knobs.put(tx, "api.listen", address, "olga")
        knobs.put(tx, "api.wrong_tokens_per_s", 0.0, "olga")  # a fast machine asks with many
        users.PUT_USER.run(tx, user="paul", role="production", gridpref=None, cap=None)
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        tx.execute(
            text(
                "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status) "
                "VALUES (:task, :name, 'output', 'defined')"
            ),
            {"task": task, "name": MADE},
        )
        tx.execute(
            text(
                "INSERT INTO jedi_retry_rules (rule_id, active, error_code, action) "
                "VALUES (5, true, 'x', 'no_retry')"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_registries (guid, username, name) VALUES (:guid, 'anna', 'first')"
            ),
            {"guid": GUID},
        )
        made = {
            "pilot": users.put_token(tx, "pilot", site="SITE_A"),
            "reader": access.put_user_token(tx, "olga", None, "read", 600.0),
            "user": access.put_user_token(tx, "bea", None, "all", 600.0),
            "owner": access.put_user_token(tx, "anna", None, "all", 600.0),
            "production": access.put_user_token(tx, "paul", None, "all", 600.0),
            "operator": access.put_user_token(tx, "olga", None, "all", 600.0),
        }
    known = {name: {"Authorization": f"Bearer {token}"} for name, token in made.items()}
    wrong, forged = ({"Authorization": f"Bearer {token}"} for token in ("x" * 43, "e30.e30.e30"))
    return {"nobody": {}, "wrong": wrong, "forged": forged, **known}


def expected(row: Row) -> dict[str, str]:
    """The outcome for each identity. The token for reading is an operator's: its scope alone
    stands in the way."""
    users_ = {name: "done" if name in MAY[row.rule] else "refused" for name in ROLES}
    reader = "done" if row.scope == "read" else "scope_too_small"
    return {
        "nobody": "no_token",
        "wrong": "bad_token",
        "pilot": "not_a_user",
        "reader": reader,
        **users_,
    }


STATUS = {"no_token": 401, "bad_token": 401, "not_a_user": 403, "scope_too_small": 403}


def outcome(answer: httpx2.Response, row: Row) -> str:
    """The outcome of an answer; of an operation on many tasks, that of its one task."""
    said = answer.json()
    if answer.status_code in (401, 403):
        code = str(said["code"])
        if STATUS.get(code) == answer.status_code:
            return code
        return "refused" if answer.status_code == 403 else f"401 {code}"
    if isinstance(said, list) and [
        one for one in said if isinstance(one, dict) and one.get("error") == "forbidden"
    ]:
        return "refused"
    return "done" if answer.status_code in row.done else f"{answer.status_code} {said}"


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_identities_get_what_the_rule_allows(door: Door, name: str) -> None:
    row = ROWS[name]
    found = {who: outcome(door.ask(who, name), row) for who in expected(row)}
    assert found == expected(row)


@pytest.mark.parametrize("name", sorted(name for name in ROWS if places(ROWS[name])))
def test_strangers_learn_nothing_of_tasks(door: Door, name: str) -> None:
    """`A stranger learns neither that a task exists nor its owner's name from an error`: the answer
    about a task is the same, byte for byte, as that about none."""
    task = fresh(door.world, ROWS[name])
    for stranger in ("nobody", "wrong", "forged", "pilot"):
        there, absent = door.ask(stranger, name, task), door.ask(stranger, name, MISSING)
        assert (there.status_code, there.content) == (absent.status_code, absent.content)
        said = str({**there.json(), "status": None})  # which may be the task's number
        assert "anna" not in said and str(task) not in said


NEVER_DRY = {
    "dataset.close",
    "dataset.create",  # the catalogue may be directories
    "dog.run",  # transactions of its own
    "cache.find",
    "cache.put",
    "sandbox.put",  # only keep bytes
    "site.create_token",
    "token.create",
    "user.notify",  # secrets, useless if they are not kept
    "session.link",
    "registry.lease",
    "registry.renew",  # likewise
}
DRY = sorted(one.name for one in OPERATIONS if one.dry_run)


ROW = "CAST(to_jsonb(r) - 'used_at' AS text)"
"""A row without the last use of a token, which the service notes once a minute."""


def contents(world: World) -> dict[str, str]:
    """A checksum of each table, and of each file in storage."""
    with world.engine.begin() as tx:
        names = tx.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        found = {
            name: str(
                tx.scalar(text(f"SELECT md5(string_agg({ROW}, '|' ORDER BY {ROW})) FROM {name} r"))
            )
            for name in names.all()
        }
    stored = (world.settings.home / "storage").rglob("*")
    return found | {str(one): one.read_bytes().hex() for one in stored if one.is_file()}


def test_all_changes_may_be_tried_but_a_few() -> None:
    assert {one.name for one in OPERATIONS if one.changes} - {*DRY} == NEVER_DRY


@pytest.mark.parametrize("name", DRY)
def test_a_dry_run_checks_all_and_changes_nothing(door: Door, name: str) -> None:
    """`Verbs … answer per id what was done and what was refused …; dry_run`: the same checks as
    without it, and the database stays as it is."""
    row = ROWS[name]
    task = fresh(door.world, row) if places(row) else None
    before = contents(door.world)
    found = {who: outcome(door.ask(who, name, task, dry_run=True), row) for who in ROLES}
    assert found == {who: expected(row)[who] for who in ROLES}
    assert contents(door.world) == before


@pytest.mark.parametrize(
    ("verb", "things", "more"),
    [
        ("report", "reports", {"status": "running"}),
        ("heartbeat", "beats", {}),
        ("log", "entries", {"stdout_tail": "x"}),
    ],
)
def test_pilots_learn_nothing_of_jobs_elsewhere(
    door: Door, verb: str, things: str, more: dict[str, Any]
) -> None:
    """A pilot of SITE_B gets the same answer about a job of SITE_A as about none."""
    job = fresh(door.world, ROWS["job.show"])
    with door.world.engine.begin() as tx:
        elsewhere = {"Authorization": f"Bearer {users.put_token(tx, 'pilot', site='SITE_B')}"}

    def ask(panda_id: int) -> tuple[int, str]:
        body = {things: [{"pandaid": panda_id, "lock_seq": 1, **more}]}
        answer = door.client.post(f"/v1/pilot/{verb}", headers=elsewhere, json=body)
        return answer.status_code, answer.text.replace(str(panda_id), "ID")

    assert ask(job) == ask(MISSING)
    assert ask(job)[0] == 200


def test_callers_learn_nothing_of_tokens_of_others(door: Door) -> None:
    """The id of somebody else's token is as unknown as one that nobody has."""
    known = door.client.get("/v1/tokens", headers=door.headers["owner"]).json()

    def revoke(token_id: str) -> tuple[int, str]:
        answer = door.client.delete(f"/v1/tokens/{token_id}", headers=door.headers["user"])
        return answer.status_code, answer.text.replace(token_id, "ID")

    assert revoke(known[0]["token_id"]) == revoke("0" * 12)
    assert len(door.client.get("/v1/tokens", headers=door.headers["owner"]).json()) == len(known)


def test_every_operation_stands_in_the_table_of_this_test(door: Door) -> None:
    """A new operation needs a row above: its rule, its scope, and arguments."""
    document = door.client.get("/openapi.json").json()["paths"]
    routes = {
        route["operationId"]: (route["x-policy"], route["x-scope"])
        for methods in document.values()
        for route in methods.values()
        if "x-policy" in route
    }
    rules = {name: (POLICY.get(row.rule, row.rule), row.scope) for name, row in ROWS.items()}
    rules |= {name: ("self", ROWS[name].scope) for name in ("user.notices", "user.notify")}
    assert routes == rules


def test_every_route_belongs_to_an_operation(world: World) -> None:
    """A route that no row of the table makes has no policy."""
    found = {
        (route.method, route.path)
        for route in create_app(world).routes
        if route.path not in OTHERS | MONITOR and not route.path.startswith(PANDA)
    }
    assert found == {(one.method, one.path) for one in OPERATIONS}
    assert all(one.policy.sentence and one.policy.name for one in OPERATIONS)
