"""Situations that operators, time or dead workers bring about.

Raw UPDATEs stand here once, each with the reason why neither an agent nor the service does it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jedi.core import states
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.sites.sites import put_sites
from support.transaction import Place, transaction


def set_sites(place: Place, *names: str, **attributes: Any) -> None:
    """Set attributes of these sites, or of all, as `jedi site set` does."""
    with transaction(place) as tx:
        sites = names or tx.scalars(text("SELECT site FROM jedi_sites")).all()
        put_sites(tx, dict.fromkeys(sites, attributes))


def read_afar(place: Place, site: str, endpoint: str, roles: str = "read") -> None:
    """A site comes to read the endpoint of another one. Raw: a file of sites names all of them."""
    with transaction(place) as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local, roles) "
                "VALUES (:site, :endpoint, false, :roles)"
            ),
            {"site": site, "endpoint": endpoint, "roles": roles},
        )


def pilots_ask(place: Place) -> None:
    """Pilots have just asked everywhere and got jobs. Raw: no pilot runs in these tests."""
    with transaction(place) as tx:
        tx.execute(text("UPDATE jedi_sites SET lastpilot = jedi_now(), laststart = jedi_now()"))


def make_due(place: Place) -> None:
    """Tasks that wait for a time are due. Raw: time does it."""
    with transaction(place) as tx:
        tx.execute(text("UPDATE jedi_tasks SET next_run_at = NULL"))


def end_leases(place: Place) -> None:
    """The leases on tasks and loads end: their workers are late. Raw: time does it, and leases
    follow the clock of the database, which tests can't turn."""
    with transaction(place) as tx:
        for table, held in (("jedi_tasks", "lockedby"), ("jedi_process_lock", "lease_until")):
            tx.execute(
                text(f"UPDATE {table} SET lease_until = clock_timestamp() WHERE {held} IS NOT NULL")
            )


def lose_task(place: Place, task: int | None = None) -> None:
    """Another worker has claimed a task (or all) in the meantime. Raw: it is not there."""
    with transaction(place) as tx:
        tx.execute(
            text(
                "UPDATE jedi_tasks SET lock_seq = lock_seq + 1 "
                "WHERE jeditaskid = coalesce(:t, jeditaskid)"
            ),
            {"t": task},
        )


def lose_job(place: Place, job: int | None = None) -> None:
    """Another pilot has got a job (or all) in the meantime. Raw: it is not there."""
    with transaction(place) as tx:
        tx.execute(
            text(
                "UPDATE jedi_jobs SET lock_seq = lock_seq + 1 WHERE pandaid = coalesce(:j, pandaid)"
            ),
            {"j": job},
        )


def lead(place: Place, jobs: list[int], *statuses: str) -> None:
    """Lead jobs through these statuses, as pilots and agents do one after the other."""
    with transaction(place) as tx:
        for status in statuses:
            moves = [JobMove(job, status, "c", "r") for job in jobs]
            assert len(move_jobs(tx, moves, "test", states.JOB_LIVE)) == len(jobs), status
