"""Requests that are no UTF-8, too deep, too large or ambiguous: each gets a refusal that names the
mistake, none a failure of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.listening import Listening, listening
from support.task_rows import good, put

from jedi.api.bodies import DEPTH_MAX

DEPTHS = (DEPTH_MAX + 1, 300, 900, 100_000)


@pytest.fixture(scope="module")
def service(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listening]:
    with listening(server, template, tmp_path_factory.mktemp("home")) as found:
        assert put(found.world, good()) == [1]
        yield found


@dataclass(frozen=True)
class Bad:
    """A request, and the statuses that may answer it; `rule`: words of the first problem."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    statuses: tuple[int, ...] = (422,)
    rule: str = ""
    pilot: bool = False


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


def kill(inside: bytes) -> Bad:
    return Bad("POST", "/v1/tasks/kill", b'{"jedi_task_ids":[1],' + inside + b"}")


def task(text: str, format: str, statuses: tuple[int, ...] = (422,)) -> list[Bad]:
    one = {"text": text, "format": format}
    asked = {"submit": {"texts": [one]}, "plan": {"text": one}, "needs": {"texts": [one]}}
    paths = {"submit": "/v1/tasks", "plan": "/v1/tasks/plan", "needs": "/v1/tasks/needs"}
    return [
        Bad(
            "POST",
            paths[name],
            json.dumps(body).encode(),
            statuses=(200, 422) if name == "needs" else statuses,
        )
        for name, body in asked.items()
    ]


UTF8 = {
    "body": Bad(
        "POST",
        "/v1/tasks/kill",
        b'{"jedi_task_ids":[1],"comment":"\xff"}',
        rule="is no JSON ('utf-8' codec",
    ),
    "cut body": Bad(
        "POST",
        "/v1/tasks/kill",
        b'{"jedi_task_ids":[1],"comment":"\xe2\x82"}',
        rule="is no JSON ('utf-8' codec",
    ),
    "path": Bad("PUT", "/v1/datasets/%ff", b"{}", rule="is no UTF-8"),
    "surrogate in the path": Bad("PUT", "/v1/datasets/%ed%a0%80", b"{}", rule="is no UTF-8"),
    "overlong": Bad("GET", "/v1/sites/%c0%af", rule="is no UTF-8"),
    "query": Bad("GET", "/v1/tasks?user=%ff", rule="is no UTF-8"),
    "name in the query": Bad("GET", "/v1/tasks?%ff=1", rule="is no UTF-8"),
    "key": Bad(
        "POST",
        "/v1/tasks/kill",
        b'{"jedi_task_ids":[1]}',
        {"Idempotency-Key": b"\xff"},
        rule="printable characters",
    ),
    "request id": Bad("GET", "/v1/me", None, {"X-Request-Id": b"\xff\xfe"}, (200,)),
    "version": Bad("GET", "/v1/tasks/watch", None, {"Last-Event-ID": b"\xff"}),
    "tag": Bad("GET", "/v1/me", None, {"If-None-Match": b"\xff"}, (200,)),
    "token": Bad("GET", "/v1/me", None, {"Authorization": b"Bearer \xff\xfe"}, (401,)),
    "signed token": Bad("GET", "/v1/me", None, {"Authorization": b"Bearer \xff.\xfe.\xfd"}, (401,)),
    "pilot's token": Bad(
        "POST", "/v1/pilot/report", b"{}", {"Authorization": b"Bearer \xff"}, (401,)
    ),
    "report": Bad(
        "POST", "/v1/pilot/report", b'{"reports":[{"\xff":1}]}', pilot=True, rule="is no JSON"
    ),
}

DEEP = {
    **{f"lists {depth}": kill(b'"comment":' + nested(depth).encode()) for depth in DEPTHS},
    **{
        f"objects {depth}": kill(b'"comment":' + b'{"a":' * depth + b"1" + b"}" * depth)
        for depth in DEPTHS
    },
    **{
        f"parameters {depth}": Bad(
            "POST",
            "/v1/tasks/incexec",
            b'{"jedi_task_ids":[1],"parameters":{"a":' + nested(depth).encode() + b"}}",
            rule="within each other" if depth < 500 else "",
        )
        for depth in DEPTHS
    },
    "open lists": Bad("POST", "/v1/tasks/kill", b"[" * 200_000),
    "pilots": Bad(
        "POST", "/v1/pilot/log", b'{"entries":' + nested(500).encode() + b"}", pilot=True
    ),
    **{
        f"{format} {depth} {number}": one
        for depth in (300, 900, 100_000)
        for format in ("json", "yaml")
        for number, one in enumerate(
            task(nested(depth), format) + task(f'{{"taskName": {nested(depth)}}}', format)
        )
    },
    **{
        f"snapshot {depth}": Bad(
            "POST",
            "/v1/tasks/plan",
            json.dumps({"text": {"text": "taskName: x"}, "snapshot": nested(depth)}).encode(),
        )
        for depth in (900, 100_000)
    },
    "settings": Bad(
        "POST",
        "/v1/tasks/incexec",
        json.dumps({"jedi_task_ids": [1], "settings": [f"a={nested(1_000)}"]}).encode(),
    ),
    "sites": Bad("POST", "/v1/sites/import", json.dumps({"text": nested(1_000)}).encode()),
    "queues": Bad("POST", "/v1/queues/import", json.dumps({"text": nested(1_000)}).encode()),
}

