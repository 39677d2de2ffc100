"""Streams of changes (docs/decisions/watching.md): `Changes: every list and every object has an
opaque version; GET ...?watch&since=VERSION is a stream of server-sent events that resumes by
Last-Event-ID and says "list again" (410) when the version is too old.`"""

# Raw UPDATEs: counters and rows as agents change them, in transactions that the test holds open.

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from sqlalchemy import Connection, create_engine, event, text
from support.job_rows import make_jobs
from support.service_process import over, running
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.api import watching
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.service.tasks.watching import KEPT_S, LogBound, read_version
from jedi.taskbuffer.reports.changes import Mark
from jedi.taskbuffer.tasks.tasks import Move, move_tasks
from jedi.taskbuffer.users import access

WATCH = "/v1/tasks/watch"
PATIENCE_S = 20.0


@dataclass
class Seen:
    """An event: its version, and status and finished files by task."""

    version: str
    tasks: dict[int, tuple[str, int]]


class Stream:
    """A stream of a test, read line by line."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def blocks(self) -> Iterator[dict[str, str]]:
        """The fields of each block; comments under an empty name."""
        found: dict[str, str] = {}
        for line in self._lines:
            if not line:
                yield found
                found = {}
                continue
            name, _, value = line.partition(":")
            found[name] = value.strip()

    def next(self) -> Seen:
        """The next event with data."""
        for block in self.blocks():
            if "data" in block:
                assert block["event"] == "tasks"
                tasks = [one["task"] for one in json.loads(block["data"])]
                return Seen(
                    block["id"],
                    {
                        one["jedi_task_id"]: (one["status"], one["n_files_finished"])
                        for one in tasks
                    },
                )
        raise AssertionError("the stream has ended")

    def rest(self) -> list[dict[str, str]]:
        """All blocks until the stream ends."""
        return [*self.blocks()]


@contextmanager
def watch(world: World, headers: dict[str, str] | None = None, **query: Any) -> Iterator[Stream]:
    with (
        over(Home(world.settings.home)) as client,
        client.stream("GET", WATCH, params=query, headers=headers, timeout=PATIENCE_S) as answer,
    ):
        if answer.status_code != 200:
            answer.read()
        yield Stream(answer)


def move(tx: Connection, task: int, *path: str) -> None:
    for status in path:
        move_tasks(tx, [Move(task, None, status, "test", "test")], "test")


def finish_files(tx: Connection, task: int) -> None:
    tx.execute(
        text(
            "UPDATE jedi_datasets SET nfilesfinished = nfilesfinished + 1 "
            "WHERE jeditaskid = :task AND type = 'input' AND masterid IS NULL"
        ),
        {"task": task},
    )


@pytest.fixture
def task(world: World) -> int:
    """A running task of anna's with 2 jobs."""
    with world.engine.begin() as tx:
        task = make_jobs(tx, 2).task
        tx.execute(text("UPDATE jedi_tasks SET username = 'anna'"))
    return task


def test_status_and_progress_reach_watchers(world: World, service: None, task: int) -> None:
    with watch(world, jedi_task_ids=[task]) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        first = stream.next()
        assert first.tasks == {task: ("running", 0)}
        with world.engine.begin() as tx:
            finish_files(tx, task)
        second = stream.next()
        assert second.tasks == {task: ("running", 1)}
        with world.engine.begin() as tx:
            move(tx, task, "pending")
        third = stream.next()
        assert third.tasks == {task: ("pending", 1)}
        assert len({first.version, second.version, third.version}) == 3


@pytest.mark.parametrize("header", [False, True])
def test_a_broken_stream_resumes_with_the_changes_alone(
    world: World, service: None, task: int, header: bool
) -> None:
    other = put(world, good())[0]
    with watch(world, jedi_task_ids=[task, other]) as stream:
        version = stream.next().version
    with world.engine.begin() as tx:
        finish_files(tx, task)
    how: dict[str, Any] = {"since": "0" * 8 + "-1-1-1"} if header else {"since": version}
    headers = {"Last-Event-ID": version} if header else None
    with watch(world, headers, jedi_task_ids=[task, other], **how) as stream:
        assert stream.next().tasks == {task: ("running", 1)}


