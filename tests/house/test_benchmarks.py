"""Benchmarks work: each that can be small runs once and checks what it left behind."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import main

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["lief"], 2), (["--smok"], 2)])
def test_what_it_does_not_know_runs_nothing(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    assert "Benchmarks: tasks, feed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "dispatch",
        "ends",
        "timeouts",
        "life",
        "archive",
        "snapshot",
        "api",
        "events",
        "growth",
        "monitor",
        "whole",
    ],
)
def test_a_benchmark_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--smoke"]) == 0
    assert "/s" in capsys.readouterr().out
