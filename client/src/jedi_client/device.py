"""Login by an identity provider on another screen (RFC 8628), and the renewal of its tokens."""

from __future__ import annotations

import fcntl
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from jedi_client import profiles
from jedi_client.errors import Forbidden, JediError, Unreachable
from jedi_client.profiles import Profile, Session

ANSWER_S = 30.0
EARLY_S = 60.0
"""A token is renewed so long before it expires."""

SLOWER_S = 5.0
"""Seconds that `slow_down` adds to the interval (RFC 8628, 3.5)."""

ANSWER_MAX = 2**20
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def log_in(
    facts: Mapping[str, Any],
    profile: Profile,
    name: str,
    show: Callable[[str, str], None],
    wait: Callable[[float], None] = time.sleep,
) -> Profile:
    """The profile with tokens of the provider that the service's `facts` name; `show` gets the
    page to open and the code. Forbidden: denied or too late."""
    found = _discover(facts["issuer"], profile.ca)
    asked = {"client_id": facts["client_id"], "scope": facts["scopes"]}
    if "://" in facts["audience"]:
        asked["resource"] = facts["audience"]  # RFC 8707: a URI
    begun = _post(_endpoint(found, "device_authorization_endpoint"), asked, profile.ca)
    page = begun.get("verification_uri_complete") or begun["verification_uri"]
    show(str(page), str(begun["user_code"]))
    place = _endpoint(found, "token_endpoint")
    token = _poll(place, asked, begun, profile.ca, wait)
    revokes = found.get("revocation_endpoint")
    session = Session(
        name,
        place,
        facts["client_id"],
        None,
        0.0,
        asked.get("resource"),
        revokes if isinstance(revokes, str) else None,
    )
    return _with(profile, session, token)


def _poll(
    place: str,
    begun_with: Mapping[str, str],
    begun: Mapping[str, Any],
    ca: str | None,
    wait: Callable[[float], None],
) -> dict[str, Any]:
    """Ask for the token until the user has decided."""
    kept = {name: one for name, one in begun_with.items() if name != "scope"}
    asked = {**kept, "grant_type": _GRANT, "device_code": begun["device_code"]}
    interval, left = float(begun.get("interval") or 5), float(begun["expires_in"])
    while left > 0:
        wait(interval)
        left -= interval
        try:
            return _post(place, asked, ca)
        except Unreachable:
            interval *= 2  # RFC 8628, 3.5: fewer requests after a time-out
        except Forbidden as error:
            match error.code:
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval += SLOWER_S
                case "access_denied":
                    raise Forbidden("The login was denied.", code="access_denied") from None
                case "expired_token":
                    break
                case _:
                    raise
    raise Forbidden("Nobody confirmed the code in time: log in again.", code="expired_token")


def _with(profile: Profile, session: Session, token: Mapping[str, Any]) -> Profile:
    expires_at = time.time() + float(token.get("expires_in") or 300)
    refresh = token.get("refresh_token") or session.refresh_token
    kept = replace(session, refresh_token=refresh, expires_at=expires_at)
    return replace(profile, token=str(token["access_token"]), session=kept)


def renewed(profile: Profile) -> Profile:
    """The profile with a token that is valid for a while. Processes renew one after the other: a
    provider may take each refresh token once. Forbidden: the login has ended."""
    if not _is_old(profile):
        return profile
    assert profile.session
    name = profile.session.profile
    with _alone():
        known = profiles.load()
        kept = known.get(name)
        if kept and kept.session and kept.url == profile.url:
            profile = kept  # another process may have renewed it
        if not _is_old(profile):
            return profile
        fresh = _renew(profile)
        if fresh is not profile and name in known:
            profiles.save({**known, name: fresh})
    return fresh


def _renew(profile: Profile) -> Profile:
    session = profile.session
    assert session
    valid = time.time() < session.expires_at
    ended = Forbidden(f"Your login has ended: jedi-task login {profile.url}", code="login_ended")
    if not session.refresh_token:
        if valid:
            return profile
        raise ended
    asked = {
        "grant_type": "refresh_token",
        "refresh_token": session.refresh_token,
        "client_id": session.client_id,
    }
    if session.resource:
        asked["resource"] = session.resource
    try:
        return _with(profile, session, _post(session.token_endpoint, asked, profile.ca))
    except JediError as error:
        if valid:
            return profile
        raise ended if isinstance(error, Forbidden) else error from None


def forget(name: str) -> tuple[bool, str | None]:
    """Forget a profile. Return whether the provider has revoked its refresh token (RFC 7009), and
    the reason if it may still be valid. Another process that renews it comes before or after."""
    with _alone():
        known = profiles.load()
        profile = known.pop(name, None)
        revoked, why = _revoke(profile) if profile else (False, None)
        profiles.save(known)
    return revoked, why


def _revoke(profile: Profile) -> tuple[bool, str | None]:
    session = profile.session
    if session is None or not session.refresh_token:
        return False, None
    if session.revocation_endpoint is None:
        return False, "the identity provider revokes no tokens: the login ends when it expires."
    asked = {
        "token": session.refresh_token,
        "token_type_hint": "refresh_token",
        "client_id": session.client_id,
    }
    try:
        _send(session.revocation_endpoint, urlencode(asked).encode(), profile.ca)
    except JediError as error:
        return False, f"the login may still be valid at the identity provider: {error.sentence}"
    return True, None


def _is_old(profile: Profile) -> bool:
    return profile.session is not None and time.time() > profile.session.expires_at - EARLY_S


@contextmanager
def _alone() -> Iterator[None]:
    path = profiles.profiles_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _discover(issuer: str, ca: str | None) -> dict[str, Any]:
    found = _ask(issuer.rstrip("/") + "/.well-known/openid-configuration", None, ca)
    if found.get("issuer") != issuer:
        raise Unreachable(f"{issuer} describes another identity provider.", code="wrong_issuer")
    return found


def _endpoint(found: Mapping[str, Any], name: str) -> str:
    if not isinstance(found.get(name), str):
        raise Unreachable(f"The identity provider has no {name}.", code="no_device_flow")
    return str(found[name])


def _post(url: str, asked: Mapping[str, str], ca: str | None) -> dict[str, Any]:
    return _ask(url, urlencode(asked).encode(), ca)


def _ask(url: str, body: bytes | None, ca: str | None) -> dict[str, Any]:
    """A JSON object. Forbidden with the provider's code; Unreachable."""
    return _object(_send(url, body, ca), url)


def _send(url: str, body: bytes | None, ca: str | None) -> bytes:
    """The content of an answer. Forbidden with the provider's code; Unreachable."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not local:
        raise Unreachable(f"{url} is no https:// URL: it gets no login.", code="bad_provider")
    context = ssl.create_default_context()
    if ca:
        context.load_verify_locations(ca)
    request = urllib.request.Request(url, body, {"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S, context=context) as answer:
            content: bytes = answer.read(ANSWER_MAX)
            return content
    except urllib.error.HTTPError as error:
        found = _object(error.read(ANSWER_MAX), url)
        why = str(found.get("error_description") or found.get("error"))
        raise Forbidden(
            f"The identity provider refuses: {why}.", code=str(found.get("error", "refused"))
        ) from None
    except OSError as error:
        raise Unreachable(f"The identity provider {url} does not answer ({error}).") from error


def _object(content: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable(f"{url} answers without JSON.", code="bad_provider")
    return found
