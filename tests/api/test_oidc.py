"""Tokens of an identity provider at the service, on a provider whose keys the test holds."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from joserfc import jwk
from sqlalchemy import text
from support.calls import call
from support.issuers import AUDIENCE, TestIssuer, issuer
from support.service_process import over, served

from jedi.agent.base import World
from jedi.api import issuer as issuer_module
from jedi.core.errors import BadInput
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.service.system import knobs as system_knobs
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import users

MINUTE = 60


@pytest.fixture
def provider(world: World) -> Iterator[TestIssuer]:
    """A provider that the service knows; no pause between fetches of its keys."""
    with issuer() as here:
        set_knobs(
            world,
            issuer=here.url,
            audience=AUDIENCE,
            client_id="jedi-task",
            roles="/jedi/experts=operator /jedi/prod=production",
        )
        yield here


@pytest.fixture
def door(world: World, provider: TestIssuer) -> Iterator[httpx2.Client]:
    with served(world), over(Home(world.settings.home)) as client:
        yield client


def set_knobs(world: World, **values: Any) -> None:
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, f"oidc.{name}", value, "root")


@contextmanager
def served_with(world: World, **values: Any) -> Iterator[httpx2.Client]:
    """The service with other knobs."""
    set_knobs(world, **values)
    with served(world), over(Home(world.settings.home)) as client:
        yield client


def me(door: httpx2.Client, token: str) -> Any:
    return door.get("/v1/me", headers={"Authorization": f"Bearer {token}"}).json()


def role(world: World, user: str) -> str:
    with world.engine.begin() as tx:
        return users.role(tx, user)


def test_a_token_of_the_provider_names_its_user(provider: TestIssuer, door: httpx2.Client) -> None:
    elliptic = jwk.ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
    provider.keys.append(elliptic)
    assert me(door, provider.token(elliptic))["user_name"] == "ana-x"
    assert me(door, provider.token()) == {
        "user_name": "ana-x",
        "role": "user",
        "way": "oidc",
        "scope": "all",
        "task_scope": "user.ana-x",
    }
    assert me(door, provider.token(aud=["other", AUDIENCE]))["user_name"] == "ana-x"
    nameless = provider.token(preferred_username=None, sub="a1b2")
    assert me(door, nameless)["user_name"] == "a1b2"


def test_login_facts_are_open_to_strangers(provider: TestIssuer, door: httpx2.Client) -> None:
    answer = door.get("/v1/login", headers={"Authorization": "Bearer wrong"})
    assert answer.json() == {
        "issuer": provider.url,
        "client_id": "jedi-task",
        "audience": AUDIENCE,
        "scopes": "openid profile offline_access",
    }


def test_without_a_provider_there_is_no_such_login(world: World) -> None:
    with issuer() as unknown, served(world), over(Home(world.settings.home)) as door:
        assert door.get("/v1/login").json()["issuer"] is None
        assert me(door, unknown.token())["code"] == "bad_token"
        assert unknown.asked == 0


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"aud": "https://other.example.org"}, "for another audience"),
    ({"aud": None}, "lacks"),
    ({"exp": None}, "lacks"),
    ({"sub": None}, "lacks"),
    ({"iss": "https://evil.example.org"}, "another issuer's"),
    ({"iss": None}, "lacks"),
    ({"exp": -5 * MINUTE}, "has expired"),
    ({"nbf": 5 * MINUTE}, "not valid yet"),
    ({"iat": 5 * MINUTE}, "issued in the future"),
    ({"exp": "soon"}, "wrong claim"),
)
"""Claims, and part of the refusal. Numbers are seconds from now."""


def test_wrong_claims_are_refused(provider: TestIssuer, door: httpx2.Client) -> None:
    """Design of the door: `audience, expiry with clock skew`, and the issue: `wrong audience,
    expired, clock off`."""
    now = int(time.time())
    for changed, sentence in WRONG:
        claims = {name: now + one if isinstance(one, int) else one for name, one in changed.items()}
        refused = me(door, provider.token(**claims))
        assert refused["code"] == "bad_token" and sentence in refused["sentence"], changed


def test_clocks_may_differ_by_a_minute(provider: TestIssuer, door: httpx2.Client) -> None:
    """Design of the door: `expiry with clock skew`, a minute; a few seconds for the test itself."""
    now = int(time.time())
    for ahead in ({"exp": now - 50}, {"nbf": now + MINUTE}, {"iat": now + MINUTE}):
        assert me(door, provider.token(**ahead))["user_name"] == "ana-x"


def unsigned(provider: TestIssuer, header: dict[str, Any]) -> str:
    """A token with the header that somebody likes, and a signature of nobody."""
    claims = provider.token().split(".")[1]
    return ".".join(
        [base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("="), claims, ""]
    )


def keyed_with_the_public_key(provider: TestIssuer) -> str:
    """A token of HS256, whose secret everybody knows: the provider's public key."""
    start = unsigned(provider, {"alg": "HS256", "kid": "one"}).removesuffix(".")
    secret = provider.keys[0].as_pem(private=False)
    made = hmac.new(secret, start.encode(), hashlib.sha256).digest()
    return f"{start}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def test_forged_tokens_are_refused(provider: TestIssuer, door: httpx2.Client) -> None:
    """No algorithm, a symmetric one keyed with the public key, another's key under a known id,
    another kind of token, and rubbish."""
    stolen = jwk.RSAKey.generate_key(2048, {"kid": "one"})
    genuine = provider.token()
    for forged in (
        unsigned(provider, {"alg": "none"}),
        unsigned(provider, {"alg": "none", "kid": "one"}),
        unsigned(provider, {"alg": ["RS256"], "kid": "one"}),
        unsigned(provider, {"alg": "RS256", "kid": ["one"]}),
        keyed_with_the_public_key(provider),
        provider.token(stolen),
        genuine[:-4] + "AAAA",
        "a.b.c",
        "..",
        "[[[[.x.y",
        provider.token(header={"typ": "logout+jwt"}),
        base64.urlsafe_b64encode(b"[" * 5000).decode() + ".x.y",
    ):
        refused = me(door, forged)
        assert refused.get("code") == "bad_token", forged
    assert me(door, genuine)["user_name"] == "ana-x"


