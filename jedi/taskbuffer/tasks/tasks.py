"""jedi_tasks: claim, fence, move. Every status change of a task goes through move_tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import TASK_FINAL
from jedi.taskbuffer.db.statement import Statement, changes, returns
from jedi.taskbuffer.users import outbox

UNCLAIMED = "lease_until IS NULL"
"""SQL: a task that may be moved without a claim. Not one whose lease is over, since its worker may
still write: the dog of leases ends the claim first."""


@dataclass(frozen=True, slots=True)
class Move:
    """A task's next status. `lock_seq` None moves without a fence (only under a row lock taken in
    the same transaction). `expected` None accepts any present status that has the edge."""

    jedi_task_id: int
    lock_seq: int | None
    target: str
    reason_code: str
    reason: str
    facts: dict[str, Any] = field(default_factory=dict)
    wait_s: float = 0.0
    user_name: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that took place."""

    jedi_task_id: int
    source: str
    target: str


COLUMNS = """
t.jeditaskid, t.reqid, t.parent_tid, t.lock_seq, t.worker_deaths,
t.status, t.oldstatus, t.statechangetime,
t.attemptnr, t.vo, t.prodsourcelabel,
t.processingtype, t.username, t.taskname,
t.workinggroup, t.currentpriority,
t.eventservice, t.usejumbo, t.workqueue_id, t.gshare,
t.resource_type, t.cloud, t.nucleus, t.site, t.transpath,
t.transhome, t.transuses, t.architecture, t.corecount,
t.ramcount, t.ramunit, t.baseramcount,
t.cputime, t.cputimeunit, t.cpuefficiency,
t.basewalltime, t.walltime, t.outdiskcount,
t.outdiskunit, t.workdiskcount,
t.workdiskunit, t.iointensity, t.diskio,
t.mergeramcount, t.mergecorecount, t.goal, t.period,
t.rules, t.figures
"""
"""SQL: the columns of a task `t` as the fields of ClaimedTask."""

DIED = "(lockedby IS NOT NULL AND lease_until > pg_postmaster_start_time())"
"""SQL: the holder of an ended lease neither wrote nor gave it back, though there was a database."""

_CLAIM = f"""
UPDATE jedi_tasks t
SET lockedby = :me, lockedtime = jedi_now(), lock_seq = lock_seq + 1,
    -- real time: a lease protects processes, and those live in real time
    lease_until = clock_timestamp() + make_interval(secs => :lease_s),
    worker_deaths = t.worker_deaths + CAST({DIED} AS int),
    -- from now on a time in the past says that the task was called during the lease
    next_run_at = CASE WHEN t.status = 'pending' OR next_run_at > jedi_now() THEN next_run_at END
WHERE jeditaskid = ANY(ARRAY({{chosen}}))
RETURNING {{columns}}
"""
_CHOSEN = """
SELECT jeditaskid FROM jedi_tasks
WHERE status = ANY(:statuses)
  AND (lease_until IS NULL OR lease_until < clock_timestamp())  -- real time
  AND (:early OR next_run_at IS NULL OR next_run_at <= jedi_now())
  {condition}
ORDER BY currentpriority DESC, jeditaskid
LIMIT :limit FOR UPDATE SKIP LOCKED
"""


def claim(
    tx: Connection,
    statuses: Sequence[str],
    me: str,
    lease_s: float,
    limit: int,
    condition: str = "",
    *,
    early: bool = False,
    **values: Any,
) -> list[ClaimedTask]:
    """Take up to `limit` tasks under a lease, highest priority first; `early`: also tasks that
    were put off.

    `condition` is SQL of a caller in taskbuffer (`AND …`), never text from outside. A task whose
    last claimant never released it comes with `worker_deaths` raised, unless its lease ended before
    the database started.
    """
    rows = claim_chosen(
        tx,
        _CHOSEN.format(condition=condition),
        me,
        lease_s,
        statuses=list(statuses),
        limit=limit,
        early=early,
        **values,
    )
    return sorted(rows, key=lambda r: (-(r.current_priority or 0), r.jedi_task_id))


def claim_chosen(
    tx: Connection, chosen: str, me: str, lease_s: float, **values: Any
) -> list[ClaimedTask]:
    """Take the tasks that a query of ids, which locks them, finds under a lease; in any order.

    `chosen` is SQL of a caller in taskbuffer, never text from outside."""
    return _claiming(chosen).rows(tx, me=me, lease_s=lease_s, **values)


@lru_cache(maxsize=64)
def _claiming(chosen: str) -> Statement[ClaimedTask]:
    return returns(ClaimedTask)(_CLAIM.format(chosen=chosen, columns=COLUMNS))


