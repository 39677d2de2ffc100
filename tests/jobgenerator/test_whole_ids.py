"""Boundary ids that no job divides: one job each, or a refusal with a reason."""

# Raw UPDATEs: boundaries that an event catalogue would give; a held task is ready again.

from __future__ import annotations

from typing import Any

import pytest
from support.generating import SECOND, catalogue, document, generate, ready, rows
from support.situations import make_due, set_sites
from support.split import chunk, cut, demand, files, sites, spans

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.ddm.interface import FileInfo
from jedi.jobgenerator.grouping import in_order, of_one_memory
from jedi.jobgenerator.strategies import FileStrategy
from jedi.jobgenerator.whole_ids import refuse_too_large
from jedi.model.datasets.chunk import Secondary
from jedi.model.splitting.split_rules import SplitRules
from jedi.taskbuffer.db import knobs

GB = 2**30


def listed(ids: list[int | None], name: str = "f", **columns: Any) -> list[FileInfo]:
    """Files f00, f01 … of 10 bytes with these boundary ids."""
    return [
        FileInfo(f"{name}{i:02}", 10, "00000001", boundary=one, **columns)
        for i, one in enumerate(ids)
    ]


def inputs(world: World) -> list[str]:
    """The input files of each job."""
    found = rows(world, "SELECT jobparameters FROM jedi_job_params ORDER BY pandaid")
    return [row.jobparameters.split(" > ")[0].removeprefix("cat ") for row in found]


def told(world: World) -> tuple[str, str, str]:
    (row,) = rows(world, "SELECT status, reason_code, errordialog FROM jedi_tasks")
    return row.status, row.reason_code, row.errordialog


def put(world: World, name: str, value: float) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, name, value, "op")
    world.refresh()


@pytest.mark.parametrize("mode", [3, 4])
def test_an_id_with_more_files_than_a_job_may_have_is_refused(world: World, mode: int) -> None:
    """Contract: modes 3, 4: "none is ever cut". Five files of id 7, and a job may have three: the
    task waits, with the id, its size, the limit and the remedy. With a limit of five it gets one
    job of five files."""
    put(world, "jobgen.hard_max_files_per_job", 3)
    catalogue(world, in_=listed([1, 7, 7, 7, 7, 7]))
    ready(world, document(groupBoundaryID=mode))
    generate(world)
    status, code, said = told(world)
    assert (status, code) == ("pending", "boundary_id_too_large")
    assert "Boundary id 7 of demo:in has 5 files. A job may have 3 files" in said
    assert "knob jobgen.hard_max_files_per_job" in said
    assert f"groupBoundaryID {mode} divides no id" in said
    assert inputs(world) == []
    put(world, "jobgen.hard_max_files_per_job", 5)
    rows(world, "UPDATE jedi_tasks SET status = 'ready', next_run_at = NULL RETURNING 1")
    generate(world)
    assert inputs(world) == ["f00", "f01 f02 f03 f04 f05"]


def test_secondary_files_of_an_id_count(world: World) -> None:
    """All secondary files of an id go with it: one master file and four others are five."""
    put(world, "jobgen.hard_max_files_per_job", 4)
    catalogue(world, in_=listed([1, 2]), second=listed([1, 2, 2, 2, 2], "s"))
    ready(world, document(SECOND, groupBoundaryID=4))
    generate(world)
    assert told(world)[:2] == ("pending", "boundary_id_too_large")
    assert "Boundary id 2 of demo:in has 5 files" in told(world)[2]
    assert inputs(world) == []


def test_an_id_is_whole_wherever_its_files_stand(world: World) -> None:
    """Files of an id that came later, or come back, may stand far behind the others. A cycle reads
    a part of the dataset: it reads an id whole. Here ids 1 and 2 take turns, 12 files in all, and a
    cycle reads seven files or more."""
    for name, value in (("jobgen.hard_max_files_per_job", 6), ("jobgen.n_files", 7)):
        put(world, name, value)
    catalogue(world, in_=listed([1] * 12))
    ready(world, document(groupBoundaryID=4))
    rows(
        world,
        "UPDATE jedi_dataset_contents SET boundaryid = 1 + right(lfn, 2)::int % 2 "
        "WHERE lfn LIKE 'f%' RETURNING 1",
    )
    for _ in range(3):
        generate(world)
        make_due(world)
    assert inputs(world) == ["f00 f02 f04 f06 f08 f10", "f01 f03 f05 f07 f09 f11"]


