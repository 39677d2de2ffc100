"""The whole login with a real identity provider: npm's oidc-provider on loopback."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jedi_client import device, profiles
from jedi_client.cli import task
from jedi_client.errors import Forbidden
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from support.browsing import pages
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.api import issuer
from jedi.host.home import Home
from jedi.taskbuffer.db import knobs

AUDIENCE = "https://jedi.example.org"
SOURCE = Path(__file__).parents[1] / "support" / "provider.mjs"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the provider: JEDI_OIDC_PROVIDER, else a fresh installation."""
    place = Path(os.environ.get("JEDI_OIDC_PROVIDER") or tmp_path_factory.mktemp("provider"))
    if not (place / "node_modules").is_dir():
        if not (shutil.which("npm") and shutil.which("node")):
            pytest.skip("there is no npm, or no node")
        npm = [
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--fetch-retries=0",
            "--prefix",
            str(place),
            "oidc-provider@9.13.3",
        ]
        if subprocess.run(npm, capture_output=True, timeout=120, check=False).returncode:
            pytest.skip("npm can't install oidc-provider here")
    shutil.copy(SOURCE, place)
    return place


@contextmanager
def up(installed: Path, port: int, groups: Path) -> Iterator[None]:
    """The provider, with a key of its own."""
    command = ["node", str(installed / SOURCE.name), str(port), AUDIENCE, str(groups)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        try:
            assert any(line == "ready\n" for line in process.stdout)
            yield
        finally:
            process.kill()


def press(browser: httpx2.Client, shown: httpx2.Response, **typed: str) -> httpx2.Response:
    """Send the form of a page of the provider."""
    found = re.search(r'action="([^"]+)"', shown.text)
    assert found, shown.text
    hidden = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', shown.text))
    place = shown.url.join(html.unescape(found[1]))
    return browser.post(place, data={**hidden, **typed})


def confirm(page: str, _code: str) -> None:
    """Confirm a code as ana, as her browser would."""
    with httpx2.Client(follow_redirects=True) as browser:
        shown = press(browser, press(browser, browser.get(page)))
        done = press(browser, press(browser, shown, login="ana", password="any"))
        assert "Success" in done.text


def log_in(url: str) -> None:
    with Client(Profile(url)) as jedi:
        facts: dict[str, Any] = jedi.call("GET", "/v1/login", {}, {}, Any)
    made = device.log_in(facts, Profile(url), "grid", confirm, lambda _: None)
    profiles.save({"grid": made})


def browse(address: str) -> None:
    """Log ana in on the pages of the service, by the code flow."""
    with httpx2.Client(follow_redirects=True) as browser:
        shown = browser.get(f"{address}/login/oidc?next=/me")
        page = press(browser, press(browser, shown, login="ana", password="any"))
        assert page.url == f"{address}/me", page.text
        assert "ana-x" in page.text and "operator" in page.text


def whoami() -> Any:
    done = CliRunner().invoke(task.app, ["whoami", "--json"], env={"JEDI_PROFILE": "grid"})
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def test_from_login_to_whoami(
    world: World, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Login by the device flow; the role follows the group, and goes with it at the renewal; the
    provider's new keys are found."""
    monkeypatch.setenv("JEDI_PROFILES", str(tmp_path / "profiles.json"))
    monkeypatch.setattr(issuer, "RETRY_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    groups = tmp_path / "groups.json"
    groups.write_text('{"ana": ["/jedi/experts"]}')
    with world.engine.begin() as tx:
        for name, value in (
            ("issuer", f"http://127.0.0.1:{port}"),
            ("audience", AUDIENCE),
            ("client_id", "jedi-task"),
            ("roles", "/jedi/experts=operator"),
        ):
            knobs.put(tx, f"oidc.{name}", value, "root")
    url = f"unix:{Home(world.settings.home).api_socket}"
    with pages(world) as address:
        with up(installed, port, groups):
            log_in(url)
            me = whoami()
            assert (me["user_name"], me["role"], me["way"]) == ("ana-x", "operator", "oidc")
            browse(address)
            groups.write_text("{}")
            kept = profiles.load()["grid"]
            assert kept.session and kept.session.refresh_token
            old = replace(kept.session, expires_at=time.time() + 30)
            profiles.save({"grid": replace(kept, session=old)})
            assert whoami()["role"] == "user"
            assert profiles.load()["grid"].token != kept.token
        with up(installed, port, groups):  # with other keys
            log_in(url)
            assert whoami()["user_name"] == "ana-x"
            kept = profiles.load()["grid"]
            done = CliRunner().invoke(task.app, ["logout", "grid"])
            assert "login at the identity provider has ended" in done.stdout, done.output
            assert kept.session and profiles.load() == {}
            ended = replace(kept, session=replace(kept.session, expires_at=time.time() - 1))
            with pytest.raises(Forbidden, match="Your login has ended"):
                device.renewed(ended)
