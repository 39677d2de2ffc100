"""Job sets that are due: the price of a look, and the order of locks.

Expected: a look reads the due sets alone, however many live; agents that end jobs lock their
datasets in one order.
"""

# Raw UPDATEs: live sets and zipped ranges, many at once; no pilot makes them.

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, text
from support.event_rows import make_job_set
from support.event_sets import EventPilot, events_task, set_jobs
from support.pages import buffers
from support.races import blocked
from support.situations import lead

from jedi.agent.base import World
from jedi.eventservice.agent import EventService
from jedi.taskbuffer.db.engine import value
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.events import consumer_ends, pieces, set_ends
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.jobs import dispatch

_LIVE = text("""
WITH ids AS (
  SELECT nextval('jedi_panda_id_seq') AS one, nextval('jedi_panda_id_seq') AS other
  FROM generate_series(1, :n)
), jobs AS (
  INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, kind,
    status, site, priority, cores, memory_mb, walltime_s, disk_mb, pilot_result, booked)
  SELECT id, 0, 1, 1, 1, 1, kind, status, 'SITE_A', 0, 1, 0, 0, 0, result, booked
  FROM ids, LATERAL (VALUES (one, 'es_merge', 'waiting', NULL, NULL),
    (other, 'consumer', 'merging', 'finished', 'ended')) j(id, kind, status, result, booked)
), consumers AS (
  INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number, settled_at)
  SELECT other, 0, one, 'consumer', 1, jedi_now() FROM ids
)
INSERT INTO jedi_jobsets (jobsetid, jeditaskid, merge_pandaid, mode, n_ranges, n_consumers,
  n_merges, attempts_left, jumbo, priority, gshare, resource_type, cores, memory_mb, walltime_s,
  disk_mb, command)
SELECT one, 0, one, 'es', 1, 1, 1, 3, false, 0, '', '', 1, 0, 0, 0, '' FROM ids
""")


def add_live(engine: Engine, n: int) -> None:
    with engine.begin() as tx:
        tx.execute(_LIVE, {"n": n})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.exec_driver_sql("VACUUM ANALYZE")


def test_a_look_costs_with_the_due_sets_alone(world: World) -> None:
    """One set is due. Beside 200 live ones, whose consumers wait for the merge, and beside 2000
    the looks of the EventService and of the Adder touch as many pages; 4 more may be upper levels
    of indexes."""
    task = events_task(world)
    [job] = (pilot := EventPilot(world)).take()
    pilot.end(job)
    looks: list[tuple[Any, dict[str, Any]]] = [
        (consumer_ends.DUE, {"limit": 100, "not_yet": []}),
        (consumer_ends.ANY_OPEN, {}),
        (job_ends._REPORTED, {"limit": 100, "first": 0}),
        (job_ends.ANY_REPORTED, {}),
    ]
    add_live(world.engine, 200)
    few = [buffers(world.engine, look, **values) for look, values in looks]
    add_live(world.engine, 1800)
    many = [buffers(world.engine, look, **values) for look, values in looks]
    assert all(now <= before + 4 for before, now in zip(few, many, strict=True)), (few, many)
    with world.engine.begin() as tx:
        [due] = consumer_ends.DUE.rows(tx, limit=100, not_yet=())
    assert EventService(world).run_once() == 1
    assert set_jobs(world, task, "consumer")[0] == ("consumer", "closed", "es_noevent")
    assert due > 0


_ZIPS = text("""
INSERT INTO jedi_event_zips (jeditaskid, jobsetid, pandaid, lfn, endpoint)
SELECT :task, :jobset, :jobset, :n || '.' || g, 'SITE_A_DATADISK' FROM generate_series(1, :n) g
""")


def test_a_spoilt_zip_is_found_by_its_name(engine: Engine) -> None:
    """A merge reports a zip file of its job set: beside 200 others of the set and beside 2000 the
    statement touches as many pages."""
    with engine.begin() as tx:
        made = make_job_set(tx, 1)
    touched = []
    given = {"ids": [made.jobset], "lfns": ["200.7"], "problems": ["broken"]}
    for n in (200, 2000):
        with engine.begin() as tx:
            tx.execute(_ZIPS, {"task": made.task, "jobset": made.jobset, "n": n})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
            tx.exec_driver_sql("VACUUM ANALYZE")
        touched.append(buffers(engine, dispatch._SPOILT_PIECES, **given))
    assert touched[1] <= touched[0] + 2, touched


def sorted_rows(plan: dict[str, Any]) -> float:
    """The most rows that a part of a plan sorts or keeps."""
    here = plan["Actual Rows"] if plan["Node Type"] in ("Sort", "Aggregate", "Materialize") else 0
    return max([here, *(sorted_rows(part) for part in plan.get("Plans", ()))])


def test_facts_of_a_set_keep_no_ranges(engine: Engine) -> None:
    """100 zip files of a consumer, each of 2 ranges or of 20: counts and places are grouped by
    owner and by zip file, so nothing sorts or keeps more rows than there are zip files."""
    with engine.begin() as tx:
        sets = [make_job_set(tx, n).jobset for n in (200, 2000)]
        tx.execute(
            text(
                "UPDATE jedi_events e SET status = 6, ziprow_id = 1 + job_processid % 100 "
                "WHERE jobsetid = ANY(:sets)"
            ),
            {"sets": sets},
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.exec_driver_sql("VACUUM ANALYZE")
    with engine.begin() as tx:
        for statement in (consumer_ends._COUNTS, set_ends.MERGE_SITES, set_ends.HELD):
            explain = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}")
            for jobset in sets:
                [found] = tx.scalar(explain, {"ids": [jobset], "alive": []}) or [{}]
                assert sorted_rows(found["Plan"]) <= 100


