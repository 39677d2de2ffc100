"""What a retry rule does to the inputs of a job, and to the sizes of a task's jobs."""

from __future__ import annotations

from typing import Any

import pytest

from jedi.model.jobs.retry_rules import RuleMatch, effect, reduced
from jedi.model.splitting.split_rules import SplitRules


def match(action: str = "increase_memory", **fields: Any) -> RuleMatch:
    values = {
        "panda_id": 1,
        "rule_id": 1,
        "jedi_task_id": 1,
        "active": True,
        "attempts": None,
        "asked_mb": 0.0,
        "used_mb": 0.0,
        "ram_offset": None,
        "ram_step": None,
        "ram_max": None,
    }
    return RuleMatch(action=action, **{**values, **fields})


@pytest.mark.parametrize(
    ("asked", "used", "target"),
    [
        (0, 0, 1000),
        (0, 1000, 2000),
        (999, 0, 1000),
        (1000, 0, 2000),
        (2000, 1500, 3000),
        (2000, 4001, 6000),
        (4000, 0, 6000),
        (6000, 0, 8000),
        (7999, 0, 8000),
        (8000, 0, None),
        (2000, 9000, None),
    ],
)
def test_the_next_step_of_the_seeds_list(asked: int, used: int, target: int | None) -> None:
    found = effect(match(asked_mb=asked, used_mb=used))
    assert found.ram_mb == target
    assert ("can't be asked for" in found.sentence) is (target is None)


@pytest.mark.parametrize(
    ("offset", "step", "most", "asked", "target"),
    [
        (3000, 500, None, 2000, 3000),
        (3000, 500, None, 3000, 3500),
        (3000, 500, None, 3700, 4000),
        (3000, 500, 3200, 3000, 3200),
        (3000, 500, 3200, 3200, None),
        (3000, None, None, 3000, None),
        (None, 700, None, 2000, 2100),
        (3000, 500, 1000, 2000, None),
        (None, None, None, 2000, 3000),
    ],
)
def test_steps_of_a_task_of_its_own(
    offset: int | None, step: int | None, most: int | None, asked: int, target: int | None
) -> None:
    own = {"ram_offset": offset, "ram_step": step, "ram_max": most, "asked_mb": asked}
    assert effect(match("increase_memory_xtimes", **own)).ram_mb == target


@pytest.mark.parametrize(
    ("rules", "attempt", "files", "gb", "kept"),
    [
        ({}, 1, 100, None, "MF:200"),
        ({}, 2, 50, None, "MF:200"),
        ({}, 3, 1, None, "MF:200"),
        ({"n_gb_per_job": 8}, 1, 100, 4, "MF:200|NG:8"),
        ({"max_files_per_job": 5, "n_gb_per_job": 8}, 3, 1, 1, "MF:5|NG:8"),
        ({"max_files_per_job": 100, "retry_module_rules": "MF:200|NG:8"}, 2, 50, 2, "MF:200|NG:8"),
    ],
)
def test_less_input(
    rules: dict[str, Any], attempt: int, files: int, gb: float | None, kept: str
) -> None:
    found = reduced(SplitRules(**rules), attempt, 200)
    assert found
    assert (found.max_files_per_job, found.n_gb_per_job, found.retry_module_rules) == (
        files,
        gb,
        kept,
    )


@pytest.mark.parametrize(
    "rules",
    [
        {"n_files_per_job": 2},
        {"n_events_per_job": 2},
        {"max_files_per_job": 1},
        {"max_files_per_job": 50, "retry_module_rules": "MF:100"},
    ],
)
def test_input_that_can_not_be_less(rules: dict[str, Any]) -> None:
    assert reduced(SplitRules(**rules), 1, 200) is None
