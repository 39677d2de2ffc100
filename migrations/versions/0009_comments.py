"""Comments of tables and columns in plain words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

COMMENTS: tuple[tuple[str, str | None, str, str], ...] = (
    ("jedi_broker_decisions", None, "what brokers decided", "decisions of brokers"),
    (
        "jedi_broker_reasons",
        None,
        "why sites were refused",
        "refused sites of decisions, with reasons",
    ),
    (
        "jedi_commands",
        None,
        "what people asked of tasks: rows are only added and acknowledged",
        "commands to tasks: rows are only added and acknowledged",
    ),
    (
        "jedi_job_retry_history",
        None,
        "which job took over from which",
        "jobs and the jobs that replaced them",
    ),
    ("jedi_job_tail", None, "what a payload printed last", "last output of payloads"),
    (
        "jedi_lost_files",
        None,
        "outputs that were made and lost, which are made again under another name, and logs",
        "lost outputs, which are made again under another name, and lost logs",
    ),
    (
        "jedi_queue_shares",
        None,
        "what work queues use of their shares, as last computed",
        "use of shares by work queues, as last computed",
    ),
    (
        "jedi_retry_rules",
        None,
        "what follows from errors of jobs besides another attempt",
        "effects of jobs' errors besides another attempt",
    ),
    ("jedi_site_endpoints", None, "which site uses which storage", "storage of each site"),
    (
        "jedi_site_metrics",
        None,
        "what is known of sites besides their attributes",
        "measurements of sites",
    ),
    ("jedi_sites", None, "where jobs can run", "sites (queues) of the grid"),
    (
        "jedi_snapshots",
        None,
        "what brokers knew, shared by decisions",
        "snapshots of brokers, shared by decisions",
    ),
    ("jedi_tokens", None, "who may speak to the service", "tokens for the service"),
    ("jedi_users", None, "people and what they may do", "users and their permissions"),
    ("ddm_members", None, "what containers hold", "members of containers"),
    ("ddm_replicas", None, "where files lie", "replicas of files"),
    (
        "jedi_agents",
        "heartbeat_at",
        "when it was last heard of, in real time",
        "last heartbeat, in real time",
    ),
    (
        "jedi_broker_decisions",
        "snapshot_hash",
        "what the broker knew",
        "hash of the broker's snapshot",
    ),
    ("jedi_broker_decisions", "need", "what the task asked for", "requirements of the task"),
    ("jedi_broker_reasons", "observed", "what was seen, by reason", "observed values, by reason"),
    ("jedi_commands", "username", "who asked", "the user who commanded"),
    (
        "jedi_job_files",
        "endpoint",
        "where an input is read, where an output goes",
        "endpoint of an input or output",
    ),
    (
        "jedi_job_files_archived",
        "endpoint",
        "where an input is read, where an output goes",
        "endpoint of an input or output",
    ),
    ("jedi_jobs", "site", "where it runs", "the site of the job"),
    ("jedi_jobs", "nucleus", "where its outputs go", "the nucleus that gets its outputs"),
    (
        "jedi_jobs",
        "heartbeat_at",
        "when the pilot was last heard of",
        "last heartbeat of the pilot",
    ),
    ("jedi_jobs", "kill_code", "why it is to be killed", "reason of the kill request"),
    (
        "jedi_jobs",
        "pilot_result",
        "finished, failed or cancelled, as the pilot said",
        "finished, failed or cancelled, as the pilot reported",
    ),
    (
        "jedi_jobs",
        "metadata",
        "what the payload wants to be known",
        "metadata that the payload reports",
    ),
    (
        "jedi_jobs",
        "hold_next",
        "the hold that begins when the payload has ended with success",
        "the hold that begins when the payload succeeds",
    ),
    ("jedi_jobs_archived", "site", "where it runs", "the site of the job"),
    ("jedi_jobs_archived", "nucleus", "where its outputs go", "the nucleus that gets its outputs"),
    (
        "jedi_jobs_archived",
        "heartbeat_at",
        "when the pilot was last heard of",
        "last heartbeat of the pilot",
    ),
    ("jedi_jobs_archived", "kill_code", "why it is to be killed", "reason of the kill request"),
    (
        "jedi_jobs_archived",
        "pilot_result",
        "finished, failed or cancelled, as the pilot said",
        "finished, failed or cancelled, as the pilot reported",
    ),
    (
        "jedi_jobs_archived",
        "metadata",
        "what the payload wants to be known",
        "metadata that the payload reports",
    ),
    (
        "jedi_jobs_archived",
        "hold_next",
        "the hold that begins when the payload has ended with success",
        "the hold that begins when the payload succeeds",
    ),
    ("jedi_knobs", "username", "who set it", "the user who set it"),
    ("jedi_lost_files", "creationtime", "when it was given up", "when the loss was recorded"),
    (
        "jedi_outbox",
        "topic",
        "what it is about; a user is told once of each, in each way",
        "subject; a user gets one message of each by each channel",
    ),
    ("jedi_outbox", "username", "who is told", "the recipient"),
    ("jedi_outbox", "error", "why it could not be delivered last", "error of the last delivery"),
    ("jedi_pilots", "host", "whose submitter sent it", "host of the submitter that sent it"),
    ("jedi_pilots", "engine", "what runs it: local, slurm, ...", "engine: local, slurm, ..."),
    ("jedi_process_lock", "lockedby", "who holds the lock", "the process that holds the lock"),
    ("jedi_retry_matches", "effect", "what became of it, for people", "the effect, for people"),
    (
        "jedi_retry_rules",
        "active",
        "false: matches are only noted",
        "false: matches are only recorded",
    ),
    ("jedi_retry_rules", "username", "who wrote it", "the user who wrote the rule"),
    (
        "jedi_sites",
        "submitter",
        "what runs pilots: local, slurm, lsf, pbs, htcondor; none: they come by themselves",
        "engine of pilots: local, slurm, lsf, pbs, htcondor; none: another system starts them",
    ),
    (
        "jedi_sites",
        "comment",
        "why an operator set it so",
        "the operator's reason for its settings",
    ),
    (
        "jedi_sites",
        "batch",
        "how pilots get through the batch system",
        "options of the batch system for pilots",
    ),
    ("jedi_sites_history", "attribute", "what changed", "the changed attribute"),
    (
        "jedi_taskparams",
        "source_text",
        "what was submitted, byte for byte",
        "the submitted text, byte for byte",
    ),
    (
        "jedi_tasks",
        "next_run_at",
        "no agent looks at the task before",
        "time before which no agent takes the task",
    ),
    (
        "jedi_tasks",
        "measured_jobs",
        "finished jobs when their figures were read last",
        "finished jobs at the last measurement",
    ),
    (
        "jedi_tasks",
        "period",
        "how often a periodical task gets a job",
        "interval between jobs of a periodical task",
    ),
    ("jedi_users", "email", "where mail about tasks goes", "address for mail about tasks"),
    (
        "jedi_users",
        "webhook",
        "where messages about tasks are posted",
        "URL for messages about tasks",
    ),
    (
        "jedi_users",
        "notices",
        "tasks: told of ends of tasks; jobs: also of jobs",
        "tasks: notices of tasks; jobs: also of jobs",
    ),
    ("ddm_replicas", "endpoint", "where it lies", "endpoint of the replica"),
)
"""Table, column (None: the table itself), comment before and after."""


def upgrade() -> None:
    """Set the new comments."""
    for table, column, _, after in COMMENTS:
        _comment(table, column, after)


def downgrade() -> None:
    """Set the old comments."""
    for table, column, before, _ in COMMENTS:
        _comment(table, column, before)


def _comment(table: str, column: str | None, words: str) -> None:
    target = f"TABLE {table}" if column is None else f"COLUMN {table}.{column}"
    quoted = words.replace("'", "''")
    op.execute(sa.text(f"COMMENT ON {target} IS '{quoted}'"))
