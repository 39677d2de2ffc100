"""Values of the binds of statements, for a task of a skewed database: by the columns that a
statement compares a bind with, else by the bind's name, else by its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle, islice
from typing import Any

from benchmarks.jobs_world import ENDPOINT
from benchmarks.skewed_world import GUID, SHARES, SITES, Skewed
from jedi.core import clock
from jedi.taskbuffer.schema.tables import metadata

_COLUMNS = {column.name for table in metadata.tables.values() for column in table.columns}
_ARRAYS = re.compile(
    r"unnest\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*(?:WITH ORDINALITY\s*)?"
    r"(?:AS\s+)?(\w+)\s*\(([^()]*)\)"
)
_COMPARED = (
    r"(\w+) (?:=|<>) (?:ANY|ALL)\((?:CAST\()?%\({bind}\)s",
    r"(\w+) (?:=|<=|>=|<|>|<>|IS DISTINCT FROM) (?:CAST\()?%\({bind}\)s",
    r"%\({bind}\)s(?: AS \w+\))? (?:=|<=|>=|<|>) (?:\w+\.)?(\w+)",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A task of a skewed database whose rows a statement is asked for, so many at once."""

    world: Skewed
    large: bool
    rows: int

    @property
    def task(self) -> int:
        """Its number."""
        return self.world.large if self.large else self.world.small

    @property
    def tasks(self) -> list[int]:
        """It and those that follow."""
        return [self.task + n for n in range(min(self.rows, self.world.size.tasks - 1))]

    @property
    def jobs(self) -> list[int]:
        """Its present jobs, an ordinary one first; of five jobs of the large task one is archived.
        The numbers of jobs are those of their inputs."""
        w = self.world
        firsts = (w.first_live + 9, w.first_archived) if self.large else (w.first_small,) * 2
        return [firsts[n % 5 == 4] + n for n in range(self.rows)]

    @property
    def origins(self) -> list[int]:
        """The first jobs of its units."""
        first = self.world.first_archived if self.large else self.world.first_small
        return [first + n for n in range(self.rows)]

    @property
    def sets(self) -> list[int]:
        """Job sets of the large task."""
        return [self.world.first_live + PER * n + PER - 1 for n in range(self.rows)]

    @property
    def consumers(self) -> list[int]:
        """A consumer of each job set."""
        return [self.world.first_live + PER * n for n in range(self.rows)]

    @property
    def datasets(self) -> list[int]:
        """Its input, output and log, then those of tasks that follow."""
        first = self.world.inputs + 10 * (self.task - self.world.large)
        return [first + 10 * (n // 3) + n % 3 for n in range(self.rows)]


PER = 100
Values = Callable[[Subject], Sequence[Any] | None]
"""The values of a bind, as many as rows; None: it is NULL."""


def _same(value: object) -> Values:
    return lambda s: [value] * s.rows


def _named(form: str, first: int = 0, most: int | None = None) -> Values:
    return lambda s: [form.format(first + n % (most or s.rows)) for n in range(s.rows)]


def _numbers(first: int = 0, most: int | None = None) -> Values:
    return lambda s: [first + n % (most or s.rows) for n in range(s.rows)]


_TASKS = ("jeditaskid", "task", "taskid", "reqid", "parent_tid")
_JOBS = (
    "pandaid",
    "job",
    "outpandaid",
    "oldpandaid",
    "newpandaid",
    "panda_id",
    "old",
    "merge",
    "fileid",
    "file",
)
_SETS = ("jobsetid", "jobset", "merge_pandaid", "low", "high")
_OF_COLUMNS: dict[str, Values] = {
    **dict.fromkeys(_TASKS, lambda s: s.tasks),
    **dict.fromkeys(_JOBS, lambda s: s.jobs),
    **dict.fromkeys(_SETS, lambda s: s.sets),
    **dict.fromkeys(("originpandaid", "origin"), lambda s: s.origins),
    **dict.fromkeys(("datasetid", "masterid", "provenanceid"), lambda s: s.datasets),
    **dict.fromkeys(("unit_nr", "unit"), _numbers(1)),
    **dict.fromkeys(("workqueue_id", "queue_id"), _numbers(1, SHARES)),
    **dict.fromkeys(("lock_seq", "seq"), _same(1)),
    "change": _same(0),
    **{"k": _numbers(), "process": lambda s: [1 + 10 * (n % PER) for n in range(s.rows)]},
    **{"site": _named("BENCH{}", 0, SITES), "gshare": _named("share{}", 1, SHARES)},
    **{"ddm_endpoint": _same(ENDPOINT), "endpoint": _same(ENDPOINT), "nucleus": _same("BENCH0")},
    **{"guid": _same(GUID), "path": _named("folder{}"), "username": _named("user{}", 1)},
    **{"lfn": lambda s: [f"input.{job}" for job in s.jobs], "component": _named("component{}")},
    "datasetname": lambda s: [f"bench:out0.{task - s.world.large + 1}" for task in s.tasks],
    **{"pilot_id": _named("pilot{}"), "request_id": _named("request{}"), "key": _named("key{}")},
    **{"token_hash": _named("token{}"), "snapshot_hash": _named("snapshot{}")},
    **{"status": _same("running"), "type": _same("input"), "state": _same("open")},
    "at": lambda s: [clock.now() - timedelta(minutes=n) for n in (0, 60)],
    "new": lambda s: [90_000_000 + n for n in range(s.rows)],
}
"""Values of columns, also of arrays that a statement unnests."""
_OF_EVENTS: dict[str, Values] = {
    **dict.fromkeys(("pandaid", "job", "owner"), lambda s: s.consumers),
    **dict.fromkeys(("fileid", "file", "old"), lambda s: s.sets),
}
"""The same, in statements about events."""
_ROWS_OF_A_TASK = {*_JOBS, *_SETS, "originpandaid", "unit_nr", "k", "lfn", "process"}
"""An array of one of these has many rows of one task; an array of tasks beside it, that task."""
_OF_BINDS: dict[str, Values] = {
    **dict.fromkeys(("limit", "most", "page"), _same(1000)),
    **dict.fromkeys(("agent", "me", "user"), _same("user1")),
    **{"hours": _same(24), "after": _same(0), "since": _same(0), "percent": _same(50)},
    **{"tries": _same(3), "ahead": _same(100), "channel": _same(None), "code": _same("generated")},
    "names": _named("bench:set{}", 1),
}
"""Values of binds that no column explains."""
_OF_TYPES: dict[str, object] = {
    **dict.fromkeys(("bigint", "integer", "smallint"), 1),
    **dict.fromkeys(("double precision", "real", "numeric"), 3600),
    **{"text": "x", "boolean": True, "jsonb": "[]", "json": "[]", "bytea": r"\x00"},
    **{"timestamp with time zone": "now", "interval": "1 d"},
}
_OF_ROOMS = {"tasks": "jeditaskid", "reports": "jeditaskid", "inputs": "datasetid"}
"""The meaning of ids, beside PandaIDs."""


def values(
    name: str, sql: str, types: Mapping[str, str], subject: Subject, known: Mapping[str, Values]
) -> dict[str, str]:
    """SQL literals of a statement's binds, whose types PostgreSQL has found; `known`: values of
    single binds."""
    arrays = {
        bind: (given, array, column.split()[0])
        for given, array, columns in _ARRAYS.findall(sql)
        for bind, column in zip(re.findall(r"%\((\w+)\)s", given), columns.split(","), strict=False)
    }
    columns = {bind: _column(name, sql, bind, arrays) for bind in types}
    found = {
        bind: _chosen(name, bind, columns[bind], kind.removesuffix("[]"), subject, known)
        for bind, kind in types.items()
    }
    for bind, (given, *_) in arrays.items():
        beside = {one for one, (array, *_) in arrays.items() if array == given}
        if columns[bind] in _TASKS and {columns[one] for one in beside} & _ROWS_OF_A_TASK:
            found[bind] = [subject.task]
        if bind in found:
            most = max(len(dict.fromkeys(found[one] or ())) for one in beside if one in found)
            found[bind] = list(islice(cycle(found[bind] or [None]), most))
    return {
        bind: literal(_one(found[bind], kind, bind in arrays), kind) for bind, kind in types.items()
    }


def _column(name: str, sql: str, bind: str, arrays: Mapping[str, tuple[str, str, str]]) -> str:
    """The column that a statement compares a bind with; else that of its array."""
    _, array, column = arrays.get(bind, ("", "", ""))
    compared = [form.format(bind=bind) for form in _COMPARED]
    if array:
        compared += [rf"(\w+) = {array}\.{column}\b", rf"\b{array}\.{column} = (?:\w+\.)?(\w+)"]
    found = [one for form in compared for one in re.findall(form, sql) if one in _COLUMNS]
    return next((one for one in found if one != "id"), column)


def _chosen(
    name: str, bind: str, column: str, kind: str, subject: Subject, known: Mapping[str, Values]
) -> Sequence[Any] | None:
    """The values of a bind."""
    if given := known.get(f"{name}.{bind}"):
        return given(subject)
    room = name.partition(".")[0]
    names = {**_OF_COLUMNS, **(_OF_EVENTS if room == "events" else {})}
    ids = _OF_ROOMS.get(room, "pandaid") if bind in ("id", "ids") else ""
    for table, key in (
        (names, column),
        (_OF_BINDS, bind),
        (names, bind.removesuffix("s")),
        (names, ids),
    ):
        if key in table and _fits(found := table[key](subject), kind):
            return found
    return [_OF_TYPES.get(kind, "x")] * subject.rows


def _fits(found: Sequence[Any] | None, kind: str) -> bool:
    numbers = ("bigint", "integer", "smallint", "double precision", "real", "numeric")
    sort = int if kind in numbers else datetime if kind.startswith("timestamp") else str
    if kind in ("json", "jsonb", "boolean", "interval", "bytea"):
        return False
    return all(one is None or isinstance(one, sort) for one in (found or ())[:1])


def _one(found: Sequence[Any] | None, kind: str, unnested: bool) -> Any:
    """A value; an array keeps its order if it is unnested, and has no value twice if not."""
    if found is None or not kind.endswith("[]"):
        return found[0] if found else None
    return list(found) if unnested else list(dict.fromkeys(found))


def literal(value: Any, kind: str) -> str:
    """A value of a type of PostgreSQL as SQL."""
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_quoted, value))}]::{kind}"
    return f"{_quoted(value)}::{kind}"


def _quoted(value: Any) -> str:
    if value is None or isinstance(value, int | float):
        return "NULL" if value is None else str(value)
    return "'" + str(value).replace("'", "''") + "'"
