"""Guards fire after the update, for which no row is locked and logged once more; usual moves are
compared first."""

from __future__ import annotations

import re

from alembic import op

revision = "0006"
down_revision = "0005"

JOB = (
    "CREATE TRIGGER guard_job {when} UPDATE OF status ON jedi_jobs FOR EACH ROW "
    "WHEN (OLD.status <> NEW.status{unusual} AND NOT jedi_job_may_move(OLD.status, NEW.status)) "
    "EXECUTE FUNCTION jedi_refuse_move('job')"
)
UNUSUAL = (
    " AND OLD.status || '>' || NEW.status NOT IN ('activated>sent', 'sent>starting', "
    "'starting>running', 'sent>running', 'running>holding', 'holding>finished')"
)
USUAL = {
    "guard_input_file": ["ready>running", "running>finished", "running>ready"],
    "guard_output_file": ["defined>running", "running>finished"],
}
MOVES = re.compile(r"'\w+>\w+'::text(?:, '\w+>\w+'::text)*")


def upgrade() -> None:
    for name, table, definition in guards():
        first = [f"'{move}'::text" for move in USUAL.get(name, ())]
        ordered = MOVES.sub(lambda found, first=first: usual_first(first, found[0]), definition)
        replace(name, table, ordered.replace(" BEFORE UPDATE ", " AFTER UPDATE "))
    replace("guard_job", "jedi_jobs", JOB.format(when="AFTER", unusual=UNUSUAL))


def downgrade() -> None:
    for name, table, definition in guards():
        ordered = MOVES.sub(in_order, definition) if name in USUAL else definition
        replace(name, table, ordered.replace(" AFTER UPDATE ", " BEFORE UPDATE "))
    replace("guard_job", "jedi_jobs", JOB.format(when="BEFORE", unusual=""))


def guards() -> list[tuple[str, str, str]]:
    """Name, table and definition of each guard but that of jobs."""
    found = op.get_bind().exec_driver_sql(
        "SELECT tgname, CAST(CAST(tgrelid AS regclass) AS text), pg_get_triggerdef(oid) "
        "FROM pg_trigger WHERE tgfoid = CAST('jedi_refuse_move' AS regproc) "
        "AND tgname <> 'guard_job' ORDER BY tgname"
    )
    return [(name, table, definition) for name, table, definition in found]


def replace(name: str, table: str, definition: str) -> None:
    op.execute(f"DROP TRIGGER {name} ON {table}")
    op.execute(definition)


def usual_first(first: list[str], moves: str) -> str:
    return ", ".join(dict.fromkeys([*first, *moves.split(", ")]))


def in_order(found: re.Match[str]) -> str:
    return ", ".join(sorted(found[0].split(", ")))
