"""Calls of PanDA's pilots with everything wrong: recorded requests without a key, with values of
other kinds, huge, in other encodings, and no requests at all. No call fails with 500; each refusal
says what was wrong, and changes nothing."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from jedi_panda.api.pilot_bodies import BODY_MAX
from sqlalchemy import text
from starlette.testclient import TestClient
from support.event_rows import make_job_set
from support.job_rows import make_jobs
from support.panda_pilots import BEAT, END, GET_JOB, client_of, get_job

from jedi.agent.base import World
from jedi.server.app import create_app
from jedi.taskbuffer.db.engine import connect

pytestmark = pytest.mark.long

HOSTILE: tuple[Any, ...] = (
    None,
    "",
    "NULL",
    "x",
    "-1",
    -1,
    0,
    1.5,
    10**30,
    "9" * 5_000,
    1e308,
    True,
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "\0",
    "\ud800",
    "é" * 300,
    "../../etc/passwd",
    "'; DROP TABLE jedi_jobs; --",
    "A" * 100_000,
    "{",
    "[1",
    '{"a": NaN}',
    "nan",
    "inf",
    "1e999",
    "\u202e",
    "１７",
)
"""Values that some field may have."""

RANGES = json.dumps(
    [
        {
            "zipFile": {
                "numEvents": 1,
                "objstoreID": "1",
                "lfn": "es.zip",
                "fsize": 3,
                "adler32": "00000001",
                "pathConvention": 1,
            },
            "eventRanges": [{"eventRangeID": "1-2-3-4-5", "eventStatus": "finished"}],
        },
    ]
)
XML = json.dumps({"out": {"guid": "", "fsize": 3, "adler32": "00000001", "surl": "x"}})


@pytest.fixture
def client(world: World) -> TestClient:
    return client_of(world)


def recorded(world: World, client: TestClient) -> dict[str, dict[str, Any]]:
    """The fields of each call, of a job that the pilot has."""
    with world.engine.begin() as tx:
        make_jobs(tx, 1, files=0)
        consumer = make_job_set(tx, 2).consumers[0]
    job = get_job(client)
    update = {
        **BEAT,
        **END,
        "jobId": str(job["PandaID"]),
        "attemptNr": str(job["attemptNr"]),
        "state": "failed",
        "xml": XML,
        "jobMetrics": "workDirSize=12",
        "nEvents": "3",
        "pilotErrorCode": "1305",
        "stdout": "tail",
    }
    return {
        "getJob": {
            **GET_JOB,
            "taskID": "1",
            "harvester_id": "h",
            "worker_id": "1",
            "resourceType": "SCORE",
            "remaining_time": "600",
        },
        "updateJob": update,
        "getStatus": {"ids": str(job["PandaID"])},
        "updateWorkerPilotStatus": {
            "workerID": "1",
            "harvesterID": "h",
            "status": "started",
            "site": "SITE_A",
            "node_id": "n",
        },
        "getEventRanges": {"pandaID": consumer, "jobsetID": "1", "taskID": "1", "nRanges": "2"},
        "updateEventRanges": {"eventRanges": RANGES, "version": "1"},
    }


def mutants(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields with one of them missing or hostile; nested JSON likewise."""
    yield {}
    for name, said in fields.items():
        yield {key: value for key, value in fields.items() if key != name}
        for value in HOSTILE:
            yield {**fields, name: value}
        if isinstance(said, str) and said.startswith(("{", "[")):
            for inner in nested(json.loads(said)):
                yield {**fields, name: json.dumps(inner)}


