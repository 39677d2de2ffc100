"""Time-outs of jobs: the longest time in a status, and the effect. A stalled job is closed: other
jobs try its inputs elsewhere. A lost job fails. Source: JEDI document, "Timeout values for
production jobs" and "Job rebrokerage"; docs/reference/retries-and-timeouts.md#job-time-outs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, listed
from jedi.taskbuffer.db.statement import returns


@dataclass(frozen=True, slots=True)
class Timeout:
    """Jobs in one of `statuses` that meet `condition` end as `target` when more time than `limit`
    has passed since `since` (SQL about the job).

    `limit` is a knob in seconds, or an attribute of the site in days; empty: none, as where `since`
    is itself the deadline. `sentence` about the job continues with "for so many hours". `among` is
    SQL about the job `j` alone, `condition` about the job, its site `s` and the number of running
    and activated jobs `n` there; both see the values that `overdue` gets. `meant` has them in
    words.
    """

    statuses: tuple[str, ...]
    limit: str
    target: str
    code: str
    sentence: str
    condition: str = "true"
    meant: str = ""
    since: str = "j.statechangetime"
    among: str = "true"

    @property
    def per_site(self) -> bool:
        """The limit is an attribute of the site."""
        return self.limit != "" and "." not in self.limit


def _closed(statuses: str, limit: str, code: str, sentence: str, **more: str) -> Timeout:
    return Timeout(tuple(statuses.split()), limit, "closed", code, sentence, **more)


def _failed(statuses: str, limit: str, code: str, sentence: str, **more: str) -> Timeout:
    return Timeout(tuple(statuses.split()), limit, "failed", code, sentence, **more)


_SHORT = "j.processingtype IN ('evgen', 'simul')"
_IDLE = "NOT coalesce(s.laststart >= jedi_now() - make_interval(secs => :idle_s), false)"

_PLACED_AGAIN = "j.kind IN ('merge', 'es_merge', 'jumbo')"  # another one follows, elsewhere
_CONSUMERS = "jedi_jobsets t JOIN jedi_consumers c USING (jobsetid)"
_HAS_CONSUMERS = f"""(EXISTS (SELECT FROM {_CONSUMERS}
  WHERE t.merge_pandaid = j.pandaid AND c.settled_at IS NULL) OR EXISTS (
  SELECT FROM jedi_consumers c  -- a jumbo job
  WHERE c.jeditaskid = j.jeditaskid AND c.jobsetid IS NULL AND c.settled_at IS NULL))"""
_LAST_SETTLED = f"""greatest(j.statechangetime,
  (SELECT max(c.settled_at) FROM {_CONSUMERS} WHERE t.merge_pandaid = j.pandaid),
  (SELECT max(c.settled_at) FROM jedi_consumers c  -- a jumbo job
   WHERE c.jeditaskid = j.jeditaskid AND c.jobsetid IS NULL))"""

# The service answered the pilot's request after its end. The Submitter had noted the end, and found
# no job.
_PILOT_GONE = "(SELECT p.endtime FROM jedi_pilots p WHERE p.pilot_id = j.pilot_id)"

_HEARTBEAT = "CAST(:watchdog_heartbeat_timeout_s AS float8)"
# All pilots of the site fell silent at about the same time, and there are several of them: one
# alone may have been the victim of its payload. Read once a look, and only if a job is overdue.
_SILENT = f"""
  SELECT site FROM jedi_jobs
  WHERE heartbeat_at > jedi_now() - make_interval(secs => 2 * {_HEARTBEAT}) GROUP BY site
  HAVING max(heartbeat_at) < jedi_now() - make_interval(secs => {_HEARTBEAT} / 2)
    AND count(DISTINCT pilot_id) FILTER (
      WHERE status IN ({JOB_AT_SITE}) OR error_code = 'lost_site') > 1
