"""Facts about the system and the submitter that the checks of every submission need, in one
statement: most of the time of a submission is ways to the database and back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.knobs import Knobs
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.statement import answers
from jedi.taskbuffer.scheduling.queues import WorkQueue


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """The role of the submitter, the owner's special permissions (letters of GRIDPREF), the knobs
    in force, and all work queues in their order."""

    role: str
    gridpref: str
    knobs: Knobs
    queues: list[WorkQueue]


_FACTS = answers()(f"""
SELECT json_build_array(
  (SELECT role FROM jedi_users WHERE username = :who),
  (SELECT gridpref FROM jedi_users WHERE username = :owner),
  (SELECT json_object_agg(component || '.' || key, value ORDER BY component, key)
   FROM jedi_knobs),
  (SELECT json_agg(json_build_array({", ".join(WorkQueue._fields)})
     ORDER BY queue_order NULLS LAST, queue_id) FROM jedi_work_queue))
""")


def facts(tx: Connection, who: str, owner: str) -> SubmissionFacts:
    """The facts for a task of this owner that `who` submits. Unlisted people are users."""
    role, gridpref, overrides, queues = _FACTS.value(tx, who=who, owner=owner)
    return SubmissionFacts(
        role=role or "user",
        gridpref=gridpref or "",
        knobs=knobs.built(json.dumps(overrides or {})),
        queues=[WorkQueue(*row) for row in queues or ()],
    )
