"""Copies of a job, of which one counts: the first to start (runonce) or to store (storeonce).

The copy that counts owns the ranges of its job set. When its outputs are stored it takes over the
inputs and outputs, and with them the part of the job set's merge job.
Source: docs/reference/event-service.md#job-cloning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.attempt import ReportedJob
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.ends import job_ends

_CODE = states.EVENT_CODES
_READY, _SENT, _RUNNING, _FINISHED = (
    _CODE[name] for name in ("ready", "sent", "running", "finished")
)

OWNERS = returns(tuple[int, int])(f"""
-- The copies that count, 0 for none yet, of those job sets of copies that wait for one.
SELECT s.jobsetid, coalesce((
  SELECT min(e.pandaid) FROM jedi_events e
  WHERE e.jobsetid = s.jobsetid AND e.status IN ({_SENT}, {_RUNNING}, {_FINISHED})), 0) AS owner
FROM jedi_jobsets s JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid
WHERE s.jobsetid = ANY(CAST(:ids AS bigint[])) AND s.clone IS NOT NULL AND m.status = 'waiting'
""")


_LOCK = changes("SELECT FROM jedi_jobsets WHERE jobsetid = :id FOR NO KEY UPDATE")
_COPIES = returns(int)("SELECT pandaid FROM jedi_consumers WHERE jobsetid = :id")


class CopyStore(NamedTuple):
    """Outputs that may stand at the place of a copy's: those of copies that ended without success
    (`failed`) may go, those of copies that are to end (`others`) must stay."""

    failed: list[ReportedJob]
    others: list[ReportedJob]


def lock_store(tx: Connection, jobset_id: int, job: ReportedJob) -> CopyStore | None:
    """Lock the place of the outputs of a job set's copies, which have the same names, for `job`.
    None: this attempt may store nothing any more, or another copy counts. Whoever lets a copy count
    has to wait for the end of the transaction, and whoever stores one has to ask, too."""
    _LOCK.run(tx, id=jobset_id)
    ids = _COPIES.rows(tx, id=jobset_id)
    found = job_ends.reported_among(tx, ids)
    mine = any((one.panda_id, one.lock_seq) == (job.panda_id, job.lock_seq) for one in found)
    if not mine or dict(OWNERS.rows(tx, ids=[jobset_id])).get(jobset_id) not in (0, job.panda_id):
        return None
    return CopyStore(job_ends.left_behind(tx, ids), found)


_W = "unnest(CAST(:sets AS bigint[]), CAST(:jobs AS bigint[])) w(jobset, job)"
_HAND = changes(f"""
UPDATE jedi_events e SET status = {_SENT}, pandaid = w.job FROM {_W}
WHERE e.jobsetid = w.jobset AND e.status = {_READY} AND e.attemptnr > 0
""")


def let_count(tx: Connection, copies: Mapping[int, int]) -> None:
    """Hand all ranges of job sets, which the caller has locked, to these copies."""
    if copies:
        _HAND.run(tx, **_arrays(copies))


_FINISH = changes(f"""
UPDATE jedi_events e SET status = {_FINISHED}, processed_upto_eventid = e.def_max_eventid
FROM {_W} WHERE e.jobsetid = w.jobset AND e.pandaid = w.job AND e.status IN ({_SENT}, {_RUNNING})
""")
_DONE = changes(f"""
UPDATE jedi_events e SET status = {_CODE["done"]}
FROM {_W} WHERE e.jobsetid = w.jobset AND e.pandaid = w.job AND e.status = {_FINISHED}
""")
_TAKE_FILES = changes(f"""
UPDATE jedi_dataset_contents c SET pandaid = w.job,
  outpandaid = CASE WHEN c.outpandaid = s.merge_pandaid THEN w.job ELSE c.outpandaid END
FROM {_W} JOIN jedi_jobsets s ON s.jobsetid = w.jobset,
  -- job by job: all files of a large task were compared with those of each job
  LATERAL (SELECT fileid, jeditaskid FROM jedi_job_files
    WHERE pandaid = s.merge_pandaid AND type <> 'log' OFFSET 0) f
WHERE c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid AND c.pandaid = s.merge_pandaid
""")
_REPLACE = changes(f"""
UPDATE jedi_jobsets s SET merge_pandaid = w.job FROM {_W} WHERE s.jobsetid = w.jobset
""")


def take_over(tx: Connection, copies: Mapping[int, int]) -> None:
    """Let copies whose outputs are stored have the inputs and outputs of the jobs that wait, which
    the caller has locked; their ranges are done."""
    if copies:
        for statement in (_FINISH, _DONE, _TAKE_FILES, _REPLACE):
            statement.run(tx, **_arrays(copies))


def _arrays(copies: Mapping[int, int]) -> dict[str, list[int]]:
    return {"sets": list(copies), "jobs": list(copies.values())}
