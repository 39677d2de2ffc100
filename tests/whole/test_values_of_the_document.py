"""Values worked out from the JEDI document alone, at borders and where rules meet."""

# Raw UPDATEs: statuses of children that have ended, and counts that only many jobs lead to.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine
from support.calls import call
from support.commanding import ask, cycle, end, jobs, running, take
from support.dogs import run
from support.generating import document, rows
from support.nucleus import choose as choose_nucleus
from support.nucleus import held
from support.production import CLASSIC, CURRENT, codes, codes_of, need
from support.production import world as sites
from support.scouts import JOB, MANAGED, USER, judged
from support.split import chunk, cut, demand, files, spans
from support.task_rows import good, put, row_of

from jedi.agent.base import World
from jedi.brokerage import nucleus_filters, weights
from jedi.brokerage.requirements import RemainingWork
from jedi.core.knobs import Knobs
from jedi.eventservice.jumbo import JumboCandidate, decide, limits_of
from jedi.jobgenerator.naming import MARK, jobs_allowed, name_files
from jedi.model.jobs.demand import GB, InputSize
from jedi.model.jobs.generation import JobOutput, OutputDataset
from jedi.model.scheduling.shares import ShareNode, allot
from jedi.model.sites.request import InputAvailability, SiteInput
from jedi.model.splitting.split_rules import SplitRules
from jedi.mover.plan import EXPRESS, activity
from jedi.postprocessor.scouts import measure
from jedi.service.queues import work_queues
from jedi.taskbuffer.scheduling.queues import match
from jedi.taskrefiner.agent import TaskRefiner
from jedi.throttler.decide import JobCounts, Pass, Skip, Throttle, ThrottledQueue
from jedi.watchdog.dog import Counts

KB = 1024


# ------------------------------------------------------------------------------ queues and shares


@pytest.mark.parametrize(
    ("group", "taken"),
    [
        ("GP_", True),
        ("GPxHIGGS", True),
        ("GP", False),
        ("gp_higgs", False),
        ("AGP_X", False),
        (None, False),
    ],
)
@pytest.mark.usefixtures("operators")
def test_an_underscore_stands_for_any_character(
    engine: Engine, group: str | None, taken: bool
) -> None:
    """The JEDI_Work_Queue table: "Selection criteria written in SQL", "CRITERIA = workingGroup LIKE
    :p1, VARIABLES = p1:GP_%"."""
    with engine.begin() as tx:
        work_queues.import_queues(
            call(tx, "me"),
            "- {queue_id: 1, queue_name: group, queue_type: user, vo: local, "
            'queue_order: 1, criteria: "workingGroup LIKE :p1", variables: "p1:GP_%"}',
        )
        task = {"vo": "local", "prodsourcelabel": "user", "workinggroup": group}
        (found,) = match(tx, [task], [None])
        assert (found.queue is not None) is taken


def test_stretchable_queues_divide_what_an_idle_one_leaves() -> None:
    """Shares: "If there is more than one queue with the stretchable attribute, unused CPUs are
    distributed among them according on their original shares": the 10 of the idle queue go 6:4 to
    queues of 30 and 20. In the partition of 40, the sub-queue without tasks leaves 10 of its
    own."""
    found = allot(
        [
            ShareNode(1, -1, 40, False, False),
            ShareNode(11, 1, 3, False, True),
            ShareNode(12, 1, 1, False, False),
            ShareNode(2, None, 30, True, True),
            ShareNode(3, None, 20, True, True),
            ShareNode(4, None, 10, True, False),
        ],
        100,
        by_demand=False,
    )
    assert [one.allocation for one in found] == [40, 40, 0, 36, 24, 0]


def throttled(load: JobCounts, **caps: int) -> Pass | Skip:
    queue = ThrottledQueue(1, "prod", "managed", None, 10, caps)
    return Throttle([queue], {(1, "SCORE"): load}, Knobs()).decide(1, "SCORE")


@pytest.mark.parametrize(
    ("queued", "caps", "made"),
    [
        (1440, {}, 280),
        (17_999, {"NQUEUELIMIT": 20_000}, 1000),
        (18_000, {"NQUEUELIMIT": 20_000}, 250),
        (3, {"NQUEUECAP": 100}, 20),
        (3, {"NQUEUECAP": 7000}, 1400),
    ],
)
def test_jobs_of_a_cycle(queued: int, caps: dict[str, int], made: int) -> None:
    """Job throttling: "Normal case: (500 < remaining jobs to the 2nRunning < 600) / 2", "A max
    queued cap exists: cap/5", "If there is a min queued limit and you are below 0.9*queue limit:
    max(queue limit/20, normal case)"; 1000 jobs run."""
    found = throttled(JobCounts(running=1000, not_running=queued), **caps)
    assert isinstance(found, Pass) and found.jobs == made


