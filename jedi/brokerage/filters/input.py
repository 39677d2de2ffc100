"""Filters on the input that a site needs before its jobs can start."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.jobs.demand import GB
from jedi.model.sites.snapshot import Snapshot


def missing_bytes(sites: Snapshot, need: Requirements) -> Numbers:
    """Bytes that are not on disk at each site; files on tape are missing, too."""
    on_disk = {site: some.disk_bytes for site, some in need.data.at.items()}
    return np.maximum(need.data.bytes - sites.given(on_disk), 0.0)


def missing_files(sites: Snapshot, need: Requirements) -> Numbers:
    """Files that are not on disk at each site."""
    on_disk = {site: float(some.disk_files) for site, some in need.data.at.items()}
    return np.maximum(need.data.files - sites.given(on_disk), 0.0)


def io_kb_s(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The input rate of a job per second, in units of 1000 bytes: input divided by execution time,
    or the scouts' measurement; 0 if unknown."""
    measured = np.full(len(sites), need.request.io_kb_s or 0.0)
    if not knobs.broker.io_from_input:
        return measured
    cores = need.demand.cores_at(sites.cores)
    seconds = need.demand.walltime_s(need.atom, cores, sites.core_power)
    if seconds is None:
        return measured
    return need.atom.bytes / 1000.0 / np.maximum(seconds, 1.0)


def _intensive(sites: Snapshot, need: Requirements, knobs: Knobs) -> Bools:
    return np.asarray(io_kb_s(sites, need, knobs) > knobs.broker.io_intensive_kb_s)


def _applies(need: Requirements, knobs: Knobs) -> bool:
    request = need.request
    events = request.event_service and knobs.broker.io_spares_events
    return need.data.bytes > 0 and not (len(need.sites) == 1 or request.merging or events)


_REMEDY = "Wait for a site that has the data, replicate it, or raise broker.{}."
MUCH_TO_MOVE = Filter(
    code="much_to_move",
    observed=lambda sites, need, knobs: np.where(
        _intensive(sites, need, knobs), missing_bytes(sites, need) / GB, 0.0
    ),
    keep=np.less,
    limit=lambda _sites, _need, knobs: knobs.broker.move_gb,
    say="{observed:.1f} GB of input are missing, fewer than {limit:.1f} GB must be for such jobs",
    remedy=_REMEDY.format("move_gb"),
    unit="GB",
    when=_applies,
)
MANY_TO_MOVE = Filter(
    code="many_to_move",
    observed=lambda sites, need, knobs: np.where(
        _intensive(sites, need, knobs), missing_files(sites, need), 0.0
    ),
    keep=np.less,
    limit=lambda _sites, _need, knobs: float(knobs.broker.move_files),
    say="{observed:.0f} files of input are missing, fewer than {limit:.0f} must be for such jobs",
    remedy=_REMEDY.format("move_files"),
    unit="files",
    when=_applies,
)
LOCAL_ONLY = Filter(
    code="local_data_only",
    observed=lambda sites, need, _knobs: np.where(
        sites.local_only > 0, missing_files(sites, need), 0.0
    ),
    keep=np.less_equal,
    limit=lambda _sites, _need, _knobs: 0.0,
    say="the site processes only input that it has, {observed:.0f} files are missing",
    remedy="Replicate the input to the site, or choose another.",
    unit="files",
)
IO_INTENSITY = Filter(
    code="io_intensive",
    observed=lambda sites, _need, _knobs: sites.max_io_kb_s,
    keep=np.greater_equal,
    limit=lambda _sites, need, _knobs: need.request.io_kb_s or 0.0,
    say="jobs may read and write {observed:.0f} kB/s, these need {limit:.0f} kB/s",
    remedy="Choose another site, or raise max_io_intensity of the site.",
    unit="kB/s",
    when=lambda need, knobs: (
        bool(knobs.broker.site_io_limits)
        and need.request.io_kb_s is not None
        and not need.request.merging
    ),
)


def _disk_io_limit(sites: Snapshot, knobs: Knobs) -> Numbers:
    default = knobs.broker.max_disk_io_kb_s or np.inf
    return np.where(np.isinf(sites.max_disk_io_kb_s), default, sites.max_disk_io_kb_s)


def _disk_io(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The disk I/O of a job on one core, where the site has reached its limit."""
    figure = need.request.disk_io_kb_s or 0.0
    own = figure / sites.cores if need.demand.cores != 1 else np.full(len(sites), figure)
    return np.where(sites.disk_io_kb_s > _disk_io_limit(sites, knobs), own, 0.0)


DISK_IO = Filter(
    code="disk_io",
    observed=_disk_io,
    keep=np.less_equal,
    limit=lambda sites, _need, knobs: _disk_io_limit(sites, knobs),
    say="the disks are busy; jobs may use {limit:.0f} kB/s per core, these need {observed:.0f}",
    remedy="Wait until other jobs of the site are done, or raise maxdiskio of the site.",
    unit="kB/s",
    lasting=False,
    when=lambda need, knobs: (
        bool(knobs.broker.site_io_limits) and need.request.disk_io_kb_s is not None
    ),
)
NO_DATA = wanted(
    "no_data",
    lambda sites, need, _knobs: data_sites(sites, need),
    "the input is not at the site",
    "Wait for the sites that have the data, replicate it, or set analysis.transfer_input to "
    "always.",
    when=lambda need, _knobs: need.data.files > 0,
)


def data_sites(sites: Snapshot, need: Requirements) -> Bools:
    """Sites that hold all of the input: on disk, if any does, else on disk or tape; if none holds
    all, sites that hold some. Source: docs/reference/brokerage.md#analysis."""
    disk, both = (
        sites.given({site: float(getattr(some, what)) for site, some in need.data.at.items()})
        for what in ("disk_files", "files")
    )
    for files, enough in ((disk, need.data.files), (both, need.data.files), (both, 1)):
        if (files >= enough).any():
            return np.asarray(files >= enough)
    return np.zeros(len(sites), bool)
