"""Input files that a task names by where they lie, not by a dataset: pfnList.

Source: docs/reference/inputs.md#files-without-a-dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from jedi.core import names

STREAM = "IN"
"""The placeholder that they feed."""
_WRITTEN = re.compile(r"(?:file://)?(?P<path>/[^\0]*?[^/\0])(?:\^(?P<events>[1-9]\d{0,17}))?")


@dataclass(frozen=True, slots=True)
class Physical:
    """A file: its name in jobs, its path, its events if the task gives them."""

    lfn: str
    path: str
    nevents: int | None


def written(text: str) -> str:
    """The text, if it names a file; ValueError names the mistake."""
    _read(text)
    return text


def files(texts: Iterable[str]) -> list[Physical]:
    """The files behind a pfnList. Each goes by the last part of its path; if two would be called
    the same, all have their places in the list before it: 000001.hits."""
    found = [_read(text) for text in texts]
    alike = len({one.lfn for one in found}) < len(found)
    return [
        Physical(_numbered(place, one.lfn) if alike else one.lfn, one.path, one.nevents)
        for place, one in enumerate(found, 1)
    ]


def _read(text: str) -> Physical:
    match = _WRITTEN.fullmatch(text)
    if not match:
        raise ValueError(
            "must be an absolute path, /data/hits or file:///data/hits, with ^ and the number of "
            "events if it matters: /data/hits^500"
        )
    path = PurePosixPath(match["path"])
    if ".." in path.parts or len(text) > 4096:
        raise ValueError("must have at most 4096 characters and no ..")
    lfn, events = names.lfn(path.name), match["events"]
    names.lfn(_numbered(0, lfn))
    return Physical(lfn, str(path), int(events) if events else None)


def _numbered(place: int, lfn: str) -> str:
    return f"{place:06d}.{lfn}"
