"""The nucleus of a task: by space, backlog, where its input lies, and the work that is left there.
Source: JEDI document, "Task brokerage"; docs/reference/nucleus.md."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jedi.brokerage.capability import CAPABLE
from jedi.brokerage.choice import SiteChoice, nothing
from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.disk import ENDPOINT, space_strict
from jedi.brokerage.lottery import Lottery, candidates
from jedi.brokerage.nucleus import ACTIVE, NucleusBroker, nuclei
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import FilterResults, judge
from jedi.brokerage.weights import product
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.jobs.demand import GB
from jedi.model.sites.request import InputAvailability
from jedi.model.sites.snapshot import Snapshot

GB_PER_CORE_DAY = 0.25
"""Output of the remaining work."""
LEAST_WORK_DAYS = 50.0
"""Less work than this counts as one core-day."""
TAPE_WEIGHT = 0.001


def _room_gb(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """Free space, less the future outputs of the nucleus' tasks."""
    promised = sites.given(need.work.all) * GB_PER_CORE_DAY
    reserved = sites.reserved_gb if knobs.taskbroker.count_reserved else 0.0
    return np.asarray(sites.free_gb - reserved - promised)


def _with_a_capable_queue(sites: Snapshot, need: Requirements, knobs: Knobs) -> FilterResults:
    """Nuclei with a queue at their grid site that can run the jobs. A nucleus without one is
    refused for the reasons of its queues."""
    anywhere = replace(
        need, sites=(), data=InputAvailability(), request=replace(need.request, nucleus="")
    )
    found = judge(CAPABLE, sites, anywhere, knobs)
    passed = zip(sites.grid_site, found.passed, strict=True)
    places = {place for place, good in passed if good and place}
    helped = sites.spread("grid_site", lambda place: place in places) > 0
    return replace(found, kept=found.kept | helped)


def _held(sites: Snapshot, need: Requirements, what: str) -> Numbers:
    return sites.given({s: float(getattr(some, what)) for s, some in need.data.at.items()})


BACKLOG = Filter(
    code="nucleus_backlog",
    observed=lambda sites, _need, _knobs: sites.queued_in,
    keep=np.less,
    limit=lambda _sites, _need, knobs: float(knobs.taskbroker.backlog),
    say="{observed:.0f} files are on their way to it, fewer than {limit:.0f} must be",
    remedy="Wait for the transfers, or raise taskbroker.backlog.",
    unit="files",
    lasting=False,
    when=lambda need, knobs: need.request.t1_weight >= 0 or not knobs.taskbroker.backlog_spares_t1,
)
TAKES_OUTPUTS = wanted(
    "endpoint_off",
    lambda sites, _need, _knobs: (sites.takes_wan > 0) & (sites.sends_wan > 0),
    "its endpoint does not exchange files with other sites",
    "Set read_wan and write_wan of the endpoint ON.",
    lasting=False,
    when=lambda _need, knobs: knobs.taskbroker.endpoint_status > 0,
)
ROOM = Filter(
    code="little_room",
    observed=_room_gb,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs.taskbroker.room_tb * 1024,
    say="{observed:.0f} GB are free when its tasks are done, more than {limit:.0f} GB must be",
    remedy="Make room at its endpoint, or lower taskbroker.room_tb.",
    unit="GB",
    lasting=False,
    strict=space_strict,
)
NEAR_SIZE = Filter(
    code="input_elsewhere",
    observed=lambda sites, need, _knobs: _held(sites, need, "bytes") / GB,
    keep=np.greater_equal,
    limit=lambda _sites, need, knobs: knobs.taskbroker.local_percent / 100 * need.data.bytes / GB,
    say="{observed:.1f} GB of the input are there, {limit:.1f} GB must be",
    remedy="Replicate the input to it, or set taskbroker.local_gives_way.",
    unit="GB",
    when=lambda need, knobs: need.data.bytes > knobs.taskbroker.local_above_gb * GB,
)
NEAR_FILES = Filter(
    code="input_files_elsewhere",
    observed=lambda sites, need, _knobs: _held(sites, need, "files"),
    keep=np.greater_equal,
    limit=lambda _sites, need, knobs: knobs.taskbroker.local_percent / 100 * need.data.files,
    say="{observed:.0f} files of the input are there, {limit:.0f} must be",
    remedy="Replicate the input to it, or set taskbroker.local_gives_way.",
    unit="files",
    when=lambda need, knobs: need.data.files > knobs.taskbroker.local_above_files,
)
SOURCE = wanted(
    "no_source",
    lambda sites, need, _knobs: _held(sites, need, "files") >= need.data.files,
    "the input is incomplete there and no endpoint can send it",
    "Set read_wan of an endpoint that has the input ON, or replicate it.",
    lasting=False,
    when=lambda need, knobs: (
        knobs.taskbroker.endpoint_status > 0 and need.data.files > 0 and not need.data.wan_source
    ),
)
CHAIN = wanted(
    "full_chain_only",
    lambda sites, _need, _knobs: ~sites.where("full_chain", "only"),
    "the nucleus takes only full chains",
    "Choose another, or correct catchall.bareNucleus of the site.",
    when=lambda need, _knobs: not need.request.full_chain,
)
NO_CHAIN = wanted(
    "no_full_chain",
    lambda sites, _need, _knobs: ~sites.where("full_chain", ""),
    "the nucleus does not run full chains",
    "Drop fullChain of the task, or set catchall.bareNucleus of the site.",
    when=lambda need, _knobs: need.request.full_chain,
)
LOCALITY = (NEAR_SIZE, NEAR_FILES)
FILTERS = (ACTIVE, BACKLOG, ENDPOINT, TAKES_OUTPUTS, ROOM, SOURCE, *LOCALITY, CHAIN, NO_CHAIN)
"""Besides these, a queue of the nucleus must be able to run the jobs (brokerage/capability.py)."""


