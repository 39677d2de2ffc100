"""Rules on rows of jobs that PostgreSQL looks at for each change of a job.

Each statement that writes a row parses the table's CHECKs and generated columns anew: with the
rules written out, the UPDATE that hands out one job took 170 us of the server's time, of them 80 us
for that. A usual row meets a short condition. For the others a function, which a session parses
once, knows the rules, and names the one that is broken.
"""

from __future__ import annotations

from collections.abc import Mapping

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import among, listed
from jedi.taskbuffer.schema.pgi_views import CHECKS

_USUAL = ("activated", "sent", "running", "holding", "finished")

_RULES: Mapping[str, str] = {
    "status": f"status IN ({listed(states.JOB.states)})",
    "substatus": f"substatus IN ({listed(states.JOB_SUBSTATES)})",
    **CHECKS,
}
_BROKEN = "\n    ".join(f"WHEN NOT ({rule}) THEN '{name}'" for name, rule in _RULES.items())
_READ = "status, substatus, hold_kind, postprocessed_at, purged_at"

IS_SOUND = f"""
CREATE OR REPLACE FUNCTION jedi_job_is_sound(status text, substatus text, hold_kind text,
  postprocessed_at timestamptz, purged_at timestamptz) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  broken text := CASE
    {_BROKEN} END;
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
    f"AND (status = 'finished') = (postprocessed_at IS NOT NULL) AND {among('status', _USUAL)} "
    f"OR jedi_job_is_sound({_READ})"
)
"""The condition on each row: a usual one, or one that breaks no rule."""

_ENDED = listed(("finished", "failed", "cancelled", "closed"))
TO_BOOK_FUNCTION = f"""
CREATE OR REPLACE FUNCTION jedi_job_to_book(kind text, status text, booked text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (kind IN ('consumer', 'co_jumbo', 'clone', 'fine') AND status IN ('holding', {_ENDED})
      AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'es_merge' AND status IN ({_ENDED}) AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL);
END $$
"""
TO_BOOK = "(kind <> 'normal'::text) AND jedi_job_to_book(kind, status, booked)"
"""The end of a job of the event service, or the start of a copy, that its job set does not know."""