_DONE = text("UPDATE jedi_events SET status = 6 WHERE jobsetid = :jobset")
_ENDED_SETS = text("""
WITH ids AS (
  SELECT nextval('jedi_panda_id_seq') AS one, nextval('jedi_panda_id_seq') AS other
  FROM generate_series(1, :n)
), consumers AS (
  INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number, settled_at)
  SELECT other, :task, one, 'consumer', 1, jedi_now() FROM ids
), ranges AS (
  INSERT INTO jedi_events (jeditaskid, datasetid, fileid, status, pandaid, job_processid,
    def_min_eventid, def_max_eventid, attemptnr, jobsetid, ziprow_id)
  SELECT :task, 1, 1, 9, other, g, g, g, 10, one, 1 FROM ids, generate_series(1, 10) g
)
INSERT INTO jedi_jobsets (jobsetid, jeditaskid, merge_pandaid, mode, n_ranges, n_consumers,
  n_merges, attempts_left, jumbo, priority, gshare, resource_type, cores, memory_mb, walltime_s,
  disk_mb, command, ended_at)
SELECT one, :task, one, 'es', 10, 1, 1, 3, false, 0, '', '', 1, 0, 0, 0, '', jedi_now() FROM ids
""")


def test_a_page_of_pieces_costs_what_it_returns(engine: Engine) -> None:
    """The page of 50 ranges in the middle of a set of 400 and of one of 4000: as many pages are
    touched, 4 more may be upper levels of indexes, and nothing sorts more than the 50."""
    touched = []
    for n in (400, 4000):
        with engine.begin() as tx:
            made = make_job_set(tx, n)
            tx.execute(_DONE, {"jobset": made.jobset})
            lead(tx, [made.jobset], "activated", "sent", "running")
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
            tx.exec_driver_sql("VACUUM ANALYZE")
        given = {
            "site": "SITE_A",
            "panda_id": made.jobset,
            "lock_seq": 0,
            "n": 50,
            "file": made.file,
            "process": 5 * n // 2,
        }
        with engine.begin() as tx:
            for _ in range(2):
                explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {pieces._PAGE.sent}"
                plan = value(tx, explain, given)[0]["Plan"]
        touched.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        assert sorted_rows(plan) == 50
    assert touched[1] <= touched[0] + 4, touched


def test_the_sweep_looks_at_its_own_job_sets(engine: Engine) -> None:
    """10 open job sets have zip files: beside 100 others and beside 1000, which have ended with
    their ranges merged, the look touches as many pages; 2 more each may be upper levels of indexes.
    """
    with engine.begin() as tx:
        first = make_job_set(tx, 1)
        sets = [make_job_set(tx, 10, task=first.task).jobset for _ in range(10)]
    given = {"tasks": [first.task] * 10, "jobsets": sets}
    touched = []
    for n in (100, 900):
        with engine.begin() as tx:
            tx.execute(_ENDED_SETS, {"n": n, "task": first.task})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
            tx.exec_driver_sql("VACUUM ANALYZE")
        touched.append(buffers(engine, dogs._OPEN_SETS, **given))
        with engine.begin() as tx:
            assert dogs.open_sets(tx, [(first.task, one) for one in sets]) == {
                (first.task, one) for one in sets
            }
    assert touched[1] <= touched[0] + 20, touched


_LOCK = text("SELECT FROM jedi_datasets WHERE datasetid = :id FOR NO KEY UPDATE")
_DATASETS = text("SELECT datasetid FROM jedi_datasets WHERE jeditaskid = :task ORDER BY datasetid")


def test_ends_of_sets_and_of_jobs_lock_datasets_in_one_order(world: World) -> None:
    """Expected: no deadlock. Two sets of two tasks: the first one fails (its merge job's outputs
    are in the first task's datasets), the other one has a consumer that ended. Another agent ends
    jobs of both tasks: it has the first task's output dataset, and comes to the second task's log
    when the EventService works on both."""
    first = events_task(world, maxAttemptEsJob=0)
    second = events_task(world, output="a:second", taskName="second")
    pilot = EventPilot(world)
    for job in pilot.take(2):
        pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    agent = EventService(world)
    world.refresh()
    with world.engine.begin() as tx:
        results = [(item, agent.work(item)) for item in agent.claim(tx, 10)]
        output, *_ = tx.scalars(
            text(
                "SELECT datasetid FROM jedi_datasets WHERE jeditaskid = :task AND type = 'output'"
            ),
            {"task": first},
        ).all()
        last = max(tx.scalars(_DATASETS, {"task": second}))
    assert len(results) == 2

    def ends(tx: Connection) -> None:
        agent.apply(tx, results)

    with world.engine.connect() as adder:
        adder.execute(_LOCK, {"id": output})
        with blocked(world.engine, ends):
            adder.execute(_LOCK, {"id": last})
            adder.commit()
    assert set_jobs(world, first)[0] == ("es_merge", "failed", None)
