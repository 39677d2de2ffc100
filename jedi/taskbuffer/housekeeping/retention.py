"""Removal of old records: a table of rules, each of which deletes by age. JEDI never removes tasks,
datasets, files and archived jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import TASK_FINAL
from jedi.taskbuffer.db.statement import Statement, changes, returns

_OLD = "< jedi_now() - make_interval(secs => :age_s)"
_DELETE = "WITH old AS ({old} LIMIT :limit), {deletes} SELECT count(*) FROM old"


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """`old` selects the `key`s of what is to be deleted from `tables`, the oldest first."""

    name: str
    meaning: str
    key: str
    tables: tuple[str, ...]
    old: str

    @property
    def knob(self) -> str:
        """The knob that says after how many days."""
        return f"retention.{self.name}_days"

    @property
    def statement(self) -> Statement[int]:
        """It deletes up to :limit keys that are older than :age_s, and says how many."""
        deletes = ", ".join(
            f"d{i} AS (DELETE FROM {table} WHERE {self.key} = ANY(ARRAY(SELECT * FROM old)))"
            for i, table in enumerate(self.tables)
        )
        return returns(int)(_DELETE.format(old=self.old, deletes=deletes))


RULES = (
    RetentionRule(
        "requests",
        "answers to pilots' requests for jobs",
        "request_id",
        ("jedi_acquire_requests",),
        f"SELECT request_id FROM jedi_acquire_requests WHERE creationtime {_OLD} "
        "ORDER BY creationtime",
    ),
    RetentionRule(
        "jobs",
        "parameters, last output, status log and retry rules of archived jobs",
        "pandaid",
        ("jedi_job_params", "jedi_job_tail", "jedi_jobs_statuslog", "jedi_retry_matches"),
        "SELECT pandaid FROM jedi_job_params p JOIN jedi_jobs_archived a USING (pandaid) "
        f"WHERE a.postprocessed_at {_OLD} ORDER BY pandaid",
    ),
    # a task that goes on keeps its last decision, and its last choice: there its jobs are
    RetentionRule(
        "decisions",
        "decisions of brokers",
        "decision_id",
        ("jedi_broker_decisions", "jedi_broker_reasons"),
        f"SELECT decision_id FROM jedi_broker_decisions d WHERE creationtime {_OLD} AND (EXISTS ("
        "SELECT FROM jedi_broker_decisions l WHERE l.jeditaskid = d.jeditaskid "
        "AND l.decision_id > d.decision_id AND (d.outcome = 'none' OR d.broker = 'nucleus' "
        "OR (l.outcome = 'chosen' AND l.broker <> 'nucleus'))) "
        "OR NOT EXISTS (SELECT FROM jedi_tasks t "
        f"WHERE t.jeditaskid = d.jeditaskid AND t.status NOT IN ({TASK_FINAL}))) "
        "ORDER BY creationtime",
    ),
    RetentionRule(
        "snapshots",
        "snapshots that no decision of a broker needs",
        "snapshot_hash",
        ("jedi_snapshots",),
        f"SELECT snapshot_hash FROM jedi_snapshots s WHERE creationtime {_OLD} AND NOT EXISTS ("
        "SELECT FROM jedi_broker_decisions d WHERE d.snapshot_hash = s.snapshot_hash) "
        "ORDER BY creationtime",
    ),
    RetentionRule(
        "pilots",
        "pilots that have ended",
        "pilot_id",
        ("jedi_pilots",),
        f"SELECT pilot_id FROM jedi_pilots WHERE endtime {_OLD} ORDER BY endtime",
    ),
    RetentionRule(
        "tokens",
        "expired and revoked tokens",
        "token_hash",
        ("jedi_tokens",),
        f"SELECT token_hash FROM jedi_tokens WHERE least(expires_at, revoked_at) {_OLD} "
        "ORDER BY token_hash",
    ),
    RetentionRule(
        "messages",
        "messages to users, delivered or not",
        "message_id",
        ("jedi_outbox",),
        f"SELECT message_id FROM jedi_outbox WHERE creationtime {_OLD} ORDER BY message_id",
    ),
    RetentionRule(
        "cache",
        "uploads of PanDA's clients",
        "filename",
        ("jedi_cache_files",),
        f"SELECT filename FROM jedi_cache_files WHERE creationtime {_OLD} "
        "ORDER BY creationtime FOR UPDATE SKIP LOCKED",
    ),
    # one that is asked for meanwhile is kept anew: see put_sandbox
    RetentionRule(
        "sandboxes",
        "local files of ended tasks",
        "sha256",
        ("jedi_sandboxes",),
        f"SELECT sha256 FROM jedi_sandboxes s WHERE creationtime {_OLD} AND NOT EXISTS ("
        "SELECT FROM jedi_taskparams p JOIN jedi_tasks t USING (jeditaskid) "
        f"WHERE p.sandbox_sha256 = s.sha256 AND (t.endtime {_OLD}) IS NOT TRUE) "
        "ORDER BY creationtime FOR UPDATE SKIP LOCKED",
    ),
    RetentionRule(
        "answers",
        "answers to requests that may be repeated",
        "request_key",
        ("jedi_requests",),
        f"SELECT request_key FROM jedi_requests WHERE creationtime {_OLD} ORDER BY creationtime",
    ),
    RetentionRule(
        "audit",
        "audit of changes through the service",
        "audit_id",
        ("jedi_audit",),
        f"SELECT audit_id FROM jedi_audit WHERE creationtime {_OLD} ORDER BY creationtime",
    ),
    RetentionRule(
        "rates",
        "numbers of jobs by hour",
        "hour",
        ("job_stats_hourly",),
        f"SELECT DISTINCT hour FROM job_stats_hourly WHERE hour {_OLD} ORDER BY hour",
    ),
)


def forget(tx: Connection, rule: RetentionRule, days: float, limit: int) -> int:
    """Delete up to `limit` of what is older than so many days; how many."""
    return rule.statement.value(tx, age_s=days * 86_400, limit=limit)


_SURPLUS = changes("""
WITH old AS (
  SELECT snapshot_hash FROM (
    SELECT snapshot_hash, creationtime,
      sum(octet_length(data)) OVER (ORDER BY creationtime DESC, snapshot_hash) AS so_far
    FROM jedi_snapshots) s
  WHERE so_far > :most ORDER BY creationtime, snapshot_hash DESC LIMIT :limit
)
DELETE FROM jedi_snapshots USING old WHERE jedi_snapshots.snapshot_hash = old.snapshot_hash
""")


def forget_surplus(tx: Connection, max_mb: int, limit: int) -> int:
    """Delete up to `limit` of the oldest snapshots beyond so many MB of them; how many."""
    return _SURPLUS.run(tx, most=max_mb * 2**20, limit=limit)
