"""Callers who mean harm, or are slow: strangers at the service's door, and pilots that send what
no pilot sends. Whoever else asks meanwhile is answered."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from support.service_process import over, running

from jedi.agent.base import World
from jedi.api.bodies import ALL_MAX, MISTAKES_MAX, read
from jedi.api.connections import ConnectionLimits, Listener, PeerLimits, PeerSocket
from jedi.core.errors import BadInput
from jedi.host.home import Home
from jedi.model.jobs.wire import FILES_MAX, AcquireRequest, Reports
from jedi.server.app import BODY_MAX, create_app
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.users import users

LIMIT = 1024
"""Descriptors that a process has where nobody allows it more."""


@pytest.fixture
def token(world: World) -> str:
    with world.engine.begin() as tx:
        return users.put_token(tx, "pilot", site="SITE_A")


@pytest.fixture
def place(world: World) -> Iterator[Home]:
    home = Home(world.settings.home)
    home.prepare()
    yield home
    home.discard()


def report(**more: Any) -> dict[str, Any]:
    return {"pandaid": 1, "lock_seq": 1, "status": "finished", **more}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    found = (Path("/proc") / str(pid) / "status").read_text()
    return int(found.partition("VmHWM:")[2].split()[0]) / 1024


def knob(world: World, name: str, value: Any) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, name, value, "me")


# -------------------------------------------------------------------------------------- bodies

HOSTILE = {
    "small wrong outputs": b'{"reports":[{"pandaid":1,"lock_seq":1,"status":"finished","outputs":['
    + b'{"lfn":""},' * 350_000
    + b"{}]}]}",
    "empty lists": b'{"reports":[' + b"[]," * 1_300_000 + b"[]]}",
    "unknown fields": b'{"reports":[{' + b",".join(b'"%x":1' % n for n in range(300_000)) + b"}]}",
    "bad metadata": b'{"reports":[{"pandaid":1,"lock_seq":1,"status":"finished","metadata":{'
    + b",".join(b'"%x":[]' % n for n in range(300_000))
    + b"}}]}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_stranger_costs_nothing(world: World, place: Home, token: str, kind: str) -> None:
    """The issue: "4 MB of {"lfn":""} outputs with a bogus token take 58 s and 3.1 GB while others
    wait 12 s". The token is checked before the body is read: 401 at once, and the memory stays as
    it was. With a good token a list ends at its first wrong entry: seconds, some 15 times 4 MB."""
    body = HOSTILE[kind]
    assert len(body) <= BODY_MAX
    with running(world) as service, over(place) as client:
        client.get("/health")
        before = peak_mb(service.pid)
        for headers in (bearer("bogus"), {"Content-Type": "application/json"}):
            began = time.monotonic()
            with suppress(httpx2.TransportError):  # an end while the body is on its way
                answer = client.post("/v1/pilot/report", content=body, headers=headers)
                assert answer.status_code == 401
            assert time.monotonic() - began < 3
        assert peak_mb(service.pid) - before < 10
        slowest = [0.0]
        with others_asking(place, slowest):
            answer = client.post("/v1/pilot/report", content=body, headers=bearer(token))
        assert answer.status_code == 422
        assert 1 <= len(answer.json()["facts"]["problems"]) <= MISTAKES_MAX
        assert len(answer.content) < 100_000
        assert peak_mb(service.pid) - before < 300
        assert slowest[0] < 5  # on a busy machine


@contextmanager
def others_asking(place: Home, slowest: list[float]) -> Iterator[None]:
    """Note how long /health takes meanwhile."""
    over_now = threading.Event()

    def ask() -> None:
        with over(place) as client:
            while not over_now.wait(0.01):
                began = time.monotonic()
                assert client.get("/health").status_code == 200
                slowest[0] = max(slowest[0], time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over_now.set()
        thread.join()


def test_each_route_has_its_bound(world: World, token: str) -> None:
    """ "Each route has its own": 256 KB to ask for jobs, 1 MB of heartbeats, 16 MB of reports."""
    client = TestClient(create_app(world), headers=bearer(token))
    for verb, most in (("acquire", 2**18), ("heartbeat", 2**20), ("report", 2**24), ("log", 2**24)):
        for length, status in ((most, 422), (most + 1, 413)):
            answer = client.post(f"/v1/pilot/{verb}", content=b" " * length)
            assert answer.status_code == status
    assert answer.json()["sentence"] == (
        "/v1/pilot/log takes 16777216 bytes at most. Send fewer at once."
    )


def test_lists_have_a_maximal_length() -> None:
    """10,000 outputs are heard, one more is refused, with one mistake."""
    output = {"lfn": "a", "size": 1, "adler32": "0" * 8, "guid": "a"}
    for name, one in (("outputs", output), ("bad_inputs", {"lfn": "a", "problem": "missing"})):
        for count, good in ((FILES_MAX, True), (FILES_MAX + 1, False)):
            body = bytearray(json.dumps({"reports": [report(**{name: [one] * count})]}).encode())
            if good:
                assert len(getattr(read(Reports, body).reports[0], name)) == count
                continue
            with pytest.raises(BadInput) as wrong:
                read(Reports, body)
            assert [one.path for one in wrong.value.problems] == [f"reports.0.{name}"]


def test_mistakes_end_at_the_first_hundred() -> None:
    """Bad metadata are listed a hundred at most; fields that nobody knows are not listed at all if
    they are many; a list tells of its first wrong entry. No mistake shows more than 200 signs."""
    bad = {"reports": [report(metadata={f"x{n}": [] for n in range(5_000)})]}
    with pytest.raises(BadInput) as wrong:
        read(Reports, bytearray(json.dumps(bad).encode()))
    assert len(wrong.value.problems) == MISTAKES_MAX
    unknown = {f"x{n}" * 1000: "y" * 1000 for n in range(100)}
    with pytest.raises(BadInput, match="has 100 fields, of which most are unknown"):
        read(AcquireRequest, bytearray(json.dumps(unknown).encode()))
    with pytest.raises(BadInput) as wrong:
        read(
            Reports, bytearray(json.dumps({"reports": [report(exit_code="x" * 9999)] * 9}).encode())
        )
    assert [len(str(one.value)) for one in wrong.value.problems] == [200]


def test_bodies_in_hand_are_bounded(world: World, place: Home, token: str) -> None:
    """Six reports of nearly 16 MB, none of them complete, would be 96 MB: the last get a 503,
    so that a pilot tries again, and when the others have gone there is room."""
    head = (
        f"POST /v1/pilot/report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {BODY_MAX}\r\n\r\n"
    ).encode()
    count = ALL_MAX // BODY_MAX + 2
    with running(world), over(place) as client:
        with ExitStack() as stack:
            said = []
            for _ in range(count):
                one = stack.enter_context(connected(place))
                with suppress(OSError):
                    one.sendall(head + b" " * (BODY_MAX - 1))
                one.settimeout(0.5)
                with suppress(TimeoutError, OSError):
                    said.append(one.recv(100).split(b" ")[1])
            assert b"503" in said
            assert client.get("/health").status_code == 200
        deadline = time.monotonic() + 20
        while True:
            answer = client.post("/v1/pilot/report", content=b"{}", headers=bearer(token))
            if answer.status_code == 422 or time.monotonic() > deadline:
                break
        assert answer.status_code == 422


# --------------------------------------------------------------------------------- connections


@contextmanager
def connected(place: Home) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        while True:
            try:
                one.connect(str(place.api_socket))
            except BlockingIOError:  # the kernel's queue is full
                time.sleep(0.01)
                continue
            break
        yield one


def closed_after(one: socket.socket) -> float:
    """Seconds until the other side ends it."""
    began = time.monotonic()
    with suppress(ConnectionResetError):
        while one.recv(4096):
            pass
    return time.monotonic() - began


def test_who_is_slow_is_cut_off(world: World, place: Home, token: str) -> None:
    """ "Incomplete headers are never closed": a second here, byte by byte or not; a body likewise;
    the second request of a connection as the first."""
    knob(world, "api.headers_s", 1.0)
    knob(world, "api.body_s", 1.0)
    begun = f"POST /v1/pilot/report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    first = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with running(world):
        with ExitStack() as stack:
            slow_ones = [stack.enter_context(connected(place)) for _ in range(4)]
            words = (
                b"",
                b"GET /hea",
                (begun + "Content-Length: 100\r\n\r\nabc").encode(),
                first + b"GET /hea",
            )
            for slow, said in zip(slow_ones, words, strict=True):
                slow.sendall(said)
            assert sum(map(closed_after, slow_ones)) < 5
        with connected(place) as slow:
            ends = time.monotonic() + 5
            with suppress(OSError):
                for byte in b"GET /health HTTP/1.1\r\nX: " + b"y" * 100:
                    slow.sendall(bytes([byte]))
                    time.sleep(0.1)
            assert time.monotonic() < ends


def test_slow_connections_keep_nobody_out(world: World, place: Home) -> None:
    """ "1,016 without a token at 1,024 descriptors" kept everybody out. With as many descriptors as
    the test has (the service had the same): the oldest that waits makes room, /health is answered
    and so is everybody else."""
    knob(world, "api.headers_s", 600.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3000)), hard))
    with running(world), over(place) as client, ExitStack() as stack:
        slow = [stack.enter_context(connected(place)) for _ in range(1_016)]
        for one in slow:
            with suppress(OSError):
                one.sendall(b"GET /health HTTP/1.1\r\n")
        assert client.get("/health").json() == {"status": "ok"}
        assert client.post("/v1/pilot/report", content=b"{}").status_code == 401
        assert closed_after(slow[0]) < 5


def test_answers_to_a_kept_connection_are_sent_at_once() -> None:
    """Without TCP_NODELAY the second part of an answer waits 40 ms for the peer's word about the
    first: 1,500 requests on one connection took 60 s. asyncio sets it where it sees TCP."""

    async def scene() -> int:
        gate = ConnectionLimits(1_000, lambda: PeerLimits(5, 60.0, 60.0))
        listener = Listener.behind(gate, socket.create_server(("127.0.0.1", 0)))
        came: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("socket")
            came.set_result(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(accepted, sock=listener):
            with socket.create_connection(listener.getsockname()):
                return await came

    assert asyncio.run(scene())


def test_a_peer_has_so_many_connections(tmp_path: Path) -> None:
    """Five of one process may come at a time when all but the answered make room: the sixth ends
    the oldest that waits; where none waits it is refused. Others are not touched."""

    async def scene() -> list[int]:
        gate = ConnectionLimits(1_000, lambda: PeerLimits(5, 60.0, 60.0))
        plain = socket.create_server(("127.0.0.1", 0))
        plain.setblocking(False)
        listener = Listener.behind(gate, plain)
        clients: list[socket.socket] = []
        visits: list[PeerSocket] = []

        def come() -> int:
            clients.append(socket.create_connection(listener.getsockname()))
            while True:
                try:
                    visit, _ = listener.accept()
                except BlockingIOError:
                    continue
                assert isinstance(visit, PeerSocket)
                visits.append(visit)
                return sum(bool(v.gate) for v in visits)

        counts = [come() for _ in range(6)]
        assert [bool(v.gate) for v in visits] == [False] + [True] * 5
        for visit in visits[1:]:
            visit.expect("nothing", 0)
        with pytest.raises(ConnectionAbortedError):
            come()
        for one in (*visits, *clients, listener):
            one.close()
        assert not gate._visits
        assert not gate._peers
        return counts

    assert asyncio.run(scene()) == [1, 2, 3, 4, 5, 5]


def test_descriptors_are_raised_to_what_the_system_allows(world: World, place: Home) -> None:
    """1,024 is the soft limit that most systems begin with; the hard one is the system's."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with running(world) as service:
        limits = (Path("/proc") / str(service.pid) / "limits").read_text()
        soft = limits.partition("Max open files")[2].split()[0]
        assert int(soft) >= min(hard, 65_536)


