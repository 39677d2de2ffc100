"""Secrets that sign posts to webhooks: made of a key in the home and a salt in the database, so
that neither the database nor its backup contains them.

A salt is `salt_<key>_<random>`; the first field names the key, without revealing it. A secret that
an older release kept in clear is sealed: `sealed_1_<key>_<random>_<hidden>`.
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

_BYTES = 32
_CLEAR = "whsec_"
_SEALED = "sealed_1_"


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


def new_salt(key: bytes) -> str:
    """The part of a new secret that the database keeps."""
    return f"salt_{_name(key)}_{secrets.token_hex(_BYTES)}"


def seal(key: bytes, user_name: str, clear: str) -> str:
    """A secret that an older release kept in clear as the database may have it: receivers go on
    to accept it."""
    head = f"{_SEALED}{_name(key)}_{secrets.token_hex(_BYTES)}"
    return f"{head}_{_mask(key, user_name, head, clear.encode()).hex()}"


def secret(key: bytes, user_name: str, kept: str) -> str:
    """The secret of a user, whsec_<base64>. NotFound: the salt, or the seal, belongs to another
    key."""
    sealed = kept.startswith(_SEALED)
    if kept.split("_")[2 if sealed else 1 :][:1] != [_name(key)]:
        raise NotFound(
            "The webhook's secret was made with a key that this home lacks (webhook.key). "
            "Put that file back, or make a new secret: "
            f"jedi user notify {user_name} --webhook URL.",
            code="webhook_key_missing",
        )
    if sealed:
        head, _, hidden = kept.rpartition("_")
        return _mask(key, user_name, head, bytes.fromhex(hidden)).decode()
    made = hmac.digest(key, f"{user_name}\0{kept}".encode(), hashlib.sha256)
    return _CLEAR + base64.b64encode(made).decode()


def _mask(key: bytes, user_name: str, head: str, hidden: bytes) -> bytes:
    """The exclusive or with HMACs of a counter, which nobody makes without the key; twice gives
    the same again. `head` has random bytes: no two secrets get the same mask."""
    blocks = range(-(-len(hidden) // hashlib.sha256().digest_size))
    pad = b"".join(
        hmac.digest(key, f"seal\0{user_name}\0{head}\0{n}".encode(), hashlib.sha256) for n in blocks
    )
    return bytes(a ^ b for a, b in zip(hidden, pad, strict=False))


def _name(key: bytes) -> str:
    return hmac.digest(key, b"name", hashlib.sha256).hex()[:16]
