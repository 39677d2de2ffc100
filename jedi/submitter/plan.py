"""The number of pilots that a site needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The demand for slots of one shape: the cores of each, the jobs that wait for one, its pilots,
    the ones that have not begun, and the number of pilots that may still be sent."""

    cores: int
    waiting: int
    pilots: int
    queued: int
    most: int


def idle(wants: Sequence[SlotDemand], busy: int) -> list[int]:
    """Pilots of each shape that will take the next jobs. Only of all pilots together it is known
    how many are `busy`, and pilots of other shapes that have not begun are not."""
    free = sum(want.pilots - want.queued for want in wants) - busy
    return [max(0, min(want.pilots, want.queued + free)) for want in wants]


def deal(wants: Sequence[SlotDemand], spare: Sequence[int], room: int) -> list[int]:
    """Pilots to start of each shape, within `room` cores: one for each waiting job that no `spare`
    pilot will take. The shape with the fewest cores in all is next, of two the larger one. It is
    not overtaken if there is no room for it: small slots would fill each gap before it is large."""
    lacks = [min(want.most, want.waiting - free) for want, free in zip(wants, spare, strict=True)]
    given = [0] * len(wants)

    def place(shape: int) -> tuple[int, int]:
        want = wants[shape]
        return want.cores * (want.pilots + given[shape]), -want.cores

    while short := [shape for shape, lack in enumerate(lacks) if lack > given[shape]]:
        first = min(short, key=place)
        if (room := room - wants[first].cores) < 0:
            break
        given[first] += 1
    return given


def ramp(pilots: int, queued: int, first: int, failing: bool) -> int:
    """The number of further pilots to send, if `queued` of them have not begun: `first` while none
    runs, then as many as run; a single one to try whether a site still fails."""
    return max(0, 1 - queued if failing else max(first, pilots - queued) - queued)
