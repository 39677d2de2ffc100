"""/metrics for Prometheus.

Counters and histograms are of this process; gauges come from counters in the database, read at most
once in FRESH_S by all scrapes together. Labels are bounded sets: no task, user or host stands in
one, and of sites and queues the first few hundred, then `other`.
"""

from __future__ import annotations

import ipaddress
from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

import jedi
from jedi.agent.registry import AGENTS
from jedi.api.connections import UNIX
from jedi.api.health import SharedQuestion
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.states import JOB, TASK
from jedi.taskbuffer.db.engine import at_once, time_statements
from jedi.taskbuffer.reports import gauges
from jedi.taskbuffer.reports.gauges import Gauges

FRESH_S = 10.0
"""Figures from the database are at most this old."""

SITES_MOST = 300
QUEUES_MOST = 100
CODES_MOST = 300
OTHER = "other"
"""The label of all sites, queues and codes beyond these."""

_ROUTE_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_STATEMENT_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 5)


class BoundedLabels:
    """The first names that come keep their own label."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str | None) -> str:
        """The label of a name."""
        if name is None:
            return OTHER
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request and its answer, for the figures; `streamed`: the answer lasts as long as its reader
    stays."""

    operation: str
    status: int
    seconds: float
    sent: int
    code: str | None
    streamed: bool


