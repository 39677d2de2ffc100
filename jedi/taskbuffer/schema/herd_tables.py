"""Herds: tasks with a splitter, their units, the keys of submissions, and the view of
all members.

Source: docs/reference/herds.md#records.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.taskbuffer.schema.columns import col, key, metadata, stamp, words

_BEGIN = "herds.BEGIN"
_SPLIT = "herds.finish"
_GIVEN = "units.write resplits.supersede"

herds = Table(
    "jedi_herds",
    metadata,
    key("jeditaskid:jedi_task_id", "the task", _BEGIN),
    key(
        "originpandaid:origin_panda_id",
        "the originator: the PandaID of its first unit, reserved at submission",
        _BEGIN,
    ),
    words("splitter", "the name of its split strategy", _BEGIN, nullable=False),
    words(
        "after",
        "the step after which it can be split: refine (its parameters are known) or "
        "contents (its input files are)",
        _BEGIN,
        nullable=False,
    ),
    col("n_units", Integer, "number of its units; NULL: it is not split yet", f"{_SPLIT} {_GIVEN}"),
    stamp("split_at", "time of its split; NULL: it is not split yet", f"{_SPLIT} {_GIVEN}"),
    PrimaryKeyConstraint("jedi_task_id"),
    CheckConstraint("after IN ('refine', 'contents')", name="after"),
    Index("jedi_herds_originpandaid_uq", "origin_panda_id", unique=True),
    Index("jedi_herds_unsplit_ix", "jedi_task_id", postgresql_where=text("split_at IS NULL")),
    comment="tasks with a splitter",
)

units = Table(
    "jedi_units",
    metadata,
    key("jeditaskid:jedi_task_id", "the herd", f"{_SPLIT} {_GIVEN}"),
    col(
        "unit_nr",
        Integer,
        "number of the unit, from 1 on",
        f"{_SPLIT} {_GIVEN}",
        nullable=False,
        autoincrement=False,
    ),
    key(
        "originpandaid:origin_panda_id",
        "the PandaID of its first attempt, reserved by the split",
        f"{_SPLIT} {_GIVEN}",
    ),
    col(
        "options",
        JSONB,
        "its own options: those with variables, which are replaced, and those "
        "that the strategy set",
        f"{_SPLIT} {_GIVEN}",
        nullable=False,
    ),
    col("files", JSONB, "names of its input files, if they came with the submission", _GIVEN),
    words("refusal", "the reason why it was refused at the submission; it never runs", _GIVEN),
    stamp(
        "killed_at",
        "time at which somebody killed it; NULL: nobody did, or it was submitted again",
        "unit_verbs.KILL unit_verbs.revive",
    ),
    words(
        "superseded",
        "its state when its input was cut again for other units; NULL: it counts",
        "resplits.supersede",
    ),
    PrimaryKeyConstraint("jedi_task_id", "unit_nr"),
    CheckConstraint("superseded IN ('completed', 'failed', 'killed')", name="superseded"),
    Index("jedi_units_originpandaid_uq", "origin_panda_id", unique=True),
    comment="the children of herds",
)

submission_keys = Table(
    "jedi_submission_keys",
    metadata,
    words("username:user_name", "the user who chose it", "submission_keys.take", nullable=False),
    words("submission_key", "the key", "submission_keys.take", nullable=False),
    col(
        "jeditaskid:jedi_task_id",
        BigInteger,
        "the task; NULL: the key was asked for before it arrived, and no task will have it",
        "submission_keys.KEEP",
    ),
    stamp("creationtime:creation_time", "time of the record", "submission_keys.take", now=True),
    col(
        "attemptnr:attempt_nr",
        Integer,
        "the attempt of the task that began under it",
        "submission_keys.KEEP",
        nullable=False,
        server_default=text("1"),
    ),
    PrimaryKeyConstraint("user_name", "submission_key"),
    comment="keys under which tasks were submitted, kept for ever",
)

HERD_MEMBERS_VIEW = """
CREATE VIEW jedi_herd_members AS
SELECT h.jeditaskid, u.unit_nr, coalesce(u.originpandaid, h.originpandaid) AS originpandaid,
  h.originpandaid AS masterjobid,
  CASE WHEN h.split_at IS NULL THEN 'WillSplit'
       WHEN u.originpandaid = h.originpandaid THEN 'Splitted' ELSE 'Single' END AS jobsplittype,
  lpad((u.unit_nr - 1)::text, length(h.n_units::text), '0') AS splitid,
  u.options
FROM jedi_herds h LEFT JOIN jedi_units u USING (jeditaskid)
"""
"""All members of herds, each with the id that its submitter keeps; before the split the originator
alone. A job of no herd is Single, and its own master."""
