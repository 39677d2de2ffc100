"""What a broker knows of the world: one immutable value, kept with every decision.

Each property of sites is a column, in the order of `sites`. Where the database says 0 or NULL for
"no limit" or "unknown", the column says infinity, so that filters compare plain numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Sites as columns, and the jobs that wait in each work queue.

    `endpoint` is where a site writes (empty: nowhere), `endpoints` where it reads, first choice
    first; `usable_gb` is the room there; `pilot_age_s` is how long ago a pilot was seen.
    """

    sites: tuple[str, ...]
    status: tuple[str, ...]
    role: tuple[str, ...]
    state: tuple[str, ...]
    endpoint: tuple[str, ...]
    endpoints: tuple[tuple[str, ...], ...]
    cores: Numbers
    core_power: Numbers
    max_time_s: Numbers
    min_time_s: Numbers
    max_rss_mb: Numbers
    min_rss_mb: Numbers
    max_wdir_mb: Numbers
    usable_gb: Numbers
    pilot_age_s: Numbers
    running: Numbers
    activated: Numbers
    defined: Numbers
    queued: dict[int, int]

    def __len__(self) -> int:
        return len(self.sites)

    def only(self, names: tuple[str, ...]) -> Snapshot:
        """The same with only the sites named."""
        rows = [i for i, site in enumerate(self.sites) if site in names]
        return replace(self, **{name: _take(column, rows) for name, column in self._columns()})

    def where(self, column: str, value: str) -> Bools:
        """At which sites a column of words says `value`."""
        return np.array([word == value for word in getattr(self, column)], dtype=bool)

    def _columns(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "queued"]

    @cached_property
    def packed(self) -> bytes:
        """Compressed canonical JSON; infinity is null."""
        plain = {name: [_plain(value) for value in column] for name, column in self._columns()}
        said = {**plain, "queued": {str(k): v for k, v in sorted(self.queued.items())}}
        return zlib.compress(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON."""
        return hashlib.sha256(zlib.decompress(self.packed)).hexdigest()

    @classmethod
    def unpack(cls, packed: bytes) -> Snapshot:
        """The reverse of `packed`."""
        said = json.loads(zlib.decompress(packed))
        return cls.of(said, {int(k): v for k, v in said.pop("queued").items()})

    @classmethod
    def of(cls, columns: dict[str, list[Any]], queued: dict[int, int]) -> Snapshot:
        """From lists, one a column; None among numbers is infinity."""
        words = {"sites", "status", "role", "state", "endpoint"}
        typed: dict[str, Any] = {}
        for name, column in columns.items():
            if name in words:
                typed[name] = tuple(column)
            elif name == "endpoints":
                typed[name] = tuple(map(tuple, column))
            else:
                typed[name] = np.array([math.inf if v is None else v for v in column], dtype=float)
        return cls(**typed, queued=queued)


def _take(column: Any, rows: list[int]) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else tuple(column[i] for i in rows)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value
