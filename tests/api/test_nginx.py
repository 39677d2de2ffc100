"""The service behind nginx, with the configuration of docs/access.md."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import dedent

import httpx2
import pytest
import trustme
from jedi_client.errors import Forbidden, NotReached, Unreachable
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from jedi_client.transport import Transport
from support.peer import Peer
from support.service_process import running

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access, audit

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/bin")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def configuration(place: Path, service: int, front: int) -> str:
    """That of the page, with our ports and files."""
    found = re.search(r"^    upstream jedi.*?^    }$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    text = dedent(found[0])
    for theirs, ours in (
        ("127.0.0.1:8765", f"127.0.0.1:{service}"),
        ("listen 443", f"listen 127.0.0.1:{front}"),
        ("jedi.example.org", "localhost"),
        ("/etc/ssl", str(place)),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {place}/{kind};\n" for kind in kinds)
    return (
        f"pid {place}/pid;\nerror_log {place}/errors;\ndaemon off;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{text}\n}}\n"
    )


@contextmanager
def nginx(place: Path, service: int, front: int) -> Iterator[None]:
    """nginx in front of the service, until it answers."""
    (place / "conf").write_text(configuration(place, service, front))
    words = [str(NGINX), "-e", str(place / "errors"), "-c", str(place / "conf")]
    subprocess.run([*words, "-t"], check=True, capture_output=True)
    with subprocess.Popen(words) as process:
        try:
            while process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", front)) == 0:
                        break
            yield
        finally:
            process.terminate()


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_the_configuration_of_the_page_works(world: World, tmp_path: Path) -> None:
    """Tokens, a body of 3 MB and their answers pass; without a token nobody is anybody. The audit
    has the address of the caller, which nobody can forge."""
    service, front = free_port(), free_port()
    authority = trustme.CA()
    shown = authority.issue_cert("localhost")
    shown.cert_chain_pems[0].write_to_path(str(tmp_path / "jedi.crt"))
    shown.private_key_pem.write_to_path(str(tmp_path / "jedi.key"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    with world.engine.begin() as tx:
        knobs.put(tx, "api.listen", f"127.0.0.1:{service}", caller())
        knobs.put(tx, "api.proxies", "127.0.0.1", caller())
        token = access.put_user_token(tx, "anna", None, "all", 600.0)
    url, ca = f"https://localhost:{front}", str(tmp_path / "ca")
    with running(world), nginx(tmp_path, service, front):
        with Client(Profile(url, token, ca)) as anna:
            me = anna.me_show()
            assert (me.user_name, me.way) == ("anna", "token")
            text = "taskName: x\n" + 3_000_000 * "#"
            assert anna.task_needs(texts=[{"name": "x", "text": text, "format": "yaml"}]) == [[]]
        with Client(Profile(url, None, ca)) as stranger, pytest.raises(Forbidden):
            stranger.me_show()
        source = httpx2.HTTPTransport(
            verify=ssl.create_default_context(cafile=ca), local_address="127.0.0.9"
        )
        with httpx2.Client(transport=source, base_url=url) as elsewhere:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "203.0.113.1"}
            made = elsewhere.post("/v1/tokens", json={"name": "x", "days": 1}, headers=headers)
            assert made.status_code == 200
    with world.engine.begin() as tx:
        [entry] = audit.entries(tx, None, None, None, None, 100)
    assert (entry.operation, entry.address) == ("token.create", "127.0.0.9")


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_a_change_that_reached_no_service_is_known_not_to_have_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nginx connects to nobody; or to a service that dies when it has the request."""
    monkeypatch.setattr("jedi_client.transport.REPEAT_S", 0.3)
    service, front = free_port(), free_port()
    authority = trustme.CA()
    shown = authority.issue_cert("localhost")
    shown.cert_chain_pems[0].write_to_path(str(tmp_path / "jedi.crt"))
    shown.private_key_pem.write_to_path(str(tmp_path / "jedi.key"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    profile = Profile(f"https://localhost:{front}", "token", str(tmp_path / "ca"))
    for dies, sentence in ((False, "the request did not arrive"), (True, "may have done the work")):
        with nginx(tmp_path, service, front), ExitStack() as stack, Transport(profile) as wire:
            if dies:
                stack.enter_context(Peer(*[b""] * 50, port=service))
            with (
                pytest.raises(Unreachable, match=sentence) as error,
                wire.request("POST", "/v1/tasks/kill", b"{}"),
            ):
                pass
            assert isinstance(error.value, NotReached) is not dies