def test_files_without_an_id_are_no_unit(world: World) -> None:
    """JEDI document, BOUNDARYID: "Splitting Input to respect this identifier if not NULL"."""
    put(world, "jobgen.hard_max_files_per_job", 3)
    catalogue(world, in_=listed([None] * 5 + [1, 1]))
    ready(world, document(groupBoundaryID=4, nFilesPerJob=2))
    generate(world)
    assert inputs(world) == ["f00 f01", "f02 f03", "f04", "f05 f06"]


def test_the_output_of_an_id_has_a_limit_too() -> None:
    """tgtMaxOutputForNG 1: an id of two files that make 0.6 GB each does not fit; a single file of
    1.2 GB does, since it is not divided anyway."""
    asked = demand(out_disk_count=1024, out_disk_unit="kB")
    rules = SplitRules(group_boundary_id=3, max_output_gb=1)
    big = 6 * GB // 10
    alone = chunk(files(2, sizes=[2 * big, 10], boundaries=[4, 5]))
    pair = chunk(files(3, sizes=[10, big, big], boundaries=[4, 5, 5]))
    weigh = FileStrategy().weights
    refuse_too_large(weigh(asked, alone), alone, "a:b", rules, Knobs({}))
    with pytest.raises(JediError) as refused:
        refuse_too_large(weigh(asked, pair), pair, "a:b", rules, Knobs({}))
    assert refused.value.code == "boundary_id_too_large"
    assert "Boundary id 5 of a:b has 1.2 GB of expected output. A job may have 1 GB" in str(
        refused.value
    )
    assert "tgtMaxOutputForNG" in str(refused.value)


def test_a_site_without_scratch_space_for_an_id_is_refused(world: World) -> None:
    """The whole id is the smallest possible job: a site has to have the space for it."""
    set_sites(world, maxwdir=100)
    ids = listed([1, 2, 2, 2])
    large = [FileInfo(one.lfn, 40 * 2**20, "00000001", boundary=one.boundary) for one in ids]
    catalogue(world, in_=large)
    ready(world, document(groupBoundaryID=4))
    generate(world)
    status, code, said = told(world)
    assert (status, code) == ("pending", "no_site_fits")
    assert "boundary id 2 (3 files, 0.1 GB) is not divided" in said
    assert inputs(world) == []


def test_the_atom_is_the_largest_id() -> None:
    """Ids of 1, 3 and 2 files of 10 MB, with secondary files of 5: 10 + 5, 30, 20 + 10. Id 2 has no
    secondary file, so its job waits."""
    master = files(6, sizes=[10 * 2**20] * 6, boundaries=[1, 2, 2, 2, 3, 3])
    beside = Secondary("IN2", files(3, sizes=[5 * 2**20] * 3, boundaries=[1, 3, 3]))
    rules = SplitRules(group_boundary_id=4)
    (found,) = in_order([chunk(master, beside)], rules)
    assert FileStrategy().atom(rules, demand(), [found]).bytes == 30 * 2**20
    (fits,) = cut([found], rules, world=sites("S", max_wdir_mb=[31]))
    assert (fits.chunk.master.lfns, spans([fits])) == (["f0", "f4", "f5"], [(0, 1), (1, 3)])
    assert cut([found], rules, world=sites("S", max_wdir_mb=[29])) == []


def test_memory_does_not_divide_an_id() -> None:
    """A file that ran out of memory and one that came later are of the same id: both get it."""
    some = files(4, boundaries=[1, 1, 2, 2])
    some.ram_counts[1] = 4000
    first, ram = of_one_memory(in_order([chunk(some)], SplitRules(group_boundary_id=4)))
    assert ([c.master.lfns for c in first], ram) == ([["f0", "f1"]], 4000)
