"""Columns, widths, paces: worked out by hand."""

from __future__ import annotations

import pytest
from jedi_client.cli import layout, task_why
from jedi_client.cli.pace import Pace, span
from jedi_client.models import BrokerOutcome, RefusingCriterion

from jedi.core import clock


def test_the_least_important_columns_go_first() -> None:
    """Columns of 10, 20, 30 and 15 with two blanks between them take 81."""
    least = [10, 20, 30, 15]
    assert layout.fitting(least, [1, 3], 81) == [0, 1, 2, 3]
    assert layout.fitting(least, [1, 3], 80) == [0, 2, 3]
    assert layout.fitting(least, [1, 3], 58) == [0, 2]
    assert layout.fitting(least, [1, 3], 5) == [0, 2]


def test_room_goes_to_those_that_want_it() -> None:
    """10 + 12 + 12 and two gaps are 38: of the 12 left each of two takes 6, as far as it wants."""
    assert layout.widths([10, 40, 40], [10, 12, 12], 50) == [10, 18, 18]
    assert layout.widths([10, 14, 40], [10, 12, 12], 50) == [10, 14, 22]
    assert layout.widths([10, 14, 15], [10, 12, 12], 999) == [10, 14, 15]
    assert layout.widths([10, 40], [10, 12], 5) == [10, 12]


def test_lines_are_whole() -> None:
    rows = [["1", "two\nlines"], ["100", ""]]
    assert list(layout.lines(["n", "said"], rows, {0})) == ["  n  said", "  1  two lines", "100"]


def test_criteria_of_a_broker_fold_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`jedi-task why`: at 100 columns no line is wider, and all columns and words are there."""
    monkeypatch.setenv("COLUMNS", "100")
    remedy = "Set the memory that the task asks to no more than the site gives. " * 3
    funnel = tuple(
        RefusingCriterion(code, 1234, 1000, 99, "A_LONG_NAME_OF_A_SITE", remedy, True)
        for code in ("memory", "a_criterion_with_a_long_name")
    )
    task_why._tell_choice(BrokerOutcome(1, "generic", clock.now(), (), funnel, ()))
    _, *lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    said = " ".join(lines)
    assert all(one in said for one in ("first", "only", "1234", "A_LONG_NAME_OF_A_SITE"))
    assert said.count("memory") == 1 + 3 * 2


def test_a_rate_is_what_was_seen() -> None:
    """30 files in 60 s are 30 a minute, and 45 more take 90 s; after 20 minutes without news the
    rate falls, a new attempt begins anew."""
    pace = Pace()
    pace.note(1000.0, 5)
    assert pace.sentence(50) == ""
    pace.note(1060.0, 35)
    assert pace.sentence(45) == "30 files/min, 2 min left"
    assert pace.sentence(45, "ranges") == "30 ranges/min, 2 min left"
    pace.note(1090.0, 35)
    pace.note(1120.0, 35)
    assert pace.rate() == 30 / 120
    assert pace.sentence(0) == "15 files/min"
    pace.note(1130.0, 0)
    assert pace.sentence(45) == ""


def test_old_news_do_not_count() -> None:
    """A thousand files in the first minute say nothing of the twentieth: one file a second."""
    pace = Pace()
    for at, through in ((0.0, 0), (60.0, 1000), (1200.0, 1000), (1201.0, 1001), (2000.0, 1800)):
        pace.note(at, through)
    assert pace.rate() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3569, "59 min"),
        (3599, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (100_800, "1 d 4 h"),
    ],
)
def test_times_as_people_say_them(seconds: float, said: str) -> None:
    assert span(seconds) == said