def test_what_commits_out_of_order_is_not_lost(world: World, service: None, task: int) -> None:
    """A transaction that began before the version, and that commits after it, belongs to what
    comes next, though its rows have lower numbers than others that were seen."""
    other = put(world, good())[0]
    with world.engine.connect() as slow:
        finish_files(slow, task)
        move(slow, task, "pending")
        with world.engine.begin() as tx:
            move(tx, other, "toabort")
        with watch(world, everybody=True) as stream, watch(world, jedi_task_ids=[task]) as own:
            assert own.next().tasks == {task: ("running", 0)}
            assert stream.next().tasks[task] == ("running", 0)
            slow.commit()
            assert own.next().tasks == {task: ("pending", 1)}
            assert stream.next().tasks == {task: ("pending", 1)}


def test_ends_between_two_connections_are_seen(world: World, service: None, task: int) -> None:
    """Of active tasks: one that ended while nobody was connected, and nothing that ended before."""
    [ended, new] = put(world, good("a:one"), good("a:two"))
    with world.engine.begin() as tx:
        move(tx, ended, "aborting", "toabort", "aborted")
    with watch(world, everybody=True) as stream:
        seen = stream.next()
        assert seen.tasks == {task: ("running", 0), new: ("registered", 0)}
    with world.engine.begin() as tx:
        move(tx, new, "aborting", "toabort", "aborted")
    with watch(world, everybody=True, since=seen.version) as stream:
        assert stream.next().tasks == {new: ("aborted", 0)}
    with watch(world, everybody=True) as stream:
        assert stream.next().tasks == {task: ("running", 0)}


def test_own_tasks_come_and_go(world: World, service: None, task: int) -> None:
    """Without ids: the caller's active tasks, new ones too, and none of others."""
    with world.engine.begin() as tx:
        made = access.put_user_token(tx, "bea", None, "read", 600.0)
    bea = {"Authorization": f"Bearer {made}"}
    with watch(world, bea) as stream:
        assert stream.next().tasks == {}
        new = put(world, good())[0]
        with world.engine.begin() as tx:
            finish_files(tx, task)
            tx.execute(
                text("UPDATE jedi_tasks SET username = 'bea' WHERE jeditaskid = :task"),
                {"task": new},
            )
        assert stream.next().tasks == {new: ("registered", 0)}
        with world.engine.begin() as tx:
            move(tx, new, "aborting", "toabort", "aborted")
        assert stream.next().tasks == {new: ("aborted", 0)}


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v._replace(time=v.time - KEPT_S - 1),
        lambda v: v._replace(history="0123abcd"),
        lambda v: v._replace(bound=v.bound + 10**6),
    ],
)
def test_versions_that_say_nothing_are_gone(
    world: World, service: None, task: int, change: Any
) -> None:
    with watch(world, jedi_task_ids=[task]) as stream:
        version = read_version(stream.next().version)
    with watch(world, jedi_task_ids=[task], since=str(change(version))) as stream:
        answer = stream.answer
    assert (answer.status_code, answer.json()["code"]) == (410, "version_too_old")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "list again" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"jedi_task_ids": [987_654_321]}, 404, "not_found"),
        ({"jedi_task_ids": [1], "everybody": True}, 422, "bad_input"),
        ({"since": "yesterday"}, 422, "bad_input"),
        ({"jedi_task_ids": [0]}, 422, "bad_input"),
    ],
)
def test_mistakes_are_answered_before_the_stream(
    world: World, service: None, query: dict[str, Any], status: int, code: str
) -> None:
    with watch(world, **query) as stream:
        assert (stream.answer.status_code, stream.answer.json()["code"]) == (status, code)


def test_silence_is_filled_with_comments_that_move_the_version(
    world: World, service: None, task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "HEARTBEAT_S", 0.7)
    with watch(world, jedi_task_ids=[task]) as stream:
        before = read_version(stream.next().version)
        block = next(stream.blocks())
        assert (block[""], "data" in block) == ("still here", False)
        put(world, good())
        end = time.monotonic() + 60.0
        while read_version(next(stream.blocks())["id"]).bound <= before.bound:
            assert time.monotonic() < end


