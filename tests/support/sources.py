"""The project's own programs, as files."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("jedi", "client/src", "tools")


def programs() -> list[Path]:
    """Every Python file of the distributions and of the generators."""
    return sorted(file for place in PROGRAMS for file in ROOT.joinpath(place).rglob("*.py"))