LONG = b"9" * 5_000
NUMBERS = {
    "NaN": Bad("POST", "/v1/tokens", b'{"days":NaN}', rule="NaN is no number"),
    "infinity": Bad("POST", "/v1/tokens", b'{"days":-Infinity}', rule="-Infinity is no number"),
    "overflow": Bad("POST", "/v1/tokens", b'{"days":1e999}', rule="1e999 is too large"),
    "text": Bad("POST", "/v1/tokens", b'{"days":"nan"}'),
    "truth": Bad("POST", "/v1/tokens", b'{"days":true}'),
    "float for id": Bad("POST", "/v1/tasks/kill", b'{"jedi_task_ids":[1.5]}'),
    "truth for id": Bad("POST", "/v1/tasks/kill", b'{"jedi_task_ids":[true]}'),
    "text for id": Bad("POST", "/v1/tasks/kill", b'{"jedi_task_ids":["1"]}'),
    "beyond bigint": Bad("POST", "/v1/tasks/kill", b'{"jedi_task_ids":[9223372036854775808]}'),
    "digits": kill(b'"comment":' + LONG),
    "priority": Bad(
        "PUT",
        "/v1/tasks/1/priority",
        b'{"priority":1' + b"0" * 30 + b"}",
        rule="you may give priorities from",
    ),
    "seed": Bad(
        "POST",
        "/v1/tasks/plan",
        json.dumps({"text": {"text": "taskName: x"}, "seed": -(10**30)}).encode(),
    ),
    "knob": Bad("PUT", "/v1/config/agent.poll_s", b'{"value":1e999}'),
    "big knob": Bad(
        "PUT", "/v1/config/jobgen.batch", b'{"value":1' + b"0" * 400 + b"}", statuses=(404, 422)
    ),
    "query": Bad("GET", "/v1/audit?before=1" + "0" * 30),
    "limit": Bad("GET", f"/v1/tasks?limit={LONG.decode()}"),
    "id": Bad("GET", f"/v1/tasks/{LONG.decode()}"),
    "id not a number": Bad("GET", "/v1/tasks/nan"),
    "time": Bad(
        "POST",
        "/v1/pilot/report",
        b'{"reports":[{"pandaid":1,"lock_seq":1,"status":"failed","ended_at":0}]}',
        pilot=True,
        rule="a time is a text such as",
    ),
    "beats": Bad(
        "POST",
        "/v1/pilot/heartbeat",
        b'{"beats":[{"pandaid":1,"lock_seq":1,"measures":{"cpu_s":1e999}}]}',
        pilot=True,
    ),
}

TWICE = {
    "names": Bad(
        "POST",
        "/v1/tasks/kill",
        b'{"jedi_task_ids":[1],"jedi_task_ids":[2]}',
        rule="'jedi_task_ids' occurs twice",
    ),
    "names within": Bad(
        "POST",
        "/v1/tasks/incexec",
        b'{"jedi_task_ids":[1],"parameters":{"a":1,"\\u0061":2}}',
        rule="'a' occurs twice",
    ),
    "pilots": Bad(
        "POST",
        "/v1/pilot/report",
        b'{"reports":[],"reports":[]}',
        pilot=True,
        rule="'reports' occurs twice",
    ),
    "many names": Bad(
        "POST",
        "/v1/tasks/kill",
        b"{" + b",".join(b'"%d":1' % n for n in range(90_000)) + b',"0":1}',
        rule="'0' occurs twice",
    ),
    "many names of a task": Bad(
        "POST",
        "/v1/tasks/needs",
        json.dumps(
            {
                "texts": [
                    {
                        "text": "{" + ",".join(f'"{n}":1' for n in (*range(60_000), 59_999)) + "}",
                        "format": "json",
                    }
                ]
            }
        ).encode(),
        statuses=(200,),
    ),
    "query": Bad("GET", "/v1/tasks?limit=1&limit=2", rule="is given several times"),
    "path and body": Bad(
        "PUT",
        "/v1/tasks/1/priority",
        b'{"jedi_task_id":2,"priority":1}',
        rule="stands in the path already",
    ),
}

