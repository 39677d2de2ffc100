"""Every agent and the pilot die at every crash point (contracts §8), in one flow of work."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from scenarios.real_system import System, until

AGENTS = (
    "taskrefiner", "contentsfeeder", "taskbroker", "jobgenerator", "mover", "submitter", "adder",
    "postprocessor", "taskcommando",
)  # fmt: skip
POINTS = {
    *(
        f"{agent}:{at}"
        for agent, at in product(AGENTS, ("claimed", "before_commit", "after_commit"))
    ),
    *(f"pilot:{at}" for at in ("acquire", "stage_in", "payload", "stage_out", "report")),
}


def test_whoever_dies_wherever_no_work_is_lost_or_done_twice(home: System, tmp_path: Path) -> None:
    home.up(JEDI_CRASH=" ".join(POINTS), JEDI_CRASH_MARK=str(tmp_path))
    lines = home.texts("user:texts", 24, "DISK_B")
    far = home.copying("user:texts", site="SITE_A", nucleus="SITE_B", nFilesPerJob=3, maxAttempt=20)
    late = home.copying(
        "user:texts",
        'test "$ATTEMPTNR" -gt 1 && cat',
        nFilesPerJob=6,
        maxAttempt=1,
        prodSourceLabel="managed",
    )
    endless = home.copying("user:texts", "sleep 1000; cat", site="SITE_B", nFilesPerJob=24)
    until(lambda: home.show(endless).jobs.get("running"), "the endless task runs")
    home.ask("kill", endless)
    assert home.settle(endless, late) == ["aborted", "failed"]
    home.ask("retry", late)
    assert home.settle(far, late) == ["done", "done"]

    assert POINTS - {mark.name for mark in tmp_path.iterdir()} == set()
    assert home.lines(far) == home.lines(late) == lines
    assert home.lines(endless) == []
    assert {*home.file_statuses(endless)} <= {"ready", "failed"}
    home.check()
    home.down()
