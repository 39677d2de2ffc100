"""Corrupted ranges without attempts are fatal."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"

# What the guard of ranges lets pass, usual moves first; before, and from now on.
BEFORE = """
0>6 0>1 1>3 3>6 6>9 10>4 6>10 6>5 7>4 7>8 3>5 0>4 0>7 0>8 0>3 2>4 2>7 2>3 2>0 1>4 1>7 1>0 1>2
"""
NOW = BEFORE.replace("10>4", "10>4 10>8")


def upgrade() -> None:
    ranges(NOW)


def downgrade() -> None:
    ranges(BEFORE)


def ranges(moves: str) -> None:
    allowed = ", ".join(f"'{move}'" for move in moves.split())
    op.execute("DROP TRIGGER guard_event_range ON jedi_events")
    op.execute(
        "CREATE TRIGGER guard_event_range AFTER UPDATE OF status ON jedi_events FOR EACH ROW "
        "WHEN (OLD.status <> NEW.status AND OLD.status || '>' || NEW.status "
        f"NOT IN ({allowed})) EXECUTE FUNCTION jedi_refuse_move('event range')"
    )
