"""Killing and resubmitting units: each is answered by itself, and all in a few statements.

Source: docs/reference/ganga.md#kill-and-resubmit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.errors import BadInput, Problem, Refused
from jedi.core.suggest import suggest
from jedi.model.jobs.needs import JobNeeds
from jedi.model.scheduling.resource_types import resource_type
from jedi.service.jobs.job_details import CANCELLED
from jedi.service.operations.arguments import Comment, TaskId, UnitNrs
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.tasks.commanding import must_be_alone, must_be_runnable
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import recovery
from jedi.taskbuffer.jobs import jobs, merging
from jedi.taskbuffer.reports import unit_states
from jedi.taskbuffer.reports.unit_states import StatesQuestion, UnitSummary
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.tasks import commands, new_tasks, reassigning, unit_verbs
from jedi.taskbuffer.tasks import tasks as task_rows
from jedi.taskbuffer.tasks import units as unit_rows
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.tasks.unit_verbs import MergedUnits

AGENT = "TaskCommando"
LIVE = ("submitted", "running", "completing")
OVER = ("completed", "failed", "killed")
_GOING = (
    *("ready", "scouting", "running", "pending", "throttled", "paused"),
    *("assigning", "defined", "toretry"),
)
"""Statuses of tasks that make jobs of ready files, sooner or later."""
NO_NEEDS = JobNeeds()
SHOWN = 20
"""Number of units that a refusal names."""
_ENDED = ("exhausted", "done", "finished", "failed", "aborted")


@dataclass(frozen=True, slots=True)
class AnsweredUnit:
    """The answer for one unit of many: accepted, or refused with the code and the sentence of the
    error."""

    unit_nr: int
    accepted: bool
    sentence: str
    error: str | None = None


@operation("unit.kill", "POST", "/v1/units/kill", OWNER, dry_run=True, heavy=True)
def kill(
    call: Call, jedi_task_id: TaskId, unit_nrs: UnitNrs = None, comment: Comment = None
) -> list[AnsweredUnit]:
    """Kill units of a task, or all that are live; they are not retried automatically.

    NotFound, Forbidden.
    """
    tx = call.tx
    task_rows.seize(tx, [jedi_task_id])
    asked = (
        unit_verbs.NUMBERS.rows(tx, task=jedi_task_id)
        if unit_nrs is None
        else [*dict.fromkeys(unit_nrs)]
    )
    now = locked(tx, jedi_task_id, asked)
    merged = dict(
        merging.MERGE_JOBS.rows(tx, ids=[one.panda_id for one in now.values() if one.panda_id])
    )
    answers = {n: _of_kill(n, now.get(n), merged) for n in asked}
    chosen = [n for n, one in answers.items() if one.accepted]
    if chosen:
        unit_verbs.KILL.run(tx, task=jedi_task_id, units=chosen)
        unit_verbs.give_up_killed(tx, [jedi_task_id])
        _end_jobs(tx, [now[n] for n in chosen], call.who, comment)
    return [one for n, one in answers.items() if unit_nrs is not None or one.accepted]


def locked(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> dict[int, UnitSummary]:
    """The units of a seized task as they stay to the transaction's end. Jobs are locked before
    datasets."""
    job_ends.lock(tx, unit_verbs.live_jobs(tx, jedi_task_id, units))
    unit_verbs.LOCK_DATASETS.run(tx, task=jedi_task_id)
    found = unit_states.states_of(tx, [StatesQuestion(jedi_task_id)], units)
    return {unit.unit_nr: unit for one in found for unit in one.units}


def _of_kill(number: int, unit: UnitSummary | None, merged: Mapping[int, int]) -> AnsweredUnit:
    if unit and (merger := merged.get(unit.panda_id or 0)):
        why = f"Merge job {merger} reads the outputs of unit {number}: cancel that job instead."
        return AnsweredUnit(number, False, why, "being_merged")
    return _answer(number, unit, "kill", LIVE)


def _answer(
    number: int, unit: UnitSummary | None, verb: str, allowed: Sequence[str]
) -> AnsweredUnit:
    if unit is None:
        return AnsweredUnit(number, False, f"There is no unit {number}.", "no_unit")
    if unit.state not in allowed:
        why = f"Unit {number} is {unit.state}: {verb} accepts only units that are "
        return AnsweredUnit(number, False, f"{why}{', '.join(allowed)}.", "wrong_status")
    return AnsweredUnit(number, True, f"{verb} is done.")


def _end_jobs(tx: Connection, units: Sequence[UnitSummary], who: str, comment: str | None) -> None:
    """End the live jobs of killed units."""
    at_site = [one.panda_id for one in units if one.panda_id and _is_at_site(one)]
    jobs.ASK_TO_KILL.run(tx, code=CANCELLED, ids=at_site)
    why = f"Its unit was killed by {who}{f': {comment}' if comment else ''}."
    ends = [
        JobEnd(one.panda_id, "cancelled", CANCELLED, why, error_source="user")
        for one in units
        if one.panda_id and one.job_status in states.JOB_LIVE and not _is_at_site(one)
    ]
    job_ends.end_jobs(tx, ends, AGENT)


def _is_at_site(unit: UnitSummary) -> bool:
    return unit.job_status in states.JOB_AT_SITE


@operation("unit.resubmit", "POST", "/v1/units/resubmit", OWNER, dry_run=True, heavy=True)
def resubmit(
    call: Call,
    *,
    jedi_task_id: TaskId,
    unit_nrs: UnitNrs = None,
    needs: JobNeeds,
    comment: Comment = None,
) -> list[AnsweredUnit]:
    """Submit completed, failed or killed units of a task again, in place; by default those that
    failed or were killed. A task that has ended goes on with these units alone. `site`, `cores`,
    `memory_mb` and `walltime_s`: for the new jobs of the task; `max_attempts`: for the units.

    NotFound, Forbidden, BadInput; Refused: not in the status of the task, or it can't run.
    """
    tx = call.tx
    _must_be_site(tx, needs.site)
    status = reopen(tx, jedi_task_id)
    asked = (
        unit_verbs.NUMBERS.rows(tx, task=jedi_task_id)
        if unit_nrs is None
        else [*dict.fromkeys(unit_nrs)]
    )
    now = locked(tx, jedi_task_id, asked)
    refused = {one.unit_nr for one in unit_rows.REFUSED.rows(tx, ids=[jedi_task_id])}
    answers = {n: of_resubmit(n, now.get(n), refused) for n in asked}
    if unit_nrs is None:
        chosen = [n for n, one in answers.items() if one.accepted]
        chosen = [n for n in chosen if now[n].state != "completed"] or chosen
        answers = {n: answers[n] for n in chosen}
    merged = unit_verbs.MERGED.rows(tx, task=jedi_task_id)
    answers |= apart_from({n for n, one in answers.items() if one.accepted}, merged)
    chosen = [n for n, one in answers.items() if one.accepted]
    if chosen:
        _change_needs(tx, jedi_task_id, chosen, needs)
        adds = needs.max_attempts or new_attempts(tx, jedi_task_id)
        undo(tx, jedi_task_id, [now[n] for n in chosen], merged, adds)
        go_on(tx, call.who, jedi_task_id, status, chosen, comment, adds)
    return [*answers.values()]


def reopen(tx: Connection, jedi_task_id: int) -> str:
    """Seize a task whose units are to be tried again; its status. Refused."""
    status = task_rows.seize(tx, [jedi_task_id])[jedi_task_id]
    if status not in (*_GOING, *_ENDED):
        remedy = (
            "Submit a copy of the job" if status in ("tobroken", "broken") else "Try again soon"
        )
        raise Refused(
            f"Task {jedi_task_id} is {status}: its units can't be tried again now. {remedy}.",
            code="wrong_status",
            jedi_task_id=jedi_task_id,
            status=status,
        )
    must_be_alone(tx, jedi_task_id)
    must_be_runnable(tx, jedi_task_id, {})
    return status


def new_attempts(tx: Connection, jedi_task_id: int) -> int:
    """The attempts that units get when they are tried again: those of the task, else of a knob."""
    given = unit_verbs.MAX_ATTEMPTS.row(tx, task=jedi_task_id)
    return given or int(knobs.load(tx).attempts.retry_adds)


def _must_be_site(tx: Connection, site: str | None) -> None:
    known = [row["site"] for row in sites.ALL_SITES.rows(tx)] if site else []
    if site and site not in known:
        remedy = suggest(site, known, "Look at the output of: jedi site list")
        raise BadInput([Problem("site", site, "no such site", remedy)])


def _change_needs(tx: Connection, jedi_task_id: int, units: Sequence[int], new: JobNeeds) -> None:
    if new.site:
        reassigning.set_destination(tx, [(jedi_task_id, new.site, None)])
    if replace(new, site=None) == NO_NEEDS:
        return
    old = unit_verbs.needs(tx, jedi_task_id)
    cores = old.core_count if new.cores is None else new.cores
    memory = (old.ram_count, old.ram_unit or "MB", old.base_ram_count)
    if new.memory_mb is not None:
        memory = (new.memory_mb, "MB", 0)
    shape = resource_type(new_tasks.RESOURCE_TYPES.rows(tx), cores or 0, *memory)
    unit_verbs.change_needs(tx, jedi_task_id, units, new, shape)


def of_resubmit(
    number: int, unit: UnitSummary | None, refused: set[int], verb: str = "resubmit"
) -> AnsweredUnit:
    """The answer for a unit that is to be tried again. `refused`: units that the submission
    refused."""
    if unit and unit.superseded:
        why = f"Unit {number} is superseded: its input was cut again, for other units."
        return AnsweredUnit(number, False, why, "superseded")
    if unit and number in refused:
        why = f"Unit {number} was refused at the submission: {unit.reason} Submit a copy of it."
        return AnsweredUnit(number, False, why, "unit_refused")
    return _answer(number, unit, verb, OVER)


def apart_from(chosen: set[int], merged: Sequence[MergedUnits]) -> dict[int, AnsweredUnit]:
    """Refusals of units whose outputs are merged with those of units that stay: a unit that ran
    again would be in two merged files."""
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for one in merged:
        for number in one.units:
            beside[number].update(one.units)
    left = set(chosen)
    while apart := {number for number in left if beside[number] - left - {number}}:
        left -= apart
    return {
        number: _is_merged(number, sorted(beside[number] - {number})) for number in chosen - left
    }


def _is_merged(number: int, others: Sequence[int]) -> AnsweredUnit:
    named = ", ".join(map(str, others[:SHOWN]))
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    why = (
        f"The output of unit {number} is merged with those of units {named}{more}: "
        "resubmit all of them together."
    )
    return AnsweredUnit(number, False, why, "merged")


def undo(
    tx: Connection,
    jedi_task_id: int,
    units: Sequence[UnitSummary],
    merged: Sequence[MergedUnits],
    adds: int,
) -> None:
    """Give up the results of completed units, and of the merge jobs that have them."""
    again = {one.unit_nr for one in units if one.state == "completed"}
    mergers = [one.panda_id for one in merged if again.intersection(one.units)]
    done = [*unit_verbs.FINISHED_JOBS.rows(tx, task=jedi_task_id, units=sorted(again)), *mergers]
    recovery.undo(tx, [jedi_task_id], done, adds)


def go_on(
    tx: Connection,
    who: str,
    jedi_task_id: int,
    status: str,
    numbers: Sequence[int],
    comment: str | None,
    adds: int,
) -> None:
    """Let the task go on with these units, `adds` attempts each."""
    if status in _ENDED:
        unit_verbs.leave_others(tx, jedi_task_id, numbers, killed=status == "aborted")
    unit_verbs.revive(tx, jedi_task_id, numbers, adds)
    if status in _GOING:
        return
    arguments = {unit_verbs.UNITS: len(numbers), "transcend": True}
    command = commands.append(tx, jedi_task_id, "retry", who, arguments, comment)
    commands.acknowledge(tx, [(command, "accepted", "Accepted.")])
    reason = f"{len(numbers)} units are resubmitted by {who}{f': {comment}' if comment else '.'}"
    move = Move(jedi_task_id, None, "toretry", "units_resubmitted", reason, user_name=who)
    task_rows.move_tasks(tx, [move], AGENT)
