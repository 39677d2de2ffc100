"""From the listing of a dataset to rows: which files a task gets, and how they are written."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from jedi.contentsfeeder.select import Selection
from jedi.model.splitting.split_rules import WHOLE_IDS, SplitRules
from jedi.model.tasks.labels import PRODUCTION_LABELS

PSEUDO_LFN = "pseudo_lfn"


class Listed(Protocol):
    """A file as data management lists it."""

    @property
    def lfn(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def adler32(self) -> str | None: ...
    @property
    def guid(self) -> str | None: ...
    @property
    def nevents(self) -> int | None: ...
    @property
    def boundary(self) -> int | None: ...
    @property
    def lumiblock(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PseudoFile:
    """A stand-in for a file in a task without input."""

    lfn: str = PSEUDO_LFN
    size: int = 0
    adler32: str | None = None
    guid: str | None = None
    nevents: int | None = None
    boundary: int | None = None
    lumiblock: int | None = None


@dataclass(frozen=True, slots=True)
class InputDataset:
    """A dataset to feed. `produced`: a living task makes it, and its end is waited for, unless it
    is read meanwhile: `followed`: it was open when it was looked up before; `eager`: its maker is
    the task's parent, and need not be waited for. `n_files`, `n_events`: its rows so far and their
    events; `n_left_out`: entries of it that no job gets; `selection`: the files that the task
    wants; `master_id`: its master, if it is secondary; `pseudo_files`: its files, if the task
    itself names them; `fed_upto`: the last file that was listed, if later ones are still to be fed;
    `last_group`: lumi block and boundary id of its last row, where ranges of events respect them,
    and the events of the rows with it."""

    dataset_id: int
    name: str
    type: str
    is_master: bool
    produced: bool = False
    followed: bool = False
    eager: bool = False
    n_files: int = 0
    n_left_out: int = 0
    n_events: int = 0
    selection: Selection = field(default_factory=Selection)
    master_id: int | None = None
    pseudo_files: Sequence[Listed] = ()
    fed_upto: str | None = None
    last_group: tuple[int | None, int | None] = (None, None)
    last_events: int = 0

    @property
    def waits(self) -> bool:
        """It is not read before its maker has ended: closed now, it may be opened again."""
        return self.produced and not (self.followed or self.eager)


@dataclass(frozen=True, slots=True)
class FeedTask:
    """A task to feed, with the limits its parameters set: files and events of all its masters, of
    which `files_fed` and `events_fed` have rows already, and `files_released` may be used. A job
    has `bunch` files of an open master, or events where it is split by them. Files with fewer than
    `least_events`, or too few for a job of `whole_jobs` files, are left out (0: none is), and so
    are files that `skipped` tasks finished. `parent`: the task that made the input. `status`: the
    task's, or before it was put on hold. `periodical`: files wait for their period. `units` of a
    herd; 0: it is not split yet; `refused`: units that never run."""

    jedi_task_id: int
    lock_seq: int
    needs_nucleus: bool
    datasets: tuple[InputDataset, ...]
    max_attempt: int
    max_failure: int | None = None
    n_files: int | None = None
    files_fed: int = 0
    files_released: int = 0
    n_events: int | None = None
    events_fed: int = 0
    n_pseudo_files: int = 1
    rules: SplitRules = field(default_factory=SplitRules)
    bunch: int = 1
    status: str = "defined"
    least_events: int = 0
    whole_jobs: int = 0
    skipped: tuple[int, ...] = ()
    parent: int | None = None
    periodical: bool = False
    units: int | None = None
    refused: frozenset[int] = frozenset()

    def part_of(self, dataset: InputDataset, most: int) -> int:
        """The number of files of a dataset that are fed at once, whole jobs' worth of about `most`;
        0: it is fed as a whole, since the choice or the order of its files needs all of them."""
        rules, alone = self.rules, not any(d.master_id == dataset.dataset_id for d in self.datasets)
        chosen = (self.n_files, self.n_events, self.skipped, self.least_events, self.whole_jobs)
        ordered = (
            rules.group_boundary_id,
            rules.respect_lb,
            rules.order_by_lb,
            rules.order_input_by,
            rules.by_events,
            rules.numbers_events,
        )
        held = (
            rules.input_pre_staging,
            rules.workflow_holdup,
            self.periodical,
            self.units is not None,
            dataset.produced,
        )
        if any((*chosen, *ordered, *held)) or dataset.selection != Selection(
            seed=dataset.selection.seed
        ):
            return 0
        fits = dataset.is_master and alone and dataset.type == "input"
        return max(self.bunch, most - most % self.bunch) if fits else 0

    @property
    def to_split(self) -> bool:
        """It is a herd, whose files wait until they are divided."""
        return self.units == 0

    def long_enough(self, files: list[Listed]) -> list[Listed]:
        """Without files that have fewer events than wanted."""
        if not self.least_events:
            return files
        return [one for one in files if one.nevents is None or one.nevents >= self.least_events]

    def empty(self, dataset: InputDataset, files: Sequence[Listed]) -> frozenset[str]:
        """The files without events, of a master that is divided by them."""
        if not (dataset.is_master and self.rules.numbers_events):
            return frozenset()
        counts = zip(files, self.events(dataset, files), strict=True)
        return frozenset(file.lfn for file, n in counts if n == 0)

    @property
    def may_scout(self) -> bool:
        """Its scouts are at work, or nothing of its input was released yet and it does not refuse
        scouts, which take a number of files: an indivisible task has none."""
        if self.rules.group_boundary_id in WHOLE_IDS:
            return False
        return self.rules.scouting or (self.rules.use_scout is None and not self.files_released)

    def events(self, dataset: InputDataset, files: Sequence[Listed]) -> list[int | None]:
        """The number of events in each file: from data management, else from the task."""
        declared = self.rules.n_events_per_input if dataset.is_master else None
        if self.rules.use_real_num_events:
            declared = None
        return [declared if file.nevents is None else file.nevents for file in files]


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of data management about a dataset: open or closed and its files; state None: it
    does not know the dataset. `on_tape`: LFNs that have to be brought to disk first; None: jobs may
    read tapes themselves. `is_part`: files that stand behind all that have rows; `more`: others
    may stand behind these; `total`: the number of all its files, if these are the first ones;
    `left_out`: entries that are no files of it, with reasons (None: as known before); `empty`:
    files without the events that their jobs would have."""

    dataset: InputDataset
    state: str | None
    files: Sequence[Listed] = ()
    on_tape: frozenset[str] | None = None
    is_part: bool = False
    more: bool = False
    total: int | None = None
    left_out: Mapping[str, str] | None = None
    empty: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Return True if it gets no more files: it is closed, and no active task fills it."""
        return self.state == "closed" and not self.dataset.produced and not self.more

    @property
    def fed_upto(self) -> str | None:
        """The file behind which the next look begins."""
        return self.files[-1].lfn if self.more else None

    @property
    def wanted(self) -> Sequence[Listed]:
        """The files of the listing that the task wants, in the order that it wants."""
        return self.dataset.selection.pick(self.files)

    @property
    def usable(self) -> Sequence[Listed]:
        """The wanted files that jobs can work on."""
        return [one for one in self.wanted if one.lfn not in self.empty]


@dataclass(frozen=True, slots=True)
class Feed:
    """The files of each dataset are known; new ones are found when they are written."""

    listings: tuple[Listing, ...]

    @property
    def is_complete(self) -> bool:
        """No master will get more files."""
        return all(one.is_complete for one in self.listings if one.dataset.is_master)

    @property
    def in_parts(self) -> bool:
        """Return True if the files of some dataset stand behind the ones that were fed before."""
        return any(one.is_part for one in self.listings)

    @property
    def is_bare(self) -> bool:
        """The dataset has no file, and none will come."""
        masters = [one for one in self.listings if one.dataset.is_master]
        return self.is_complete and not any(
            one.usable or one.dataset.n_files or one.dataset.type != "input" for one in masters
        )


@dataclass(frozen=True, slots=True)
class Unusable:
    """The task can't run on its input: a sentence for people, the datasets to blame, and the
    left-out entries of each, with reasons."""

    code: str
    reason: str
    datasets: tuple[InputDataset, ...] = ()
    left_out: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """The input is not complete yet."""

    code: str
    reason: str


FeedOutcome = Feed | Unusable | Wait


def total_events(task: FeedTask, dataset: InputDataset, files: Sequence[Listed]) -> int:
    """The events in these files, as far as known."""
    return sum(n or 0 for n in task.events(dataset, files))


def new_files(
    task: FeedTask, listings: Sequence[Listing], known: Mapping[int, Collection[str]]
) -> list[list[Listed]]:
    """The files of each listing that become rows: new ones, as long as the task's limits on the
    files and events of its masters allow. Only whole files are counted. Of a dataset that goes with
    a master place by place, the files at the master's places."""
    files_left = (task.n_files or sys.maxsize) - task.files_fed
    events_left = (task.n_events or sys.maxsize) - task.events_fed
    new_by_listing: list[list[Listed]] = []
    places: dict[int, set[int]] = {}
    placed = any(one.dataset.selection.attributes.index_consistent for one in listings)
    for one in listings:
        old = known.get(one.dataset.dataset_id, ())
        new: list[Listed] = [file for file in one.usable if file.lfn not in old]
        if one.dataset.is_master:
            new = task.long_enough(new)
        if one.dataset.selection.attributes.index_consistent:
            there = places.get(one.dataset.master_id or 0, ())
            new = [file for i, file in enumerate(one.files) if i in there and file.lfn not in old]
        new = in_order(task.rules, new)
        if (records := one.dataset.selection.attributes.records) is not None:
            new = new[: max(0, records - len(old))]
        if task.units and one.dataset.is_master:  # a herd is divided once
            pseudo = one.dataset.type == "pseudo_input"
            runs = [n for n in range(1, task.units + 1) if n not in task.refused] if pseudo else []
            new = [PseudoFile(boundary=number) for number in runs[one.dataset.n_files :]]
        elif one.dataset.type == "pseudo_input" and not one.dataset.pseudo_files:
            new = [PseudoFile(nevents=task.n_events)] * (task.n_pseudo_files - one.dataset.n_files)
        elif one.dataset.is_master:
            new = new[: max(0, files_left)]
            if task.n_events:
                new = _up_to(task, one.dataset, new, events_left)
            if task.whole_jobs and one.is_complete:
                short = (one.dataset.n_files + len(new)) % task.whole_jobs
                new = new[: max(0, len(new) - short)]
            if placed:
                mine = {*old, *(file.lfn for file in new)}
                at = {i for i, file in enumerate(one.files) if file.lfn in mine}
                places[one.dataset.dataset_id] = at
            files_left -= len(new)
            events_left -= total_events(task, one.dataset, new)
        new_by_listing.append(new)
    return new_by_listing


