"""The keys of an identity provider: fetched when they are first needed, again for an unknown key
id, and every hour. While the provider does not answer, the known ones serve for a day."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from joserfc import jwk
from joserfc.errors import JoseError

from jedi.core import clock
from jedi.core.errors import Unreachable
from jedi.service.users.oidc import SigningKey, bad_token, is_private

RETRY_S = 5.0
"""Least seconds between two fetches: tokens of strangers cause no more."""

KEYS_S = 3600.0
KEYS_MAX_S = 86_400.0
FETCH_S = 5.0
DOCUMENT_MAX = 2**18
"""Bytes of a document of the provider."""

_DISCOVERY = "/.well-known/openid-configuration"
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError, TimeoutError)
_KINDS = {"RS256": "RSA", "ES256": "EC"}


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key for signatures, with its id and kind."""

    kid: str | None
    kind: str
    key: SigningKey


class Issuer:
    """An identity provider, asked for its keys and endpoints."""

    def __init__(self, url: str, log: Any) -> None:
        self.url = url
        self._log = log
        self._lock = anyio.Lock()
        self._keys: Sequence[KnownKey] = ()
        self._document: Mapping[str, Any] = {}
        self._fetched = self._tried = float("-inf")

    async def key(self, header: dict[str, Any]) -> SigningKey:
        """The key that a token's header names. Forbidden; Unreachable."""
        found = self._find(header)
        old = clock.monotonic() > self._fetched + KEYS_S
        if found is None or (old and not self._lock.locked()):
            async with self._lock:  # those who waited may find it fetched
                if clock.monotonic() >= self._tried + RETRY_S:
                    await self._fetch()
            found = self._find(header)
        if found is None and self._fetched < self._tried:
            raise Unreachable("The identity provider does not answer. Try again.")
        if found is None:
            raise bad_token("The token's key is not one of the identity provider's.")
        return found

    async def endpoint(self, name: str) -> str:
        """The URL of the provider's endpoint of this name. Unreachable."""
        if clock.monotonic() > self._fetched + KEYS_S:
            async with self._lock:
                if clock.monotonic() >= self._tried + RETRY_S:
                    await self._fetch()
        found = self._document.get(name)
        if not isinstance(found, str) or not is_private(found):
            raise Unreachable("The identity provider does not answer. Try again.")
        return found

    def _find(self, header: dict[str, Any]) -> SigningKey | None:
        if clock.monotonic() > self._fetched + KEYS_MAX_S:
            return None
        kid = header.get("kid")
        fitting = [
            one.key
            for one in self._keys
            if one.kind == _KINDS[header["alg"]] and (kid is None or one.kid == kid)
        ]
        return fitting[0] if len(fitting) == 1 else None

    async def _fetch(self) -> None:
        """Fetch the keys; a failure is logged and leaves the known ones."""
        self._tried = clock.monotonic()
        try:
            with anyio.fail_after(FETCH_S):
                async with httpx2.AsyncClient(timeout=FETCH_S) as client:
                    found = await _document(client, self.url.rstrip("/") + _DISCOVERY)
                    if found.get("issuer") != self.url:
                        raise ValueError(f"its document is of issuer {str(found.get('issuer'))!a}")
                    self._keys = keys_of(await _document(client, str(found.get("jwks_uri"))))
                    self._document = found
            self._fetched = clock.monotonic()
        except _FAILURES as error:
            why = f"{type(error).__name__}: {error}"[:500]
            self._log.warning("identity provider", issuer=self.url, error=why)


async def _document(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    if not is_private(url):
        raise ValueError(f"{url[:200]!a} is no https:// URL")
    async with client.stream("GET", url) as answer:
        answer.raise_for_status()
        return await read_document(answer, url)


async def read_document(answer: httpx2.Response, url: str) -> dict[str, Any]:
    """The JSON object of an answer. ValueError."""
    content = bytearray()
    async for piece in answer.aiter_bytes():
        content += piece
        if len(content) > DOCUMENT_MAX:
            raise ValueError(f"{url} has more than {DOCUMENT_MAX} bytes")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"{url} holds no JSON object")
    return found


def keys_of(document: dict[str, Any]) -> list[KnownKey]:
    """The keys of a JWKS that are for signatures of a kind that the service takes."""
    listed = document.get("keys")
    found = [_known(one) for one in listed] if isinstance(listed, list) else []
    return [one for one in found if one is not None]


def _known(found: Any) -> KnownKey | None:
    if not isinstance(found, dict) or found.get("use") not in (None, "sig"):
        return None
    kid, kind = found.get("kid"), found.get("kty")
    if kind == "EC" and found.get("crv") != "P-256":
        return None
    try:
        key = jwk.import_key(found)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(key, jwk.RSAKey | jwk.ECKey) or not isinstance(kid, str | None):
        return None
    return KnownKey(kid, str(kind), key)
