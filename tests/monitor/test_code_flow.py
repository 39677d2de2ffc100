"""Login at an identity provider by the code flow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.browsing import pages
from support.issuers import AUDIENCE, TestIssuer, issuer

from jedi.agent.base import World
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access


@pytest.fixture
def provider(world: World) -> Iterator[TestIssuer]:
    with issuer() as found:
        with world.engine.begin() as tx:
            for name, value in (
                ("issuer", found.url),
                ("audience", AUDIENCE),
                ("client_id", "jedi-task"),
                ("roles", "/jedi/experts=operator"),
            ):
                knobs.put(tx, f"oidc.{name}", value, "me")
        yield found


@pytest.fixture
def browser(world: World, provider: TestIssuer) -> Iterator[httpx2.Client]:
    with pages(world) as address, httpx2.Client(base_url=address) as found:
        yield found


def to_provider(browser: httpx2.Client, provider: TestIssuer) -> httpx2.QueryParams:
    """The arguments with which the browser reaches the provider, which will answer to them."""
    away = httpx2.URL(browser.get("/login/oidc?next=/tasks").headers["location"])
    assert str(away).startswith(f"{provider.url}/authorize?")
    provider.of_id = {"nonce": away.params["nonce"]}
    return away.params


def back(browser: httpx2.Client, asked: httpx2.QueryParams, **changed: str) -> httpx2.Response:
    given = {"code": "c", "state": asked["state"], **changed}
    return browser.get("/login/callback", params=given)


def test_a_person_logs_in(world: World, provider: TestIssuer, browser: httpx2.Client) -> None:
    assert 'href="/login/oidc?next=%2F"' in browser.get("/login").text
    asked = to_provider(browser, provider)
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{browser.base_url}/login/callback"
    assert asked["scope"] == "openid profile" and asked["resource"] == AUDIENCE
    provider.of_access = {"groups": ["/jedi/experts"], "scope": "jedi.read"}
    came = back(browser, asked, iss=provider.url)
    assert (came.status_code, came.headers["location"]) == (303, "/tasks")
    sent = provider.asked_for[-1]
    assert sent["grant_type"] == "authorization_code" and len(sent["code_verifier"]) >= 43
    shown = browser.get("/me").text
    assert "ana-x" in shown and "operator" in shown
    with world.engine.begin() as tx:
        assert [one.scope for one in access.TOKENS_OF.rows(tx, user="ana-x")] == ["read"]


def refused(browser: httpx2.Client, came: httpx2.Response, sentence: str) -> None:
    assert came.status_code == 403, came.text
    assert sentence in came.text and browser.get("/tasks").status_code == 303


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"state": "x"}, "not begun here"),
        ({"state": ""}, "not begun here"),
        ({"state": "ü"}, "not begun here"),
        ({"error": "access_denied"}, "access_denied"),
        ({"iss": "http://x.org"}, "Another identity"),
        ({"error": "<script>\u202e"}, "&lt;script&gt;"),
    ],
)
def test_wrong_answers_log_nobody_in(
    provider: TestIssuer, browser: httpx2.Client, changed: dict[str, str], sentence: str
) -> None:
    refused(browser, back(browser, to_provider(browser, provider), **changed), sentence)


@pytest.mark.parametrize(
    ("of_id", "of_access", "sentence"),
    [
        ({"nonce": "of another"}, {}, "another login"),
        ({"nonce": None}, {}, "another login"),
        ({"aud": "another-client"}, {}, "another audience"),
        ({"sub": "eve"}, {}, "two people"),
        ({"exp": int(time.time()) - 600}, {}, "has expired"),
        ({"iss": "http://x.org"}, {}, "issuer"),
        ({}, {"aud": "another"}, "another audience"),
        ({}, {"preferred_username": "a b"}, "name"),
    ],
)
def test_wrong_tokens_log_nobody_in(
    provider: TestIssuer,
    browser: httpx2.Client,
    of_id: dict[str, Any],
    of_access: dict[str, Any],
    sentence: str,
) -> None:
    asked = to_provider(browser, provider)
    provider.of_id |= of_id
    provider.of_access = of_access
    refused(browser, back(browser, asked), sentence)


def test_a_flow_ends_once(provider: TestIssuer, browser: httpx2.Client) -> None:
    asked = to_provider(browser, provider)
    assert back(browser, asked).status_code == 303
    browser.post("/logout")
    assert "not begun here" in back(browser, asked).text


def test_a_refused_code_logs_nobody_in(provider: TestIssuer, browser: httpx2.Client) -> None:
    asked = to_provider(browser, provider)
    provider.said = ["invalid_grant"]
    refused(browser, back(browser, asked), "invalid_grant")


def test_a_silent_provider_is_named(provider: TestIssuer, browser: httpx2.Client) -> None:
    provider.away = True
    came = browser.get("/login/oidc")
    assert came.status_code == 503 and "does not answer" in came.text


def test_without_a_provider_there_is_no_such_way(world: World) -> None:
    with pages(world) as address, httpx2.Client(base_url=address) as found:
        assert "/login/oidc" not in found.get("/login").text
        assert found.get("/login/oidc").status_code == 403
        assert found.get("/login/callback?code=c&state=").status_code == 403