def _dispensable(need: Requirements, knobs: Knobs) -> bool:
    """The input may be brought from elsewhere: it is small and read slowly, or time presses."""
    slow = (need.request.io_kb_s or 0.0) <= knobs.taskbroker.local_io_kb_s
    small = need.data.bytes <= knobs.taskbroker.local_max_gb * GB
    return bool(slow and small) or need.request.priority >= int(knobs.taskbroker.local_priority)


def _judged(sites: Snapshot, need: Requirements, knobs: Knobs) -> tuple[FilterResults, bool]:
    """The verdict, and whether it counts in it where the input lies."""
    verdict = judge(FILTERS, sites, need, knobs).joined(_with_a_capable_queue(sites, need, knobs))
    if not knobs.taskbroker.local_gives_way:
        return verdict, True
    if need.waits_days >= knobs.taskbroker.local_days:
        return verdict.without(LOCALITY), False
    relaxed = verdict.without_if_nobody(LOCALITY) if _dispensable(need, knobs) else verdict
    return relaxed, relaxed is verdict


def counted(days: Numbers) -> Numbers:
    """Work that is left, as weights count it."""
    return np.where(days >= LEAST_WORK_DAYS, days, 1.0)


def factors(
    sites: Snapshot, need: Requirements, knobs: Knobs, passed: Bools, local: bool = True
) -> dict[str, Numbers]:
    """Less work ahead and, if it counts where the input lies (`local`), more input, rather disk
    than tape; a preset of today counts free space, too. The queues of one grid site share its
    weight."""
    found = {"work": 1 / counted(sites.given(need.work.ahead)), "queues": 1 / _queues(sites)}
    if local:
        found["tape"] = _tape(sites, need)
    near = (
        local
        and need.data.bytes > 0
        and (
            not knobs.taskbroker.data_if_intensive
            or need.request.io_kb_s is None
            or need.request.io_kb_s > knobs.taskbroker.local_io_kb_s
        )
    )
    if near:
        found["data"] = _part(_held(sites, need, "bytes") / need.data.bytes, passed)
    if knobs.taskbroker.space_counts:
        room = np.clip(_room_gb(sites, need, knobs), 1.0, 1e9)
        found["space"] = np.where(np.isinf(sites.total_gb), 1.0, room / sites.total_gb)
        found["free"] = np.minimum(knobs.taskbroker.free_cutoff_tb, room / 1024)
    return found


def _queues(sites: Snapshot) -> Numbers:
    """The number of queues at the grid site of each nucleus."""
    names: dict[str, int] = {}
    for place in sites.grid_site:
        names[place] = names.get(place, 0) + 1
    return sites.spread("grid_site", lambda place: names[place] if place else 1)


def _tape(sites: Snapshot, need: Requirements) -> Numbers:
    disk, both = _held(sites, need, "disk_bytes"), _held(sites, need, "bytes")
    return np.where((both > 0) & (disk == 0), TAPE_WEIGHT, 1.0)


def _part(part: Numbers, passed: Bools) -> Numbers:
    """Parts of the input, never 0: a candidate with nothing gets the smallest part of any other."""
    some = part[passed & (part > 0)]
    return np.where(part > 0, part, some.min() if len(some) else 1.0)


def by_weight(snapshot: Snapshot, need: Requirements, knobs: Knobs, seed: int) -> SiteChoice:
    """One nucleus, drawn by weight from the ones that pass."""
    sites = nuclei(snapshot, need)
    verdict, local = _judged(sites, need, knobs)
    made = factors(sites, need, knobs, verdict.passed, local)
    worth = product(made)
    found = candidates(sites.sites, verdict.passed, worth, (), len(sites))
    if found:
        drawn = Lottery([float(worth[i]) for i in found], [0.0] * len(found), seed).draw()
        found = [found[drawn]]
    return SiteChoice.of(verdict, found, sites, made, worth, nothing(sites), seed)


BY_WEIGHT = NucleusBroker(
    by_weight,
    wants_data=True,
    why="was drawn by weight",
    retry_knob="taskbroker.retry_s",
    soon_knob="taskbroker.retry_soon_s",
)
