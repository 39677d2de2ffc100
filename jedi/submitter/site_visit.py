"""One cycle of the submitter at a site, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from jedi.submitter.interface import Engine, Handle, KnownPilot, Seen, Sent, Slot, Start


@dataclass(slots=True, eq=False)
class SiteVisit:
    """The work of one engine at a site (a row of `pilots.serve`)."""

    site: Any
    name: str
    engine: Engine
    known: list[KnownPilot] = field(default_factory=list)
    """Its living pilots there."""

    seen: Seen | None = None
    """The states of the pilots, if they were known at once."""

    orders: list[tuple[Slot, list[Start]]] = field(default_factory=list)
    """Pilots to start, by the slots that are taken for them."""

    superfluous: list[KnownPilot] = field(default_factory=list)
    """Pilots that have no job to expect, if they have not begun."""

    lost: list[str] = field(default_factory=list)
    """Dead pilots whose jobs have been ended; their files are still there."""

    attempts: Sequence[Any] = ()
    """The attempts of these jobs."""

    endpoints: Sequence[str] = ()
    """Endpoints where the pilots may have staged files."""

    answer: Future[VisitResult] | None = None
    """The answer of a batch system, when it comes."""

    def unused(self, resource_type: str, number: int, idle_s: float) -> list[KnownPilot]:
        """So many pilots of a shape that have waited longer than `idle_s`, the latest first."""
        waiting = [
            pilot
            for pilot in self.known
            if pilot.resource_type == resource_type and not pilot.running and pilot.age_s > idle_s
        ]
        return sorted(waiting, key=lambda pilot: pilot.age_s)[: max(0, number)]

    def __bool__(self) -> bool:
        news = self.known if self.seen is None else self.seen.found or self.seen.gone
        return bool(self.orders or self.lost or news)


@dataclass(slots=True)
class VisitResult:
    """The pilots seen and the actions done there."""

    seen: Seen
    sent: dict[str, Sent]
    """By resource type."""

    strays: list[KnownPilot] = field(default_factory=list)
    """Pilots that go on although they were noted to have ended."""

    def found(self) -> dict[str, Handle]:
        """Return the pilots with new states."""
        started = {k: v for sent in self.sent.values() for k, v in sent.started.items()}
        return self.seen.found | started

    def refused(self) -> list[str]:
        """Return the pilots that certainly did not start."""
        return [pilot for sent in self.sent.values() for pilot in sent.refused]
