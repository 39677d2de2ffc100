"""What each statement parses anew is short: rules on jobs, and unusual moves of files, stand in
functions, and lists of words are one literal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from alembic import op

revision = "0034"
down_revision = "0033"

LISTS = {
    "ddm_datasets": ["state"],
    "jedi_dataset_contents": ["status"],
    "jedi_datasets": ["status"],
    "jedi_drafts": ["kind", "status"],
    "jedi_sites": ["status"],
    "jedi_subjobs": ["status"],
    "jedi_tasks": ["status"],
    "jedi_tokens": ["scope"],
    "jedi_users": ["notices", "role"],
}
"""CHECKs that are one list of words."""

STAGES = {
    "manual_stage_in": "assigned activated throttled",
    "manual_stage_out": "holding transferring merging",
    "failed_recoverable": "assigned activated throttled sent starting running holding transferring "
    "merging",
    "user_request": "assigned activated throttled sent starting running holding transferring "
    "merging",
}
STATUSES = (
    "pending waiting defined assigned activated throttled sent starting running holding "
    "transferring merging finished failed cancelled closed"
)
SUBSTATES = (
    "merge_failed merge_cancelled merge_closed pilot_failed es_heartbeat es_merge_failed es_retry "
    "es_merge es_wait es_inaction es_noevent es_badstatus jc_unlock es_killed es_unused es_aborted"
)


def listed(words: str | Sequence[str]) -> str:
    """Words as SQL literals."""
    return ", ".join(f"'{one}'" for one in (words.split() if isinstance(words, str) else words))


ENDED = listed("cancelled closed failed finished")
RULES = {
    "status": f"status IN ({listed(STATUSES)})",
    "substatus": f"substatus IN ({listed(SUBSTATES)})",
    "held": "hold_kind IS NULL OR CASE "
    + "\n    ".join(
        f"WHEN hold_kind = '{kind}' THEN status IN ({listed(stages)})"
        for kind, stages in STAGES.items()
    )
    + "\n    ELSE false END",
    "finished": "status <> 'finished' OR postprocessed_at IS NOT NULL",
    "postprocessed": f"postprocessed_at IS NULL OR status IN ({ENDED})",
    "purged": f"purged_at IS NULL OR status IN ({ENDED})",
}
BROKEN = "\n    ".join(f"WHEN NOT ({rule}) THEN '{name}'" for name, rule in RULES.items())
IS_SOUND = f"""
CREATE OR REPLACE FUNCTION jedi_job_is_sound(status text, substatus text, hold_kind text,
  postprocessed_at timestamptz, purged_at timestamptz) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  broken text := CASE
    {BROKEN} END;
BEGIN
  IF broken IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = format('jedi_jobs_%s_ck', broken),
      MESSAGE = format('a row of jedi_jobs violates check constraint "jedi_jobs_%s_ck": status %s, '
        'substatus %s, hold_kind %s, postprocessed_at %s, purged_at %s', broken, status,
        substatus, hold_kind, postprocessed_at, purged_at);
  END IF;
  RETURN true;
