"""ContentsFeeder: defined -> ready or assigning; files of input datasets become rows.

Open datasets of tasks at work are looked up again and again; that leaves the task where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from jedi.agent.base import TaskAgent
from jedi.contentsfeeder.feed import (
    Feed,
    FeedOutcome,
    FeedTask,
    InputDataset,
    Listing,
    Unusable,
    Wait,
    growing,
    new_files,
)
from jedi.contentsfeeder.judge import judge
from jedi.contentsfeeder.left_out import left_out
from jedi.contentsfeeder.lookup import look_up
from jedi.contentsfeeder.order import feed_task, lost_of
from jedi.contentsfeeder.rows import Rows, new_rows, render
from jedi.core.errors import BadInput
from jedi.taskbuffer.db import engine
from jedi.taskbuffer.inputs import contents, datasets, recovery
from jedi.taskbuffer.inputs.staging import REST_ON_TAPE
from jedi.taskbuffer.tasks import (
    dataset_rows,
    family,
    herds,
    new_tasks,
    scouting,
    tasks,
    unit_verbs,
    units,
)
from jedi.taskbuffer.tasks.tasks import Move


class ContentsFeeder(TaskAgent[FeedTask, FeedOutcome]):
    """Looks input datasets up, without a transaction, and writes their new files."""

    name = "ContentsFeeder"
    wakes = frozenset({"task:defined", "files:more"})

    def waiting(self, tx: Connection) -> bool:
        """Return True if there is a task to feed, or open input that is to be looked up again."""
        return datasets.any_to_feed(tx, float(self.world.knobs.contentsfeeder.recheck_s))

    def claim(self, tx: Connection, limit: int) -> list[FeedTask]:
        """Defined tasks, and others with open input, with the datasets to be looked up."""
        recheck_s = float(self.world.knobs.contentsfeeder.recheck_s)
        rows = datasets.claim_to_feed(tx, self.world.me, self.lease_s, limit, recheck_s)
        if not rows:
            return []
        ids = [row.jedi_task_id for row in rows]
        params = dict(new_tasks.PARAMS_OF.rows(tx, ids=ids))
        recovery.rename(tx, ids)
        inputs = datasets.inputs(tx, ids)
        names = {one.dataset_name for one in inputs if one.due and one.type == "input"}
        made = datasets.producers(tx, names)
        datasets.note_look(tx, [one.dataset_id for one in inputs if one.due])
        live = [(one.dataset_name, one.jedi_task_id) for one in made if one.live]
        only = recovery.made_of(tx, {i: lost for i in ids if (lost := lost_of(params[i]))})
        default = int(self.world.knobs.attempts.max_attempt)
        n_units = herds.counts(tx, ids)
        refused = units.REFUSED.rows(tx, ids=[*n_units]) if n_units else []
        return [
            replace(
                feed_task(
                    row,
                    params[row.jedi_task_id],
                    inputs,
                    live,
                    default,
                    only.get(row.jedi_task_id),
                ),
                units=n_units.get(row.jedi_task_id),
                refused=frozenset(u.unit_nr for u in refused if u.jedi_task_id == row.jedi_task_id),
            )
            for row in rows
        ]

    def work(self, item: FeedTask) -> FeedOutcome:
        """List the datasets of a task."""
        try:
            listings = [self._list(dataset, item) for dataset in item.datasets]
        except BadInput as error:
            return Unusable("input_malformed", error.sentence)
        return judge(item, listings, int(self.world.knobs.contentsfeeder.max_records))

    def apply(self, tx: Connection, results: Sequence[tuple[FeedTask, FeedOutcome]]) -> None:
        """Write new files, mark gone ones, count, and move on."""
        held = tasks.fence(tx, [(task.jedi_task_id, task.lock_seq) for task, _ in results])
        ours = _ours(tx, [(task, out) for task, out in results if task.jedi_task_id in held])
        feeds = [(task, outcome) for task, outcome in ours if isinstance(outcome, Feed)]
        growing = self._write(tx, feeds)
        scouted = {task.jedi_task_id: task.rules for task, _ in feeds if task.may_scout}
        unit_verbs.give_up_killed(tx, [task.jedi_task_id for task, _ in feeds if task.units])
        open_too = {task.jedi_task_id for task, feed in feeds if not feed.is_complete}
        scouting.withhold(tx, scouted, int(self.world.knobs.scout.chunks), open_too)
        broken = [
            d.dataset_id for _, out in ours if isinstance(out, Unusable) for d in out.datasets
        ]
        dataset_rows.move_datasets(tx, [(i, "broken") for i in broken], self.name, "unusable")
        out = [one.left_out for _, one in ours if isinstance(one, Unusable)]
        contents.leave_out(tx, {i: found for some in out for i, found in some.items()})
        idle = growing - set(datasets.WITH_READY_FILES.rows(tx, ids=list(growing)))
        staging = {
            task.jedi_task_id
            for task, feed in feeds
            if task.jedi_task_id in idle and feed.is_complete
        }
        made = _made(tx, [task for task, out in ours if isinstance(out, Wait)])
        recheck_s = float(self.world.knobs.contentsfeeder.recheck_s)
        moves = [
            _move(task, out, 0.0 if task.jedi_task_id in made else recheck_s, idle, staging)
            for task, out in ours
        ]
        tasks.move_tasks(tx, moves, self.name)
        if any(task.status != "defined" for task, _ in ours):
            engine.wake(tx, "files:ready", "files:done")

    def trouble(self, tx: Connection, item: FeedTask, error: Exception) -> None:
        """Data management or the database had a problem: the task is held; one at work goes on
        with the input it has."""
        reason = f"The input could not be looked up: {error}"[:4000]
        target = "pending" if item.status == "defined" else item.status
        move = Move(item.jedi_task_id, item.lock_seq, target, "feeding_failed", reason)
        away = [(d.dataset_id, "pending") for d in item.datasets if item.status == "defined"]
        if tasks.move_tasks(tx, [move], self.name):
            dataset_rows.move_datasets(tx, away, self.name, "unavailable")

    def _list(self, dataset: InputDataset, task: FeedTask) -> Listing:
        ddm, may_not = self.world.ddm, dataset.selection.attributes.no_staging
        staged = task.rules.input_pre_staging and not may_not
        size = task.part_of(dataset, int(self.world.knobs.contentsfeeder.part_files))
        part = partial(ddm.list_part, limit=size) if size else None
        return look_up(ddm, dataset, ddm.on_tape if staged else None, part)

    def _write(self, tx: Connection, feeds: Sequence[tuple[FeedTask, Feed]]) -> set[int]:
        """Bring all rows up to date, in as many statements for many datasets as for one; the tasks
        with masters that may still grow."""
        listings = [one for _, feed in feeds for one in feed.listings]
        datasets.LOCK.run(tx, ids=[one.dataset.dataset_id for one in listings])
        filled = [
            one.dataset.dataset_id
            for one in listings
            if (one.dataset.type == "input" or one.dataset.pseudo_files)
            and one.dataset.n_files
            and not one.is_part
        ]
        known = contents.known(tx, filled) if filled else {}
        again = recovery.replaced(tx, [task.jedi_task_id for task, _ in feeds]) if filled else {}
        used = {i: _used(rows, again.get(i, ())) for i, rows in known.items()}
        chunks = int(self.world.knobs.contentsfeeder.chunks)
        barred = _barred(tx, feeds)
        known_too = {i: {*used.get(i, ()), *barred.get(i, ())} for i in {*used, *barred}}
        fed = list(_fed(feeds, known_too, chunks))
        contents.feed(tx, (block for one in fed for block in render(one.rows, one.status)))
        contents.leave_out(tx, _left_out(fed, used, barred))
        contents.note_fed(tx, [one.counted for one in fed])
        _mark(tx, listings, known)
        taped = {one.dataset.dataset_id: one.on_tape for one in listings if one.on_tape is not None}
        staging = contents.stage(tx, taped)
        fed = [replace(one, grows=one.grows or one.dataset_id in staging) for one in fed]
        free = [one for one in fed if one.withheld and not one.rows.task.to_split]
        contents.release(tx, {one.dataset_id: one.bunch for one in free})
        for status, code in (("running", "fed_open"), ("ready", "fed")):
            ids = [one.dataset_id for one in fed if one.grows == (status == "running")]
            dataset_rows.move_datasets(tx, [(i, status) for i in ids], self.name, code)
        return {
            one.rows.task.jedi_task_id for one in fed if one.grows and one.rows.dataset.is_master
        }


@dataclass(frozen=True, eq=False)
class _Fed:
    """The new rows of a dataset; `grows`: it is looked up again; `staged`: files on tape are
    brought to disk first; `chunks`: jobs' worth of files that are released at once."""

    listing: Listing
    rows: Rows
    grows: bool
    staged: bool
    chunks: int

    @property
    def dataset_id(self) -> int:
        return self.rows.dataset.dataset_id

    @property
    def bunch(self) -> contents.ReleaseGroup:
        """The files that are released together."""
        task = self.rows.task
        if self.listing.is_part or not (self.grows and self.rows.dataset.is_master):
            return contents.ReleaseGroup(1)
        by_events, per_lb = bool(task.rules.events_per_job), bool(task.rules.release_per_lb)
        return contents.ReleaseGroup(task.bunch * self.chunks, by_events, per_lb)

    @property
    def withheld(self) -> bool:
        """Files may have to wait until their bunch is full, now or since an earlier look."""
        dataset = self.rows.dataset
        known = dataset.type == "input" and dataset.n_files > 0 and not self.listing.is_part
        task = self.rows.task
        late = known or self.bunch != contents.ReleaseGroup(1) or task.periodical or task.to_split
        return self.staged or (dataset.is_master and late)

    @property
    def status(self) -> str:
        """New files begin with it."""
        if not self.withheld:
            return "ready"
        return "waiting" if self.rows.task.periodical else "pending"

    @property
    def counted(self) -> contents.FeedResult:
        return contents.FeedResult(
            dataset_id=self.dataset_id,
            added=len(self.rows),
            released=0 if self.withheld else len(self.rows),
            events=self.rows.events,
            events_released=None if self.withheld else self.rows.events,
            state=self.listing.state if self.rows.dataset.type == "input" else None,
            fed_upto=self.listing.fed_upto,
        )


