"""Plans of all statements in a skewed database, each beside the best one that PostgreSQL has for
it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, TextClause, text

from benchmarks.plan_calls import BEFORE, CALLS, KNOWN, LEFT_OUT, WITHOUT_PLAN, sent
from benchmarks.plan_values import Subject, literal, values
from benchmarks.skewed_world import Skewed
from jedi.taskbuffer.db.engine import plain
from tools.statementdocs import BEGINNING, statements

TIMEOUT_MS = 15_000
"""A statement may take as long."""
_LEAST_MS = 1_000
"""A shorter limit would stop the end of a trial, too."""
TIMES = 3
"""A plan is a finding if another one costs so many times less."""
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "each time": {"plan_cache_mode": "force_custom_plan"},
    "once": {"plan_cache_mode": "force_generic_plan"},
    "once, by key": {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"},
    "without nested loops": {"plan_cache_mode": "force_custom_plan", "enable_nestloop": "off"},
    "without hashes": {"plan_cache_mode": "force_custom_plan", "enable_hashjoin": "off"},
    "without bitmaps": {"plan_cache_mode": "force_custom_plan", "enable_bitmapscan": "off"},
}
"""Plans that are tried beside that of production."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement as psycopg takes it, the planner's settings for it in production, and, if a
    function sends it, the values of its binds and the settings of its transaction."""

    name: str
    sql: str
    settings: Mapping[str, str]
    given: Mapping[str, Any] | None = None
    transaction: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that was executed: its time; rows that its nodes returned or removed; rows that join
    filters removed; pages that it read."""

    ms: float
    rows: int
    removed: int
    pages: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement for a task: its plan in production (None: it was stopped), the best one and its
    name."""

    name: str
    large: bool
    plan: Plan | None
    best: Plan | None
    how: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds of a plan: other plans are tried if it costs more than `least`, in time or, which
    does not depend on the machine, in rows; `removed`: rows that join filters may remove; `most`:
    rows that it may read."""

    least: float
    removed: int
    by_rows: bool = False
    most: float = math.inf

    def cost(self, plan: Plan | None) -> float:
        """The cost of a plan; of one that was stopped, infinite."""
        return math.inf if plan is None else plan.rows if self.by_rows else plan.ms

    def doubtful(self, plan: Plan | None) -> bool:
        """Return True if other plans are to be tried."""
        return plan is None or self.cost(plan) > self.least or plan.removed > self.removed

    def finding(self, one: Judged) -> str:
        """The rule that a statement breaks."""
        if one.plan is None:
            return f"more than {TIMEOUT_MS // 1000} s"
        if one.plan.removed > self.removed:
            return f"a join filter removes {one.plan.removed:,} rows"
        if one.plan.rows > self.most:
            return f"{one.plan.rows:,} rows are read"
        ratio = self.cost(one.plan) / max(self.cost(one.best), 0.001)
        dear = self.cost(one.plan) > self.least and ratio > TIMES
        return f"{ratio:.0f} × the best plan" if dear else ""


AT_FULL_SIZE = Rules(least=50.0, removed=100_000)


class Examination:
    """The plans of all statements, each executed and rolled back: for so many rows of the large
    task, and for a small task."""

    def __init__(self, engine: Engine, world: Skewed, rows: int, rules: Rules) -> None:
        self.rules = rules
        self.judged: list[Judged] = []
        self.left_out: dict[str, str] = {}
        """The reasons why statements have no plan."""
        self.refused: dict[str, str] = {}
        """PostgreSQL's reasons against values: KNOWN has to have others."""
        self._seen: set[tuple[str, str]] = set()
        subjects = Subject(world, True, rows), Subject(world, False, 2)
        for name, made in _named():
            for subject in subjects:
                with engine.connect() as tx, tx.begin() as transaction:
                    tx.execute(text("SET LOCAL session_replication_role = replica"))  # no guards
                    self._examine(tx, name, made, subject)
                    transaction.rollback()

    @property
    def findings(self) -> list[str]:
        """The statements that break a rule."""
        found = ((one, self.rules.finding(one)) for one in self.judged)
        return [
            f"{one.name}, {'large' if one.large else 'small'} task: {broken}"
            for one, broken in found
            if broken
        ]

    def _examine(self, tx: Connection, name: str, made: Any, subject: Subject) -> None:
        sql = plain(made.text) if isinstance(made, TextClause) else str(made)
        word = re.sub(r"--.*\n", "", sql).split()[0]
        if reason := LEFT_OUT.get(name) or WITHOUT_PLAN.get(word):
            self.left_out[name] = reason
            return
        planning = getattr(getattr(made, "planning", None), "settings", {})
        try:
            for asked in _completed(tx, name, sql, {**VARIANTS["each time"], **planning}, subject):
                self._judge(tx, asked, subject)
        except psycopg.Error as error:
            self.refused[name] = str(error).partition("\n")[0]

    def _judge(self, tx: Connection, asked: Asked, subject: Subject) -> None:
        trial = tx.begin_nested()
        try:
            types = _prepare(tx, asked.sql)
            given = (
                {bind: literal(asked.given[bind], kind) for bind, kind in types.items()}
                if asked.given is not None
                else values(asked.name, asked.sql, types, subject, KNOWN)
            )
            if (key := (asked.name, repr(given))) not in self._seen:
                self._seen.add(key)
                self.judged.append(self._best(tx, asked, given, subject.large))
        finally:
            if trial.is_active:
                trial.rollback()
            _run(tx, "DEALLOCATE ALL")

    def _best(self, tx: Connection, asked: Asked, given: Mapping[str, str], large: bool) -> Judged:
        """The plan of production, and the best of all."""
        ours = {**asked.settings, **asked.transaction}
        plan = executed(tx, given, ours)
        if not self.rules.doubtful(plan):
            return Judged(asked.name, large, plan, plan)
        plan = self._better(plan, executed(tx, given, ours))
        most = plan.ms / 2 if plan else TIMEOUT_MS / TIMES  # a slower one is of no interest
        tried = {
            how: executed(tx, given, {**settings, **asked.transaction}, most)
            for how, settings in VARIANTS.items()
            if settings != asked.settings
        }
        how, best = min({"": plan, **tried}.items(), key=lambda one: self.rules.cost(one[1]))
        found = Judged(asked.name, large, plan, best, how)
        if self.rules.finding(found):  # unless the machine was busy
            plan = self._better(plan, executed(tx, given, ours))
        return Judged(asked.name, large, plan, best, how)

    def _better(self, one: Plan | None, other: Plan | None) -> Plan | None:
        return min(one, other, key=self.rules.cost)


