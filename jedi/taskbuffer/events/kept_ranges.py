"""Ranges that were processed in a job set that has failed: with notDiscardEvents they stay done,
and the next job set of the same inputs takes them over.

Source: docs/reference/event-service.md#kept-ranges.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.generation import NewJobs, Retry, TaskOrder
from jedi.taskbuffer.db.sql_lists import TASK_FINAL, listed
from jedi.taskbuffer.db.statement import changes
from jedi.taskbuffer.sites.sites import WRITE_PLACE

_DONE, _DISCARDED = (states.EVENT_CODES[name] for name in ("done", "discarded"))
_ENDING = listed(("toabort", "aborting", "tobroken"))

KEEPING = """t.rules @> '{"not_discard_events": true}'"""
"""SQL: the task `t` may keep ranges of job sets that have ended."""
KEEPS = f"""(s.clone IS NULL AND {KEEPING}
  AND t.status NOT IN ({_ENDING}, {TASK_FINAL}))"""
"""SQL: the task `t` keeps the processed ranges of its job set `s` for the next one."""
SUCCEEDED = """EXISTS (
  SELECT FROM jedi_job_retry_history h WHERE h.oldpandaid = s.merge_pandaid)"""
"""SQL: the inputs of job set `s` have another one already."""

_LOCK = changes("""
SELECT FROM jedi_jobsets WHERE merge_pandaid = ANY(CAST(:olds AS bigint[]))
ORDER BY jobsetid FOR NO KEY UPDATE
""")
# All ranges that a set takes over must be readable in one place, with the pieces still to come.
_TAKE_OVER = changes(f"""
WITH found AS MATERIALIZED (
  SELECT e.jeditaskid, e.pandaid, e.fileid, e.job_processid, e.attemptnr, z.endpoint,
    n.jobsetid AS heir, n.attemptnr AS attempts
  FROM jedi_jobsets s JOIN jedi_events e ON e.jobsetid = s.jobsetid AND e.status = {_DONE}
    JOIN jedi_event_zips z USING (ziprow_id)
    JOIN jedi_events n ON n.jobsetid = ANY(CAST(:news AS bigint[]))
      AND (n.fileid, n.job_processid, n.def_max_eventid, n.event_offset)
        = (e.fileid, e.job_processid, e.def_max_eventid, e.event_offset)
  WHERE s.merge_pandaid = ANY(CAST(:olds AS bigint[])) AND z.problems IS NULL
), heirs AS (
  SELECT f.heir FROM (
    SELECT heir, array_agg(DISTINCT endpoint) AS endpoints FROM found GROUP BY heir) f
    JOIN jedi_jobs j ON j.pandaid = f.heir
  WHERE EXISTS (
    SELECT FROM jedi_site_endpoints m JOIN jedi_sites q USING (site)
    WHERE q.status = 'online' AND m.roles LIKE '%read%'
      AND m.ddm_endpoint = {WRITE_PLACE.format(site="j.site")}
      AND NOT EXISTS (SELECT FROM unnest(f.endpoints) p(endpoint) WHERE NOT EXISTS (
        SELECT FROM jedi_site_endpoints x WHERE x.site = m.site
          AND x.ddm_endpoint = p.endpoint AND x.roles LIKE '%read%')))
), good AS MATERIALIZED (
  SELECT * FROM found JOIN heirs USING (heir)
), taken AS (  -- unless they were discarded meanwhile
  UPDATE jedi_events e SET jobsetid = g.heir FROM good g
  WHERE (e.jeditaskid, e.pandaid, e.fileid, e.job_processid, e.attemptnr)
    = (g.jeditaskid, g.pandaid, g.fileid, g.job_processid, g.attemptnr) AND e.status = {_DONE}
  RETURNING g.jeditaskid, g.heir, g.fileid, g.job_processid, g.attempts
), gone AS (
  DELETE FROM jedi_events n USING taken g
  WHERE (n.jeditaskid, n.pandaid, n.fileid, n.job_processid, n.attemptnr)
    = (g.jeditaskid, g.heir, g.fileid, g.job_processid, g.attempts)
)
UPDATE jedi_jobsets s SET next_look_at = jedi_now() WHERE s.jobsetid IN (SELECT heir FROM taken)
""")
_DISCARD_REST = changes(f"""
UPDATE jedi_events e SET status = {_DISCARDED} FROM jedi_jobsets s
WHERE s.merge_pandaid = ANY(CAST(:olds AS bigint[])) AND e.jobsetid = s.jobsetid
  AND e.status = {_DONE}
""")


def keeping(batch: Sequence[tuple[TaskOrder, NewJobs]]) -> list[Retry]:
    """New jobs of tasks that keep processed ranges, with the jobs before them."""
    return [
        one
        for order, new in batch
        if order.rules.not_discard_events and not order.rules.use_job_cloning
        for one in new.retries
    ]


def lock_predecessors(tx: Connection, retries: Sequence[Retry]) -> None:
    """Lock the job sets whose ranges are taken over or discarded: before any dataset, as their ends
    do."""
    if retries:
        _LOCK.run(tx, olds=[one.old for one in retries])


def take_over(tx: Connection, retries: Sequence[Retry]) -> None:
    """Give new job sets, with their ranges, those that are done in the sets before them: they are
    not processed again."""
    if retries:
        given = {"olds": [one.old for one in retries], "news": [one.new for one in retries]}
        _TAKE_OVER.run(tx, **given)


def discard_rest(tx: Connection, retries: Sequence[Retry]) -> None:
    """Discard the ranges that are done in earlier job sets, after `take_over`: the next job is an
    ordinary one, cuts its events otherwise, or no site could merge their pieces with its own."""
    if retries:
        _DISCARD_REST.run(tx, olds=[one.old for one in retries])


_DISCARD = changes(f"""
UPDATE jedi_events e SET status = {_DISCARDED}
FROM unnest(CAST(:tasks AS bigint[]), CAST(:jobsets AS bigint[])) w(task, jobset), LATERAL (
    SELECT FROM jedi_tasks t WHERE t.jeditaskid = w.task AND {KEEPING} OFFSET 0) t, LATERAL (
    SELECT pandaid FROM jedi_consumers WHERE jobsetid = w.jobset
    UNION ALL SELECT pandaid FROM jedi_consumers
    WHERE jeditaskid = w.task AND jobsetid IS NULL AND w.jobset = 0 OFFSET 0) c, LATERAL (
    SELECT o.ctid AS tid FROM jedi_events o
    WHERE o.jeditaskid = w.task AND o.pandaid = c.pandaid AND o.ziprow_id IS NOT NULL
      AND o.status = {_DONE} FOR UPDATE) o
WHERE e.ctid = o.tid
""")


def discard(tx: Connection, jobsets: Sequence[tuple[int, int]]) -> None:
    """Discard ranges whose zip files, by task and job set, are removed; 0: those of jumbo jobs."""
    if jobsets:
        tasks, ids = map(list, zip(*jobsets, strict=True))
        _DISCARD.run(tx, tasks=tasks, jobsets=ids)
