"""Requests to the service's process beside bare calls of its functions, in the same run."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, make_world, seconds_of, spans
from benchmarks.cputime import all_times, time_of, tree_s
from benchmarks.jobs_world import Shape, activated_jobs, place, site
from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.settings import caller
from jedi.ddm.interface import DDM
from jedi.host.home import Home
from jedi.model.jobs.wire import Beat
from jedi.model.queries import ListPage
from jedi.service.pilots import pilot_requests
from jedi.service.tasks import task_details
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import PUT_USER, Identity

CPUS = 2
REQUESTS, SMOKE = 2_000, 40
CLIENTS = 2
PILOTS = 8
"""Connections of a client on which it waits for answers at the same time."""

SLOT = {"cores": 1, "memory_mb": 2000, "walltime_s": 86_400, "disk_mb": 20_000}
HTTP_MS, SUBMIT_MS, LIST_S, READ_P99_MS = 2.0, 15.0, 0.30, 50.0
_SERVE = """
import sys
from pathlib import Path
from jedi.server.serving import serve
from jedi.core.settings import Settings
serve(Settings(Path(sys.argv[1]), sys.argv[2]), lambda: print("ready", flush=True))
"""
TASK = {
    "taskName": "t",
    "noInput": True,
    "nFiles": 1,
    "jobParameters": [
        {"type": "constant", "value": "true"},
        {
            "type": "template",
            "param_type": "output",
            "value": "> o.${SN}.txt",
            "dataset": "user.b:o",
        },
    ],
}


@dataclass(frozen=True)
class BenchService:
    """A process of the service on a database, and the token of a pilot."""

    home: Home
    process: subprocess.Popen[str]
    token: str
    postmaster: int

    @property
    def url(self) -> str:
        return f"unix:{self.home.api_socket}"

    def cpu_s(self) -> float:
        """Processor time of the process so far."""
        found = time_of(self.process.pid)
        return found.own_s if found else 0.0

    def database_cpu_s(self) -> float:
        """Processor time of all processes of the database's server so far."""
        return tree_s(all_times(), self.postmaster)


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """Requests a second, milliseconds of processor time for each, and waits of clients in ms."""

    per_s: float
    service_ms: float
    database_ms: float
    client_ms: float
    waits_ms: list[float]

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the waits."""
        return sorted(self.waits_ms)[int(0.99 * (len(self.waits_ms) - 1))]

    def note(self, bare_ms: float | None = None) -> str:
        """The costs of a request; `bare_ms`: those of its function without HTTP."""
        said = (
            f"ms of processor time: service {self.service_ms:.2f}, database "
            f"{self.database_ms:.2f}, client {self.client_ms:.2f}"
        )
        if bare_ms is None:
            return said
        added = self.service_ms - bare_ms
        kept = "" if added <= HTTP_MS else " GOAL MISSED"
        return f"{said}; bare {bare_ms:.2f}: HTTP adds {added:.2f}{kept}"


def measure(engine: Engine, requests: int = REQUESTS) -> list[Result]:
    """Heartbeats, single acquires and small reads a second by two clients; processor time of the
    service, the database and the clients for each, and of HTTP; processor time of a submission,
    and of `jedi-task list` in a fresh process."""
    place(engine, 1, 1)
    activated_jobs(engine, Shape(2 * requests, sites=1, shares=1))
    world = make_world(engine, cast(DDM, None))
    with engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
    with bench_service(world) as service:
        one_by_one = load_of(service, _beats, requests)
        beats = load_of(service, partial(_beats, pilots=PILOTS), requests)
        gives = load_of(service, _acquires, requests // 4)
        reads = load_of(service, _reads, requests)
        bare_beat = _cpu(lambda: _bare_beat(world), requests // 2)
        bare_read = _cpu(lambda: _bare_read(world), requests // 4)
        submit_ms = _submissions(service, max(requests // 20, 2))
        list_s = _list_cpu(service)
    slow = "" if reads.p99_ms <= READ_P99_MS else " GOAL MISSED"
    said = f"{reads.note(bare_read)}; p99 {reads.p99_ms:.1f} ms of {READ_P99_MS:.0f}{slow}"
    return [
        Result(
            "heartbeats over HTTP, two at a time",
            "1/s",
            one_by_one.per_s,
            note=one_by_one.note(bare_beat),
        ),
        Result(
            f"heartbeats over HTTP, {CLIENTS * PILOTS} at a time",
            "1/s",
            beats.per_s,
            least=1_000,
            note=beats.note(bare_beat),
        ),
        Result("acquires over HTTP, one by one", "1/s", gives.per_s, least=300, note=gives.note()),
        Result("small reads over HTTP", "1/s", reads.per_s, least=500, note=said),
        Result(
            "submissions a second of processor time",
            "1/s",
            1_000 / submit_ms,
            least=1_000 / SUBMIT_MS,
            note=f"{submit_ms:.1f} ms each",
        ),
        Result(
            "`jedi-task list` a second of processor time",
            "1/s",
            1 / list_s,
            least=1 / LIST_S,
            note=f"{list_s:.2f} s each",
        ),
    ]


@contextmanager
def bench_service(world: World) -> Iterator[BenchService]:
    with tempfile.TemporaryDirectory(prefix="jedi-api-") as directory:
        home = Home(Path(directory))
        with world.engine.begin() as tx:
            token = users.put_token(tx, "pilot", site=site(0))
            knobs.put(tx, "api.calls_per_s", 0.0, caller())  # all clients are one user
            postmaster = all_times()[tx.scalar(text("SELECT pg_backend_pid()")) or 0].parent
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, directory, world.settings.database_url or ""],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout
            if process.stdout.readline() != "ready\n":
                raise JediError("The service did not start.", code="benchmark_failed")
            yield BenchService(home, process, token, postmaster)
        finally:
            process.terminate()
            process.wait()


def load_of(service: BenchService, client: Callable[..., Work], requests: int) -> ServiceLoad:
    """The requests of all clients together."""
    each = requests // CLIENTS
    before = service.cpu_s(), service.database_cpu_s()
    found = spans(CLIENTS, client, str(service.home.api_socket), service.token, each)
    after = service.cpu_s(), service.database_cpu_s()
    sent = CLIENTS * each
    ours, database = (1_000 * (b - a) / sent for a, b in zip(before, after, strict=True))
    client_ms = 1_000 * sum(one.cpu_s for one in found) / sent
    waits = [1_000 * wait for one in found for wait in one.found]
    return ServiceLoad(sent / seconds_of(found), ours, database, client_ms, waits)


class RawWire:
    """Requests on a kept connection: the bytes that jedi-client sends, without its cost, which
    would be a third of all."""

    def __init__(self, path: str, token: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._who = f"Authorization: Bearer {token}\r\n" if token else ""

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request as its bytes."""
        sent = f"Content-Length: {len(body)}\r\n" if body else ""
        kind = "Content-Type: application/json\r\n" if body else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: jedi\r\nAccept-Encoding: identity\r\n{sent}"
            f"Accept: application/json\r\n{kind}{self._who}\r\n"
        ).encode() + body

    def ask(self, request: bytes) -> bytes:
        """The body of the answer, which must be 200."""
        self.send(request)
        return self.answer()

    def send(self, request: bytes) -> None:
        """Send a request, and go on."""
        self._socket.sendall(request)

    def answer(self) -> bytes:
        """The body of the answer to a request that was sent, which must be 200."""
        said = self._socket.recv(65_536)
        while not (end := said.find(b"\r\n\r\n") + 4) > 3:
            said += self._socket.recv(65_536)
        head = said[:end].lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(said) < end + length:
            said += self._socket.recv(65_536)
        if not said.startswith(b"HTTP/1.1 200 "):
            raise JediError(said.decode(), code="benchmark_failed")
        return said[end:]

    def ask_for(self, path: str, value: Any) -> Any:
        """The answer to a value in JSON."""
        return json.loads(self.ask(self.request("POST", path, json.dumps(value).encode())))


