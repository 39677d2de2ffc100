"""From ready files to a broker's choice and a plan: all that comes before a write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jedi.agent import plugins
from jedi.brokerage.brokers import broker_of
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.filters.software import offers
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.jobgenerator.grouping import in_order, of_one_memory
from jedi.jobgenerator.locating import Locate, data_of
from jedi.jobgenerator.plan import Cut, ShortStream, plan
from jedi.jobgenerator.whole_ids import are_whole, named_largest, refuse_too_large
from jedi.model.datasets.chunk import Chunk
from jedi.model.jobs.generation import TaskOrder
from jedi.model.sites.request import InputAvailability, RecentJobs
from jedi.model.sites.snapshot import Snapshot

NO_JOBS = RecentJobs()


@dataclass(frozen=True, eq=False)
class DatasetProposal:
    """The choice of the broker for `need`, and the jobs that follow. No cuts: no site will do, or
    the files that follow do not suffice: `short` names the lack for which jobs were left out."""

    need: Requirements
    choice: SiteChoice
    cuts: Sequence[Cut]
    short: Sequence[ShortStream] = ()
    used: Sequence[str] = ()
    """The sites that the task has used before, in earlier cycles or for earlier datasets."""
    unit: str = ""
    """The largest unit that is not divided, in words."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """The choices of the broker `broker`: one for the whole input, or for each dataset (one at
    least). `task` has the memory that its files, `chunks`, need."""

    task: TaskOrder
    broker: str
    chunks: Sequence[Chunk]
    proposals: tuple[DatasetProposal, ...]
    waits: bool = False
    """No site takes its job sets now: they are cut as for a site of jumbo jobs, and wait."""

    @property
    def sites(self) -> Snapshot:
        """The sites to which the positions of all cuts refer."""
        return self.proposals[0].choice.sites

    @property
    def cuts(self) -> list[Cut]:
        """The jobs of all proposals."""
        return [cut for proposal in self.proposals for cut in proposal.cuts]

    @property
    def short(self) -> list[ShortStream]:
        """Streams that do not suffice for a job."""
        return [one for proposal in self.proposals for one in proposal.short]

    @property
    def nowhere(self) -> tuple[SiteChoice, ...]:
        """If no proposal has a site: the choices, first the ones that may come out otherwise
        soon."""
        choices = [proposal.choice for proposal in self.proposals]
        if any(one.candidates for one in choices):
            return ()
        return tuple(sorted(choices, key=lambda one: one.verdict.lasting))


@dataclass(frozen=True, eq=False)
class SeenGrid:
    """The sites, the knobs and the places of files as a cycle sees them, and the seed of its
    lottery."""

    snapshot: Snapshot
    knobs: Knobs
    locate: Locate
    seed: int


@dataclass(frozen=True, slots=True)
class JobsSoFar:
    """The sites that a task has jobs at, the ends of those jobs, and the jobs of its share that the
    same cycle made, by site."""

    used: Sequence[str] = ()
    past: RecentJobs = NO_JOBS
    made: Mapping[str, int] = field(default_factory=dict)


def files_wanted(task: TaskOrder, jobs: int, most: int) -> int:
    """Up to `most`, the ready files that so many jobs need: their own and one job's more, since the
    last job read is left out while others may belong to it. `most`, unless a job has a fixed number
    of the files of one dataset, which are not put in order first."""
    rules = task.rules
    ordered = rules.group_boundary_id or rules.respect_lb or rules.order_by_lb
    alone = sum(one.ready > 0 for one in task.masters) == 1
    fixed = (rules.files_per_job or 0) if alone and not ordered else 0
    return min(most, (jobs + 1) * fixed) if fixed else most


def all_read(task: TaskOrder, chunks: Sequence[Chunk]) -> bool:
    """Return True if these are all ready files of the task."""
    unread = sum(one.ready > 0 for one in task.masters) - len(chunks)
    return unread <= 0 and not any(chunk.more for chunk in chunks)


def propose(
    task: TaskOrder,
    chunks: Sequence[Chunk],
    grid: SeenGrid,
    has: JobsSoFar,
    most: int,
) -> Proposal:
    """At most `most` jobs of a task. JediError: no job can keep the limits of the task."""
    knobs, used = grid.knobs, has.used
    chunks, ram = of_one_memory(in_order(chunks, task.rules))
    ram_mb = max(task.demand.ram_mb, ram)
    demand = replace(task.demand, ram_mb=ram_mb).roomier(knobs.broker.spare_work_mb)
    task = replace(task, demand=demand)
    strategy = plugins.make("generator", task.vo, task.label)
    broker = broker_of(task.vo, task.label, knobs)
    names = {one.dataset_id: one.name for one in task.inputs}
    so_far, live = Counter(has.made), Counter(has.past.live)
    proposals: list[DatasetProposal] = []
    for some in [[one] for one in chunks] if broker.by_dataset else [list(chunks)]:
        if proposals and most <= 0:
            break
        for one in some if are_whole(task.rules) else ():
            of, weights = names[int(one.master.dataset_ids[0])], strategy.weights(task.demand, one)
            refuse_too_large(weights, one, of, task.rules, knobs)
        unit = strategy.atom(task.rules, task.demand, some)
        data = (
            data_of(task, some, grid.snapshot, grid.locate)
            if broker.wants_data
            else InputAvailability()
        )
        dataset = names[int(some[0].master.dataset_ids[0])] if broker.by_dataset else ""
        need = Requirements(
            task.demand,
            unit,
            task.sites,
            task.request,
            data,
            replace(has.past, live=dict(live)),
            dict(so_far),
            dataset=dataset,
        )
        choice = broker.choose(grid.snapshot, need, knobs, used, grid.seed)
        cuts: Sequence[Cut] = ()
        short: Sequence[ShortStream] = ()
        if choice.candidates:
            cuts, short = plan(some, choice, strategy, task.rules, task.demand, knobs, most)
        named = named_largest(some) if are_whole(task.rules) else ""
        proposals.append(DatasetProposal(need, choice, cuts, short, used, named))
        most -= sum(map(len, cuts))
        at = Counter(choice.sites.sites[i] for cut in cuts for i in cut.sites.tolist())
        so_far, live = so_far + at, live + at
        used = [*dict.fromkeys([*used, *at])]
    return Proposal(task, broker.name, chunks, tuple(proposals))


def planned_anyway(found: Proposal, knobs: Knobs, most: int) -> Proposal:
    """Job sets of a task that no site takes now, where a site may have its jumbo jobs.

    Source: docs/reference/event-service.md#placeholders."""
    first, task = found.proposals[0], found.task
    at = _jumbo_site(task, first.choice.sites) if found.nowhere else None
    if at is None:
        return found
    choice = replace(first.choice, candidates=(at,), weights=(1.0,))
    strategy = plugins.make("generator", task.vo, task.label)
    cuts, short = plan(found.chunks, choice, strategy, task.rules, task.demand, knobs, most)
    proposal = replace(first, choice=choice, cuts=cuts, short=short)
    return replace(found, proposals=(proposal,), waits=True)


def _jumbo_site(task: TaskOrder, sites: Snapshot) -> int | None:
    """The position of the first site that may have jumbo jobs of a task; None: it has none."""
    rules = task.rules
    if rules.event_mode != "es" or not rules.n_jumbo_jobs or task.sites or rules.use_build:
        return None
    for at, words in enumerate(sites.jumbo):
        takes = words not in ("", "0", "false") and sites.status[at] == "online"
        if takes and offers(sites.releases[at], sites.software[at], task.request.release):
            return at
    return None
