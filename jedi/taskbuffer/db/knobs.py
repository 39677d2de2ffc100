"""jedi_knobs: overrides of the preset, with their history."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core.knobs import KNOBS, Knobs
from jedi.taskbuffer.db.statement import changes, returns


class KnobOverride(NamedTuple):
    """A knob that differs from the preset, and its last change."""

    name: str
    value: Any
    username: str | None
    modificationtime: datetime


class KnobSetting(NamedTuple):
    """A change of a knob; value None: back to the preset."""

    modificationtime: datetime
    username: str
    value: Any


def load(tx: Connection) -> Knobs:
    """All knobs as they are in force."""
    return built(json.dumps({row.name: row.value for row in OVERRIDES.rows(tx)}))


@lru_cache(maxsize=4)
def built(overrides: str) -> Knobs:
    """The knobs with these overrides, an object in JSON. They are shared: to build them takes 0.3
    ms, half of a small read."""
    return Knobs(json.loads(overrides))


_FORGET = changes("DELETE FROM jedi_knobs WHERE component = :c AND key = :k")
_PUT = changes("""
INSERT INTO jedi_knobs (component, key, value, username)
VALUES (:c, :k, CAST(:v AS jsonb), :u) ON CONFLICT (component, key)
  DO UPDATE SET value = excluded.value, username = :u,
  modificationtime = jedi_now()
""")
_NOTE = changes("""
INSERT INTO jedi_knobs_history (component, key, value, username)
VALUES (:c, :k, CAST(:v AS jsonb), :u)
""")


def put(tx: Connection, name: str, value: Any, user_name: str) -> None:
    """Set a knob (its value checked by the caller with Knob.check); None: back to the preset."""
    knob = KNOBS[name]
    values = {"c": knob.component, "k": knob.key, "u": user_name}
    if value is None:
        _FORGET.run(tx, **values)
    else:
        _PUT.run(tx, **values, v=json.dumps(value))
    _NOTE.run(tx, **values, v=None if value is None else json.dumps(value))


OVERRIDES = returns(KnobOverride)("""
-- The knobs that differ from the preset.
SELECT component || '.' || key AS name, value, username, modificationtime
FROM jedi_knobs ORDER BY 1
""")


_HISTORY = returns(KnobSetting)("""
SELECT modificationtime, username, value FROM jedi_knobs_history
WHERE component = :c AND key = :k ORDER BY change_id DESC
""")


def history(tx: Connection, name: str) -> list[KnobSetting]:
    """Every change of a knob, newest first."""
    knob = KNOBS[name]
    wanted = {"c": knob.component, "k": knob.key}
    return _HISTORY.rows(tx, **wanted)
