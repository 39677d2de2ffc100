"""`jedi-task watch` and `wait` use it; polling is the fall-back and gives the same."""

# Raw UPDATEs: counters, as the Adder changes them.

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from jedi_client.errors import NotFound, Unreachable
from jedi_client.models import Watched
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from jedi_client.watching import watch_tasks
from sqlalchemy import text
from support.job_rows import make_jobs
from support.service_process import served

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.taskbuffer.tasks.tasks import Move, move_tasks
from jedi.taskbuffer.users import access

WAYS = pytest.mark.parametrize("way", ["stream", "poll"])
Seen = list[tuple[int, str, int, bool]]


@pytest.fixture
def task(world: World) -> int:
    with world.engine.begin() as tx:
        return make_jobs(tx, 2).task


def client_of(world: World) -> Client:
    return Client(Profile(f"unix:{Home(world.settings.home).api_socket}"))


def finish_a_file(world: World, task: int) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfilesfinished = nfilesfinished + 1 "
                "WHERE jeditaskid = :task AND type = 'input' AND masterid IS NULL"
            ),
            {"task": task},
        )


def move(world: World, task: int, status: str) -> None:
    with world.engine.begin() as tx:
        move_tasks(tx, [Move(task, None, status, "test", "test")], "test")


def short(changes: list[Watched]) -> Seen:
    return [
        (one.task.jedi_task_id, one.task.status, one.task.n_files_finished, one.settled)
        for one in changes
    ]


@WAYS
def test_both_ways_give_the_same(
    world: World, service: None, task: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_WATCH", way)
    seen: list[Seen] = []
    with client_of(world) as jedi:
        for changes in watch_tasks(jedi, [task], timeout_s=20.0):
            seen.append(short(changes))
            match len(seen):
                case 1:
                    finish_a_file(world, task)
                case 2:
                    move(world, task, "prepared")
                case 3:
                    move(world, task, "done")
                case 4:
                    break
    assert seen == [
        [(task, "running", 0, False)],
        [(task, "running", 1, False)],
        [(task, "prepared", 1, False)],
        [(task, "done", 1, True)],
    ]


@WAYS
def test_the_time_ends_and_mistakes_are_errors(
    world: World, service: None, task: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_WATCH", way)
    with client_of(world) as jedi:
        assert len([*watch_tasks(jedi, [task], timeout_s=1.0)]) == 1
        with pytest.raises(NotFound, match="There is no task 987654321"):
            next(watch_tasks(jedi, [987_654_321]))
        assert next(watch_tasks(jedi, timeout_s=5.0)) == []  # the caller has none
        everybody = next(watch_tasks(jedi, everybody=True, timeout_s=5.0))
        assert short(everybody) == [(task, "running", 0, False)]


@WAYS
def test_a_service_that_starts_again_is_found_again(
    world: World, task: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change that happened while it was away is seen once."""
    monkeypatch.setenv("JEDI_WATCH", way)
    with client_of(world) as jedi:
        with served(world):
            changes = watch_tasks(jedi, [task], timeout_s=30.0)
            assert short(next(changes)) == [(task, "running", 0, False)]
        finish_a_file(world, task)
        with served(world):
            assert short(next(changes)) == [(task, "running", 1, False)]
            del changes
    with client_of(world) as jedi, pytest.raises(Unreachable):
        next(watch_tasks(jedi, [task]))


@contextmanager
def cutting(path: str, after: int) -> Iterator[tuple[str, list[int]]]:
    """A relay to a unix socket that cuts each connection after so many bytes of answer."""
    cuts: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def relay(one: socket.socket) -> None:
        with one, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.connect(path)
            other.sendall(one.recv(65_536))
            left = after
            while left > 0 and (data := other.recv(min(left, 4_096))):
                one.sendall(data)
                left -= len(data)
            cuts.append(after - left)

    def accept() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=relay, args=(one,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", cuts
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_connections_that_break_within_events_lose_nothing(
    world: World, service: None, task: int
) -> None:
    """A relay cuts each connection in the middle of its second event or later."""
    path = str(Home(world.settings.home).api_socket)
    with cutting(path, 1_200) as (url, cuts), Client(Profile(url, token_of(world))) as jedi:
        seen: list[Seen] = []
        for changes in watch_tasks(jedi, [task], timeout_s=30.0):
            seen.append(short(changes))
            if len(seen) == 4:
                break
            finish_a_file(world, task)
    assert seen == [[(task, "running", n, False)] for n in range(4)]
    assert cuts


def token_of(world: World) -> str:
    with world.engine.begin() as tx:
        return str(access.put_user_token(tx, "bea", None, "read", 600.0))
