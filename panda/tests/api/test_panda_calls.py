"""Calls of PanDA's clients over HTTP: envelopes, refusals, uploads, and requests that are wrong in
every way."""

# Raw UPDATEs: a task that ended, without agents.

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from jedi_panda.api.client_routes import CALLS
from sqlalchemy import text
from support.listening import Listening, listening
from support.prun_tasks import NO_BUILD, UUID, case_a
from support.task_rows import good, put

from jedi.service.users.tokens import as_jwt, bare_token
from jedi.taskbuffer.users import access, users

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def service(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listening]:
    with listening(server, template, tmp_path_factory.mktemp("home"), prun_cache_mb=1) as found:
        yield found


def known(service: Listening, user: str) -> dict[str, str]:
    """Headers of a user, as panda-client sends them."""
    with service.world.engine.begin() as tx:
        users.PUT_USER.run(tx, user=user, role=None, gridpref=None, cap=None)
        token = access.put_user_token(tx, user, None, "all", 60_000.0)
    return {"Authorization": f"Bearer {as_jwt(token, user)}", "Origin": "local"}


@pytest.fixture(scope="module")
def me(service: Listening) -> Iterator[httpx2.Client]:
    with service.client(known(service, "me")) as client:
        yield client


@pytest.fixture(scope="module")
def anna(service: Listening) -> Iterator[httpx2.Client]:
    """The owner of tasks that `put` makes."""
    with service.client(known(service, "anna")) as client:
        yield client


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as found:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
            found.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def upload(client: httpx2.Client, name: str, data: bytes) -> dict[str, Any]:
    answer = client.post("/api/v1/file_server/upload_cache_file", files={"file": (name, data)})
    assert answer.status_code == 200
    return dict(answer.json())


def post(client: httpx2.Client, path: str, **given: Any) -> dict[str, Any]:
    answer = client.post(f"/api/v1/{path}", json=given)
    assert (answer.status_code, [*answer.json()]) == (200, ["success", "message", "data"])
    return dict(answer.json())


def get(client: httpx2.Client, path: str, **given: Any) -> dict[str, Any]:
    answer = client.get(f"/api/v1/{path}", params=given)
    assert (answer.status_code, [*answer.json()]) == (200, ["success", "message", "data"])
    return dict(answer.json())


def test_a_task_from_upload_to_list(me: httpx2.Client, service: Listening) -> None:
    data = archive(("run.sh", b"echo hello"))
    assert upload(me, NO_BUILD, data)["success"]
    said = post(me, "task/submit", task_parameters=case_a(), parent_tid=None)
    number = int(re.search(r"jediTaskID=(\d+)", said["message"])[1])  # type: ignore[index]
    assert (said["success"], said["data"]) == (True, number)
    listed = get(
        me,
        "task/get_tasks_detailed_info_since",
        n_tasks=10,
        filters=json.dumps({"reqID": str(number)}),
    )["data"]
    assert [(one["jediTaskID"], one["taskName"], one["userName"]) for one in listed] == [
        (number, "user.me.t1/", "me")
    ]
    assert listed[0]["superStatus"] == "registered"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+", listed[0]["creationDate"]["__datetime__"])
    assert get(me, "task/get_status", task_id=number)["data"] == "registered"
    parameters = get(me, "task/get_task_parameters", task_id=number)["data"]
    assert parameters["sandbox"] == ["jedi-run", NO_BUILD]
    with service.world.engine.begin() as tx:
        packed = tx.scalar(
            text(
                "SELECT data FROM jedi_sandboxes JOIN jedi_taskparams ON sha256 = sandbox_sha256 "
                "WHERE jeditaskid = :id"
            ),
            {"id": number},
        )
    with tarfile.open(fileobj=io.BytesIO(packed)) as found:
        inner = found.extractfile(NO_BUILD)
        assert sorted(found.getnames()) == sorted(["jedi-run", NO_BUILD])
        assert inner is not None
        assert inner.read() == data


def test_commands_and_their_refusals(anna: httpx2.Client, service: Listening) -> None:
    """data must be 0 or true without options, 3 with options; a refusal has the
    sentence as its message."""
    [mine] = put(service.world, good())
    assert post(anna, "task/pause", task_id=mine)["success"]
    assert post(anna, "task/kill", task_id=mine)["data"] == "kill is asked for, after pause."
    refused = post(anna, "task/retry", task_id=mine)
    assert (refused["success"], refused["data"]) == (False, 4)
    assert "can't be retried" in refused["message"]
    unknown = post(anna, "task/kill", task_id=99999999)
    assert unknown == {"success": False, "message": "There is no task 99999999.", "data": 2}
    with service.client(known(service, "bert")) as bert:
        strange = post(bert, "task/finish", task_id=mine, soft=True)
    assert (strange["success"], strange["data"]) == (False, 3)
    assert "only its owner and operators may finish it" in strange["message"]
    with service.world.engine.begin() as tx:
        for status in ("defined", "ready", "running", "prepared", "failed"):
            tx.execute(
                text("UPDATE jedi_tasks SET status = :status WHERE jeditaskid = :id"),
                {"id": mine, "status": status},
            )
        tx.execute(text("DELETE FROM jedi_commands"))
    assert post(anna, "task/retry", task_id=mine, new_parameters={})["data"] == 0
    with service.world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_commands"))
    assert post(anna, "task/retry", task_id=mine, new_parameters={"nFilesPerJob": 5})["data"] == 3
    with service.world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_commands"))
    assert post(anna, "task/increase_attempts", task_id=mine)["data"] == 0
    with service.world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_commands"))
    wrong = post(anna, "task/retry", task_id=mine, new_parameters={"vo": "other"})
    assert (wrong["success"], "vo" in wrong["message"]) == (False, True)


