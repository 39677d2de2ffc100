"""What the whole life of a task needs: more moves, more columns."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

INPUT_TYPES = (
    "'input', 'pseudo_input', 'random_seed', 'pp_input', "
    "'in_constituent', 'trn_log', 'trn_output', 'lib'"
)

GUARDS = (
    ("task", "jedi_tasks", ""),
    ("input dataset", "jedi_datasets", f" AND OLD.type IN ({INPUT_TYPES})"),
    ("output dataset", "jedi_datasets", f" AND OLD.type NOT IN ({INPUT_TYPES})"),
    ("input file", "jedi_dataset_contents", f" AND OLD.type IN ({INPUT_TYPES})"),
    ("output file", "jedi_dataset_contents", f" AND OLD.type NOT IN ({INPUT_TYPES})"),
    ("event range", "jedi_events", ""),
    ("job", "jedi_jobs", ""),
)
"""Machine, table, which rows."""

# What a guard lets pass: from a status to any of these; before, and from now on.

# moves: begin
BEFORE: dict[str, str] = {}
AFTER: dict[str, str] = {}
# moves: end


def upgrade() -> None:
    guard(AFTER)


def downgrade() -> None:
    guard(BEFORE)


def guard(moves: dict[str, str]) -> None:
    """Replace the guards of these machines."""
    for name, table, rows in GUARDS:
        if name in moves:
            trigger = f"guard_{name.replace(' ', '_')}"
            op.execute(f"DROP TRIGGER {trigger} ON {table}")
            op.execute(
                f"CREATE TRIGGER {trigger} BEFORE UPDATE OF status ON {table} "
                f"FOR EACH ROW WHEN (OLD.status <> NEW.status{rows} "
                f"AND OLD.status || '>' || NEW.status NOT IN ({allowed(moves[name])})) "
                f"EXECUTE FUNCTION jedi_refuse_move('{name}')"
            )


def allowed(moves: str) -> str:
    lines = [line.split(" > ") for line in moves.strip().splitlines()]
    return ", ".join(f"'{a}>{b}'" for a, targets in lines for b in targets.split())
