"""Secrets that sign what is posted to webhooks: made of a key in the home and a seed in the
database, so that neither the database nor its backup tells them.

A seed is `seed_<key>_<random>`; the first field names the key, without telling it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from jedi.core.errors import NotFound

_MARK = "seed"
_BYTES = 32
_CLEAR = "whsec_"


def key_of(file: Path) -> bytes:
    """The key in a file that only its owner reads; it is made where there is none."""
    with suppress(FileNotFoundError):
        return file.read_bytes()
    fresh = file.with_name(f"{file.name}.{secrets.token_hex(8)}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
        writing.write(secrets.token_bytes(_BYTES))
        writing.flush()
        os.fsync(writing.fileno())
    with suppress(FileExistsError):  # another's, made at this moment
        os.link(fresh, file)
    fresh.unlink()
    return file.read_bytes()


def new_seed(key: bytes) -> str:
    """What the database keeps of a new secret."""
    return f"{_MARK}_{_name(key)}_{secrets.token_hex(_BYTES)}"


def secret(key: bytes, user_name: str, kept: str) -> str:
    """The secret of a user, whsec_<base64>. One that an older release kept in clear stays as it
    is. NotFound: the seed belongs to another key."""
    if kept.startswith(_CLEAR):
        return kept
    if kept.split("_")[1:2] != [_name(key)]:
        raise NotFound(
            "The webhook's secret was made with a key that this home has not (webhook.key). "
            "Put that file back, or make a new secret: "
            f"jedi user notify {user_name} --webhook URL.",
            code="webhook_key_missing",
        )
    made = hmac.digest(key, f"{user_name}\0{kept}".encode(), hashlib.sha256)
    return _CLEAR + base64.b64encode(made).decode()


def _name(key: bytes) -> str:
    return hmac.digest(key, b"name", hashlib.sha256).hex()[:16]
