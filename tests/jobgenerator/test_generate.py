"""The JobGenerator on a real database: ready files become jobs, once, with all that is theirs."""

# Raw UPDATEs: rules and templates that the refiner refuses; priorities that a dog raises.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, text
from support.generate import end, inputs_of, jobs_of, turn
from support.generating import SECOND, Catalogue, catalogue, document, generate, ready, rows, use
from support.helpers import put_file_dataset
from support.job_rows import watch
from support.situations import make_due, set_sites
from support.task_rows import OUTPUT, row_of

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.ddm.interface import FileInfo
from jedi.jobgenerator import agent
from jedi.jobgenerator.agent import JobGenerator
from jedi.jobgenerator.propose import propose
from jedi.taskbuffer.db import copying
from jedi.taskbuffer.jobs import ready_files
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move

HERE, THERE = "SITE_A_DATADISK", "SITE_B_DATADISK"
SEED = {"type": "template", "param_type": "number", "value": "${RNDMSEED}", "offset": 1000}


def counters(world: World, task_id: int) -> dict[str, tuple[int, int, int]]:
    return {
        row.datasetname: (row.nfiles, row.nfilestobeused, row.nfilesused)
        for row in rows(world, "SELECT * FROM jedi_datasets WHERE jeditaskid = :t", t=task_id)
    }


# --------------------------------------------------------------------------- what is written


def test_ready_files_become_jobs(world: World) -> None:
    ddm = catalogue(world, in_=[FileInfo(f"in{i}", 100, f"{i:08x}", f"g{i}", 5) for i in range(5)])
    (task,) = ready(world, document(nFilesPerJob=2, ramCount=1000, coreCount=1, transPath="run"))
    assert generate(world) == 1
    jobs = jobs_of(world, task)
    assert [j.command for j in jobs] == [
        "run cat in0 in1 > o.000001",
        "run cat in2 in3 > o.000002",
        "run cat in4 > o.000003",
    ]
    one = jobs[0]
    assert (one.status, one.attemptnr, one.kind, one.n_inputs, one.n_events) == (
        "activated",
        1,
        "normal",
        2,
        10,
    )
    assert (one.cores, one.memory_mb, one.walltime_s, one.disk_mb) == (1, 1000, 0, 1)
    assert (one.username, one.vo, one.prodsourcelabel, one.priority) == (
        "anna",
        "local",
        "user",
        1000,
    )
    assert (one.workqueue_id, one.gshare, one.resource_type, one.taskid) == (
        1,
        "user",
        "SCORE",
        task,
    )
    assert [j.originpandaid for j in jobs] == [j.panda_id for j in jobs]
    assert [j.unit_nr for j in jobs] == [1, 2, 3]

    files = rows(
        world,
        "SELECT * FROM jedi_job_files WHERE pandaid = :j ORDER BY type, fileid",
        j=one.panda_id,
    )
    site = f"{one.site}_DATADISK"
    assert [
        (f.type, f.lfn, f.endpoint, f.fsize, f.checksum, f.guid, f.n_events) for f in files
    ] == [
        ("input", "in0", site, 100, "00000000", "g0", 5),
        ("input", "in1", site, 100, "00000001", "g1", 5),
        ("log", f"t.{task}.log.000001.tgz", site, None, None, None, None),
        ("output", "o.000001", site, None, None, None, None),
    ]
    contents = rows(world, "SELECT * FROM jedi_dataset_contents ORDER BY fileid")
    assert {(c.type, c.status, c.proc_status) for c in contents} == {
        ("input", "running", "queued"),
        ("output", "defined", "queued"),
        ("log", "defined", "queued"),
    }
    assert all(c.attemptnr == 1 and c.pandaid for c in contents)
    assert {c.scope for c in contents if c.type == "output"} == {"a"}
    assert all(c.outpandaid == c.pandaid for c in contents if c.type != "input")

    assert len(rows(world, "SELECT * FROM jedi_job_ready")) == 3
    log = rows(world, "SELECT * FROM jedi_jobs_statuslog ORDER BY pandaid")
    assert [(x.pandaid, x.fromstatus, x.status, x.agent) for x in log] == [
        (j.panda_id, None, "activated", "JobGenerator") for j in jobs
    ]
    (delta,) = rows(
        world,
        "SELECT status, sum(jobs) AS jobs, sum(cores) AS cores "
        "FROM job_stats_delta GROUP BY status",
    )
    assert tuple(delta) == ("activated", 3, 3)
    assert counters(world, task) == {
        "demo:in": (5, 5, 5),
        "a:out": (3, 0, 0),
        "a:out.log": (3, 0, 0),
    }
    templates = rows(world, "SELECT serialnr FROM jedi_output_template")
    assert [t.serialnr for t in templates] == [3, 3]
    assert ddm.made == {("a:out", site), ("a:out.log", site)}
    moves = rows(
        world,
        "SELECT status, count(*) FROM jedi_datasets_statuslog "
        "WHERE agent = 'JobGenerator' GROUP BY status ORDER BY status",
    )
    assert [tuple(m) for m in moves] == [("ready", 2), ("running", 2)]
    row = row_of(world, task)
    assert (row.status, row.reason_code, row.lockedby) == ("running", "jobs_generated", None)
    assert generate(world) == 0


