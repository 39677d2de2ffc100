"""Times as people read them, with their zone. JSON has ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def written(at: datetime, zone: tzinfo | None = UTC, *, seconds: bool = True) -> str:
    """`2026-11-29 00:59:04 UTC`, or with an offset, such as `+01:00`; without a zone in that of
    this machine."""
    text = at.astimezone(zone).isoformat(" ", "seconds" if seconds else "minutes")
    time, offset = text[:-6], text[-6:]
    return f"{time} {'UTC' if offset == '+00:00' else offset}"
