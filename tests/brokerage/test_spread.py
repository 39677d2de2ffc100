"""Fifty sites without pilots: jobs spread by the weights that brokers say, slots by shares."""

# Raw UPDATEs: all but a few sites are offline.

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import sqrt

import pytest
from sqlalchemy import text
from support.generating import catalogue, document, generate, ready, rows
from support.situations import make_due

from jedi.agent.base import World
from jedi.model.jobs.wire import Resources
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

SITES = [f"GRID_{n:02}" for n in range(50)]
SHARES = {"simul": 40, "reco": 20, "group": 10, "idle": 30}
SLOTS = 10
_SITES = text("""
INSERT INTO jedi_sites SELECT (jsonb_populate_record(s, jsonb_build_object('site', name))).*
FROM jedi_sites s, unnest(CAST(:names AS text[])) name WHERE s.site = 'SITE_A'
""")
_ENDPOINTS = text("""
INSERT INTO jedi_site_endpoints (site, ddm_endpoint)
SELECT name, 'SITE_A_DATADISK' FROM unnest(CAST(:names AS text[])) name
""")
_QUEUES = text("""
INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status, queue_share,
  criteria, stretchable)
SELECT 100 + n, name, 'user', 'local', -n, 'active', share, format('campaign = %L', name),
  CAST(name = 'group' AS int)
FROM unnest(CAST(:names AS text[]), CAST(:shares AS int[])) WITH ORDINALITY q(name, share, n)
""")
_BUSY = text("""
INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT site, 0, :share, 'SCORE', status, jobs, jobs
FROM unnest(CAST(:sites AS text[]), CAST(:running AS int[]), CAST(:activated AS int[]))
  b(site, running, activated),
  LATERAL (VALUES ('running', running), ('activated', activated)) v(status, jobs)
""")


@pytest.fixture
def grid(world: World) -> World:
    """Fifty sites that share a storage, and work queues for campaigns."""
    with world.engine.begin() as tx:
        names = {"names": SITES}
        tx.execute(_SITES, names)
        tx.execute(_ENDPOINTS, names)
        tx.execute(text("UPDATE jedi_sites SET status = 'offline' WHERE site LIKE 'SITE%'"))
        tx.execute(_QUEUES, {"names": list(SHARES), "shares": list(SHARES.values())})
        for name, value in {
            "broker.local": "full",
            "analysis.max_sites": len(SITES),
            "jobgen.batch": 100,
            "taskrefiner.batch": 200,
            "contentsfeeder.batch": 200,
            "analysis.overload_jobs": 10**6,
            "analysis.cap_jobs": 10**6,
        }.items():
            knobs.put(tx, name, value, "test")
    world.refresh()
    return world


def sites_of_jobs(world: World, share: str) -> list[str]:
    """Where jobs went, in the order in which they were made."""
    query = "SELECT site FROM jedi_jobs WHERE gshare = :s ORDER BY pandaid"
    return [row.site for row in rows(world, query, s=share)]


def surprise(drawn: Iterable[str], chances: Iterable[Mapping[str, float]]) -> list[float]:
    """By how many standard deviations each site got more or less draws than its chances said; each
    chance may follow from what was drawn before."""
    hits, expected, variance = Counter(drawn), Counter[str](), Counter[str]()
    for weights in chances:
        total = sum(weights.values())
        for site, weight in weights.items():
            expected[site] += weight / total  # type: ignore[assignment]
            variance[site] += weight / total * (1 - weight / total)  # type: ignore[assignment]
    return [(hits[site] - expected[site]) / sqrt(variance[site]) for site in expected]


def likely(deviations: Sequence[float]) -> bool:
    """None of them is beyond 5 sigma, nor are they all too large or too small: chi-square has its
    number of degrees of freedom as mean, and twice that as variance."""
    chi2, freedom = sum(one**2 for one in deviations), len(deviations) - 1
    return max(map(abs, deviations)) < 5 and abs(chi2 - freedom) < 5 * sqrt(2 * freedom)