def test_a_cycle_takes_as_many_statements_for_a_thousand_jobs_as_for_ten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch(world.engine)
    copy = copying._copy  # SQLAlchemy does not see these

    def copy_and_tell(tx: Connection, statement: str, data: str | bytes) -> None:
        seen.append(statement)
        copy(tx, statement, data)

    monkeypatch.setattr(copying, "_copy", copy_and_tell)
    counted = []
    for n in (10, 1000):
        catalogue(world, in_=n * 2)
        (task,) = ready(world, document(SEED, nFilesPerJob=2, output=f"a:out{n}"))
        seen.clear()
        assert generate(world) == 1
        counted.append(len(seen))
        assert len(jobs_of(world, task)) == n
    assert counted[0] == counted[1] <= 45


def test_many_tasks_in_one_cycle(world: World) -> None:
    catalogue(world, in_=7)
    documents = [document(nFilesPerJob=1 + i, output=f"a:out{i}") for i in range(5)]
    ids = ready(world, *documents)
    turn(world, jobgen__batch=5)
    assert generate(world) == 5
    assert [len(jobs_of(world, t)) for t in ids] == [7, 4, 3, 2, 2]
    assert {row_of(world, t).status for t in ids} == {"running"}
    for task in ids:
        assert sum(map(len, inputs_of(world, task).values())) == 7
    assert len(rows(world, "SELECT FROM jedi_snapshots")) == 1
    assert len(rows(world, "SELECT FROM jedi_broker_decisions WHERE outcome = 'chosen'")) == 5


def test_what_a_cycle_does_not_read_is_left_for_the_next(world: World) -> None:
    """The same jobs come out as if all had been read at once."""
    catalogue(world, in_=23)
    turn(world, jobgen__n_files=1, jobgen__hard_max_files_per_job=5)
    (task,) = ready(world, document(nFilesPerJob=4))
    cycles = 0
    while generate(world):
        cycles += 1
    assert cycles > 3
    assert [len(lfns) for lfns in inputs_of(world, task).values()] == [4, 4, 4, 4, 4, 3]
    found = [lfn for lfns in inputs_of(world, task).values() for lfn in lfns]
    assert found == [f"in{i:06d}" for i in range(23)]
    outputs = [lfn for lfns in inputs_of(world, task, "output").values() for lfn in lfns]
    assert outputs == [f"o.{n:06d}" for n in range(1, 7)]
    assert [j.unit_nr for j in jobs_of(world, task)] == [1, 2, 3, 4, 5, 6]