# ------------------------------------------------------------------------------------- jumbo jobs


def jumbo_limits(**given: int) -> Any:
    return limits_of(Knobs({f"jumbo_dog.{key}": value for key, value in given.items()}).jumbo_dog)


def test_jumbo_parameters_follow_from_each_other() -> None:
    """Jumbo job switcher: "JUMBO_MIN_EVENTS_ENABLE JUMBO_MIN_EVENTS_DISABLE × 10",
    "JUMBO_MAX_EVENTS JUMBO_MAX_TASKS × JUMBO_MIN_EVENTS_ENABLE / 2"."""
    both = jumbo_limits(max_tasks=3, min_events_disable=200_000)
    assert (both.min_events_enable, both.max_events) == (2_000_000, 3_000_000)
    one = jumbo_limits(max_tasks=5, min_events_enable=600_000)
    assert (one.min_events_disable, one.max_events) == (100_000, 1_500_000)


@pytest.mark.parametrize(("busy", "enabled"), [(1_500_000, False), (1_499_999, True)])
def test_events_of_jumbo_tasks_at_the_limit_that_follows(busy: int, enabled: bool) -> None:
    """Jumbo job switcher: "the total number of remaining events in active tasks with jumbo jobs is
    less than JUMBO_MAX_EVENTS", which is 3 × 1,000,000 / 2 for three tasks."""
    small = JumboCandidate(1, busy - 700_000, 900, True, False, ("S",), True)
    other = JumboCandidate(2, 700_000, 900, True, False, ("S",), True)
    new = JumboCandidate(3, 1_000_001, 499, False, False, ("S",), True)
    found = {
        one.task.jedi_task_id: one.jumbo
        for one in decide([new, small, other], jumbo_limits(max_tasks=3))
    }
    assert found == {1: True, 2: True, 3: enabled}


# ------------------------------------------------------------------------------------------ tasks


@pytest.mark.parametrize(
    ("n_files", "done", "priority", "after"),
    [
        (99, 94, 950, (950, "")),
        (99, 95, 950, (950, "Express")),
        (40, 38, 899, (900, "Express")),
        (40, 37, 899, (899, "")),
    ],
)
def test_a_boost_never_lowers(
    world: World, n_files: int, done: int, priority: int, after: tuple[int, str]
) -> None:
    """Automatic priority boosting: "Tasks that are 95% complete and have less than 100 jobs to do
    will get priority boost to 900, gshare set to Express"."""
    task = running(world, 3)
    rows(
        world,
        "UPDATE jedi_tasks SET prodsourcelabel = 'managed', currentpriority = :p, "
        "gshare = '' RETURNING 1",
        p=priority,
    )
    rows(
        world,
        "UPDATE jedi_datasets SET nfiles = :n, nfilesfinished = :d WHERE type = 'input' "
        "RETURNING 1",
        n=n_files,
        d=done,
    )
    assert run(world, "boost") == Counts(boosted=int(after[1] == "Express"))
    row = row_of(world, task)
    assert (row.currentpriority, row.gshare) == after


def test_goal_and_parent_of_a_plain_task(world: World) -> None:
    """The JEDI_Tasks table: "GOAL: Goal of the task completion in percentage multiplied by 10";
    "PARENT_TID=JEDITASKID if no parent"."""
    first, second = put(world, good(goal=95.5), good("a:two", goal=99.9))
    TaskRefiner(world).run_once()
    found = [row_of(world, task) for task in (first, second)]
    assert [(row.goal, row.parent_tid) for row in found] == [(955, first), (999, second)]


CHILDREN = {
    "done": "registered",
    "finished": "registered",
    "exhausted": "registered",
    "aborted": "aborted",
    "broken": "broken",
    "failed": "failed",
}


