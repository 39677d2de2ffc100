"""Guards fire after the update, for which no row is locked and logged once more; usual moves are
compared first."""

from __future__ import annotations

import re
from collections.abc import Callable

from alembic import op

revision = "0006"
down_revision = "0005"

USUAL = {
    "guard_job": (
        "activated>sent", "sent>starting", "starting>running", "sent>running", "running>holding",
        "holding>finished",
    ),
    "guard_input_file": ("ready>running", "running>finished", "running>ready"),
    "guard_output_file": ("defined>running", "running>finished"),
}  # fmt: skip
FUNCTION = "NOT jedi_job_may_move(old.status, new.status)"
UNUSUAL = f"((old.status || '>') || new.status) NOT IN ({{moves}}) AND {FUNCTION}"
LISTED = re.compile(r"ARRAY\[('\w+>\w+'::text(?:, '\w+>\w+'::text)*)\]")


def upgrade() -> None:
    for_each_guard(after)


def downgrade() -> None:
    for_each_guard(before)


def for_each_guard(rewritten: Callable[[str, str], str]) -> None:
    found = op.get_bind().exec_driver_sql(
        "SELECT tgname, CAST(tgrelid AS regclass), pg_get_triggerdef(oid) FROM pg_trigger "
        "WHERE NOT tgisinternal AND tgname LIKE 'guard_%%'"
    )
    for name, table, definition in found.all():
        op.execute(f"DROP TRIGGER {name} ON {table}")
        op.execute(rewritten(name, definition))


def after(name: str, definition: str) -> str:
    usual = [f"'{move}'" for move in USUAL.get(name, ())]
    late = definition.replace(" BEFORE UPDATE ", " AFTER UPDATE ")
    late = late.replace(FUNCTION, UNUSUAL.format(moves=", ".join(usual)))
    return LISTED.sub(lambda found: listed([*usual, *moves_of(found)]), late)


def before(name: str, definition: str) -> str:
    early = definition.replace(" AFTER UPDATE ", " BEFORE UPDATE ")
    if name == "guard_job":
        return re.sub(r"AND \(\(\(old.status.*?\]\)\) AND \(NOT", "AND (NOT", early)
    return LISTED.sub(lambda found: listed(sorted(moves_of(found))), early)


def moves_of(found: re.Match[str]) -> list[str]:
    return found[1].replace("::text", "").split(", ")


def listed(moves: list[str]) -> str:
    return f"ARRAY[{', '.join(dict.fromkeys(moves))}]"