def test_no_more_files_are_read_than_the_jobs_of_a_cycle_use(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue with little room would read 100,000 files again and again."""
    limits: list[int] = []
    read = ready_files.read_ready

    def noting(tx: Connection, wanted: Mapping[int, int], *order: str, **named: Any) -> Any:
        limits.extend(wanted.values())
        return read(tx, wanted, *order, **named)

    monkeypatch.setattr(ready_files, "read_ready", noting)
    catalogue(world, in_=23)
    turn(world, throttler__queue_cap=2, jobgen__hard_max_files_per_job=5)
    task, ordered = ready(
        world, document(nFilesPerJob=4), document(nFilesPerJob=4, orderByLB=True, output="a:2")
    )
    assert generate(world) == 2
    assert [len(lfns) for lfns in inputs_of(world, task).values()] == [4, 4]
    assert inputs_of(world, ordered) == {} and limits == [12]
    turn(world, throttler__queue_cap=4)
    with world.engine.begin() as tx:
        make_due(tx)
        tx.execute(text("UPDATE jedi_tasks SET currentpriority = jeditaskid"))
    assert generate(world) == 2
    assert len(inputs_of(world, ordered)) == 2 and limits == [12, 23]


def test_the_broker_sees_all_files_if_no_site_takes_the_first(world: World) -> None:
    """The first files lie where nobody works, later ones at a site that works: it gets the jobs,
    and its inputs are brought there. Room for two jobs."""
    turn(world, throttler__queue_cap=2, broker__local="full", jobgen__hard_max_files_per_job=1)
    rows(world, "UPDATE jedi_sites SET status = 'offline' WHERE site = 'SITE_B' RETURNING 1")
    away = Catalogue({"demo:in": [FileInfo(f"f{i:02}", 1) for i in range(20)]}, endpoints=[THERE])

    class Spread(Catalogue):
        def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
            return {lfn: [HERE if lfn >= "f10" else THERE] for lfn in lfns}

    use(world, Spread(away.files))
    (task,) = ready(world, document(nFilesPerJob=1), label="user")
    assert generate(world) == 1
    assert [job.site for job in jobs_of(world, task)] == ["SITE_A"] * 2
    assert sorted(inputs_of(world, task).values()) == [["f00"], ["f01"]]


def test_a_task_that_no_site_takes_is_brokered_once_a_cycle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two jobs; the first read has all files of the task already."""
    asked: list[int] = []

    def noting(task: Any, chunks: Any, *others: Any, **named: Any) -> Any:
        asked.extend(len(chunk.master) for chunk in chunks)
        return propose(task, chunks, *others, **named)

    monkeypatch.setattr(agent, "propose", noting)
    rows(world, "UPDATE jedi_sites SET status = 'offline' RETURNING 1")
    turn(world, throttler__queue_cap=2)
    catalogue(world, in_=20)
    (task,) = ready(world, document(nFilesPerJob=1))
    assert generate(world) == 1
    assert jobs_of(world, task) == [] and asked == [20]


def test_text_survives_the_way_into_the_database(world: World) -> None:
    catalogue(world, in_=1)
    command = "printf '%s\\t\\\\ 100%%\\n' \"$HOME\"\n# second\tline \\N"
    item = {"type": "constant", "value": command}
    (task,) = ready(world, document(item, nFilesPerJob=1))
    generate(world)
    assert jobs_of(world, task)[0].command == f"cat in000000 {command} > o.000001"


# ------------------------------------------------------------------------- places and inputs


def test_inputs_that_are_elsewhere_must_be_brought(world: World) -> None:
    use(world, Catalogue({"demo:in": [FileInfo(f"f{i}", 1) for i in range(4)]}, endpoints=[THERE]))
    here, there = ready(
        world,
        document(nFilesPerJob=2, site="SITE_A", output="a:one"),
        document(nFilesPerJob=2, site="SITE_B", output="a:two"),
    )
    generate(world)
    assert [(j.site, j.status) for j in jobs_of(world, here)] == [("SITE_A", "assigned")] * 2
    assert [(j.site, j.status) for j in jobs_of(world, there)] == [("SITE_B", "activated")] * 2
    at = rows(
        world,
        "SELECT DISTINCT jeditaskid, endpoint FROM jedi_job_files WHERE type = 'input' ORDER BY 1",
    )
    assert [tuple(row) for row in at] == [(here, HERE), (there, THERE)]
    waiting = rows(world, "SELECT site, count(*) FROM jedi_job_ready GROUP BY site")
    assert [tuple(row) for row in waiting] == [("SITE_B", 2)]


def test_on_real_directories(world: World) -> None:
    files = {f"f{i}": b"x" * i for i in range(4)}
    put_file_dataset(world, "demo:in", files, HERE)
    (task,) = ready(world, document(nFilesPerJob=2, site="SITE_A"))
    generate(world)
    assert [(j.status, j.command) for j in jobs_of(world, task)] == [
        ("activated", "cat f0 f1 > o.000001"),
        ("activated", "cat f2 f3 > o.000002"),
    ]
    assert world.ddm.dataset("a:out").state == "open"
    assert world.ddm.dataset("a:out.log").state == "open"


def test_a_file_that_is_nowhere_is_left_to_the_mover(world: World) -> None:
    listed = {"demo:in": [FileInfo("f0", 1), FileInfo("f1", 1)]}
    use(world, Catalogue(listed, nowhere=frozenset({"f1"})))
    (task,) = ready(world, document(nFilesPerJob=1))
    generate(world)
    assert [j.status for j in jobs_of(world, task)] == ["activated", "assigned"]


def test_data_management_is_asked_once_for_each_file(world: World) -> None:
    asked: Counter[str] = Counter()

    class Counting(Catalogue):
        def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
            lfns = list(lfns)
            asked.update(lfns)
            return super().locate(name, lfns)

    turn(world, broker__local="full")
    use(world, Counting(catalogue(world, in_=5).files))
    ready(world, document(nFilesPerJob=2), label="user")
    generate(world)
    assert len(rows(world, "SELECT FROM jedi_jobs")) == 3
    assert sorted(asked.values()) == [1] * 5


def test_outputs_go_to_the_nucleus(world: World) -> None:
    ddm = catalogue(world, in_=2)
    (task,) = ready(world, document(nFilesPerJob=1, site="SITE_A", nucleus="SITE_B"))
    assert TaskBroker(world).run_once() == 1
    generate(world)
    assert {endpoint for _, endpoint in ddm.made} == {THERE}
    kinds = rows(world, "SELECT DISTINCT type, endpoint FROM jedi_job_files ORDER BY 1")
    assert [tuple(k) for k in kinds] == [("input", HERE), ("log", THERE), ("output", THERE)]
    assert {(j.site, j.nucleus) for j in jobs_of(world, task)} == {("SITE_A", "SITE_B")}


def test_jobs_do_not_mix_datasets(world: World) -> None:
    catalogue(world, in_=3, more=5)
    item = {
        "type": "template",
        "param_type": "input",
        "value": "${IN/L}",
        "dataset": "demo:in,demo:more",
    }
    keys = document(nFilesPerJob=4)
    keys["jobParameters"][0] = item
    (task,) = ready(world, keys)
    generate(world)
    assert [
        sorted({lfn.rstrip("0123456789") for lfn in lfns})
        for lfns in inputs_of(world, task).values()
    ] == [["in"], ["more"], ["more"]]
    assert [j.command.split()[0] for j in jobs_of(world, task)] == [
        "in000000,in000001,in000002",
        "more000000,more000001,more000002,more000003",
        "more000004",
    ]


def test_what_follows_the_master(world: World) -> None:
    """Two files beside each, and one dataset that every job gets."""
    catalogue(world, in_=4, second=8, every=2)
    every = {**SECOND, "value": "${IN3}", "dataset": "demo:every", "attributes": "nosplit,repeat"}
    (task,) = ready(world, document({**SECOND, "ratio": 2.0}, every, nFilesPerJob=2))
    generate(world)
    assert [j.command for j in jobs_of(world, task)] == [
        f"cat in00000{a} in00000{a + 1} second00000{2 * a} second00000{2 * a + 1} "
        f"second00000{2 * a + 2} second00000{2 * a + 3} every[000000,000001] > o.00000{1 + a // 2}"
        for a in (0, 2)
    ]
    assert [len(lfns) for lfns in inputs_of(world, task).values()] == [8, 8]
    found = rows(
        world,
        "SELECT d.datasetname, c.status, count(*) FROM jedi_dataset_contents c "
        "JOIN jedi_datasets d USING (datasetid) WHERE d.type = 'input' "
        "GROUP BY 1, 2 ORDER BY 1",
    )
    assert [tuple(row) for row in found] == [
        ("demo:every", "ready", 2),
        ("demo:in", "running", 4),
        ("demo:second", "running", 8),
    ]
    assert counters(world, task)["demo:every"] == (2, 2, 0)
    # the use of shared files is nobody's: their end is not theirs
    end(world, "finished", *(j.panda_id for j in jobs_of(world, task)))
    assert counters(world, task)["demo:every"] == (2, 2, 0)


def test_too_few_files_beside_the_master(world: World) -> None:
    catalogue(world, in_=4, second=3)
    (task,) = ready(world, document(SECOND, nFilesPerJob=2))
    generate(world)
    assert len(jobs_of(world, task)) == 1
    generate(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "secondary_files_short")
    assert row.next_run_at is not None
    assert generate(world) == 0


def test_two_files_of_one_name_are_not_for_one_job(world: World) -> None:
    """They would lie in one directory; in different jobs they may have it."""
    named = {name: FileInfo(name, 10, "00000001") for name in "abc"}
    catalogue(world, in_=[named["a"], named["b"]], second=[named["b"], named["c"]])
    apart, together = ready(
        world, *(document(SECOND, output=f"a:{n}", nFilesPerJob=n) for n in (1, 2))
    )
    generate(world)
    assert [j.command.split(" >")[0] for j in jobs_of(world, apart)] == ["cat a b", "cat b c"]
    assert jobs_of(world, together) == []
    row = row_of(world, together)
    assert (row.status, row.reason_code) == ("pending", "inputs_alike")
    assert "two files called b, of demo:in and of demo:second" in row.errordialog


def test_more_files_for_a_job_than_a_repeated_dataset_has(world: World) -> None:
    """`repeat` begins anew behind the last file, and no job has one file twice. Too few secondary
    files: the task waits and says so (docs/reference/splitting.md#secondary-files)."""
    catalogue(world, in_=4, second=1)
    (task,) = ready(world, document({**SECOND, "ratio": 2.0, "attributes": "repeat"}))
    generate(world)
    assert jobs_of(world, task) == []
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "secondary_files_short")
    assert "a job wants 8 files of IN2, and 1 is left" in row.errordialog
    assert row.reason_facts == {"IN2": {"wanted": 8, "left": 1}}