def test_jobs_spread_by_the_weights_of_their_share(grid: World) -> None:
    dice = random.Random(4)
    ddm = catalogue(grid, in_=1)
    ddm.endpoints = ["SITE_A_DATADISK"]
    busy = {
        share: {site: (dice.randrange(60), dice.randrange(100)) for site in SITES}
        for share in ("simul", "reco")
    }
    with grid.engine.begin() as tx:
        for share, sites in busy.items():
            running, activated = zip(*sites.values(), strict=True)
            tx.execute(
                _BUSY,
                {
                    "share": share,
                    "sites": list(sites),
                    "running": list(running),
                    "activated": list(activated),
                },
            )
    for share in busy:
        ready(grid, *(document(output=f"{share}:{n}", campaign=share) for n in range(120)))
    while generate(grid):
        pass
    for share, sites in busy.items():
        drawn = sites_of_jobs(grid, share)
        assert len(drawn) == 120
        made: Counter[str] = Counter()
        chances = []
        for site in drawn:  # docs/reference/network-and-weights.md#analysis-weight
            chances.append(
                {
                    name: (running + 1) / (activated + made[name] + 1)
                    for name, (running, activated) in sites.items()
                }
            )
            made[site] += 1
        assert likely(surprise(drawn, chances))
        even = [dict.fromkeys(SITES, 1.0)] * len(drawn)
        assert not likely(surprise(drawn, even))  # the bounds are narrow enough to tell


def finish(world: World, jobs: Sequence[int]) -> None:
    """Jobs at sites end well."""
    with world.engine.begin() as tx:
        moves = [JobMove(job, "holding", "c", "r") for job in jobs]
        move_jobs(tx, moves, "test", ["running"])
        end_jobs(tx, [JobEnd(job, "finished", "c", "r") for job in jobs], "test")


def fill(world: World, site: str, slots: int, request: str) -> list[int]:
    """Pilots take jobs and run them."""
    with world.engine.begin() as tx:
        free = Resources(cores=1, memory_mb=0, walltime_s=0, disk_mb=0)
        held = dispatch.acquire(tx, site, slots, free, request, site)
        moves = [JobMove(job.panda_id, "running", "c", "r") for job in held]
        move_jobs(tx, moves, "test", ["sent"])
    return [job.panda_id for job in held]


@pytest.mark.long
def test_slots_go_to_shares_by_what_they_may_use(grid: World) -> None:
    dice = random.Random(5)
    catalogue(grid, in_=300).endpoints = ["SITE_A_DATADISK"]
    campaigns = [share for share in SHARES if share != "idle"]
    for share in campaigns:
        ready(
            grid,
            *(document(output=f"{share}:{n}", campaign=share, nFilesPerJob=1) for n in range(5)),
        )
    at: dict[str, list[int]] = {site: [] for site in SITES}
    used: deque[Counter[str]] = deque(maxlen=15)
    for turn in range(18):
        with grid.engine.begin() as tx:
            make_due(tx)
        generate(grid)
        ended = {site: [job for job in jobs if dice.random() < 0.2] for site, jobs in at.items()}
        finish(grid, sorted(job for jobs in ended.values() for job in jobs))
        order = iter(dice.sample(SITES, len(SITES)))
        while some := list(islice(order, 5)):
            walk(grid, DOGS["shares"])
            for site in some:
                at[site] = [job for job in at[site] if job not in ended[site]]
                at[site] += fill(grid, site, SLOTS - len(at[site]), f"{turn} {site}")
        query = "SELECT gshare, count(*) AS n FROM jedi_jobs WHERE status = 'running' GROUP BY 1"
        used.append(Counter({row.gshare: row.n for row in rows(grid, query)}))
    total = sum(used, Counter())
    parts = {share: total[share] / total.total() for share in campaigns}
    # what nobody wants of the idle share goes to the one that may stretch
    assert parts == pytest.approx({"simul": 0.4, "reco": 0.2, "group": 0.4}, abs=0.03)
    assert total.total() > 0.95 * len(used) * SLOTS * len(SITES)
