"""Herds: tasks with a splitter, and their units."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"

ADDED = """
CREATE TABLE jedi_herds (
  jeditaskid bigint NOT NULL, originpandaid bigint NOT NULL, splitter text NOT NULL, after text
  NOT NULL, n_units integer, split_at timestamptz, CONSTRAINT jedi_herds_pk PRIMARY KEY
  (jeditaskid), CONSTRAINT jedi_herds_after_ck CHECK (after IN ('refine', 'contents')));
CREATE UNIQUE INDEX jedi_herds_originpandaid_uq ON jedi_herds (originpandaid);
CREATE INDEX jedi_herds_unsplit_ix ON jedi_herds (jeditaskid) WHERE split_at IS NULL;
CREATE TABLE jedi_units (
  jeditaskid bigint NOT NULL, unit_nr integer NOT NULL, originpandaid bigint NOT NULL, options
  jsonb NOT NULL, CONSTRAINT jedi_units_pk PRIMARY KEY (jeditaskid, unit_nr));
CREATE UNIQUE INDEX jedi_units_originpandaid_uq ON jedi_units (originpandaid);
CREATE VIEW jedi_herd_members AS
SELECT h.jeditaskid, u.unit_nr, coalesce(u.originpandaid, h.originpandaid) AS originpandaid,
  h.originpandaid AS masterjobid,
  CASE WHEN h.split_at IS NULL THEN 'WillSplit'
       WHEN u.originpandaid = h.originpandaid THEN 'Splitted' ELSE 'Single' END AS jobsplittype,
  lpad((u.unit_nr - 1)::text, length(h.n_units::text), '0') AS splitid,
  u.options
FROM jedi_herds h LEFT JOIN jedi_units u USING (jeditaskid);
"""
REMOVED = """
DROP VIEW jedi_herd_members;
DROP TABLE jedi_units;
DROP TABLE jedi_herds;
"""
COMMENTS = {
    "TABLE jedi_herds": "tasks with a splitter",
    "COLUMN jedi_herds.jeditaskid": "the task",
    "COLUMN jedi_herds.originpandaid": "the originator: the PandaID of its first unit, reserved at "
    "submission",
    "COLUMN jedi_herds.splitter": "the name of its split strategy",
    "COLUMN jedi_herds.after": "the step after which it can be split: refine (its parameters are "
    "known) or contents (its input files are)",
    "COLUMN jedi_herds.n_units": "number of its units; NULL: it is not split yet",
    "COLUMN jedi_herds.split_at": "time of its split; NULL: it is not split yet",
    "TABLE jedi_units": "the children of herds",
    "COLUMN jedi_units.jeditaskid": "the herd",
    "COLUMN jedi_units.unit_nr": "number of the unit, from 1 on",
    "COLUMN jedi_units.originpandaid": "the PandaID of its first attempt, reserved by the split",
    "COLUMN jedi_units.options": "its own options: those with variables, which are replaced, and "
    "those that the strategy set",
}


def upgrade() -> None:
    op.execute(ADDED)
    for on, meaning in COMMENTS.items():
        op.execute(f"COMMENT ON {on} IS '{meaning}'")


def downgrade() -> None:
    op.execute(REMOVED)
