"""The client is pure Python: a laptop installs it without a compiler, whatever its processor."""

from __future__ import annotations

import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

CLIENT = Path(__file__).parents[2] / "client" / "pyproject.toml"


def required() -> list[Requirement]:
    project = tomllib.loads(CLIENT.read_text())["project"]
    return [Requirement(one) for one in project["dependencies"]]


def closure() -> dict[str, Distribution]:
    """All that the client's requirements need here, as it is installed."""
    found: dict[str, Distribution] = {}
    wanted = required()
    while wanted:
        one = wanted.pop()
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found[one.name] = distribution(one.name)
            wanted += map(Requirement, found[one.name].requires or ())
    return found


def test_it_needs_three_libraries_at_most() -> None:
    """`at most three dependencies, pure Python`."""
    assert 1 <= len(required()) <= 3
    wrong = {
        one.name: distribution(one.name).version
        for one in required()
        if distribution(one.name).version not in one.specifier
    }
    assert wrong == {}, "install the environment anew: make test"


def test_no_library_below_it_is_compiled() -> None:
    """typer 0.29 needs pydantic, whose core is compiled."""
    tags = {
        name: [
            line.removeprefix("Tag: ")
            for line in (one.read_text("WHEEL") or "").splitlines()
            if line.startswith("Tag: ")
        ]
        for name, one in closure().items()
    }
    assert {"typer", "rich", "pygments"} <= tags.keys()
    assert [name for name, found in tags.items() if "py3-none-any" not in found] == []