def in_order(rules: SplitRules, files: list[Listed]) -> list[Listed]:
    """Files as jobs use them: boundary ids and lumi blocks together, or first the ones whose events
    fill whole jobs, where the task says so; else as they are."""
    if rules.group_boundary_id:
        return sorted(files, key=lambda file: file.boundary or 0)
    if rules.respect_lb or rules.order_by_lb:
        return sorted(files, key=lambda file: (file.lumiblock or 0, file.lfn))
    if rules.order_input_by and rules.n_events_per_job:
        size = rules.n_events_per_job
        return sorted(files, key=lambda file: (file.nevents or 1) % size > 0)
    return files


def growing(
    task: FeedTask, listings: Sequence[Listing], new: Sequence[Sequence[Listed]]
) -> list[bool]:
    """For each dataset, True if it is looked up again: open ones, or about to be, but no master
    once the task has as many files or events as it wants. Masters of a task that a workflow holds,
    or of a herd before its split, are as good as open."""
    n_files, n_events = task.files_fed, task.events_fed
    for one, files in zip(listings, new, strict=True):
        if one.dataset.is_master:
            n_files += len(files)
            n_events += total_events(task, one.dataset, files)
    enough = n_files >= (task.n_files or sys.maxsize) or n_events >= (task.n_events or sys.maxsize)
    held = bool(task.rules.workflow_holdup) or task.to_split
    return [
        held
        if one.dataset.is_master and (held or enough)
        else one.state == "open" or one.more or (one.dataset.produced and not one.dataset.waits)
        for one in listings
    ]


def _up_to(
    task: FeedTask, dataset: InputDataset, files: Sequence[Listed], events: int
) -> list[Listed]:
    """The first files that together hold so many events."""
    before = accumulate((n or 0 for n in task.events(dataset, files)), initial=0)
    return [file for file, seen in zip(files, before, strict=False) if seen < events]


def needs_nucleus(label: str, *, asked: bool, placed: bool) -> bool:
    """The outputs are collected at a nucleus if the submitter asked for one; outputs of production
    tasks also if the submitter named no place for them."""
    return asked or (label in PRODUCTION_LABELS and not placed)
