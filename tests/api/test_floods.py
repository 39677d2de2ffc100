"""Floods: bodies, headers and connections without end, wrong tokens, streams. The service stays
small, and all others are served."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from support.listening import Listening, listening
from support.service_process import over
from support.task_rows import good, put

from jedi.api.bodies import STRANGER_MAX
from jedi.api.operations import SANDBOX_ROOM
from jedi.api.rates import TooManyCalls, WrongTokens
from jedi.api.watching import StreamLimit
from jedi.core.errors import Forbidden
from jedi.core.knobs import Knobs
from jedi.host.home import Home
from jedi.taskbuffer.users import access

GB = 2**30
PIECE = b" " * 2**16
BURST, STREAMS, PEER = 5, 2, 512
PROXY = "127.0.3.1"
SANDBOX = f"/v1/sandboxes/{'0' * 64}"


@pytest.fixture(scope="module")
def service(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listening]:
    place = tmp_path_factory.mktemp("home")
    with listening(
        server,
        template,
        place,
        api_body_s=1.0,
        api_peer_connections=PEER,
        api_headers_s=60.0,
        sandbox_max_mb=1,
        api_wrong_tokens_burst=BURST,
        api_wrong_tokens_per_s=0.2,
        api_caller_streams=STREAMS,
        api_proxies=PROXY,
    ) as found:
        yield found


def others_are_served(service: Listening) -> None:
    """At the unix socket and behind TCP, within two seconds each."""
    with over(Home(service.world.settings.home)) as beside, service.client() as client:
        for one in (beside, client):
            began = time.monotonic()
            assert one.get("/health").status_code == 200
            assert one.get("/v1/me", headers=service.operator).json()["user_name"] == "olga"
            assert time.monotonic() - began < 2


# ------------------------------------------------------------------------------------ bodies

ROUTES = {
    "operation": ("POST", "/v1/tasks/kill", 2**20),
    "submission": ("POST", "/v1/tasks", 2**24),
    "sandbox": ("PUT", SANDBOX, 2**20 + SANDBOX_ROOM),
    "pilot": ("POST", "/v1/pilot/report", 2**24),
}
"""Routes, and bytes that each takes."""


def head(service: Listening, route: str, token: bool, *lines: str) -> bytes:
    method, path, _ = ROUTES[route]
    who = service.pilot if route == "pilot" else service.operator
    known = [f"{name}: {value}" for name, value in who.items()] if token else []
    text = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *known, *lines, "", ""])
    return text.encode()


def status_of(one: socket.socket) -> int | None:
    """None: the connection is reset, which may overtake the answer."""
    try:
        said = one.recv(4096)
    except ConnectionError:
        return None
    return int(said.split(b" ")[1]) if said else None


@pytest.mark.parametrize("route", ROUTES)
def test_a_declared_gigabyte_is_refused_at_once(service: Listening, route: str) -> None:
    """413 before a byte of the body, 401 to a stranger; the connection ends."""
    for token, status in ((True, 413), (False, 401)):
        with service.connected() as one:
            began = time.monotonic()
            one.sendall(head(service, route, token, f"Content-Length: {GB}"))
            assert status_of(one) == status
            while one.recv(4096):
                pass
            assert time.monotonic() - began < 2


def unread(service: Listening, port: int) -> int:
    """Bytes sent from this port that the kernel still holds: its buffers may grow to 32 MB."""
    ends = {(port, service.address[1]), (service.address[1], port)}
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(
        sum(int(size, 16) for size in row[4].split(":"))
        for row in rows
        if (int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16)) in ends
    )


@pytest.mark.parametrize("route", ROUTES)
def test_an_endless_body_is_cut_off_at_its_bound(service: Listening, route: str) -> None:
    """A gigabyte in chunks: no more is read than the route takes, a stranger's no further than
    2 MB, and memory grows by no more than twice the bound."""
    before = service.peak_mb
    bound = ROUTES[route][2]
    for token, most in ((True, bound), (False, STRANGER_MAX)):
        with service.connected() as one:
            one.sendall(head(service, route, token, "Transfer-Encoding: chunked"))
            sent, port = 0, one.getsockname()[1]
            with suppress(ConnectionError):
                while sent < GB:
                    one.sendall(b"10000\r\n" + PIECE + b"\r\n")
                    sent += len(PIECE)
                    while sent % 2**20 == 0 and unread(service, port) > 2**20:
                        time.sleep(0.001)
            assert status_of(one) in (413 if token else 401, None)
        assert sent < most + 8 * 2**20  # buffers of the kernel
    assert service.peak_mb - before < 2 * bound / 2**20 + 10
    others_are_served(service)


def test_slow_bodies_have_a_deadline(service: Listening) -> None:
    """A second in all (knob api.body_s), though a byte comes now and then."""
    with ExitStack() as stack:
        slow = [stack.enter_context(service.connected()) for _ in ROUTES]
        for route, one in zip(ROUTES, slow, strict=True):
            one.sendall(head(service, route, True, "Content-Length: 1000") + b"{")
        began, left = time.monotonic(), {*slow}
        while left and time.monotonic() - began < 10:
            left -= ended([*left], 0.2)
            for one in left:
                with suppress(ConnectionError):
                    one.sendall(b" ")
        assert not left and 0.8 < time.monotonic() - began < 8


# ----------------------------------------------------------------------- headers, connections


@pytest.mark.parametrize("what", ["a line", "lines", "a path"])
def test_headers_without_end_are_refused(service: Listening, what: str) -> None:
    """400 after 64 KB, and no more than 1 MB is read; memory stays as it was."""
    before = service.peak_mb
    start, piece = {
        "a line": (b"GET /health HTTP/1.1\r\nX: ", PIECE),
        "lines": (b"GET /health HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
        "a path": (b"GET /", b"x" * 2**16),
    }[what]
    with service.connected() as one:
        sent = 0
        with suppress(ConnectionError):
            one.sendall(start)
            while sent < 2**26:
                one.sendall(piece)
                sent += len(piece)
        assert sent < 8 * 2**20
        assert status_of(one) in (400, None)
    assert service.peak_mb - before < 10
    others_are_served(service)


def test_a_long_query_gets_its_refusal(service: Listening) -> None:
    """Though more of it is on its way: the connection is not reset."""
    for length in (300_000, 900_000):
        with closing(http.client.HTTPConnection(*service.address, timeout=10)) as client:
            client.request("GET", "/v1/tasks?name=" + "x" * length, headers=service.operator)
            answer = client.getresponse()
            assert (answer.status, json.load(answer)["code"]) == (400, "no_http")
            assert answer.getheader("content-type") == "application/problem+json"


def test_many_headers_are_no_trouble(service: Listening) -> None:
    """10,000 in 60 KB: answered, or refused, within two seconds."""
    with service.connected() as one:
        began = time.monotonic()
        one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10_000 + b"\r\n")
        assert status_of(one) in (200, 400)
        assert time.monotonic() - began < 2


def test_ten_thousand_idle_connections_keep_nobody_out(service: Listening) -> None:
    """`10,000 idle connections (all others still served)`: from 20 addresses, which may have 512
    each; half of them have said a part of a request. Those beyond the limit of an address push
    its oldest out, not those of others. (As many as the system allows the test; the service's
    limit is the same, and its own lies below it.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = min(500, (hard - 1_000) // 20)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        idle = [
            stack.enter_context(service.connected(f"127.0.1.{number}"))
            for number in range(1, 21)
            for _ in range(each)
        ]
        for one in idle[::2]:
            one.sendall(b"GET /health HTTP/1.1\r\nX: ")
        others_are_served(service)
        assert not ended(idle)
        greedy = [stack.enter_context(service.connected("127.0.1.1")) for _ in range(100)]
        others_are_served(service)
        pushed_out = ended([*idle, *greedy])
        assert len(pushed_out) == max(0, each + 100 - PEER)
        assert pushed_out <= {*idle[:each]}
    others_are_served(service)


def ended(connections: list[socket.socket], within_s: float = 0.5) -> set[socket.socket]:
    """The connections that the service has ended."""
    by_number = {one.fileno(): one for one in connections}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN | select.POLLHUP)
    return {by_number[number] for number, _ in poll.poll(within_s * 1_000)}