ANY_IN = returns(bool)("""
-- True if there is a task in one of these statuses, claimed, put off or not.
SELECT EXISTS (SELECT FROM jedi_tasks WHERE status = ANY(:statuses))
""")


LIVE = tuple(sorted(states.TASK.states.keys() - states.TASK.final))


def any_live(tx: Connection) -> bool:
    """Return True if there is a task that has not ended."""
    return ANY_IN.value(tx, statuses=LIVE)


PRESENT = returns(str)("""
-- The statuses, of these, that a task has.
SELECT s FROM unnest(CAST(:statuses AS text[])) s
WHERE EXISTS (SELECT FROM jedi_tasks WHERE status = s)
""")


_HELD = """
SELECT t.jeditaskid FROM jedi_tasks t JOIN unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[]))
  h(id, seq) ON t.jeditaskid = h.id AND t.lock_seq = h.seq
ORDER BY t.jeditaskid FOR NO KEY UPDATE OF t
"""
"""SQL: locks the claimed tasks that nobody else took, in the one order in which all lock tasks."""
_RENEW = changes(f"""
UPDATE jedi_tasks SET lease_until = clock_timestamp() + make_interval(secs => :s)  -- real time
WHERE jeditaskid = ANY(ARRAY({_HELD})) AND lockedby IS NOT NULL
""")


def renew(tx: Connection, held: Sequence[tuple[int, int]], lease_s: float) -> None:
    """Prolong leases (they end in real time), but for those that were lost or given back."""
    _RENEW.run(tx, s=lease_s, ids=[h[0] for h in held], seqs=[h[1] for h in held])


_FENCE = returns(int)("""
SELECT t.jeditaskid FROM jedi_tasks t JOIN unnest(CAST(:ids AS bigint[]),
  CAST(:seqs AS bigint[])) h(id, seq) ON t.jeditaskid = h.id
  AND t.lock_seq = h.seq
WHERE t.status = ANY(coalesce(CAST(:statuses AS text[]), ARRAY[t.status]))
ORDER BY t.jeditaskid FOR NO KEY UPDATE OF t
""")


def fence(
    tx: Connection, held: Iterable[tuple[int, int]], statuses: Sequence[str] | None = None
) -> set[int]:
    """Lock the rows whose lock_seq is still the claimant's, in one order, to the transaction's
    end; the ids that are missing were lost to somebody else. With `statuses`, tasks that were
    moved on meanwhile (a command does that without a claim) are missing, too."""
    pairs = sorted(held)
    return set(
        _FENCE.rows(
            tx,
            ids=[p[0] for p in pairs],
            seqs=[p[1] for p in pairs],
            statuses=statuses and list(statuses),
        )
    )


_LOCK_TASKS = returns(int)("""
SELECT jeditaskid FROM jedi_tasks WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY jeditaskid FOR NO KEY UPDATE
""")
_SEIZE = returns(tuple[int, str])("""
UPDATE jedi_tasks SET lock_seq = lock_seq + 1, lockedby = NULL, lockedtime = NULL,
  lease_until = NULL, worker_deaths = 0
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) RETURNING jeditaskid, status
""")


def seize(tx: Connection, task_ids: Sequence[int]) -> dict[int, str]:
    """Take tasks from their holders, whose results become void; return their statuses. They are
    locked to the transaction's end, and have no holder then."""
    ids = sorted(task_ids)
    if not ids:
        return {}
    locked = _LOCK_TASKS.rows(tx, ids=ids)
    return dict(_SEIZE.rows(tx, ids=list(locked)))


CALLED = """
  (t.lockedby IS NOT NULL AND t.status <> 'pending' AND t.next_run_at <= jedi_now())"""
