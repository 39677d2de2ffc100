"""The views jedi_job_states, the PGI state of every job, archived ones too, jedi_task_states, that
of every task that has no job, and jedi_job_allocations, what each job held from when to when; and
what the rows of jobs can't be, so that there is a PGI state for each (core/pgi.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby

from jedi.core import pgi, states
from jedi.taskbuffer.db.sql_lists import listed
from jedi.taskbuffer.schema.all_jobs import all_jobs


def _among(by_status: Mapping[str, str]) -> list[str]:
    """Branches of a CASE: statuses, and what they stand for; equal neighbours together."""
    return [
        f"WHEN status IN ({listed(status for status, _ in some)}) THEN '{word}'"
        for word, some in groupby(by_status.items(), lambda pair: pair[1])
    ]


def _case(branches: Iterable[str]) -> str:
    return "CASE " + "\n    ".join(branches) + " END"


_PURGED = f"purged_at IS NOT NULL AND status IN ({listed(sorted(states.JOB.final))})"
_ADDED = (
    "postprocessed_at IS NOT NULL AND (status = 'finished' OR "
    "status = 'failed' AND error_source = 'payload')"
)
_HOLDABLE = [status for status, (state, _) in pgi.LIVE.items() if state in pgi.HELD]
_HELD = f"hold_kind IS NOT NULL AND status IN ({listed(_HOLDABLE)})"
_STATE = [
    f"WHEN {_PURGED} THEN '{pgi.PURGED}'",
    f"WHEN {_ADDED} THEN '{pgi.FINISHED}'",
    *_among(dict.fromkeys(pgi.BROKEN_OFF, pgi.FAILED)),
    f"WHEN {_HELD} THEN {_case(_among({s: pgi.HELD[pgi.LIVE[s][0]] for s in _HOLDABLE}))}",
    *_among({status: state for status, (state, _) in pgi.LIVE.items()}),
]
_SUBSTATE = [
    f"WHEN {_PURGED} THEN NULL",
    f"WHEN {_ADDED} THEN {_case(_among({s: sub for s, (_, sub) in pgi.ENDED.items()}))}",
    *_among(pgi.BROKEN_OFF),
    f"WHEN {_HELD} THEN "
    + _case(f"WHEN hold_kind = '{kind}' THEN '{sub}'" for kind, sub in pgi.HOLD_KINDS.items()),
    f"WHEN status = 'running' AND delegation_kind = 'grid' THEN '{pgi.FORWARDED}'",
    *_among({status: substate for status, (_, substate) in pgi.LIVE.items()}),
]
_KNOWN = (
    "pandaid, jeditaskid, originpandaid, attemptnr, status, hold_kind, delegation_kind, "
    "error_source, postprocessed_at, purged_at"
)

JOB_STATES_VIEW = f"""
CREATE VIEW jedi_job_states AS
SELECT pandaid, jeditaskid, originpandaid, attemptnr, status,
  {_case(_STATE)} AS pgi_state,
  {_case(_SUBSTATE)} AS pgi_substate
FROM {all_jobs(_KNOWN)} j
"""


_BEFORE_JOBS = [(status, pgi.task_state(status)) for status in states.TASK_STATES]
_NO_JOBS = dict(
    sorted(((status, found) for status, found in _BEFORE_JOBS if found), key=lambda pair: pair[1])
)
_ANY_JOBS = " UNION ALL ".join(
    f"SELECT FROM {table} j WHERE j.jeditaskid = t.jeditaskid"
    for table in ("jedi_jobs", "jedi_jobs_archived")
)

TASK_STATES_VIEW = f"""
CREATE VIEW jedi_task_states AS
SELECT t.jeditaskid, t.status,
  {_case(_among({status: state for status, (state, _) in _NO_JOBS.items()}))} AS pgi_state,
  {_case(_among({status: sub for status, (_, sub) in _NO_JOBS.items()}))} AS pgi_substate
FROM jedi_tasks t
WHERE t.status <> 'done' AND NOT EXISTS ({_ANY_JOBS})
"""


def _in_stages(stages: Collection[str]) -> str:
    return f"status IN ({listed(s for s, (state, _) in pgi.LIVE.items() if state in stages)})"


_ENDED = f"status IN ({listed(sorted(states.JOB.final))})"
CHECKS: Mapping[str, str] = {
    "held": "hold_kind IS NULL OR "
    + _case(
        [
            *(
                f"WHEN hold_kind = '{kind}' THEN {_in_stages(stages)}"
                for kind, stages in pgi.HOLD_STAGES.items()
            ),
            "ELSE false",
        ]
    ),
    "finished": "status <> 'finished' OR postprocessed_at IS NOT NULL",
    "postprocessed": f"postprocessed_at IS NULL OR {_ENDED}",
    "purged": f"purged_at IS NULL OR {_ENDED}",
}
"""Conditions on rows of jobs, by name: holds where PGI knows them, success only after
post-processing, results and purge only of what has ended."""


def _of_resource(resource: str) -> str:
    """A resource, the statuses in which it is allocated, and those in which it is free again."""
    levels = {
        status: getattr(pgi.STATES[pgi.LIVE.get(status, (pgi.FAILED,))[0]], resource)
        for status in states.JOB.states
    }
    allocated, free = (
        listed(status for status, level in levels.items() if level == wanted)
        for wanted in ("allocated", "free")
    )
    return f"('{resource}', ARRAY[{allocated}], ARRAY[{free}])"


JOB_ALLOCATIONS_VIEW = f"""
CREATE VIEW jedi_job_allocations AS
SELECT l.pandaid, l.jeditaskid, r.resource,
  min(l.modificationtime) FILTER (WHERE l.status = ANY (r.allocated)) AS allocated_at,
  min(l.modificationtime) FILTER (WHERE l.status = ANY (r.free)) AS released_at
FROM jedi_jobs_statuslog l, (VALUES
  {", ".join(map(_of_resource, pgi.RESOURCES))}
) r (resource, allocated, free)
GROUP BY l.pandaid, l.jeditaskid, r.resource
HAVING bool_or(l.status = ANY (r.allocated))
"""
