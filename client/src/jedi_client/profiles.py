"""Profiles: the services of a user, each with its URL and token, in one file of mode 0600."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jedi_client.errors import BadInput, JediError, Problem, Unreachable

DEFAULT = "default"


_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Session:
    """A login by an identity provider: the profile's name, the place and means of renewal, the
    time (seconds of the epoch) at which the token expires, and the place that revokes its refresh
    token (RFC 7009; None: the provider names none, or an older release logged in)."""

    profile: str
    token_endpoint: str
    client_id: str
    refresh_token: str | None
    expires_at: float
    resource: str | None = None
    revocation_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A service: `url` is unix:PATH, http://HOST:PORT or https://HOST:PORT; `ca` a file of
    certificates to trust, `pin` the sha256 of the only certificate to trust, in hex digits."""

    url: str
    token: str | None = None
    ca: str | None = None
    pin: str | None = None
    session: Session | None = None

    def __post_init__(self) -> None:
        kind = urlsplit(self.url).scheme
        if kind not in ("unix", "http", "https"):
            rule = "the URL of a service begins with https://, http:// or unix:"
            raise BadInput([Problem("server", self.url, rule, "Write https://jedi.example.org")])
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            rule = "a token is one word of ASCII letters, digits and signs"
            raise BadInput([Problem("token", None, rule, "Copy all of it, and nothing else")])


def profiles_file() -> Path:
    """JEDI_PROFILES, or jedi/profiles.json in the user's directory of settings."""
    if given := os.environ.get("JEDI_PROFILES"):
        return Path(given)
    settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(settings, "jedi", "profiles.json")


def load() -> dict[str, Profile]:
    """All profiles by name. JediError if the file is damaged or open to others."""
    path = profiles_file()
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise JediError(
            f"{path} is damaged ({error}): remove it and log in again.", code="profiles_damaged"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise JediError(
            f"{path} holds tokens, and others may read it: chmod 600 {path}", code="profiles_open"
        )
    known = {field.name for field in fields(Profile)}
    return {
        name: _profile({key: value for key, value in one.items() if key in known})
        for name, one in found.items()
    }


def _profile(found: dict[str, Any]) -> Profile:
    session = found.pop("session", None)
    return Profile(**found, session=Session(**session) if session else None)


def save(profiles: dict[str, Profile]) -> None:
    """Replace the file by one with these profiles, for the user alone."""
    path = profiles_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = json.dumps({name: asdict(one) for name, one in profiles.items()}, indent=2)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as fresh:  # mode 0600
        fresh.write(text)
        fresh.flush()
        os.fsync(fresh.fileno())
    Path(fresh.name).replace(path)


def chosen(server: str | None = None, name: str | None = None) -> Profile:
    """The service to ask: `server`, else the profile `name` or JEDI_PROFILE, else JEDI_URL, else
    the unix socket of JEDI_HOME if it is there, else the default profile.

    JEDI_TOKEN is the token of a URL that no profile has.
    """
    known = load()
    name = name or os.environ.get("JEDI_PROFILE")
    url = server or (None if name else os.environ.get("JEDI_URL"))
    if url:
        return next(
            (one for one in known.values() if one.url == url.rstrip("/")),
            Profile(
                url.rstrip("/"), os.environ.get("JEDI_TOKEN") or None, os.environ.get("JEDI_CA")
            ),
        )
    if name:
        if name not in known:
            rule = f"there is no such profile in {profiles_file()}"
            remedy = f"Choose among {', '.join(known) or 'none'}, or jedi-task login"
            raise BadInput([Problem("profile", name, rule, remedy)])
        return known[name]
    if "JEDI_HOME" not in os.environ and not home().is_dir() and DEFAULT in known:
        return known[DEFAULT]
    return Profile(f"unix:{socket_of(home())}")


def home() -> Path:
    """JEDI_HOME, default ~/.jedi."""
    found = os.environ.get("JEDI_HOME") or Path.home() / ".jedi"
    return Path(found).expanduser().absolute()


def socket_of(place: Path) -> Path:
    """The service's unix socket of a home, which names another directory if its own path is too
    long for a socket, or closed to the database's account."""
    for name in ("sockets", "where"):
        try:
            return Path((place / name).read_text().removesuffix("\n"), "api.sock")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unreachable(
                f"You may not enter JEDI's home {place} ({error.strerror}). JEDI_HOME names "
                "another one, JEDI_URL a service elsewhere.",
                code="home_closed",
                home=str(place),
            ) from error
    return place / "api.sock"


def facts(profile: Profile) -> dict[str, Any]:
    """A profile without its tokens."""
    hidden = ("token", "session")
    return {key: value for key, value in asdict(profile).items() if key not in hidden}
