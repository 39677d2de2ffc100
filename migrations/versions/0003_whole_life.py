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
BEFORE = {
    "task": """
aborted > toincexec
aborting > toabort
assigning > aborting exhausted finishing paused ready registered toabort toreassign
defined > aborting assigning exhausted finishing paused pending ready registered toabort
defined > tobroken toreassign
done > registered toincexec
exhausted > aborting finishing paused registered running scouting toabort toincexec
exhausted > toreassign toretry
failed > toincexec toretry
finished > registered toincexec toretry
finishing > aborting passed toabort
passed > aborting done failed finished paused
paused > aborting assigning defined done exhausted failed finished finishing pending
paused > prepared preprocessing ready registered rerefine running scouted scouting staged
paused > staging throttled toabort topreprocess
pending > aborting defined exhausted finishing paused prepared preprocessing ready
pending > registered rerefine running scouting toabort topreprocess toreassign
prepared > done exhausted failed finished paused pending
preprocessing > aborting finishing paused pending prepared registered toabort
ready > aborting defined exhausted finishing paused pending prepared preprocessing
ready > registered running scouting throttled toabort toreassign
reassigning > aborting assigning defined exhausted finishing pending ready running scouted
reassigning > scouting toabort
registered > aborting defined exhausted finishing paused pending staging toabort tobroken
registered > topreprocess
rerefine > aborting defined finishing paused pending prepared ready toabort tobroken
running > aborting defined exhausted finishing paused pending prepared throttled toabort
running > toreassign
scouted > aborting finishing paused running toabort toreassign
scouting > aborting defined exhausted finishing paused pending prepared scouted throttled
scouting > toabort tobroken toreassign
staged > aborting defined finishing paused toabort tobroken topreprocess
staging > aborting finishing paused staged toabort
throttled > aborting finishing paused prepared ready running scouting toabort
toabort > aborted
tobroken > aborting broken
toincexec > aborted aborting done exhausted failed finished finishing rerefine toabort
topreprocess > aborting finishing paused pending preprocessing toabort
toreassign > aborting assigning defined exhausted finishing pending ready reassigning
toreassign > running scouted scouting toabort
toretry > aborting defined exhausted failed finished finishing ready registered toabort
""",
}
AFTER = {
    "task": """
aborted > toincexec
aborting > toabort
assigning > aborting exhausted finishing paused ready registered toabort toreassign
defined > aborting assigning exhausted finishing paused pending ready registered toabort
defined > tobroken toreassign
done > registered toincexec toretry
exhausted > aborting finishing paused registered running scouting toabort toincexec
exhausted > toreassign toretry
failed > toincexec toretry
finished > registered toincexec toretry
finishing > aborting passed toabort
passed > aborting done failed finished paused
paused > aborting assigning defined done exhausted failed finished finishing pending
paused > prepared preprocessing ready registered rerefine running scouted scouting staged
paused > staging throttled toabort topreprocess
pending > aborting defined exhausted finishing paused prepared preprocessing ready
pending > registered rerefine running scouting toabort topreprocess toreassign
prepared > done exhausted failed finished paused pending
preprocessing > aborting finishing paused pending prepared registered toabort
ready > aborting defined exhausted finishing paused pending prepared preprocessing
ready > registered running scouting throttled toabort toreassign
reassigning > aborting assigning defined exhausted finishing pending ready running scouted
reassigning > scouting toabort
registered > aborting defined exhausted finishing paused pending staging toabort tobroken
registered > topreprocess
rerefine > aborting defined finishing paused pending prepared ready toabort tobroken
running > aborting defined exhausted finishing paused pending prepared throttled toabort
running > toreassign
scouted > aborting finishing paused running toabort toreassign
scouting > aborting defined exhausted finishing paused pending prepared scouted throttled
scouting > toabort tobroken toreassign
staged > aborting defined finishing paused toabort tobroken topreprocess
staging > aborting finishing paused staged toabort
throttled > aborting finishing paused prepared ready running scouting toabort
toabort > aborted
tobroken > aborting broken
toincexec > aborted aborting done exhausted failed finished finishing rerefine toabort
topreprocess > aborting finishing paused pending preprocessing toabort
toreassign > aborting assigning defined exhausted finishing pending ready reassigning
toreassign > running scouted scouting toabort
toretry > aborting defined done exhausted failed finished finishing ready registered
toretry > toabort
""",
}
# moves: end


COLUMNS = (
    ("ddm_files", "boundary", "bigint", "files with the same one belong together"),
    ("ddm_files", "lumiblock", "integer", "the lumi block of its events"),
    ("jedi_dataset_contents", "ramcount", "integer",
     "memory that its jobs need if the task asks for less, in the task''s unit"),
)  # fmt: skip
"""Table, column, type, meaning."""


def upgrade() -> None:
    for table, column, kind, meaning in COLUMNS:
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{meaning}'")
    guard(AFTER)


def downgrade() -> None:
    guard(BEFORE)
    for table, column, _, _ in reversed(COLUMNS):
        op.execute(f"ALTER TABLE {table} DROP COLUMN {column}")


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