def test_children_of_a_retried_task_by_status(world: World) -> None:
    """Task retry: "Child tasks are automatically retried when the parent task is retried unless
    they are in aborted, broken, or failed state"."""
    parent = running(world, 2, maxAttempt=1)
    first, second = jobs(world, parent, "activated")
    take(world, [first, second])
    end(world, [first])
    end(world, [second], "failed")
    cycle(world)
    assert row_of(world, parent).status == "finished"
    children = put(world, *(document(output=f"a:{name}") for name in CHILDREN))
    with world.engine.begin() as tx:
        tx.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for child, name in zip(children, CHILDREN, strict=True):
            tx.exec_driver_sql(
                f"UPDATE jedi_tasks SET status = '{name}', parent_tid = {parent} "
                f"WHERE jeditaskid = {child}"
            )
    ask(world, parent, "retry")
    cycle(world)
    found = {
        name: row_of(world, child).status for child, name in zip(children, CHILDREN, strict=True)
    }
    assert found == CHILDREN


# ------------------------------------------------------------------------------------------- jobs


def test_the_last_serial_number() -> None:
    """The JEDI_Output_Template table: "When a new file is produced it would have SERIALNR+1",
    "MAXSERIALNR: The maximum serial number which can be used": after 7, with 9 at most, 8 and
    9."""
    output = JobOutput(
        1, OutputDataset(1, "a:out", "output"), "output", "output", "OUT", "", None, 7, 9, None
    )
    assert jobs_allowed([output], 5) == 2
    stems = [f"EVNT.01206750._{MARK}.pool.root"] * 2
    assert name_files(output, stems) == (
        [8, 9],
        ["EVNT.01206750._000008.pool.root", "EVNT.01206750._000009.pool.root"],
    )


@pytest.mark.parametrize(
    ("n_gb", "out_kb", "per_job"),
    [(6, 0, 2), (6.001, 0, 3), (6.5, KB, 2), (6.6, KB, 3), (6, KB, 2), (9, 2 * KB, 2)],
)
def test_files_of_1_gb_by_n_gb_per_job(n_gb: float, out_kb: int, per_job: int) -> None:
    """nGBPerJob: "inputsize + max(outdisksize*inputsize/1MB, 2.5GB) + workdirsize. JEDI tries to
    generate jobs so that the estimation for each job is less than NG". With 0.5 GB of work, three
    files and little output make 3 + 2.5 + 0.5 = 6, with 1 MB a MB 3 + 3 + 0.5 = 6.5, and with
    2 MB a MB 3 + 6 + 0.5 = 9.5."""
    asked = demand(
        work_disk_count=512, work_disk_unit="MB", out_disk_count=out_kb, out_disk_unit="kB"
    )
    made = cut([chunk(files(12, [int(GB)] * 12))], SplitRules(n_gb_per_job=n_gb), asked)
    assert {stop - start for start, stop in spans(made)} == {per_job}


def test_memory_per_core_goes_from_eight_cores_to_four() -> None:
    """Memory probe and brokerage: "(max(maxpss)-baseramcount)/corecount",
    "baseramcount+(ramcount*corecount)", baseramcount of pile 1500: 9500 MB on 8 cores are 1000 per
    core, 5500 on 4."""
    task = replace(MANAGED, base_ram_mb=1500, core_count=8)
    found = measure(task, [replace(JOB, memory_kb=mb * KB) for mb in (9500, 9400)], CLASSIC)
    assert found.ram_count == 1000
    asked = need(
        columns={
            "core_count": 8,
            "ram_count": found.ram_count,
            "ram_unit": "MBPerCore",
            "base_ram_count": 1500,
        }
    )
    assert codes(sites("S", cores=[4], max_rss_mb=[5500], min_rss_mb=[5500]), asked) == []
    assert codes(sites("S", cores=[4], max_rss_mb=[5499]), asked) == ["little_memory"]
    assert codes(sites("S", cores=[4], min_rss_mb=[5501]), asked) == ["much_memory"]


def test_cpu_time_there_and_wall_time_back() -> None:
    """HS06sPerEvent: "cpuTime = max(0,endTime-startTime-baseTime)*corePower*coreCount*cpuEfficiency
    /NEvents*1.5": 3600 × 10 × 8 × 0.9 / 1000 × 1.5 = 388.8, in whole numbers 389. "wall =
    cpuTime/corePower/coreCount/cpuEfficiency*nEvents+baseWalltime": 389 / 12 / 4 / 0.9 × 100 + 600;
    "cpuEfficiency can be set to 0 to disable scaling with nEvents. In this case wall =
    baseWalltime"."""
    scout = replace(JOB, lasted_s=4200, n_events=1000)
    assert measure(USER, [scout], CLASSIC).cpu_time == 389
    assert measure(USER, [replace(scout, lasted_s=500)], CLASSIC).cpu_time is None  # max(0, …)
    load, ones = InputSize(0.0, 100.0), sites("S").cores
    asked = demand(cpu_time=389, core_count=8)
    assert asked.walltime_s(load, 4 * ones, 12 * ones) == pytest.approx(1500.46, abs=0.01)
    flat = demand(cpu_time=389, core_count=8, cpu_efficiency=0, base_walltime=750)
    assert flat.walltime_s(load, 4 * ones, 12 * ones) == 750