# ------------------------------------------------------------------------ wrong tokens, streams


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_wrong_tokens_of_an_address_are_limited(service: Listening) -> None:
    """Five at once (here): then 429 with Retry-After, whichever route and token it is. A token that
    was good before goes on, other addresses and the unix socket are not touched."""
    wrong = [bearer(f"wrong{number}") for number in range(BURST + 3)]
    source = httpx2.HTTPTransport(local_address="127.0.2.1")
    with (
        httpx2.Client(transport=source, base_url=service.url) as stranger,
        service.client() as client,
        over(Home(service.world.settings.home)) as beside,
    ):
        assert stranger.get("/v1/me", headers=service.operator).status_code == 200
        routes = [("GET", "/v1/me"), ("POST", "/v1/pilot/report"), ("GET", "/metrics")]
        answers = [
            stranger.request(*routes[number % 3], headers=headers)
            for number, headers in enumerate(wrong)
        ]
        assert [one.status_code for one in answers] == [401] * BURST + [429] * 3
        refused = answers[-1]
        assert refused.json()["code"] == "too_many_wrong_tokens"
        assert "Correct the token" in refused.json()["sentence"]
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        assert stranger.get("/v1/me", headers=service.operator).status_code == 200
        assert stranger.get("/v1/me").status_code == 401
        assert client.get("/v1/me", headers=wrong[0]).status_code == 401
        said = {beside.get("/v1/me", headers=one).status_code for one in wrong * 2}
        assert said == {401}


