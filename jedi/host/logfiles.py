"""Log files that several processes append to; they are turned over when they grow too large."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

MEGABYTES, KEPT = 10.0, 3


def tail(log: Path, most: int) -> str:
    """The last so many bytes of a log as text; empty if there is none."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - most))
        return file.read().decode("utf-8", "replace").strip()
    return ""


def rotate(log: Path) -> None:
    """Copy a log of more than JEDI_LOG_MB (10) to LOG.1 and cut it; of the older ones, LOG.2 and
    so on, JEDI_LOG_FILES (3) are kept, with 0 none.

    Whoever writes keeps its file, opened for appending. A line written between copy and cut is
    lost, so only the process in charge of a log may turn it over. While the disk has no room for
    the copy the log stays as it is.
    """
    most = float(os.environ.get("JEDI_LOG_MB") or MEGABYTES) * 1_000_000
    kept = int(os.environ.get("JEDI_LOG_FILES") or KEPT)
    if not log.exists() or log.stat().st_size <= most:
        return
    older = [log.with_name(f"{log.name}.{number}") for number in range(1, kept + 1)]
    if older:
        copy = log.with_name(f"{log.name}.new")
        try:
            shutil.copyfile(log, copy)
        except OSError:
            copy.unlink(missing_ok=True)
            return
        for newer, old in reversed([*pairwise([copy, *older])]):
            with suppress(FileNotFoundError):
                newer.replace(old)
    os.truncate(log, 0)
