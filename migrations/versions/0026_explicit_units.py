"""Units that come with the submission: their files and refusals, and keys of submissions."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"

ADDED = """
ALTER TABLE jedi_units ADD COLUMN files jsonb, ADD COLUMN refusal text;
CREATE TABLE jedi_submission_keys (
  username text NOT NULL, submission_key text NOT NULL, jeditaskid bigint, creationtime timestamptz
  DEFAULT jedi_now() NOT NULL,
  CONSTRAINT jedi_submission_keys_pk PRIMARY KEY (username, submission_key));
"""
REMOVED = """
DROP TABLE jedi_submission_keys;
ALTER TABLE jedi_units DROP COLUMN files, DROP COLUMN refusal;
"""
COMMENTS = {
    "COLUMN jedi_units.files": "names of its input files, if they came with the submission",
    "COLUMN jedi_units.refusal": "the reason why it was refused at the submission; it never runs",
    "TABLE jedi_submission_keys": "keys under which tasks with their units were submitted, kept "
    "for ever",
    "COLUMN jedi_submission_keys.username": "the user who chose it",
    "COLUMN jedi_submission_keys.submission_key": "the key",
    "COLUMN jedi_submission_keys.jeditaskid": "the task; NULL: the key was asked for before it "
    "arrived, and no task will have it",
    "COLUMN jedi_submission_keys.creationtime": "time of the record",
}


def upgrade() -> None:
    op.execute(ADDED)
    for on, meaning in COMMENTS.items():
        op.execute(f"COMMENT ON {on} IS '{meaning}'")


def downgrade() -> None:
    op.execute(REMOVED)
