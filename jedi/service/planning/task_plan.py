"""`jedi-task plan`: forecast of a task before its submission. It writes nothing.

The functions are those of the agents: refiner, feeder, brokers and generator.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jedi.brokerage.brokers import broker_of
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.nucleus_requirements import data_of, measured, need_of, with_data
from jedi.brokerage.whatif import SiteView, chosen, views
from jedi.contentsfeeder.feed import PSEUDO_LFN
from jedi.core import states
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.eventservice.job_sets import ordinary_sites
from jedi.jobgenerator.generate import resources
from jedi.jobgenerator.inputs import readings
from jedi.jobgenerator.locating import where_of
from jedi.jobgenerator.plan import Cut
from jedi.jobgenerator.propose import JobsSoFar, Proposal, SeenGrid, propose
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Files
from jedi.model.jobs.scouting import Release
from jedi.model.splitting.split_rules import SCOUTED, SplitRules
from jedi.service.brokerage.system_state import SystemState
from jedi.service.planning.planned_task import PlannedTask, WantedTask, feed
from jedi.taskbuffer.jobs import orders, ready_files


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the largest value of a quantity over all jobs."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class SiteJobs:
    """Jobs at a site, and the wait in seconds of the first; None: `unknown` has the reason."""

    site: str
    weight: float
    jobs: int
    wait_s: float | None
    unknown: str | None


@dataclass(frozen=True, slots=True)
class BrokerStep:
    """A broker's choice: `chosen` sites, best first, and its verdict on every site. `dataset`: its
    dataset if each is brokered alone, else empty."""

    broker: str
    chosen: tuple[str, ...]
    sites: tuple[SiteView, ...]
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class JobSetPlan:
    """The jobs are job sets: consumers begin to process their ranges of events. `mode`: es, cloning
    or fine."""

    mode: str
    consumers: int
    ranges: int


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The forecast of a task. Files are those of its master datasets, whole ones where jobs get
    ranges of their events; `left_out`: those that no job gets, by reason; `scouts` of the jobs come
    first, 0: it has none. `walltime_s` None: the walltime is unknown; memory and disk in MB.
    `local` jobs find all their input at their site. `brokerage`, `at` and `wait_s` are those of the
    jobs that come first; `others`: the choices for further datasets. `wait_s`: until the first job
    starts, None: `unknown` has the reason. `why_not`: the reason for no jobs. `continues`: the task
    that a submission continues; then files are its remaining ones. `job_sets`: that of tasks whose
    events are handed out while jobs run."""

    task_name: str
    owner: str
    work_queue: str
    share: str
    priority: int
    seed: int
    jobs: int
    scouts: int
    files: int
    files_left: int
    left_out: dict[str, int]
    events: int
    files_per_job: Span | None
    events_per_job: Span | None
    cores: Span | None
    walltime_s: Span | None
    memory_mb: Span | None
    disk_mb: Span | None
    local: int
    at: tuple[SiteJobs, ...]
    wait_s: float | None
    unknown: str | None
    nucleus: BrokerStep | None
    brokerage: BrokerStep | None
    others: tuple[BrokerStep, ...] = ()
    why_not: str | None = None
    warnings: tuple[str, ...] = ()
    continues: int | None = None
    job_sets: JobSetPlan | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """Jobs of one stage: the broker's choice, the jobs column by column, and the files that they
    use."""

    found: Proposal
    figures: Mapping[str, list[Any]]
    file_ids: Ints


def make(known: SystemState, wanted: WantedTask) -> tuple[TaskPlan, Sequence[SiteChoice]]:
    """Return the plan of a task and, if it gets jobs, the broker's choices of sites for the first
    of them. BadInput: the task is malformed; JediError: its input is unusable."""
    fed, again = feed(known, wanted), wanted.again
    nucleus: BrokerStep | None = None
    if again and not fed.has_input:
        return replace(_plan(known, fed, wanted.owner, None, []), why_not="nothing_left"), ()
    if fed.feed.needs_nucleus:
        choice = _nucleus(known, fed)
        nucleus = _choosing("nucleus", choice)
        if choice.best is None:
            return _plan(known, fed, wanted.owner, nucleus, []), ()
        fed = replace(fed, row=fed.row._replace(nucleus=choice.best))
    stages = _stages(known, fed)
    _register(known, fed, stages)
    choices = [part.choice for part in stages[0].found.proposals]
    return _plan(known, fed, wanted.owner, nucleus, stages), choices


def _nucleus(known: SystemState, fed: PlannedTask) -> SiteChoice:
    row = fed.row
    broker = broker_of(row.vo, row.prod_source_label, known.knobs).nucleus
    snapshot, need = measured(known.sites, known.data.space), need_of(row, known.knobs)
    if broker.wants_data:
        names = [
            (one.dataset_name, len(set(fed.files[one.dataset_id].lfns)))
            for one in fed.inputs
            if one.type == "input"
        ]
        data = data_of(snapshot, names, known.data.replicas, known.knobs)
        need = with_data(need, row.workqueue_id or 0, data, known.pledges, 0.0)
    return broker.choose(snapshot, need, known.knobs, known.seed)