def test_questions_about_a_task(anna: httpx2.Client, service: Listening) -> None:
    [number] = put(service.world, good())
    details = get(
        anna, "task/get_details", task_id=number, include_parameters="True", include_status="True"
    )["data"]
    assert (details["jediTaskID"], details["taskParams"]["taskName"]) == (number, "t")
    assert get(anna, "task/get_job_ids", task_id=number)["data"] == []
    assert (
        get(anna, "task/get_job_descriptions", task_id=number, unsuccessful_only="False")["data"]
        == []
    )
    assert get(
        anna, "task/get_datasets_and_files", task_id=number, dataset_types=["input", "pseudo_input"]
    )["success"]
    modified = get(
        anna,
        "task/get_tasks_modified_since",
        since="2020-01-01 00:00:00",
        dn="None",
        full="True",
        min_task_id="None",
        prod_source_label="user",
    )
    assert str(number) in modified["data"]
    assert post(anna, "job/get_description", job_ids=[10**12])["data"] == [None]
    assert get(anna, "job/get_metadata_for_analysis_jobs", task_id=number)["data"] == []
    assert get(anna, "creds/get_user_secrets")["data"] == "{}"
    assert get(anna, "system/get_attributes")["data"]["environment"]["REMOTE_USER"] == "anna"
    assert not get(anna, "task/get_status", task_id=99999999)["success"]


def test_lists_are_the_callers(me: httpx2.Client, service: Listening) -> None:
    """The real one always restricts to the caller; a filter names another user."""
    [others] = put(service.world, good())
    path = "task/get_tasks_detailed_info_since"
    mine = get(me, path, filters=json.dumps({"jediTaskID": str(others)}))["data"]
    owner = get(me, "task/get_detailed_info", task_id=others)["data"]["userName"]
    theirs = get(me, path, filters=json.dumps({"jediTaskID": str(others), "userName": owner}))
    assert (mine, [one["jediTaskID"] for one in theirs["data"]]) == ([], [others])
    active = {"superStatus": "registered", "userName": owner}
    assert others in [
        one["jediTaskID"] for one in get(me, path, filters=json.dumps(active))["data"]
    ]
    for filters in ('{"speed": "1"}', "[1]", "{", '{"superStatus": "sleepy"}'):
        assert not get(me, path, filters=filters)["success"], filters
    assert not get(me, path, since="yesterday")["success"]


def test_uploads(me: httpx2.Client, service: Listening) -> None:
    data = gzip.compress(b"content")
    size, checksum = len(data), struct.unpack("<I", data[-8:-4])[0]
    assert checksum == zlib.crc32(b"content")
    path = "file_server/validate_cache_file"
    assert not post(me, path, file_size=size, checksum=checksum)["message"].startswith("FOUND:")
    name = f"sources.{UUID[::-1]}.tar.gz"
    name = f"sources.{UUID.replace('4', '5')}.tar.gz"
    assert upload(me, name, data)["data"] == name
    assert upload(me, name, data)["success"]  # the same content again
    found = post(me, path, file_size=size, checksum=checksum)["message"]
    assert found == f"FOUND:127.0.0.1:{name}"
    taken = upload(me, name, b"other")
    assert (taken["success"], "another content" in taken["message"]) == (False, True)
    assert upload(me, f"{name}.__ow__", b"other")["data"] == name
    with service.client() as stranger:  # as a payload, which has no token
        assert stranger.get(f"/cache/{name}").content == b"other"
        assert stranger.get("/cache/none").status_code == 404
    with service.client(known(service, "other")) as other:
        assert not post(other, path, file_size=5, checksum=0)["message"].startswith("FOUND:")
        assert not upload(other, f"{name}.__ow__", b"mine now")["success"]
    assert "has no UUID" in upload(me, "jobO.tar.gz", b"x")["message"]
    assert "no '/'" in upload(me, f"..{UUID}", b"x")["message"]
    full = upload(me, f"jobO.{UUID.replace('f', 'a')}.tar.gz", b"x" * 2**20)
    assert (full["success"], "knob prun.cache_mb" in full["message"]) == (False, True)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (archive(("../x", b"1")), "lies outside the job's directory"),
        (archive(("/etc/x", b"1")), "lies outside the job's directory"),
        (archive(("link", b""), kind=tarfile.SYMTYPE), "neither a plain file nor a directory"),
        (archive(("null", b""), kind=tarfile.CHRTYPE), "neither a plain file nor a directory"),
        (gzip.compress(bytes(130 * 2**20), 1), "has more than 100 MB"),
        (b"no archive", "is no .tar.gz that can be read"),
    ],
    ids=["parent", "absolute", "link", "device", "bomb", "text"],
)
def test_hostile_archives_are_refused_when_used(
    service: Listening, data: bytes, rule: str, request: pytest.FixtureRequest
) -> None:
    """Upload of archives with `../`, links, devices, bombs: refused when used, named."""
    user = f"u{abs(hash(request.node.name)) % 10**8}"
    with service.client(known(service, user)) as client:
        name = f"{NO_BUILD}.__ow__" if user == "me" else f"jobO.{UUID[:-8]}{user[1:].zfill(8)}.gz"
        assert upload(client, name, data)["success"]
        sent = json.loads(json.dumps(case_a(f"user.{user}.t")).replace(NO_BUILD, name))
        said = post(client, "task/submit", task_parameters=sent)
        assert not said["success"]
        assert rule in said["message"]
        assert name in said["message"]
        nobody = get(client, "task/get_tasks_detailed_info_since")
        assert nobody["data"] == []


