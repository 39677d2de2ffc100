"""Each check of Ganga's acceptance suite, and each row on bad input, is named by a test."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HERE = Path(__file__)
CHECKS = [*range(1, 31)]
BAD_INPUT = [4, 5, 13, 45, *range(49, 59), 66, 103, 104, 114, 147, *range(153, 161)]
"""Rows of the feature table on bad input and faults."""


def numbers(listed: str) -> set[int]:
    """The numbers of "2, 8 to 10 and 12"."""
    found: set[int] = set()
    for part in re.split(r", and |, | and ", listed):
        first, *last = (int(one) for one in re.findall(r"[0-9]+", part))
        found |= {*range(first, (last or [first])[0] + 1)}
    return found


def named(word: str) -> dict[int, set[str]]:
    """Files of tests by the numbers that they name after a word, such as "Rows 3, 5 to 7"."""
    one = r"[0-9]+(?:(?:-| to )[0-9]+)?"
    listed = re.compile(
        rf"\b[{word[0]}{word[0].upper()}]{word[1:]}s? ({one}(?:(?:, and |, | and ){one})*)"
    )
    found: dict[int, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        if path != HERE:
            for match in listed.finditer(" ".join(path.read_text().split())):
                for number in numbers(match[1]):
                    found[number].add(path.name)
    return found


@pytest.mark.parametrize(("word", "wanted"), [("check", CHECKS), ("row", BAD_INPUT)])
def test_a_test_names_each(word: str, wanted: list[int]) -> None:
    found = named(word)
    gpi = {n for n, files in found.items() if any("gpi" in name for name in files)}
    assert [n for n in wanted if n not in gpi] == []