def nested(value: Any) -> Iterator[Any]:
    """The value with one of its inner values missing or hostile."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {key: one for key, one in value.items() if key != name}
            yield from ({**value, name: one} for one in (*HOSTILE[:16], *nested(inner)))
            yield {str(HOSTILE[19]): inner, **value}
    elif isinstance(value, list):
        yield from ([one] for one in (*HOSTILE[:16], *(n for v in value for n in nested(v))))


def judge(answer: Any, of: Any) -> dict[str, Any]:
    """The answer, if it is one that a pilot understands."""
    assert answer.status_code in (200, 403, 413), (of, answer.status_code, answer.text)
    found: dict[str, Any] = answer.json()
    assert isinstance(found["StatusCode"], int), of
    if found["StatusCode"] not in (0, 20):
        assert len(found["errorDialog"]) > 10, of
        assert len(found["errorDialog"]) < 2_000, of
    return found


def rows(world: World) -> list[tuple[Any, ...]]:
    """All that calls could change."""
    found: list[tuple[Any, ...]] = []
    with world.engine.begin() as tx:
        for table in (
            "jedi_jobs",
            "jedi_job_files",
            "jedi_events",
            "jedi_event_zips",
            "jedi_jobs_statuslog",
        ):
            asked = text(f"SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM {table} t")
            found.append(tuple(tx.execute(asked).one()))
    return found


@pytest.mark.parametrize(
    "call",
    [
        "getJob",
        "updateJob",
        "getStatus",
        "updateWorkerPilotStatus",
        "getEventRanges",
        "updateEventRanges",
    ],
)
def test_recorded_requests_spoilt(client: TestClient, world: World, call: str) -> None:
    fields = recorded(world, client)[call]
    refused = 0
    before = rows(world)
    for number, mutant in enumerate(mutants(fields)):
        body = json.dumps(mutant).encode()
        kind = "application/json"
        if number % 3 == 1:
            body = gzip.compress(body, 1)
        elif number % 3 == 2:
            flat = {k: v if isinstance(v, str) else json.dumps(v) for k, v in mutant.items()}
            body = urlencode(flat, errors="replace").encode()
            kind = "application/x-www-form-urlencoded"
        answer = client.post(f"/server/panda/{call}", content=body, headers={"Content-Type": kind})
        found = judge(answer, mutant)
        if found["StatusCode"] == 0:
            before = rows(world)
        elif found["StatusCode"] == 30:
            refused += 1
            assert rows(world) == before, mutant
    assert refused or call == "updateWorkerPilotStatus"


BOMB = gzip.compress(b'{"siteName": "' + b"A" * (2 * BODY_MAX) + b'"}')
BODIES: tuple[bytes, ...] = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"17",
    b'"text"',
    b"\xff\xfe{\x00",
    b"{'siteName': 'SITE_A'}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"=&=&==",
    b"%ff%fe=%00",
    b"siteName=%ZZ",
    b"&".join(b"a%d=1" % n for n in range(5_000)),
    b'{"siteName": NaN}',
    BOMB,
    BOMB[:1_000],
    b"\x1f\x8b",
    b"\x1f\x8b\x08" + b"\0" * 50,
    zlib.compress(b"{}"),
    gzip.compress(gzip.compress(b"{}")),
    '{"siteName": "SITE_Ä"}'.encode("latin-1"),
    '{"siteName": "SITE_A"}'.encode("utf-16"),
    b"--x\r\nContent-Disposition: form-data\r\n\r\n1",
    json.dumps({f"k{n}": n for n in range(5_000)}).encode(),
)


@pytest.mark.parametrize("call", ["getJob", "updateJob", "getStatus", "getEventRanges"])
def test_bodies_that_are_none(client: TestClient, world: World, call: str) -> None:
    recorded(world, client)
    before = rows(world)
    for body in BODIES:
        for kind in ("application/json", "application/x-www-form-urlencoded", "", "x/y; charset=7"):
            answer = client.post(
                f"/server/panda/{call}", content=body, headers={"Content-Type": kind}
            )
            found = judge(answer, body[:50])
            assert found["StatusCode"] in (30, 40), (body[:50], found)
    assert rows(world) == before


def test_a_body_that_is_too_long(client: TestClient) -> None:
    answer = client.post("/server/panda/getJob", content=b"x" * (BODY_MAX + 1))
    assert answer.status_code == 413
    assert judge(answer, "long")["StatusCode"] == 30


def test_random_bytes(client: TestClient, world: World) -> None:
    """Recorded bodies with bytes flipped, cut and doubled."""
    calls = recorded(world, client)
    dice = random.Random(17)
    for number in range(400):
        call = dice.choice(sorted(calls))
        body = bytearray(
            json.dumps(calls[call]).encode() if number % 2 else urlencode(calls[call]).encode()
        )
        for _ in range(dice.randint(1, 5)):
            place = dice.randrange(len(body))
            match dice.randrange(3):
                case 0:
                    body[place] = dice.randrange(256)
                case 1:
                    del body[place : place + dice.randint(1, 20)]
                case _:
                    body[place:place] = body[place : place + dice.randint(1, 20)]
            body = body or bytearray(b"x")
        judge(client.post(f"/server/panda/{call}", content=bytes(body)), bytes(body))


def test_all_mistakes_at_once(client: TestClient) -> None:
    answer = client.post(
        "/server/panda/updateJob", json={"state": "odd", "attemptNr": "x", "pilotErrorCode": []}
    )
    said = answer.json()["errorDialog"]
    for word in ("jobId is missing", "state must be one of", "attemptNr", "pilotErrorCode"):
        assert word in said


def test_while_the_database_is_away(client: TestClient, world: World) -> None:
    """The pilot repeats an update whose answer is no JSON, and asks again for a job after JSON."""
    job = {"jobId": 1, "attemptNr": 1, "state": "running"}
    client.post("/server/panda/updateJob", json=job)
    world.engine.dispose()
    url = world.engine.url.set(host="127.0.0.1", port=1, query={})
    lost = client_of_lost(world, url)
    assert lost.post("/server/panda/updateJob", json=job).status_code == 503
    with pytest.raises(json.JSONDecodeError):
        lost.post("/server/panda/updateJob", json=job).json()
    answer = lost.post("/server/panda/getJob", json=GET_JOB)
    assert (answer.status_code, answer.json()["StatusCode"]) == (503, 10)


def client_of_lost(world: World, url: Any) -> TestClient:
    """A client of a service whose database does not answer."""
    engine = connect(url.render_as_string(hide_password=False))
    headers = {"Authorization": "Bearer any", "Accept": "application/json"}
    return TestClient(
        create_app(replace(world, engine=engine)), headers=headers, raise_server_exceptions=False
    )