"""

TIMEOUTS = (
    _closed(
        "waiting",
        "timeout.waiting_s",
        "waiting_timeout",
        "It waited for others",
        condition="j.kind NOT IN ('co_jumbo', 'es_merge')",
        meant="but for event-service merges, and for placeholders",
    ),
    _closed(
        "waiting",
        "timeout.waiting_s",
        "waiting_timeout",
        "No job serves its job set",
        condition=f"j.kind = 'es_merge' AND NOT {_HAS_CONSUMERS}",
        meant="event-service merges whose last consumer ended so long ago",
        since=_LAST_SETTLED,
    ),
    _closed(
        "pending defined assigned activated",
        "",
        "given_back",
        "It waited at {site}, which gets no pilots,",
        condition="s.status IN ('offline', 'paused')",
        meant="of sites that are offline or paused: merge jobs and jumbo jobs",
        among=_PLACED_AGAIN,
    ),
    _closed(
        "pending defined assigned activated",
        "watchdog.merging_timeout_s",
        "not_taken",
        "No pilot took it at {site}",
        meant="merge jobs and jumbo jobs",
        among=_PLACED_AGAIN,
    ),
    _closed("pending", "timeout.pending_s", "setup_timeout", "It was not set up"),
    _closed("defined", "timeout.defined_s", "defined_timeout", "It was not prepared"),
    _closed(
        "assigned", "timeout.assigned_s", "assigned_timeout", "Its inputs did not come to {site}"
    ),
    _closed(
        "activated starting",
        "timeout.urgent_s",
        "idle_site",
        "It did not start, and no other job does, at {site}",
        condition=_IDLE,
        meant="urgent ones at an idle site",
        among="j.priority >= :urgent_from",
    ),
    _closed(
        "activated",
        "timeout.t2_s",
        "t2_timeout",
        "It waited for a slot at the T2 {site}",
        condition="s.tier = 'T2' AND (coalesce(n.running, 0) = 0 "
        "OR n.activated > :t2_ratio * n.running)",
        meant="evgen and simul at a T2 with too few running jobs",
        among=_SHORT,
    ),
    _closed(
        "activated",
        "timeout.t1_s",
        "t1_timeout",
        "It waited for a slot at the T1 {site}",
        condition="s.tier = 'T1' AND s.cloud <> ALL(:t1_spared)",
        meant="evgen and simul at a T1, except in some clouds",
        among=_SHORT,
    ),
    _closed(
        "activated",
        "timeout.analysis_s",
        "rebrokered",
        "It waited for a slot at {site}",
        meant="of analysis",
        among="j.prodsourcelabel <> ALL(:production)",
    ),
    _closed(
        "activated starting",
        "timeout.activated_s",
        "activated_timeout",
        "It did not start at {site}",
    ),
    _closed("throttled", "timeout.throttled_s", "throttled_timeout", "It was kept from pilots"),
    _failed(
        "sent starting running",
        "",
        "hold_timeout",
        "Its slot was held beyond the deadline",
        meant="held ones",
        since="j.hold_deadline",
        among="j.hold_kind IS NOT NULL",
    ),
    _failed(
        "sent",
        "watchdog.gone_pilot_s",
        "sent_timeout",
        "Pilot {pilot_id} asked for it, and has been gone",
        meant="of a pilot that has ended",
        since=_PILOT_GONE,
    ),
    _failed(
        "sent",
        "watchdog.sent_timeout_s",
        "sent_timeout",
        "Pilot {pilot_id} had it and did not start it",
    ),
    _failed(
        "starting running",
        "watchdog.heartbeat_timeout_s",
        "lost_site",
        "All pilots at {site} are silent: pilot {pilot_id} was not heard of",
        condition="j.site IN (SELECT site FROM silent)",
        meant="at a site of which several pilots fell silent and no other was heard of for half "
        "the time",
        since="j.heartbeat_at",
    ),
    _failed(
        "starting running",
        "watchdog.heartbeat_timeout_s",
        "lost_heartbeat",
        "Pilot {pilot_id} was not heard of",
        since="j.heartbeat_at",
    ),
    _failed("running", "timeout.running_s", "running_timeout", "It ran"),
    _failed("holding", "timeout.holding_s", "holding_timeout", "Its results could not be added"),
    _failed(
        "transferring",
        "transtimehi",
        "transfer_timeout",
        "Its outputs did not arrive",
        condition="j.priority >= :urgent_from",
        meant="urgent ones",
    ),
    _failed(
        "transferring",
        "transtimelo",
        "transfer_timeout",
        "Its outputs did not arrive",
        condition="j.priority < :urgent_from",
        meant="others",
    ),
)
"""The first that applies counts."""

_DAYS = {"transtimehi": 1, "transtimelo": 4}
"""Days for sites that are no longer known or have an invalid number."""


def in_words(seconds: float) -> str:
    """A limit or an age: minutes below half an hour, else hours."""
    return f"{seconds / 60:.3g} min" if seconds < 1800 else f"{seconds / 3600:.3g} h"


def _limit(rule: Timeout) -> str:
    if not rule.limit:
        return "0"
    if rule.per_site:
        days = f"s.{rule.limit}"
        return f"86400.0 * CASE WHEN {days} >= 0 THEN {days} ELSE {_DAYS[rule.limit]} END"
    return f"CAST(:{_bind(rule)} AS float8)"


def _bind(rule: Timeout) -> str:
    return rule.limit.replace(".", "_")


def _before(limit: str) -> str:
    """SQL: the time so many seconds ago, computed once a look."""
    return f"(SELECT jedi_now() - make_interval(secs => {limit}))"


def _when(number: int, rule: Timeout) -> str:
    statuses, limit = listed(rule.statuses), _limit(rule)
    before = f"jedi_now() - make_interval(secs => {limit})" if rule.per_site else _before(limit)
    return (
        f"WHEN j.status IN ({statuses}) AND {rule.among} AND {rule.condition} "
        f"AND {rule.since} < {before} THEN {number}"
    )


def _may(status: str) -> str:
    """SQL: a job in a status may be overdue, by its own row."""
    found = []
    for rule in TIMEOUTS:
        if status in rule.statuses:
            # that of a site is not known here; the last end of a consumer is later than its start
            since = "j.statechangetime" if rule.since == _LAST_SETTLED else rule.since
            limit = "0" if rule.per_site else _limit(rule)
            found.append(f"{rule.among} AND {since} < {_before(limit)}")
    return " OR ".join(found)


_MAY = " ".join(
    f"WHEN '{status}' THEN {_may(status)}"
    for status in dict.fromkeys(status for rule in TIMEOUTS for status in rule.statuses)
)
_SINCE = " ".join(f"WHEN {i} THEN {rule.since}" for i, rule in enumerate(TIMEOUTS))


class OverdueJob(NamedTuple):
    """A job that is too long in its status; `number`: the rule in TIMEOUTS."""

    panda_id: int
    lock_seq: int
    site: str
    pilot_id: str | None
    kind: str
    number: int
    age_s: float


# One look at the live jobs for all rules: nearly all are younger than every limit, which their own
# rows show; the rules take ten times as long. What a person holds outside a pilot has no time-out.
# MATERIALIZED: the LIMIT makes the primary key look cheap, by which all ended jobs are read, too.
_OVERDUE = returns(OverdueJob)(f"""
WITH silent AS MATERIALIZED ({_SILENT}), j AS MATERIALIZED (
  SELECT * FROM jedi_jobs j WHERE postprocessed_at IS NULL AND CASE status {_MAY} END
    AND (coalesce(hold_kind, 'failed_recoverable') = 'failed_recoverable'
         OR status IN ({JOB_AT_SITE}))
)
SELECT j.pandaid, j.lock_seq, j.site, j.pilot_id, j.kind, w.number,
  CAST(extract(epoch FROM jedi_now() -
    CASE w.number {_SINCE} END)
  AS float8) AS age_s
FROM j LEFT JOIN jedi_sites s USING (site) LEFT JOIN (
  SELECT site, sum(jobs) FILTER (WHERE status = 'running') AS running,
    sum(jobs) FILTER (WHERE status = 'activated') AS activated
  FROM (SELECT site, status, jobs FROM job_stats
        UNION ALL SELECT site, status, jobs FROM job_stats_delta) n
  GROUP BY site) n USING (site),
LATERAL (SELECT CASE {" ".join(_when(i, rule) for i, rule in enumerate(TIMEOUTS))} END) w(number)
WHERE w.number IS NOT NULL ORDER BY j.pandaid LIMIT :limit
""")


def overdue(
    tx: Connection, limits: Mapping[str, float], given: Mapping[str, Any], limit: int
) -> list[tuple[Timeout, OverdueJob]]:
    """Jobs that are too long in their status, each with the rule that says so. They are not locked:
    older ones may end with them, and come first. `limits` are the knobs of the rules."""
    binds = {_bind(rule): limits[rule.limit] for rule in TIMEOUTS if "." in rule.limit}
    rows = _OVERDUE.rows(tx, **binds, **given, limit=limit)
    return [(TIMEOUTS[row.number], row) for row in rows]
