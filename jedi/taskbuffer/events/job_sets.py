"""Job sets come into being, and get consumers: the first ones and those that follow.

`write_jobs` has written the jobs that wait. All statements here are for any number of job sets,
consumers and ranges; ranges go to the database in blocks, so memory does not grow with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.event_texts import EVENTS
from jedi.model.jobs.events import WAITING_CO_JUMBO, NewConsumer, NewRanges
from jedi.model.jobs.generation import NewJobs, TaskOrder
from jedi.taskbuffer.db.copying import Block, copy_rows
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import INPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events import kept_ranges, placeholders
from jedi.taskbuffer.sites.sites import OUTPUT_PLACE, READ_PLACE

RANGES_AT_ONCE = 50_000

_NOTE_SETS = changes(f"""
UPDATE jedi_dataset_contents c SET jobsetid = f.pandaid FROM jedi_job_files f
WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({INPUT_TYPES})
  AND c.fileid = f.fileid AND c.pandaid = f.pandaid
""")


def write_sets(tx: Connection, batch: Sequence[tuple[TaskOrder, NewJobs]], agent: str) -> None:
    """Write the job sets of new jobs, which are written already, with their ranges and first
    consumers."""
    if not batch:
        return
    copy_rows(tx, "jedi_jobsets", (_sets(order, new) for order, new in batch))
    for order, new in batch:
        assert new.sets is not None
        write_ranges(tx, order.jedi_task_id, new.sets.ranges)
    _NOTE_SETS.run(tx, ids=[panda_id for _, new in batch for panda_id in new.panda_ids])
    jumbo = [new for _, new in batch if new.sets and new.sets.jumbo]
    for new in jumbo:
        placeholders.FLAG.run(
            tx, ids=list(new.panda_ids), waiting=False
        )  # an end that is not booked yet
        if new.waits:
            placeholders.FLAG.run(tx, ids=list(new.panda_ids), waiting=True)
    kept_ranges.take_over(tx, kept_ranges.keeping(batch))
    wanted = [one for _, new in batch if new.sets for one in new.sets.consumers]
    add_consumers(tx, wanted, agent)


def _sets(order: TaskOrder, new: NewJobs) -> Block:
    sets = new.sets
    assert sets is not None
    names = list(new.texts)
    columns = zip(*new.texts.values(), strict=True)
    texts = [json.dumps(dict(zip(names, one, strict=True))) for one in columns]
    return {
        "jobsetid": list(new.panda_ids),
        "jeditaskid": order.jedi_task_id,
        "merge_pandaid": list(new.panda_ids),
        "mode": sets.mode,
        "clone": sets.clone,
        "n_ranges": sets.ranges.per_set(new.panda_ids),
        "n_consumers": 0,
        "n_merges": 1,
        "attempts_left": sets.retries,
        "sites": [json.dumps(sets.places[site]) for site in new.sites],
        "jumbo": sets.jumbo,
        "priority": list(new.priorities),
        "gshare": order.columns["gshare"],
        "resource_type": order.columns["resource_type"],
        "cores": list(new.cores),
        "memory_mb": list(new.memory_mb),
        "walltime_s": list(new.walltime_s),
        "disk_mb": list(new.disk_mb),
        "command": list(new.beside),
        "texts": texts or None,
    }


def write_ranges(tx: Connection, jedi_task_id: int, ranges: NewRanges) -> None:
    """Write the ranges of job sets of a task, a block at a time."""
    for block in _ranges(jedi_task_id, ranges):
        copy_rows(tx, "jedi_events", [block])


def _ranges(jedi_task_id: int, ranges: NewRanges) -> Iterator[Block]:
    for block in ranges.blocks(RANGES_AT_ONCE):
        yield {
            "jeditaskid": jedi_task_id,
            "datasetid": block.dataset_ids.tolist(),
            "fileid": block.file_ids.tolist(),
            "status": states.EVENT_CODES["ready"],
            "pandaid": (jobset_ids := block.jobset_ids.tolist()),
            "job_processid": (first := block.first.tolist()),
            "def_min_eventid": first,
            "def_max_eventid": block.last.tolist(),
            "attemptnr": ranges.attempts,
            "event_offset": block.shifts.tolist(),
            "jobsetid": jobset_ids,
        }


_KIND = " ".join(f"WHEN '{mode}' THEN '{kind}'" for mode, kind in states.JOBSET_MODES.items())
_OWN_SET = "CASE WHEN kind <> 'jumbo' THEN jobsetid END"
_LOCK = changes("""
SELECT FROM jedi_jobsets WHERE jobsetid = ANY(CAST(:ids AS bigint[]))
ORDER BY jobsetid FOR NO KEY UPDATE
""")
_LOCK_LOGS = changes("""
SELECT FROM jedi_datasets WHERE datasetid IN (
  SELECT f.datasetid FROM jedi_jobsets t JOIN jedi_job_files f ON f.pandaid = t.merge_pandaid
  WHERE t.jobsetid = ANY(CAST(:ids AS bigint[])) AND f.type = 'log')