def test_an_output_never_has_the_name_of_an_input_of_its_job(world: World) -> None:
    """A chained task: its template makes the names of the files that it reads. Job k reads
    o.00000k, so the first leaves number 1 out, and the others count on; a retry counts on, too."""
    named = [FileInfo(f"o.{i:06d}", 10, "00000001") for i in range(1, 5)]
    catalogue(world, in_=named)
    (task,) = ready(world, document(nFilesPerJob=1))
    generate(world)
    jobs = jobs_of(world, task)
    assert [j.command for j in jobs] == [f"cat o.{i:06d} > o.{i + 1:06d}" for i in range(1, 5)]
    templates = rows(world, "SELECT outtype, serialnr FROM jedi_output_template ORDER BY outtype")
    assert [tuple(t) for t in templates] == [("log", 4), ("output", 5)]
    end(world, "failed", jobs[0].panda_id)
    generate(world)
    assert jobs_of(world, task)[-1].command == "cat o.000001 > o.000006"


def test_a_payload_s_own_name_of_an_output_is_no_input_s(world: World) -> None:
    catalogue(world, in_=[FileInfo("result", 10, "00000001")])
    keys = document()
    keys["jobParameters"][-1]["sourceName"] = "result"
    (task,) = ready(world, keys)
    generate(world)
    assert jobs_of(world, task) == []
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "output_is_input")
    assert "its output result over its input" in row.errordialog


