"""A task's wishes and data that decide on its sites, besides its demand on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jedi.model.splitting.split_rules import SCOUTING
from jedi.model.tasks.rows import ClaimedTask

_NUCLEUS_ONLY = ("only", "require")


@dataclass(frozen=True, slots=True)
class Request:
    """A task in the eyes of a broker. `scout`, `merging`: the kind of the jobs to be made;
    `merges`: the task's outputs are merged. `release` is the software asked for, `platform` the
    architecture; kB/s are per core. Empty or None: unset."""

    vo: str = ""
    label: str = ""
    cloud: str = ""
    nucleus: str = ""
    priority: int = 0
    scout: bool = False
    merging: bool = False
    merges: bool = False
    processing_type: str = ""
    working_group: str = ""
    gshare: str = ""
    resource_type: str = ""
    release: str = ""
    platform: str = ""
    io_kb_s: float | None = None
    disk_io_kb_s: float | None = None
    t1_weight: int = 0
    max_cores: int | None = None
    connectivity: str = ""
    ip_stack: str = ""
    event_service: bool = False
    jumbo: bool = False
    full_chain: bool = False
    copy_input: bool = False
    lan_input: str = ""
    incomplete_input: bool = False
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: ClaimedTask) -> Request:
        """From a row of jedi_tasks."""
        rules = row.rules or {}
        return cls(
            vo=row.vo or "",
            label=row.prod_source_label or "",
            cloud=row.cloud or "",
            nucleus=row.nucleus or "",
            priority=int(row.current_priority or 0),
            scout=rules.get("use_scout") == SCOUTING,
            merges=bool(rules.get("merge_output")),
            processing_type=row.processing_type or "",
            working_group=row.working_group or "",
            gshare=row.gshare or "",
            resource_type=row.resource_type or "",
            release=row.trans_home or row.trans_uses or "",
            platform=row.architecture or "",
            io_kb_s=_figure(row.io_intensity),
            disk_io_kb_s=_figure(row.disk_io),
            t1_weight=rules.get("t1_weight") or 0,
            max_cores=rules.get("max_core_count"),
            connectivity=rules.get("ip_connectivity") or "",
            ip_stack=rules.get("ip_stack") or "",
            event_service=bool(row.event_service),
            jumbo=bool(row.use_jumbo),
            full_chain=rules.get("full_chain") in _NUCLEUS_ONLY,
            copy_input=bool(rules.get("use_local_io")),
            lan_input=rules.get("allow_input_lan") or "",
            incomplete_input=bool(rules.get("allow_incomplete_in_ds")),
            included=tuple(rules.get("included_site") or ()),
            excluded=tuple(rules.get("excluded_site") or ()),
        )


def _figure(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True, slots=True)
class SiteInput:
    """A site's part of the input: bytes and files on disk, and on disk or tape."""

    disk_bytes: float = 0.0
    disk_files: int = 0
    bytes: float = 0.0
    files: int = 0


@dataclass(frozen=True, slots=True)
class InputAvailability:
    """The input of future jobs, and the part of it at sites; sites that have nothing are absent.
    `wan_source`: some site can send it."""

    bytes: float = 0.0
    files: int = 0
    wan_source: bool = True
    at: Mapping[str, SiteInput] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecentJobs:
    """Jobs of the task by site: lately ended ones, and `live` ones."""

    closed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    live: Mapping[str, int] = field(default_factory=dict)
