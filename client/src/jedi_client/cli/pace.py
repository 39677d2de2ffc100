"""The speed of a task, and the time that it still needs, from the moments observed."""

from __future__ import annotations

from collections import deque

WINDOW_S = 600.0
"""Older observations do not count, so that the rate follows the task."""


class Pace:
    """Numbers of processed files with their times, from the first look on."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, at: float, through: int) -> None:
        """So many files are through now; fewer than before: a new attempt has begun."""
        if self._seen and through < self._seen[-1][1]:
            self._seen.clear()
        if len(self._seen) > 1 and self._seen[-1][1] == self._seen[-2][1]:
            self._seen.pop()
        self._seen.append((at, through))
        while len(self._seen) > 2 and self._seen[1][0] < at - WINDOW_S:
            self._seen.popleft()

    def rate(self) -> float | None:
        """Files a second; None: none came through since the first look."""
        if not self._seen:
            return None
        (begin, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - begin) if after > before and end > begin else None

    def sentence(self, left: int, unit: str = "files") -> str:
        """`12 files/min, 4 min left`; empty while the rate is not known."""
        return pace_sentence(self.rate(), left, unit)


def pace_sentence(rate: float | None, left: int, unit: str) -> str:
    """The same for a known rate, in units a second."""
    if not rate:
        return ""
    per = next(((s, name) for s, name in _UNITS if rate * s >= 1), _UNITS[-1])
    speed = f"{rate * per[0]:.3g} {unit}/{per[1]}"
    return f"{speed}, {span(left / rate)} left" if left > 0 else speed


_UNITS = ((1, "s"), (60, "min"), (3600, "h"))


def span(seconds: float) -> str:
    """A time as people say it: `40 s`, `9 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
