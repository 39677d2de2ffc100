"""Builders that several tests share with tests of taskparams."""

from __future__ import annotations

from typing import Any

import pytest

from jedi.core.errors import BadInput, Problem
from jedi.model.tasks.text import validate

INPUT = {"type": "template", "param_type": "input", "value": "${IN}", "dataset": "demo:in"}


def problems(document: Any) -> list[Problem]:
    with pytest.raises(BadInput) as caught:
        validate(document)
    assert all(p.rule and p.remedy for p in caught.value.problems)
    return list(caught.value.problems)
