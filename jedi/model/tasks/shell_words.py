"""The length of the arguments that a command hands to programs."""

from __future__ import annotations

import shlex

ARGUMENT_MAX = 128 * 1024 - 1
"""Bytes of one argument of a program that Linux takes, and of one variable of its environment
(MAX_ARG_STRLEN: 32 pages, of 4 kB on most nodes)."""


def too_long(command: str) -> str | None:
    """The reason why a command, or a part of it, gives a program too long an argument, if it
    does."""
    if len(command) <= ARGUMENT_MAX // 4:
        return None
    try:
        longest = max((len(word.encode()) for word in shlex.split(command)), default=0)
    except ValueError:  # a document in the command, perhaps
        return None
    if longest <= ARGUMENT_MAX:
        return None
    return f"an argument has {longest} bytes, and no program gets more than {ARGUMENT_MAX}"
