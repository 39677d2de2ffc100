"""Records of a broker's decisions, so that JEDI can explain and replay them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reasons for which a site was refused, each with the observed figure and the limit (None:
    infinite)."""

    site: str
    codes: Sequence[str]
    observed: Sequence[float | None]
    limits: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Decision:
    """`chosen` with their `weights`, best first (empty: no site would do), from the snapshot, the
    seed, the knobs, the task's needs and the sites it `used` before."""

    jedi_task_id: int
    broker: str
    snapshot_hash: str
    seed: int
    knobs: Mapping[str, Any]
    need: Mapping[str, Any]
    chosen: Sequence[str]
    weights: Sequence[float]
    refusals: Sequence[Refusal]
    used: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pledge:
    """Work that is left to tasks of a nucleus, in core-days at 10 HS06."""

    nucleus: str
    work_queue: int
    priority: int
    days: float