class Metrics:
    """All figures of a service."""

    def __init__(self, engines: Sequence[Engine], connections: Callable[[], int]) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "jedi_requests",
            "Requests by operation and status.",
            ["operation", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "jedi_request_seconds",
            "Time from a request to the end of its answer.",
            ["operation"],
            buckets=_ROUTE_S,
            registry=registry,
        )
        self._sent = Counter("jedi_response_bytes", "Bytes of answers.", registry=registry)
        self._refusals = Counter(
            "jedi_refusals", "Errors of requests by code.", ["code"], registry=registry
        )
        self.in_hand = Gauge(
            "jedi_requests_in_hand", "Requests without an answer yet.", registry=registry
        )
        statements = Histogram(
            "jedi_database_statement_seconds",
            "Time of a statement, with the way there and back.",
            buckets=_STATEMENT_S,
            registry=registry,
        )
        Gauge(
            "jedi_connections", "Open connections to the service.", registry=registry
        ).set_function(connections)
        version = Gauge("jedi_build", "1, of this release.", ["version"], registry=registry)
        version.labels(jedi.__version__).set(1)
        ProcessCollector(namespace="jedi", registry=registry)
        registry.register(_Pools(engines))
        self._database = _Database()
        registry.register(self._database)
        self._codes = BoundedLabels(CODES_MOST)
        self._ask = SharedQuestion(lambda: _load(engines[0]))
        self._until = 0.0
        for engine in engines:
            time_statements(engine, statements.observe)

    def note(self, one: AnsweredRequest) -> None:
        """Count a request."""
        self._requests.labels(one.operation, str(one.status)).inc()
        self._sent.inc(one.sent)
        if not one.streamed:
            self._seconds.labels(one.operation).observe(one.seconds)
        if one.code:
            self._refusals.labels(self._codes(one.code)).inc()

    async def answer(self) -> Response:
        """All figures; those of the database are missing, and `jedi_database_up` is 0, while it
        does not answer."""
        if clock.monotonic() >= self._until:
            try:
                self._database.found = await self._ask()
                self._until = clock.monotonic() + FRESH_S
            except (JediError, SQLAlchemyError):
                self._database.found = None
        written = await to_thread.run_sync(generate_latest, self.registry)
        return Response(written, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _load(engine: Engine) -> Gauges:
    with at_once(engine) as tx:
        return gauges.load(tx)


class _Pools(Collector):
    """The service's own connections to the database."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def collect(self) -> Iterator[Metric]:
        pools = [engine.pool for engine in self._engines]
        found = {
            "in_use": sum(getattr(pool, "checkedout", int)() for pool in pools),
            "idle": sum(getattr(pool, "checkedin", int)() for pool in pools),
        }
        yield _gauge(
            "jedi_database_connections",
            "Connections of the service to the database.",
            "state",
            found,
        )


class _Database(Collector):
    """The figures that the database keeps."""

    def __init__(self) -> None:
        self.found: Gauges | None = None
        self._sites = BoundedLabels(SITES_MOST)
        self._queues = BoundedLabels(QUEUES_MOST)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "jedi_database_up", "1 if the database answers.", value=float(self.found is not None)
        )
        if self.found is not None:
            yield from self._jobs(self.found)
            yield from _agents(self.found)
            yield from _rest(self.found)

    def _jobs(self, found: Gauges) -> Iterator[Metric]:
        jobs = Sums(dict.fromkeys(JOB.states, 0))
        at_site: Sums[tuple[str, str]] = Sums()
        of_queue: Sums[tuple[str, str]] = Sums()
        for one in found.jobs:
            if one.site is None:
                of_queue[self._queues(one.queue_name), one.status] += one.jobs
            else:
                jobs[one.status] += one.jobs
                at_site[self._sites(one.site), one.status] += one.jobs
        yield _gauge("jedi_jobs", "Jobs by status.", "status", jobs)
        yield _gauges("jedi_site_jobs", "Jobs by site and status.", ("site", "status"), at_site)
        yield _gauges(
            "jedi_queue_jobs", "Jobs by work queue and status.", ("queue", "status"), of_queue
        )
        reached = CounterMetricFamily(
            "jedi_jobs_reached",
            "Jobs that came to a status; begins at 0 with each hour.",
            labels=["status"],
        )
        known = {row.status: row.jobs for row in found.reached}
        for status in JOB.states:
            reached.add_metric([status], known.get(status, 0))
        yield reached
        pilots: Sums[tuple[str, str]] = Sums()
        for row in found.pilots:
            pilots[self._sites(row.site), row.status] += row.pilots
        yield _gauges("jedi_pilots", "Pilots by site and status.", ("site", "status"), pilots)


def _agents(found: Gauges) -> Iterator[Metric]:
    """An agent without a heartbeat has no lag: `absent()` finds it."""
    lag: dict[str, float] = {}
    items: Sums[str] = Sums()
    memory: Sums[str] = Sums()
    failing = dict.fromkeys(AGENTS, 0)
    for one in found.agents:
        if one.agent in failing:
            lag[one.agent] = min(lag.get(one.agent, one.age_s), one.age_s)
            items[one.agent] += one.items
            memory[one.agent] += 1024 * (one.rss_kb or 0)
            failing[one.agent] += bool(one.last_error)
    yield _gauge(
        "jedi_agent_lag_seconds", "Time since the latest heartbeat of an agent.", "agent", lag
    )
    yield _gauge(
        "jedi_agent_items", "Items of an agent's processes since they started.", "agent", items
    )
    yield _gauge(
        "jedi_agent_memory_bytes", "Resident memory of an agent's processes.", "agent", memory
    )
    yield _gauge(
        "jedi_agent_failing_processes",
        "Processes of an agent whose last cycle failed.",
        "agent",
        failing,
    )


def _rest(found: Gauges) -> Iterator[Metric]:
    tasks = dict.fromkeys(TASK.states, 0) | dict(found.tasks)
    yield _gauge("jedi_tasks", "Tasks by status.", "status", tasks)
    yield _gauge(
        "jedi_waiting_rows",
        "Rows that wait for an agent, by kind.",
        "queue",
        {row.queue: row.depth for row in found.waiting},
    )
    yield _gauge(
        "jedi_waiting_oldest_seconds",
        "Age of the oldest of them.",
        "queue",
        {row.queue: row.oldest_s for row in found.waiting},
    )
    yield _gauge(
        "jedi_transfers_queued_files",
        "Files that wait for transfer, as the links report them.",
        "activity",
        {row.activity.removesuffix("_queued"): row.files for row in found.transfers},
    )
    yield _gauges(
        "jedi_broker_decisions_recent",
        "Decisions of brokers in the last five minutes.",
        ("broker", "outcome"),
        {(row.broker, row.outcome): row.decisions for row in found.decisions},
    )
    yield _gauge(
        "jedi_broker_rejections_recent",
        "Sites that these decisions refused, by reason.",
        "code",
        {row.code: row.sites for row in found.rejections},
    )


def _gauge(name: str, meaning: str, label: str, found: Mapping[str, float]) -> Metric:
    return _gauges(name, meaning, (label,), {(key,): value for key, value in found.items()})


def _gauges(name: str, meaning: str, labels: Iterable[str], found: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[*labels])
    for key, value in found.items():
        family.add_metric([*key], value)
    return family


def is_local(request: Request) -> bool:
    """Return True if the caller is on this machine: at the unix socket or the loopback
    interface, and no proxy that speaks for somebody else."""
    if request.client is None or {"forwarded", "x-forwarded-for"} & {*request.headers.keys()}:
        return False
    host = request.client.host
    try:
        return host == UNIX or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
