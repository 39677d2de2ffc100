"""TaskRefiner: registered, staged, rerefine -> defined (or staging); a submission becomes a task
that can be worked on, or one that goes on with other parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from jedi.agent import plugins
from jedi.agent.base import TaskAgent
from jedi.agent.plugins import PluginFailed
from jedi.contentsfeeder.select import Selection
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs.knob import numbers
from jedi.model.splitting.split_rules import PREPROCESSED, TO_PREPROCESS, SplitRules
from jedi.model.tasks.incremental import revise
from jedi.model.tasks.params import InputItem, TaskParams
from jedi.model.tasks.preprocessing import fill, unreported
from jedi.model.tasks.refined import RefinedTask
from jedi.model.tasks.text import validate
from jedi.taskbuffer.inputs import instances, staging
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.tasks import commands, family, incremental, new_tasks, preprocessing, tasks
from jedi.taskbuffer.tasks.commands import TaskCommand
from jedi.taskbuffer.tasks.family import ParentTask
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskrefiner.refine import (
    Malformed,
    NotUnique,
    OnTape,
    Refined,
    RefinerOutcome,
    RepeatPreprocessing,
    Submission,
    TryLater,
    names_of,
)


@dataclass(frozen=True, slots=True)
class Registered:
    """A claimed task. `rules` of a task that was refined before; only the `changed` parameters
    count now; `parent`: id and status of its parent, if it has one; `earlier`: the owner's last
    task of the same name, of a task that wants to be the only one. The `document` has the values
    that a pre-processing job reported."""

    jedi_task_id: int
    lock_seq: int
    status: str
    user_name: str
    vo: str
    label: str
    document: Mapping[str, Any]
    rules: SplitRules | None
    changed: Collection[str]
    parent: ParentTask | None
    earlier: int | None

    @property
    def stage(self) -> int | None:
        """The stage of pre-processing."""
        return None if self.rules is None else self.rules.use_pre_pro

    @property
    def follows(self) -> bool:
        """Its parent had not ended when it was claimed."""
        return self.parent is not None and self.parent.status not in family.COMPLETE

    @property
    def is_new(self) -> bool:
        """Nothing but its pre-processing job is known of it."""
        return self.rules is None or self.stage == PREPROCESSED


class TaskRefiner(TaskAgent[Registered, RefinerOutcome]):
    """Looks input names up in data management; the plug-in does the rest."""

    name = "TaskRefiner"
    serves = ("registered", "staged", "rerefine")
    wakes = frozenset(f"task:{status}" for status in serves)

    def claim(self, tx: Connection, limit: int) -> list[Registered]:
        """Tasks to refine with their parameters."""
        rows = tasks.claim(tx, self.serves, self.world.me, self.lease_s, limit)
        if not rows:
            return []
        ids = [row.jedi_task_id for row in rows]
        params = dict(new_tasks.PARAMS_OF.rows(tx, ids=ids))
        accepted = commands.last_accepted(tx, ids, "incexec")
        parents = family.parents(tx, ids)
        alone = [i for i in ids if params[i].get("uniqueTaskName")]
        namesakes = dict(family.NAMESAKES.rows(tx, ids=alone)) if alone else {}
        first = [r.jedi_task_id for r in rows if (r.rules or {}).get("use_pre_pro") == PREPROCESSED]
        for task_id, job in preprocessing.last_jobs(tx, first).items():
            params[task_id] = fill(params[task_id], job.metadata)
        self._types = new_tasks.RESOURCE_TYPES.rows(tx)
        return [
            Registered(
                jedi_task_id=row.jedi_task_id,
                lock_seq=row.lock_seq,
                status=row.status,
                user_name=row.user_name,
                vo=row.vo,
                label=row.prod_source_label,
                document=params[row.jedi_task_id],
                rules=None if row.rules is None else SplitRules.model_validate(row.rules),
                changed=_changed(accepted.get(row.jedi_task_id)),
                parent=parents.get(row.jedi_task_id),
                earlier=namesakes.get(row.jedi_task_id),
            )
            for row in rows
        ]

    def work(self, item: Registered) -> RefinerOutcome:
        """Refine one task."""
        if item.earlier and item.rules is None:
            return NotUnique(item.earlier)
        if item.stage == TO_PREPROCESS:
            return RepeatPreprocessing()
        if item.stage == PREPROCESSED and (problems := unreported(item.document)):
            return Malformed(tuple(problems))
        try:
            params = validate(item.document)
            if wait := self._parent(item, params):
                return wait
            early = item.rules is None and params.prepro_spec is not None
            constituents = {} if early else self._constituents(params)
        except BadInput as error:
            return Malformed(error.problems)
        if isinstance(constituents, TryLater):
            return constituents
        staged = early or item.status != "registered" or not params.pre_stages
        if not staged and (on_tape := self._on_tape(params, constituents)):
            return on_tape
        refiner = plugins.make("refiner", item.vo, item.label)
        submission = Submission(
            jedi_task_id=item.jedi_task_id,
            user_name=item.user_name,
            params=params,
            constituents=constituents,
            resource_types=self._types,
            base_ram=numbers(self.world.knobs.taskrefiner.base_ram),
        )
        refine = refiner.preprocessing if early else refiner.refine
        outcome: RefinerOutcome = refine(submission)
        return outcome

    def plug_ins(self, item: Registered) -> str:
        return plugins.foreign("refiner", item.vo, item.label)

    def apply(self, tx: Connection, results: Sequence[tuple[Registered, RefinerOutcome]]) -> None:
        """Write the definitions of the whole batch."""
        held = tasks.fence(tx, [(task.jedi_task_id, task.lock_seq) for task, _ in results])
        ours = [(task, outcome) for task, outcome in results if task.jedi_task_id in held]
        refined = [(task, out.task) for task, out in ours if isinstance(out, Refined)]
        new = [(task.jedi_task_id, made) for task, made in refined if task.is_new]
        queued, homeless = _queued(tx, new) if new else ([], {})
        if queued:
            new_tasks.define_tasks(tx, queued, self.name)
        if revised := [
            (task.jedi_task_id, revise(made, task.rules, task.changed))
            for task, made in refined
            if task.rules is not None and not task.is_new
        ]:
            incremental.revise_tasks(tx, revised, self.name)
        new_tasks.put_params(
            tx, {t.jedi_task_id: t.document for t, _ in refined if t.stage == PREPROCESSED}
        )
        if early := [
            t.jedi_task_id for t, out in ours if _comes_first(homeless.get(t.jedi_task_id, out))
        ]:
            tries = int(self.world.knobs.attempts.max_attempt)
            preprocessing.prepare(tx, early, tries, self.name)
        waiting = [t.jedi_task_id for t, out in ours if isinstance(out, TryLater) and t.follows]
        parents = family.parents(tx, waiting) if waiting else {}
        ended = {child for child, row in parents.items() if row.status in family.COMPLETE}
        moves = [
            _move(task, homeless.get(task.jedi_task_id, out), called=task.jedi_task_id in ended)
            for task, out in ours
        ]
        tasks.move_tasks(tx, moves, self.name)

    def trouble(self, tx: Connection, item: Registered, error: Exception) -> None:
        """Data management or the database had a problem: the task is held."""
        reason = f"The task could not be refined: {error}"
        target = item.status if item.status == "staged" else "pending"
        code = error.code if isinstance(error, PluginFailed) else "refining_failed"
        move = Move(item.jedi_task_id, item.lock_seq, target, code, reason[:4000])
        tasks.move_tasks(tx, [move], self.name)

    def _parent(self, item: Registered, params: TaskParams) -> TryLater | None:
        """The wait for a parent that has to end first. A child of a parent that failed stays here:
        PostProcessor ends it, too."""
        if item.parent is None or item.parent.status in family.COMPLETE:
            return None
        if params.no_wait_parent and item.parent.status not in family.RUINED:
            return None
        reason = f"Its parent, task {item.parent.jedi_task_id}, is {item.parent.status}."
        wait_s = float(self.world.knobs.contentsfeeder.recheck_s)
        return TryLater("parent_not_ready", reason, wait_s)

    def _on_tape(
        self, params: TaskParams, constituents: Mapping[str, Sequence[str]]
    ) -> OnTape | None:
        """The files to wait for if all of the main input is on tape; a task with some on disk
        begins with these."""
        first: OnTape | None = None
        ddm = self.world.ddm
        for item in params.items(InputItem)[:1]:
            document = item.model_dump(by_alias=True)
            parts = [(given, name) for given in item.datasets for name in constituents[given]]
            for given, name in parts:
                selection = Selection.of(document, item.split, 0, (given, name))
                try:
                    on_tape = set(ddm.on_tape(name))
                    lfns = [file.lfn for file in selection.pick(ddm.list_files(name))]
                except NotFound:
                    continue
                if not on_tape.issuperset(lfns):
                    return None
                if lfns and first is None:
                    first = OnTape(name, tuple(lfns[: params.n_files_per_job or 1]))
        return first

    def _constituents(self, params: TaskParams) -> dict[str, list[str]] | TryLater:
        """The plain datasets behind each input name; one that is still to be made is itself."""
        members: dict[str, list[str]] = {}
        unknown: list[str] = []
        ddm = self.world.ddm
        read = {name for item in params.items(InputItem) for name in item.datasets}
        for name in names_of(params):
            try:
                info = ddm.dataset(name)
            except NotFound:
                members[name] = [name]  # the feeder knows what to do about it
                unknown.append(name)
                continue
            if info.is_container and info.state == "open" and name in read:
                return self._open(str(info))
            members[name] = ddm.constituents(name) if info.is_container else [name]
            if params.allow_empty_input and not members[name]:
                members[name] = [name]
        if unknown:
            with self.world.engine.begin() as tx:
                for name in sorted(instances.to_come(tx, unknown)):
                    return self._open(f"Container {name} (to be made by another task)")
        return members

    def _open(self, container: str) -> TryLater:
        reason = f"{container} may get more datasets. It is read when it is closed."
        wait_s = float(self.world.knobs.contentsfeeder.recheck_s)
        return TryLater("input_open", reason, wait_s)


def _queued(
    tx: Connection, new: Sequence[tuple[int, RefinedTask]]
) -> tuple[list[tuple[int, RefinedTask]], dict[int, RefinerOutcome]]:
    """New tasks in their work queues; tasks that no queue takes, with the reason."""
    rows = [new_tasks.columns(task_id, task) for task_id, task in new]
    queued: list[tuple[int, RefinedTask]] = []
    homeless: dict[int, RefinerOutcome] = {}
    matches = queues.match(tx, rows, [task.queue_name for _, task in new])
    for (task_id, task), match in zip(new, matches, strict=True):
        name, queue = task.queue_name, match.queue
        if queue is None and name:
            rule = f"no active work queue of its vo has this name ({', '.join(match.asked)})"
            problem = Problem("workQueueName", name, rule, "Leave it out")
            homeless[task_id] = Malformed((problem,))
        elif queue is None:
            asked = ", ".join(match.asked) or "there is none for its vo and label"
            rule = f"no active work queue takes the task ({asked})"
            problem = Problem("prodSourceLabel", match.label, rule, "Ask an operator for one")
            homeless[task_id] = Malformed((problem,))
        else:
            placed = task.queued(queue.queue_id, queue.queue_name, match.processing_type)
            queued.append((task_id, placed))
    return queued, homeless


def _comes_first(outcome: RefinerOutcome) -> bool:
    """Return True if the pre-processing job is to be made."""
    if isinstance(outcome, Refined):
        return outcome.task.rules.use_pre_pro == TO_PREPROCESS
    return isinstance(outcome, RepeatPreprocessing)


def _changed(command: TaskCommand | None) -> Collection[str]:
    """The parameters that an incexec changes."""
    return command.arguments.get("parameters", ()) if command else ()


def _move(task: Registered, outcome: RefinerOutcome, *, called: bool) -> Move:
    """The next move of a task; `called`: the thing it waits for has come meanwhile."""
    fence = task.jedi_task_id, task.lock_seq
    if _comes_first(outcome):
        reason = "A pre-processing job runs first and defines the work."
        return Move(*fence, "topreprocess", "needs_preprocessing", reason)
    match outcome:
        case Refined():
            target, code, reason, wait_s = "defined", "refined", "The task is defined.", 0.0
        case Malformed(problems):
            reason = "\n".join(map(str, problems))
            target, code, wait_s = "tobroken", "malformed", 0.0
        case OnTape(dataset, files):
            facts = {"dataset": dataset, "files": [*files]}
            reason = staging.first_on_tape(dataset, files)
            return Move(*fence, "staging", "input_on_tape", reason, facts)
        case NotUnique(earlier):
            reason = (
                f"Task {earlier} has this name already, and the task wanted to be the only one."
            )
            target, code, wait_s = "toabort", "unique_name_taken", 0.0
        case TryLater(code, reason, wait_s):
            target, wait_s = task.status, 0.0 if called else wait_s
    return Move(*fence, target, code, reason, wait_s=wait_s)
