"""Connections: one way to the database for every process."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg.adapt import Dumper, PyFormat
from psycopg.pq import ConnStatus, Ping, TransactionStatus
from psycopg.types.array import ListDumper
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InvalidatePoolError, OperationalError, ProgrammingError

from jedi.core import clock
from jedi.core.errors import JediError, NotYet, OutcomeUnknown, Unreachable
from jedi.taskbuffer.db.planning import BY_KEY, EITHER_WAY, Planning
from jedi.taskbuffer.db.quick import Prepared, Quick, Session
from jedi.taskbuffer.db.sessions import SessionsAtRest

CHANNEL = "jedi"
_PING_S = 5
_INT8_ARRAY = 1016
_UNKNOWN = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
)
_NUMBERS = {int, type(None)}


class _Numbers(Dumper):
    """Lists of ids, always as bigint[]: psycopg's own way takes 0.8 us more a number, and has a
    type, hence a plan, for each size of numbers."""

    oid = _INT8_ARRAY

    def dump(self, obj: list[int | None]) -> bytes:
        return b"{%s}" % ",".join(map(str, obj)).replace("None", "NULL").encode()


class _Lists(ListDumper):
    """psycopg's, but for numbers."""

    def get_key(self, obj: list[Any], format: PyFormat) -> Any:
        return _INT8_ARRAY if _numbers(obj) else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> Any:
        return _Numbers(list, self.connection) if _numbers(obj) else super().upgrade(obj, format)


def _numbers(found: list[Any]) -> bool:
    kinds = set(map(type, found))
    return int in kinds and kinds <= _NUMBERS


psycopg.adapters.register_dumper(list, _Lists)


_CONNECT_S = 10
_NETWORK = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A database's host that vanishes, rather than refuses, is noticed within half a minute."""


def connect(
    url: str,
    name: str = "jedi",
    *,
    pool_size: int = 5,
    max_overflow: int = 10,
    pool_timeout: float = _CONNECT_S,
) -> Engine:
    """An engine whose sessions run in UTC under the given application name.

    Idle transactions are ended after five minutes: an old snapshot slows every queue down. A
    statement whose process is gone ends within ten seconds.
    """
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(
        parsed,
        pool_size=pool_size,
        pool_use_lifo=True,  # so that the others rest
        pool_reset_on_return=None,  # see _roll_back
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,  # nobody notices a place that a failed connection frees
        connect_args={
            "application_name": name[:63],
            "connect_timeout": _CONNECT_S,
            "cursor_factory": Quick,
            **_NETWORK,
            # pages are in memory, or on disks without heads: at PostgreSQL's 4.0 a look-up of a
            # thousand rows by key seems dearer than reading a table of millions
            "options": "-c timezone=UTC -c idle_in_transaction_session_timeout=300000 -c jit=off "
            "-c client_connection_check_interval=10000 -c random_page_cost=1.1 "
            "-c plan_cache_mode=force_custom_plan",  # see Planning
        },
    )
    _made.add(engine)
    event.listen(engine, "do_connect", _session)
    SessionsAtRest(engine)
    event.listen(engine, "checkout", _still_there)
    event.listen(engine, "checkout", _hand_over_clock)
    event.listen(engine, "checkout", _commit_at_once)
    event.listen(engine, "reset", _roll_back)
    return engine


_made: WeakSet[Engine] = WeakSet()


def _forget_sessions() -> None:
    """Leave the parent's sessions to the parent, after a fork."""
    for engine in [*_made]:
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_sessions)


def _session(
    _dialect: Any, _record: Any, where: Sequence[str], words: Mapping[str, Any]
) -> Session:
    return Session.connect(*where, **words)


def _still_there(connection: Any, _record: Any, _proxy: Any) -> None:
    """Replace connections that are dead: their server has closed them. A statement would cost each
    short transaction a way there and back."""
    server = connection.pgconn
    try:
        while server.status == ConnStatus.OK and _heard(server.socket):
            server.consume_input()  # what it said at its end, and then the end
    except psycopg.Error as error:
        raise InvalidatePoolError from error
    if server.status != ConnStatus.OK:
        raise InvalidatePoolError


def _heard(descriptor: int) -> bool:
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _hand_over_clock(connection: Any, record: Any, _proxy: Any) -> None:
    """A turned Python clock turns `jedi_now()` of every session it uses."""
    instant = clock.turned()
    _let(connection, record, "jedi.now", instant.isoformat() if instant else "")


