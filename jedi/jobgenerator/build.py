"""Builds: jobs run where the software of their task was built; elsewhere a build comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jedi.core.knobs import Knobs
from jedi.jobgenerator.locating import Locate
from jedi.jobgenerator.plan import Cut, only
from jedi.model.datasets.chunk import Chunk, Files, Secondary
from jedi.model.jobs.building import Builds
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.placeholders import LIBRARY

_WANTED = ("ready", "finished")


def with_libraries(
    cuts: Sequence[Cut], builds: Builds, sites: Snapshot
) -> tuple[list[Cut], dict[str, int]]:
    """The jobs at sites that have the software, which read it; the endpoints of the other sites,
    each with the first site (position) that jobs were planned at."""
    found: list[Cut] = []
    lacking: dict[str, int] = {}
    for cut in cuts:
        place = {int(site): _library(int(site), builds, sites) for site in np.unique(cut.sites)}
        for endpoint in dict.fromkeys(filter(None, place.values())):
            here = np.array([place[int(site)] == endpoint for site in cut.sites])
            found.append(_reading(only(cut, here), builds.libraries[endpoint]))
        for site in cut.sites.tolist():
            if place[site] is None:
                lacking.setdefault(sites.endpoint[site], site)
    return found, lacking


def roomier(known: Builds, knobs: Knobs) -> Builds:
    """With the spare room for work that every job gets."""
    demand = known.order.demand.roomier(knobs.broker.spare_work_mb)
    return replace(known, order=replace(known.order, demand=demand))


def still_there(known: Builds, locate: Locate) -> Builds:
    """Without files that data management knows no more."""
    lfns = [files.lfns[0] for files in known.libraries.values()]
    located = locate(known.order.inputs[1].name, lfns) if lfns else {}
    there = {e: f for e, f in known.libraries.items() if e in located[f.lfns[0]]}
    return replace(known, libraries=there)


def to_build(builds: Builds, lacking: dict[str, int]) -> dict[str, int]:
    """The places that need a build: none is under way there, none failed for good."""
    return {e: site for e, site in lacking.items() if builds.statuses.get(e, "ready") in _WANTED}


def cut_builds(files: Files, at: Sequence[int]) -> Cut:
    """A job for each pseudo file, at these sites."""
    stops = np.arange(1, len(files) + 1)
    return Cut(Chunk("BUILD", files, (), more=False), stops - 1, stops, np.array(at, np.int64), ())


def _library(site: int, builds: Builds, sites: Snapshot) -> str | None:
    """The endpoint where a site finds the software."""
    reach = (sites.endpoint[site], *sites.endpoints[site])
    return next((endpoint for endpoint in reach if endpoint in builds.libraries), None)


def _reading(cut: Cut, library: Files) -> Cut:
    """The same jobs, each of which reads the library, too."""
    one = Secondary(LIBRARY, library, whole=True, repeated=True)
    nothing = np.zeros(len(cut), np.int64)
    chunk = replace(cut.chunk, secondaries=(*cut.chunk.secondaries, one))
    return replace(cut, chunk=chunk, follow=(*cut.follow, (nothing, nothing + 1)))
