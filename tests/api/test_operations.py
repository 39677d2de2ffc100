"""Operations through the service's process: identity, policy, audit, repeated requests."""

# Raw UPDATEs: owners of jobs that the builder makes for one user.

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest
from sqlalchemy import text
from support.job_rows import make_jobs
from support.service_process import over, running
from support.task_rows import good, put, row_of

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.users import PUT_USER

ME = caller()


@pytest.fixture
def door(world: World) -> Iterator[httpx2.Client]:
    """The service, asked by this account over the unix socket."""
    with running(world), over(Home(world.settings.home)) as client:
        yield client


def token(world: World, user: str, scope: str = "all", lifetime_s: float = 600.0) -> dict[str, str]:
    """Headers of a user with a token."""
    with world.engine.begin() as tx:
        made = access.put_user_token(tx, user, None, scope, lifetime_s)
    return {"Authorization": f"Bearer {made}"}


def test_peers_on_the_socket_are_their_accounts(door: httpx2.Client) -> None:
    me = door.get("/v1/me").json()
    assert (me["user_name"], me["way"], me["scope"]) == (ME, "socket", "all")
    forged = {"X-Forwarded-For": "unix", "X-Forwarded-Proto": "https", "Forwarded": "for=unix"}
    assert door.get("/v1/me", headers=forged).json() == me


