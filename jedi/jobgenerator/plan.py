"""The plan of jobs: their files and their sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jedi.brokerage.choice import SiteChoice
from jedi.core.knobs import Knobs
from jedi.jobgenerator.strategies import FileStrategy
from jedi.model.arrays import Bools, Ints
from jedi.model.datasets.chunk import Chunk, Secondary
from jedi.model.jobs.demand import Demand
from jedi.model.splitting.split_rules import SplitRules
from jedi.splitter.cap_cutter import CapCutter, walk


@dataclass(frozen=True, eq=False)
class Cut:
    """The jobs of one chunk: job k gets the master files from starts[k] to before stops[k], and
    of secondary s the files from follow[s][0][k] to before follow[s][1][k] (counted on beyond the
    last where it is repeated). `sites` are positions in the sites of the broker's choice."""

    chunk: Chunk
    starts: Ints
    stops: Ints
    sites: Ints
    follow: tuple[tuple[Ints, Ints], ...]

    def __len__(self) -> int:
        return len(self.stops)


@dataclass(frozen=True, slots=True)
class ShortStream:
    """A stream that does not suffice for a job: the files that the job wants of it, and the ones
    left."""

    stream: str
    wanted: int
    left: int

    def __str__(self) -> str:
        some = f"{self.left} {'is' if self.left == 1 else 'are'}"
        return f"a job wants {self.wanted} files of {self.stream}, and {some} left"


def plan(
    chunks: Sequence[Chunk],
    choice: SiteChoice,
    strategy: FileStrategy,
    rules: SplitRules,
    demand: Demand,
    knobs: Knobs,
    most: int,
) -> tuple[list[Cut], list[ShortStream]]:
    """Cut chunks into at most `most` jobs; sites take turns by lottery, a batch of jobs each (of
    scouts a smaller one), until no site is left that may get more. And the causes for which jobs
    were left out."""
    row = knobs.jobgen.batch_scouts if rules.scouting else knobs.jobgen.batch_jobs
    lottery = choice.lottery()
    cuts: list[Cut] = []
    lacking: list[ShortStream] = []
    for chunk in chunks:
        splitter = CapCutter(
            strategy.weights(demand, chunk),
            strategy.breaks(rules, chunk),
            strategy.units(rules, chunk),
        )
        caps = [
            strategy.caps(rules, demand, chunk, choice.sites, site, knobs)
            for site in choice.candidates
        ]
        size, start = len(chunk.master), 0
        stops: list[int] = []
        sites: list[int] = []
        while start < size and len(stops) < most and not lottery.over:
            drawn = lottery.draw()
            batch = min(row, most - len(stops))
            ends = walk(splitter.cuts(caps[drawn]), start, batch)
            lottery.got(drawn, len(ends))
            stops += ends
            sites += [choice.candidates[drawn]] * len(ends)
            start = stops[-1]
        if chunk.more and start == size:
            del stops[-1], sites[-1]  # what was not read yet may belong to this job
        cut, short = _cut(chunk, stops, sites)
        most -= len(cut)
        cuts.append(cut)
        lacking += short
    return [cut for cut in cuts if len(cut)], lacking


def only(cut: Cut, wanted: Bools) -> Cut:
    """Some jobs of a cut: their master files stand one after the other again."""
    jobs = np.flatnonzero(wanted)
    if len(jobs) == len(cut):
        return cut
    spans = [np.arange(cut.starts[job], cut.stops[job]) for job in jobs]
    rows = np.concatenate([np.zeros(0, np.int64), *spans])
    stops = np.cumsum([len(span) for span in spans], dtype=np.int64)
    return Cut(
        chunk=replace(cut.chunk, master=cut.chunk.master.take(rows)),
        starts=np.concatenate([np.zeros(1, np.int64), stops])[: len(jobs)],
        stops=stops,
        sites=cut.sites[jobs],
        follow=tuple((first[jobs], last[jobs]) for first, last in cut.follow),
    )


def _cut(chunk: Chunk, stops: list[int], sites: list[int]) -> tuple[Cut, list[ShortStream]]:
    """With the secondaries. Jobs that a secondary does not suffice for are left out, and all after
    them, unless that goes where its boundary ids go. No job has a file twice."""
    ends = np.array(stops, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(chunk.master.counted_events)])
    masters, events = ends - starts, sums[ends] - sums[starts]
    suffices = np.ones(len(ends), bool)
    follow, short = [], []
    for one in chunk.secondaries:
        if one.by_boundary:
            first, last = _same_ids(one, chunk.master.boundaries, starts, ends, events)
            wanted, left = np.maximum(last - first, 1), last - first
        else:
            first, last = one.spans(masters, events)
            wanted, left = last - first, len(one.files) - first
            if one.wraps:
                left = np.full_like(first, len(one.files))
        late = wanted > left
        if len(where := np.flatnonzero(late & suffices)):
            job = int(where[0])
            short.append(ShortStream(one.stream, int(wanted[job]), max(0, int(left[job]))))
        suffices &= ~late if one.by_boundary else ~np.logical_or.accumulate(late)
        follow.append((first, last))
    cut = Cut(chunk, starts, ends, np.array(sites, np.int64), tuple(follow))
    return only(cut, suffices), short


def _same_ids(
    one: Secondary, ids: Ints, starts: Ints, ends: Ints, events: Ints
) -> tuple[Ints, Ints]:
    goes_on = bool(len(ends)) and ends[-1] < len(ids) and ids[ends[-1]] == ids[ends[-1] - 1]
    return one.same_ids(ids[starts], ids[ends - 1], ends - starts, events, goes_on=bool(goes_on))
