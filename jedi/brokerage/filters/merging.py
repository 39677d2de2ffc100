"""Merge jobs go to their files, and not back to a site where no pilot took them.
Source: docs/reference/merging.md#sites-of-merge-jobs."""

from __future__ import annotations

from jedi.brokerage.filters import wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


def _with_files(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    files = sites.given({site: float(some.files) for site, some in need.data.at.items()})
    return files >= need.data.files


MERGE_ELSEWHERE = wanted(
    "merge_elsewhere",
    _with_files,
    "the files to be merged lie at other sites",
    "Nothing is wrong: if no site with the files takes the merge job, others follow.",
    lasting=False,
    when=lambda need, _knobs: need.near,
)
MERGE_LEFT = wanted(
    "merge_left",
    lambda sites, need, _knobs: sites.spread("sites", lambda name: name not in need.left),
    "no pilot took the last merge job of these files there",
    "Check why no pilot takes jobs at the site.",
    lasting=False,
    when=lambda need, _knobs: bool(need.left),
)
MERGES = (MERGE_ELSEWHERE, MERGE_LEFT)
