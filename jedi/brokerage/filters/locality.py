"""Queues that are at home: in the nucleus of the task, or among the T1s of its cloud."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.requirements import Requirements
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


def in_nucleus(sites: Snapshot, need: Requirements) -> Bools:
    """Queues of the nucleus' grid site, and queues that share its storage."""
    name = need.request.nucleus
    if not name:
        return np.zeros(len(sites), bool)
    inside = sites.where("sites", name) | sites.where("grid_site", name)
    if (at := sites.position(name)) is not None:
        for column in ("grid_site", "endpoint"):
            if same := getattr(sites, column)[at]:
                inside |= sites.where(column, same)
    return np.asarray(inside)


def _hospital(name: str) -> bool:
    return "HOSPITAL" in name


def t1s(sites: Snapshot, need: Requirements) -> Bools:
    """Queues of nuclei for tasks of the whole world, else T1s and hospitals of the cloud."""
    if not need.request.cloud:
        return sites.where("role", "nucleus")
    hospitals = sites.marked("sites", _hospital)
    return np.asarray(sites.where("tier", "T1") | hospitals)


def at_home(sites: Snapshot, need: Requirements) -> Bools:
    """The sites to which the T1 weight applies."""
    return in_nucleus(sites, need) if need.request.nucleus else t1s(sites, need)
