"""`jedi-task login` by the device flow (RFC 8628), and the renewal of tokens."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jedi_client import device, profiles
from jedi_client.cli import task
from jedi_client.errors import Forbidden
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from support.issuers import AUDIENCE, TestIssuer, issuer
from support.service_process import served
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.taskbuffer.housekeeping import knobs


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestIssuer]:
    monkeypatch.setenv("JEDI_PROFILES", str(tmp_path / "settings" / "profiles.json"))
    with issuer() as here:
        yield here


def log_in(provider: TestIssuer, waits: list[float]) -> Profile:
    facts: dict[str, Any] = {"issuer": provider.url, "client_id": "jedi-task",
                             "audience": AUDIENCE, "scopes": "openid"}  # fmt: skip
    bare = Profile("https://jedi.example.org")
    return device.log_in(facts, bare, "grid", lambda _page, _code: None, waits.append)


def test_polling_obeys_the_provider(provider: TestIssuer) -> None:
    """RFC 8628, 3.5: `authorization_pending`: go on at the interval (here 2 s); `slow_down`: 5
    seconds more, for this and all later requests."""
    waits: list[float] = []
    provider.said = ["authorization_pending", "slow_down", "authorization_pending"]
    profile = log_in(provider, waits)
    assert waits == [2, 2, 7, 7]
    assert [asked["resource"] for asked in provider.asked_for] == [AUDIENCE] * 5
    assert profile.token and profile.session and profile.session.refresh_token == "refresh-5"


def test_a_login_that_nobody_confirms_ends(provider: TestIssuer) -> None:
    for said, code in (("access_denied", "access_denied"), ("expired_token", "expired_token")):
        provider.said = [said]
        with pytest.raises(Forbidden) as refused:
            log_in(provider, [])
        assert refused.value.code == code
    waits: list[float] = []
    provider.said = ["authorization_pending"] * 100
    with pytest.raises(Forbidden, match="in time"):
        log_in(provider, waits)
    assert sum(waits) == 60  # its expires_in


def test_tokens_are_renewed_before_they_expire(provider: TestIssuer) -> None:
    profile = log_in(provider, [])
    assert profile.session and device.renewed(profile) is profile
    old = replace(profile, session=replace(profile.session, expires_at=time.time() + 30))
    profiles.save({"grid": old})
    fresh = device.renewed(old)
    assert provider.asked_for[-1]["refresh_token"] == profile.session.refresh_token
    assert fresh.session and fresh.session.expires_at > time.time() + 200
    assert profiles.load() == {"grid": fresh}
    count = len(provider.asked_for)
    assert device.renewed(old) == fresh and len(provider.asked_for) == count
    assert stat.S_IMODE(profiles.profiles_file().stat().st_mode) == 0o600
    shown = str(profiles.facts(fresh))
    assert fresh.token and fresh.token not in shown and "refresh" not in shown


def test_a_refused_renewal_ends_the_login(provider: TestIssuer) -> None:
    """While the token is still valid, it serves."""
    profile = log_in(provider, [])
    assert profile.session
    provider.said = ["invalid_grant", "invalid_grant"]
    late = replace(profile, session=replace(profile.session, expires_at=time.time() + 30))
    assert device.renewed(late) == late
    ended = replace(profile, session=replace(profile.session, expires_at=time.time() - 1))
    with pytest.raises(Forbidden, match="jedi-task login https://jedi"):
        device.renewed(ended)


def test_login_goes_through_to_whoami(
    world: World, provider: TestIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.engine.begin() as tx:
        for name, value in (("issuer", provider.url), ("audience", AUDIENCE),
                            ("client_id", "jedi-task")):  # fmt: skip
            knobs.put(tx, f"oidc.{name}", value, "root")
    url = f"unix:{Home(world.settings.home).api_socket}"
    with served(world):
        done = CliRunner().invoke(task.app, ["login", url, "--name", "grid"])
        assert done.exit_code == 0, done.output
        assert "ABCD-EFGH" in done.stderr and "You are ana-x (user)" in done.stdout
        with Client(profiles.chosen(name="grid")) as jedi:
            me = jedi.me_show()
    assert (me.user_name, me.way) == ("ana-x", "oidc")
