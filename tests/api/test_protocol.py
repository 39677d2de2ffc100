"""HTTP itself: the bytes of requests, and the answers to those that are none."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.service_process import served

from jedi.agent.base import World
from jedi.host.home import Home

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
REFUSED = {
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "two lengths": b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
    b"Content-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"GET /health HTTP/1.1\r\nHost: x\r\n a: b\r\n\r\n",
    "a path that is no ASCII": b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "another protocol and a body": b"POST /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: h2c\r\nContent-Length: 2\r\n\r\nab",
    "a body of nothing but chunk names": b"POST /health HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 100_000,
    "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
}


@contextmanager
def connected(world: World) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(20)
        one.connect(str(Home(world.settings.home).api_socket))
        yield one


def said(one: socket.socket) -> bytes:
    """All bytes until the service ends the connection."""
    found = b""
    while piece := one.recv(65_536):
        found += piece
    return found


@pytest.fixture
def service(world: World) -> Iterator[World]:
    with served(world):
        yield world


def test_what_is_no_request_gets_one_refusal(service: World) -> None:
    """The one form of errors, `no_http`; nothing follows it."""
    with ExitStack() as stack:
        asked = {name: stack.enter_context(connected(service)) for name in REFUSED}
        for name, one in asked.items():
            one.sendall(REFUSED[name])
        answers = {name: said(one) for name, one in asked.items()}  # each ends after a second
    for name, answer in answers.items():
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), name
        assert b"connection: close" in head and b"application/problem+json" in head, name
        assert json.loads(body)["code"] == "no_http", name


def test_requests_that_come_together_are_answered_in_their_order(service: World) -> None:
    unknown = HEALTH.replace(b"/health", b"/nothing")
    with connected(service) as one:
        one.sendall(HEALTH + unknown + LAST)
        answers = said(one).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"404", b"200"]


def test_a_refusal_is_never_the_answer_to_an_earlier_request(service: World) -> None:
    """The connection ends: nobody may take the 400 for the answer to the first request."""
    with connected(service) as one:
        one.sendall(HEALTH + b"no http\r\n\r\n")
        assert b" 400 " not in said(one)


def test_too_many_requests_at_once_end_their_connection(service: World) -> None:
    with connected(service) as one:
        one.sendall(HEALTH * 100)
        assert said(one).count(b"HTTP/1.1 200") < 100


def test_long_requests_one_after_another_are_no_long_head(service: World) -> None:
    """Only the bytes of one request before its body count; blanks after a header's value do not
    belong to it."""
    note = b"X-Note: " + b"x" * 30_000 + b"\r\nX-Request-Id: mine \t\r\n\r\n"
    request = HEALTH.replace(b"\r\n\r\n", b"\r\n" + note)
    with connected(service) as one:
        for _ in range(4):
            one.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += one.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200") and b"x-request-id: mine\r\n" in answer


def test_another_protocol_is_not_spoken(service: World) -> None:
    """A request that offers one is answered as it is, and its connection ends."""
    offer = b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    with connected(service) as one:
        one.sendall(HEALTH.replace(b"\r\n\r\n", offer) + HEALTH)
        answer = said(one)
    assert answer.count(b"HTTP/1.1 200") == 1 and b"connection: close" in answer


def test_fields_after_a_body_are_no_headers(service: World) -> None:
    """RFC 9110, 6.5.1: a trailer must not be merged into the headers."""
    chunked = LAST.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    with connected(service) as one:
        one.sendall(chunked + b"X-Request-Id: trailer\r\n\r\n")
        answer = said(one)
    assert answer.startswith(b"HTTP/1.1 200") and b"trailer" not in answer


def test_endless_fields_after_a_body_end_the_connection(service: World) -> None:
    """They are bounded as those before it."""
    chunked = HEALTH.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    sent = 0
    with connected(service) as one:
        one.sendall(chunked)
        try:
            while sent < 50_000_000:
                one.sendall(b"a:\r\n" * 1000)
                sent += 4000
        except OSError:
            pass
    assert sent < 20_000_000


def test_a_broken_request_is_no_answer_to_the_one_in_hand(service: World) -> None:
    """The connection ends; the first request is answered first, or not at all."""
    with connected(service) as one:
        one.sendall(HEALTH + b"GET http://host HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " not in said(one)
