"""jedi_outbox: notices to users, written in the transaction that causes them, delivered later.

Code that moves, holds or ends something calls `notify_of_jobs` or `notify_of_tasks` in the same
transaction; they read its state then. A user gets one notice of a topic by each channel, however
often they are called. Only users who asked for notices get any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import pgi, states
from jedi.taskbuffer.db.sql_lists import FILE_TYPES, INPUT_FILE_TYPES, listed
from jedi.taskbuffer.db.statement import changes, returns

_WORTH = listed(state for state, held in pgi.STATES.items() if held.notify)
_URGENT = listed(state for state, held in pgi.STATES.items() if held.notify == "urgent")
_MICROSECONDS = "to_char({} AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS')"
_WAYS = """
jedi_users u, LATERAL (VALUES ('mail', u.email), ('webhook', u.webhook)) w(channel, address)
"""
_WANTED = """
w.address IS NOT NULL AND (w.channel <> 'mail' OR p.taskparams -> 'noEmail' IS DISTINCT FROM 'true')
"""
ASKED = "EXISTS (SELECT FROM jedi_users WHERE notices = 'jobs')"
"""True if a user has subscribed to jobs: the only work while nobody has."""

MOST_INPUTS = 100
"""A message names so many files at most; `jedi-job show` lists all."""
# docs/reference/pgi.md#holds. Ranges of one file are one file here.
_TO_BRING = f"""
(SELECT jsonb_build_object('n_inputs', count(*), 'inputs', coalesce(jsonb_agg(
    to_jsonb(f) - 'fileid' - 'place' ORDER BY fileid) FILTER (WHERE place <= {MOST_INPUTS}), '[]'))
  FROM (SELECT row_number() OVER (ORDER BY min(f.fileid)) AS place, min(f.fileid) AS fileid,
      d.datasetname AS dataset, f.lfn, f.endpoint, f.fsize AS size, f.checksum AS adler32
    FROM jedi_job_files f JOIN jedi_datasets d ON d.datasetid = f.datasetid
    WHERE f.pandaid = j.pandaid AND f.type IN ({FILE_TYPES}) AND f.endpoint IS NOT NULL
    GROUP BY d.datasetname, f.lfn, f.endpoint, f.fsize, f.checksum) f)
"""
_NOTIFY_JOBS = changes(f"""
INSERT INTO jedi_outbox (topic, username, channel, urgent, payload)
SELECT format('job-%s-%s-%s', j.pandaid, lower(s.pgi_state), {_MICROSECONDS.format("e.since")}),
  u.username, w.channel, s.pgi_state IN ({_URGENT}), jsonb_build_object(
    'about', 'job', 'jedi_task_id', j.jeditaskid, 'task_name', t.taskname, 'panda_id', j.pandaid,
    'status', j.status, 'site', j.site, 'time', e.since,
    'pgi_state', s.pgi_state, 'pgi_substate', s.pgi_substate,
    'reason_code', CASE WHEN j.hold_kind IS NULL THEN j.error_code ELSE j.hold_kind END,
    'reason', CASE WHEN j.hold_kind IS NULL THEN j.error_diag ELSE j.hold_reason END,
    'outputs', (SELECT count(*) FROM jedi_job_files f JOIN jedi_dataset_contents c USING (fileid)
      WHERE f.pandaid = j.pandaid AND f.type = 'output' AND c.status = 'finished'))
  || CASE j.hold_kind WHEN 'manual_stage_in' THEN {_TO_BRING} ELSE '{{}}' END
FROM jedi_job_states s JOIN jedi_jobs j USING (pandaid)
  JOIN jedi_tasks t ON t.jeditaskid = j.jeditaskid
  JOIN jedi_taskparams p ON p.jeditaskid = j.jeditaskid,
  LATERAL (SELECT coalesce(j.hold_since, j.postprocessed_at) AS since) e, {_WAYS}
WHERE {ASKED}
  AND s.pandaid = ANY(CAST(:ids AS bigint[])) AND j.pandaid = ANY(CAST(:ids AS bigint[]))
  AND s.pgi_state IN ({_WORTH}) AND u.username = j.username AND u.notices = 'jobs'
  AND {_WANTED}
  -- an attempt that another one follows is no news
  AND (j.status NOT IN ('failed', 'closed') OR NOT EXISTS (
    SELECT FROM jedi_job_files f JOIN jedi_dataset_contents c USING (fileid)
    WHERE f.pandaid = j.pandaid AND f.type IN ({INPUT_FILE_TYPES})
      AND c.pandaid = j.pandaid AND c.status = 'ready'))
