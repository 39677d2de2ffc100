"""Metadata of a job from its payload: names and values in a JSON file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from .base import PayloadFailure
from .procs import PayloadAccount
from .stage import own_file

FILE = "jedi_metadata.json"
_MAX_BYTES = 100_000
_MAX_NAMES = 10_000  # the service takes no more
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def read(run: Path, user: PayloadAccount | None) -> dict[str, Any]:
    """The names and values that the payload left in `run`; none without the file. Failure if it
    holds anything else than a mapping of names in capitals to texts, numbers or truth values."""
    try:
        with own_file(run / FILE, user) as reading:
            data = os.read(reading, _MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _bad(str(error)) from error
    if len(data) > _MAX_BYTES:
        raise _bad(f"it has more than {_MAX_BYTES} bytes")
    try:
        values = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _bad(str(error)) from error
    if not isinstance(values, dict):
        raise _bad("it holds no mapping")
    if len(values) > _MAX_NAMES:
        raise _bad(f"it has more than {_MAX_NAMES} names")
    for name, value in values.items():
        if not _NAME.fullmatch(name) or not isinstance(value, (str, int, float)):
            raise _bad(f"{name[:80]!r} has a bad name or value")
    return values


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _bad(why: str) -> PayloadFailure:
    return PayloadFailure("bad_metadata", f"{FILE} can't be used: {why}.")