NUL = {
    "path": Bad("PUT", "/v1/datasets/a%00b", b"{}"),
    "query": Bad("GET", "/v1/tasks?name=a%00"),
    "list in the query": Bad("GET", "/v1/tasks?where=user%3D%00"),
    "body": kill(b'"comment":"\\u0000"'),
    "name": kill(b'"\\u0000":1'),
    "half a pair": kill(b'"comment":"\\ud800"'),
    "sandbox of pilots": Bad("GET", "/v1/sandbox/%00", statuses=(404,), pilot=True),
    "settings": Bad(
        "POST",
        "/v1/tasks/incexec",
        json.dumps({"jedi_task_ids": [1], "settings": ['taskName="a\\0b"']}).encode(),
    ),
    "sites": Bad("POST", "/v1/sites/import", json.dumps({"text": '- {site: "a\\0"}'}).encode()),
    **{f"yaml {number}": one for number, one in enumerate(task('taskName: "a\\0"', "yaml"))},
    **{
        f"json {number}": one for number, one in enumerate(task('{"taskName": "a\\u0000"}', "json"))
    },
}

ALL = {
    f"{kind}: {name}": one
    for kind, group in (
        ("UTF-8", UTF8),
        ("deep", DEEP),
        ("numbers", NUMBERS),
        ("twice", TWICE),
        ("NUL", NUL),
    )
    for name, one in group.items()
}


@pytest.mark.parametrize("name", ALL)
def test_bad_input_is_refused_by_name(service: Listening, name: str) -> None:
    """`malformed UTF-8, deep JSON`: 422 with the first mistake, problem+json; never a 500."""
    bad = ALL[name]
    headers = {**(service.pilot if bad.pilot else service.operator), **bad.headers}
    with service.client() as client:
        answer = client.request(bad.method, bad.path, headers=headers, content=bad.body)
    assert answer.status_code in bad.statuses, answer.text[:500]
    if answer.status_code == 200:
        return
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert len(answer.content) < 10_000
    if answer.status_code == 422:
        assert said["code"] == "bad_input"
        assert bad.rule in said["facts"]["problems"][0]["rule"]


@pytest.mark.parametrize(
    ("path", "body", "begin"),
    [
        ("/v1/tasks/abc", None, "jedi_task_id: 'abc': must be a whole number. Write digits alone."),
        ("/v1/tasks?limit=-1", None, "limit: '-1': must be at least 1. Correct the value."),
        ("/v1/tasks/kill", b'{"jedi_task_ids": [1], "bogus": 7}', "bogus: 7: no such name here."),
        ("/v1/tasks/kill", b"[", "body: '[': is no JSON"),
        ("/v1/tasks/kill", b"[1]", "body: '1 values': must be a mapping of keys to values."),
    ],
)
def test_a_mistake_is_named_with_its_place_and_value(
    service: Listening, path: str, body: bytes | None, begin: str
) -> None:
    """The value as the caller wrote it."""
    with service.client(service.operator) as client:
        answer = client.request("POST" if body else "GET", path, content=body)
    assert answer.json()["sentence"].startswith(begin)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/tasks/kill", "POST"),
        ("PUT", "/v1/retry-rules/test", "GET"),
        ("OPTIONS", "/v1/config/agent.poll_s", "DELETE, GET, PUT"),
        ("DELETE", "/v1/me", "GET"),
        ("PATCH", "/v1/tasks", "GET, POST"),
        ("GET", "/v1/pilot/report", "POST"),
    ],
)
def test_unknown_methods_get_the_known_ones(
    service: Listening, method: str, path: str, allowed: str
) -> None:
    """RFC 9110: 405 has the header Allow with all methods of the path. A word such as kill is no id
    of a task."""
    with service.client(service.operator) as client:
        answer = client.request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (405, allowed)
    assert answer.json()["code"] == "http_405"


def test_a_long_request_of_a_known_caller_gets_its_refusal(service: Listening) -> None:
    """10 MB where 1 MB is taken: 413, and the connection is not reset."""
    with service.client(service.operator) as client:
        answer = client.post("/v1/tasks/kill", content=b" " * 10_000_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "http_413")


def test_nothing_failed(service: Listening) -> None:
    """None of the requests above is in the log as a failure of the service."""
    assert not [line for line in service.log if "request failed" in line]


def test_bytes_that_are_no_http_end_the_connection(service: Listening) -> None:
    """Bytes in the request line are no percent codes: 400, and nobody else notices."""
    for line in (b"GET /v1/sites/\xff HTTP/1.1", b"\x00\x01\x02", b"\xff" * 100):
        with service.connected() as one:
            one.sendall(line + b"\r\nHost: x\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 400")
    with service.client() as client:
        assert client.get("/health").status_code == 200