# ------------------------------------------------------------------------------ health, document


def test_health_is_answered_while_all_connections_are_taken(world: World) -> None:
    """/health at once, for the process lives; /ready at once, for it has a place of its own."""
    engine = connect(
        world.engine.url.render_as_string(False), pool_size=1, max_overflow=0, pool_timeout=3
    )
    asking = TestClient(create_app(replace(world, engine=engine)))
    with engine.connect():
        began = time.monotonic()
        assert asking.get("/health").status_code == 200
        assert asking.get("/ready").status_code == 200
        assert time.monotonic() - began < 2
    engine.dispose()


def test_the_document_tells_of_refusals(world: World, token: str) -> None:
    """ "Statuses 400, 401, 403 are missing from the OpenAPI document" (and 413, 503). What it says
    of bodies is what is read."""
    document = TestClient(create_app(world)).get("/openapi.json").json()
    paths = document["paths"]
    for path in ("acquire", "report", "heartbeat", "log"):
        route = paths[f"/v1/pilot/{path}"]["post"]
        assert {"200", "400", "401", "403", "413", "422", "503"} <= set(route["responses"])
        assert route["security"] == [{"token": []}]
        name = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        assert document["components"]["schemas"][name]["additionalProperties"] is False
    sandbox = paths["/v1/sandbox/{sha256}"]["get"]["responses"]
    assert {"200", "401", "403", "404"} <= set(sandbox)
    assert "401" not in paths["/health"]["get"]["responses"]
    refs = set(json.dumps(document).split('"#/components/schemas/')[1:])
    assert {one.split('"')[0] for one in refs} <= set(document["components"]["schemas"])
