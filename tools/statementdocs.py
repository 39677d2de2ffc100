"""The page of statements: each with its function and purpose, the plans of those that run often."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, TextClause, text

import jedi.taskbuffer
from jedi.taskbuffer.db.planning import EACH_TIME, EITHER_WAY, Planning
from jedi.taskbuffer.db.quick import Prepared
from jedi.taskbuffer.db.statement import Statement
from jedi.taskbuffer.schema.tables import metadata
from tools.dogdocs import TableWriter

TASKBUFFER = Path(jedi.taskbuffer.__file__).parent
BEGINNING = re.compile(
    r"\s*(--.*\n\s*)*(SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|SET|LOCK|VACUUM|\()", re.IGNORECASE
)
"""The beginning of a statement; other constants are conditions and defaults of columns."""
_BIND = re.compile(r"%\((\w+)\)s|%%")
"""A bind as psycopg has it, or a sign of per cent."""
FIXED = {
    **{"effective_cache_size": "'1GB'", "work_mem": "'16MB'", "random_page_cost": "1.1"},
    **{"max_parallel_workers_per_gather": "0", "jit": "off"},
}
"""Settings that would make plans depend on the machine."""
FILL = (
    "INSERT INTO jedi_tasks (jeditaskid, reqid, status, username, vo, taskname, currentpriority) "
    "SELECT n, n, 'running', 'user' || n % 9, 'local', 'task.' || n, 100 * (n % 10) "
    "FROM generate_series(1, 200) n",
    "INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nfiles) "
    "SELECT 2 * n + k, n, t || '.' || n, t, 'ready', 20 FROM generate_series(1, 200) n, "
    "(VALUES (0, 'input'), (1, 'output')) AS d(k, t)",
    "INSERT INTO jedi_dataset_contents (fileid, jeditaskid, datasetid, lfn, type, status) "
    "SELECT 10000 * k + 20 * n + f, n, 2 * n + k, t || '.' || n || '.' || f, t, "
    "CASE k WHEN 0 THEN 'running' ELSE 'defined' END FROM generate_series(1, 200) n, "
    "(VALUES (0, 'input'), (1, 'output')) AS d(k, t), generate_series(1, 20) f",
    "INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, "
    "status, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb) "
    "SELECT n, n % 200 + 1, n % 200 + 1, n, n, 1, 'activated', 'SITE_' || n % 20, 'share', "
    "100, 1, 2000, 3600, 1000 FROM generate_series(1, 4000) n",
    "INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s, "
    "disk_mb) SELECT n, 'SITE_' || n % 20, 'share', 100, 1, 2000, 3600, 1000 "
    "FROM generate_series(1, 4000) n",
    "INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn) "
    "SELECT 20 * (n - 1) + f, 20 * n + f, n, 2 * n, 'input', 'input.' || n || '.' || f "
    "FROM generate_series(1, 200) n, generate_series(1, 20) f",
    "INSERT INTO jedi_job_params (pandaid, jobparameters) "
    "SELECT n, 'x' FROM generate_series(1, 4000) n",
    "ANALYZE jedi_tasks, jedi_datasets, jedi_dataset_contents, jedi_jobs, jedi_job_ready, "
    "jedi_job_files, jedi_job_params",
)
"""200 tasks with 4000 jobs, each of which has an input and an output."""


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """A named statement; `function` runs it, or completes it and then runs it; empty: its readers
    run it themselves."""

    module: str
    name: str
    function: str
    purpose: str
    text: str | TextClause

    @property
    def planning(self) -> Planning:
        """The way in which PostgreSQL plans it."""
        return self.text.planning if isinstance(self.text, Prepared) else EACH_TIME


def statements_page(tx: Connection, old: str, grid: TableWriter) -> list[str]:
    """The parts of the page; `old` is the page as it is, whose plans stay if another version of
    PostgreSQL made them."""
    parts = [
        "# Statements",
        "Every SQL statement of JEDI is a named constant of `jedi/taskbuffer`, above the function "
        "that runs it, if there is one. A statement of `pg_stat_statements` is found by its text: "
        "search `jedi/taskbuffer` for a part of it, or for the tables that it names, then look up "
        "the constant here. [Why SQL is text](decisions/sql-as-text.md) has the reasons.",
        "Each statement is planned in one of [three ways](decisions/plans.md); [the last section]"
        "(#planned-once) has the reasons for those that are not planned each time.",
    ]
    known = [*statements()]
    once = [one for one in known if one.planning is not EACH_TIME]
    modules: dict[str, list[tuple[str, ...]]] = {}
    for one in known:
        function = f"`{one.function}`" if one.function else ""
        row = f"`{one.name}`", function, one.purpose, one.planning.word
        modules.setdefault(one.module, []).append(row)
    for module, rows in modules.items():
        parts += [f"## {module}", grid(("statement", "function", "purpose", "planned"), rows)]
    parts += [
        "## Planned once",
        "Each session plans these statements at their first use, with the "
        "settings of `jedi/taskbuffer/db/planning.py`: planning would take longer than their "
        "execution. [Plans](decisions/plans.md) has the rule.",
        grid(
            ("statement", "planned", "reason and bound"),
            [
                (f"`{one.module}.{one.name}`", one.planning.word, one.text.why)
                for one in once
                if isinstance(one.text, Prepared)
            ],
        ),
    ]
    return [*parts, _kept(old, _version(tx)) or "\n\n".join(_plans(tx, once))]


# ------------------------------------------------------------------------------ the statements


def statements() -> Iterator[NamedStatement]:
    """All named statements, by module, in the order of the source."""
    for path in sorted(TASKBUFFER.rglob("*.py")):
        module = ".".join(path.relative_to(TASKBUFFER).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        functions = list(_functions(tree))
        loaded = importlib.import_module(f"jedi.taskbuffer.{module}")
        for name in _named(tree, loaded):
            made = getattr(loaded, name)
            user = next((f for f in functions if name in _names(f)), None)
            function = user.name if user else ""
            purpose = _purpose(user, functions) if user else ""
            if isinstance(made, Statement):
                purpose, made = made.purpose or purpose, made.sent
            yield NamedStatement(module, name, function, purpose, made)


def _purpose(function: ast.FunctionDef, functions: Sequence[ast.FunctionDef]) -> str:
    """The first sentence of a function, or of the first one that calls it."""
    callers = (one for one in functions if function.name in _names(one))
    docstrings = (ast.get_docstring(one) for one in (function, *callers))
    return next((_first_sentence(one) for one in docstrings if one), "")


def _named(tree: ast.Module, module: object) -> Iterator[str]:
    """The names that a module gives to statements, and to templates that functions complete."""
    completed = {
        node.func.value.id
        for function in _functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and isinstance(node.func.value, ast.Name)
    }
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                made = getattr(module, name)
                sql = made.text if isinstance(made, TextClause) else made
                if isinstance(made, Statement):
                    yield name
                whole = isinstance(made, TextClause | Prepared) or _is_plain(value)
                known = whole or name in completed
                if known and isinstance(sql, str) and BEGINNING.match(sql):
                    yield name


def _is_plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") == "plain"


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                yield node
            case ast.ClassDef():
                yield from (one for one in node.body if isinstance(one, ast.FunctionDef))


def _names(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def _first_sentence(docstring: str) -> str:
    """The first sentence, with the list of fields after a colon."""
    paragraph = " ".join(docstring.split("\n\n", 1)[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]


# ---------------------------------------------------------------------------- the core's page


def core_statements() -> dict[str, Callable[[], str]]:
    """The statements of docs/core.md, each as a block that psql runs after its parameters are
    set."""
    found = {f"{one.module}.{one.name}": one.text for one in statements()}
    claim = str(found["tasks.tasks._CLAIM"]).format(
        chosen=str(found["tasks.tasks._CHOSEN"]).format(condition=""),
        columns="jeditaskid, status, lock_seq",
    )
    shown = {
        "claim": claim,
        "fence": found["tasks.tasks._FENCE"],
        "apply": found["tasks.tasks._MOVE"],
        "report": found["jobs.dispatch._ACCEPT_ENDS"],
        "lock": found["jobs.merging._LOCK"],
        "end": found["jobs.jobs._MOVE_ON"],
        "settle": found["ends.job_ends._SETTLE"],
    }
    return {f"sql-{name}": partial(_block, sql) for name, sql in shown.items()}


def _block(sql: str | TextClause) -> str:
    """A statement with its binds as psql has its variables, `:name`."""
    named = _BIND.sub(lambda found: f":{found[1]}" if found[1] else "%", str(sql))
    lines = (line for line in named.splitlines() if line.strip())
    return "\n".join(["```sql", *lines, ";", "```"])


# ----------------------------------------------------------------------------------- the plans


def _version(tx: Connection) -> int:
    return int(tx.scalar(text("SELECT current_setting('server_version_num')"))) // 10000


def _title(version: int) -> str:
    return f"## Plans of PostgreSQL {version}"


def _kept(old: str, version: int) -> str:
    """The plans of a page that another version of PostgreSQL made; none: they are made anew."""
    found = re.search(r"^## Plans of PostgreSQL (\d+)$", old, re.MULTILINE)
    return old[found.start() :].rstrip("\n") if found and int(found[1]) != version else ""


def _plans(tx: Connection, once: Sequence[NamedStatement]) -> Iterator[str]:
    """The plans on the database of FILL, which is rolled back. All tables are new ones then: the
    planner looks at their sizes on disk."""
    yield _title(_version(tx))
    yield (
        "The statements that are planned once, on a small database: 200 tasks, 4000 jobs, 8000 "
        "files. `$1`, … are the parameters, in the order of the text. `EXPLAIN (ANALYZE, BUFFERS)` "
        "shows what a statement costs on your own database."
    )
    trial = tx.begin_nested()
    try:
        tx.execute(text(f"TRUNCATE {', '.join(metadata.tables)}"))
        for fill in FILL:
            tx.execute(text(fill))
        for one in once:
            if isinstance(one.text, Prepared) and one.planning is not EITHER_WAY:
                yield f"### {one.module}.{one.name}"
                yield "\n".join(["```text", *planned(tx, one.text), "```"])
    finally:
        trial.rollback()


def planned(tx: Connection, statement: Prepared) -> list[str]:
    """The lines of the plan that a session makes of a statement."""
    trial = tx.begin_nested()
    for setting, wanted in {**FIXED, **statement.planning.settings}.items():
        tx.execute(text(f"SET LOCAL {setting} = {wanted}"))
    cursor: Any = tx.connection.cursor()
    cursor.execute(b"PREPARE asked AS " + statement.numbered)
    values = f"({', '.join(['NULL'] * len(statement.binds))})" if statement.binds else ""
    cursor.execute(f"EXPLAIN (COSTS OFF) EXECUTE asked{values}".encode())
    lines = [line for (line,) in cursor.fetchall()]
    cursor.execute("DEALLOCATE asked")
    trial.rollback()
    return lines
