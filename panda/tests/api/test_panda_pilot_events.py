"""Ranges of events by the calls of PanDA's pilots: getEventRanges and updateEventRanges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.event_rows import BuiltJobSet, make_job_set, ranges_of
from support.panda_pilots import by_form, client_of

from jedi.agent.base import World

FINISHED, FAILED = 3, 7
"""A fatal range is stored as failed, without further attempts."""


@pytest.fixture
def client(world: World) -> TestClient:
    return client_of(world)


def job_set(world: World, ranges: int = 6) -> BuiltJobSet:
    with world.engine.begin() as tx:
        return make_job_set(tx, ranges)


def ranges(client: TestClient, made: BuiltJobSet, n: int) -> list[dict[str, Any]]:
    fields = {
        "pandaID": made.consumers[0],
        "jobsetID": made.jobset,
        "taskID": made.task,
        "nRanges": n,
    }
    answer = by_form(client, "getEventRanges", fields).json()
    assert answer["StatusCode"] == 0
    found: list[dict[str, Any]] = answer["eventRanges"]
    return found


def update(client: TestClient, entries: Any, version: int = 1) -> dict[str, Any]:
    fields = {"eventRanges": json.dumps(entries), "version": version}
    found: dict[str, Any] = by_form(client, "updateEventRanges", fields).json()
    return found


def range_codes(world: World, made: BuiltJobSet) -> list[int]:
    return [one[4] for one in ranges_of(world.engine, made.task)]


def test_ranges_until_there_are_no_more(client: TestClient, world: World) -> None:
    made = job_set(world)
    first = ranges(client, made, 4)
    assert len(first) == 4
    assert set(first[0]) == {"eventRangeID", "LFN", "GUID", "scope", "startEvent", "lastEvent"}
    assert (first[0]["LFN"], first[0]["GUID"], first[0]["scope"]) == (
        f"in.{made.jobset}",
        "guid-1",
        "test",
    )
    assert (first[0]["startEvent"], first[0]["lastEvent"]) == (0, 4)  # as the rows are made
    rest = ranges(client, made, 4)
    assert len({one["eventRangeID"] for one in first + rest}) == 6
    assert ranges(client, made, 4) == []


def test_results_in_a_zip_file(client: TestClient, world: World) -> None:
    made = job_set(world)
    got = ranges(client, made, 6)
    done = [{"eventRangeID": one["eventRangeID"], "eventStatus": "finished"} for one in got[:3]]
    zip_file = {
        "numEvents": 3,
        "objstoreID": "117",
        "lfn": "es.1.zip",
        "fsize": 30,
        "pathConvention": 1,
        "adler32": "0000000a",
    }
    bad = {
        "eventRangeID": got[3]["eventRangeID"],
        "eventStatus": "failed",
        "errorCode": 1220,
        "errorDiag": "segfault",
    }
    fatal = {"eventRangeID": got[4]["eventRangeID"], "eventStatus": "fatal"}
    entries = [{"zipFile": zip_file, "eventRanges": done}, {"eventRanges": [bad, fatal]}]
    good = {"StatusCode": 0, "Returns": [True] * 5, "Command": {}}
    assert update(client, entries) == good
    assert update(client, entries) == good  # a repeated one changes nothing
    found = range_codes(world, made)
    assert found.count(FINISHED) == 3
    assert found.count(FAILED) == 2


def test_results_one_by_one(client: TestClient, world: World) -> None:
    """Version 0 is a flat list."""
    made = job_set(world)
    got = ranges(client, made, 3)
    entries = [
        {"eventRangeID": got[0]["eventRangeID"], "eventStatus": "finished"},
        {"eventRangeID": got[1]["eventRangeID"], "eventStatus": "running"},
        {"eventRangeID": f"{made.task}-1-1-1-1", "eventStatus": "finished"},
    ]
    answer = update(client, entries, 0)
    assert answer["Returns"][:2] == [True, True]
    assert answer["Returns"][2] is False
    assert range_codes(world, made).count(FINISHED) == 1


def test_a_consumer_that_is_not_the_sites(client: TestClient, world: World) -> None:
    made = job_set(world)
    got = ranges(client, made, 2)
    other = client_of(world, "SITE_B")
    assert ranges(other, made, 2) == []
    done = [{"eventRangeID": got[0]["eventRangeID"], "eventStatus": "finished"}]
    answer = update(other, done, 0)
    assert answer["Returns"] == [False]
    assert answer["Command"] == {str(made.consumers[0]): "tobekilled"}
    assert FINISHED not in range_codes(world, made)


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ("no json", "eventRanges is no JSON"),
        ({"a": 1}, "eventRanges must be a list"),
        ([1], "object at place 0"),
        ([{"eventRanges": 1}], "eventRanges.0.eventRanges must be a list"),
        ([{"eventRangeID": "1-2-3", "eventStatus": "finished"}], "five numbers"),
        ([{"eventRangeID": "1-2-3-4-5", "eventStatus": "lost"}], "must be one of"),
        ([{"zipFile": {"lfn": "a"}, "eventRanges": []}], "zipFile.fsize is missing"),
    ],
)
def test_mistakes(client: TestClient, entries: Any, word: str) -> None:
    said = entries if isinstance(entries, str) else json.dumps(entries)
    answer = by_form(client, "updateEventRanges", {"eventRanges": said, "version": 1}).json()
    assert answer["StatusCode"] == 30
    assert word in answer["errorDialog"]


def test_mistakes_of_asks(client: TestClient) -> None:
    for fields, word in (
        ({}, "pandaID is missing"),
        ({"pandaID": "x"}, "pandaID must be a whole number"),
        ({"pandaID": 1, "nRanges": 0}, "nRanges must be at least 1"),
    ):
        answer = by_form(client, "getEventRanges", fields).json()
        assert answer["StatusCode"] == 30
        assert word in answer["errorDialog"]