def _left_out(
    fed: Sequence[_Fed], used: Mapping[int, Collection[str]], barred: Mapping[int, dict[str, str]]
) -> dict[int, dict[str, str]]:
    """Entries of datasets without a row to work on, with reasons, for datasets that may have
    some."""
    found = {}
    for one in fed:
        rows, i = one.rows, one.dataset_id
        if one.listing.left_out is not None:
            taken = {*used.get(i, ()), *(file.lfn for file in rows.files)}
            found[i] = left_out(rows.task, one.listing, taken, barred.get(i, {}))
    return {
        one.dataset_id: found[one.dataset_id]
        for one in fed
        if found.get(one.dataset_id) or one.rows.dataset.n_left_out
    }


def _barred(tx: Connection, feeds: Sequence[tuple[FeedTask, Feed]]) -> dict[int, dict[str, str]]:
    """LFNs of each dataset that make no new row, with reasons: finished by other tasks, where the
    task skips them; not finished by the parent, where it is to be asked."""
    real = [
        (task, one) for task, feed in feeds for one in feed.listings if one.dataset.type == "input"
    ]
    skip = [(one.dataset.dataset_id, other) for task, one in real for other in task.skipped]
    asked = [
        (one.dataset.dataset_id, task.parent)
        for task, one in real
        if task.parent and one.dataset.selection.attributes.check
    ]
    finished = contents.finished_in(tx, skip, ["input"]) if skip else {}
    made = contents.finished_in(tx, asked, ["output", "log"]) if asked else {}
    barred = {i: dict.fromkeys(lfns, "used_elsewhere") for i, lfns in finished.items()}
    for i, one in ((one.dataset.dataset_id, one) for _, one in real):
        if i in dict(asked):
            absent = {file.lfn for file in one.files} - made.get(i, frozenset())
            barred[i] = dict.fromkeys(absent, "not_from_parent") | barred.get(i, {})
    return barred


