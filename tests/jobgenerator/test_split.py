"""Cutting files into jobs, and what jobs are called and told: the pure part of the generator."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.split import (
    chunk,
    columns,
    cut,
    demand,
    files,
    follow,
    sites,
    spans,
)

from jedi.core.errors import JediError
from jedi.jobgenerator.budget import share_out
from jedi.jobgenerator.job_params import Template, list_names
from jedi.jobgenerator.lineage import trace
from jedi.jobgenerator.naming import MARK, jobs_allowed, name_files, padded
from jedi.model.datasets.chunk import Secondary
from jedi.model.jobs.demand import GB, MB, Demand, InputSize
from jedi.model.jobs.generation import JobOutput, OutputDataset, Predecessor
from jedi.model.splitting.split_rules import SCOUTED, SCOUTING, SplitRules
from jedi.splitter.cap_cutter import CapCutter, walk

# ------------------------------------------------------------------------------- the splitter


@given(columns)
def test_every_file_once_in_order_and_as_many_as_fit(
    drawn: tuple[list[tuple[int, ...]], tuple[int, ...]],
) -> None:
    rows, caps = drawn
    table = np.array(rows, np.int64)
    weights = {str(i): table[:, i] for i in range(table.shape[1])}
    limits = {str(i): float(cap) for i, cap in enumerate(caps)}
    ends = walk(CapCutter(weights).cuts(limits), 0, 10**9)
    starts = [0, *ends[:-1]]
    assert ends[-1] == len(rows)
    assert all(a < b for a, b in zip(starts, ends, strict=True))
    for a, b in zip(starts, ends, strict=True):
        alone = b - a == 1
        assert alone or (table[a:b].sum(axis=0) <= caps).all()
        if b < len(rows):
            assert (table[a : b + 1].sum(axis=0) > caps).any(), "another file would have fitted"


@given(columns, st.integers(1, 10), st.integers(1, 10))
def test_where_jobs_end_does_not_depend_on_the_batch(
    drawn: tuple[list[tuple[int, ...]], tuple[int, ...]], one: int, other: int
) -> None:
    rows, caps = drawn
    table = np.array(rows, np.int64)
    cuts = CapCutter({str(i): table[:, i] for i in range(table.shape[1])}).cuts(
        {str(i): float(cap) for i, cap in enumerate(caps)}
    )

    def batches(size: int) -> list[int]:
        ends: list[int] = []
        while not ends or ends[-1] < len(rows):
            ends += walk(cuts, ends[-1] if ends else 0, size)
        return ends

    assert batches(one) == batches(other)


@given(
    st.lists(st.integers(0, 30 * 2**30), min_size=1, max_size=80),
    st.sampled_from(
        [
            SplitRules(),
            SplitRules(n_files_per_job=7),
            SplitRules(n_gb_per_job=50.0),
            SplitRules(max_files_per_job=5),
        ]
    ),
    st.integers(8, 40),
    st.integers(1, 5),
)
def test_where_jobs_end_does_not_depend_on_how_much_is_read(
    sizes: list[int], rules: SplitRules, portion: int, batch: int
) -> None:
    """A cycle reads a portion and leaves the last job, which may be incomplete, to the next."""
    knobs: dict[str, Any] = {"jobgen.max_files_per_job": 7, "jobgen.batch_jobs": batch}
    at_once = spans(cut([chunk(files(len(sizes), sizes))], rules, **knobs))
    done: list[tuple[int, int]] = []
    while (first := done[-1][1] if done else 0) < len(sizes):
        part = sizes[first : first + portion]
        more = first + portion < len(sizes)
        found = spans(cut([chunk(files(len(part), part), more=more)], rules, **knobs))
        done += [(first + a, first + b) for a, b in found]
    assert done == at_once


def test_a_million_files_take_less_than_half_a_second() -> None:
    """Five times slower than measured (benchmarks/generate.py), because machines are shared."""
    ones = np.ones(1_000_000)
    begin = time.process_time()
    assert len(walk(CapCutter({"n": ones}).cuts({"n": 10.0}), 0, 10**9)) == 100_000
    assert time.process_time() - begin < 0.5


# ---------------------------------------------------------------------------- what a job is

HALF_GB = 2**29
GB_ = 2**30


@pytest.mark.parametrize(
    ("rules", "asked", "expected"),
    [
        (SplitRules(n_files_per_job=8), demand(), [8, 8, 4]),
        (SplitRules(n_files_per_job=8, n_gb_per_job=1), demand(), [8, 8, 4]),
        # input + max(output, 2.5 GB) + work directory < nGBPerJob
        (SplitRules(n_gb_per_job=5), demand(), [4] * 5),
        (SplitRules(n_gb_per_job=5.1), demand(), [5] * 4),
        (SplitRules(n_gb_per_job=5), demand(work_disk_count=1, work_disk_unit="GB"), [2] * 10),
        (SplitRules(n_gb_per_job=2), demand(), [1] * 20),
        (SplitRules(n_gb_per_job=0.1), demand(), [1] * 20),
        (SplitRules(max_files_per_job=6), demand(), [6, 6, 6, 2]),
        (SplitRules(), demand(), [20]),
        # half a MB of output for each MB of input: 7.5 + 3.75 < 12, and 8 + 4 is not
        (SplitRules(n_gb_per_job=12), demand(out_disk_count=512, out_disk_unit="kB"), [15, 5]),
        (
            SplitRules(n_gb_per_job=12),
            demand(out_disk_count=256, out_disk_unit="MBPerEvent"),
            [15, 5],
        ),
    ],
)
def test_twenty_files_of_half_a_gigabyte(
    rules: SplitRules, asked: Demand, expected: list[int]
) -> None:
    """JEDI document, "nGBPerJob": "This setting in the request interface is not the input GB per
    job. The disk usage is estimated as inputsize + max(outdisksize*inputsize/1MB, 2.5GB) +
    workdirsize. JEDI tries to generate jobs so that the estimation for each job is less than NG."
    """
    found = spans(cut([chunk(files(20, [HALF_GB] * 20, [1] * 20))], rules, asked))
    assert [b - a for a, b in found] == expected


@pytest.mark.parametrize(
    ("preset", "files_", "size", "asked", "expected"),
    [
        ("classic", 15, 10, demand(), [7, 7, 1]),  # 7 + 2.5 < 10
        ("classic", 24, 2, demand(), [1] * 24),
        ("classic", 30, 40, demand(out_disk_count=1, out_disk_unit="MB"), [19, 11]),  # 19 + 19 < 40
        # 10 + 1.46 <= 10 + 1.46; 5 + 5 <= 8 + 1.46 is not; the work directory comes on top
        ("current", 15, 10, demand(work_disk_count=2, work_disk_unit="GB"), [10, 5]),
        ("current", 24, 2, demand(), [2] * 12),
        ("current", 8, 8, demand(out_disk_count=1, out_disk_unit="MB"), [4, 4]),
        (
            "current",
            30,
            40,
            demand(out_disk_count=1, out_disk_unit="MB"),
            [10, 10, 10],
        ),  # 10 GB out
    ],
)
def test_the_size_of_jobs_of_files_of_a_gigabyte(
    preset: str, files_: int, size: float, asked: Demand, expected: list[int]
) -> None:
    """classic: the sum of the JEDI document; current: nGBPerJob + 1500 MB + work directory, where
    output counts as 1500 MB at least, and at most 10 GB of output
    (docs/reference/splitting.md#ngbperjob)."""
    one = chunk(files(files_, [GB_] * files_, [1] * files_))
    knobs: dict[str, Any] = {"core.preset": preset}
    found = spans(cut([one], SplitRules(n_gb_per_job=size), asked, None, **knobs))
    assert [b - a for a, b in found] == expected


def test_defaults_are_200_files_and_20_gb() -> None:
    small = spans(cut([chunk(files(450, [1] * 450))], SplitRules()))
    assert [b - a for a, b in small] == [200, 200, 50]
    large = spans(cut([chunk(files(50, [2**30] * 50))], SplitRules()))
    assert [b - a for a, b in large] == [20, 20, 10]


def test_no_job_gets_more_than_a_thousand_files() -> None:
    found = spans(cut([chunk(files(2500))], SplitRules(n_files_per_job=5000)))
    assert [b - a for a, b in found] == [1000, 1000, 500]
    follow = Secondary("IN2", files(7500), ratio=3)
    found = spans(cut([chunk(files(2500), follow)], SplitRules(n_files_per_job=5000)))
    assert {b - a for a, b in found} == {250}


def test_walltime_limits_jobs_where_cpu_time_is_known() -> None:
    # 100 HS06 s an event, 90 %, 10 HS06 a core: 3600 s leave 3000 s for 270 events
    asked = demand(1.0, cpu_time=100)
    many = chunk(files(30, [1] * 30, [100] * 30))
    assert {b - a for a, b in spans(cut([many], SplitRules(max_walltime_h=1), asked))} == {2}
    # 300 s for each MB leave room for 10 MB in those 3000 s
    by_size = chunk(files(30, [3 * 2**20] * 30))
    found = spans(cut([by_size], SplitRules(max_walltime_h=1), demand(1.0, walltime=300)))
    assert {b - a for a, b in found} == {3}
    # the site's limit, on 4 cores
    asked = demand(cpu_time=100, core_count=4)
    world = sites("S", max_time_s=[3600], cores=[4])
    assert [b - a for a, b in spans(cut([many], SplitRules(), asked, world))] == [10, 10, 10]


def test_sites_with_other_limits_take_turns() -> None:
    world = sites("LARGE", "SMALL", max_wdir_mb=[20 * 1024, 5 * 1024])
    many = chunk(files(2000, [2**30] * 2000))
    knobs: dict[str, Any] = {"jobgen.batch_jobs": 10}
    (found,) = cut([many], SplitRules(), world=world, **knobs)
    sizes = found.stops - found.starts
    assert {*sizes[found.sites == 0][:-1].tolist()} == {20}
    assert {*sizes[found.sites == 1].tolist()} <= {5, 2000 % 5 or 5}
    assert found.stops[-1] == 2000
    # batches of ten jobs
    changes = np.flatnonzero(np.diff(found.sites)) + 1
    assert len(changes) > 3
    assert (changes % 10 == 0).all()


def test_a_cycle_makes_no_more_jobs_than_allowed() -> None:
    two = [chunk(files(50)), chunk(files(50))]
    found = cut(two, SplitRules(n_files_per_job=10), most=7)
    assert [len(c) for c in found] == [5, 2]


# ------------------------------------------------------------------------------- secondaries


@pytest.mark.parametrize(
    ("secondary", "expected"),
    [
        (Secondary("IN2", files(10)), [(0, 4), (4, 8), (8, 10)]),
        (Secondary("IN2", files(20), ratio=2), [(0, 8), (8, 16), (16, 20)]),
        (Secondary("IN2", files(20), ratio=0.3), [(0, 2), (2, 4), (4, 5)]),
        (Secondary("IN2", files(3), whole=True), [(0, 3)] * 3),
        (Secondary("IN2", files(5), repeated=True), [(0, 4), (4, 8), (8, 10)]),
        (Secondary("IN2", files(3), repeated=True), []),  # the first job would get one twice
        (Secondary("IN2", files(9)), [(0, 4), (4, 8)]),  # one short: the last job must wait
        (Secondary("IN2", files(0)), []),
        (Secondary("IN2", files(0), repeated=True), []),
    ],
)
def test_secondary_files(secondary: Secondary, expected: list[tuple[int, int]]) -> None:
    found = cut([chunk(files(10), secondary)], SplitRules(n_files_per_job=4))
    assert follow(found) == expected


def test_rounding_up_does_not_stumble_over_binary_fractions() -> None:
    secondary, masters = Secondary("IN2", files(1), ratio=0.1), np.array([1, 10, 70, 71])
    assert secondary.n_files_for(masters).tolist() == [
        1,
        1,
        7,
        8,
    ]


def test_what_every_job_gets_must_fit_into_a_job() -> None:
    whole = Secondary("IN2", files(1000), whole=True)
    with pytest.raises(JediError, match=r"knob jobgen\.hard_max_files_per_job"):
        cut([chunk(files(5), whole)], SplitRules())
    (found,) = cut([chunk(files(5), Secondary("IN2", files(998), whole=True))], SplitRules())
    assert (found.stops - found.starts).tolist() == [2, 2, 1]


@given(
    st.integers(1, 60),
    st.integers(1, 9),
    st.sampled_from([0.3, 0.5, 1.0, 1.7, 2.0, 3.0]),
    st.integers(0, 200),
)
def test_secondary_files_are_used_once_and_suffice(
    n: int, each: int, ratio: float, there: int
) -> None:
    found = cut(
        [chunk(files(n), Secondary("IN2", files(there), ratio))], SplitRules(n_files_per_job=each)
    )
    jobs, beside = spans(found), follow(found)
    assert len(jobs) == len(beside)
    position = 0
    for (a, b), (first, last) in zip(jobs, beside, strict=True):
        assert (first, last - first) == (position, math.ceil(round((b - a) * ratio, 6)))
        position = last
    assert position <= there


def test_the_size_of_secondaries_counts() -> None:
    beside = Secondary("IN2", files(40, [HALF_GB] * 40), ratio=2)
    found = cut([chunk(files(20, [HALF_GB] * 20), beside)], SplitRules(n_gb_per_job=6))
    assert {b - a for a, b in spans(found)} == {2}
    whole = Secondary("IN2", files(2, [HALF_GB] * 2), whole=True)
    found = cut([chunk(files(20, [HALF_GB] * 20), whole)], SplitRules(n_gb_per_job=6))
    assert {b - a for a, b in spans(found)} == {4}


# ------------------------------------------------------------- names, parameters, lineage


def output(serial: int = 0, most: int | None = None) -> JobOutput:
    return JobOutput(
        1,
        OutputDataset(2, "a:out", "ready"),
        "output",
        "output",
        "OUTPUT0",
        "o.${SN}",
        None,
        serial,
        most,
        None,
    )


def test_serial_numbers_count_on_and_end() -> None:
    numbers, names = name_files(output(serial=41), [f"a.{MARK}", f"b.{MARK}", f"b.{MARK}"])
    assert (numbers, names) == ([42, 43, 44], ["a.000042", "b.000043", "b.000044"])
    assert [padded(n) for n in (7, 1234567)] == ["000007", "1234567"]
    assert jobs_allowed([output(), output(serial=8, most=10)], 100) == 2
    with pytest.raises(JediError, match=r"a:out are used up: 10 of 10\. Raise MAXSERIALNR"):
        jobs_allowed([output(serial=10, most=10)], 100)


def test_a_serial_number_that_makes_the_name_of_an_input_is_left_out() -> None:
    """A payload that writes `o.000001` where it reads `o.000001` loses its input. Job 0 reads 1,
    so takes 2; job 1 reads 3 and 4, so takes 5; job 2 reads 6, so takes 7."""
    reads = {0: {"o.000001"}, 1: {"o.000003", "o.000004"}, 2: {"o.000006"}}
    numbers, names = name_files(output(), [f"o.{MARK}"] * 3, lambda job, name: name in reads[job])
    assert (numbers, names) == ([2, 5, 7], ["o.000002", "o.000005", "o.000007"])
    with pytest.raises(JediError, match=r"used up: 7 of 6"):
        name_files(output(most=6), [f"o.{MARK}"] * 3, lambda job, name: name in reads[job])
    with pytest.raises(JediError, match="write its output o over its input") as wrong:
        name_files(output(), ["o"], lambda job, name: name == "o")
    assert wrong.value.code == "output_is_input"


@pytest.mark.parametrize(
    ("names", "form", "expected"),
    [
        (["a.1"], "", "a.1"),
        (["a.01.txt", "a.02.txt", "a.10.txt"], "", "a.[01,02,10].txt"),
        (["f1", "f12", "f123"], "", "f[1,12,123]"),
        (["f1x1", "f2x1"], "", "f[1,2]x1"),
        (["a.txt", "b.txt"], "", "a.txt,b.txt"),
        (["f1", "f1"], "", "f[1,1]"),
        (["1a", "a1"], "", "1a,a1"),
        (["a", "b"], "L", "a,b"),
        (["a", "b"], "S", "a b"),
        (["a", "b"], "E", "a,b"),
        (["a", "b"], "A", '"a","b"'),
        (["a", "b"], "T", "['a', 'b']"),
        (["f1", "f2", "f3"], "[1:]", "f[2,3]"),
        (["f1", "f2", "f3"], "L[:-1]", "f1,f2"),
        (["f1", "f2"], "S[5:9]", ""),
        ([], "S", ""),
    ],
)
def test_file_names_in_parameters(names: list[str], form: str, expected: str) -> None:
    assert list_names(names, form) == expected


@given(st.lists(st.from_regex(r"[ab0-9.]{1,6}", fullmatch=True), min_size=2, max_size=4))
def test_folded_names_can_be_unfolded(names: list[str]) -> None:
    text = list_names(names, "")
    if "[" in text:
        head, _, rest = text.partition("[")
        middle, _, tail = rest.partition("]")
        assert [f"{head}{part}{tail}" for part in middle.split(",")] == names
    else:
        assert text == ",".join(names)


def test_templates_are_filled_in_not_evaluated() -> None:
    values: Mapping[str, Any] = {
        "${IN/S}": ["a b", "c"],
        "${SN}": ["1", "2"],
        "$JEDITASKID": "7",
        "$PANDAID": ["8", "9"],
    }
    text = "$(id) 100% %s {x} ${HOME:-x} ${in} $$ ${IN/S} $PANDAID.$JEDITASKID ${SN} `${SN}` \\"
    assert Template(text).render(values.__getitem__, 2) == [
        "$(id) 100% %s {x} ${HOME:-x} ${in} $$ a b 8.7 1 `1` \\",
        "$(id) 100% %s {x} ${HOME:-x} ${in} $$ c 9.7 2 `2` \\",
    ]
    assert Template("as it is, 5%").render(values.__getitem__, 2) == ["as it is, 5%"] * 2


def test_units_and_origins() -> None:
    """The example of JEDI document, "Naming of output file": a failed job is split in two, and a
    unit that stays one."""
    previous = [100, 100, 101, 101, 102, 103, 0, 0]
    cuts = cut([chunk(files(8, previous=previous))], SplitRules(n_files_per_job=2))
    known = {
        100: Predecessor(origin=50, unit=1, n_inputs=2),
        101: Predecessor(origin=101, unit=2, n_inputs=4),
        102: Predecessor(origin=60, unit=3, n_inputs=1),
        103: Predecessor(origin=55, unit=4, n_inputs=1),
    }
    found = trace(cuts, [200, 201, 202, 203], known, last_unit=9)
    assert found.origins == [50, 101, 55, 203]
    assert found.units == [1, 10, 11, 12]  # the second had four inputs, the third comes from two
    assert [(r.old, r.new, r.origin) for r in found.retries] == [
        (100, 200, 50),
        (101, 201, 101),
        (102, 202, 55),
        (103, 202, 55),
    ]


@given(st.lists(st.integers(0, 100), max_size=8), st.integers(0, 300))
def test_files_of_a_cycle_are_shared_out_fairly(wanted: list[int], total: int) -> None:
    shares = share_out(wanted, total)
    assert all(0 <= got <= want for got, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(total, sum(wanted))
    hungry = [got for got, want in zip(shares, wanted, strict=True) if got < want]
    assert not hungry or max(shares) - min(hungry) <= 1


# -------------------------------------------------------------------------------- the formulas


def test_figures_of_the_specification() -> None:
    """docs/reference/estimates.md#walltime: 172,800 s on 8 cores of 12 HS06; 2000 events of 250
    HS06 s."""
    asked = demand(
        cpu_time=250, core_count=8, ram_count=2200, ram_unit="MBPerCore", base_ram_count=1000
    )
    eight, power = np.array([8.0]), np.array([12.0])
    assert asked.events_within(172_800, 8, 12) * 250 == pytest.approx(14_878_080)
    walltime = asked.walltime_s(InputSize(0.0, 2000.0), eight, power)
    assert walltime is not None
    assert round(float(walltime[0])) == 6387
    assert asked.memory_mb(eight, 0.9)[0] == pytest.approx(16_740)
    assert asked.memory_mb(np.array([1.0]), 0.9)[0] == pytest.approx(2_880)
    assert asked.memory_mb(eight, 1.0)[0] == 18_600


def test_what_is_not_said_costs_nothing() -> None:
    asked = demand()
    one = np.array([1.0])
    assert asked.walltime_s(InputSize(0.0, 1.0), one, one) is None
    assert asked.memory_mb(one, 1.0)[0] == 0
    assert asked.disk_mb(InputSize(5 * MB, 1.0)) == 5
    assert asked.events_within(1.0, 1.0, 1.0) == np.inf
    assert demand(cpu_time=5, cpu_efficiency=0).walltime_s(InputSize(0.0, 9.0), one, one) == 600
    assert demand(core_count=0).cores_at(np.array([8.0]))[0] == 8
    assert demand(core_count=1).cores_at(np.array([8.0]))[0] == 1
    by_size = demand(walltime=60)
    assert by_size.walltime_s(InputSize(5 * MB, 1.0), 2 * one, one) == 600 + 60 * 5 / 2
    assert by_size.bytes_within(720.0, 2.0) == 4 * MB
    both = demand(walltime=60, cpu_time=5)
    assert both.walltime_s(InputSize(5 * MB, 1.0), one, one) == 600 + 5 / 0.9
    assert both.bytes_within(720.0, 2.0) == np.inf
    milli = demand(cpu_time=5000, cpu_time_unit="mHS06sPerEvent")
    assert milli.hs06_s_per_event == 5
    work = demand(
        work_disk_count=1, work_disk_unit="GB", out_disk_count=2, out_disk_unit="GBPerEvent"
    )
    assert work.disk_mb(InputSize(GB, 3.0)) == 1024 + 3 * 2048 + 1024


def test_scouts_take_turns_by_two() -> None:
    """docs/reference/brokerage.md#choice: batches of 25 jobs, 2 of scouts; for each a site is drawn
    in proportion to its weight, which is then multiplied by (queued before + 1) ÷ (after + 1): of
    three idle sites one that got two scouts weighs a third."""
    some, scouts = files(10), SplitRules(n_files_per_job=1, use_scout=SCOUTING)
    (found,) = cut([chunk(some)], scouts, world=sites("A", "B", "C"))
    pairs = found.sites.reshape(5, 2)
    assert (pairs[:, 0] == pairs[:, 1]).all() and len(set(found.sites.tolist())) > 1
    (others,) = cut([chunk(some)], scouts.then(SCOUTED), world=sites("A", "B", "C"))
    assert len(set(others.sites.tolist())) == 1
