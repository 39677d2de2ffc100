"""Locations of replicas; a dataset whose lookup fails does not block others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from jedi.core.errors import JediError, Unreachable
from jedi.ddm.interface import DDM
from jedi.model.datasets.dataset import FileKey


def find(ddm: DDM, files: Iterable[FileKey]) -> tuple[dict[FileKey, list[str]], dict[str, str]]:
    """The endpoints that hold each of these files, as `holders` returns them, and the reasons why
    some datasets can't be looked up: invalid `.dataset.yaml`, or a directory without access.

    All are asked for at once; one after the other only if that fails. Unreachable: data management
    does not answer.
    """
    wanted: dict[str, dict[str, None]] = {}
    for dataset, lfn in files:
        wanted.setdefault(dataset, {})[lfn] = None
    found, why = _ask(ddm, wanted)
    if not why:
        return found, {}
    problems: dict[str, str] = {}
    for dataset, lfns in wanted.items():
        some, why = _ask(ddm, {dataset: lfns})
        found |= some
        if why:
            problems[dataset] = why
    return found, problems


def _ask(ddm: DDM, wanted: Mapping[str, Collection[str]]) -> tuple[dict[FileKey, list[str]], str]:
    try:
        return ddm.holders(wanted), ""
    except Unreachable:
        raise
    except (JediError, OSError) as error:
        return {}, str(error)
