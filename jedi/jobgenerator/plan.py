"""Which files go into which job at which site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jedi.brokerage.choice import Choice
from jedi.jobgenerator.splitter import Splitter, walk
from jedi.jobgenerator.strategies import FileStrategy
from jedi.spec.chunk import Chunk, Ints
from jedi.spec.demand import Demand
from jedi.spec.splitrule import SplitRules


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
class Short:
    """A stream that does not suffice for a job: the files that this wants of it, and those that
    are left."""

    stream: str
    wanted: int
    left: int

    def __str__(self) -> str:
        some = f"{self.left} {'is' if self.left == 1 else 'are'}"
        return f"a job wants {self.wanted} files of {self.stream}, and {some} left"


def plan(
    chunks: Sequence[Chunk],
    choice: Choice,
    strategy: FileStrategy,
    rules: SplitRules,
    demand: Demand,
    knobs: Mapping[str, Any],
    most: int,
) -> tuple[list[Cut], list[Short]]:
    """Cut chunks into at most `most` jobs; sites take turns by lottery, a batch of jobs each, until
    no site is left that may get more. And what jobs were left out for."""
    lottery = choice.lottery()
    cuts: list[Cut] = []
    lacking: list[Short] = []
    for chunk in chunks:
        splitter = Splitter(
            strategy.weights(demand, chunk),
            strategy.breaks(rules, chunk),
            strategy.units(rules, chunk),
        )
        caps = [strategy.caps(rules, demand, chunk, choice.sites, site, knobs)
                for site in choice.candidates]  # fmt: skip
        size, start = len(chunk.master), 0
        stops: list[int] = []
        sites: list[int] = []
        while start < size and len(stops) < most and not lottery.over:
            drawn = lottery.draw()
            batch = min(knobs["jobgen.batch_jobs"], most - len(stops))
            ends = walk(splitter.cuts(caps[drawn]), start, batch)
            lottery.got(drawn, len(ends))
            stops += ends
            sites += [choice.candidates[drawn]] * len(ends)
            start = stops[-1]
        if chunk.more and start == size:
            stops.pop()  # what was not read yet may belong to this job
        cut, short = _cut(chunk, stops, sites)
        most -= len(cut)
        cuts.append(cut)
        lacking += short
    return [cut for cut in cuts if len(cut)], lacking


def _cut(chunk: Chunk, stops: list[int], sites: list[int]) -> tuple[Cut, list[Short]]:
    """With what follows the master; the first job that a secondary does not suffice for is left
    out, and all after it. No job has a file twice."""
    ends = np.array(stops, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)]
    follow = []
    short: list[Short] = []
    jobs = len(ends)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(chunk.master.counted_events)])
    for one in chunk.secondaries:
        if one.by_boundary:
            ids = chunk.master.boundaries
            first, last = one.same_ids(ids[starts], ids[ends - 1])
        else:
            first, last = one.spans(ends - starts, sums[ends] - sums[starts])
        left = len(one.files) - (np.zeros_like(first) if one.wraps else first)
        if len(late := np.flatnonzero((last - first > left)[:jobs])):
            jobs = int(late[0])
            short = [Short(one.stream, int((last - first)[jobs]), max(0, int(left[jobs])))]
        follow.append((first, last))
    cut = Cut(
        chunk, starts[:jobs], ends[:jobs], np.array(sites[:jobs], np.int64),
        tuple((first[:jobs], last[:jobs]) for first, last in follow),
    )  # fmt: skip
    return cut, short
