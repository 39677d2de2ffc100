"""Crash points for tests: a process ends at a point that JEDI_CRASH names, as SIGKILL would end it.

JEDI_CRASH is `room:point`, or several of them with blanks between. With JEDI_CRASH_MARK, a
directory, each point fires once for all processes together and leaves a file of its name there.
Without JEDI_CRASH a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
from pathlib import Path


def point(room: str, name: str) -> None:
    """Die here if the environment says so; nothing is flushed, nothing is cleaned up."""
    places = os.environ.get("JEDI_CRASH")
    place = f"{room}:{name}"
    if places and place in places.split() and _first(place):
        os._exit(137)


def _first(place: str) -> bool:
    """Nobody has died here yet, as far as accounts are kept."""
    marks = os.environ.get("JEDI_CRASH_MARK")
    try:
        if marks:
            Path(marks, place).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