# -------------------------------------------------------------------- seeds, retries, numbers


def test_seeds_count_up_and_come_back(world: World) -> None:
    catalogue(world)
    keys = document(SEED, noInput=True, nFiles=3)
    del keys["jobParameters"][0]
    (task,) = ready(world, keys)
    generate(world)
    jobs = jobs_of(world, task)
    assert [j.command for j in jobs] == [f"{1000 + n} > o.{n:06d}" for n in (1, 2, 3)]
    assert [j.status for j in jobs] == ["activated"] * 3
    assert inputs_of(world, task, "random_seed") == {
        j.panda_id: [str(n)] for n, j in enumerate(jobs, 1)
    }
    assert counters(world, task)["pseudo_RNDMSEED"] == (3, 3, 3)
    end(world, "failed", jobs[1].panda_id)
    end(world, "finished", jobs[0].panda_id)
    assert counters(world, task)["pseudo_RNDMSEED"] == (3, 3, 2)
    generate(world)
    again = jobs_of(world, task)[-1]
    assert again.command == "1002 > o.000004"  # the seed of the failed job, a new serial number
    assert (again.attemptnr, again.unit_nr, again.originpandaid) == (2, 2, jobs[1].panda_id)
    assert counters(world, task)["pseudo_RNDMSEED"] == (3, 3, 3)


def test_the_seed_s_example_of_a_failed_job_that_is_split(world: World) -> None:
    """Two files and seed N fail; two jobs of one file follow: one has seed N, the other a new."""
    catalogue(world, in_=2)
    (task,) = ready(world, document(SEED, nFilesPerJob=2))
    generate(world)
    (first,) = jobs_of(world, task)
    end(world, "failed", first.panda_id)
    with world.engine.begin() as tx:
        tx.execute(text("""UPDATE jedi_tasks SET rules = '{"n_files_per_job": 1}'"""))
    generate(world)
    _, one, other = jobs_of(world, task)
    assert [one.command, other.command] == [
        "cat in000000 1001 > o.000002",
        "cat in000001 1002 > o.000003",
    ]
    assert (one.unit_nr, other.unit_nr) == (2, 3)
    assert one.originpandaid == other.originpandaid == first.panda_id
    history = rows(world, "SELECT * FROM jedi_job_retry_history ORDER BY newpandaid")
    assert [(h.oldpandaid, h.newpandaid, h.relationtype, h.originpandaid) for h in history] == [
        (first.panda_id, one.panda_id, "retry", first.panda_id),
        (first.panda_id, other.panda_id, "retry", first.panda_id),
    ]


def test_a_retried_unit_keeps_its_number_and_its_origin(world: World) -> None:
    catalogue(world, in_=4)
    (task,) = ready(world, document(nFilesPerJob=2))
    for attempt in (1, 2, 3):
        assert generate(world) == 1
        job = jobs_of(world, task)[-1]
        assert (job.attemptnr, job.unit_nr) == (attempt, 2)
        end(world, "failed", job.panda_id)
    first = jobs_of(world, task)[1]
    assert {j.originpandaid for j in jobs_of(world, task)[1:]} == {first.panda_id}
    outputs = Counter(lfn for lfns in inputs_of(world, task, "output").values() for lfn in lfns)
    assert sorted(outputs) == [f"o.{n:06d}" for n in range(1, 5)]
    assert set(outputs.values()) == {1}
    assert generate(world) == 0  # three attempts are all there are
    assert [
        tuple(r)
        for r in rows(
            world,
            "SELECT status, count(*) FROM jedi_dataset_contents "
            "WHERE type = 'input' GROUP BY 1 ORDER BY 1",
        )
    ] == [
        ("failed", 2),
        ("running", 2),
    ]


