"""The right results of the demo's tasks, computed without JEDI."""

from __future__ import annotations

import re
import subprocess
import sysconfig
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


def throw_darts(program: Path, seeds: Iterable[int]) -> list[str]:
    """The output of the pi task's payload for these seeds, run directly; sorted."""
    return sorted(
        subprocess.run(
            ["awk", "-v", f"seed={seed}", "-f", str(program)],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in seeds
    )  # fmt: skip


def estimate_pi(lines: Iterable[str]) -> float:
    """Four times the share of darts in the circle."""
    pairs = [tuple(map(int, line.split())) for line in lines]
    return 4 * sum(hits for hits, _ in pairs) / sum(thrown for _, thrown in pairs)
