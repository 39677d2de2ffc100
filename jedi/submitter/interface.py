"""Interface of engines: this machine, or a batch system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jedi.core.errors import JediError
from jedi.host.home import SystemAccount
from jedi.host.processes import Process
from jedi.submitter.shapes import Shape


class EngineError(JediError):
    """An engine fails at a request."""

    code = "engine_failed"


@dataclass(frozen=True, slots=True)
class Slot:
    """Settings of a site's pilots, and their request to the engine."""

    site: str
    shape: Shape
    max_jobs: int
    idle_s: float
    heartbeat_s: float
    work: Path
    url: str
    python: str
    walltime_s: int | None = None
    """Time in which a pilot takes jobs; None: as long as there are any."""

    queue: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Further options of the engine, in its own words."""

    certificate: Path | None = None
    """The certificate of the service, if no known authority signed it."""

    share: tuple[str, ...] = ()
    """Real files below shared directories of the machine that payloads see."""

    path: str | None = None
    """The first directories of PATH of payloads."""


@dataclass(frozen=True, slots=True)
class Start:
    """A pilot to start; `account` runs its payloads (None: who runs the pilot)."""

    pilot_id: str
    token: str
    account: SystemAccount | None


@dataclass(frozen=True, slots=True)
class KnownPilot:
    """A living pilot, as it is noted."""

    pilot_id: str
    age_s: float
    running: bool
    process: Process | None = None
    batch_id: str | None = None
    resource_type: str = ""

    @classmethod
    def of(cls, row: Any) -> KnownPilot:
        """From a row of jedi_pilots with its age_s."""
        process = Process(row.pid, row.process_start) if row.pid else None
        running = row.status != "submitted"
        return cls(row.pilot_id, row.age_s, running, process, row.batch_id, row.resource_type)


@dataclass(frozen=True, slots=True)
class Handle:
    """The handle of a pilot in its engine: a process of this machine, or a batch job."""

    process: Process | None = None
    batch_id: str | None = None
    running: bool = True


@dataclass(frozen=True, slots=True)
class PilotEnd:
    """The end of a pilot in words, and whether the site failed (None: neither a success nor a
    failure of the site); `code`: the reason for the end of its job."""

    how: str
    failed: bool | None = None
    code: str = "lost_pilot"


@dataclass(slots=True)
class Seen:
    """An engine's report about pilots."""

    found: dict[str, Handle] = field(default_factory=dict)
    """Pilots with news."""

    gone: dict[str, PilotEnd] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    """Pilots that the engine has not started yet."""

    others: frozenset[str] = frozenset()
    """Names of further jobs there, which may be pilots that were thought to have ended."""


@dataclass(slots=True)
class Sent:
    """Pilots that were started, and pilots that certainly were not, with the reason. The fate of
    others is unknown: the Submitter looks for them later."""

    started: dict[str, Handle] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    why: EngineError | None = None


class Engine(Protocol):
    """An engine that runs pilots. All methods may raise EngineError."""

    @property
    def at_hand(self) -> bool:
        """Looking costs next to nothing, and is done as often as one likes."""

    def look(self, pilots: Sequence[KnownPilot]) -> Seen:
        """Return the states of all living pilots of a site."""

    def submit(self, slot: Slot, starts: Sequence[Start]) -> Sent:
        """Start pilots that outlive us."""

    def cancel(self, pilots: Sequence[KnownPilot]) -> None:
        """End pilots, wherever they are."""

    def forget(self, pilots: Sequence[KnownPilot]) -> None:
        """They are gone, and it is noted how: nothing more will be asked about them."""

    def tidy(self, attempt: Path) -> None:
        """Remove the rest of a dead pilot's attempt."""
