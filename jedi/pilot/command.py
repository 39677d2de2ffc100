"""The command of a payload, as the kernel lets a shell have it."""

from __future__ import annotations

from pathlib import Path

ARGUMENT_MAX = 128 * 1024 - 1
"""Bytes of one argument, or one variable of the environment, that Linux takes."""


def shell_arguments(command: str, attempt: Path) -> tuple[str, ...]:
    """The arguments with which a shell, in a directory of the attempt, runs a command. One that is
    longer than an argument is a file beside that directory."""
    if len(command.encode()) <= ARGUMENT_MAX:
        return "-c", command
    file = attempt / "command"
    file.write_text(command)
    file.chmod(0o644)
    return (f"../{file.name}",)
