"""Sheets as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from jedi.monitor.sheets import Column, Sheet


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        (["=1+1", "b"], "'=1+1 b"),
        (("a", "=b"), "a =b"),
        (-1, "-1"),
        ('a,"b', 'a,"b'),
        (None, ""),
    ],
)
def test_no_text_becomes_a_formula(found: Any, written: str) -> None:
    sheet = Sheet("some", "Some", (Column("key", "Key"),), [{"key": found}], "key")
    header, row = csv.reader(io.StringIO(sheet.as_csv()))
    assert (header, row) == (["key"], [written])
