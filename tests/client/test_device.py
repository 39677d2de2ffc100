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
from jedi.taskbuffer.db import knobs


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestIssuer]:
    monkeypatch.setenv("JEDI_PROFILES", str(tmp_path / "settings" / "profiles.json"))
    with issuer() as here:
        yield here


def log_in(provider: TestIssuer, waits: list[float]) -> Profile:
    facts: dict[str, Any] = {
        "issuer": provider.url,
        "client_id": "jedi-task",
        "audience": AUDIENCE,
        "scopes": "openid",
    }
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
        for name, value in (
            ("issuer", provider.url),
            ("audience", AUDIENCE),
            ("client_id", "jedi-task"),
        ):
            knobs.put(tx, f"oidc.{name}", value, "root")
    url = f"unix:{Home(world.settings.home).api_socket}"
    with served(world):
        done = CliRunner().invoke(task.app, ["login", url, "--name", "grid"])
        assert done.exit_code == 0, done.output
        assert "ABCD-EFGH" in done.stderr and "You are ana-x (user)" in done.stdout
        with Client(profiles.chosen(name="grid")) as jedi:
            me = jedi.me_show()
    assert (me.user_name, me.way) == ("ana-x", "oidc")


def log_out(provider: TestIssuer) -> Any:
    """Log in and out again. The result of the command, which has forgotten the profile."""
    provider.asked_for = []
    profiles.save({"grid": log_in(provider, []), "other": Profile("https://other.example.org")})
    done = CliRunner().invoke(task.app, ["logout", "grid", "--json"])
    assert done.exit_code == 0 and [*profiles.load()] == ["other"]
    return done


def test_logout_revokes_the_login_at_its_provider(provider: TestIssuer) -> None:
    """RFC 7009, 2.1: the request has `token`, and `token_type_hint` as a hint; a public client
    names itself by `client_id`."""
    done = log_out(provider)
    assert provider.asked_for[-1] == {
        "token": "refresh-2",
        "token_type_hint": "refresh_token",
        "client_id": "jedi-task",
    }
    assert '"revoked": true' in done.stdout and done.stderr == ""


def test_logout_forgets_the_profile_in_any_case(provider: TestIssuer) -> None:
    """Best effort, with a message: a provider without such an endpoint, one that refuses, one that
    is away, and a profile with a token of `token create`."""
    provider.revokes = False
    done = log_out(provider)
    assert len(provider.asked_for) == 2 and "revokes no tokens" in done.stderr
    refused = log_in(provider, [])
    assert refused.session
    for place, said in (
        (f"{provider.url}/revoke", "refuses: unsupported_token_type"),
        ("http://127.0.0.1:9/revoke", "does not answer"),
    ):
        provider.said = ["unsupported_token_type"]
        session = replace(refused.session, revocation_endpoint=place)
        profiles.save({"grid": replace(refused, session=session)})
        done = CliRunner().invoke(task.app, ["logout", "grid"])
        assert done.exit_code == 0 and profiles.load() == {}
        assert "may still be valid" in done.stderr and said in done.stderr
    profiles.save({"grid": Profile("https://jedi.example.org", "token")})
    done = CliRunner().invoke(task.app, ["logout", "grid"])
    assert (done.stdout, done.stderr) == ("Profile grid is forgotten.\n", "")
