"""All facts of a submission that depend on its text alone, in one statement: a submission consists
of ways there and back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.knobs import Knobs
from jedi.taskbuffer.db.engine import plain, value
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.scheduling.queues import WorkQueue
from jedi.taskbuffer.tasks.family import TaskStatus


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """The role of the submitter, the owner's special permissions (letters of GRIDPREF), the knobs
    in force, all work queues in their order, and the owner's last task of this name."""

    role: str
    gridpref: str
    knobs: Knobs
    queues: list[WorkQueue]
    newest: TaskStatus | None


_FACTS = plain(f"""
SELECT json_build_array(
  (SELECT role FROM jedi_users WHERE username = :who),
  (SELECT gridpref FROM jedi_users WHERE username = :owner),
  (SELECT json_object_agg(component || '.' || key, value ORDER BY component, key)
   FROM jedi_knobs),
  (SELECT json_agg(json_build_array({", ".join(WorkQueue._fields)})
     ORDER BY queue_order NULLS LAST, queue_id) FROM jedi_work_queue),
  (SELECT json_build_array(jeditaskid, status) FROM jedi_tasks
   WHERE username = :owner AND taskname = :name ORDER BY jeditaskid DESC LIMIT 1))
""")


def facts(tx: Connection, who: str, owner: str, task_name: str) -> SubmissionFacts:
    """The facts for a task of this owner and name that `who` submits."""
    role, gridpref, overrides, queues, newest = value(
        tx, _FACTS, {"who": who, "owner": owner, "name": task_name}
    )
    return SubmissionFacts(
        role=role or "user",
        gridpref=gridpref or "",
        knobs=knobs.built(json.dumps(overrides or {})),
        queues=[WorkQueue(*row) for row in queues or ()],
        newest=TaskStatus(*newest) if newest else None,
    )
