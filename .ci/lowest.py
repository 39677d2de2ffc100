"""The lower bounds of what JEDI and its client need, as constraints of pip; with --names, those of
the libraries whose inside they use."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

INSIDE = ("uvicorn", "httptools", "psycopg[binary]", "psij-python", "uproot")
"""See docs/decisions/private-doors.md."""

ROOT = Path(__file__).parents[1]


def lowest() -> list[str]:
    """Each requirement in its lowest version; the highest if several distributions name it."""
    found: dict[str, tuple[int, ...]] = {}
    for place in (ROOT, ROOT / "client", ROOT / "panda"):
        project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
        for one in map(Requirement, project["dependencies"]):
            for bound in one.specifier:
                if bound.operator == ">=":
                    number = tuple(map(int, bound.version.split(".")))
                    found[one.name] = max(number, found.get(one.name, ()))
    return [f"{name}=={'.'.join(map(str, number))}" for name, number in found.items()]


if __name__ == "__main__":
    print(" ".join(INSIDE) if "--names" in sys.argv else "\n".join(lowest()))
