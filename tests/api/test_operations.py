"""Operations through the service's process: identity, policy, audit, repeated requests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import text
from support.service_process import over, running
from support.task_rows import good, put, row_of

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.users import put_user

ME = caller()


@pytest.fixture
def door(world: World) -> Iterator[httpx.Client]:
    """The service, asked by this account over the unix socket."""
    with running(world), over(Home(world.settings.home)) as client:
        yield client


def token(world: World, user: str, scope: str = "all", lifetime_s: float = 600.0) -> dict[str, str]:
    """Headers of a user with a token."""
    with world.engine.begin() as tx:
        made = access.put_user_token(tx, user, None, scope, lifetime_s)
    return {"Authorization": f"Bearer {made}"}


def test_peers_on_the_socket_are_their_accounts(door: httpx.Client) -> None:
    me = door.get("/v1/me").json()
    assert (me["user_name"], me["way"], me["scope"]) == (ME, "socket", "all")
    forged = {"X-Forwarded-For": "unix", "X-Forwarded-Proto": "https", "Forwarded": "for=unix"}
    assert door.get("/v1/me", headers=forged).json() == me


def test_tokens_stand_for_their_users(world: World, door: httpx.Client) -> None:
    bea = token(world, "bea", "read")
    assert door.get("/v1/me", headers=bea).json() == {
        "user_name": "bea", "role": "user", "way": "token", "scope": "read"
    }  # fmt: skip
    refused = door.post("/v1/tasks/kill", headers=bea, json={"jedi_task_ids": [1]})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_too_small")
    made = door.post("/v1/tokens", json={"name": "laptop", "days": 1}).json()
    mine = {"Authorization": f"Bearer {made['token']}"}
    assert door.get("/v1/me", headers=mine).json()["user_name"] == ME
    [listed] = door.get("/v1/tokens").json()
    assert listed["name"] == "laptop" and listed["used_at"] and made["token"] not in str(listed)
    assert door.delete(f"/v1/tokens/{listed['token_id']}", headers=bea).status_code == 404
    assert door.delete(f"/v1/tokens/{listed['token_id']}").status_code == 200
    assert door.get("/v1/me", headers=mine).json()["code"] == "bad_token"


@pytest.mark.parametrize(
    ("header", "code"),
    [("Bearer x", "bad_token"), ("Basic YTpi", "no_token"), ("Bearer", "no_token")],
)
def test_strangers_are_refused_even_on_the_socket(
    door: httpx.Client, header: str, code: str
) -> None:
    answer = door.get("/v1/me", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_owners_act_on_their_own_tasks_only(world: World, door: httpx.Client) -> None:
    """Of many tasks each gets its own answer: `Verbs take … thousands and answer per id`."""
    one, two = put(world, good("a:out"), good("a:out2"))
    anna, bea = token(world, "anna"), token(world, "bea")
    asked = {"jedi_task_ids": [one, two, 999], "comment": "wrong"}
    answers = door.post("/v1/tasks/kill", headers=bea, json=asked).json()
    assert [(a["accepted"], a["error"]) for a in answers] == [
        (False, "forbidden"), (False, "forbidden"), (False, "not_found")
    ]  # fmt: skip
    answers = door.post("/v1/tasks/kill", headers=anna, json=asked).json()
    assert [a["accepted"] for a in answers] == [True, True, False]
    with world.engine.begin() as tx:
        named = text("SELECT jeditaskid, username FROM jedi_commands ORDER BY 1")
        assert [*tx.execute(named)] == [(one, "anna"), (two, "anna")]
        noted = text("SELECT username, way, operation, arguments->>'comment' FROM jedi_audit "
                     "ORDER BY audit_id")  # fmt: skip
        assert [*tx.execute(noted)][-1] == ("anna", "token", "task.kill", "wrong")
    assert row_of(world, one).status == "registered"


def test_a_key_makes_repeating_safe(world: World, door: httpx.Client) -> None:
    [task] = put(world, good())
    keyed = {**token(world, "anna"), "Idempotency-Key": "k1"}
    asked = {"jedi_task_ids": [task]}
    first = door.post("/v1/tasks/pause", headers=keyed, json=asked)
    again = door.post("/v1/tasks/pause", headers=keyed, json=asked)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    other = door.post("/v1/tasks/kill", headers=keyed, json=asked)
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_commands")) == 1


def test_all_mistakes_are_named_at_once(door: httpx.Client) -> None:
    wrong = {"jedi_task_ids": ["x", 0], "soft": "perhaps", "colour": 1}
    answer = door.post("/v1/tasks/finish", json=wrong)
    assert answer.status_code == 422
    paths = {problem["path"] for problem in answer.json()["facts"]["problems"]}
    assert paths == {"jedi_task_ids.0", "jedi_task_ids.1", "soft", "colour"}
    asked = door.get("/v1/tasks", params={"limit": "0", "colour": "red"})
    assert {p["path"] for p in asked.json()["facts"]["problems"]} == {"limit", "colour"}
    assert door.get("/v1/tasks/many").status_code == 422


def test_reads_are_cheap_to_repeat(world: World, door: httpx.Client) -> None:
    put(world, good())
    answer = door.get("/v1/tasks", params={"status": ["registered", "defined"], "user": "anna"})
    assert [task["task_name"] for task in answer.json()] == ["t"]
    same = door.get("/v1/tasks", params={"status": ["registered", "defined"], "user": "anna"},
                    headers={"If-None-Match": answer.headers["etag"]})  # fmt: skip
    assert (same.status_code, same.content) == (304, b"")


def test_only_operators_read_the_audit(world: World, door: httpx.Client) -> None:
    bea = token(world, "bea")
    answer = door.get("/v1/audit", headers=bea)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_operator")
    door.post("/v1/tokens", headers={**bea, "X-Request-Id": "mine-1"}, json={"name": "script"})
    with world.engine.begin() as tx:
        put_user(tx, "olga", "operator")
    [entry] = door.get("/v1/audit", headers=token(world, "olga"), params={"user": "bea"}).json()
    assert (entry["operation"], entry["request_id"]) == ("token.create", "mine-1")
    assert entry["address"].startswith("unix:")


def test_secrets_are_kept_nowhere(world: World, door: httpx.Client) -> None:
    """`only a hash is stored`: a repeated request does not show the token again."""
    keyed = {"Idempotency-Key": "once"}
    made = door.post("/v1/tokens", headers=keyed, json={"name": "laptop"}).json()
    again = door.post("/v1/tokens", headers=keyed, json={"name": "laptop"})
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    with world.engine.begin() as tx:
        kept = [str(row) for table in ("jedi_requests", "jedi_audit", "jedi_tokens")
                for row in tx.execute(text(f"SELECT * FROM {table}"))]  # fmt: skip
    assert len(kept) == 3 and made["token"] not in "".join(kept)


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800"])
def test_texts_that_cannot_be_stored_are_named(door: httpx.Client, bad: str) -> None:
    body = json.dumps({"jedi_task_ids": [1], "comment": bad})
    answer = door.post("/v1/tasks/kill", content=body)
    [problem] = answer.json()["facts"]["problems"]
    assert (answer.status_code, problem["path"]) == (422, "comment")
    asked = door.get("/v1/tasks?name=%00")
    assert asked.status_code == 422
