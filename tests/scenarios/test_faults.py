"""What people, payloads and machines do to a running system; no other work may suffer.

The scenarios follow each other in one system.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scenarios.real_system import System, until
from support.statuses import statuses

pytestmark = pytest.mark.long

FILLING = "i=0; while :; do head -c 20000000 /dev/zero > $i; i=$((i+1)); done"
BAD: dict[str, tuple[str, dict[str, float]]] = {
    "wall_limit": ("sleep 1000", {"maxWalltime": 3 / 3600}),
    "process_limit": ("while :; do sleep 1000 & done", {}),
    "workdir_limit": (FILLING, {}),
}
"""Commands that break a limit, and keys of their tasks, by the error code of their jobs."""

GARBAGE = "head -c 100000000 /dev/urandom; head -c 1000000 /dev/urandom >&2; cat"


@pytest.fixture(autouse=True)
def _in_good_order(system: System) -> Iterator[None]:
    yield
    system.check()


def test_files_go_where_they_are_needed(system: System) -> None:
    """The input is at one site, the jobs run at the other, the outputs come back."""
    lines = system.texts("user:far", 6, "DISK_B")
    task = system.copying("user:far", site="SITE_A", nucleus="SITE_B", nFilesPerJob=2)
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    assert system.replicas("user:far") == {"DISK_A": 6, "DISK_B": 6}
    assert system.replicas(f"user:out.{task}")["DISK_B"] == 3


def test_bad_payloads_harm_nobody_else(system: System) -> None:
    lines = system.texts("user:mixed", 6, "DISK_A")
    bad = [
        system.copying("user:mixed", f"{how}; cat", maxAttempt=1, nFilesPerJob=6, **limits)
        for how, limits in BAD.values()
    ]
    garbage = system.copying("user:mixed", GARBAGE, nFilesPerJob=6)
    good = system.copying("user:mixed", nFilesPerJob=1)
    assert system.settle(*bad, garbage, good) == ["failed"] * 3 + ["done"] * 2
    causes = [failure.error_code for task in bad for failure in system.show(task).failures]
    assert causes == [*BAD]
    assert system.lines(good) == system.lines(garbage) == lines
    assert [system.payloads(task) for task in bad] == [[]] * 3


def test_a_killed_task_leaves_nothing_running(system: System) -> None:
    system.texts("user:long", 10, "DISK_A")
    keys = {"site": "SITE_A", "nFilesPerJob": 1}
    task = system.copying("user:long", "sleep 1000 & sleep 1000; cat", **keys)
    until(lambda: len(system.payloads(task)) == 3 * 3, "each slot runs a shell and what it began")
    system.ask("kill", task)
    assert system.settle(task) == ["aborted"]
    assert system.payloads(task) == []
    assert system.show(task).jobs == {"cancelled": 10}
    assert statuses(system.engine, task, "files", type="input") == ["ready"] * 10
    assert system.outputs(task) == []


def test_a_retried_task_does_only_what_had_failed(system: System) -> None:
    """At its first attempt the job of file 1 finds no line to print, at its second it does."""
    lines = system.texts("user:weak", 4, "DISK_A")
    task = system.copying("user:weak", "grep -v weak.00$ATTEMPTNR", nFilesPerJob=1, maxAttempt=1)
    assert system.settle(task) == ["finished"], system.show(task)
    assert system.lines(task) == [line for line in lines if line != "user:weak.001"]
    system.ask("retry", task)
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    assert system.show(task).jobs == {"failed": 1, "finished": 4}


def test_a_database_killed_under_load_costs_nobody_an_attempt(system: System) -> None:
    """Jobs of a second: some are left when a database is back and the test looks."""
    lines = system.texts("user:load", 60, "DISK_A")
    busy = [system.copying("user:load", "sleep 1; cat", nFilesPerJob=2) for _ in range(2)]
    for _ in range(2):
        until(lambda: system.show(busy[0]).jobs.get("running"), "jobs run")
        system.kill_database()
    assert system.settle(*busy) == ["done", "done"]
    assert [system.lines(task) for task in busy] == [lines, lines]
    assert [system.show(task).jobs for task in busy] == [{"finished": 30}] * 2


def test_after_the_death_of_everything_all_goes_on_even_unnotified(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = system.texts("user:doomed", 30, "DISK_B")
    caught = system.copying("user:doomed", "sleep 0.5; cat", site="SITE_A", nFilesPerJob=1)
    until(lambda: system.show(caught).jobs.get("running"), "jobs run")
    system.kill_all()

    monkeypatch.setenv("JEDI_NOTIFY", "off")
    system.up(JEDI_NOTIFY="off")
    managed = system.copying("user:doomed", nFilesPerJob=10, prodSourceLabel="managed")
    endless = system.copying("user:doomed", "sleep 1000; cat", site="SITE_A", nFilesPerJob=30)
    until(lambda: system.payloads(endless), "the endless task runs")
    system.ask("kill", endless)
    assert system.settle(caught, managed, endless) == ["done", "done", "aborted"]
    assert system.lines(caught) == system.lines(managed) == lines