END $$
"""
SOUND = (
    "hold_kind IS NULL AND substatus IS NULL AND purged_at IS NULL "
    "AND (status = 'finished') = (postprocessed_at IS NOT NULL) "
    "AND status = ANY ('{activated,sent,running,holding,finished}'::text[]) "
    "OR jedi_job_is_sound(status, substatus, hold_kind, postprocessed_at, purged_at)"
)

DONE = listed("finished failed cancelled closed")
TO_BOOK = f"""
CREATE OR REPLACE FUNCTION jedi_job_to_book(kind text, status text, booked text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (kind IN ('consumer', 'co_jumbo', 'clone', 'fine') AND status IN ('holding', {DONE})
      AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'es_merge' AND status IN ({DONE}) AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL);
END $$
"""
TO_BOOK_BEFORE = f"""
kind IN ('consumer', 'co_jumbo', 'clone', 'fine') AND status IN ('holding', {DONE})
  AND booked IS DISTINCT FROM 'ended'
OR kind = 'es_merge' AND status IN ({DONE}) AND booked IS DISTINCT FROM 'ended'
OR kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL"""

INPUT_TYPES = "input pseudo_input random_seed pp_input in_constituent trn_log trn_output"
# kind of file: how its types are chosen, its usual moves before and now, and the others
FILES = {
    "input": (
        "IN",
        "ready>running running>finished running>ready",
        "ready>running running>finished running>ready",
        "broken>ready failed>ready finished>failed finished>ready lost>ready missing>ready "
        "pending>failed pending>lost pending>ready pending>staging ready>failed ready>lost "
        "ready>waiting running>broken running>failed running>missing staging>failed "
        "staging>lost staging>pending staging>ready waiting>failed waiting>lost "
        "waiting>ready",
    ),
    "output": (
        "NOT IN",
        "defined>running running>finished",
        "defined>running running>finished defined>finished",
        "defined>failed defined>finished defined>merging defined>nooutput "
        "defined>prepared finished>failed merging>failed merging>finished "
        "merging>nooutput merging>prepared prepared>failed prepared>finished "
        "running>failed running>nooutput running>prepared",
    ),
}
MAY_MOVE = """
CREATE OR REPLACE FUNCTION jedi_{kind}_file_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ({moves});
END $$
"""


def upgrade() -> None:
    op.execute(IS_SOUND)
    op.execute(TO_BOOK)
    for name in RULES:
        op.execute(f"ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_{name}_ck")
    op.execute(f"ALTER TABLE jedi_jobs ADD CONSTRAINT jedi_jobs_sound_ck CHECK ({SOUND})")
    to_book("kind <> 'normal' AND jedi_job_to_book(kind, status, booked)")
    for kind, (types, before, usual, more) in FILES.items():
        moves = sorted({*before.split(), *usual.split(), *more.split()})
        op.execute(MAY_MOVE.format(kind=kind, moves=listed(moves)))
        may = f" AND NOT jedi_{kind}_file_may_move(OLD.status, NEW.status)"
        guard(kind, types, listed(usual), may)
    everywhere(literal)


def downgrade() -> None:
    everywhere(array)
    for kind, (types, before, _, more) in FILES.items():
        guard(kind, types, listed(f"{before} {more}"), "")
        op.execute(f"DROP FUNCTION jedi_{kind}_file_may_move(text, text)")
    to_book(TO_BOOK_BEFORE)
    op.execute("ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_sound_ck")
    for name, rule in RULES.items():
        op.execute(f"ALTER TABLE jedi_jobs ADD CONSTRAINT jedi_jobs_{name}_ck CHECK ({rule})")
    op.execute("DROP FUNCTION jedi_job_to_book(text, text, text)")
    op.execute("DROP FUNCTION jedi_job_is_sound(text, text, text, timestamptz, timestamptz)")


def to_book(expression: str) -> None:
    """Replace the column, the last one of its table."""
    op.execute("ALTER TABLE jedi_jobs DROP COLUMN to_book")
    op.execute(
        "ALTER TABLE jedi_jobs ADD COLUMN to_book boolean "
        f"GENERATED ALWAYS AS ({expression}) STORED"
    )
    meaning = "'its job set of events has to look at it'"
    op.execute(f"COMMENT ON COLUMN jedi_jobs.to_book IS {meaning}")
    op.execute("CREATE INDEX jedi_jobs_to_book_ix ON jedi_jobs (pandaid) WHERE to_book")


def guard(kind: str, types: str, moves: str, more: str) -> None:
    """Replace the guard of files."""
    op.execute(f"DROP TRIGGER guard_{kind}_file ON jedi_dataset_contents")
    op.execute(
        f"CREATE TRIGGER guard_{kind}_file AFTER UPDATE OF status ON jedi_dataset_contents "
        f"FOR EACH ROW WHEN (OLD.status <> NEW.status AND OLD.type {types} "
        f"({listed(INPUT_TYPES)}) AND OLD.status || '>' || NEW.status NOT IN ({moves}){more}) "
        f"EXECUTE FUNCTION jedi_refuse_move('{kind} file')"
    )


def everywhere(form: Callable[[str], str]) -> None:
    """Write lists of words in another form, in CHECKs and in conditions of guards."""
    checks = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '{}'"
    for table, columns in LISTS.items():
        for name in (f"{table}_{column}_ck" for column in columns):
            definition = op.get_bind().exec_driver_sql(checks.format(name)).scalar_one()
            op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {form(definition)}")
    triggers = (
        "SELECT tgname, tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger "
        "WHERE tgname LIKE 'guard\\_%%' AND NOT tgisinternal "
        "AND (SELECT relnamespace FROM pg_class c WHERE c.oid = tgrelid) "
        "= current_schema()::regnamespace"
    )
    for name, table, definition in op.get_bind().exec_driver_sql(triggers).all():
        op.execute(f"DROP TRIGGER {name} ON {table}")
        op.execute(form(definition))


def literal(definition: str) -> str:
    """ARRAY['a'::text, 'b'::text] as '{a,b}'::text[]."""
    return re.sub(
        r"ARRAY\[([^]]*)\]",
        lambda found: "'{" + ",".join(re.findall("'([^']*)'", found[1])) + "}'::text[]",
        definition,
    )


def array(definition: str) -> str:
    """The opposite."""
    return re.sub(
        r"'\{([^}]*)\}'::text\[\]",
        lambda found: f"ARRAY[{listed(found[1].split(','))}]",
        definition,
    )
