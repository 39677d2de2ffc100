"""Herds and their members, as people look at them.

Source: docs/reference/herds.md#records.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.schema.all_jobs import all_jobs


class HerdRecord(NamedTuple):
    """The record of a herd; `n_units` and `split_at` are None before the split."""

    splitter: str
    after: str
    master_job_id: int
    n_units: int | None
    split_at: datetime | None


HERD = returns(HerdRecord)("""
-- The record of a task that is a herd.
SELECT h.splitter, h.after, h.originpandaid AS master_job_id, h.n_units, h.split_at
FROM jedi_herds h WHERE h.jeditaskid = :task
""")


TASK_OF = returns(int)("""
-- The task of a job, or of a member of a herd whose job is not made yet.
SELECT jeditaskid FROM jedi_herds WHERE originpandaid = :job
UNION ALL SELECT jeditaskid FROM jedi_units WHERE originpandaid = :job
UNION ALL SELECT jeditaskid FROM jedi_jobs WHERE pandaid = :job
UNION ALL SELECT jeditaskid FROM jedi_jobs_archived WHERE pandaid = :job
LIMIT 1
""")


_ATTEMPT = """
SELECT pandaid, status FROM {jobs} j
WHERE j.jeditaskid = m.jeditaskid AND j.unit_nr = m.unit_nr
  AND j.originpandaid = m.originpandaid"""
_ATTEMPTS = f"""
  {_ATTEMPT.format(jobs="jedi_jobs")}
  UNION ALL {_ATTEMPT.format(jobs="jedi_jobs_archived")}"""


@dataclass(frozen=True, slots=True)
class HerdMember:
    """A member of a herd. `origin_panda_id` is the id that its submitter keeps, `panda_id` and
    `status` are those of its latest attempt; `parameter`: its parameters, and the storage that
    its splitter chose."""

    unit_nr: int | None
    split_id: str | None
    origin_panda_id: int
    job_split_type: str
    parameter: str | None
    panda_id: int | None
    status: str | None
    n_attempts: int | None


MEMBERS = returns(HerdMember)(f"""
-- The members of a herd behind a unit, in their order; before the split the originator.
SELECT m.unit_nr, m.splitid, m.originpandaid,
  m.jobsplittype, p.parameter,
  a.pandaid, a.status, a.n_attempts
FROM (
  SELECT * FROM jedi_herd_members WHERE jeditaskid = :task AND coalesce(unit_nr, 1) > :after
  ORDER BY unit_nr LIMIT :limit) m LEFT JOIN LATERAL (
  SELECT pandaid, status, count(*) OVER () AS n_attempts FROM ({_ATTEMPTS}) a
  ORDER BY pandaid DESC LIMIT 1) a ON true, LATERAL (
  SELECT string_agg(CASE key WHEN 'Parameter' THEN value ELSE
    regexp_replace(key, '^(Parameter\\.|Splitter)', '') || '=' || value END, ' ' ORDER BY key)
    AS parameter
  FROM jsonb_each_text(coalesce(m.options, '{{}}'))
  WHERE key = 'Parameter' OR key ^@ 'Parameter.' OR key ^@ 'Splitter') p
ORDER BY m.unit_nr
""")


# set by set: 100,000 members one by one took 15 s
STATUSES = returns(tuple[str, int])(f"""
-- The numbers of members by the status of their latest attempt.
SELECT coalesce(a.status, 'no job yet'), count(*) FROM jedi_herd_members m LEFT JOIN (
  SELECT DISTINCT ON (unit_nr, originpandaid) unit_nr, originpandaid, status
  FROM {all_jobs("jeditaskid, unit_nr, originpandaid, pandaid, status")} j
  WHERE jeditaskid = :task ORDER BY unit_nr, originpandaid, pandaid DESC) a
  USING (unit_nr, originpandaid)
WHERE m.jeditaskid = :task GROUP BY 1 ORDER BY 1
""")


class SubmittedText(NamedTuple):
    """The text of a task, byte for byte as submitted, and its format."""

    text: str
    format: str


SUBMITTED_TEXT = returns(SubmittedText)("""
-- The text that a task was submitted in.
SELECT source_text AS text, source_format AS format FROM jedi_taskparams WHERE jeditaskid = :task
""")


OWN_OPTIONS = returns(dict[str, Any])("""
-- The own options of a unit of a herd.
SELECT options FROM jedi_units WHERE jeditaskid = :task AND unit_nr = :unit
""")


class InputOfUnit(NamedTuple):
    """An input file of a unit."""

    dataset_name: str
    lfn: str


INPUT_FILES = returns(InputOfUnit)("""
-- The input files of a unit of a herd.
SELECT DISTINCT d.datasetname, c.lfn FROM jedi_datasets d
  JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.jeditaskid = :task AND c.boundaryid = :unit AND c.type = 'input' AND d.masterid IS NULL
ORDER BY 1, 2
""")
