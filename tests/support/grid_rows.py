"""A grid at work: jobs that run, fail and wait, a decision that can be repeated, pilots, links,
heartbeats, rates of a day."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jedi.agent.base import World
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.scheduling import statistics
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk
from support.generating import catalogue, document, generate, ready, rows
from support.helpers import add_site
from support.monitored import running_task, waiting_task

_RATES = text("""
INSERT INTO job_stats_hourly (hour, site, gshare, status, jobs)
SELECT date_trunc('hour', jedi_now()) - make_interval(hours => h), 'SITE_A', 'user', s.status, s.n
FROM generate_series(1, 23) h, LATERAL (VALUES ('running', 50 + 7 * (h % 5)),
  ('finished', 45 + 5 * (h % 7)), ('failed', h % 4)) s(status, n)
""")
_PILOTS = text("""
INSERT INTO jedi_pilots (pilot_id, site, host, status, engine, batch_id, endtime) VALUES
  ('pilot-1', 'SITE_A', 'h', 'running', 'slurm', '4711', NULL),
  ('pilot-2', 'SITE_A', 'h', 'submitted', 'slurm', '4712', NULL),
  ('pilot-0', 'SITE_A', 'h', 'ended', 'slurm', '4710', jedi_now())
""")
_LINKS = text("""
INSERT INTO jedi_network_matrix (src, dst, key, value)
VALUES ('SITE_A', 'SITE_B', 'mbps_1h', 120), ('SITE_A', 'SITE_B', 'closeness', 3)
""")


def at_work(world: World, error: str = "ValueError: 17") -> int:
    """A grid of three sites with all that its pages show; returns a decision that can be repeated:
    it chose SITE_A and SITE_B, and refused SITE_C, which has little memory and no data."""
    root = world.settings.home / "storage" / "SITE_C"
    root.mkdir(parents=True)
    with world.engine.begin() as tx:
        add_site(tx, "SITE_C", "SITE_C_DATADISK", root, maxrss=1000)
        for name, value in (("broker.local", "full"), ("broker.min_output_mb", 0.0)):
            knobs.put(tx, name, value, "olga")
    world.refresh()
    catalogue(world, in_=20)
    ready(world, document(ramCount=2000))
    generate(world)
    found = rows(world, "SELECT max(decision_id) AS id FROM jedi_broker_decisions")
    running_task(world)
    waiting_task(world)
    with world.engine.begin() as tx:
        _figures(tx, error)
    walk(world, DOGS["shares"])
    return int(found[0].id)


def _figures(tx: Connection, error: str) -> None:
    """Raw: no submitter and no agents run here, and no day passes."""
    statistics.fold(tx, 100_000)
    for one in (_RATES, _PILOTS, _LINKS):
        tx.execute(one)
    agents.BEAT.run(
        tx, agent="JobGenerator", process="h-1-1", cycles=5, items=77, error=None, rss=80_000
    )
    agents.BEAT.run(tx, agent="Adder", process="h-2-1", cycles=5, items=77, error=error, rss=80_000)
