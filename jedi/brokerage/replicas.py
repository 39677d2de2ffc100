"""Locations of the input of jobs, by site, for brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jedi.model.arrays import Bools, Ints
from jedi.model.sites.request import InputAvailability, SiteInput
from jedi.model.sites.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Replicas:
    """A dataset, and its files and bytes at endpoints."""

    files: int
    bytes: float
    at: Mapping[str, tuple[int, float]]


def of_files(snapshot: Snapshot, sizes: Ints, where: Mapping[str, Bools]) -> InputAvailability:
    """From single files: their bytes, and by endpoint which of them are there."""
    at = {}
    for site, endpoints in zip(snapshot.sites, snapshot.endpoints, strict=True):
        if known := [name for name in endpoints if name in where]:
            disk = _any([where[name] for name in known if name not in snapshot.tapes], len(sizes))
            both = _any([where[name] for name in known], len(sizes))
            at[site] = SiteInput(
                float(sizes[disk].sum()), int(disk.sum()), float(sizes[both].sum()), int(both.sum())
            )
    open_to_all = [mask for name, mask in where.items() if name not in snapshot.unreadable]
    source = bool(_any(open_to_all, len(sizes)).all())
    return InputAvailability(float(sizes.sum()), len(sizes), source, at)


def join(
    sizes: Sequence[Ints], where: Sequence[Mapping[str, Bools]]
) -> tuple[Ints, dict[str, Bools]]:
    """Several lists of files as one: their bytes, and by endpoint which of them are there."""
    nowhere = [np.zeros(len(one), bool) for one in sizes]
    endpoints = sorted({name for one in where for name in one})
    there = {
        name: np.concatenate([one.get(name, no) for one, no in zip(where, nowhere, strict=True)])
        for name in endpoints
    }
    return np.concatenate([np.zeros(0, np.int64), *sizes]), there


def _any(masks: Sequence[Bools], n: int) -> Bools:
    return np.logical_or.reduce(masks) if masks else np.zeros(n, bool)


def of_replicas(
    snapshot: Snapshot, datasets: Sequence[Replicas], complete_percent: float
) -> InputAvailability:
    """From whole datasets: of each counts the best replica that a site has. A dataset has a source
    where so much of it is at an endpoint that others may read."""
    at = {}
    for site, endpoints in zip(snapshot.sites, snapshot.endpoints, strict=True):
        disk = [_best(one, [e for e in endpoints if e not in snapshot.tapes]) for one in datasets]
        both = [_best(one, endpoints) for one in datasets]
        if any(files for files, _ in both):
            at[site] = SiteInput(
                sum(b for _, b in disk),
                sum(n for n, _ in disk),
                sum(b for _, b in both),
                sum(n for n, _ in both),
            )
    source = all(
        any(
            files >= complete_percent / 100 * one.files
            for name, (files, _) in one.at.items()
            if name not in snapshot.unreadable
        )
        for one in datasets
    )
    return InputAvailability(
        sum(one.bytes for one in datasets), sum(one.files for one in datasets), source, at
    )


def _best(one: Replicas, endpoints: Sequence[str]) -> tuple[int, float]:
    return max((one.at[name] for name in endpoints if name in one.at), default=(0, 0.0))
