"""The outcome of the listings of all datasets of a task: a feed, a wait, or unusable input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jedi.contentsfeeder.feed import (
    Feed,
    FeedOutcome,
    FeedTask,
    Listing,
    Unusable,
    Wait,
    total_events,
)
from jedi.contentsfeeder.left_out import counted, left_out
from jedi.model.splitting.split_rules import WHOLE_IDS


def judge(task: FeedTask, listings: Sequence[Listing], max_records: int) -> FeedOutcome:
    """Return the outcome of the listings of all datasets of a task."""
    rules = task.rules
    if rules.ignore_missing_in_ds or rules.allow_empty_input:  # what is unknown is empty
        listings = [
            replace(one, state="closed") if one.state is None and not one.dataset.produced else one
            for one in listings
        ]
    listings = [replace(one, empty=task.empty(one.dataset, one.files)) for one in listings]
    for one in listings:
        name = one.dataset.name
        if one.state is None and one.dataset.produced:
            return Wait("input_not_made", f"Dataset {name} is still being made by another task.")
        if one.state is None and rules.wait_input:
            reason = f"Dataset {name} is unknown to data management yet, and is waited for."
            return Wait("input_awaited", reason)
        if one.state is None:
            reason = f"Dataset {name} is unknown to data management."
            return Unusable("input_unknown", reason, (one.dataset,))
        if one.dataset.waits:
            reason = f"Another task adds files to {name}. It is read when that has ended."
            return Wait("input_open", reason)
        if (records := _records(task, one)) > max_records:
            kind = f"{one.total or len(one.wanted)} files"
            if task.rules.by_events:
                kind = f"{records} ranges of events in {kind}"
            reason = (
                f"Dataset {name} holds {kind}, more than {max_records} "
                "(knob contentsfeeder.max_records)."
            )
            return Unusable("too_many_files", reason, (one.dataset,))
        absent = one.dataset.selection.absent(one.files)
        if absent and one.is_complete:
            reason = f"Dataset {name} does not hold {', '.join(absent[:5])}, which the task names."
            return Unusable("files_unknown", reason, (one.dataset,))
        counted = one.dataset.is_master and (task.n_events or task.rules.numbers_events)
        wanted = one.wanted
        if counted and None in (events := task.events(one.dataset, wanted)):
            why = f"wants {task.n_events} events" if task.n_events else "is split by events"
            lfn = wanted[events.index(None)].lfn
            reason = (
                f"The task {why}, but how many are in {lfn} of {name} is not known. Say it in "
                ".dataset.yaml or as nEventsPerInputFile, or set knob ddm.event_count_command."
            )
            return Unusable("events_unknown", reason, (one.dataset,))
    empty = _empty(task, listings)
    if empty and not (rules.allow_empty_input and all(d.is_master for d in empty.datasets)):
        return empty
    return Feed(tuple(listings))


def _records(task: FeedTask, listing: Listing) -> int:
    """The number of rows that a listing makes; of ranges of events the most that are possible."""
    size = task.rules.events_per_job or task.rules.events_per_range
    files = listing.wanted
    whole = task.rules.group_boundary_id in WHOLE_IDS
    if whole or not size or not listing.dataset.is_master:
        return listing.total or len(files)
    return len(files) + total_events(task, listing.dataset, files) // size


def _empty(task: FeedTask, listings: Sequence[Listing]) -> Unusable | None:
    """One master with a file suffices; a dataset that follows the master has to have some. One
    that is not complete may get them yet."""
    real = [one for one in listings if one.dataset.type == "input"]
    masters = [one for one in real if one.dataset.is_master]
    bare = [one for one in real if one.is_complete and not (one.usable or one.dataset.n_files)]
    blamed = tuple(one.dataset for one in bare)
    if [d for d in blamed if not d.is_master] or (masters and len(bare) == len(masters)):
        named = ", ".join(dataset.name for dataset in blamed)
        out = {one.dataset.dataset_id: left_out(task, one) for one in bare}
        reasons = [code for some in out.values() for code in some.values()]
        rest = f" for a job: {counted(reasons)} left out" if reasons else ""
        return Unusable("input_empty", f"No file is in {named}{rest}.", blamed, out)
    return None
