"""From new jobs to job sets: the jobs wait, consumers process ranges of their events.

Source: docs/reference/event-service.md#job-sets.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TypeVar

import numpy as np

from jedi.eventservice import set_sites
from jedi.model.arrays import Ints
from jedi.model.jobs.events import WAITING_CO_JUMBO, NewConsumer, NewJobSets, NewRanges
from jedi.model.jobs.generation import EventUse, NewJobs, TaskOrder
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import SplitRules

T = TypeVar("T")
MOST_SITES = 10
"""Sites that a job set remembers for its consumers. Software that is built is at one of them."""


def as_job_sets(
    task: TaskOrder, jobs: NewJobs, sites: Snapshot, candidates: Sequence[int]
) -> NewJobs:
    """The same jobs as those that merge, which wait, with consumers and ranges beside each.
    `candidates`: positions of the sites that may have consumers, best first."""
    rules, mode = task.rules, task.rules.event_mode
    assert mode is not None
    usual = ordinary_sites(rules, sites)
    if ordinary := {job for job, at in zip(jobs.panda_ids, jobs.sites, strict=True) if at in usual}:
        return _in_part(task, jobs, sites, candidates, ordinary)
    places = {
        name: sites_of_set(rules, sites, candidates, at)
        for at, name in enumerate(sites.sites)
        if name in set(jobs.sites)
    }
    first = {site: first_sites(sites, found, rules) for site, found in places.items()}
    consumers = [
        _consumer(job, status, first[site], sites, number)
        for job, site, status in zip(jobs.panda_ids, jobs.sites, jobs.statuses, strict=True)
        for number in range(rules.consumers_per_set)
    ]
    return replace(
        jobs,
        statuses=["waiting"] * len(jobs),
        events=[],
        sets=NewJobSets(
            mode=mode,
            clone=rules.use_job_cloning,
            retries=rules.consumer_retries,
            places={site: [sites.sites[at] for at in found] for site, found in places.items()},
            jumbo=bool(rules.n_jumbo_jobs) and not task.sites,
            ranges=ranges_of(rules, jobs.events),
            consumers=consumers,
        ),
    )


def ordinary_sites(rules: SplitRules, sites: Snapshot) -> set[str]:
    """The sites where jobs are ordinary ones, without consumers: those that take jobs of all kinds,
    if the task wants that. Source: docs/reference/event-service.md#ordinary-jobs."""
    if not rules.switch_es_to_normal:
        return set()
    return {sites.sites[at] for at in np.flatnonzero(sites.where("job_seed", "all")).tolist()}


def _in_part(
    task: TaskOrder, jobs: NewJobs, sites: Snapshot, candidates: Sequence[int], ordinary: Set[int]
) -> NewJobs:
    """The same jobs: those of `ordinary` ids as ordinary ones, the others as job sets."""
    rules, seconds = task.rules, task.demand.base_walltime_s
    kinds = ["normal" if job in ordinary else "es_merge" for job in jobs.panda_ids]
    rest = replace(jobs, kinds=kinds).of_sets
    events = [use.of(ordinary, within=False) for use in jobs.events]
    others = replace(
        rest,
        kinds=None,
        events=events,
        statuses=[
            status for status, kind in zip(jobs.statuses, kinds, strict=True) if kind == "es_merge"
        ],
    )
    usual = rules.model_copy(update={"switch_es_to_normal": None})
    made = as_job_sets(replace(task, rules=usual), others, sites, candidates) if rest else None

    def choose(own: Sequence[T], waiting: Sequence[T]) -> list[T]:
        return [
            a if kind == "normal" else b for a, b, kind in zip(own, waiting, kinds, strict=True)
        ]

    alone = [
        round((s - seconds) * rules.sharers + seconds) if s > seconds else s
        for s in jobs.walltime_s
    ]
    own = [
        command.replace("$PANDAID", str(job))
        for command, job in zip(jobs.beside, jobs.panda_ids, strict=True)
    ]
    return replace(
        jobs,
        kinds=kinds,
        statuses=choose(jobs.statuses, ["waiting"] * len(jobs)),
        commands=choose(own, jobs.commands),
        walltime_s=choose(alone, jobs.walltime_s),
        events=[use.of(ordinary) for use in jobs.events] if rules.by_events else [],
        sets=made.sets if made else None,
    )


def as_placeholders(jobs: NewJobs) -> NewJobs:
    """The same job sets at no site: their consumers are placeholders until a site takes real
    ones."""
    sets = jobs.sets
    assert sets is not None
    waiting = [NewConsumer(one.jobset_id, WAITING_CO_JUMBO) for one in sets.consumers]
    return replace(
        jobs,
        sites=[WAITING_CO_JUMBO] * len(jobs),
        sets=replace(sets, places={WAITING_CO_JUMBO: []}, consumers=waiting),
    )


def sites_of_set(
    rules: SplitRules, sites: Snapshot, candidates: Sequence[int], first: int
) -> list[int]:
    """The sites that a job set remembers for its consumers, the planned one first."""
    most = 1 if rules.use_build else MOST_SITES
    return spread(sites, candidates, first, max(most, rules.sites_per_set))


def spread(sites: Snapshot, candidates: Sequence[int], first: int, most: int) -> list[int]:
    """The sites of a job set's consumers: the planned one first, then the best others with as many
    cores, for all consumers ask the same."""
    alike = [at for at in candidates if at != first and sites.cores[at] == sites.cores[first]]
    return [first, *alike][:most]


def first_sites(sites: Snapshot, places: Sequence[int], rules: SplitRules) -> Sequence[int]:
    """The sites of a job set's first consumers: those whose pieces can be merged together. Copies
    of a job leave no pieces."""
    if not rules.use_job_cloning:
        endpoints = [sites.endpoint[at] for at in places]
        places = [places[n] for n in set_sites.joint(endpoints, sites.readers)]
    return places[: rules.sites_per_set]


def ranges_of(rules: SplitRules, uses: Sequence[EventUse]) -> NewRanges:
    """The inputs of jobs as material of ranges. Events are numbered within each file
    (inFilePosEvtNum), else through all files."""
    shifts = _joined([use.offsets for use in uses])
    if rules.in_file_pos_evt_num:
        shifts = np.zeros_like(shifts)
    return NewRanges(
        jobset_ids=_joined([use.panda_ids for use in uses]),
        file_ids=_joined([use.file_ids for use in uses]),
        dataset_ids=_joined([use.dataset_ids for use in uses]),
        starts=_joined([use.starts for use in uses]),
        ends=_joined([use.ends for use in uses]),
        shifts=np.maximum(shifts, 0),  # below: the events of the file are not known
        size=rules.n_events_per_range,
        attempts=rules.range_attempts,
    )


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _consumer(
    jobset_id: int, status: str, places: Sequence[int], sites: Snapshot, number: int
) -> NewConsumer:
    """The first consumers take the sites in turn."""
    at = places[number % len(places)]
    return NewConsumer(jobset_id, sites.sites[at], at == places[0] and status == "activated")
