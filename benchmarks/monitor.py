"""Pages of the monitor in a large database: time in the service, statements, bytes on the wire, and
the cost of pages that stay open."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import httpx2
import structlog
from sqlalchemy import Engine, event, text

from benchmarks.api import BenchService, bench_service
from benchmarks.common import Result, make_world, run
from benchmarks.growth_world import Size, fill
from jedi.agent.base import World
from jedi.core import clock
from jedi.core.settings import caller
from jedi.ddm.interface import DDM
from jedi.monitor import static_files
from jedi.monitor.all_pages import PAGES
from jedi.monitor.table import Page
from jedi.server.app import create_app
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.users import PUT_USER

SMOKE = 1_000
REPEATS = 20
PAGE_MS, STATEMENTS, FIRST_KB, AGAIN_KB = 100.0, 10, 100.0, 20.0
OPEN, OPEN_SHARE, OPEN_S = 200, 0.02, 20.0
"""Open pages, each with a stream of its own, as if each were in a browser of its own; the part of a
core that they may take; seconds of the measurement."""

QUIET_S = 900.0
"""Seconds after which a page in sight is read again without news (static/monitor.js)."""

_LOGS = (
    """
INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status, agent, reason_code, reason)
SELECT jeditaskid, s.before, s.after, 'bench', 'bench', 'A sentence.' FROM jedi_tasks, (VALUES
  (NULL, 'registered'), ('registered', 'defined'), ('defined', 'ready'), ('ready', 'running')
) s(before, after)""",
    """
INSERT INTO jedi_broker_decisions (jeditaskid, broker, snapshot_hash, seed, knobs, outcome, chosen,
  weights, need, used)
SELECT jeditaskid, 'analysis', 'x', 1, '{}', 'chosen', ARRAY[:site], ARRAY[1.0], '{}', '{}'
FROM jedi_tasks""",
    "ANALYZE",
)


@dataclass(frozen=True)
class Cost:
    """A page: ms at the 95th percentile, statements, kB with all its files, kB of its part that
    changes."""

    ms: float
    statements: int
    first_kb: float
    again_kb: float


def measure(engine: Engine, part: int = 1) -> list[Result]:
    """In a database of 100,000 tasks, 1,000,000 live jobs and 5,000,000 archived ones, and one task
    with 100,000 live jobs more (or that `part` of it)."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    fill(engine, Size().part(part))
    known = _known(engine)
    world = make_world(engine, cast(DDM, None))
    with engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
        knobs.put(tx, "api.calls_per_s", 0.0, caller())
        knobs.put(tx, "api.caller_streams", 0, caller())
        token = access.put_user_token(tx, caller(), "browser", "all", 86_400.0)
    costs = asyncio.run(_costs(world, known, token))
    results = [one for page, cost in costs.items() for one in _results(page, cost, part == 1)]
    with bench_service(world) as service:
        share = _open(service)
    mean_ms = sum(cost.ms for cost in costs.values()) / len(costs)
    whole = share + OPEN / QUIET_S * mean_ms / 1_000
    note = f"{100 * share:.2f} % for streams, {100 * (whole - share):.2f} % for pages read again"
    return [
        *results,
        Result(
            f"{OPEN} open pages, no news",
            "of the bound",
            OPEN_SHARE / whole,
            note=note,
            least=1.0 if part == 1 else None,
        ),
    ]


def _known(engine: Engine) -> dict[str, object]:
    """Things for the paths of pages: the largest task, a job of it."""
    with engine.begin() as tx:
        large = tx.scalar(text("SELECT max(jeditaskid) - 1 FROM jedi_tasks"))
        place = tx.scalar(text("SELECT min(site) FROM jedi_sites"))
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        for statement in _LOGS:
            tx.execute(text(statement), {"site": place} if ":site" in statement else {})
        job = tx.scalar(
            text("SELECT max(pandaid) FROM jedi_jobs WHERE jeditaskid = :task"), {"task": large}
        )
        decision = tx.scalar(text("SELECT max(decision_id) FROM jedi_broker_decisions"))
    run(engine, "SELECT setval('jedi_task_id_seq', 10000000)")
    return {
        "jedi_task_id": large,
        "panda_id": job,
        "site": place,
        "decision_id": decision,
        "name": "agent.poll_s",
    }


async def _costs(world: World, known: dict[str, object], token: str) -> dict[str, Cost]:
    """The costs of all pages whose paths name known things, in this process, whose sessions are
    those of the service."""
    app = create_app(world)
    statements: list[str] = []
    event.listen(world.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    transport = httpx2.ASGITransport(cast(Any, app))
    who = {"Authorization": f"Bearer {token}"}
    found = {}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://jedi", headers=who, timeout=600
    ) as client:
        for page in PAGES.values():
            if {*page.in_path} <= {*known}:
                found[page.name] = await _cost(client, page, known, statements)
    return found


async def _cost(
    client: httpx2.AsyncClient, page: Page, known: dict[str, object], statements: list[str]
) -> Cost:
    path = re.sub(r"{(\w+)}", lambda one: str(known[one[1]]), page.path)
    answer = await client.get(path)
    answer.raise_for_status()
    part = await client.get(path, headers={"HX-Request": "true"})
    took = []
    for _ in range(REPEATS):
        statements.clear()
        begin = clock.monotonic()
        await client.get(path)
        took.append(1_000 * (clock.monotonic() - begin))
    asked = [one for one in statements if not one.upper().startswith(("SET", "SHOW"))]
    return Cost(
        sorted(took)[int(0.95 * REPEATS) - 1],
        len(asked),
        _first_kb(answer.text),
        _packed_kb(part.content),
    )


def _first_kb(html: str) -> float:
    """kB of a page with all files that it asks for, packed."""
    names = set(re.findall(r"/static/\w+/([\w./-]+)", html))
    files = sum(len(static_files.find(one).packed) for one in names)
    return _packed_kb(html.encode()) + files / 1_000


def _packed_kb(content: bytes) -> float:
    return len(gzip.compress(content, 4)) / 1_000


def _results(page: str, cost: Cost, full: bool) -> Iterator[Result]:
    """The results of a page: larger is better."""
    yield Result(
        f"page {page}",
        "pages/s",
        1_000 / cost.ms,
        note=f"{cost.ms:.1f} ms",
        least=1_000 / PAGE_MS if full else None,
    )
    for name, bound, figure, unit in (
        ("statements", STATEMENTS, cost.statements, ""),
        ("at first", FIRST_KB, cost.first_kb, " kB"),
        ("afterwards", AGAIN_KB, cost.again_kb, " kB"),
    ):
        yield Result(
            f"page {page}: {name}",
            "of the bound",
            bound / max(figure, 0.01),
            note=f"{figure:.3g}{unit}",
            least=1.0,
        )


def _open(service: BenchService) -> float:
    """The part of a core that open pages take in the service and in the database."""
    asked = b"GET /live HTTP/1.1\r\nHost: jedi\r\nAccept: text/event-stream\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(OPEN):
            wire = stack.enter_context(socket.socket(socket.AF_UNIX))
            wire.connect(str(service.home.api_socket))
            wire.sendall(asked)
            assert wire.recv(4_096).startswith(b"HTTP/1.1 200")
        begin, before = clock.monotonic(), service.cpu_s() + service.database_cpu_s()
        time.sleep(OPEN_S)
        after = service.cpu_s() + service.database_cpu_s()
        return (after - before) / (clock.monotonic() - begin)