def test_rotated_keys_are_fetched_once(
    provider: TestIssuer, door: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`keys cached and fetched again for an unknown key id`: tokens of strangers with made-up ids
    cause no fetch within the pause."""
    old = provider.token()
    assert me(door, old)["user_name"] == "ana-x"
    provider.rotate("two")
    for _ in range(3):
        assert me(door, provider.token())["code"] == "bad_token"
    assert provider.asked == 1
    monkeypatch.setattr(issuer_module, "RETRY_S", 0.0)
    assert me(door, provider.token())["user_name"] == "ana-x"
    assert provider.asked == 2
    assert me(door, old)["code"] == "bad_token"


def test_known_keys_serve_while_the_provider_is_away(
    provider: TestIssuer, door: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_module, "RETRY_S", 0.0)
    provider.away = True
    answer = door.get("/v1/me", headers={"Authorization": f"Bearer {provider.token()}"})
    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")
    provider.away = False
    assert me(door, provider.token())["user_name"] == "ana-x"
    provider.away = True
    monkeypatch.setattr(issuer_module, "KEYS_S", 0.0)
    assert me(door, provider.token())["user_name"] == "ana-x"


def test_roles_follow_the_groups(world: World, provider: TestIssuer, door: httpx2.Client) -> None:
    """`a removed group takes the role away`; the highest role wins; the audit notes the change."""
    for groups, expected in (
        (["/jedi/prod", "/other"], "production"),
        (["/jedi/prod", "/jedi/experts"], "operator"),
        ("/jedi/prod", "production"),
        ([], "user"),
        (["/jedi/experts"], "operator"),
        (None, "user"),
    ):
        assert me(door, provider.token(groups=groups))["role"] == expected
        assert role(world, "ana-x") == expected
    with world.engine.begin() as tx:
        noted = text(
            "SELECT arguments->>'before', arguments->>'role' FROM jedi_audit WHERE "
            "username = 'ana-x' AND way = 'oidc' ORDER BY audit_id LIMIT 2"
        )
        assert [*tx.execute(noted)] == [("user", "production"), ("production", "operator")]


def test_roles_of_others_are_not_touched(
    world: World, provider: TestIssuer, door: httpx2.Client
) -> None:
    """A provider's user can neither take nor lower a local user's role."""
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga-x", role="operator", gridpref=None, cap=None)
    for groups in ([], ["/jedi/experts"]):
        refused = me(door, provider.token(preferred_username="olga-x", groups=groups))
        assert refused["code"] == "name_taken"
    assert role(world, "olga-x") == "operator"


def test_names_of_local_accounts_are_refused(world: World, provider: TestIssuer) -> None:
    """A provider's user can't become a local account by accident, only by an operator's will."""
    local = next(one.pw_name for one in pwd.getpwall() if one.pw_name != caller())
    with served_with(world) as door:
        assert me(door, provider.token(preferred_username=local))["code"] == "name_taken"
    with served_with(world, shared_accounts=1) as other:
        assert me(other, provider.token(preferred_username=local))["user_name"] == local


def test_a_prefix_sets_the_providers_users_apart(world: World, provider: TestIssuer) -> None:
    with served_with(world, user_prefix="grid.") as door:
        named = provider.token(preferred_username=caller())
        assert me(door, named)["user_name"] == f"grid.{caller()}"


def test_a_name_stays_with_its_person(provider: TestIssuer, door: httpx2.Client) -> None:
    """A provider may give a freed name to somebody else, who must not get the first one's tasks."""
    assert me(door, provider.token())["user_name"] == "ana-x"
    assert me(door, provider.token(sub="another"))["code"] == "name_taken"


def test_odd_names_are_refused(provider: TestIssuer, door: httpx2.Client) -> None:
    odd = ["", " ana", "ana bea", "../ana", "ana\n", "a'b", "ana\u0000", "änä", "-x", "a" * 101]
    for name in odd:
        assert me(door, provider.token(preferred_username=name))["code"] == "bad_user_name", name


def test_scopes_of_the_token_bound_its_use(provider: TestIssuer, door: httpx2.Client) -> None:
    """A token for `jedi.read`, `jedi.submit` or both; without such a scope it is for all."""
    for scope, expected in (
        ("openid profile", "all"),
        ("openid jedi.read", "read"),
        ("jedi.submit", "submit"),
        ("jedi.read jedi.submit", "submit"),
        ("jedi.unknown", "read"),
    ):
        assert me(door, provider.token(scope=scope))["scope"] == expected


def test_an_unverified_address_is_no_name(world: World, provider: TestIssuer) -> None:
    mail = {"email": "ana@example.org"}
    with served_with(world, user_claim="email") as door:
        assert me(door, provider.token(**mail))["code"] == "bad_user_name"
        verified = provider.token(**mail, email_verified=True)
        assert me(door, verified)["user_name"] == "ana@example.org"


def test_no_token_stands_in_the_log(
    world: World,
    provider: TestIssuer,
    door: httpx2.Client,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider.away = True
    token = provider.token()
    me(door, token)
    me(door, token + "x")
    written = "".join(capfd.readouterr()) + caplog.text
    assert token.split(".")[1] not in written and token.split(".")[2] not in written


@pytest.mark.usefixtures("operators")
def test_knobs_that_can_not_work_are_refused(world: World) -> None:
    with world.engine.begin() as tx:
        for name, value in (
            ("roles", "experts"),
            ("roles", "experts=boss"),
            ("roles", "=operator"),
            ("issuer", "http://login.example.org"),
            ("issuer", "login"),
            ("user_prefix", "a b"),
        ):
            with pytest.raises(BadInput):
                system_knobs.put(call(tx, "me"), f"oidc.{name}", value)
        system_knobs.put(call(tx, "me"), "oidc.roles", "cn=x,dc=y=operator b=user")
