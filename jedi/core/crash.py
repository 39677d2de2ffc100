"""Crash points for tests: `JEDI_CRASH=room:point[:n]` ends the process there as SIGKILL would.

With `:n` the point lets n-1 passages go by. Without the variable a point costs one dictionary
look-up.
"""

from __future__ import annotations

import os

_passed: dict[str, int] = {}


def point(room: str, name: str) -> None:
    """Die here if the environment says so; nothing is flushed, nothing is cleaned up."""
    wanted = os.environ.get("JEDI_CRASH")
    if not wanted:
        return
    place = f"{room}:{name}"
    head, _, nth = wanted.rpartition(":") if wanted.count(":") == 2 else (wanted, "", "1")
    if head == place:
        _passed[place] = _passed.get(place, 0) + 1
        if _passed[place] == int(nth):
            mark = os.environ.get("JEDI_CRASH_MARK")
            if mark:
                with open(mark, "a") as file:  # noqa: PTH123 - the last thing this process does
                    file.write(f"{place} {os.getpid()}\n")
            os._exit(137)
