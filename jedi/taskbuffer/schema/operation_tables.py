"""Knobs, commands, lost files, retry rules, decisions of brokers."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jedi.taskbuffer.schema.columns import col, key, metadata, stamp, words

knobs = Table(
    "jedi_knobs",
    metadata,
    words("component", "the part of the system", "knobs.put", nullable=False),
    words("key", "the knob", "knobs.put", nullable=False),
    col("value", JSONB, "the value in force instead of the preset's", "knobs.put", nullable=False),
    words("username:user_name", "the user who set it", "knobs.put"),
    stamp("modificationtime:modification_time", "time of the record", "knobs.put", now=True),
    PrimaryKeyConstraint("component", "key"),
    comment="settings that differ from the preset; the preset is knob core.preset",
)

knobs_history = Table(
    "jedi_knobs_history",
    metadata,
    col("change_id", BigInteger, "order", "knobs.put", autoincrement=True, nullable=False),
    words("component", "component", "knobs.put", nullable=False),
    words("key", "knob", "knobs.put", nullable=False),
    col("value", JSONB, "new value; NULL: back to the preset", "knobs.put"),
    words("username:user_name", "who", "knobs.put"),
    stamp("modificationtime:modification_time", "time of the record", "knobs.put", now=True),
    PrimaryKeyConstraint("change_id"),
    comment="changes of knobs",
)

commands = Table(
    "jedi_commands",
    metadata,
    col("command_id", BigInteger, "order", "commands.append", autoincrement=True, nullable=False),
    key("jeditaskid:jedi_task_id", "the task", "commands.append"),
    words("command", "kill, finish, retry, ...", "commands.append", nullable=False),
    col(
        "arguments",
        JSONB,
        "the command's arguments",
        "commands.append",
        nullable=False,
        server_default=text("'{}'"),
    ),
    words("username:user_name", "the user who commanded", "commands.append", nullable=False),
    words("comment", "why", "commands.append"),
    stamp("creationtime:creation_time", "time of the record", "commands.append", now=True),
    stamp("acknowledged_at", "time of its start; NULL: not yet", "commands.acknowledge"),
    words("outcome", "accepted or refused", "commands.acknowledge"),
    words("message", "the outcome, for people", "commands.acknowledge"),
    stamp("retry_at", "time of the next try; NULL: at once", "commands.try_later"),
    PrimaryKeyConstraint("command_id"),
    Index(None, "jedi_task_id"),
    Index("jedi_commands_open_ix", "command_id", postgresql_where=text("acknowledged_at IS NULL")),
    comment="commands to tasks: rows are only added and acknowledged",
)

_LOST = "recovery.undo validation.lose"

lost_files = Table(
    "jedi_lost_files",
    metadata,
    key("jeditaskid:jedi_task_id", "the task that made it", _LOST),
    key("fileid:file_id", "its contents row", _LOST),
    words("datasetname:dataset_name", "the output dataset", _LOST, nullable=False),
    words("lfn", "the logical file name", _LOST, nullable=False),
    stamp("creationtime:creation_time", "time of the record of the loss", _LOST, now=True),
    stamp(
        "removed_at",
        "time of its removal from data management, if it was there; NULL: not yet",
        "recovery.NOTE_REMOVED validation.lose",
    ),
    PrimaryKeyConstraint("jedi_task_id", "file_id"),
    Index(None, "dataset_name"),
    comment="lost outputs, which are made again under another name, and lost logs",
)

superseded_jobs = Table(
    "jedi_superseded_jobs",
    metadata,
    key("pandaid:panda_id", "the job", "recovery.undo"),
    key("jeditaskid:jedi_task_id", "its task", "recovery.undo"),
    stamp("superseded_at", "time of the record", "recovery.undo", now=True),
    PrimaryKeyConstraint("panda_id"),
    Index(None, "jedi_task_id"),
    comment="finished jobs whose results are given up: their input is processed again",
)

_RULES = "retry_rules.put"

retry_rules = Table(
    "jedi_retry_rules",
    metadata,
    col("rule_id", Integer, "order and name", _RULES, nullable=False, autoincrement=False),
    col("active", Boolean, "false: matches are only recorded", _RULES, nullable=False),
    words("error_source", "of the jobs that it concerns; NULL, here and below: any", _RULES),
    words("error_code", "theirs", _RULES),
    col("exit_code", Integer, "theirs", _RULES),
    words("message", "regular expression found in their error_diag", _RULES),
    words("site", "theirs", _RULES),
    col("queue_id", Integer, "their work queue", _RULES),
    words("label", "their prodSourceLabel", _RULES),
    words("architecture", "their task's", _RULES),
    words("release", "their task's transUses", _RULES),
    words("action", "no_retry, limit_retry, increase_memory, ...", _RULES, nullable=False),
    col("attempts", Integer, "limit_retry: attempts of an input", _RULES),
    words("description", "for people", _RULES),
    words("username:user_name", "the user who wrote the rule", _RULES),
    stamp("modificationtime:modification_time", "time of the record", _RULES, now=True),
    PrimaryKeyConstraint("rule_id"),
    CheckConstraint(
        "message IS NULL OR length(message) <= 256 AND ('' ~ message) IS NOT NULL", name="message"
    ),
    comment="effects of jobs' errors besides another attempt",
)

_MATCH = "retry_rules.obey"

retry_matches = Table(
    "jedi_retry_matches",
    metadata,
    key("pandaid:panda_id", "the failed job", _MATCH),
    col("rule_id", Integer, "the rule that concerns it", _MATCH, nullable=False),
    key("jeditaskid:jedi_task_id", "the task", _MATCH),
    words("effect", "the effect, for people", _MATCH, nullable=False),
    stamp("creationtime:creation_time", "time of the record", _MATCH, now=True),
    stamp(
        "settled_at",
        "time of the change of the task, if one was needed; NULL: not yet",
        "retry_rules.CAUSES",
    ),
    PrimaryKeyConstraint("panda_id", "rule_id"),
    Index(
        "jedi_retry_matches_open_ix", "jedi_task_id", postgresql_where=text("settled_at IS NULL")
    ),
    comment="retry rules that concerned failed jobs",
)

snapshots = Table(
    "jedi_snapshots",
    metadata,
    words("snapshot_hash", "sha256 of the data", "decisions.put_snapshot", nullable=False),
    col(
        "data",
        LargeBinary,
        "the world as the broker saw it, compressed JSON",
        "decisions.put_snapshot",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "time of the record", "decisions.put_snapshot", now=True),
    PrimaryKeyConstraint("snapshot_hash"),
    comment="snapshots of brokers, shared by decisions",
)

broker_decisions = Table(
    "jedi_broker_decisions",
    metadata,
    col("decision_id", BigInteger, "order", "decisions.record", autoincrement=True, nullable=False),
    key("jeditaskid:jedi_task_id", "the task", "decisions.record"),
    words("broker", "nucleus, production, analysis, generic", "decisions.record", nullable=False),
    words("snapshot_hash", "hash of the broker's snapshot", "decisions.record"),
    col("seed", BigInteger, "seed of the lottery", "decisions.record", nullable=False),
    col("knobs", JSONB, "the knobs it used", "decisions.record", nullable=False),
    words("outcome", "chosen, none, ...", "decisions.record", nullable=False),
    col("chosen", ARRAY(Text), "the sites, best first", "decisions.record", nullable=False),
    col("weights", ARRAY(Double), "their weights", "decisions.record", nullable=False),
    col("need", JSONB, "requirements of the task", "decisions.record", nullable=False),
    stamp("creationtime:creation_time", "time of the record", "decisions.record", now=True),
    col(
        "used",
        ARRAY(Text),
        "the sites that the task had jobs at",
        "decisions.record",
        nullable=False,
        server_default=text("'{}'::text[]"),
    ),
    PrimaryKeyConstraint("decision_id"),
    Index(None, "jedi_task_id", "decision_id"),
    Index(None, "creation_time"),
    Index(None, "snapshot_hash"),
    comment="decisions of brokers",
)

broker_reasons = Table(
    "jedi_broker_reasons",
    metadata,
    key("decision_id", "the decision", "decisions.record"),
    words("site", "a site that was refused", "decisions.record", nullable=False),
    col("codes", ARRAY(Text), "every reason", "decisions.record", nullable=False),
    col(
        "observed", ARRAY(Double), "observed values, by reason", "decisions.record", nullable=False
    ),
    col("limits", ARRAY(Double), "the limits, by reason", "decisions.record", nullable=False),
    PrimaryKeyConstraint("decision_id", "site"),
    comment="refused sites of decisions, with reasons",
)