def _let(connection: Any, record: Any, name: str, wanted: str) -> None:
    """Give a session a setting, unless it has it."""
    if record.info.get(name, "") != wanted:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config(%s, %s, false)", (name, wanted))
        connection.commit()
        record.info[name] = wanted


def limit_statements(engine: Engine, longest_s: Callable[[], float]) -> None:
    """Let statements of an engine take so many seconds at most, each; 0: no limit. A connection
    gets a new limit when somebody takes it."""

    def use(connection: Any, record: Any, _proxy: Any) -> None:
        _let(connection, record, "statement_timeout", f"{longest_s() * 1000:.0f}")

    event.listen(engine, "checkout", use)


_wanted = threading.local()


def _commit_at_once(connection: Any, _record: Any, _proxy: Any) -> None:
    """Every statement on a connection of `at_once` is a transaction of its own. A connection stays
    so until another use: the changes there and back take 20 us."""
    at_once = getattr(_wanted, "at_once", False)
    if connection.autocommit is not at_once:
        try:
            connection.autocommit = at_once
        except psycopg.Error as error:  # its server has ended since it was looked at
            raise InvalidatePoolError from error


def _roll_back(connection: Any, _record: Any, _state: Any) -> None:
    """End the transaction of a connection that comes back. psycopg takes 20 us to find that there
    is none."""
    if connection.pgconn.transaction_status != TransactionStatus.IDLE:
        connection.rollback()


@contextmanager
def reachable(engine: Engine) -> Iterator[None]:
    """Turn a lost database, or one of another release, into an error that a person understands;
    NotYet, if it lives and only takes no connections now."""
    try:
        yield
    except ProgrammingError as error:
        if not isinstance(error.orig, _UNKNOWN):
            raise
        why = str(error.orig).partition("\n")[0]
        raise JediError(
            f"The database has not the schema of this release ({why}): `jedi db upgrade` makes it.",
            code="schema_differs",
        ) from error
    except OperationalError as error:
        why = str(error.orig).partition("\n")[0]
        url, found = engine.url.render_as_string(hide_password=True), _ping(engine)
        if error.connection_invalidated or found == Ping.REJECT:
            sentence = f"The database is starting, recovering or going down ({why}). Try again."
            raise NotYet(sentence, url=url) from error
        if found == Ping.OK:
            raise Unreachable(
                f"The database refuses this ({why}). If it is the connection: check the user, "
                "password and database of JEDI_DATABASE_URL.",
                url=url,
            ) from error
        raise Unreachable(
            f"The database does not answer ({why}). `jedi up` starts JEDI's own; "
            "JEDI_DATABASE_URL names another.",
            url=url,
        ) from error


def _ping(engine: Engine) -> Ping:
    """The server takes connections (OK), takes none now (REJECT), or is away."""
    _, words = engine.dialect.create_connect_args(engine.url)
    for own in ("context", "cursor_factory"):
        words.pop(own, None)  # psycopg's own; the rest is libpq's
    where = psycopg.conninfo.make_conninfo(**{"connect_timeout": _PING_S, **words})
    return Ping(psycopg.pq.PGconn.ping(where.encode()))


@contextmanager
def at_once(engine: Engine) -> Iterator[Connection]:
    """A connection whose every statement is a transaction of its own: it saves a single statement
    the way there and back of BEGIN and of COMMIT. SQLAlchemy's own AUTOCOMMIT takes 20 us more, of
    the 250 that a process of the service has for handing out a job."""
    _wanted.at_once = True
    try:
        connection = engine.connect()
    finally:
        _wanted.at_once = False
    with connection:
        yield connection


@contextmanager
def confirmed(engine: Engine) -> Iterator[Connection]:
    """A transaction. OutcomeUnknown: the database was lost during COMMIT."""
    committing = False
    try:
        with engine.begin() as tx:
            yield tx
            committing = True
    except DBAPIError as error:
        if not (committing and is_away(error)):
            raise
        raise OutcomeUnknown(
            "JEDI lost its database while it stored this change: the change may be done. Repeat "
            "the request with the same Idempotency-Key; without one, check first."
        ) from error


def plain(sql: str) -> str:
    """A statement with its binds, :name, as psycopg itself takes it."""
    return str(text(sql).compile(dialect=make_url("postgresql+psycopg://").get_dialect()()))


