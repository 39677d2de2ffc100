"""Strategies over input files: each file, or each event, is in exactly one unit."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jedi.core.errors import BadInput
from jedi.model.splitting.units import FileUse, SplitFile
from jedi.splitter.by_input import (
    CHOSEN,
    EVENTS,
    MAX_FILES,
    MAX_GB,
    ByBoundary,
    ByEvents,
    ByFiles,
    BySize,
    InputDataBySE,
)

STORAGES = ("DISK1", "DISK2", "DISK3", "DISK4", "DISK5")
replicas = st.lists(st.sets(st.sampled_from(STORAGES), min_size=1), max_size=200)


def at(*endpoints: str) -> SplitFile:
    return SplitFile("/lfn", 1, endpoints=endpoints)


@given(replicas, st.integers(1, 9))
def test_by_storage(held: list[set[str]], most: int) -> None:
    """RFC #15: units have "a maximum number of Input Data files in the same SE": each
    file once, at most so many, a common storage, the same in two runs."""
    files = [SplitFile(f"/lfn{n:03d}", 1, endpoints=tuple(sorted(s))) for n, s in enumerate(held)]
    manifest = {MAX_FILES: str(most)}
    units = list(InputDataBySE().plan(manifest, files))
    assert sorted(use.position for unit in units for use in unit.files) == [*range(len(files))]
    assert all(1 <= len(unit.files) <= most for unit in units)
    assert all(
        unit.options[CHOSEN] in files[u.position].endpoints for unit in units for u in unit.files
    )
    assert units == list(InputDataBySE().plan(manifest, files))


def test_a_thousand_files_at_five_storages() -> None:
    """Seven a unit: each file once, at a storage that all files of the unit share."""
    held = [{STORAGES[n % 5], STORAGES[n % 3], STORAGES[n % 2]} for n in range(1000)]
    files = [SplitFile(f"/lfn{n:04d}", 1, endpoints=tuple(sorted(s))) for n, s in enumerate(held)]
    units = list(InputDataBySE().plan({MAX_FILES: 7}, files))
    assert sorted(use.position for unit in units for use in unit.files) == [*range(1000)]
    assert max(len(unit.files) for unit in units) == 7
    for unit in units:
        shared = set.intersection(*(set(files[use.position].endpoints) for use in unit.files))
        assert unit.options[CHOSEN] in shared
    assert units == list(InputDataBySE().plan({MAX_FILES: 7}, files))


def test_storages_take_turns() -> None:
    """The storage that gave the fewest files is next: two of D1, two of D2, the last of D1."""
    files = [SplitFile(f"/lfn{n}", 1, endpoints=("D1", "D2")) for n in range(5)]
    units = InputDataBySE().plan({MAX_FILES: 2}, files)
    found = [(u.options[CHOSEN], [use.position for use in u.files]) for u in units]
    assert found == [("D1", [0, 1]), ("D2", [2, 3]), ("D1", [4])]


def test_a_file_without_replica_is_named() -> None:
    with pytest.raises(BadInput, match="1 of the 2 files have no replica, the first is /lfn"):
        list(InputDataBySE().plan({}, [at("D1"), at()]))


def test_by_files_size_and_boundary() -> None:
    """Seven files of 1 GB; ids 2, 1, 2, 1, 3, 3, 3."""
    files = [SplitFile(f"/lfn{n}", 10**9, boundary=b) for n, b in enumerate((2, 1, 2, 1, 3, 3, 3))]

    def positions(units: object) -> list[list[int]]:
        return [[use.position for use in unit.files] for unit in units]  # type: ignore[attr-defined]

    assert positions(ByFiles().plan({MAX_FILES: 3}, files)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert positions(BySize().plan({MAX_GB: "2.5"}, files)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert positions(BySize().plan({MAX_GB: "0.1"}, files)) == [[n] for n in range(7)]
    assert positions(ByBoundary().plan({}, files)) == [[1, 3], [0, 2], [4, 5, 6]]


def test_by_events() -> None:
    """Three files of 10 events, 15 a unit: the second file is divided."""
    files = [SplitFile(f"/lfn{n}", 1, n_events=10) for n in range(3)]
    units = [list(unit.files) for unit in ByEvents().plan({EVENTS: "15"}, files)]
    assert units == [[FileUse(0, 0, 10), FileUse(1, 0, 5)], [FileUse(1, 5, 10), FileUse(2, 0, 10)]]
    with pytest.raises(BadInput, match="numbers of events of 1 of 2 files are unknown"):
        list(ByEvents().plan({EVENTS: 1}, [files[0], SplitFile("/lfn9", 1)]))


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 50))
def test_each_event_is_in_one_unit(events: list[int], size: int) -> None:
    files = [SplitFile(f"/lfn{n}", 1, n_events=count) for n, count in enumerate(events)]
    units = list(ByEvents().plan({EVENTS: size}, files))
    seen = Counter(
        (use.position, event)
        for unit in units
        for use in unit.files
        for event in range(use.start or 0, use.stop or 0)
    )
    assert seen == Counter((n, event) for n, count in enumerate(events) for event in range(count))
    whole = [use.position for unit in units for use in unit.files if use.stop is None]
    assert whole == [n for n, count in enumerate(events) if count == 0]
    sizes = [sum((use.stop or 0) - (use.start or 0) for use in unit.files) for unit in units]
    assert all(one == size for one in sizes[:-1]) and all(one <= size for one in sizes)


def test_a_file_without_events_goes_with_its_neighbours() -> None:
    """Never lost: an empty file comes with the events that follow it, the last one with the last
    unit; empty files alone are a unit."""
    counts = (0, 10, 0, 10, 0)
    files = [SplitFile(f"/lfn{n}", 1, n_events=count) for n, count in enumerate(counts)]
    units = [list(unit.files) for unit in ByEvents().plan({EVENTS: 10}, files)]
    assert units == [[FileUse(0), FileUse(1, 0, 10)], [FileUse(2), FileUse(3, 0, 10), FileUse(4)]]
    [alone] = ByEvents().plan({EVENTS: 10}, [files[0], files[2]])
    assert list(alone.files) == [FileUse(0), FileUse(1)]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", True, "1e3"])
def test_bad_numbers(value: object) -> None:
    assert [p.path for p in ByFiles().check({MAX_FILES: value})] == [MAX_FILES]
    assert [p.path for p in ByEvents().check({})] == [EVENTS]
    assert BySize().check({MAX_GB: "1.5"}) == []


def test_by_events_with_a_limit_of_files() -> None:
    """Ganga documents, "GPI interface for splitting": `file_bunch_size=1, event_bunch_size=500`. 2
    files of 1000 events make 4 units; 1200 events and 300 make 3 and 1, since no unit has two
    files; without the limit they make 3."""

    def ranges(
        *events: int, most: int | None = 1
    ) -> list[list[tuple[int, int | None, int | None]]]:
        files = [SplitFile(f"f{n}", 1, n_events=one) for n, one in enumerate(events)]
        limit = {} if most is None else {MAX_FILES: most}
        units = ByEvents().plan({EVENTS: 500, **limit}, files)
        return [[(one.position, one.start, one.stop) for one in unit.files] for unit in units]

    assert ranges(1000, 1000) == [[(0, 0, 500)], [(0, 500, 1000)], [(1, 0, 500)], [(1, 500, 1000)]]
    assert ranges(1200, 300) == [[(0, 0, 500)], [(0, 500, 1000)], [(0, 1000, 1200)], [(1, 0, 300)]]
    assert len(ranges(1200, 300, most=None)) == 3
    assert [len(unit) for unit in ranges(200, 200, 200, most=2)] == [2, 1]
    assert [p.path for p in ByEvents().check({EVENTS: 5, MAX_FILES: 0})] == [MAX_FILES]