"""SQL: a task `t` was called (waking) during its lease: its holder may not have seen the reason, so
it does not wait."""
_MOVE = returns(Moved)(f"""
WITH m AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[]), CAST(:targets AS text[]),
    CAST(:codes AS text[]), CAST(:reasons AS text[]), CAST(:facts AS text[]),
    CAST(:waits AS float8[]), CAST(:users AS text[]))
    AS m(id, seq, target, code, reason, facts, wait_s, username)
), old AS (
  SELECT t.jeditaskid, t.status, h.again,
    CASE WHEN h.again THEN CAST(t.reason_facts ->> 'since' AS timestamptz) END AS since,
    CASE WHEN h.again THEN CAST(t.reason_facts ->> 'wait_s' AS float8) END AS wait_s
  FROM jedi_tasks t JOIN m ON t.jeditaskid = m.id,
    -- tried again in vain: the same hold goes on
    LATERAL (SELECT m.target = 'pending' AND coalesce(t.reason_code = 'hold_over'
      AND t.reason_facts ->> 'held_by' = m.code, false) AS again) h
  WHERE m.seq IS NULL OR t.lock_seq = m.seq ORDER BY t.jeditaskid FOR NO KEY UPDATE OF t
), u AS (
  UPDATE jedi_tasks t SET
    status = m.target,
    oldstatus = CASE WHEN old.status <> m.target THEN old.status ELSE t.oldstatus END,
    statechangetime = CASE WHEN old.status <> m.target THEN coalesce(old.since, jedi_now())
                           ELSE t.statechangetime END,
    modificationtime = jedi_now(),
    endtime = CASE WHEN m.target IN ({TASK_FINAL}) THEN jedi_now() END,
    frozentime = CASE WHEN m.target = 'pending' THEN coalesce(t.frozentime, jedi_now())
                      -- tried again or on its way: the hold counts from its beginning
                      WHEN old.status = 'pending' OR m.target = 'assigning' THEN t.frozentime END,
    superstatus = CASE WHEN m.target = 'scouting' THEN 'submitting' ELSE m.target END,
    amiflag = CASE WHEN m.target IN ('done', 'finished') THEN 'READY' END,
    reason_code = m.code, reason_facts = CAST(m.facts AS jsonb), errordialog = m.reason,
    next_run_at = CASE WHEN greatest(m.wait_s, old.wait_s) > 0
      THEN CASE WHEN {CALLED} THEN jedi_now()
        ELSE jedi_now() + make_interval(secs => greatest(m.wait_s, old.wait_s)) END END,
    lockedby = NULL, lockedtime = NULL, lease_until = NULL, worker_deaths = 0
  FROM m JOIN old ON old.jeditaskid = m.id
  WHERE t.jeditaskid = m.id
  RETURNING t.jeditaskid, old.status AS source, t.status AS target, t.attemptnr,
            m.code, m.reason, m.username, old.again
), n AS (
  DELETE FROM jedi_tasks_statuslog WHERE log_id IN (
    SELECT max(log_id) FROM jedi_tasks_statuslog
    WHERE jeditaskid IN (SELECT jeditaskid FROM u WHERE again) GROUP BY jeditaskid)
    AND reason_code = 'hold_over'
  RETURNING jeditaskid
), l AS (
  INSERT INTO jedi_tasks_statuslog
    (jeditaskid, fromstatus, status, agent, reason_code, reason, attemptnr, username)
  SELECT jeditaskid, source, target, :agent, code, reason, attemptnr, username
  FROM u WHERE source <> target AND jeditaskid NOT IN (SELECT jeditaskid FROM n)
)
SELECT jeditaskid, source, target FROM u
""")


def move_tasks(tx: Connection, moves: Sequence[Move], agent: str) -> list[Moved]:
    """Set statuses with their reasons, write the log, end the leases, wake who is next.

    Moves whose lock_seq is stale are dropped: compare the result. A move to the present status
    only notes the reason and the wait. A task that was tried again and is held for the same reason
    is held since it was first: the log forgets the try. An undeclared edge raises (the
    database refuses it).
    """
    if not moves:
        return []
    values = {
        "ids": [m.jedi_task_id for m in moves],
        "seqs": [m.lock_seq for m in moves],
        "targets": [m.target for m in moves],
        "codes": [m.reason_code for m in moves],
        "reasons": [m.reason for m in moves],
        "facts": [json.dumps(m.facts, default=str) for m in moves],
        "waits": [m.wait_s for m in moves],
        "users": [m.user_name for m in moves],
        "agent": agent,
    }
    moved = _MOVE.rows(tx, **values)
    wake(tx, *sorted({f"task:{m.target}" for m in moved if m.source != m.target}))
    news = [m.jedi_task_id for m in moved if m.target in outbox.NEWS and m.source != m.target]
    outbox.notify_of_tasks(tx, news)
    return moved


_PUT_OFF = changes(f"""
UPDATE jedi_tasks t SET lockedby = NULL, lockedtime = NULL, lease_until = NULL,
  worker_deaths = 0, next_run_at = CASE WHEN :wait_s > 0 AND NOT coalesce({CALLED}, false) THEN
  jedi_now() + greatest(make_interval(secs => :wait_s), least(
  make_interval(secs => :most_s), (jedi_now() - statechangetime) / 10))
  ELSE next_run_at END
WHERE jeditaskid = ANY(ARRAY({_HELD}))
""")


def put_off(
    tx: Connection, held: Sequence[tuple[int, int]], wait_s: float = 0.0, most_s: float = 0.0
) -> None:
    """End leases without a change; nobody looks at the tasks for `wait_s` seconds (0: when they
    are looked at does not change either), or for a tenth of the time that they have been in their
    statuses, `most_s` at most, if that is longer."""
    _PUT_OFF.run(
        tx, ids=[h[0] for h in held], seqs=[h[1] for h in held], wait_s=wait_s, most_s=most_s
    )
