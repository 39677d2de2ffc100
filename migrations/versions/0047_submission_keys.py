"""All submissions keep their keys in one table, with the attempt that each began."""

from __future__ import annotations

from alembic import op

revision = "0047"
down_revision = "0046"

UP = """
ALTER TABLE jedi_submission_keys ADD COLUMN attemptnr integer DEFAULT 1 NOT NULL;
COMMENT ON COLUMN jedi_submission_keys.attemptnr IS
  'the attempt of the task that began under it';
COMMENT ON TABLE jedi_submission_keys IS 'keys under which tasks were submitted, kept for ever';
INSERT INTO jedi_submission_keys (username, submission_key, jeditaskid, creationtime)
SELECT username, idempotency_key, jeditaskid, creationdate FROM jedi_tasks
WHERE idempotency_key IS NOT NULL ON CONFLICT DO NOTHING;
"""
DOWN = """
DELETE FROM jedi_submission_keys k USING jedi_tasks t
WHERE t.username = k.username AND t.idempotency_key = k.submission_key;
COMMENT ON TABLE jedi_submission_keys IS
  'keys under which tasks with their units were submitted, kept for ever';
ALTER TABLE jedi_submission_keys DROP COLUMN attemptnr;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
