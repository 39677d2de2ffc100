"""Connections to backends: one for all jobs that the same backend runs."""

from __future__ import annotations

import json
from typing import Any

from jedi_client.errors import JediError
from jedi_client.gpi.interfaces import Backend
from jedi_client.gpi.schema import class_named

REFRESH_S = 5.0
"""Least seconds between two requests to a backend. Source: docs/reference/ganga.md#monitoring."""


class UnknownBackend(JediError):
    """The plug-in of a backend is not installed."""

    code = "unknown_backend"


def key_of(settings: Any) -> str:
    """The connection that a backend's settings need: its class, and the values that choose the
    service. Other options don't."""
    chosen, name = settings.where(), type(settings).__name__
    return f"{name} {json.dumps(chosen, sort_keys=True)}" if chosen else name


def settings_of(key: str) -> Any:
    """Settings with all defaults for a connection. UnknownBackend; JediError: it can't be reached
    from here."""
    name, _, chosen = key.partition(" ")
    found: Any = class_named(name)
    if found is None:
        raise UnknownBackend(f"There is no backend {name}. Install the package of this plug-in.")
    return found.at(json.loads(chosen or "{}"))


class Connections:
    """The connections of a session."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Backend, float]] = {}

    def to(self, key: str) -> Backend:
        """The backend of a connection. UnknownBackend."""
        return self._entry(key)[0]

    def period(self, key: str) -> float:
        """Seconds between two requests to a backend."""
        return self._entry(key)[1]

    def close(self) -> None:
        self._open = {}

    def _entry(self, key: str) -> tuple[Backend, float]:
        if key not in self._open:
            settings = settings_of(key)
            self._open[key] = settings.connect(), settings.refresh_s
        return self._open[key]
