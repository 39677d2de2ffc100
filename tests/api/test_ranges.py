"""Ranges of files, by RFC 9110, 14: a malformed header is ignored, and a range that the file lacks
is refused in the form of all errors."""

from __future__ import annotations

import os

import pytest
from sqlalchemy import text
from support.adder import Pilot, adder
from support.service_process import over, served

from jedi.agent.base import World
from jedi.api.files import ranges_of
from jedi.host.home import Home

RANGES = [
    ("bytes=0-4", [(0, 4)]),
    ("bytes=5-", [(5, 9)]),
    ("bytes=5-99", [(5, 9)]),
    ("bytes=-3", [(7, 9)]),
    ("bytes=-99", [(0, 9)]),
    ("bytes = 0-0 , ,-1", [(0, 0), (9, 9)]),
    ("BYTES=9-9", [(9, 9)]),
    ("bytes=0-1,50-60", [(0, 1)]),
    ("bytes=10-", []),
    ("bytes=-0", []),
    ("bytes=10-12,20-", []),
    ("bytes=5-4", None),
    ("bytes=", None),
    ("bytes=-", None),
    ("bytes=a-b", None),
    ("bytes=0-1,x", None),
    ("bytes=1", None),
    ("bytes=+1-2", None),
    ("bytes=٣-", None),
    ("lines=0-4", None),
    ("bytes", None),
    ("", None),
]
"""Headers, and the ranges of a file of ten bytes."""


@pytest.mark.parametrize(("header", "expected"), RANGES)
def test_ranges_of_ten_bytes(header: str, expected: list[tuple[int, int]] | None) -> None:
    assert ranges_of(header, 10) == expected


def test_an_empty_file_has_no_range() -> None:
    assert [ranges_of(one, 0) for one in ("bytes=0-", "bytes=-5", "x")] == [[], [], None]


def test_ranges_over_the_wire(world: World) -> None:
    """`the outputs through the service, with ranges`: 206 with the bytes; 200 with all of them if
    the header is malformed; 416 as problem+json with the size if there are none."""
    pilot = Pilot(world)
    pilot.finish()
    adder(world).run_once()
    whole = f"made by {pilot.jobs[0].panda_id}".encode()
    with world.engine.begin() as tx:
        number = tx.scalar(text("SELECT fileid FROM jedi_job_files WHERE type = 'output'"))
    path = f"/v1/tasks/{pilot.made.task}/files/{number}/content"
    with served(world), over(Home(world.settings.home)) as client:
        for header, status, content in (
            (None, 200, whole),
            ("bytes=5-", 206, whole[5:]),
            ("bytes=-2", 206, whole[-2:]),
            ("bytes=2-4,900-", 206, whole[2:5]),
            ("bytes=5-4", 200, whole),
            ("bytes=a-", 200, whole),
            ("lines=0-4", 200, whole),
            ("", 200, whole),
        ):
            answer = client.get(path, headers={} if header is None else {"Range": header})
            assert (answer.status_code, answer.content) == (status, content), header
        beyond = client.get(path, headers={"Range": f"bytes={len(whole)}-"})
        assert beyond.headers["Content-Type"] == "application/problem+json"
        assert beyond.headers["Content-Range"] == f"bytes */{len(whole)}"
        assert (beyond.status_code, beyond.json()["code"]) == (416, "out_of_range")
        assert beyond.json()["facts"] == {"size": len(whole)}
        changed = {"Range": f"bytes={len(whole)}-", "If-Range": '"other"'}
        assert client.get(path, headers=changed).content == whole
        place = world.ddm.path(
            "SITE_A_DATADISK", pilot.dataset("output"), pilot.published("output")[0]
        )
        place.unlink()
        assert client.get(path).json()["code"] == "file_missing"
        os.mkfifo(place)
        assert client.get(path).json()["code"] == "file_missing"
        place.unlink()
        place.mkdir()
        assert client.get(path).json()["code"] == "file_missing"
