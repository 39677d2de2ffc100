"""The coverage of each room, as a table: the file that `coverage json` wrote is the argument."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

COUNTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def room(path: str) -> str:
    """The folder of a file: the one below jedi/, or the client."""
    first, *below = Path(path).parts
    return below[0] if first == "jedi" and len(below) > 1 else first


def table(report: dict[str, Any]) -> str:
    """A line for each room, the least covered first."""
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path, one in report["files"].items():
        for name in (room(path), "all"):
            rooms[name].update({key: one["summary"][key] for key in COUNTS})
    rows = sorted((_percent(one, "lines"), name, one) for name, one in rooms.items())
    head = ["| room | lines | covered | branches | taken |", "| --- | ---: | ---: | ---: | ---: |"]
    return "\n".join(
        [
            *head,
            *(
                f"| {name} | {one['num_statements']} | {lines:.1f} % | {one['num_branches']} "
                f"| {_percent(one, 'branches'):.1f} % |"
                for lines, name, one in rows
            ),
        ]
    )


def _percent(one: Counter[str], what: str) -> float:
    total = one["num_statements" if what == "lines" else "num_branches"]
    return 100 * one[f"covered_{what}"] / total if total else 100.0


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())))