def _fed(
    feeds: Sequence[tuple[FeedTask, Feed]], known: Mapping[int, Collection[str]], chunks: int
) -> Iterator[_Fed]:
    for task, feed in feeds:
        chunks_at_once = 1 if task.rules.no_input_pooling else task.rules.n_chunks_to_wait or chunks
        new = new_files(task, feed.listings, known)
        grown = growing(task, feed.listings, new)
        for rows, one, grows in zip(
            new_rows(task, feed.listings, new), feed.listings, grown, strict=True
        ):
            yield _Fed(one, rows, grows, one.on_tape is not None, chunks_at_once)


def _used(rows: contents.KnownFiles, again: Sequence[tuple[str, str]]) -> Collection[str]:
    """The names of files that have rows; of a file that was made again, the new name (second),
    too."""
    return rows.lfns | {new for old, new in again if old in rows.lfns}


def _ours(
    tx: Connection, results: Sequence[tuple[FeedTask, FeedOutcome]]
) -> list[tuple[FeedTask, FeedOutcome]]:
    """The outcomes; a task whose parent has failed is not broken for lack of its outputs: it ends
    with it."""
    unusable = [task.jedi_task_id for task, out in results if isinstance(out, Unusable)]
    parents = family.parents(tx, unusable) if unusable else {}
    left = {i: row for i, row in parents.items() if row.status in family.RUINED}
    return [
        (task, Wait("parent_failed", f"Its parent, task {row.jedi_task_id}, is {row.status}."))
        if (row := left.get(task.jedi_task_id))
        else (task, out)
        for task, out in results
    ]


