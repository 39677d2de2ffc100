"""When a periodical task gets its next job: an interval such as `10 min`, or a line of cron.

Source: JEDI document, "Periodical task execution"; docs/reference/inputs.md#periodical-tasks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]

_INTERVAL = re.compile(r"([1-9]\d{0,6}) ?(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_RANGE = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d+))?")


@dataclass(frozen=True, slots=True)
class Period:
    """Instants that follow each other; times of day are UTC. One of the two is given."""

    interval: timedelta | None = None
    cron: Any = None

    @classmethod
    def parse(cls, text: str) -> Period:
        """`30 s`, `10 min`, `6 h`, `1 d`, or cron's five fields; ValueError if it is neither."""
        if found := _INTERVAL.fullmatch(text.strip()):
            return cls(interval=timedelta(seconds=int(found[1]) * _SECONDS[found[2]]))
        fields = text.lower().split()
        if len(fields) == 5:
            fields[4] = ",".join(map(_days, fields[4].split(",")))
            try:
                if _ever(fields):
                    return cls(cron=CronTrigger.from_crontab(" ".join(fields), timezone=UTC))
            except ValueError:
                pass
        raise ValueError(
            "is like '10 min' (s, min, h, d), or has the fields of cron: '0 */6 * * *'"
        )

    def first(self, now: datetime) -> datetime:
        """Intervals begin at once, cron at its next time."""
        return self.after(now, now) if self.interval is None else now

    def after(self, due: datetime, now: datetime) -> datetime:
        """The first instant after `now`, given one that is not later."""
        if self.interval is not None:
            return due + self.interval * ((now - due) // self.interval + 1)
        found: datetime = self.cron.get_next_fire_time(now, now)
        return found

    def serve(self, due: datetime | None, now: datetime, grace: timedelta) -> tuple[bool, datetime]:
        """Whether it is time now, and the next instant. One that is late by more than `grace`, or
        that another has followed, is missed: it is not made up for."""
        due = due or self.first(now)
        if due > now:
            return False, due
        return now - due <= grace, self.after(due, now)


def written(text: str) -> str:
    """The text of a period; ValueError if it is none."""
    Period.parse(text)
    return text.strip()


def _ever(fields: list[str]) -> bool:
    """Whether a line of cron has any instant. In 28 years each date has been each day of the week;
    to look on to the year 9999 takes a second."""
    named = dict(zip(("minute", "hour", "day", "month", "day_of_week"), fields, strict=True))
    trigger = CronTrigger(**named, year="2000-2027", timezone=UTC)
    return trigger.get_next_fire_time(None, datetime(2000, 1, 1, tzinfo=UTC)) is not None


def _days(part: str) -> str:
    """Days of the week by name: APScheduler counts them from Monday, cron from Sunday, and ranges
    such as fri-mon are cron's alone."""
    if part.partition("/")[0] == "*":
        return part
    found = _DAY_RANGE.fullmatch(part)
    if not found:
        raise ValueError(f"{part!r} is no day of the week")
    first, last = _day(found[1]), _day(found[2] or found[1])
    span = range(first, (last if last >= first else last + 7) + 1, int(found[3] or 1) or 1)
    return ",".join(_DAYS[day % 7] for day in span)


def _day(text: str) -> int:
    if text in _DAYS:
        return _DAYS.index(text)
    if text.isdigit() and int(text) <= 7:
        return int(text)
    raise ValueError(f"{text!r} is no day of the week")
