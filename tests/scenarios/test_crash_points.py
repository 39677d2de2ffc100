"""Every agent and the pilot die at every crash point, in one flow of work; and again where work is
merged. Source: docs/reference/payload-and-processes.md#processes."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from support.statuses import statuses

from jedi.service.tasks import task_details

pytestmark = pytest.mark.long

AGENTS = (
    "taskrefiner",
    "contentsfeeder",
    "taskbroker",
    "jobgenerator",
    "mover",
    "submitter",
    "adder",
    "postprocessor",
    "taskcommando",
)
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
    assert {*statuses(home.engine, endless, "files", type="input")} <= {"ready", "failed"}
    home.check()
    home.down()


ENDING = {point for point in POINTS if point.startswith("adder:")}
MERGING = ENDING | {point for point in POINTS if point.startswith("jobgenerator:")}
MERGE_SPEC = {
    "transPath": 'sleep 2; test "$ATTEMPTNR" -gt 1 && cat',
    "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}",
}


def test_who_dies_when_files_are_merged_leaves_each_merged_once(
    home: System, tmp_path: Path
) -> None:
    """Whoever makes jobs dies at all points as it makes those that are merged, and their merges;
    whoever ends jobs as it ends those, merges that fail, and merges that succeed."""
    home.up(JEDI_CRASH=" ".join(MERGING), JEDI_CRASH_MARK=str(tmp_path))
    home.put("agent.max_deaths", 10)
    lines = [line for disk in "AB" for line in home.texts(f"user:parts{disk}", 6, f"DISK_{disk}")]
    ids = [
        home.copying(
            f"user:parts{disk}",
            "sleep 2; cat",
            site=f"SITE_{disk}",
            nFilesPerJob=2,
            mergeOutput=True,
            mergeSpec=MERGE_SPEC,
        )
        for disk in "AB"
    ]

    def at_work(tries: int) -> bool:
        """Merge jobs of so many tries are there."""
        with home.engine.begin() as tx:
            made = [job for task in ids for job in task_details.jobs(tx, task)]
        return any(job.kind == "merge" and job.attempt_nr == tries for job in made)

    for tries, again in ((1, MERGING), (2, ENDING)):
        until(partial(at_work, tries), f"merge jobs are at try {tries}")
        until(lambda: _dead(tmp_path) == MERGING, "all have died")
        for point in again:
            (tmp_path / point).unlink()
    assert home.settle(*ids) == ["done", "done"]

    assert _dead(tmp_path) == MERGING
    assert [line for task in ids for line in home.lines(task)] == lines
    assert [len(home.outputs(task)) for task in ids] == [1, 1]
    home.check()
    home.down()


def _dead(marks: Path) -> set[str]:
    return {mark.name for mark in marks.iterdir()}
