"""The list of skips is kept to the letter."""

from __future__ import annotations

from pathlib import Path

from support.skips import differences

LISTED = "# why\n\na::one\n? a::two\n"


def test_only_what_is_listed_may_be_skipped() -> None:
    assert differences({"a::one"}, LISTED) == []
    assert differences({"a::one", "a::two"}, LISTED) == []
    assert differences({"a::two", "a::three"}, LISTED) == [
        "skipped, but not listed: a::three",
        "listed, but not skipped: a::one",
    ]


def test_the_list_names_tests_that_there_are() -> None:
    here = Path(__file__).parents[1]
    for line in (here / "skips.txt").read_text().splitlines():
        if not line.startswith("#"):
            file, _, test = line.removeprefix("? ").partition("::")
            assert f"def {test}(" in (here.parent / file).read_text()
