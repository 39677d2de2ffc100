"""How input becomes jobs: what belongs together, how large jobs are, what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenarios.real_system import System, until

pytestmark = pytest.mark.long


def describe(system: System, dataset: str, said: dict[str, str]) -> None:
    """Write what is known of the files of a dataset at DISK_A."""
    with system.engine.begin() as tx:
        home = system.ddm(tx).path("DISK_A", dataset, next(iter(said))).parent
    lines = "".join(f"  {lfn}: {{{words}}}\n" for lfn, words in said.items())
    (home / ".dataset.yaml").write_text(f"files:\n{lines}")


def names(lines: list[str]) -> list[str]:
    """The files that hold these lines."""
    return [f"{line.replace(':', '.')}.txt" for line in lines]


def test_boundaries(system: System) -> None:
    lines = system.texts("user:runs", 5, "DISK_A")
    said = {lfn: f"boundary: {1 + i % 2}" for i, lfn in enumerate(names(lines))}
    describe(system, "user:runs", said)
    source = {"type": "template", "param_type": "input", "value": "< ${IN/F}"}
    task = system.submit("xargs cat", {**source, "dataset": "user:runs"}, groupBoundaryID=4)
    assert system.settle(task) == ["done"]
    found = sorted(path.read_text().splitlines() for path in system.outputs(task))
    assert found == [lines[::2], lines[1::2]]
    system.check()


def test_events_and_what_follows_keep_to_boundaries(system: System) -> None:
    """Modes 3, 4: no id is cut, by event ranges neither; in modes 1, 2 secondary files follow the
    id, too (docs/reference/splitting.md#boundaries). An id of the first dataset has 20 events, more
    than the 8 of a job."""
    lines = system.texts("user:cut", 4, "DISK_A")
    said = {lfn: f"boundary: {1 + i // 2}, nevents: 10" for i, lfn in enumerate(names(lines))}
    describe(system, "user:cut", said)
    beside = system.texts("user:beside", 4, "DISK_A")
    ids = zip((1, 2, 2, 2), names(beside), strict=True)
    describe(system, "user:beside", {lfn: f"boundary: {i}" for i, lfn in ids})
    item = {"type": "template", "param_type": "input"}
    master = {**item, "value": "${IN/S}", "dataset": "user:cut"}
    second = {**item, "value": "${IN2/S}", "dataset": "user:beside"}
    whole = system.submit("cat", master, groupBoundaryID=3, nEventsPerJob=8)
    divided = system.submit("cat", master, second, groupBoundaryID=1, nFilesPerJob=1)
    one_id = system.submit("cat", master, second, groupBoundaryID=2, nFilesPerJob=2)
    assert system.settle(whole, one_id) == ["done", "done"]

    def written(task: int) -> list[list[str]]:
        return sorted(Path(path).read_text().splitlines() for path in system.outputs(task))

    assert written(whole) == [lines[:2], lines[2:]]
    assert written(one_id) == [[*lines[:2], beside[0]], [*lines[2:], *beside[1:]]]
    # of two jobs of id 1 one finds no file beside it: it waits, the others do not
    until(lambda: len(written(divided)) == 3, "three jobs have run")
    assert written(divided) == [
        [lines[0], beside[0]],
        [lines[2], beside[1]],
        [lines[3], *beside[2:]],
    ]
    until(lambda: system.show(divided).task.reason_code == "secondary_files_short", "it says so")
    system.ask("kill", divided)
    assert system.settle(divided) == ["aborted"]
    system.check()


def test_an_input_is_not_lost_to_an_output_of_its_name(system: System) -> None:
    """Chained tasks whose templates are alike: the second reads out.000001.txt and so on, and
    would make out.000001.txt of out.000001.txt."""
    lines = system.texts("user:chain", 3, "DISK_A")
    first = system.copying("user:chain", nFilesPerJob=1)
    assert system.settle(first) == ["done"]
    second = system.copying(f"user:out.{first}", nFilesPerJob=1)
    assert system.settle(second) == ["done"]
    assert system.lines(first) == system.lines(second) == lines
    found = sorted(path.name for path in system.outputs(second))
    assert found == ["out.000002.txt", "out.000003.txt", "out.000004.txt"]
    system.check()


def test_the_size_of_jobs_in_gigabytes(system: System) -> None:
    """JEDI document, "nGBPerJob": input + max(output, 2.5 GB) + work directory is less than that.
    With 2, a file that is larger alone is a job of its own; with 4, small files share a job."""
    lines = system.texts("user:sized", 4, "DISK_A")
    tight = system.copying("user:sized", nGBPerJob=2)
    wide = system.copying("user:sized", nGBPerJob=4)
    assert system.settle(tight, wide) == ["done", "done"]
    assert (len(system.outputs(tight)), len(system.outputs(wide))) == (4, 1)
    assert system.lines(tight) == system.lines(wide) == lines
    system.check()


def test_ranges_are_cut_anew_after_scouts_that_exceed_the_wall_time(system: System) -> None:
    """docs/reference/event-ranges.md#cutting-unused-ranges-anew. Five files of four events, 1.5 s
    each: three scouts take 6 s, and jobs may take 4, which suffices for two events."""
    system.put("scout.chunks", 3)
    lines = system.texts("user:slow", 5, "DISK_A")
    describe(system, "user:slow", dict.fromkeys(names(lines), "nevents: 4"))
    program = "'for i in $(seq $0); do sleep 1.5; done; echo $1 $2 $0'"
    item = {"type": "constant", "value": f"-c {program} ${{MAXEVENTS}} ${{IN}} ${{SKIPEVENTS}}"}
    source = {
        "type": "template",
        "param_type": "input",
        "dataset": "user:slow",
        "value": "${IN}",
        "hidden": True,
    }
    task = system.submit(
        "sh", item, source, tgtNumEventsPerJob=4, maxWalltime=4 / 3600, baseWalltime=0
    )
    assert system.settle(task) == ["done"], system.show(task)
    system.put("scout.chunks", 0)
    done = [(name, int(first), int(n)) for name, first, n in map(str.split, system.lines(task))]
    assert sorted((name, first + i) for name, first, n in done for i in range(n)) == [
        (name, i) for name in names(lines) for i in range(4)
    ]
    assert sorted(n for _, _, n in done) == [*[2] * 4, *[4] * 3]
    system.check()