def test_somebody_elses_upload_is_none(service: Listening, me: httpx2.Client) -> None:
    with service.client(known(service, "thief")) as thief:
        said = post(thief, "task/submit", task_parameters=case_a("user.thief.t"))
    assert (said["success"], "is no upload of yours" in said["message"]) == (False, True)


def test_all_mistakes_of_a_task_at_once(me: httpx2.Client) -> None:
    sent = case_a("user.me.bad") | {"nFilez": 5, "maxAttempt": "many", "ramCountUnit": "furlong"}
    said = post(me, "task/submit", task_parameters=sent)
    assert not said["success"]
    assert all(word in said["message"] for word in ("nFilez", "maxAttempt", "ramUnit"))


def test_a_wrong_token(service: Listening) -> None:
    """a bad token gives 403; clients take any status but 200 for a failure."""
    with service.client({"Authorization": "Bearer wrong"}) as stranger:
        assert stranger.post("/api/v1/task/kill", json={"task_id": 1}).status_code == 403
        assert stranger.get("/api/v1/system/is_alive").status_code == 403
    token = "x" * 43
    assert bare_token(as_jwt(token, "me")) == token
    with service.client({"Authorization": f"Bearer {as_jwt(token, 'olga')}"}) as liar:
        assert liar.get("/api/v1/system/is_alive").status_code == 403


def test_the_provider_as_clients_look_for_it(service: Listening) -> None:
    with service.client() as stranger:
        found = stranger.get("/auth/local_auth_config.json").json()
    assert (found["vo"], found["client_id"]) == ("local", None)
    assert found["oidc_config_url"].endswith("/.well-known/openid-configuration")


def test_calls_that_jedi_refuses(me: httpx2.Client) -> None:
    assert "submit a task with prun" in post(me, "job/submit", jobs="[]")["message"]
    answer = me.post("/server/panda/put_workflow_request", content="data=1", headers=FORM)
    assert answer.json()[0] is False
    assert "parentTaskName" in answer.json()[1]


_ODD: tuple[Any, ...] = (None, "", "x", -1, 10**30, 1.5, [[]], {"a": 1}, "\0", "9" * 5000)


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.path)
def test_no_request_makes_the_service_fail(call: Any, me: httpx2.Client) -> None:
    """Every call fuzzed: keys missing, of wrong type, huge, in the wrong encoding: never 500."""
    path = f"/api/v1/{call.path}"
    names = [*call.arguments.model_fields]
    requests: list[dict[str, Any]] = [{}]
    for name in [*names, "unknown"]:
        for odd in _ODD:
            requests.append({**dict.fromkeys(names, 1), name: odd})
    raw = (
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\x1f\x8b" + b"x" * 20,
        b"a=1&b=2",
        gzip.compress(b'{"task_id": 1}'),
        gzip.compress(bytes(20 * 2**20)),
    )
    if call.method == "GET":
        sent = [
            me.get(path, params={key: str(value) for key, value in given.items()})
            for given in requests
        ]
        sent.append(me.get(f"{path}?task_id=%ff"))
    else:
        sent = [me.post(path, json=given) for given in requests]
        sent += [me.post(path, content=body) for body in raw]
    wrong = [one.text for one in sent if one.status_code not in (200, 400, 422, 413, 429)]
    assert not wrong
    said = [one.json() for one in sent if one.status_code == 200]
    assert all(one["success"] or one["message"] for one in said)