@pytest.mark.parametrize(("declared", "target"), [(150, "scouted"), (149, "exhausted")])
def test_twice_the_declared_cpu_time(declared: int, target: str) -> None:
    """Transition of task status: "if cpuTime of scouts jobs > 2x cpuTime of task definition, the
    task goes to exhausted": measured are 3600 × 10 × 8 × 0.9 / 1296 × 1.5 = 300."""
    scout = replace(JOB, lasted_s=4200, n_events=1296)
    task = replace(MANAGED, cpu_time=declared)
    assert judged(scout, task=task).target == target


# ---------------------------------------------------------------------------------------- brokers


@pytest.mark.parametrize(
    ("n_running", "batch", "counted"),
    [(5, 30, 20), (5, 12, 12), (5, 5, 5), (5, 3, 5), (19, 20, 20), (20, 100, 20), (25, 100, 25)],
)
def test_jobs_in_the_batch_system_start_a_site(n_running: int, batch: int, counted: int) -> None:
    """Job brokerage explained: "If nRunning is less than 20 and the number of running/submitted
    batch jobs at PQ is larger than nRunning, min(20, nBatchJob) is used as nRunning for
    bootstrap"."""
    at = sites("S", jobs={"running": [n_running]}, workers=[batch])
    assert weights.queue_factor(at, need(), CLASSIC)[0] == (counted + 1) / 10


@pytest.mark.parametrize("nucleus", ["", "NUC", "S"])
@pytest.mark.parametrize(
    ("n_running", "limit", "most"), [(1500, 2000, 3000), (10, 100, 100), (10, 2000, 2000)]
)
def test_jobs_that_transfer(nucleus: str, n_running: int, limit: int, most: int) -> None:
    """Job brokerage explained: "skip if transferring > max(transferring_limit, 2 x running)", with
    no exemption for the queues of the nucleus."""

    def found(n: int) -> list[str]:
        at = sites(
            "S", jobs={"running": [n_running], "transferring": [n]}, transferring_limit=[limit]
        )
        return codes(at, need(nucleus=nucleus))

    assert found(most) == []
    assert found(most + 1) == ["much_transferring"]


@pytest.mark.parametrize("merging", [False, True])
def test_all_jobs_go_to_the_nucleus(merging: bool) -> None:
    """T1 weight: "If t1Weight=-1, all jobs go to the nucleus", merge jobs as well. Preset current
    spares these, and the nucleus from the limit of transfers."""
    asked = need(nucleus="NUC", t1_weight=-1, merging=merging)
    at = sites("S", "NUC")
    assert codes(at, asked) == ["outside_nucleus"]
    assert ("outside_nucleus" in codes(at, asked, CURRENT)) is not merging
    full = sites("NUC", jobs={"transferring": [2001]})
    assert codes(full, asked) == ["much_transferring"]
    assert codes(full, asked, CURRENT) == []


@pytest.mark.parametrize(
    ("asked", "weight"),
    [
        ({"io_kb_s": 500.0, "priority": 899}, 150),
        ({"io_kb_s": 499.0, "priority": 899}, 1),
        ({"io_kb_s": 500.0, "priority": 900}, 150),
        ({"io_kb_s": 499.0, "priority": 900}, 100),
        ({"io_kb_s": 500.0, "priority": 900, "t1_weight": 50}, 100),
        ({"io_kb_s": 500.0, "priority": 899, "t1_weight": 50}, 50),
    ],
)
def test_the_larger_t1_weight_counts(asked: dict[str, Any], weight: int) -> None:
    """T1 weight: "If t1Weight=0 or unspecified and task.ioIntensity≥500, cloudconfig.weight is
    used", here 150; "If task.currentPriority≥900, t1Weight=max(t1Weight,100)"."""
    knobs = Knobs({"broker.t1_cloud_weights": "WORLD=150"})
    assert weights.t1_weight(need(**asked), knobs) == weight