ORDER BY datasetid FOR NO KEY UPDATE
""")


class AddedConsumer(NamedTuple):
    """A new consumer; `number`: its place among those of its job set, from 1 on."""

    jobset_id: int
    panda_id: int
    number: int
    status: str
    jedi_task_id: int


# The job that waits says whose work it is; the job set, what a consumer needs. Where nothing is
# said of the site, it is that of the consumer before. A clone makes the outputs itself. Files
# are at endpoints of the consumer's own site, unless their dataset has a destination.
_ADD = returns(AddedConsumer)(f"""
WITH w AS MATERIALIZED (
  SELECT t.*, n.after, n.relation, n.freeinrow,
    coalesce(n.kind, CASE WHEN t.jumbo AND t.mode = 'es' THEN 'co_jumbo' END,
      CASE t.mode {_KIND} END) AS kind,
    coalesce(n.site, before.site, m.site) AS at_site, m.pandaid AS m,
    coalesce(n.n_cores, t.cores) AS n_cores, coalesce(n.n_memory, t.memory_mb) AS n_memory,
    m.taskid, m.originpandaid, m.unit_nr, m.attemptnr, m.prodsourcelabel, m.processingtype,
    m.username, m.vo, m.nucleus, m.workqueue_id, m.n_inputs, m.n_events,
    CASE WHEN n.site = '{WAITING_CO_JUMBO}' THEN 'waiting' WHEN n.local THEN 'activated'
      ELSE 'assigned' END AS status,
    nextval('jedi_panda_id_seq') AS pandaid,
    t.n_consumers + row_number() OVER (PARTITION BY t.jobsetid ORDER BY n.place) AS number
  FROM unnest(CAST(:ids AS bigint[]), CAST(:sites AS text[]), CAST(:local AS bool[]),
      CAST(:after AS bigint[]), CAST(:kinds AS text[]), CAST(:cores AS int[]),
      CAST(:memory AS int[]), CAST(:relations AS text[]), CAST(:free AS smallint[]))
      WITH ORDINALITY n(id, site, local, after, kind, n_cores, n_memory, relation, freeinrow, place)
    JOIN jedi_jobsets t ON t.jobsetid = n.id JOIN jedi_jobs m ON m.pandaid = t.merge_pandaid
    LEFT JOIN LATERAL (
      SELECT j.site FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
      WHERE c.jobsetid = t.jobsetid ORDER BY c.number DESC LIMIT 1) before ON n.site IS NULL
  ORDER BY n.place
), jobs AS (
  INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, kind,
    status, prodsourcelabel, processingtype, username, vo, site, nucleus, workqueue_id, gshare,
    resource_type, priority, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events)
  SELECT pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, kind,
    status, prodsourcelabel, processingtype, username, vo, at_site, nucleus, workqueue_id, gshare,
    resource_type, priority + CAST(after IS NOT NULL AS int), n_cores, n_memory, walltime_s,
    disk_mb, n_inputs, n_events FROM w
), params AS (
  INSERT INTO jedi_job_params (pandaid, jobparameters, texts)
  SELECT pandaid, replace(command, '$PANDAID', CAST(pandaid AS text)),
    coalesce(texts, '{{}}') || jsonb_build_object('{EVENTS}', CAST(jsonb_build_object(
      'jobset_id', {_OWN_SET}, 'mode', mode, 'clone', clone) AS text)) FROM w
), beside AS (
  INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number, freeinrow)
  SELECT pandaid, jeditaskid, {_OWN_SET}, kind, number, freeinrow FROM w
), files AS (
  SELECT w.pandaid, w.kind, w.number, f.fileid, f.jeditaskid, f.datasetid, f.type, f.lfn,
    f.source_name, f.fsize, f.checksum, f.guid, f.n_events, f.start_event, f.end_event, w.attemptnr,
    CASE WHEN f.endpoint IS NULL THEN NULL
      WHEN f.type IN ({INPUT_TYPES})
      THEN {READ_PLACE.format(site="w.at_site", endpoint="f.endpoint")}
      ELSE coalesce((SELECT {OUTPUT_PLACE.format(site="w.at_site")} FROM jedi_datasets d
        WHERE d.datasetid = f.datasetid), f.endpoint) END AS endpoint
  FROM w, LATERAL (SELECT * FROM jedi_job_files f WHERE f.pandaid = w.m OFFSET 0) f
), logs AS (
  INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, scope, status,
    attemptnr, keeptrack, pandaid, outpandaid, proc_status, jobsetid)
  SELECT nextval('jedi_file_id_seq'), f.datasetid, f.jeditaskid,
    regexp_replace(f.lfn, '(\\.tgz)?$', '.c' || f.number || '\\1'), c.type, c.scope, 'defined',
    f.attemptnr, 1, f.pandaid, f.pandaid, 'queued', w.jobsetid
  FROM files f JOIN w USING (pandaid) JOIN jedi_dataset_contents c ON c.fileid = f.fileid
  WHERE f.type = 'log'
  RETURNING fileid, datasetid, jeditaskid, lfn, pandaid
), copies AS (
  INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
    endpoint, fsize, checksum, guid, n_events, start_event, end_event)
  SELECT pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
    endpoint, fsize, checksum, guid, n_events, start_event, end_event
  FROM files WHERE type IN ({INPUT_TYPES}) OR type = 'output' AND kind = 'clone'
  UNION ALL
  SELECT l.pandaid, l.fileid, l.jeditaskid, l.datasetid, 'log', l.lfn, NULL, f.endpoint, NULL,
    NULL, NULL, NULL, NULL, NULL
  FROM logs l JOIN files f ON f.pandaid = l.pandaid AND f.type = 'log'
), queue AS (
  INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s,
    disk_mb)
  SELECT pandaid, at_site, gshare, priority + CAST(after IS NOT NULL AS int), n_cores, n_memory,
    walltime_s, disk_mb FROM w WHERE status = 'activated'
), history AS (
  INSERT INTO jedi_job_retry_history (jeditaskid, oldpandaid, newpandaid, relationtype,
    originpandaid)
  SELECT jeditaskid, after, pandaid, relation, originpandaid FROM w WHERE after IS NOT NULL
), log AS (
  INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code, reason)
  SELECT pandaid, jeditaskid, status, :agent, 'generated', 'generated' FROM w
), stats AS (
  INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
  SELECT at_site, workqueue_id, gshare, resource_type, status, count(*), sum(n_cores) FROM w
  GROUP BY at_site, workqueue_id, gshare, resource_type, status
), counted AS (
  UPDATE jedi_jobsets t SET n_consumers = t.n_consumers + n.added,
    attempts_left = t.attempts_left - n.retries, priority = t.priority + CAST(n.retries > 0 AS int)
  FROM (SELECT jobsetid, count(*) AS added, count(after) AS retries FROM w GROUP BY jobsetid) n
  WHERE t.jobsetid = n.jobsetid
), filled AS (
  UPDATE jedi_datasets d SET nfiles = d.nfiles + n.added, modificationtime = jedi_now()
  FROM (SELECT datasetid, count(*) AS added FROM logs GROUP BY datasetid) n
  WHERE d.datasetid = n.datasetid
)
SELECT jobsetid, pandaid, CAST(number AS int) AS number, status,
  jeditaskid
FROM w ORDER BY jobsetid, number
""")


def add_consumers(tx: Connection, wanted: Sequence[NewConsumer], agent: str) -> list[AddedConsumer]:
    """Add consumers to job sets. Each has the inputs of the job that waits (not as their user), a
    log of its own, and the job set's command. Those that follow another one use up a retry, and
    come one step earlier in the queue. Inputs of later ones are looked for by the Mover."""
    if not wanted:
        return []
    ids = {"ids": sorted({one.jobset_id for one in wanted})}
    _LOCK.run(tx, **ids)
    _LOCK_LOGS.run(tx, **ids)
    found = {
        "ids": [one.jobset_id for one in wanted],
        "sites": [one.site for one in wanted],
        "local": [one.local for one in wanted],
        "after": [one.after for one in wanted],
        "kinds": [one.kind for one in wanted],
        "cores": [one.cores for one in wanted],
        "memory": [one.memory_mb for one in wanted],
        "relations": [one.relation for one in wanted],
        "free": [one.free_in_row for one in wanted],
        "agent": agent,
    }
    added = _ADD.rows(tx, **found)
    wake(tx, *sorted({f"job:{one.status}" for one in added}))
    return added
