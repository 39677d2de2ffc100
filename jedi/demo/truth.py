"""The right results of the demo's tasks, computed without JEDI."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

WORD = re.compile(rb"[A-Za-z]+")


def texts() -> list[Path]:
    """Text files that every machine with Python has: its library's own sources."""
    return sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))


def count_words(files: Iterable[Path]) -> Counter[str]:
    """The number of times that each word occurs, in small letters."""
    counts: Counter[bytes] = Counter()
    for file in files:
        counts.update(word.lower() for word in WORD.findall(file.read_bytes()))
    return Counter({word.decode(): n for word, n in counts.items()})


def read_counts(files: Iterable[Path]) -> Counter[str]:
    """The lines `word number` of the tasks' outputs, added up."""
    counts: Counter[str] = Counter()
    for file in files:
        for line in file.read_text().splitlines():
            word, number = line.split()
            counts[word] += int(number)
    return counts


def sorted_lines(files: Iterable[Path]) -> list[bytes]:
    """All lines of all files, sorted."""
    return sorted(line for file in files for line in file.read_bytes().splitlines())


def simulated_events(files: Iterable[Path], events: int) -> str:
    """The number of events in outputs, whether each is there once, and whether each input file's
    stand in their order."""
    lines = [line for file in files for line in file.read_text().splitlines()]
    every = [int(line.split()[0]) for line in lines]
    parts = [every[i : i + events] for i in range(0, len(every), events)]
    once = "each once" if len(set(every)) == len(every) else "some twice"
    order = "in order" if all(part == sorted(part) for part in parts) else "in no order"
    return f"{len(set(every))} events, {once}, {order}"


def throw_darts(program: Path, seeds: Iterable[int]) -> list[str]:
    """The output of the pi task's payload for these seeds, run directly; sorted."""
    return sorted(
        subprocess.run(
            ["awk", "-v", f"seed={seed}", "-f", str(program)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in seeds
    )


def estimate_pi(lines: Iterable[str]) -> float:
    """Four times the share of darts in the circle."""
    pairs = [tuple(map(int, line.split())) for line in lines]
    return 4 * sum(hits for hits, _ in pairs) / sum(thrown for _, thrown in pairs)


RFC_VALUES = "1 2.3 3.99 6.187 9.0431 12.75603 17.582839 23.8576907 32.01499791 42.619497283"
"""The parameters of the example of RFC #15, by hand: times 1.3, plus 1."""


def printed(archives: Iterable[Path]) -> list[str]:
    """The first words that the children of a herd printed, by the archives of their sandboxes."""
    found = []
    for file in archives:
        with tarfile.open(file) as archive:
            [member] = [one for one in archive if one.name.startswith("StdOut_")]
            content = archive.extractfile(member)
            found.append(content.read().decode().strip() if content else "")
    return found