def test_tokens_stand_for_their_users(world: World, door: httpx2.Client) -> None:
    bea = token(world, "bea", "read")
    assert door.get("/v1/me", headers=bea).json() == {
        "user_name": "bea",
        "role": "user",
        "way": "token",
        "scope": "read",
        "task_scope": "user.bea",
    }
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
    door: httpx2.Client, header: str, code: str
) -> None:
    answer = door.get("/v1/me", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_owners_act_on_their_own_tasks_only(world: World, door: httpx2.Client) -> None:
    """Of many tasks each gets its own answer: `Verbs take … thousands and answer per id`."""
    one, two = put(world, good("a:out"), good("a:out2"))
    anna, bea = token(world, "anna"), token(world, "bea")
    asked = {"jedi_task_ids": [one, two, 999], "comment": "wrong"}
    answers = door.post("/v1/tasks/kill", headers=bea, json=asked).json()
    assert [(a["accepted"], a["error"]) for a in answers] == [
        (False, "forbidden"),
        (False, "forbidden"),
        (False, "not_found"),
    ]
    answers = door.post("/v1/tasks/kill", headers=anna, json=asked).json()
    assert [a["accepted"] for a in answers] == [True, True, False]
    with world.engine.begin() as tx:
        named = text("SELECT jeditaskid, username FROM jedi_commands ORDER BY 1")
        assert [*tx.execute(named)] == [(one, "anna"), (two, "anna")]
        noted = text(
            "SELECT username, way, operation, arguments->>'comment' FROM jedi_audit "
            "ORDER BY audit_id"
        )
        assert [*tx.execute(noted)][-1] == ("anna", "token", "task.kill", "wrong")
    assert row_of(world, one).status == "registered"


def test_a_key_makes_repeating_safe(world: World, door: httpx2.Client) -> None:
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


def test_all_mistakes_are_named_at_once(door: httpx2.Client) -> None:
    wrong = {"jedi_task_ids": ["x", 0], "soft": "perhaps", "colour": 1}
    answer = door.post("/v1/tasks/finish", json=wrong)
    assert answer.status_code == 422
    paths = {problem["path"] for problem in answer.json()["facts"]["problems"]}
    assert paths == {"jedi_task_ids.0", "jedi_task_ids.1", "soft", "colour"}
    asked = door.get("/v1/tasks", params={"limit": "0", "colour": "red"})
    assert {p["path"] for p in asked.json()["facts"]["problems"]} == {"limit", "colour"}
    assert door.get("/v1/tasks/many").status_code == 422


MIXED = {
    "task.list": (
        "/v1/tasks?status=runing&where=id%3Dx&where=foo%3D1&limit=0&user=a&user=b&x=1",
        ["user", "status", "where", "where", "limit", "x"],
    ),
    "task.groups": (
        "/v1/tasks/groups?by=colour&status=runing&where=foo%3D1",
        ["by", "status", "where"],
    ),
    "job.list": ("/v1/jobs?status=done&where=exit%3Dx&limit=0", ["status", "where", "limit"]),
    "job.search": (
        "/v1/jobs/search?status=done&where=exit%3Dx&before=x",
        ["status", "where", "before"],
    ),
    "task.jobs": (
        "/v1/tasks/x/jobs?status=done&where=exit%3Dx",
        ["jedi_task_id", "status", "where"],
    ),
    "task.files": ("/v1/tasks/1/files?type=x&status=y&limit=0", ["type", "status", "limit"]),
    "task.events": ("/v1/tasks/1/events?status=y&panda_id=x", ["panda_id", "status"]),
    "task.at": ("/v1/tasks/0/at?at=yesterday&at=2026-13-01", ["jedi_task_id", "at", "at"]),
    "NUL": ("/v1/tasks?user=%00&status=runing&limit=0", ["user", "status", "limit"]),
}
"""Questions with mistakes of several kinds, and the place of each mistake."""


@pytest.mark.parametrize("name", MIXED)
def test_mistakes_of_all_kinds_come_together(door: httpx2.Client, name: str) -> None:
    """Unknown words, wrong conditions, wrong types, repeated and unknown names: one answer has
    all of them, each with a rule and a remedy."""
    asked, places = MIXED[name]
    answer = door.get(asked)
    problems = answer.json()["facts"]["problems"]
    assert (answer.status_code, [one["path"] for one in problems]) == (422, places)
    assert all(one["rule"] and one["remedy"] for one in problems)


def test_a_wrong_key_comes_with_the_other_mistakes(world: World, door: httpx2.Client) -> None:
    """So do the days of a token and the letters of a user."""
    keyed = {"Idempotency-Key": "a b"}
    answer = door.post("/v1/tasks/kill", headers=keyed, json={"jedi_task_ids": [0], "colour": 1})
    assert [one["path"] for one in answer.json()["facts"]["problems"]] == [
        "Idempotency-Key",
        "jedi_task_ids.0",
        "colour",
    ]
    answer = door.post("/v1/tokens", json={"days": -1, "scope": "many"})
    assert {one["path"] for one in answer.json()["facts"]["problems"]} == {"days", "scope"}
    answer = door.put("/v1/users/anna", json={"role": "king", "gridpref": "kQ"})
    assert {one["path"] for one in answer.json()["facts"]["problems"]} == {"role", "gridpref"}


def test_a_missing_argument_has_no_value(door: httpx2.Client) -> None:
    answer = door.post("/v1/tasks/kill", json={})
    [problem] = answer.json()["facts"]["problems"]
    assert problem == {
        "path": "jedi_task_ids",
        "value": None,
        "rule": "is mandatory",
        "remedy": "Add it",
    }


def test_a_pattern_is_named_in_words(door: httpx2.Client) -> None:
    answer = door.get("/v1/sandboxes/zz")
    [problem] = answer.json()["facts"]["problems"]
    assert problem["rule"] == "must be a SHA-256: 64 digits 0-9 and a-f"


def test_reads_are_cheap_to_repeat(world: World, door: httpx2.Client) -> None:
    put(world, good())
    answer = door.get("/v1/tasks", params={"status": ["registered", "defined"], "user": "anna"})
    assert [task["task_name"] for task in answer.json()] == ["t"]
    same = door.get(
        "/v1/tasks",
        params={"status": ["registered", "defined"], "user": "anna"},
        headers={"If-None-Match": answer.headers["etag"]},
    )
    assert (same.status_code, same.content) == (304, b"")


def test_only_operators_read_the_audit(world: World, door: httpx2.Client) -> None:
    bea = token(world, "bea")
    answer = door.get("/v1/audit", headers=bea)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_operator")
    door.post("/v1/tokens", headers={**bea, "X-Request-Id": "mine-1"}, json={"name": "script"})
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
    [entry] = door.get("/v1/audit", headers=token(world, "olga"), params={"user": "bea"}).json()
    assert (entry["operation"], entry["request_id"]) == ("token.create", "mine-1")
    assert entry["address"].startswith("unix:")


def test_secrets_are_kept_nowhere(world: World, door: httpx2.Client) -> None:
    """`only a hash is stored`: a repeated request does not show the token again."""
    keyed = {"Idempotency-Key": "once"}
    made = door.post("/v1/tokens", headers=keyed, json={"name": "laptop"}).json()
    again = door.post("/v1/tokens", headers=keyed, json={"name": "laptop"})
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    with world.engine.begin() as tx:
        kept = [
            str(row)
            for table in ("jedi_requests", "jedi_audit", "jedi_tokens")
            for row in tx.execute(text(f"SELECT * FROM {table}"))
        ]
    assert len(kept) == 3 and made["token"] not in "".join(kept)


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800"])
def test_texts_that_cannot_be_stored_are_named(door: httpx2.Client, bad: str) -> None:
    body = json.dumps({"jedi_task_ids": [1], "comment": bad})
    answer = door.post("/v1/tasks/kill", content=body)
    [problem] = answer.json()["facts"]["problems"]
    assert (answer.status_code, problem["path"]) == (422, "comment")
    asked = door.get("/v1/tasks?name=%00")
    assert asked.status_code == 422


def test_jobs_are_answered_one_by_one(world: World, door: httpx2.Client) -> None:
    """`answer per id what was done and what was refused, with code and sentence`."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4)
        tx.execute(text("UPDATE jedi_tasks SET username = 'anna'"))
        tx.execute(text("UPDATE jedi_jobs SET username = 'anna'"))
    one, two, three, four = made.jobs
    anna = token(world, "anna")
    asked = {"panda_ids": [three, 999, one, three]}
    tried = door.post("/v1/jobs/cancel", headers=anna, json={**asked, "dry_run": True}).json()
    assert [(a["panda_id"], a["accepted"], a["error"]) for a in tried] == [
        (three, True, None),
        (999, False, "not_found"),
        (one, True, None),
    ]
    assert tried[0]["job"]["status"] == "cancelled"
    assert status(world) == {
        one: "activated",
        two: "activated",
        three: "activated",
        four: "activated",
    }
    done = door.post("/v1/jobs/cancel", headers=anna, json=asked).json()
    assert [(a["accepted"], a["error"]) for a in done] == [
        (a["accepted"], a["error"]) for a in tried
    ]
    assert status(world) == {
        one: "cancelled",
        two: "activated",
        three: "cancelled",
        four: "activated",
    }
    for verb in ("hold", "cancel", "purge", "release"):
        answers = door.post(
            f"/v1/jobs/{verb}", headers=token(world, "bea"), json={"panda_ids": [two, one]}
        ).json()
        assert [a["error"] for a in answers] == ["forbidden"] * 2, verb
    held = door.post("/v1/jobs/hold", headers=anna, json={"panda_ids": made.jobs}).json()
    assert [a["error"] for a in held] == ["wrong_status", None, "wrong_status", None]


def status(world: World) -> dict[int, str]:
    with world.engine.begin() as tx:
        found = text(
            "SELECT pandaid, status FROM jedi_jobs UNION ALL "
            "SELECT pandaid, status FROM jedi_jobs_archived"
        )
        return dict(tuple(row) for row in tx.execute(found))


def test_a_dry_run_says_what_would_happen(world: World, door: httpx2.Client) -> None:
    """With the same checks, and neither a command, an entry of the audit nor a used key."""
    [task] = put(world, good())
    anna = {**token(world, "anna"), "Idempotency-Key": "k"}
    asked = {"jedi_task_ids": [task, 999], "dry_run": True}
    tried = door.post("/v1/tasks/kill", headers=anna, json=asked).json()
    assert [(a["accepted"], a["sentence"], a["command_id"]) for a in tried] == [
        (True, "kill is possible.", None),
        (False, "There is no task 999.", None),
    ]
    with world.engine.begin() as tx:
        for table in ("jedi_commands", "jedi_audit", "jedi_requests"):
            assert tx.scalar(text(f"SELECT count(*) FROM {table}")) == 0
    done = door.post("/v1/tasks/kill", headers=anna, json={"jedi_task_ids": [task, 999]}).json()
    assert [a["accepted"] for a in done] == [True, False] and done[0]["command_id"]
    wrong = door.post("/v1/tasks/retry", headers=anna, json=asked).json()
    assert [a["error"] for a in wrong] == ["wrong_status", "not_found"]


def test_operators_handle_tokens_of_others(world: World, door: httpx2.Client) -> None:
    """Operators make a token for a service account, list and revoke those of others, with an entry
    in the audit; others do not, nor does an operator's token of a smaller scope."""
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
    olga, bea, small = (token(world, *one) for one in (("olga",), ("bea",), ("olga", "submit")))
    asked = {"name": "nightly", "days": 1, "scope": "submit", "user": "robot"}
    made = door.post("/v1/tokens", headers=olga, json=asked).json()
    robot = {"Authorization": f"Bearer {made['token']}"}
    me = door.get("/v1/me", headers=robot).json()
    assert (me["user_name"], me["role"], me["scope"]) == ("robot", "user", "submit")
    [listed] = door.get("/v1/tokens", headers=olga, params={"user": "robot"}).json()
    assert (listed["user_name"], listed["name"]) == ("robot", "nightly")
    everybody = door.get("/v1/tokens", headers=olga, params={"everybody": True}).json()
    assert sorted(one["user_name"] for one in everybody) == ["bea", "olga", "olga", "robot"]
    place = f"/v1/tokens/{listed['token_id']}"
    for headers, code in ((bea, "not_operator"), (small, "scope_too_small")):
        answers = [
            door.post("/v1/tokens", headers=headers, json={**asked, "scope": "read"}),
            door.get("/v1/tokens", headers=headers, params={"user": "robot"}),
            door.get("/v1/tokens", headers=headers, params={"everybody": True}),
            door.request("DELETE", place, headers=headers, json={"user": "robot"}),
        ]
        assert [(one.status_code, one.json()["code"]) for one in answers] == [(403, code)] * 4
    assert door.delete(place, headers=olga).json()["code"] == "not_found"  # it is not her own
    assert door.request("DELETE", place, headers=olga, json={"user": "robot"}).status_code == 200
    assert door.get("/v1/me", headers=robot).json()["code"] == "bad_token"
    audit = door.get("/v1/audit", headers=olga, params={"user": "olga"}).json()
    assert [(one["operation"], one["subject"], one["arguments"]["user"]) for one in audit] == [
        ("token.revoke", f"token {listed['token_id']}", "robot"),
        ("token.create", "user robot", "robot"),
    ]


def test_pages_of_other_origins_get_nothing(door: httpx2.Client) -> None:
    """CORS is off: no answer lets a browser give it to a page from elsewhere."""
    origin = {"Origin": "https://evil.example.org"}
    wish = {
        **origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    answers = [
        door.get("/v1/me", headers=origin),
        door.get("/health", headers=origin),
        door.options("/v1/tasks/kill", headers=wish),
        door.get("/v1/none", headers=origin),
        door.get("/v1/me", headers={**origin, "Authorization": "Bearer x"}),
    ]
    assert [one.status_code for one in answers] == [200, 200, 405, 404, 401]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]