def test_the_more_jobs_a_user_has_the_less_urgent_are_new_ones(world: World) -> None:
    catalogue(world, in_=7)
    one, two, group, bob, jump, prod = ready(
        world, *(document(nFilesPerJob=1, output=f"a:{n}") for n in range(6))
    )
    tasks = "UPDATE jedi_tasks SET {} WHERE jeditaskid = :t"
    with world.engine.begin() as tx:
        tx.execute(text(tasks.format("workinggroup = 'higgs'")), {"t": group})
        tx.execute(text(tasks.format("username = 'bob'")), {"t": bob})
        tx.execute(text(tasks.format("currentpriority = 1500, username = 'eve'")), {"t": jump})
        tx.execute(text(tasks.format("prodsourcelabel = 'managed'")), {"t": prod})
    turn(world, jobgen__jobs_per_step=3, jobgen__batch=6)
    world.refresh()
    generate(world)

    def priorities(task: int) -> list[int]:
        return [job.priority for job in jobs_of(world, task)]

    assert priorities(one) == [1000, 999, 999, 999, 998, 998, 998]
    assert priorities(group) == priorities(bob) == priorities(one)
    assert priorities(jump) == [1500] * 7 and priorities(prod) == [1000] * 7
    assert priorities(two)[0] == 997  # seven of the same cycle come first
    (more,) = ready(world, document(nFilesPerJob=1, output="a:7"))
    generate(world)
    assert priorities(more)[0] == 995  # of an earlier cycle, fourteen
    ready_ones = rows(
        world, "SELECT priority FROM jedi_job_ready r JOIN jedi_jobs j USING (pandaid, priority)"
    )
    assert len(ready_ones) == 49


def test_serial_numbers_end_at_their_maximum(world: World) -> None:
    catalogue(world, in_=5)
    few = {**OUTPUT, "dataset": "a:few", "value": "> few.${SN}", "maxSerialNr": 3}
    (task,) = ready(world, document(few, nFilesPerJob=1))
    generate(world)
    assert len(jobs_of(world, task)) == 3
    generate(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "serial_numbers_used_up")
    assert "a:few are used up: 3 of 3" in row.errordialog
    assert len(jobs_of(world, task)) == 3


# ------------------------------------------------------------------------------ why not


def test_a_full_queue_takes_no_more(world: World) -> None:
    catalogue(world, in_=5)
    turn(world, throttler__queue_cap=3, jobgen__batch=2)
    one, two = ready(
        world, document(nFilesPerJob=1, output="a:1"), document(nFilesPerJob=1, output="a:2")
    )
    assert generate(world) == 2
    assert [len(jobs_of(world, t)) for t in (one, two)] == [3, 0]
    row = row_of(world, two)
    assert (row.status, row.reason_code) == ("ready", "queue_served")
    assert "took the 3 jobs" in row.errordialog
    assert row.next_run_at is not None
    assert row.lockedby is None
    with world.engine.begin() as tx:
        make_due(tx)
    assert generate(world) == 0  # nobody looks at the tasks of a full queue
    (other,) = ready(world, document(nFilesPerJob=1, output="a:3", coreCount=8))
    assert generate(world) == 1  # unless of a resource type that has no jobs yet
    row = row_of(world, other)
    assert (row.status, row.reason_code) == ("ready", "queue_full")
    assert "3 jobs wait in the task's work queue" in row.errordialog


def test_a_throttled_queue_waits_but_urgent_work_passes(world: World) -> None:
    """JEDI document, "Job throttling": a fifth of the cap at once, one job at least; more than the
    cap are not queued, but for more urgent work."""
    catalogue(world, in_=3)
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_work_queue SET queue_share = 10, caps = CAST(:caps AS jsonb)"),
            {"caps": '{"NQUEUECAP": 2}'},
        )

    def task(output: str, **keys: Any) -> int:
        (made,) = ready(world, document(nFilesPerJob=1, output=output, **keys), label="managed")
        TaskBroker(world).run_once()
        return made

    first = task("a:1")
    for n in (1, 2, 3):
        assert generate(world) == 1 and len(jobs_of(world, first)) == n
    second, other = task("a:2"), task("a:3", coreCount=8)
    assert generate(world) == 1  # no job of this resource type is there yet: it is looked at
    row = row_of(world, other)
    assert (row.status, row.reason_code) == ("ready", "queue_throttled")
    assert row.errordialog == (
        "Work queue managed, MCORE: 3 jobs are queued, more than the queue's cap of 2."
    )
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET currentpriority = 1001 WHERE jeditaskid = :t"),
            {"t": second},
        )
    assert generate(world) == 1 and len(jobs_of(world, second)) == 1
    generate(world)  # the others are as urgent as what is queued now
    assert len(jobs_of(world, second)) == 1


