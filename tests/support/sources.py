"""The project's own programs, as files."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("jedi", "client/src", "panda/src", "tools")
TESTS = ("tests", "panda/tests")


def programs() -> list[Path]:
    """Every Python file of the distributions and of the generators."""
    return _files(PROGRAMS)


def all_tests() -> list[Path]:
    """Every Python file of the tests, with their helpers."""
    return _files(TESTS)


def _files(places: tuple[str, ...]) -> list[Path]:
    return sorted(file for place in places for file in ROOT.joinpath(place).rglob("*.py"))