@pytest.mark.parametrize(
    ("name", "found"),
    [("LATEST_MCORE", ["test_queue"]), ("CERN_ConTesT", ["test_queue"]), ("TSET_1", [])],
)
def test_test_anywhere_in_a_name(name: str, found: list[str]) -> None:
    """Job brokerage explained: "exclude any queue with case-insensitve 'test' in the name"."""
    assert codes(sites(name), need()) == found


@pytest.mark.parametrize(("free_gb", "found"), [(6120, ["little_room"]), (6120.1, [])])
def test_work_of_4000_core_days_keeps_1000_gb(free_gb: float, found: list[str]) -> None:
    """Task brokerage: "space_free+space_expired from DDM - (totalRW in the
    nucleus)/(corePower=10)/24/3600×0.25GB … must be larger than 5TB": 3.456e9 HS06 s keep
    1000 GB."""
    asked = replace(need(), work=RemainingWork(all={"S": 3.456e9 / 10 / 24 / 3600}))
    assert codes_of(choose_nucleus(sites("S", free_gb=[free_gb]), asked)) == found


@pytest.mark.parametrize(
    ("size_gb", "n", "here", "found"),
    [
        (1.0, 101, 10, ["input_files_elsewhere"]),
        (1.0, 101, 11, []),
        (1.0, 100, 0, []),
        (1.001, 100, 0, ["input_elsewhere"]),
    ],
)
def test_a_tenth_of_101_files_is_11(size_gb: float, n: int, here: int, found: list[str]) -> None:
    """Task brokerage: "If the total input size is larger than 1GB, totalInputSize×10% must be
    available in the nucleus. If the total number of input files is larger than 100,
    totalNumInputs×10% must be available"."""
    size = size_gb * GB
    data = InputAvailability(
        size, n, True, {"S": held(size * here / n, here), "FULL": held(size, n)}
    )
    assert codes_of(choose_nucleus(sites("S", "FULL"), need(data))) == found


def test_work_counts_from_50_core_days() -> None:
    """Task brokerage: "If totalRW is less than 50, totalRW=1", "tapeWeight … 0.001 if input is
    available only on TAPE in the nucleus": with half of the input, 0.5 / 50 on disk, 0.5 on tape
    × 0.001 / 1."""
    size = 4 * GB
    data = InputAvailability(
        size, 8, True, {"S": held(size / 2, 4), "T": held(size / 2, 4, disk=False)}
    )
    asked = replace(need(data), work=RemainingWork(ahead={"S": 50.0, "T": 49.9}))
    at = sites("S", "T")
    found = nucleus_filters.factors(at, asked, CLASSIC, at.cores > 0)
    assert weights.product(found) == pytest.approx([0.01, 0.0005])


@pytest.mark.parametrize(
    ("rate", "missing", "gb", "found"),
    [
        (200, 500, 50, []),
        (201, 99, 9.99, []),
        (201, 100, 1, ["many_to_move"]),
        (201, 1, 10, ["much_to_move"]),
    ],
)
def test_input_that_moves_at_the_border(
    rate: float, missing: int, gb: float, found: list[str]
) -> None:
    """Job brokerage explained: "If IO Intensity (input size / execution time) of the task is larger
    than 200 kB/s: the total size of missing files must be less than 10GB and the number of missing
    files must be less than 100"; a job of 10 events of 60 HS06 s takes 600 + 600 / 9 s."""
    here = SiteInput(50 * GB, 500, 50 * GB, 500)
    data = InputAvailability((50 + gb) * GB, 500 + missing, True, {"S": here})
    seconds = 600 + 60 * 10 / 10 / 0.9
    asked = replace(need(data, {"cpu_time": 60}), atom=InputSize(rate * 1000 * seconds, 10.0))
    assert codes(sites("S"), asked) == found


def test_only_urgent_tasks_leave_their_share(world: World) -> None:
    """Express input/output transfers: "processingType=urgent or priority>=1000 makes the FTS
    transfers of inputs and outputs use the express activity. processingType=urgent also ignores
    fairshare"."""
    tasks = put(world, good(), good("a:two"))
    rows(
        world,
        "UPDATE jedi_tasks SET processingtype = 'urgent', currentpriority = 1 "
        "WHERE jeditaskid = :t RETURNING 1",
        t=tasks[1],
    )
    TaskRefiner(world).run_once()
    found = [row_of(world, task) for task in tasks]
    assert [(row.currentpriority, row.gshare) for row in found] == [(1000, "user"), (1, "Express")]
    assert activity("user", "simul", 999) == "user"
    for row in found:
        assert activity("user", row.processingtype, row.currentpriority) == EXPRESS
