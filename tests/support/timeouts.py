"""Builders that several tests share with tests of timeouts."""

# Raw UPDATEs: pilots that brought jobs to every status are not there.

from __future__ import annotations

from sqlalchemy import text

from jedi.agent.base import World
from support.helpers import unguard
from support.job_rows import Made, make_jobs


def put(world: World, status: str, columns: str = "", site: str = "", jobs: int = 1) -> Made:
    """Jobs of SITE_A that came to this status now; `columns` of theirs and of the `site`'s are set
    in SQL. Who looks for idle sites finds that a job has just started."""
    with world.engine.begin() as tx:
        unguard(tx)
        made = make_jobs(tx, jobs)
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = :status, pilot_id = 'p', lock_seq = 1, "
                "heartbeat_at = jedi_now(), statechangetime = jedi_now()"
            ),
            {"status": status},
        )
        tx.execute(text(f"UPDATE jedi_jobs SET {columns or 'lock_seq = 1'}"))
        if status != "activated":
            tx.execute(text("DELETE FROM jedi_job_ready"))
        tx.execute(text("UPDATE job_stats_delta SET status = :status"), {"status": status})
        tx.execute(text(f"UPDATE jedi_sites SET {site or 'laststart = jedi_now()'}"))
    return made