def prepared(why: str, planning: Planning = BY_KEY) -> Callable[[str], Prepared]:
    """The same for statements that each session prepares once; their answers are one JSON value.
    `why`: the reason for this planning, and the bound of its worst case."""
    return lambda sql: Prepared(plain(sql), planning, why)


def fetched(tx: Connection, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a `plain` statement, by psycopg itself: what SQLAlchemy adds would be a tenth of
    the time that handing out a job takes. Its errors are those of SQLAlchemy."""
    cursor: Any = tx.connection.cursor()
    try:
        with cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(statement, values).fetchall()
            return rows
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error) from error


def value(tx: Connection, statement: str, values: Mapping[str, Any]) -> Any:
    """The first value of a `plain` statement; see `fetched`."""
    driver: Any = tx.connection.driver_connection
    try:
        cursor = driver.cursor()
        cursor.execute(statement, values)
        return cursor.value() if isinstance(cursor, Quick) else cursor.fetchall()[0][0]
    except psycopg.Error as error:
        raise DBAPIError.instance(statement, None, error, psycopg.Error) from error


trivial = prepared("No table, or one of one row.", EITHER_WAY)
_NOTIFY = trivial("""
SELECT count(CAST(pg_notify(:channel, t) AS text))
FROM unnest(string_to_array(:topics, ' ')) t
""")


def notifying() -> bool:
    """False if notifications are switched off (JEDI_NOTIFY=off): agents then only poll."""
    return os.environ.get("JEDI_NOTIFY", "on") != "off"


def waking(condition: str, topic: str) -> str:
    """SQL: wakes listeners to a topic at commit if a condition holds, in a statement that has other
    work; a way there and back less than `wake`. Its bind :channel is `channel()`."""
    return (
        f"CASE WHEN CAST(:channel AS text) IS NOT NULL AND {condition} "
        f"THEN CAST(pg_notify(:channel, '{topic}') AS text) END"
    )


def channel() -> str | None:
    """The bind of `waking`; None if notifications are switched off."""
    return CHANNEL if notifying() else None


KNOBS = "knobs"
"""The topic that wakes every agent: knobs have changed."""


def wake(tx: Connection, *topics: str) -> None:
    """Tell listeners, at commit, that there is work. Losing it costs latency, never work."""
    if topics and notifying():
        value(tx, _NOTIFY, {"channel": CHANNEL, "topics": " ".join(topics)})


def listener(engine: Engine) -> psycopg.Connection[Any]:
    """A connection of its own that hears wake-up calls. Never execute on it while it listens."""
    args, kwargs = engine.dialect.create_connect_args(engine.url)
    connection: psycopg.Connection[Any] = Session.connect(
        *args, **kwargs, autocommit=True, application_name="jedi listener"
    )
    connection.execute(f"LISTEN {CHANNEL}")
    return connection


_NAME = trivial("""
SELECT to_json((SELECT version_num FROM jedi_schema_version))
FROM set_config('application_name', :name, true)
""")
_NAME_MOST = 63


def name_transaction(tx: Connection, name: str) -> str | None:
    """Give the session another application_name until the transaction ends: PostgreSQL's log and
    pg_stat_activity show it. The revision of the schema in this transaction comes with the same way
    there and back: 60 us, of them 35 us of processor time."""
    found: str | None = value(tx, _NAME, {"name": name[:_NAME_MOST]})
    return found


def is_away(error: DBAPIError) -> bool:
    """Return True if the database is away, or a copy that takes no changes: the same request may
    succeed later."""
    standby = isinstance(error.orig, psycopg.errors.ReadOnlySqlTransaction)
    return isinstance(error, OperationalError) or error.connection_invalidated or standby


def took_too_long(error: DBAPIError) -> bool:
    """Return True if the database ended a statement at its limit (`limit_statements`)."""
    return isinstance(error.orig, psycopg.errors.QueryCanceled)


def time_statements(engine: Engine, note: Callable[[float], None]) -> None:
    """Call `note` with the seconds of each statement of an engine, from now on."""

    class Timed(Quick):
        def execute(self, *args: Any, **words: Any) -> Any:
            began = clock.monotonic()
            try:
                return super().execute(*args, **words)
            finally:
                note(clock.monotonic() - began)

    def use(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.cursor_factory = Timed

    event.listen(engine, "checkout", use)
