"""The command of a payload, as the kernel lets a shell have it."""

from __future__ import annotations

import os
from pathlib import Path

ARGUMENT_MAX = 32 * os.sysconf("SC_PAGE_SIZE") - 1
"""Bytes of one argument, or one variable of the environment, that this node's Linux takes
(MAX_ARG_STRLEN)."""


def shell_arguments(command: str, attempt: Path) -> tuple[str, ...]:
    """The arguments with which a shell, in a directory of the attempt, runs a command. One that is
    longer than an argument is a file beside that directory."""
    if len(command.encode()) <= ARGUMENT_MAX:
        return "-c", command
    file = attempt / "command"
    file.write_text(command)
    file.chmod(0o644)
    return (f"../{file.name}",)