ON CONFLICT DO NOTHING
""")
_NOTIFY_TASKS = changes(f"""
INSERT INTO jedi_outbox (topic, username, channel, payload)
SELECT format('task-%s-%s-%s', t.jeditaskid, t.status, {_MICROSECONDS.format("t.statechangetime")}),
  u.username, w.channel, jsonb_build_object(
    'about', 'task', 'jedi_task_id', t.jeditaskid, 'task_name', t.taskname, 'status', t.status,
    'time', t.statechangetime, 'reason_code', t.reason_code, 'reason', t.errordialog)
FROM jedi_tasks t JOIN jedi_taskparams p USING (jeditaskid), {_WAYS}
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[])) AND u.username = t.username AND {_WANTED}
ON CONFLICT DO NOTHING
""")

NEWS = (*sorted(states.TASK.final), "exhausted")
"""Statuses of tasks that notify their owners: nothing follows without a person's command."""


def notify_of_jobs(tx: Connection, panda_ids: Sequence[int]) -> None:
    """Notify subscribed owners of jobs whose PGI state asks for a message."""
    if panda_ids:
        _NOTIFY_JOBS.run(tx, ids=list(panda_ids))


def notify_of_tasks(tx: Connection, task_ids: Sequence[int]) -> None:
    """Notify subscribed owners of tasks about the present statuses."""
    if task_ids:
        _NOTIFY_TASKS.run(tx, ids=list(task_ids))


ANY_OPEN = returns(bool)("""
-- Return True if a message is not delivered.
SELECT EXISTS (SELECT FROM jedi_outbox WHERE sent_at IS NULL)
""")


class OutgoingMessage(NamedTuple):
    """A message to be delivered now; `salt`: see core/webhookkey.py."""

    message_id: int
    topic: str
    user_name: str
    channel: str
    urgent: bool
    payload: Any
    address: str
    salt: str | None


_CLAIM = returns(OutgoingMessage)(f"""
UPDATE jedi_outbox o SET attempts = o.attempts + 1, next_try_at = jedi_now() + make_interval(
  secs => least(:longest_s, :wait_s * 2 ^ least(o.attempts, 30)))
FROM jedi_users u
WHERE u.username = o.username AND o.message_id = ANY(ARRAY(
  SELECT m.message_id FROM jedi_outbox m, {_WAYS}
  WHERE m.sent_at IS NULL AND (m.next_try_at IS NULL OR m.next_try_at <= jedi_now())
    AND m.channel = ANY(CAST(:channels AS text[])) AND u.username = m.username
    AND w.channel = m.channel AND w.address IS NOT NULL  -- still wanted
  ORDER BY m.urgent DESC, m.message_id LIMIT :limit FOR UPDATE OF m SKIP LOCKED))
RETURNING o.message_id, o.topic, o.username, o.channel, o.urgent, o.payload,
  CASE o.channel WHEN 'mail' THEN u.email ELSE u.webhook END AS address, u.webhook_secret AS salt
""")


def claim(
    tx: Connection, channels: Sequence[str], wait_s: float, longest_s: float, limit: int
) -> list[OutgoingMessage]:
    """Messages to be delivered now, urgent ones first.

    Each counts as tried and is put off, longer from time to time: a process that dies or can't
    deliver it need not record that.
    """
    values = {"channels": list(channels), "wait_s": wait_s, "longest_s": longest_s, "limit": limit}
    rows = _CLAIM.rows(tx, **values)
    return sorted(rows, key=lambda row: (not row.urgent, row.message_id))


_NOTE = changes("""
UPDATE jedi_outbox o SET error = r.error,
  sent_at = CASE WHEN r.error IS NULL THEN jedi_now() END
FROM unnest(CAST(:ids AS bigint[]), CAST(:errors AS text[])) r(id, error)
WHERE o.message_id = r.id AND o.sent_at IS NULL
""")


def note(tx: Connection, results: Sequence[tuple[int, str | None]]) -> None:
    """Record the result of messages: delivered (None), or the reason for the failure."""
    if results:
        ids, errors = map(list, zip(*results, strict=True))
        _NOTE.run(tx, ids=ids, errors=errors)
