"""Judgement of reports on ranges, without the database: the closed list of refusals, and the
entries that are sound by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

REFUSALS: Mapping[str, str] = {
    "bad_entry": "The entry has mistakes.",
    "stale_consumer": "The consumer is unknown, or this attempt of it has ended: its ranges "
    "belong to others.",
    "other_task": "The range belongs to another task.",
    "not_yours": "The range was handed to another job.",
    "unknown_range": "The consumer never got such a range.",
    "range_taken": "Another job has the range, or it was ended.",
    "contradiction": "The range was reported with another result before.",
    "not_wanted": "The range was cancelled or is processed again elsewhere.",
    "bad_endpoint": "Pilots of its site may not write to the endpoint.",
    "other_zip": "A file of this name was reported with another size, checksum or endpoint.",
}
"""Reasons why an entry of a report does not count."""


class RefusedEntry(NamedTuple):
    """An entry that does not count: its name, the code of REFUSALS, and more about it."""

    id: str
    code: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"{REFUSALS[self.code]} {self.detail}".strip()


_GOOD, _BAD = frozenset({"finished", "done", "merged"}), frozenset({"failed", "fatal"})
_RESULTS = _GOOD | _BAD
_SETTLED = {"running": _RESULTS | {"running"}, "finished": _GOOD, "failed": _BAD, "fatal": _BAD}


def refusal_of(reported: str, stands: str | None, undispatched: bool) -> str | None:
    """The refusal of a range that was reported and has the status `stands` (None: its consumer
    does not have it) now; None: it is as reported. `undispatched`: its id has the job set's
    number."""
    if stands is None:
        return "range_taken" if undispatched else "unknown_range"
    if stands in _SETTLED[reported]:
        return None
    return "contradiction" if stands in _RESULTS else "not_wanted"