def _made(tx: Connection, waiting: Sequence[FeedTask]) -> set[int]:
    """Tasks one of whose inputs was being made when it was looked up, and is so no more: nobody
    will call these tasks again."""
    names = {one.name for task in waiting for one in task.datasets if one.produced}
    live = {one.dataset_name for one in datasets.producers(tx, names) if one.live}
    return {
        task.jedi_task_id
        for task in waiting
        if any(one.produced and one.name not in live for one in task.datasets)
    }


def _mark(
    tx: Connection, listings: Sequence[Listing], known: Mapping[int, contents.KnownFiles]
) -> None:
    """Mark rows whose file left the listing or came back. A broken file that is still listed is
    tried again only on request."""
    lost: dict[int, Collection[str]] = {}
    back: list[tuple[int, str, int, str | None]] = []
    for one in listings:
        dataset_id = one.dataset.dataset_id
        if rows := known.get(dataset_id):
            lost[dataset_id] = rows.lfns - {file.lfn for file in one.files}
            away = rows.gone if one.dataset.followed else rows.gone | rows.broken
            back += [(dataset_id, f.lfn, f.size, f.adler32) for f in one.files if f.lfn in away]
    contents.lose(tx, lost)
    contents.find_again(tx, back)


def _move(
    task: FeedTask,
    outcome: FeedOutcome,
    recheck_s: float,
    idle: Collection[int],
    staging: Collection[int],
) -> Move:
    """Return the move of a task; a working task stays in its status. Tasks in `idle` have open
    input and no file of it to work on; in `staging` it is on tape."""
    fence = task.jedi_task_id, task.lock_seq
    match outcome:
        case Unusable(code, reason, blamed) if not task.files_fed:
            facts = {"datasets": [dataset.name for dataset in blamed]}
            return Move(*fence, "tobroken", code, reason, facts)
        case Unusable(code, reason):
            return Move(*fence, "ready" if task.status == "defined" else task.status, code, reason)
        case Wait(code, reason):
            return Move(*fence, task.status, code, reason, wait_s=recheck_s)
        case Feed() if task.status == "defined" and outcome.is_bare and task.datasets:
            reason = "No input file is there, which the task allows."
            return Move(*fence, "finishing", "empty_input_allowed", reason)
        case Feed() if task.status != "defined":
            again = "The open input was looked up again."
            reason = "The next part of the input was fed." if outcome.in_parts else again
            return Move(*fence, task.status, "fed", reason)
        case Feed() if task.to_split and outcome.is_complete:
            reason = "The input is complete: the splitter divides it."
            return Move(*fence, "defined", herds.TO_SPLIT, reason)
        case Feed() if task.to_split:
            reason = "An input dataset is open: a herd is divided when its input is complete."
            return Move(*fence, "defined", "input_open", reason, wait_s=recheck_s)
        case Feed() if task.jedi_task_id in idle and task.rules.workflow_holdup:
            reason = "A workflow holds the task until it is released."
            return Move(*fence, "defined", "workflow_hold", reason, wait_s=recheck_s)
        case Feed() if task.jedi_task_id in staging:
            return Move(*fence, "defined", "input_on_tape", REST_ON_TAPE, wait_s=recheck_s)
        case Feed() if task.jedi_task_id in idle:
            reason = "An input dataset is open: all its present files are processed, more may come."
            return Move(*fence, "defined", "input_open", reason, wait_s=recheck_s)
        case Feed() if task.needs_nucleus:
            return Move(*fence, "assigning", "needs_nucleus", "A nucleus is to be chosen.")
    return Move(*fence, "ready", "fed", "The input is known: jobs can be made.")