def test_two_generators_serve_a_throttled_queue_one_after_the_other(world: World) -> None:
    catalogue(world, in_=3)
    turn(world, jobgen__batch=1, throttler__lack_percent=0.0)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_work_queue SET queue_share = 10"))
    one, two = ready(world, document(output="a:1"), document(output="a:2"))
    first, second = JobGenerator(world), JobGenerator(replace(world))
    second.world.__dict__["me"] = "another process"
    with world.engine.begin() as tx:
        # one job runs, so that the queue does not lack jobs
        tx.execute(
            text(
                "INSERT INTO job_stats VALUES ('SITE_A', 1, 'user', 'SCORE', 'running', 1, "
                "1), ('SITE_A', 1, 'user', 'SCORE', 'activated', 1, 1)"
            )
        )
        held = first.claim(tx, 1)
    with world.engine.begin() as tx:
        assert [item.jedi_task_id for item in held] == [one]
        assert second.claim(tx, 1) == []
    with world.engine.begin() as tx:
        first.apply(tx, [(item, first.work(item)) for item in held])
    with world.engine.begin() as tx:
        make_due(tx)
        assert [item.jedi_task_id for item in second.claim(tx, 1)] == [two]


def test_nowhere_to_run(world: World) -> None:
    catalogue(world, in_=2)
    turn(world, jobgen__batch=2)
    big, lost = ready(
        world, document(ramCount=5000, output="a:1"), document(site="SITE_A", output="a:2")
    )
    with world.engine.begin() as tx:
        set_sites(tx, "SITE_A", maxrss=2000)
        set_sites(tx, "SITE_B", maxrss=1000, status="paused", lastpilot=None)
        set_sites(tx, "SITE_A", lastpilot=None)
    assert generate(world) == 2
    row = row_of(world, big)
    assert (row.status, row.oldstatus, row.reason_code) == ("pending", "ready", "no_site_fits")
    assert row.errordialog == (
        "No site can run the task: 2 sites: "
        "2 little_memory (slots of 2000 MB, the jobs need 5000 MB), "
        "2 no_pilots (no pilot was ever seen), 1 status_paused (the site is paused)."
    )
    assert row.reason_facts["refused"] == {"little_memory": 2, "no_pilots": 2, "status_paused": 1}
    row = row_of(world, lost)
    assert (row.status, row.reason_code) == ("pending", "no_site_now")
    assert row.errordialog.startswith("No site among SITE_A can run the task: 1 site: 1 no_pilots")
    reasons = rows(
        world,
        "SELECT r.* FROM jedi_broker_reasons r JOIN jedi_broker_decisions USING (decision_id) "
        "WHERE jeditaskid = :t ORDER BY site",
        t=big,
    )
    assert [(r.site, r.codes, r.observed, r.limits) for r in reasons] == [
        ("SITE_A", ["little_memory", "no_pilots"], [2000.0, None], [5000.0, 10800.0]),
        (
            "SITE_B",
            ["status_paused", "little_memory", "no_pilots"],
            [0.0, 1000.0, None],
            [1.0, 5000.0, 10800.0],
        ),
    ]
    assert jobs_of(world, big) == []
    assert counters(world, big)["demo:in"] == (2, 2, 0)


def test_a_hold_lasts_from_its_first_failure_to_the_first_job(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document())
    with world.engine.begin() as tx:
        set_sites(tx, lastpilot=None)
    generate(world)
    frozen = row_of(world, task).frozentime
    assert frozen is not None
    for pilots, status in (("NULL", "pending"), ("jedi_now()", "running")):
        with world.engine.begin() as tx:
            tx.execute(text(f"UPDATE jedi_sites SET lastpilot = {pilots}"))
            tasks.move_tasks(tx, [Move(task, None, "ready", "hold_over", "again")], "WatchDog")
        generate(world)
        row = row_of(world, task)
        assert row.status == status
        assert row.frozentime == (frozen if status == "pending" else None)