def test_wrong_tokens_behind_a_proxy_are_limited_by_caller(service: Listening) -> None:
    """A proxy of knob api.proxies names its callers: whoever sends wrong tokens through it locks
    out nobody else, whatever X-Forwarded-For he sends himself. A peer that is no such proxy has one
    limit, whomever it names."""

    def statuses(source: str, *forwarded: str) -> list[int]:
        transport = httpx2.HTTPTransport(local_address=source)
        with httpx2.Client(transport=transport, base_url=service.url) as client:
            return [
                client.get(
                    "/v1/me", headers={**bearer("wrong"), "X-Forwarded-For": one}
                ).status_code
                for one in forwarded
            ]

    forged = [f"203.0.113.{number}, 198.51.100.7" for number in range(BURST)]
    assert statuses(PROXY, *forged, "198.51.100.7") == [401] * BURST + [429]
    assert statuses(PROXY, "198.51.100.8") == [401]
    named = [f"198.51.100.{number}" for number in range(9, 9 + BURST + 1)]
    assert statuses("127.0.4.1", *named) == [401] * BURST + [429]


def test_a_revoked_token_is_a_wrong_one() -> None:
    """A token is exempt while it is good; the bucket fills again, and debts are paid first."""
    now, good_ones = [100.0], {"mine"}
    limit = WrongTokens(
        lambda: Knobs({"api.wrong_tokens_per_s": 1.0, "api.wrong_tokens_burst": 2}),
        lambda: now[0],
    )

    def ask(token: str) -> str:
        async def identify() -> str:
            if token not in good_ones:
                raise Forbidden("no", code="bad_token")
            return "known"

        request = Request({"type": "http", "client": ("10.0.0.1", 1), "headers": []})
        asked = limit.identify(request, token, identify)
        try:
            return asyncio.run(asked)
        except Forbidden:
            return "wrong"
        except TooManyCalls as error:
            return f"wait {error.facts['retry_after_s']}"

    assert [ask("mine"), ask("x"), ask("y"), ask("z"), ask("mine")] == [
        "known",
        "wrong",
        "wrong",
        "wait 1.0",
        "known",
    ]
    good_ones.clear()
    assert [ask("mine"), ask("mine")] == ["wrong", "wait 2.0"]
    now[0] += 2
    assert [ask("x"), ask("y")] == ["wrong", "wait 1.0"]


def test_streams_of_a_caller_are_limited(service: Listening) -> None:
    """Two (here); the third gets 429 with the remedy. Others have their own; a stream that ends
    makes room."""
    put(service.world, good())
    with service.world.engine.begin() as tx:
        bea = bearer(access.put_user_token(tx, "bea", None, "read", 600.0))
    with service.client() as client, ExitStack() as stack:

        def watch(who: dict[str, str]) -> httpx2.Response:
            return stack.enter_context(client.stream("GET", "/v1/tasks/watch", headers=who))

        first, second = watch(bea), watch(bea)
        assert first.status_code == second.status_code == 200
        third = watch(bea)
        third.read()
        assert (third.status_code, third.json()["code"]) == (429, "too_many_streams")
        assert third.headers["content-type"] == "application/problem+json"
        assert "watch several tasks in one stream" in third.json()["sentence"]
        assert watch(service.operator).status_code == 200
        first.close()
        deadline = time.monotonic() + 10
        while (again := watch(bea)).status_code == 429 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert again.status_code == 200


def test_streams_are_counted_by_caller() -> None:
    """No limit at 0; a caller without streams takes no memory."""
    most = [0]
    limit = StreamLimit(lambda: Knobs({"api.caller_streams": most[0]}))
    for _ in range(3):
        limit.enter("anna")
    most[0] = 3
    with pytest.raises(TooManyCalls):
        limit.enter("anna")
    for _ in range(3):
        limit.leave("anna")
    assert not limit._open
