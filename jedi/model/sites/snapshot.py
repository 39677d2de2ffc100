"""Snapshot: the data that a broker uses, one immutable value, kept with every decision.

Each property of sites is a column, in the order of `sites`. Where the database says 0 or NULL for
"no limit" or "unknown", the column says infinity, so that filters compare plain numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.core import states
from jedi.model.arrays import Bools, Numbers

Columns = Mapping[tuple[str, ...], Sequence[float | None]]
"""Figures of each site under keys of several words; None: infinity."""

_DEFAULT_CORES, _DEFAULT_POWER, _DEFAULT_TRANSFERRING = 1.0, 10.0, 2000.0


def _words(default: str = "") -> dict[str, Any]:
    return {"kind": "words", "default": default}


def _numbers(default: float, *, positive: bool = False) -> dict[str, Any]:
    """`positive`: other values count as unset."""
    return {"kind": "numbers", "default": default, "positive": positive}


@dataclass(frozen=True, eq=False)
class Grid:
    """Numbers of each site under keys of several words: values[k] is the column of keys[k]."""

    keys: tuple[tuple[str, ...], ...]
    values: Numbers
    _totals: dict[tuple[Any, ...], Numbers] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, columns: Columns, n_sites: int) -> Grid:
        """From a column under each key."""
        figures = [_figures(column) for column in columns.values()]
        values = np.array(figures, float).reshape(len(columns), n_sites)
        return cls(tuple(columns), values)

    def take(self, rows: Sequence[int]) -> Grid:
        """Only these sites."""
        return Grid(self.keys, self.values[:, rows])

    def total(self, *wanted: frozenset[str] | None) -> Numbers:
        """The sum of all columns whose words are in a set, one set a place; None: any."""
        if wanted not in self._totals:
            rows = [
                row
                for row, key in enumerate(self.keys)
                if all(some is None or word in some for word, some in zip(key, wanted, strict=True))
            ]
            self._totals[wanted] = self.values[rows].sum(axis=0)
        return self._totals[wanted]

    def row(self, *key: str) -> Numbers | None:
        """The column of one key, if there is one."""
        return self.values[self.keys.index(key)] if key in self.keys else None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Sites as columns, and the jobs that wait in each work queue.

    `endpoint` is where a site writes (empty: nowhere), `endpoints` where it reads, first choice
    first; `free_gb` is the room there, `usable_gb` without the part that must stay free,
    `reserved_gb` all that is not to be counted on. `reads_lan`, `writes_lan`: some endpoint serves
    the site's jobs; `gets_wan`, `sends_wan`: some endpoint takes their inputs from, and gives their
    outputs to, other sites; `takes_wan`: `endpoint` takes outputs of others. `queued_in` files are
    on their way to the site's endpoints. Ages are whole minutes: since a pilot was seen, a job
    started, and jobs wait there for a slot without a break (0: none waits). Lists are joined by
    commas. `jobs` counts live ones by (global share, resource type, status), `slots` that a site
    declares to keep by (share, resource type), infinity: none declared; `streaming`: pilots come
    before there are jobs; `links` to nuclei by (nucleus, what): closeness, files queued for
    production and express, MB/s. `tapes` are endpoints on tape, `unreadable` the ones that give
    nothing to other sites; `readers` has the endpoints that each online site with a storage reads,
    near and far, each set of them once.
    """

    sites: tuple[str, ...] = field(metadata=_words())
    status: tuple[str, ...] = field(metadata=_words("online"))
    role: tuple[str, ...] = field(metadata=_words("nucleus"))
    state: tuple[str, ...] = field(metadata=_words("ACTIVE"))
    type: tuple[str, ...] = field(metadata=_words("unified"))
    cloud: tuple[str, ...] = field(metadata=_words("WORLD"))
    tier: tuple[str, ...] = field(metadata=_words())
    grid_site: tuple[str, ...] = field(metadata=_words())
    policy: tuple[str, ...] = field(metadata=_words())
    releases: tuple[str, ...] = field(metadata=_words())
    software: tuple[str, ...] = field(metadata=_words())
    platforms: tuple[str, ...] = field(metadata=_words())
    connectivity: tuple[str, ...] = field(metadata=_words("full"))
    job_seed: tuple[str, ...] = field(metadata=_words("all"))
    allowed: tuple[str, ...] = field(metadata=_words())
    excluded: tuple[str, ...] = field(metadata=_words())
    full_chain: tuple[str, ...] = field(metadata=_words())
    jumbo: tuple[str, ...] = field(metadata=_words())
    endpoint: tuple[str, ...] = field(metadata=_words())
    endpoints: tuple[tuple[str, ...], ...] = field(metadata={"kind": "lists", "default": ()})
    cores: Numbers = field(metadata=_numbers(_DEFAULT_CORES, positive=True))
    core_power: Numbers = field(metadata=_numbers(_DEFAULT_POWER, positive=True))
    unified: Numbers = field(metadata=_numbers(0.0))
    streaming: Numbers = field(metadata=_numbers(0.0))
    max_time_s: Numbers = field(metadata=_numbers(math.inf))
    min_time_s: Numbers = field(metadata=_numbers(0.0))
    max_rss_mb: Numbers = field(metadata=_numbers(math.inf))
    min_rss_mb: Numbers = field(metadata=_numbers(0.0))
    max_wdir_mb: Numbers = field(metadata=_numbers(math.inf))
    always_direct: Numbers = field(metadata=_numbers(0.0))
    direct_lan: Numbers = field(metadata=_numbers(0.0))
    direct_wan: Numbers = field(metadata=_numbers(0.0))
    gpu: Numbers = field(metadata=_numbers(0.0))
    local_only: Numbers = field(metadata=_numbers(0.0))
    no_pilots_needed: Numbers = field(metadata=_numbers(0.0))
    jumbo_events: Numbers = field(metadata=_numbers(0.0))
    transferring_limit: Numbers = field(metadata=_numbers(_DEFAULT_TRANSFERRING))
    pledged_cores: Numbers = field(metadata=_numbers(math.inf))
    max_io_kb_s: Numbers = field(metadata=_numbers(math.inf))
    max_disk_io_kb_s: Numbers = field(metadata=_numbers(math.inf))
    disk_io_kb_s: Numbers = field(metadata=_numbers(0.0))
    free_gb: Numbers = field(metadata=_numbers(math.inf))
    usable_gb: Numbers = field(metadata=_numbers(math.inf))
    reserved_gb: Numbers = field(metadata=_numbers(0.0))
    total_gb: Numbers = field(metadata=_numbers(math.inf, positive=True))
    reads_lan: Numbers = field(metadata=_numbers(1.0))
    writes_lan: Numbers = field(metadata=_numbers(1.0))
    gets_wan: Numbers = field(metadata=_numbers(1.0))
    sends_wan: Numbers = field(metadata=_numbers(1.0))
    takes_wan: Numbers = field(metadata=_numbers(1.0))
    queued_in: Numbers = field(metadata=_numbers(0.0))
    pilot_age_s: Numbers = field(metadata=_numbers(0.0))
    start_age_s: Numbers = field(metadata=_numbers(0.0))
    wait_age_s: Numbers = field(metadata=_numbers(0.0))
    starts_per_h: Numbers = field(metadata=_numbers(math.inf))
    workers: Numbers = field(metadata=_numbers(0.0))
    jobs: Grid
    links: Grid
    slots: Grid
    queued: dict[int, int]
    tapes: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    readers: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.sites)

    def only(self, names: Collection[str]) -> Snapshot:
        """The same with only the sites named."""
        chosen = set(names)
        rows = [i for i, site in enumerate(self.sites) if site in chosen]
        columns = {f.name: _take(getattr(self, f.name), rows) for f in _COLUMNS}
        grids = {name: getattr(self, name).take(rows) for name in ("jobs", "links", "slots")}
        return replace(self, **columns, **grids)

    def where(self, column: str, value: str) -> Bools:
        """At which sites a column of words says `value`."""
        words, rows = self._distinct(column)
        return np.asarray(rows == words.get(value, -1))

    def spread(self, column: str, figure: Callable[[str], float]) -> Numbers:
        """A number for each word of a column, worked out once for each different word."""
        words, rows = self._distinct(column)
        return np.array([figure(word) for word in words], float)[rows]

    def marked(self, column: str, mark: Callable[[str], bool]) -> Bools:
        """Like `spread`, for values that follow from the word alone: worked out once for all."""
        if (column, mark) not in self._marks:
            self._marks[column, mark] = self.spread(column, mark).astype(bool)
        return self._marks[column, mark]

    def given(self, figures: Mapping[str, float]) -> Numbers:
        """A column from values of some sites; 0 at the others."""
        column = np.zeros(len(self))
        at = self._distinct("sites")[0]
        for site, figure in figures.items():
            if site in at:
                column[at[site]] = figure
        return column

    def position(self, site: str) -> int | None:
        """The position of a site, if it is there."""
        return self._distinct("sites")[0].get(site)

    def _distinct(self, column: str) -> tuple[dict[str, int], NDArray[np.int64]]:
        """The words of a column, numbered, and the number at each site."""
        if column not in self._words:
            numbers: dict[str, int] = {}
            at = [numbers.setdefault(word, len(numbers)) for word in getattr(self, column)]
            self._words[column] = numbers, np.array(at, np.int64)
        return self._words[column]

    @cached_property
    def _words(self) -> dict[str, tuple[dict[str, int], NDArray[np.int64]]]:
        return {}

    @cached_property
    def _marks(self) -> dict[tuple[str, Callable[[str], bool]], Bools]:
        return {}

    @property
    def running(self) -> Numbers:
        """Jobs at work, or about to be."""
        return self.jobs.total(None, None, _AT_SITE)

    @property
    def activated(self) -> Numbers:
        """Jobs that wait for a slot."""
        return self.jobs.total(None, None, _ACTIVATED)

    @property
    def defined(self) -> Numbers:
        """Jobs that wait for their inputs."""
        return self.jobs.total(None, None, _BEFORE)

    @cached_property
    def packed(self) -> bytes:
        """Compressed canonical JSON; infinity is null."""
        return zlib.compress(json.dumps(self.plain(), **_CANONICAL).encode())

    def plain(self) -> dict[str, Any]:
        """The snapshot as JSON values; infinity is None."""
        return {
            **{f.name: _plain(getattr(self, f.name)) for f in _COLUMNS},
            **{
                name: [
                    [list(key), _plain(values)]
                    for key, values in zip(grid.keys, grid.values, strict=True)
                ]
                for name, grid in (
                    ("jobs", self.jobs),
                    ("links", self.links),
                    ("slots", self.slots),
                )
                if grid.keys or name != "slots"
            },
            "queued": {str(k): v for k, v in sorted(self.queued.items())},
            "tapes": list(self.tapes),
            "unreadable": list(self.unreadable),
            "readers": [list(one) for one in self.readers],
        }

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON."""
        return hashlib.sha256(zlib.decompress(self.packed)).hexdigest()

    @classmethod
    def unpack(cls, packed: bytes) -> Snapshot:
        """The reverse of `packed`."""
        return cls.read(json.loads(zlib.decompress(packed)))

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Snapshot:
        """The reverse of `plain`."""
        jobs, links, slots = (
            {tuple(key): column for key, column in stored.get(name, ())}
            for name in ("jobs", "links", "slots")
        )
        queued = {int(k): v for k, v in stored["queued"].items()}
        return replace(
            cls.of(stored, queued, jobs, links, slots),
            tapes=tuple(stored.get("tapes", ())),
            unreadable=tuple(stored.get("unreadable", ())),
            readers=tuple(map(tuple, stored.get("readers", ()))),
        )

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Any],
        queued: Mapping[int, int],
        jobs: Columns | None = None,
        links: Columns | None = None,
        slots: Columns | None = None,
    ) -> Snapshot:
        """From lists, one a column; None among numbers is infinity, a column that is left out has
        the value of a site that says nothing. `running`, `activated` and `defined` count jobs of
        no share."""
        n = len(columns["sites"])
        counted = dict(jobs or {})
        for status in ("running", "activated", "defined"):
            if status in columns:
                counted[("", "", status)] = columns[status]
        made = {f.name: _column(f.metadata, columns.get(f.name), n) for f in _COLUMNS}
        return cls(
            **made,
            jobs=Grid.of(counted, n),
            links=Grid.of(links or {}, n),
            slots=Grid.of(slots or {}, n),
            queued=dict(queued),
        )


_COLUMNS = tuple(f for f in fields(Snapshot) if "kind" in f.metadata)
KINDS: Mapping[str, str] = {f.name: f.metadata["kind"] for f in _COLUMNS}
"""The columns of sites: words, numbers, or lists of words."""

_AT_SITE = frozenset(states.JOB_AT_SITE)
_ACTIVATED = frozenset({"activated"})
_BEFORE = frozenset(states.JOB_QUEUED) - _ACTIVATED
_CANONICAL: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "allow_nan": False}


def _column(about: Mapping[str, Any], stored: Sequence[Any] | None, n: int) -> Any:
    values = [about["default"]] * n if stored is None else stored
    match about["kind"]:
        case "numbers":
            figures = _figures(values)
            if not about["positive"]:
                return figures
            return np.where((figures > 0) & (figures < math.inf), figures, about["default"])
        case "lists":
            return tuple(map(tuple, values))
    return tuple(values)


def _figures(values: Sequence[float | None]) -> Numbers:
    return np.array([math.inf if value is None else value for value in values], float)


def _take(column: Any, rows: list[int]) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else tuple(column[i] for i in rows)


def _plain(column: Any) -> list[Any]:
    if not isinstance(column, np.ndarray):
        return list(column)
    if np.isfinite(column).all():
        return list(column.tolist())
    return [None if math.isinf(value) else value for value in column.tolist()]