def test_a_placeholder_that_nothing_feeds(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document())
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_jobparams_template SET jobparamstemplate = 'x ${IN9/L}'"))
    generate(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("pending", "unresolved_placeholder")
    assert "${IN9/L}" in row.errordialog


def test_a_task_that_makes_no_sense_harms_only_itself(world: World) -> None:
    catalogue(world, in_=2)
    turn(world, jobgen__batch=3)
    ids = ready(world, *(document(output=f"a:{i}") for i in range(3)))
    with world.engine.begin() as tx:
        tx.execute(
            text(
                """UPDATE jedi_tasks SET rules = '{"n_lumps_per_job": 1}' """
                "WHERE jeditaskid = :t"
            ),
            {"t": ids[0]},
        )
        tx.execute(
            text(
                "UPDATE jedi_output_template SET filenametemplate = repeat('x', 300) "
                "WHERE jeditaskid = :t"
            ),
            {"t": ids[1]},
        )
    assert generate(world) == 3
    assert [row_of(world, t).status for t in ids] == ["pending", "pending", "running"]
    assert row_of(world, ids[0]).reason_code == "generation_failed"
    assert "n_lumps_per_job" in row_of(world, ids[0]).errordialog
    assert {row_of(world, t).lockedby for t in ids} == {None}
    assert [len(jobs_of(world, t)) for t in ids] == [0, 0, 1]


def test_who_asks_for_more_than_can_be_said_asks_for_the_most(world: World) -> None:
    catalogue(world, in_=1)
    most = 2**31 - 1
    [task_id] = ready(world, document(workDiskCount=most, workDiskUnit="GB", nFilesPerJob=1))
    generate(world)
    found = rows(world, "SELECT disk_mb FROM jedi_jobs WHERE jeditaskid = :t", t=task_id)
    assert [job.disk_mb for job in found] == [most]


# ---------------------------------------------------------------------------- who may write


class Interrupted(JobGenerator):
    """Does something between thinking and writing."""

    def between(self) -> None: ...

    def _apply_all(self, results: Any) -> None:
        self.between()
        super()._apply_all(results)


def interrupted(world: World, statement: str, **values: Any) -> None:
    """A cycle during which somebody executes a statement."""

    class Cycle(Interrupted):
        def between(self) -> None:
            with world.engine.begin() as tx:
                tx.execute(text(statement), values)

    Cycle(world).run_once()


def nothing_written(world: World, task_id: int) -> bool:
    ready_files = rows(
        world,
        "SELECT FROM jedi_dataset_contents WHERE status = 'ready' "
        "AND jeditaskid = :t AND attemptnr = 0",
        t=task_id,
    )
    return not jobs_of(world, task_id) and len(ready_files) == 4


def test_whoever_lost_the_lease_writes_nothing(world: World) -> None:
    catalogue(world, in_=4)
    (task,) = ready(world, document())
    interrupted(world, "UPDATE jedi_tasks SET lock_seq = lock_seq + 1")
    assert nothing_written(world, task)


@pytest.mark.parametrize("status", ["paused", "aborting", "pending"])
def test_a_task_that_was_moved_meanwhile_gets_no_jobs(world: World, status: str) -> None:
    catalogue(world, in_=4)
    (task,) = ready(world, document())

    class Cycle(Interrupted):
        def between(self) -> None:
            with world.engine.begin() as tx:
                tasks.move_tasks(tx, [Move(task, None, status, "test", "test")], "test")

    Cycle(world).run_once()
    assert row_of(world, task).status == status
    assert nothing_written(world, task)


def test_trouble_does_not_bring_a_killed_task_back(world: World) -> None:
    class Gone(Catalogue):
        def create(self, name: str, endpoint: str, *, container: bool = False) -> None:
            with world.engine.begin() as tx:
                tasks.move_tasks(tx, [Move(task, None, "aborting", "kill", "test")], "test")
            raise OSError("the storage is gone")

    use(world, Gone(catalogue(world, in_=4).files))
    (task,) = ready(world, document())
    generate(world)
    assert row_of(world, task).status == "aborting"
    assert nothing_written(world, task)


def test_a_file_that_changed_meanwhile_stops_its_task_only(world: World) -> None:
    catalogue(world, in_=4)
    turn(world, jobgen__batch=2)
    one, two = ready(world, document(output="a:1"), document(output="a:2"))
    interrupted(
        world,
        "UPDATE jedi_dataset_contents SET status = 'lost' WHERE fileid = "
        "(SELECT min(fileid) FROM jedi_dataset_contents WHERE jeditaskid = :t)",
        t=one,
    )
    row = row_of(world, one)
    assert (row.status, row.reason_code) == ("pending", "inputs_changed")
    assert "1 of 4 input files are no longer ready" in row.errordialog
    assert jobs_of(world, one) == []
    assert len(jobs_of(world, two)) == 1


def test_generators_that_run_side_by_side_make_every_job_once(world: World) -> None:
    catalogue(world, in_=200)
    ids = ready(world, *(document(nFilesPerJob=3, output=f"a:{i}") for i in range(8)))
    turn(world, jobgen__batch=2, jobgen__n_files=60, jobgen__hard_max_files_per_job=30)

    def work() -> int:
        cycles = 0
        while JobGenerator(world).run_once():
            cycles += 1
        return cycles

    with ThreadPoolExecutor(3) as pool:
        workers = [pool.submit(work) for _ in range(3)]
    assert sum(one.result() for one in workers) > 8
    while generate(world):
        pass
    for task in ids:
        found = [lfn for lfns in inputs_of(world, task).values() for lfn in lfns]
        assert sorted(found) == [f"in{i:06d}" for i in range(200)]
        assert len(jobs_of(world, task)) == 67
        assert counters(world, task)["demo:in"] == (200, 200, 200)