def _register(known: SystemState, fed: PlannedTask, stages: Sequence[Stage]) -> None:
    """Raise the error that the registration of the outputs would raise."""
    at = dict(zip(known.sites.sites, known.sites.endpoint, strict=True))
    used = sorted({at[site] for one in stages for site in one.figures.get("site", ())})
    for one in fed.task.datasets if used else ():
        if one.type in states.MADE_TYPES:
            collected = at.get(fed.row.nucleus or "") if one.type in states.PRODUCT_TYPES else None
            place = one.destination or collected
            for endpoint in [place] if place else used:
                is_container = one.type in states.TEMPLATE_TYPES
                known.data.may_create(one.name, endpoint, container=is_container)


def _all_at_once(knobs: Knobs) -> Knobs:
    """Return the knobs without limits per cycle: the plan covers all jobs."""
    return Knobs({**knobs, "broker.bootstrap_empty": 0})


def _stages(known: SystemState, fed: PlannedTask) -> list[Stage]:
    """Yield the scouts, if there are any, then the other jobs, with unchanged estimates."""
    if not fed.scouts:
        return [_stage(known, fed, fed.files, None)]
    limits = {one.dataset_id: one for one in fed.scouts}
    free = {i: _first(files, limits[i]) if i in limits else files for i, files in fed.files.items()}
    first = _stage(known, fed, free, None)
    left = {
        i: files.take(np.flatnonzero(~np.isin(files.file_ids, first.file_ids)))
        for i, files in fed.files.items()
    }
    if not first.found.cuts or not any(len(left[i]) for i in limits):
        return [first]
    rules = {**(fed.row.rules or {}), "use_scout": SCOUTED}
    rest = replace(fed, row=fed.row._replace(rules=rules))
    return [first, _stage(known, rest, left, first)]


def _first(files: Files, limit: Release) -> Files:
    """Return the files or ranges of events of a dataset that scouts get."""
    rows = np.arange(min(limit.n_files, len(files)))
    if limit.n_events is not None:
        rows = rows[np.cumsum(files.events[rows]) <= limit.n_events]
    return files.take(rows)


def _stage(
    known: SystemState, fed: PlannedTask, files: Mapping[int, Files], before: Stage | None
) -> Stage:
    """Return the jobs that these files make after the earlier jobs."""
    inputs = [
        one._replace(n_files_to_be_used=len(files.get(one.dataset_id, ()))) for one in fed.inputs
    ]
    order = orders.Claimed(fed.row, inputs, (), fed.task.job_params_template).order()

    def read(limits: Mapping[int, int]) -> dict[int, Files]:
        return {i: files[i].take(np.arange(min(n, len(files[i])))) for i, n in limits.items()}

    hard_max = known.knobs.jobgen.hard_max_files_per_job
    chunks = ready_files.chunks(read, order, sys.maxsize, hard_max)
    if not chunks:
        raise JediError("The task has no input file yet.", code="no_ready_files")
    made = Counter(before.figures["site"]) if before else {}
    grid = SeenGrid(known.sites, _all_at_once(known.knobs), known.data.locate, known.seed)
    has = JobsSoFar(used=tuple(made), made=made)
    return _figures(known, propose(order, chunks, grid, has, sys.maxsize))


def _figures(known: SystemState, found: Proposal) -> Stage:
    """Return the needs of a proposal's jobs."""
    sites, cuts = found.sites, found.cuts
    if not cuts:
        return Stage(found, {}, np.empty(0, np.int64))
    reads, _ = readings(cuts, [where_of(found.task, cut, known.data.locate) for cut in cuts], sites)
    asked = resources(found.task.demand, cuts, reads, sites, known.knobs.broker.memory_factor)
    which = np.concatenate([cut.sites for cut in cuts])
    events = [np.add.reduceat(cut.chunk.master.events[: cut.stops[-1]], cut.starts) for cut in cuts]
    away = np.zeros(len(which), np.int64)
    for one in reads:
        away += np.bincount(one.jobs, weights=~one.local, minlength=len(which)).astype(np.int64)
    used = [one.files.file_ids[one.rows] for one in reads if one.tracked]
    figures = {
        **asked,
        "site": [sites.sites[i] for i in which.tolist()],
        "files": [
            _whole(cut.chunk.master.lfns[start:stop])
            for cut in cuts
            for start, stop in zip(cut.starts.tolist(), cut.stops.tolist(), strict=True)
        ],
        "events": np.concatenate(events).tolist(),
        "local": (away == 0).tolist(),
        "ranges": np.concatenate([_ranges(found.task.rules, cut) for cut in cuts]).tolist(),
    }
    return Stage(found, figures, np.concatenate(used))


