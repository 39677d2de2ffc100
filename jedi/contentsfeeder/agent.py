"""ContentsFeeder: defined -> ready or assigning; what is in the input datasets becomes rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from jedi.agent.base import TaskAgent
from jedi.contentsfeeder.feed import (
    Feed,
    FeedTask,
    InputDataset,
    Listing,
    Outcome,
    Unusable,
    Wait,
    judge,
    needs_nucleus,
    new_files,
)
from jedi.contentsfeeder.rows import new_rows, render
from jedi.core.errors import BadInput, NotFound
from jedi.spec.splitrule import SplitRules
from jedi.taskbuffer import contents, datasets, engine, scouting, tasks, tasks_new
from jedi.taskbuffer.tasks import Move


class ContentsFeeder(TaskAgent[FeedTask, Outcome]):
    """Looks input datasets up, without a transaction, and writes their new files."""

    name = "ContentsFeeder"
    wakes = frozenset({"task:defined"})

    def claim(self, tx: Connection, limit: int) -> list[FeedTask]:
        """Defined tasks with the datasets that are to be looked up."""
        rows = tasks.claim(tx, ["defined"], self.world.me, self.lease_s, limit)
        if not rows:
            return []
        ids = [row.jeditaskid for row in rows]
        params = tasks_new.params_of(tx, ids)
        inputs = datasets.inputs(tx, ids)
        names = {one.datasetname for one in inputs if one.due and one.type == "input"}
        made = datasets.producers(tx, names)
        live = {one.datasetname for one in made if one.live}
        default = int(self.world.knobs["attempts.max_attempt"])
        return [_feed_task(row, params[row.jeditaskid], inputs, live, default) for row in rows]

    def work(self, item: FeedTask) -> Outcome:
        """List the datasets of a task."""
        try:
            found = [self._list(dataset) for dataset in item.datasets]
        except BadInput as error:
            return Unusable("input_malformed", error.sentence)
        return judge(item, found, int(self.world.knobs["contentsfeeder.max_records"]))

    def apply(self, tx: Connection, results: Sequence[tuple[FeedTask, Outcome]]) -> None:
        """Write new files, mark those that are gone, count, and move on."""
        held = tasks.fence(tx, [(task.jedi_task_id, task.lock_seq) for task, _ in results])
        ours = [(task, outcome) for task, outcome in results if task.jedi_task_id in held]
        feeds = [(task, outcome) for task, outcome in ours if isinstance(outcome, Feed)]
        self._write(tx, feeds)
        first = {t.jedi_task_id: t.rules for t, f in feeds if f.is_complete and t.may_scout}
        scouting.withhold(tx, first, int(self.world.knobs["scout.chunks"]))
        fed = [one.dataset.dataset_id for _, feed in feeds for one in feed.listings]
        datasets.move_datasets(tx, [(i, "ready") for i in fed], self.name, "fed")
        broken = [
            d.dataset_id for _, out in ours if isinstance(out, Unusable) for d in out.datasets
        ]
        datasets.move_datasets(tx, [(i, "broken") for i in broken], self.name, "unusable")
        recheck_s = float(self.world.knobs["contentsfeeder.recheck_s"])
        made = _made(tx, [task for task, out in ours if isinstance(out, Wait)])
        moves = [
            _move(task, out, 0.0 if task.jedi_task_id in made else recheck_s) for task, out in ours
        ]
        tasks.move_tasks(tx, moves, self.name)

    def trouble(self, tx: Connection, item: FeedTask, error: Exception) -> None:
        """Data management or the database had a problem: the task is held."""
        reason = f"The input could not be looked up: {error}"
        move = Move(item.jedi_task_id, item.lock_seq, "pending", "feeding_failed", reason[:4000])
        tasks.move_tasks(tx, [move], self.name)

    def _list(self, dataset: InputDataset) -> Listing:
        if dataset.type != "input":
            return Listing(dataset, "closed")
        ddm = self.world.ddm
        try:
            state = ddm.dataset(dataset.name).state
            return Listing(
                dataset, state, ddm.list_files(dataset.name) if state == "closed" else ()
            )
        except NotFound:
            return Listing(dataset, None)

    def _write(self, tx: Connection, feeds: Sequence[tuple[FeedTask, Feed]]) -> None:
        """Bring all rows up to date, in as many statements for many datasets as for one."""
        engine.bulk(tx)
        listings = [one for _, feed in feeds for one in feed.listings]
        filled = [
            one.dataset.dataset_id
            for one in listings
            if one.dataset.type == "input" and one.dataset.n_files
        ]
        known = contents.known(tx, filled) if filled else {}
        lfns = {dataset_id: rows.lfns for dataset_id, rows in known.items()}
        new = [
            rows
            for task, feed in feeds
            for rows in new_rows(task, feed.listings, new_files(task, feed.listings, lfns))
        ]
        contents.feed(tx, (block for rows in new for block in render(rows)))
        gone = _mark(tx, listings, known)
        contents.note_fed(
            tx,
            [
                contents.Fed(
                    dataset_id=rows.dataset.dataset_id,
                    added=len(rows),
                    gone=gone.get(rows.dataset.dataset_id, 0),
                    events=rows.events,
                    state="closed" if rows.dataset.type == "input" else None,
                )
                for rows in new
            ],
        )


def _made(tx: Connection, waiting: Sequence[FeedTask]) -> set[int]:
    """Tasks one of whose inputs was being made when it was looked up, and is so no more: nobody
    will call these tasks again."""
    names = {one.name for task in waiting for one in task.datasets if one.produced}
    live = {one.datasetname for one in datasets.producers(tx, names) if one.live}
    return {
        task.jedi_task_id
        for task in waiting
        if any(one.produced and one.name not in live for one in task.datasets)
    }


def _mark(
    tx: Connection, listings: Sequence[Listing], known: Mapping[int, contents.Known]
) -> dict[int, int]:
    """Mark rows whose file left the listing or came back; by dataset, how many more are gone."""
    lost, back = {}, {}
    for one in listings:
        if rows := known.get(one.dataset.dataset_id):
            listed = {file.lfn for file in one.files}
            lost[one.dataset.dataset_id] = rows.lfns - rows.gone - listed
            back[one.dataset.dataset_id] = rows.gone & listed
    n_lost, n_back = contents.lose(tx, lost), contents.find_again(tx, back)
    return {i: n_lost.get(i, 0) - n_back.get(i, 0) for i in known}


def _feed_task(
    row: Row[Any],
    params: Mapping[str, Any],
    inputs: Sequence[Row[Any]],
    produced: Collection[str],
    max_attempt: int,
) -> FeedTask:
    ours = [one for one in inputs if one.jeditaskid == row.jeditaskid]
    masters = [one for one in ours if one.masterid is None]
    files_fed = sum(one.files for one in masters)
    rules = SplitRules.model_validate(row.rules or {})
    return FeedTask(
        jedi_task_id=row.jeditaskid,
        lock_seq=row.lock_seq,
        needs_nucleus=needs_nucleus(
            row.prodsourcelabel, asked=bool(row.nucleus), placed=bool(row.site or row.cloud)
        ),
        datasets=tuple(
            InputDataset(
                dataset_id=one.datasetid,
                name=one.datasetname,
                type=one.type,
                is_master=one.masterid is None,
                produced=one.datasetname in produced,
                n_files=one.nfiles,
                n_events=one.nevents or 0,
            )
            for one in ours
            if one.due
        ),
        max_attempt=params.get("maxAttempt", max_attempt),
        max_failure=params.get("maxFailure"),
        n_files=params.get("nFiles"),
        files_fed=files_fed,
        n_events=params.get("nEvents"),
        events_fed=sum(one.nevents or 0 for one in masters),
        n_pseudo_files=1
        if rules.by_events
        else params.get("nFiles") or params.get("nFilesPerJob") or 1,
        rules=rules,
    )


def _move(task: FeedTask, outcome: Outcome, recheck_s: float) -> Move:
    match outcome:
        case Unusable(code, reason, blamed):
            facts = {"datasets": [dataset.name for dataset in blamed]}
            return Move(task.jedi_task_id, task.lock_seq, "tobroken", code, reason, facts)
        case Wait(code, reason):
            return Move(task.jedi_task_id, task.lock_seq, "defined", code, reason, wait_s=recheck_s)
        case Feed():
            if task.needs_nucleus:
                target, code, reason = "assigning", "needs_nucleus", "A nucleus is to be chosen."
            else:
                target, code, reason = "ready", "fed", "The input is known: jobs can be made."
            return Move(task.jedi_task_id, task.lock_seq, target, code, reason)
