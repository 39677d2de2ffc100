"""Files as rows of contents: one a file, or one a range of its events, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jedi.contentsfeeder.feed import FeedTask, InputDataset, Listed, Listing
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Files
from jedi.model.splitting.event_ranges import Ranges, across, evenly
from jedi.model.splitting.split_rules import WHOLE_IDS

BLOCK = 2000  # lines rendered while the server takes in the block before
NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, eq=False)
class Rows:
    """New rows of a dataset. `counts` are the files' events and `ranges` of them the rows, if it
    is split by events; `begun`: events that the task's masters had before."""

    task: FeedTask
    dataset: InputDataset
    files: Sequence[Listed]
    counts: Sequence[int | None]
    ranges: Ranges | None
    begun: int

    def __len__(self) -> int:
        return len(self.files) if self.ranges is None else len(self.ranges)

    @property
    def events(self) -> int | None:
        """Events in them, as far as known."""
        known = [n for n in self.counts if n is not None]
        return sum(known) if known else None


def new_rows(
    task: FeedTask, listings: Sequence[Listing], found: Sequence[Sequence[Listed]]
) -> list[Rows]:
    """The rows of the new files of each listing. Every event has a number, counted
    on from file to file and from master to master."""
    rows = []
    begun = task.events_fed
    for listing, files in zip(listings, found, strict=True):
        dataset = listing.dataset
        counts = task.events(dataset, files)
        one = Rows(task, dataset, files, counts, _cut(task, dataset, files, counts), begun)
        rows.append(one)
        begun += (one.events or 0) if dataset.is_master else 0
    return rows


def _cut(
    task: FeedTask, dataset: InputDataset, files: Sequence[Listed], counts: Sequence[int | None]
) -> Ranges | None:
    if not (dataset.is_master and task.rules.numbers_events):
        return None
    events = np.array([n or 0 for n in counts], np.int64)
    # a file with a boundary id belongs to one, so none is cut
    if task.rules.group_boundary_id in WHOLE_IDS or not task.rules.by_events:
        return evenly(events, max(1, int(events.max(initial=0))))
    if task.rules.events_per_job:
        begun, groups = dataset.n_events, _groups(task, files)
        if groups is not None and files:
            goes_on = _group(task, files[0]) == dataset.last_group
            begun = dataset.last_events if goes_on else 0
        return across(events, task.rules.events_per_job, begun, groups)
    return evenly(events, task.rules.events_per_range or 1)


def _groups(task: FeedTask, files: Sequence[Listed]) -> Ints | None:
    """Numbers for values of which no job may have two, if there are any."""
    rules = task.rules
    if not (rules.respect_lb or rules.group_boundary_id):
        return None
    kinds: dict[tuple[int | None, int | None], int] = {}
    groups = [_group(task, file) for file in files]
    return np.array([kinds.setdefault(kind, len(kinds)) for kind in groups], np.int64)


def _group(task: FeedTask, file: Listed) -> tuple[int | None, int | None]:
    """The lumi block and the boundary id of a file, as far as ranges respect them."""
    rules = task.rules
    return (
        file.lumiblock if rules.respect_lb else None,
        file.boundary if rules.group_boundary_id else None,
    )


def render(rows: Rows, status: str = "ready") -> Iterator[str]:
    """Blocks of lines for `contents.feed`: PostgreSQL's COPY text of contents.FED_COLUMNS."""
    task, dataset = rows.task, rows.dataset
    scope = dataset.name.partition(":")[0] if dataset.type == "input" else None
    head = _line(
        dataset.dataset_id,
        task.jedi_task_id,
        dataset.type,
        scope,
        status,
        status,
        1,
        task.max_attempt,
        task.max_failure,
    )
    for at in range(0, len(rows), BLOCK):
        yield "".join(f"{head}\t{line}\n" for line in _lines(rows, slice(at, at + BLOCK)))


def as_read(rows: Rows, first: int) -> Files:
    """The rows as the generator will read them; their ids count on from `first`."""
    ranges = rows.ranges
    which = np.arange(len(rows.files)) if ranges is None else ranges.files
    picked, zeros = [rows.files[i] for i in which.tolist()], np.zeros(len(which), np.int64)
    events = np.array([n or 0 for n in rows.counts], np.int64)[which]
    starts, ends, firsts = zeros, events - 1, zeros
    if ranges is not None:
        firsts = ranges.before + 1 + (rows.task.rules.first_event or 0) + rows.begun
        starts, ends = ranges.starts, ranges.ends
    return Files(
        file_ids=first + np.arange(len(which)),
        dataset_ids=np.full(len(which), rows.dataset.dataset_id, np.int64),
        lfns=[file.lfn for file in picked],
        sizes=np.array([file.size for file in picked], np.int64),
        events=ends - starts + 1,
        start_events=starts,
        events_left=zeros if ranges is None else events - ends - 1,
        first_events=firsts,
        attempts=zeros,
        previous=zeros,
        boundaries=np.array([file.boundary or 0 for file in picked], np.int64),
        lumi_blocks=np.array([file.lumiblock or 0 for file in picked], np.int64),
        ram_counts=zeros,
    )


def _lines(rows: Rows, part: slice) -> Iterator[str]:
    if rows.ranges is None:
        whole = zip(rows.files[part], rows.counts[part], strict=True)
        none = f"\t{NULL}\t{NULL}\t{NULL}\t"
        return (_file(file, events) + none + _kind(file) for file, events in whole)
    ranges = rows.ranges
    files = ranges.files[part].tolist()
    texts = {i: _file(rows.files[i], rows.counts[i]) for i in dict.fromkeys(files)}
    shift = 1 + (rows.task.rules.first_event or 0) + rows.begun
    return (
        f"{texts[i]}\t{start}\t{end}\t{first}\t{_kind(rows.files[i])}"
        for i, start, end, first in zip(
            files,
            ranges.starts[part].tolist(),
            ranges.ends[part].tolist(),
            (ranges.before[part] + shift).tolist(),
            strict=True,
        )
    )


def _file(file: Listed, events: int | None) -> str:
    return (
        f"{file.lfn}\t{_text(file.guid)}\t{file.size}\t{_text(file.adler32)}\t"
        f"{NULL if events is None else events}"
    )


def _kind(file: Listed) -> str:
    return _line(file.boundary, file.lumiblock)


def _line(*values: object) -> str:
    return "\t".join(NULL if value is None else str(value) for value in values)


def _text(value: str | None) -> str:
    return NULL if value is None else value.translate(_ESCAPES)
