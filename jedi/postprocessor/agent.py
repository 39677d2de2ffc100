"""The PostProcessor: it judges a task's scouts, and gives it its final status when nothing is left
to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from jedi.agent import plugins
from jedi.agent.base import TaskAgent
from jedi.core import states
from jedi.core.errors import JediError, NotFound
from jedi.ddm.interface import names_in_parts
from jedi.model.jobs.scouting import Judgement, Scouted
from jedi.model.tasks.rows import TaskDataset
from jedi.postprocessor.outcome import (
    EndingDataset,
    EndingRules,
    Findings,
    PostProcessing,
    TaskVerdict,
    incomplete,
)
from jedi.postprocessor.scouts import shaped
from jedi.taskbuffer.inputs import datasets, recutting, validation
from jedi.taskbuffer.scheduling import statistics
from jedi.taskbuffer.tasks import (
    commands,
    dataset_rows,
    ending,
    family,
    new_tasks,
    preprocessing,
    scouting,
    tasks,
)
from jedi.taskbuffer.tasks.family import ParentTask
from jedi.taskbuffer.tasks.tasks import Move

_VALIDATED = ("prepared", "passed", "toabort")
_PREPARED = TaskVerdict("prepared", "all_processed", "No input is left and no job is running.")
_STILL_OPEN = TaskVerdict(
    "defined", "input_still_open", "All present input is processed, but more may come."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """A task under our lease that nobody has to work on any more; `because` are the code and the
    sentence with which it came to its status. `scouted`: only its scouts are through. `parent`: id
    and status of its parent, if it has one; `busy`: it has jobs, as it ends with its parent."""

    jedi_task_id: int
    lock_seq: int
    status: str
    vo: str
    label: str
    because: tuple[str, str]
    datasets: tuple[EndingDataset, ...]
    scouted: Scouted | None
    wishes: EndingRules
    parent: ParentTask | None = None
    busy: bool = False

    @property
    def containers(self) -> set[str]:
        """The containers of its outputs, except datasets of its own."""
        containers = {d.container for d in self.datasets if d.is_output and d.container}
        return containers - {d.name for d in self.datasets}

    @property
    def orphaned(self) -> bool:
        """Its parent takes it along."""
        ruined = self.parent is not None and self.parent.status in family.RUINED
        return ruined and self.status in family.ABORTABLE


@dataclass(frozen=True, slots=True)
class EndingOutcome:
    """The end of a task and of its datasets: first they are settled, then released."""

    verdict: TaskVerdict
    settled: list[tuple[int, str]]
    released: list[tuple[int, str]]
    gone: Mapping[int, Collection[str]] = field(default_factory=dict)


class PostProcessor(TaskAgent[Ending, EndingOutcome | Judgement]):
    """scouting → scouted → running (or exhausted, tobroken), when all scouts have ended; ready,
    running, throttled → prepared, when all is processed, or → defined, when more may come;
    prepared, passed → done, finished, failed; toabort → aborted; tobroken → broken."""

    name = "PostProcessor"
    wakes = frozenset(
        {"files:done", *(f"task:{s}" for s in (*ending.FINALISABLE, *states.TASK.final))}
    )

    def waiting(self, tx: Connection) -> bool:
        """Return True if there may be a task to end, or scouts to evaluate."""
        early = float(self.world.knobs.scout.early_percent) < 100
        return ending.any_processed(tx) or (early and tasks.ANY_IN.value(tx, statuses=["scouting"]))

    def claim(self, tx: Connection, limit: int) -> list[Ending]:
        knobs = self.world.knobs
        heard = {"scouts": knobs.scout.chunks, "open_wait_s": knobs.scout.open_wait_s}
        rows = ending.claim_final(tx, self.world.me, self.lease_s, limit)
        if len(rows) < limit:
            left = limit - len(rows)
            rows += ending.claim_processed(tx, self.world.me, self.lease_s, left, heard)
        if len(rows) < limit:
            left = limit - len(rows)
            rows += preprocessing.claim_through(tx, self.world.me, self.lease_s, left)
        if len(rows) < limit:
            left = limit - len(rows)
            rows += family.claim_orphans(tx, self.world.me, self.lease_s, left)
        if len(rows) < limit and (percent := float(knobs.scout.early_percent)) < 100:
            left = limit - len(rows)
            rows += scouting.claim_early(tx, self.world.me, self.lease_s, left, percent, heard)
        if not rows:
            return []
        working = [row for row in rows if row.status not in ending.FINALISABLE]
        scouted = scouting.scouted(tx, working)
        if scouted:
            self._types = new_tasks.RESOURCE_TYPES.rows(tx)
        ids = [row.jedi_task_id for row in rows]
        first = [row.jedi_task_id for row in rows if row.status == "preprocessing"]
        self._first_jobs = preprocessing.last_jobs(tx, first)
        because = ending.reasons(tx, ids)
        parents = family.parents(tx, ids)
        busy = {job.jedi_task_id for job in commands.live_jobs(tx, list(parents))}
        found: dict[int, list[EndingDataset]] = defaultdict(list)
        for d in ending.DATASETS.rows(tx, ids=ids):
            found[d.jedi_task_id].append(_dataset(d))
        return [
            Ending(
                row.jedi_task_id,
                row.lock_seq,
                row.status,
                row.vo,
                row.prod_source_label,
                because[row.jedi_task_id],
                tuple(found[row.jedi_task_id]),
                scouted.get(row.jedi_task_id),
                EndingRules.of(row),
                parents.get(row.jedi_task_id),
                row.jedi_task_id in busy,
            )
            for row in rows
        ]

    def prepare(self, items: Sequence[Ending]) -> None:
        """Read the rows of all products: from now on none of their jobs ends."""
        ids = [task.jedi_task_id for task in items if task.status in _VALIDATED]
        with self.world.engine.begin() as tx:
            self._products = validation.products(tx, ids) if ids else {}
            self._twice = validation.duplicates(tx, ids) if ids else {}
            names = {name for task in items for name in task.containers}
            self._filled = (
                set(ending.STILL_FILLED.rows(tx, names=sorted(names))) if names else set()
            )

    def work(self, task: Ending) -> EndingOutcome | Judgement:
        if task.orphaned:
            return EndingOutcome(_with_parent(task), [], [])
        plugin: PostProcessing = plugins.make("postprocessor", task.vo, task.label)
        if task.scouted:
            judgement = plugin.judge(task.scouted, self.world.knobs)
            measured = shaped(task.scouted.declared, judgement.measured, self._types)
            return replace(judgement, measured=measured)
        if job := self._first_jobs.get(task.jedi_task_id):
            return _preprocessed(task, job.status, job.error_diag)
        if task.status not in ending.FINALISABLE and any(d.is_open for d in task.datasets):
            return EndingOutcome(_STILL_OPEN, [], [])
        settled = plugin.settle(task.datasets)
        if task.status not in ending.FINALISABLE:
            return EndingOutcome(_PREPARED, settled, [])
        parent = task.parent and task.parent.status
        findings = self._validate(task)
        verdict = plugin.conclude(
            task.status, task.datasets, task.because, parent, task.wishes, findings
        )
        if verdict.target not in states.TASK.final:  # a person decides first
            return EndingOutcome(verdict, settled, [])
        aborted = verdict.target == "aborted"
        gone: set[str | None] = {None}  # containers come before their datasets, and go with them
        for name in task.containers - self._filled:
            if self._freeze(name, empty_goes=aborted):
                gone.add(name)
        for dataset in task.datasets:
            if dataset.is_output or dataset.type == "trn_log":
                if self._freeze(dataset.name, empty_goes=aborted and dataset.container in gone):
                    gone.add(dataset.name)
            elif dataset.type == "trn_output":  # merged, or not wanted any more
                with suppress(NotFound):
                    self.world.ddm.delete(dataset.name)
        released = incomplete(plugin.release(verdict.target, task.datasets), findings.gone)
        return EndingOutcome(verdict, settled, released, findings.gone)

    def plug_ins(self, item: Ending) -> str:
        return plugins.foreign("postprocessor", item.vo, item.label)

    def apply(
        self, tx: Connection, results: Sequence[tuple[Ending, EndingOutcome | Judgement]]
    ) -> None:
        ours = tasks.fence(tx, [(task.jedi_task_id, task.lock_seq) for task, _ in results])
        mine = [(task, outcome) for task, outcome in results if task.jedi_task_id in ours]
        self._follow_scouts(tx, [(t, out) for t, out in mine if isinstance(out, Judgement)])
        held = [(task, outcome) for task, outcome in mine if isinstance(outcome, EndingOutcome)]
        settled = [move for _, outcome in held for move in outcome.settled]
        released = [move for _, outcome in held for move in outcome.released]
        dataset_rows.move_datasets(tx, settled, self.name, "processed")
        dataset_rows.move_datasets(tx, released, self.name, "frozen")
        gone = {i: lfns for _, outcome in held for i, lfns in outcome.gone.items()}
        validation.lose(tx, gone)
        ended = [task for task, outcome in held if outcome.verdict.target in states.TASK.final]
        closed = [d.name for task in ended for d in task.datasets if d.is_output]
        datasets.wake_consumers(tx, closed)
        family.inherit(tx, [task.jedi_task_id for task in ended], self.name)
        family.wake_children(tx, [task.jedi_task_id for task in ended])
        scouting.release(tx, [task.jedi_task_id for task in ended])  # they are given up
        preprocessing.note_done(
            tx, [task.jedi_task_id for task, out in held if out.verdict.code == "preprocessed"]
        )
        statistics.NOTE_PROGRESS.run(tx, ids=sorted(ours))
        moves = [
            Move(task.jedi_task_id, task.lock_seq, v.target, v.code, v.reason, v.facts)
            for task, v in ((task, outcome.verdict) for task, outcome in held)
        ]
        tasks.move_tasks(tx, moves, self.name)

    def _follow_scouts(self, tx: Connection, found: Sequence[tuple[Ending, Judgement]]) -> None:
        """Keep the figures and let all other jobs follow, unless a person has to be asked or the
        task is broken."""
        if not found:
            return
        kept = ("tobroken", "scouting")
        good = {t.jedi_task_id: j for t, j in found if j.target not in kept}
        anew = {t.jedi_task_id: j.n_events_per_job or 1 for t, j in found if j.target == "scouting"}
        recutting.scout_anew(tx, anew, self.world.knobs.scout.chunks)
        if good:
            measured = {i: (j.measured, int(j.facts["scouts"])) for i, j in good.items()}
            scouting.store_measured(tx, measured)
            scouting.release(tx, list(good), {i: j.n_gb_per_job for i, j in good.items()})
            cuts = {i: j.n_events_per_job for i, j in good.items() if j.n_events_per_job}
            recutting.recut(tx, cuts)
            statistics.NOTE_PROGRESS.run(tx, ids=list(good))
        # a hold may have ended in ready
        late = [(task, judged) for task, judged in found if task.status != "scouting"]
        follow = [(task, judged) for task, judged in found if judged.target == "scouted"]
        for some, target in ((late, "scouting"), (found, None), (follow, "running")):
            moves = [
                Move(
                    task.jedi_task_id,
                    task.lock_seq,
                    target or judged.target,
                    judged.code,
                    judged.reason,
                    judged.facts,
                )
                for task, judged in some
            ]
            tasks.move_tasks(tx, moves, self.name)

    def trouble(self, tx: Connection, task: Ending, error: Exception) -> None:
        code = error.code if isinstance(error, JediError) else "internal_error"
        wait_s = float(self.world.knobs.postprocessor.retry_s)
        move = Move(task.jedi_task_id, task.lock_seq, task.status, code, str(error), wait_s=wait_s)
        tasks.move_tasks(tx, [move], self.name)

    def _validate(self, task: Ending) -> Findings:
        """Compare the task's products with data management. A file that belongs to no job with
        success is removed; its log may stay. Files that no job was to make are not ours."""
        if task.status not in _VALIDATED:
            return Findings()
        removed = 0
        lost: dict[str, dict[int, frozenset[str]]] = {"output": {}, "log": {}}
        for dataset in task.datasets:
            if not (known := self._products.get(dataset.name)):
                continue
            gone, bad = set(known.made), set[str]()
            with suppress(NotFound):
                for some in names_in_parts(self.world.ddm, dataset.name):
                    gone -= some
                    bad |= some & known.bad
            if dataset.type == "output":
                if bad:
                    self.world.ddm.remove_files(dataset.name, bad)
                removed += len(bad)
            if gone and dataset.type in lost:
                lost[dataset.type][dataset.dataset_id] = frozenset(gone)
        twice = self._twice.get(task.jedi_task_id, 0)
        findings = Findings(twice, lost["output"], removed, lost["log"])
        if removed or findings.gone:
            self.log.warning("validated", task=task.jedi_task_id, **findings.facts)
        return findings

    def _freeze(self, name: str, *, empty_goes: bool) -> bool:
        """Close a dataset in data management, if it came to be there; or delete an empty one.
        Whether it is deleted."""
        ddm = self.world.ddm
        with suppress(NotFound):
            if empty_goes and not any(replica.n_files for replica in ddm.replicas(name)):
                ddm.delete(name)
                return True
            ddm.close(name)
        return False


def _preprocessed(task: Ending, status: str, error: str) -> EndingOutcome:
    """The effects of the end of a task's pre-processing job."""
    good = status == "finished"
    settled = [
        (d.dataset_id, "done" if good else "failed") for d in task.datasets if d.type == "pp_input"
    ]
    if good:
        reason = "The pre-processing job defined the work."
        return EndingOutcome(TaskVerdict("registered", "preprocessed", reason), settled, [])
    reason = f"The pre-processing job failed: {error}"
    return EndingOutcome(TaskVerdict("prepared", "preprocessing_failed", reason), settled, [])


def _with_parent(task: Ending) -> TaskVerdict:
    """A child ends with its parent; its jobs are ended first."""
    assert task.parent is not None
    reason = f"Its parent, task {task.parent.jedi_task_id}, is {task.parent.status}."
    return TaskVerdict("aborting" if task.busy else "toabort", "parent_failed", reason)


def _dataset(d: TaskDataset) -> EndingDataset:
    return EndingDataset(
        d.dataset_id,
        d.dataset_name,
        d.type,
        d.master_id,
        d.status,
        d.n_files_to_be_used,
        d.n_files_finished,
        d.n_files_failed,
        d.n_files_missing,
        d.n_events,
        d.n_events_used,
        d.container_name,
        d.n_files - d.n_files_to_be_used,
    )
