"""The client's transport against the service's process: unix socket, TCP with a token, TLS."""

from __future__ import annotations

import hashlib
import json
import stat
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from jedi_client import __version__, connect, profiles
from jedi_client.cli import task
from jedi_client.cli.common import exit_code
from jedi_client.errors import BadInput, Forbidden, JediError, NotFound, Unreachable
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from jedi_client.transport import Transport
from support.peer import Peer
from support.service_process import running
from support.task_rows import good, put
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.host.home import Home


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with running(world), Client(Profile(f"unix:{Home(world.settings.home).api_socket}")) as client:
        yield client


def test_answers_have_the_types_that_the_table_promises(world: World, client: Client) -> None:
    [task] = put(world, good())
    [summary] = client.task_list(user="anna")
    assert (summary.jedi_task_id, summary.status) == (task, "registered")
    assert summary.creation_date.tzinfo is not None
    details = client.task_show(task)
    assert details.task == summary and details.datasets == []
    [refused] = client.task_kill(jedi_task_ids=[task], comment="not mine")
    assert (refused.accepted, refused.error) == (False, "forbidden")


def test_errors_are_the_services(client: Client) -> None:
    with pytest.raises(NotFound, match="There is no task 99") as missing:
        client.task_show(99)
    assert missing.value.facts == {"jedi_task_id": 99}
    with pytest.raises(BadInput) as wrong:
        client.task_kill(jedi_task_ids=[])
    assert [problem.path for problem in wrong.value.problems] == ["jedi_task_ids"]
    with pytest.raises(NotFound, match="token list"):
        client.token_revoke("000000000000")


def test_a_lost_connection_is_opened_again(client: Client) -> None:
    client.me_show()
    assert client._connection is not None and client._connection.sock is not None
    client._connection.sock.shutdown(2)
    assert client.me_show().user_name == caller()


def test_no_service_is_a_sentence_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="jedi up"), Client(Profile(f"unix:{tmp_path}/x")) as none:
        none.me_show()
    with pytest.raises(Unreachable, match="does not answer at http"):
        Client(Profile("http://127.0.0.1:1")).me_show()


class Proxy(BaseHTTPRequestHandler):
    """A proxy that reaches no service for its first three requests."""

    asked = 0

    def do_GET(self) -> None:
        Proxy.asked += 1
        lost = Proxy.asked <= 3
        content = b"<h1>502 Bad Gateway</h1>" if lost else b'{"release": "1"}'
        self.send_response(502 if lost else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        return


def test_a_question_is_repeated_while_a_proxy_reaches_no_service() -> None:
    """docs/operate.md: `Clients see this` of a rolling restart, nothing."""
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Transport(Profile(f"http://127.0.0.1:{server.server_port}")) as wire:
            found: dict[str, str] = wire.call("GET", "/v1/version", {}, {}, dict[str, str])
        server.shutdown()
    assert (found, Proxy.asked) == ({"release": "1"}, 4)


def test_profiles_lie_in_a_file_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings" / "profiles.json"
    monkeypatch.setenv("JEDI_PROFILES", str(path))
    grid = Profile("https://jedi.example.org", "secret", pin=hashlib.sha256(b"").hexdigest())
    profiles.save({"grid": grid})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert profiles.chosen(name="grid") == grid
    assert profiles.chosen("https://jedi.example.org/") == grid
    with pytest.raises(BadInput, match="no such profile"):
        profiles.chosen(name="moon")
    path.chmod(0o644)
    with pytest.raises(JediError, match="others may read it"):
        profiles.load()


@pytest.mark.parametrize("token", ["käse☃", "schlüssel", "two words", "line\n", "", "\udc80"])
def test_a_token_that_is_no_word_is_a_sentence(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """HTTP headers are ASCII: another token is a mistake of copying, before anything is sent. An
    empty JEDI_TOKEN is none."""
    with pytest.raises(BadInput, match="one word of ASCII letters") as wrong:
        Profile("https://jedi.example.org", token)
    assert "käse" not in str(wrong.value)
    if token.isprintable():
        monkeypatch.setenv("JEDI_TOKEN", token)
        with pytest.raises(BadInput) if token else nullcontext():
            assert profiles.chosen("http://127.0.0.1:1").token is None


def described(release: str) -> bytes:
    """The answers to an operation that a service does not have, and to the question for its
    release."""
    body = json.dumps({"info": {"version": release}})
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


_NONE = b'{"code": "%s", "sentence": "POST /v1/x: Not Found.", "facts": {}}'


@pytest.mark.parametrize("code", [b"http_404", b"http_405"])
@pytest.mark.parametrize(
    ("release", "side"), [("0.0.9", "older"), ("99.1", "newer"), (__version__, "")]
)
def test_a_service_of_another_release_is_named(code: bytes, release: str, side: str) -> None:
    """Which side is older, and which one to upgrade, in place of "Not Found"."""
    none = _NONE % code
    head = b"HTTP/1.1 %s No\r\nContent-Length: %d\r\n\r\n" % (code[-3:], len(none))
    with (
        Peer(head + none, described(release)) as peer,
        Transport(Profile(peer.url)) as wire,
        pytest.raises(JediError) as error,
    ):
        wire.call("POST", "/v1/x", {}, {}, Any)
    if not side:
        assert error.value.code == code.decode()
        return
    upgrade = {"older": "service", "newer": "client"}[side]
    assert error.value.code == "other_release" and exit_code(error.value) == 5
    assert error.value.sentence == (
        f"JEDI at {peer.url} is {side} ({release}) than this client ({__version__}), and has no "
        f"POST /v1/x: upgrade the {upgrade}, or take a client of its release."
    )


def test_a_url_is_checked() -> None:
    with pytest.raises(BadInput, match="https://"):
        connect("ftp://jedi")


def test_tokens_speak_from_elsewhere(world: World, client: Client) -> None:
    made = client.token_create(name="laptop", scope="read", days=1)
    other = Client(Profile(client.profile.url, made.token))
    assert (other.me_show().way, other.me_show().scope) == ("token", "read")
    with pytest.raises(Forbidden, match="needs `all`"):
        other.task_pause(jedi_task_ids=[1])


def test_a_profile_is_made_used_and_forgotten(
    world: World, service: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`jedi-task login` with a token of `token create`; then the profile asks the same service."""
    monkeypatch.setenv("JEDI_PROFILES", str(tmp_path / "profiles.json"))
    shell = CliRunner()
    made = shell.invoke(task.app, ["token", "create", "--name", "laptop", "--scope", "read"])
    url = f"unix:{Home(world.settings.home).api_socket}"
    said = shell.invoke(task.app, ["login", url, "--token-file", "-"], input=made.stdout)
    assert (said.exit_code, f"You are {caller()} (user)" in said.stdout) == (0, True)
    who = json.loads(shell.invoke(task.app, ["--profile", "default", "whoami", "--json"]).stdout)
    assert (who["way"], who["scope"], who["service"]) == ("token", "read", url)
    [listed] = json.loads(shell.invoke(task.app, ["token", "list", "--json"]).stdout)
    shell.invoke(task.app, ["token", "revoke", listed["token_id"]])
    gone = shell.invoke(task.app, ["--profile", "default", "whoami"])
    assert isinstance(gone.exception, Forbidden)
    assert shell.invoke(task.app, ["logout"]).exit_code == 0
    assert profiles.load() == {}
