"""Input files that no job has may be missing or broken: another job, or one that shares them, found
them so."""

from __future__ import annotations

from alembic import op

revision = "0045"
down_revision = "0044"

BEFORE = """
broken>ready failed>ready finished>failed finished>ready lost>ready missing>ready pending>failed
pending>lost pending>ready pending>staging ready>failed ready>lost ready>running ready>waiting
running>broken running>failed running>finished running>missing running>ready staging>failed
staging>lost staging>pending staging>ready waiting>failed waiting>lost waiting>ready
"""
MORE = "pending>broken pending>missing ready>broken ready>missing"
MAY_MOVE = """
CREATE OR REPLACE FUNCTION jedi_input_file_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ({moves});
END $$
"""


def upgrade() -> None:
    let_move(f"{BEFORE} {MORE}")


def downgrade() -> None:
    let_move(BEFORE)


def let_move(moves: str) -> None:
    """Replace the function that knows the moves of input files."""
    listed = ", ".join(f"'{one}'" for one in sorted(moves.split()))
    op.execute(MAY_MOVE.format(moves=listed))
