"""When a periodical task gets its next job: an interval such as `10 min`, or a line of cron.

Source: JEDI document, "Periodical task execution"; docs/reference/inputs.md#periodical-tasks.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_INTERVAL = re.compile(r"([1-9]\d{0,6}) ?(s|min|h|d)")
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_FIELD = re.compile(r"(?:[0-9*,/-]|[a-z]{3})+")
"""Fields of cron without the extensions that croniter knows (`L`, `#`, `?`, hashes)."""

_FIELDS = (
    "minute (0-59)",
    "hour (0-23)",
    "day of the month (1-31)",
    "month (1-12)",
    "day of the week (0-7)",
)


@dataclass(frozen=True, slots=True)
class Period:
    """Instants that follow each other; times of day are UTC. One of the two is given. A line of
    cron with both a day of the month and a day of the week comes on either, as cron has it."""

    interval: timedelta | None = None
    cron: str = ""

    @classmethod
    def parse(cls, text: str) -> Period:
        """`30 s`, `10 min`, `6 h`, `1 d`, or cron's five fields; ValueError if it is neither."""
        if match := _INTERVAL.fullmatch(text.strip()):
            return cls(interval=timedelta(seconds=int(match[1]) * _SECONDS[match[2]]))
        fields = text.lower().split()
        if len(fields) != len(_FIELDS):
            raise ValueError(
                "must be like '10 min' (s, min, h, d), or have the fields of cron: '0 */6 * * *'"
            )
        for place, (name, field) in enumerate(zip(_FIELDS, fields, strict=True)):
            alone = ["*"] * len(_FIELDS)
            alone[place] = field
            if not _FIELD.fullmatch(field) or not _comes(cls(cron=" ".join(alone))):
                raise ValueError(f"field {place + 1}, the {name}, can't be '{field}'")
        period = cls(cron=" ".join(fields))
        if not _comes(period):
            raise ValueError(f"'{period.cron}' never comes: no month of it has that day")
        return period

    def first(self, now: datetime) -> datetime:
        """Intervals begin at once, cron at its next time."""
        return self.after(now, now) if self.interval is None else now

    def after(self, due: datetime, now: datetime) -> datetime:
        """The first instant after `now`, given one that is not later."""
        if self.interval is not None:
            return due + self.interval * ((now - due) // self.interval + 1)
        from croniter import croniter  # type: ignore[import-untyped]  # 30 ms, few have cron

        next_time: datetime = croniter(self.cron, now.astimezone(UTC)).get_next(datetime)
        return next_time

    def serve(self, due: datetime | None, now: datetime, grace: timedelta) -> tuple[bool, datetime]:
        """Return True if it is time now, and the next instant. One that is late by more than
        `grace`, or that another has followed, is missed: it is not made up for."""
        due = due or self.first(now)
        if due > now:
            return False, due
        return now - due <= grace, self.after(due, now)


def written(text: str) -> str:
    """The text of a period; ValueError if it is none."""
    Period.parse(text)
    return text.strip()


def _comes(period: Period) -> bool:
    """Return True if croniter knows a next time."""
    with suppress(ValueError):
        period.after(_SOME_DAY, _SOME_DAY)
        return True
    return False