def waits_of(times: int, ask: Callable[[int], object]) -> list[float]:
    """Seconds that each of so many calls takes."""
    found = []
    for number in range(times):
        begin = clock.monotonic()
        ask(number)
        found.append(clock.monotonic() - begin)
    return found


def waits_of_many(times: int, wires: Sequence[RawWire], requests: Sequence[bytes]) -> list[float]:
    """The same for connections that each have a request in hand: all are sent before the first
    answer is read."""
    found = []
    for _ in range(times // len(wires)):
        begins = []
        for wire, request in zip(wires, requests, strict=True):
            begins.append(clock.monotonic())
            wire.send(request)
        for wire, begin in zip(wires, begins, strict=True):
            wire.answer()
            found.append(clock.monotonic() - begin)
    return found


def _beats(number: int, path: str, token: str, times: int, pilots: int = 1) -> Work:
    """Pilots that beat, each for a job that it has."""
    wires = [RawWire(path, token) for _ in range(pilots)]
    requests = [_beat(wire, f"b{number}.{pilots}.{i}") for i, wire in enumerate(wires)]
    return lambda: waits_of_many(times, wires, requests)


def _beat(wire: RawWire, name: str) -> bytes:
    [job] = wire.ask_for("/v1/pilot/acquire", _request(name, 0))["jobs"]
    beat = {"beats": [{"pandaid": job["pandaid"], "lock_seq": job["lock_seq"]}]}
    return wire.request("POST", "/v1/pilot/heartbeat", json.dumps(beat).encode())


def _acquires(number: int, path: str, token: str, times: int) -> Work:
    wire = RawWire(path, token)

    def take(i: int) -> None:
        if len(wire.ask_for("/v1/pilot/acquire", _request(f"a{number}", i))["jobs"]) != 1:
            raise JediError("There was no job.", code="benchmark_failed")

    return lambda: waits_of(times, take)


def _reads(_number: int, path: str, _token: str, times: int) -> Work:
    wire = RawWire(path)
    request = wire.request("GET", "/v1/tasks?limit=1")
    return lambda: waits_of(times, lambda _: wire.ask(request))


def _request(pilot: str, number: int) -> dict[str, Any]:
    return {
        "request_id": f"{pilot}.{number}",
        "pilot_id": pilot,
        "site": site(0),
        "n": 1,
        "resources": SLOT,
    }


def _cpu(work: Callable[[], object], times: int) -> float:
    """ms of this process' processor time for one call."""
    work()
    before = sum(os.times()[:2])
    for _ in range(times):
        work()
    return 1_000 * (sum(os.times()[:2]) - before) / times


def _bare_beat(world: World) -> None:
    with at_once(world.engine) as tx:
        pilot_requests.heartbeat(
            tx,
            Identity("pilot", site(0), None),
            [Beat.model_validate({"pandaid": 1, "lock_seq": 1})],
        )


def _bare_read(world: World) -> None:
    with world.engine.begin() as tx:
        task_details.find(tx, page=ListPage(limit=1))


def _submissions(service: BenchService, times: int) -> float:
    """ms of the service's processor time for a submission."""
    before = service.cpu_s()
    with Client(Profile(service.url)) as client:
        for number in range(times):
            named = {**TASK, "taskName": f"t{number}"}
            text = json.dumps(named).replace("user.b:o", f"user.b:o{number}")
            client.task_submit(texts=[{"text": text, "format": "json"}])
    return 1_000 * (service.cpu_s() - before) / times


def _list_cpu(service: BenchService) -> float:
    """Seconds of processor time of `jedi-task list` in a fresh process."""
    command = "import sys; from jedi_client.cli.task import main; sys.argv = ['', 'list']; main()"
    environment = {**os.environ, "JEDI_URL": service.url}
    took = []
    for _ in range(5):
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", command], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        after = os.times()
        took.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return statistics.median(took)