def _named() -> Iterator[tuple[str, Any]]:
    for one in statements():
        yield f"{one.module}.{one.name}", one.text


def _completed(
    tx: Connection, name: str, sql: str, settings: Mapping[str, str], subject: Subject
) -> Iterator[Asked]:
    """The statement, or those that a function makes from a template."""
    if name not in CALLS:
        yield Asked(name, sql, settings)
        return
    if name in BEFORE:
        BEFORE[name](tx, subject)
    number = 0
    transaction: dict[str, str] = {}
    for sent_sql, given in sent(tx, CALLS[name], subject):
        match sent_sql.split():
            case ["SET", _, setting, _, wanted]:
                transaction = {**transaction, setting: wanted}
            case [word, *_] if word not in WITHOUT_PLAN and BEGINNING.match(sent_sql):
                number += 1
                yield Asked(f"{name} {number}", sent_sql, settings, given, transaction)


def _prepare(tx: Connection, sql: str) -> dict[str, str]:
    """Prepare a statement as `asked`; the types of its binds."""
    binds = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda m: f"${binds.index(m[1]) + 1}", sql)
    _run(tx, f"PREPARE asked AS {numbered.replace('%%', '%')}")
    [(types,)] = _run(
        tx,
        "SELECT CAST(parameter_types AS text[]) FROM pg_prepared_statements WHERE name = 'asked'",
    )
    return dict(zip(binds, types, strict=True))


def executed(
    tx: Connection,
    given: Mapping[str, str],
    settings: Mapping[str, str],
    most_ms: float = TIMEOUT_MS,
) -> Plan | None:
    """The plan of the prepared statement, executed and rolled back; None: it takes longer."""
    binds = f"({', '.join(given.values())})" if given else ""
    trial = tx.begin_nested()
    try:
        for name, wanted in {
            **settings,
            "statement_timeout": f"{max(_LEAST_MS, round(most_ms))}",
        }.items():
            _run(tx, f"SET LOCAL {name} = {wanted}")
        explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE asked{binds}"
        [(found,)] = _run(tx, explain)
        _run(tx, "SET LOCAL statement_timeout = 0")
    except psycopg.errors.QueryCanceled:
        return None
    finally:
        trial.rollback()
    return _measured(found[0])


def _measured(found: Mapping[str, Any]) -> Plan:
    nodes = list(_nodes(found["Plan"]))
    passed = [
        _rows(
            node,
            "Actual Rows",
            "Rows Removed by Filter",
            "Rows Removed by Index Recheck",
            "Rows Removed by Join Filter",
        )
        for node in nodes
    ]
    pages = [found["Plan"].get(f"Shared {one} Blocks", 0) for one in ("Hit", "Read")]
    return Plan(
        found["Execution Time"], round(sum(passed)), round(sum(map(_wasted, nodes))), sum(pages)
    )


def _wasted(node: Mapping[str, Any]) -> float:
    """Rows that a join's filter removed, if they are many times those of its inputs: it has paired
    all with all."""
    removed = _rows(node, "Rows Removed by Join Filter")
    outer, inner = [*node.get("Plans", ()), {}, {}][:2] if removed else ({}, {})
    inputs = _rows(outer, "Actual Rows") + inner.get("Actual Rows", 0)
    return removed if removed > TIMES * inputs else 0


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _rows(node: Mapping[str, Any], *keys: str) -> float:
    return float(node.get("Actual Loops", 1) * sum(node.get(key, 0) for key in keys))


def _run(tx: Connection, sql: str) -> Sequence[Any]:
    driver: Any = tx.connection.driver_connection
    with psycopg.Cursor(driver) as cursor:
        cursor.execute(sql.encode(), prepare=False)
        return cursor.fetchall() if cursor.description else []
