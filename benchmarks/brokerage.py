"""A decision over a thousand sites, and a snapshot of them with a million jobs in the tables."""

from __future__ import annotations

import random
import statistics

import numpy as np
from sqlalchemy import Engine, text

from benchmarks.common import Result, run, seconds
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.production import ProductionBroker
from jedi.brokerage.record import refusals
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB, Demand, InputSize
from jedi.model.sites.request import InputAvailability, Request, SiteInput
from jedi.model.sites.snapshot import Snapshot
from jedi.taskbuffer.sites import snapshot

SITES, JOBS, REPEATS = 1000, 1_000_000, 200
SHARES, TYPES, STATUSES = 4, 4, ("activated", "assigned", "running", "starting", "transferring")
DECISION_MS, REASONS_MS, SNAPSHOT_MS = 2.0, 5.0, 150.0
"""What they may take: the goals of the issue."""

_FILL = (
    f"""
    INSERT INTO jedi_sites (site, cloud, role, pandasite, corecount, maxtime, maxrss, lastpilot,
      laststart, fairsharepolicy, releases)
    SELECT 'SITE_' || n, 'WORLD', CASE WHEN n % 20 = 0 THEN 'nucleus' ELSE 'satellite' END,
      'PLACE_' || n / 3, CASE WHEN n % 3 = 0 THEN 8 ELSE 1 END, 172800, 1000 * (1 + n % 8),
      jedi_now() - n * interval '20 s', jedi_now() - n * interval '1 min',
      CASE WHEN n % 5 = 0 THEN 'type=evgen:50%,type=any:' || n % 2 END, ARRAY['A', 'B']
    FROM generate_series(1, {SITES}) n""",
    f"""
    INSERT INTO jedi_ddm_endpoints (ddm_endpoint, site, space_free, space_total)
    SELECT 'DISK_' || n, 'SITE_' || n, n * 10, 100000 FROM generate_series(1, {SITES}) n""",
    f"""
    INSERT INTO jedi_site_endpoints (site, ddm_endpoint)
    SELECT 'SITE_' || n, 'DISK_' || n FROM generate_series(1, {SITES}) n""",
    f"""
    INSERT INTO jedi_network_matrix (src, dst, key, value)
    SELECT 'PLACE_' || s, 'PLACE_' || d * 20 / 3, key, s % 400
    FROM generate_series(0, {SITES // 3}) s, generate_series(1, 10) d,
      unnest(ARRAY['production_queued', 'express_queued', 'mbps_1h', 'mbps_1d', 'closeness'])
        key""",
    f"""
    INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status,
      site, workqueue_id, gshare, resource_type, priority, cores, memory_mb, walltime_s, disk_mb)
    SELECT n, 1, 1, n, n, 1, (ARRAY{list(STATUSES)})[1 + n % 5], 'SITE_' || 1 + n % {SITES},
      n / 7 % 20, 's' || n / 11 % {SHARES}, 't' || n / 13 % {TYPES}, 1, 1, 0, 0, 0
    FROM generate_series(1, {JOBS}) n""",
    """
    INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, jobs, cores)
    SELECT site, workqueue_id % 2, gshare, resource_type, status, count(*), sum(cores)
    FROM jedi_jobs GROUP BY 1, 2, 3, 4, 5""",
    "ANALYZE",
)


def measure(engine: Engine) -> list[Result]:
    """Milliseconds are turned into rates: larger is better, as everywhere."""
    run(engine, *_FILL)
    nuclei = [f"SITE_{20 * n}" for n in range(1, 11)]

    def load() -> Snapshot:
        with engine.begin() as tx:
            return snapshot.load(tx, nuclei)

    world = load()
    with engine.begin() as tx:
        rows = tx.scalar(text("SELECT count(*) FROM job_stats"))
    results = [
        _result(
            "snapshot of 1,000 sites, 1 M live jobs",
            load,
            SNAPSHOT_MS,
            20,
            f"{rows:,} rows of job_stats, 10 nuclei",
        )
    ]
    results.append(_result("pack and hash a snapshot", lambda: _fresh(world).hash, None, 10))
    need, knobs = _need(), Knobs()
    for broker in (ProductionBroker(), AnalysisBroker(), GenericBroker()):
        what = f"{broker.name}: 1,000 sites x {len(broker.filters)} filters"

        def decide(broker: GenericBroker = broker) -> object:
            return broker.choose(world, need, knobs, (), 1)

        def explain(broker: GenericBroker = broker) -> object:
            return refusals(broker.choose(world, need, knobs, (), 1).verdict)

        results.append(_result(what, decide, DECISION_MS, REPEATS))
        results.append(_result(f"{what}, all reasons", explain, REASONS_MS, REPEATS))
    return results


def _result(name: str, work: object, most_ms: float | None, repeats: int, note: str = "") -> Result:
    took = statistics.median(seconds(work) for _ in range(repeats))  # type: ignore[arg-type]
    floor = 1000 / most_ms if most_ms else None
    said = f"{1000 * took:.2f} ms" + (f" of {most_ms:.0f} ms" if most_ms else "")
    return Result(
        name, "/s", 1 / took, floor, 1.0 if floor else None, note=f"{said}{note and ', '}{note}"
    )


def _fresh(world: Snapshot) -> Snapshot:
    return Snapshot.read(world.plain())


def _need() -> Requirements:
    """A task with input at a tenth of the sites."""
    demand = Demand(
        cores=1,
        ram_mb=2000,
        ram_per_core=True,
        base_ram_mb=500,
        hs06_s_per_event=250,
        efficiency=0.9,
        base_walltime_s=600,
        max_walltime_s=None,
        out_bytes=1000,
        out_per_event=True,
        work_mb=300,
    )
    draw = random.Random(1)
    held = {
        f"SITE_{n}": SiteInput(*(x := (draw.random() * 100 * GB, draw.randrange(1000))), *x)
        for n in range(1, SITES, 10)
    }
    request = Request(
        vo="atlas",
        label="managed",
        nucleus="SITE_40",
        priority=950,
        processing_type="evgen",
        gshare="s1",
        resource_type="t1",
        release="B",
        io_kb_s=300.0,
        disk_io_kb_s=50.0,
        merges=True,
    )
    load = InputSize(float(np.float64(5 * GB)), 2000.0)
    return Requirements(
        demand, load, request=request, data=InputAvailability(100 * GB, 1000, True, held)
    )
