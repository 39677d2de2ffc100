"""The ways to and from storage that are open. Source: docs/reference/brokerage.md#storage."""

from __future__ import annotations

from typing import Any

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.locality import in_nucleus
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


def _open(code: str, column: str, say: str, when_needed: Any, when: Any) -> Filter:
    def test(sites: Snapshot, need: Requirements, knobs: Knobs) -> Bools:
        return np.asarray((getattr(sites, column) > 0) | ~when_needed(sites, need, knobs))

    return wanted(
        code,
        test,
        say,
        "Set the status of the site's endpoints ON again, or wait.",
        lasting=False,
        when=when,
    )


def _everywhere(sites: Snapshot, _need: Requirements, _knobs: Knobs) -> Bools:
    return ~sites.where("endpoint", "")  # without any there is nothing to be open


def _outside(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    return ~in_nucleus(sites, need)


def _lacking(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    """Sites that need something brought."""
    files = sites.given({site: float(some.disk_files) for site, some in need.data.at.items()})
    return files < need.data.files


def _has_input(need: Requirements, _knobs: Knobs) -> bool:
    return need.data.files > 0


READ_LAN = _open(
    "input_unreadable",
    "reads_lan",
    "jobs cannot read inputs from any endpoint",
    _everywhere,
    _has_input,
)
WRITE_LAN = _open(
    "output_unwritable",
    "writes_lan",
    "jobs cannot write outputs to any endpoint",
    _everywhere,
    lambda _need, _knobs: True,
)
WRITE_WAN = _open(
    "input_unwelcome", "gets_wan", "inputs cannot be brought to any endpoint", _lacking, _has_input
)
READ_WAN = _open(
    "output_stuck",
    "sends_wan",
    "outputs cannot be fetched from any endpoint",
    _outside,
    lambda need, _knobs: bool(need.request.nucleus),
)
NO_SOURCE = wanted(
    "no_source",
    lambda sites, need, knobs: ~_lacking(sites, need, knobs),
    "the input is missing and no endpoint can send it",
    "Set read_wan of an endpoint that has the input ON, or replicate it.",
    lasting=False,
    when=lambda need, _knobs: need.data.files > 0 and not need.data.wan_source,
)
STORAGE_STATUS = (READ_LAN, WRITE_LAN, WRITE_WAN, READ_WAN, NO_SOURCE)
