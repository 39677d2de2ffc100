"""The one place where Python asks for the time (its twin in SQL is `jedi_now()`).

The clock can be turned: `JEDI_NOW` (ISO 8601) or `turn_to()` fix an instant; the database engine
hands the same instant to its sessions, so that Python and SQL agree.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

_turned: datetime | None = None


def turn_to(instant: datetime | None) -> None:
    """Fix the clock at an aware datetime; None gives the real time back."""
    global _turned  # noqa: PLW0603 - a process has one clock
    if instant is not None and instant.tzinfo is None:
        raise ValueError("the clock takes an aware datetime")
    _turned = instant


def turned() -> datetime | None:
    """The fixed instant, or None while the real clock runs."""
    if _turned is not None:
        return _turned
    text = os.environ.get("JEDI_NOW")
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def now() -> datetime:
    """The present instant, aware, UTC."""
    return turned() or datetime.now(UTC)


def monotonic() -> float:
    """Seconds for measuring spans; never turned, because waits happen in real time."""
    return time.monotonic()
