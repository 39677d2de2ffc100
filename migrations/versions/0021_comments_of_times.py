"""Comments of time stamps name a thing first, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

COMMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "why its merge can't start",
        "code of the reason why its merge can't start",
        ("jedi_jobsets.wait_code",),
    ),
    ("until when", "end of validity; empty: none", ("jedi_tokens.expires_at",)),
    (
        "until when a copy stays; empty: for good",
        "end of the copy's pin; empty: it stays for good",
        ("ddm_replicas.expires_at",),
    ),
    (
        "when",
        "time of the record",
        (
            "jedi_acquire_requests.creationtime",
            "jedi_audit.creationtime",
            "jedi_broker_decisions.creationtime",
            "jedi_commands.creationtime",
            "jedi_datasets_statuslog.modificationtime",
            "jedi_identities.creationtime",
            "jedi_jobs_statuslog.modificationtime",
            "jedi_knobs.modificationtime",
            "jedi_knobs_history.modificationtime",
            "jedi_outbox.creationtime",
            "jedi_pilots.creationtime",
            "jedi_queue_shares.computed_at",
            "jedi_requests.creationtime",
            "jedi_retry_matches.creationtime",
            "jedi_retry_rules.modificationtime",
            "jedi_sandboxes.creationtime",
            "jedi_site_metrics.ts",
            "jedi_sites_history.modificationtime",
            "jedi_snapshots.creationtime",
            "jedi_tasks_statuslog.modificationtime",
            "jedi_tokens.creationtime",
            "jedi_users.creationtime",
        ),
    ),
    (
        "when a dog took the task from a dead process",
        "time of the last rescue from a dead process by a dog",
        ("jedi_tasks.rescuetime",),
    ),
    ("when a job last started", "last start of a job", ("jedi_sites.laststart",)),
    (
        "when a pilot or its submitter was last seen",
        "last sign of a pilot or of its submitter",
        ("jedi_sites.lastpilot",),
    ),
    ("when it ended", "end", ("jedi_pilots.endtime",)),
    ("when it gets the next one", "time of the next period", ("jedi_tasks.nextperiod",)),
    (
        "when it is tried again; NULL: at once",
        "time of the next try; NULL: at once",
        ("jedi_commands.retry_at",),
    ),
    ("when it started", "start", ("jedi_agents.starttime",)),
    ("when it was changed", "time of the last change", ("jedi_sites.modificationtime",)),
    ("when it was delivered", "time of delivery", ("jedi_outbox.sent_at",)),
    (
        "when it was made",
        "time of creation",
        (
            "ddm_datasets.creationtime",
            "jedi_jobs.creationtime",
            "jedi_jobs_archived.creationtime",
            "jedi_jobsets.creationtime",
        ),
    ),
    ("when it was measured", "time of the measurement", ("jedi_network_matrix.ts",)),
    (
        "when it was removed from data management, if it was there; NULL: not yet",
        "time of its removal from data management, if it was there; NULL: not yet",
        ("jedi_lost_files.removed_at",),
    ),
    ("when it was reported", "time of the report", ("jedi_event_zips.creationtime",)),
    ("when it was sent", "time of sending", ("jedi_job_tail.modificationtime",)),
    ("when it was taken", "time of the lock", ("jedi_process_lock.lockedtime",)),
    (
        "when it was taken up; NULL: not yet",
        "time of its start; NULL: not yet",
        ("jedi_commands.acknowledged_at",),
    ),
    ("when its merge job ended for good", "end of its last merge job", ("jedi_jobsets.ended_at",)),
    (
        "when its outputs were purged",
        "time at which its outputs were purged",
        ("jedi_jobs.purged_at", "jedi_jobs_archived.purged_at"),
    ),
    (
        "when its results were added",
        "time at which its results were added",
        ("jedi_jobs.postprocessed_at", "jedi_jobs_archived.postprocessed_at"),
    ),
    (
        "when jobs last came to the status, or left it",
        "last change of the number of jobs",
        ("job_stats.modificationtime",),
    ),
    (
        "when space was measured",
        "time of the measurement of space",
        ("jedi_ddm_endpoints.space_timestamp",),
    ),
    ("when statistics were updated", "time of the last statistics", ("jedi_tasks.assessmenttime",)),
    (
        "when the EventService looks at it unasked: nobody serves it, and it waits",
        "time of the EventService's next look at a set that nobody serves",
        ("jedi_jobsets.next_look_at",),
    ),
    (
        "when the dataset was frozen",
        "time of the dataset's freezing",
        ("jedi_datasets.frozentime",),
    ),
    (
        "when the effects of its end on ranges were booked",
        "time at which the effects of its end on ranges were booked",
        ("jedi_consumers.settled_at",),
    ),
    (
        "when the file was tried",
        "time of the last attempt",
        ("jedi_dataset_contents.lastattempttime",),
    ),
    ("when the first job was made", "creation of the first job", ("jedi_tasks.split_at",)),
    (
        "when the hold began",
        "start of the hold",
        ("jedi_jobs.hold_since", "jedi_jobs_archived.hold_since"),
    ),
    (
        "when the hold ends by itself",
        "end of the hold unless somebody ends it before",
        ("jedi_jobs.hold_deadline", "jedi_jobs_archived.hold_deadline"),
    ),
    (
        "when the loss was recorded",
        "time of the record of the loss",
        ("jedi_lost_files.creationtime",),
    ),
    (
        "when the payload ended",
        "end of the payload",
        ("jedi_jobs.endtime", "jedi_jobs_archived.endtime"),
    ),
    (
        "when the payload started",
        "start of the payload",
        ("jedi_jobs.starttime", "jedi_jobs_archived.starttime"),
    ),
    (
        "when the record was inserted",
        "time of the record's insertion",
        (
            "jedi_dataset_contents.creationdate",
            "jedi_datasets.creationtime",
            "jedi_tasks.creationdate",
        ),
    ),
    (
        "when the record was locked",
        "time of the record's lock",
        ("jedi_datasets.lockedtime", "jedi_tasks.lockedtime"),
    ),
    (
        "when the record was updated",
        "time of the last update",
        ("jedi_datasets.modificationtime", "jedi_tasks.modificationtime"),
    ),
    (
        "when the state was looked up",
        "time of the last look at the state",
        ("jedi_datasets.statechecktime",),
    ),
    (
        "when the status changed",
        "time of the status",
        (
            "jedi_jobs.statechangetime",
            "jedi_jobs_archived.statechangetime",
            "jedi_tasks.statechangetime",
        ),
    ),
    ("when the task got started", "start of the task", ("jedi_tasks.starttime",)),
    (
        "when the task reached a final status",
        "time of the task's final status",
        ("jedi_tasks.endtime",),
    ),
    (
        "when the task was changed, if it had to be; NULL: not yet",
        "time of the change of the task, if one was needed; NULL: not yet",
        ("jedi_retry_matches.settled_at",),
    ),
    (
        "when the task was first put on hold",
        "time of the task's first hold",
        ("jedi_tasks.frozentime",),
    ),
    (
        "when the task was throttled last",
        "time of the last throttling",
        ("jedi_tasks.throttledtime",),
    ),
    ("when they came, or left", "time of the change", ("job_stats_delta.modificationtime",)),
)
"""Comment before and after, and its columns."""


def upgrade() -> None:
    """Set the new comments."""
    for _, after, columns in COMMENTS:
        _comment(columns, after)


def downgrade() -> None:
    """Set the old comments."""
    for before, _, columns in COMMENTS:
        _comment(columns, before)


def _comment(columns: tuple[str, ...], words: str) -> None:
    quoted = words.replace("'", "''")
    for column in columns:
        op.execute(sa.text(f"COMMENT ON COLUMN {column} IS '{quoted}'"))