def test_many_watchers_cost_one_query_a_look(world: World, service: None, task: int) -> None:
    """50 watchers see a change by looks of one statement each; without watchers there are none."""
    tasks = [task, *put(world, *(good(f"a:{n}") for n in range(9)))]
    with ExitStack() as all_:
        streams = [
            all_.enter_context(watch(world, jedi_task_ids=[tasks[n % 10], task])) for n in range(50)
        ]
        for stream in streams:
            stream.next()
        looks: list[str] = []
        event.listen(
            world.engine,
            "before_cursor_execute",
            lambda _c, _u, statement, *_: looks.append(statement),
        )
        begun = time.monotonic()
        with world.engine.begin() as tx:
            finish_files(tx, task)
        assert all(stream.next().tasks == {task: ("running", 1)} for stream in streams)
        time.sleep(max(0.0, begun + 2.0 - time.monotonic()))
        took = time.monotonic() - begun
        asked = [one for one in looks if "pg_snapshot_xmin" in one]
        assert 1 <= len(asked) <= took / world.knobs.api.watch_poll_s + 2
    time.sleep(1.5)
    looks.clear()
    time.sleep(1.5)
    assert looks == []


def test_a_revoked_token_ends_its_stream(
    world: World, service: None, task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RECHECK_S", 0.5)
    with world.engine.begin() as tx:
        made = access.put_user_token(tx, "bea", "laptop", "read", 600.0)
    headers = {"Authorization": f"Bearer {made}"}
    with watch(world, headers, jedi_task_ids=[task]) as stream, watch(world) as kept:
        stream.next()
        kept.next()
        with world.engine.begin() as tx:
            [token] = access.TOKENS_OF.rows(tx, user="bea")
            access.revoke(tx, "bea", token.token_id)
        assert [block for block in stream.rest() if "data" in block] == []
        new = put(world, good())[0]
        with world.engine.begin() as tx:
            tx.execute(
                text("UPDATE jedi_tasks SET username = :me WHERE jeditaskid = :task"),
                {"me": caller(), "task": new},
            )
        assert kept.next().tasks == {new: ("registered", 0)}


def test_the_database_may_be_away_for_a_moment(world: World, service: None, task: int) -> None:
    """Every session is ended, as at a restart of PostgreSQL, and new ones are refused for a
    while: the stream goes on and has what happened meanwhile."""
    name = world.engine.url.database
    other = world.engine.url.set(database="postgres")
    with watch(world, jedi_task_ids=[task]) as stream:
        stream.next()
        world.engine.dispose()
        admin = create_engine(other, isolation_level="AUTOCOMMIT")
        with admin.connect() as tx:
            tx.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
            tx.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                ),
                {"name": name},
            )
            time.sleep(1.5)
            tx.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))
        admin.dispose()
        with world.engine.begin() as tx:
            finish_files(tx, task)
        assert stream.next().tasks == {task: ("running", 1)}


def test_streams_end_when_the_service_ends(world: World, task: int) -> None:
    """uvicorn would wait 5 s for them. Their last versions can be resumed from."""
    with running(world) as process, watch(world, jedi_task_ids=[task]) as stream:
        stream.next()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert stream.rest() == []
        process.wait(PATIENCE_S)
        assert time.monotonic() - begun < 3
        assert process.returncode in (0, -signal.SIGTERM)


def test_log_rows_are_decided_once_their_transactions_are() -> None:
    """Row 10 was seen while transaction 7 ran, 8 being next: 7 may still commit a row below 10. It
    is decided when the oldest running one is 8 or later."""
    logs = LogBound()
    logs.note(Mark(7, 8, 10, 0, ""))
    assert logs.log_id is None
    logs.note(Mark(7, 9, 12, 0, ""))
    assert logs.log_id is None
    logs.note(Mark(8, 9, 12, 0, ""))
    assert logs.log_id == 10
    logs.note(Mark(9, 9, 13, 0, ""))
    assert logs.log_id == 13