def _ranges(rules: SplitRules, cut: Cut) -> Ints:
    """The ranges of events of each job, if it is a job set."""
    events = cut.chunk.master.events[: cut.stops[-1]]
    size = rules.n_events_per_range
    counts = np.ones_like(events) if size is None else -(-events // size)
    return np.asarray(np.add.reduceat(counts, cut.starts))


def _choosing(broker: str, choice: SiteChoice, dataset: str = "") -> BrokerStep:
    sites = tuple(site for site, _ in chosen(choice))
    return BrokerStep(broker, sites, tuple(views(choice)), dataset)


def _plan(
    known: SystemState,
    fed: PlannedTask,
    owner: str,
    nucleus: BrokerStep | None,
    stages: Sequence[Stage],
) -> TaskPlan:
    row = fed.row
    masters = _masters(fed)
    files = sum(_whole(one.lfns) for one in masters)
    first = stages[0].found if stages else None
    choices = (
        [_choosing(first.broker, part.choice, part.need.dataset) for part in first.proposals]
        if first
        else []
    )
    plan = TaskPlan(
        task_name=row.task_name,
        owner=owner,
        work_queue=fed.queue,
        share=row.gshare or "",
        priority=row.current_priority,
        seed=known.seed,
        jobs=0,
        scouts=0,
        files=files,
        files_left=files,
        left_out=dict(Counter(fed.left_out)),
        events=sum(int(one.events.sum()) for one in masters),
        files_per_job=None,
        events_per_job=None,
        cores=None,
        walltime_s=None,
        memory_mb=None,
        disk_mb=None,
        local=0,
        at=(),
        wait_s=None,
        unknown="no_jobs",
        nucleus=nucleus,
        brokerage=choices[0] if choices else None,
        others=tuple(choices[1:]),
        why_not=_why_not(first),
        continues=fed.again.jedi_task_id if fed.again else None,
    )
    made = [one for one in stages if one.found.cuts]
    return _with_jobs(plan, fed, made) if made else plan


def _masters(fed: PlannedTask) -> list[Files]:
    """The files, or ranges of their events, of the masters."""
    return [
        fed.files[one.dataset_id]
        for one in fed.inputs
        if one.master_id is None and one.dataset_id in fed.files
    ]


def _whole(lfns: Sequence[str]) -> int:
    """The number of files with these names; one that stands in for a file counts as often as it
    comes."""
    return len(set(lfns)) if PSEUDO_LFN not in lfns[:1] else len(lfns)


def _why_not(found: Proposal | None) -> str | None:
    if found is None:
        return "no_nucleus"
    if found.nowhere:
        return "no_site_fits" if found.nowhere[0].verdict.lasting else "no_site_now"
    return None if found.cuts else "secondary_files_short"


def _with_jobs(plan: TaskPlan, fed: PlannedTask, stages: Sequence[Stage]) -> TaskPlan:
    first = stages[0].figures
    every = {name: [value for one in stages for value in one.figures[name]] for name in first}
    used = np.concatenate([one.file_ids for one in stages])
    rest = (files.take(np.flatnonzero(~np.isin(files.file_ids, used))) for files in _masters(fed))
    at = _site_jobs(stages[0].found, Counter(first["site"]))
    waits = [one.wait_s for one in at if one.wait_s is not None and one.jobs]
    return replace(
        plan,
        jobs=len(every["site"]),
        scouts=len(first["site"]) if fed.scouts else 0,
        files_left=sum(_whole(files.lfns) for files in rest),
        files_per_job=_span(every["files"]),
        events_per_job=_span(every["events"]) if any(every["events"]) else None,
        cores=_span(every["cores"]),
        walltime_s=_span(every["walltime_s"]) if any(every["walltime_s"]) else None,
        memory_mb=_span(every["memory_mb"]) if any(every["memory_mb"]) else None,
        disk_mb=_span(every["disk_mb"]),
        local=sum(every["local"]),
        at=tuple(at),
        wait_s=min(waits, default=None),
        unknown=None if waits else "no_start_rate",
        job_sets=_job_sets(stages[0].found, every),
    )


def _job_sets(found: Proposal, every: Mapping[str, Sequence[Any]]) -> JobSetPlan | None:
    rules = found.task.rules
    usual = ordinary_sites(rules, found.sites)
    ranges = [
        n for site, n in zip(every["site"], every["ranges"], strict=True) if site not in usual
    ]
    if rules.event_mode is None or not ranges:
        return None
    return JobSetPlan(rules.event_mode, rules.consumers_per_set * len(ranges), sum(ranges))


def _span(figures: Sequence[float]) -> Span:
    return Span(min(figures), max(figures))


def _site_jobs(found: Proposal, jobs: Mapping[str, int]) -> list[SiteJobs]:
    """Return the jobs at the chosen sites of all datasets. A new job waits for the jobs that
    already wait there; these start at the recent rate."""
    rate = found.sites.starts_per_h.tolist()
    result: dict[str, SiteJobs] = {}
    for choice in (part.choice for part in found.proposals):
        queued = choice.queued.tolist()
        for place, weight in zip(choice.candidates, choice.weights, strict=True):
            site, known = found.sites.sites[place], 0 < rate[place] < float("inf")
            wait_s = (queued[place] + 1) / rate[place] * 3600 if known else None
            unknown = None if known else "no_start_rate"
            one = SiteJobs(site, weight, jobs.get(site, 0), wait_s, unknown)
            result.setdefault(site, one)
    return list(result.values())
