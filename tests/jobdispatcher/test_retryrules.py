"""Retry rules: which failed jobs they concern, what becomes of inputs, and of the task."""

# Raw UPDATEs: figures that pilots report and limits that tasks submit.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from support.calls import call
from support.commanding import add_inputs, jobs, take
from support.generating import document, generate, ready
from support.job_rows import Made, make_jobs, watch
from support.situations import set_sites
from support.task_rows import row_of
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.cli.retry_rule import app
from jedi.core.errors import BadInput, NotFound
from jedi.service.system import retry_rules
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs.retry_rules import TEST
from jedi.watchdog import retries

pytestmark = pytest.mark.usefixtures("operators")


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def set_job(tx: Connection, panda_id: int, **columns: Any) -> None:
    names = ", ".join(f"{name} = :{name}" for name in columns)
    tx.execute(
        text(f"UPDATE jedi_jobs SET {names} WHERE pandaid = :id"), columns | {"id": panda_id}
    )


def set_task(tx: Connection, made: Made, **columns: Any) -> None:
    names = ", ".join(f"{name} = :{name}" for name in columns)
    tx.execute(
        text(f"UPDATE jedi_tasks SET {names} WHERE jeditaskid = :id"), columns | {"id": made.task}
    )


def fail(engine: Engine, jobs: list[int], code: str = "memory_limit", why: str = "Oh.") -> None:
    with engine.begin() as tx:
        ends = [JobEnd(job, "failed", code, why, None, "payload") for job in jobs]
        assert len(job_ends.end_jobs(tx, ends, "me")) == len(jobs)


def inputs(engine: Engine, made: Made, job: int) -> list[tuple[Any, ...]]:
    """Status, attempts allowed and memory of a job's inputs."""
    with engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT status, maxattempt, ramcount FROM jedi_dataset_contents "
                "WHERE datasetid = :d AND pandaid = :job"
            ),
            {"d": made.input, "job": job},
        )
        return [tuple(row) for row in rows]


def effects(engine: Engine) -> list[tuple[int, str, bool]]:
    with engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT rule_id, effect, settled_at IS NOT NULL "
                "FROM jedi_retry_matches ORDER BY pandaid, rule_id"
            )
        )
        return [tuple(row) for row in rows]


def give(engine: Engine, *rules: str) -> None:
    with engine.begin() as tx:
        retry_rules.import_rules(call(tx, "me"), "\n".join(f"- {{{rule}}}" for rule in rules))


@pytest.mark.parametrize(
    ("unit", "base", "cores", "asked", "pss_mb", "target"),
    [
        ("MBPerCore", None, 1, 2000, 0, 3000),
        ("MBPerCore", None, 8, 16_000, 0, 3000),
        ("MBPerCore", 1000, 8, 17_000, 0, 3000),
        ("MBPerCore", 1000, 8, 17_000, 25_000, 4000),
        ("MBPerCoreFixed", None, 2, 4000, 0, 3000),
        ("MB", 1000, 8, 2000, 0, 3000),
        ("MB", None, 8, 2000, 4500, 6000),
    ],
)
def test_a_job_without_memory_is_tried_with_more(
    engine: Engine, unit: str, base: int | None, cores: int, asked: int, pss_mb: int, target: int
) -> None:
    """The rule of docs/reference/retries-and-timeouts.md#memory-increase is there from the
    beginning."""
    with engine.begin() as tx:
        made = make_jobs(tx, 2, cores=cores, memory_mb=asked)
        set_task(tx, made, ramunit=unit, baseramcount=base)
        set_job(tx, made.jobs[0], max_pss_kb=pss_mb * 1024)
    fail(engine, made.jobs[:1])
    assert inputs(engine, made, made.jobs[0]) == [("ready", 3, target)] * 2
    assert inputs(engine, made, made.jobs[1]) == [("running", 3, None)] * 2
    assert [(rule, done) for rule, _, done in effects(engine)] == [(1, False)]


def test_more_than_8000_is_not_asked_for(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1, memory_mb=8000)
    fail(engine, made.jobs)
    assert inputs(engine, made, made.jobs[0]) == [("ready", 3, None)] * 2
    assert effects(engine) == [(1, "increase_memory: more than 8000 MB can't be asked for", False)]


def test_what_a_site_keeps_back_is_not_memory_asked_for(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value, username) "
                "VALUES ('broker', 'memory_factor', '0.9', 'me')"
            )
        )
        made = make_jobs(tx, 1, memory_mb=1800)
        set_task(tx, made, ramunit="MBPerCore")
    fail(engine, made.jobs)
    assert inputs(engine, made, made.jobs[0])[0][2] == 3000


CONDITIONS = {
    "error_source": ("payload", "pilot"),
    "error_code": ("wall_limit", "cpu_limit"),
    "exit_code": (137, 1),
    "message": ("no space .* device$", "^NO"),
    "site": ("SITE_A", "SITE_B"),
    "queue_id": (3, 4),
    "label": ("user", "managed"),
    "architecture": ("x86", "arm"),
    "release": ("R1", "R2"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(engine: Engine, name: str) -> None:
    this, other = CONDITIONS[name]
    give(
        engine,
        f"rule_id: 7, {name}: {this!r}, action: limit_retry, attempts: 2",
        f"rule_id: 8, {name}: {other!r}, action: no_retry",
    )
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
        set_job(tx, made.jobs[0], exit_code=137, workqueue_id=3, prodsourcelabel="user")
        set_task(tx, made, architecture="x86", transuses="R1")
    fail(engine, made.jobs, "wall_limit", "no space left on device")
    assert inputs(engine, made, made.jobs[0]) == [("ready", 2, None)] * 2
    assert effects(engine) == [(7, "limit_retry: tried 2 times at most", True)]
    with engine.begin() as tx:
        found = retry_rules.test_rules(call(tx))
        assert [(rule.jobs, rule.examples) for rule in found] == [
            (0, None),
            (1, made.jobs),
            (0, None),
        ]
        assert [rule.jobs for rule in TEST.rows(tx, task=made.task + 1)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("attempt", "rules", "status", "allowed"),
    [
        (1, ["action: limit_retry, attempts: 2"], "ready", 2),
        (2, ["action: limit_retry, attempts: 2"], "failed", 2),
        (3, ["action: limit_retry, attempts: 2"], "failed", 3),
        (1, ["action: limit_retry, attempts: 9"], "ready", 3),
        (1, ["action: limit_retry, attempts: 2", "action: no_retry"], "failed", 1),
        (1, ["action: no_retry, active: false"], "ready", 3),
    ],
)
def test_limits(engine: Engine, attempt: int, rules: list[str], status: str, allowed: int) -> None:
    give(engine, *(f"rule_id: {n}, error_code: x, {rule}" for n, rule in enumerate(rules, 2)))
    with engine.begin() as tx:
        made = make_jobs(tx, 1, attempt=attempt)
    fail(engine, made.jobs, "x")
    assert inputs(engine, made, made.jobs[0]) == [(status, allowed, None)] * 2
    assert len(effects(engine)) == len(rules)
    with engine.begin() as tx:
        seeds = tx.scalars(
            text("SELECT status FROM jedi_dataset_contents WHERE datasetid = :d"), {"d": made.seeds}
        ).all()
        assert seeds == ["ready"]


@pytest.mark.parametrize("target", ["closed", "cancelled"])
def test_only_failures_count(engine: Engine, target: str) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
        job_ends.end_jobs(tx, [JobEnd(made.jobs[0], target, "memory_limit", "Oh.")], "me")
    assert effects(engine) == []


def test_inputs_are_not_blamed_for_others(engine: Engine) -> None:
    give(engine, "rule_id: 2, error_code: stagein_missing, action: no_retry")
    spoil = (
        "UPDATE jedi_job_files SET problem = 'missing' "
        "WHERE fileid = (SELECT min(fileid) FROM jedi_job_files WHERE type = 'input')"
    )
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(text(spoil))
    fail(engine, made.jobs, "stagein_missing")
    assert {status for status, *_ in inputs(engine, made, made.jobs[0])} == {"missing", "ready"}
    assert effects(engine) == []


def test_statements_do_not_grow_with_the_batch(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 101)
    seen = watch(engine)
    fail(engine, made.jobs[:1])
    for_one = len(seen)
    seen.clear()
    fail(engine, made.jobs[1:])
    assert len(seen) == for_one <= 13


# --------------------------------------------------------------------------------------- tasks


def task(engine: Engine, made: Made) -> Any:
    with engine.begin() as tx:
        return tx.execute(
            text("SELECT * FROM jedi_tasks WHERE jeditaskid = :id"), {"id": made.task}
        ).one()


@pytest.mark.parametrize(("n", "ram"), [(2, 2000), (3, 3000)])
def test_three_of_ten_jobs_speak_for_all(engine: Engine, world: World, n: int, ram: int) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 10, memory_mb=2000)
        set_task(tx, made, ramcount=2000, ramunit="MBPerCore", resource_type="SCORE")
    fail(engine, made.jobs[:n])
    assert retries.run(world) == {"tasks": 1}
    found = task(engine, made)
    assert (found.ramcount, found.resource_type) == (ram, "SCORE" if n == 2 else "SCORE_HIMEM")
    assert [done for *_, done in effects(engine)] == [True] * n
    assert retries.run(world) == {}


@pytest.mark.parametrize(("files", "failed", "ram"), [(11, 2, 2000), (13, 0, 1000)])
def test_jobs_count_not_their_files(
    engine: Engine, world: World, files: int, failed: int, ram: int
) -> None:
    """One of three jobs (4, 4 and 3 files) is 33 %, though 3 of 11 files are 27 %. One of four jobs
    (4, 4, 4 and 1) is 25 %, though 4 of 13 files are 31 %."""
    add_inputs(world, files)
    [task_id] = ready(world, document(nFilesPerJob=4, site="SITE_A", ramCount=1000, ramUnit="MB"))
    assert generate(world) == 1
    job = jobs(world, task_id, "activated")[failed]
    take(world, [job])
    with engine.begin() as tx:
        set_job(tx, job, max_pss_kb=1500 * 1024)
    fail(engine, [job])
    assert retries.run(world) == {"tasks": 1}
    assert row_of(world, task_id).ramcount == ram


@pytest.mark.parametrize(("left", "ram"), [(4, 3000), (5, 2000)])
def test_jobs_that_are_not_made_yet_count(
    engine: Engine, world: World, left: int, ram: int
) -> None:
    """The only job has two files. Four released files more are two jobs: one of three has failed.
    Five are three: one of four."""
    with engine.begin() as tx:
        made = make_jobs(tx, 1, memory_mb=2000)
        set_task(tx, made, ramcount=2000, ramunit="MBPerCore")
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfiles = nfiles + :n, "
                "nfilestobeused = nfilestobeused + :n WHERE datasetid = :d"
            ),
            {"n": left, "d": made.input},
        )
    fail(engine, made.jobs)
    retries.run(world)
    assert task(engine, made).ramcount == ram


def test_attempts_of_the_same_work_are_one_job(engine: Engine, world: World) -> None:
    """Two failures of one of four jobs are 25 %."""
    add_inputs(world, 4)
    [task_id] = ready(world, document(nFilesPerJob=1, site="SITE_A", ramCount=1000, ramUnit="MB"))
    for used_mb in (1500, 2500):
        assert generate(world) == 1
        job = jobs(world, task_id, "activated")[0 if used_mb == 1500 else -1]
        take(world, [job])
        with engine.begin() as tx:
            set_job(tx, job, max_pss_kb=used_mb * 1024)
        fail(engine, [job])
        assert retries.run(world) == {"tasks": 1}
    assert row_of(world, task_id).ramcount == 1000


def test_all_get_what_enough_of_them_need(engine: Engine, world: World) -> None:
    """Two need 4000 MB, two more 3000: that much is enough for most of those three in ten."""
    with engine.begin() as tx:
        made = make_jobs(tx, 10, memory_mb=2000)
        set_task(tx, made, ramcount=2000, ramunit="MBPerCore")
        for job in made.jobs[:2]:
            set_job(tx, job, max_pss_kb=3500 * 1024)
    fail(engine, made.jobs[:4])
    retries.run(world)
    assert task(engine, made).ramcount == 3000
    assert inputs(engine, made, made.jobs[0])[0][2] == 4000


def test_a_fixed_figure_stays(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1, memory_mb=2000)
        set_task(tx, made, ramcount=2000, ramunit="MBPerCoreFixed")
    fail(engine, made.jobs)
    retries.run(world)
    assert task(engine, made).ramcount == 2000
    assert inputs(engine, made, made.jobs[0])[0][2] == 3000


def test_a_task_that_somebody_works_on_is_changed_later(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1, memory_mb=2000)
        tx.execute(text("UPDATE jedi_tasks SET lease_until = clock_timestamp() + interval '1 h'"))
    fail(engine, made.jobs)
    assert retries.run(world) == {}
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET lease_until = NULL"))
    assert retries.run(world) == {"tasks": 1}


def test_more_time_for_an_event(engine: Engine, world: World) -> None:
    """1.5 times what the slot gave: 3600 s of 4 cores of 10 HS06 at 90 %, for 8 events."""
    give(engine, "rule_id: 2, error_code: wall_limit, action: increase_cputime")
    with engine.begin() as tx:
        set_sites(tx, maxtime=3600, corepower=10)
        made = make_jobs(tx, 3, cores=4)
        set_task(tx, made, cputime=10, cputimeunit="HS06sPerEvent", measured_jobs=5)
        set_job(tx, made.jobs[0], n_events=8, n_inputs=2)
    fail(engine, made.jobs[:1], "wall_limit")
    retries.run(world)
    found = task(engine, made)
    assert (found.cputime, found.measured_jobs) == (24_300, 5)
    with engine.begin() as tx:
        for status in ("sent", "starting", "running", "holding"):
            set_job(tx, made.jobs[2], status=status)
        job_ends.end_jobs(tx, [JobEnd(made.jobs[2], "finished", "job_finished", "Good.")], "me")
    fail(engine, made.jobs[1:2], "wall_limit")
    retries.run(world)
    found = task(engine, made)
    assert (found.cputime, found.measured_jobs) == (24_300, 0)


def test_less_input_for_a_job(engine: Engine, world: World) -> None:
    give(engine, "rule_id: 2, error_code: workdir_limit, action: reduce_input_per_job")
    with engine.begin() as tx:
        made = make_jobs(tx, 1, attempt=2)
        set_task(tx, made, rules='{"n_gb_per_job": 10}')
    fail(engine, made.jobs, "workdir_limit")
    retries.run(world)
    found = task(engine, made)
    assert found.rules == {
        "n_gb_per_job": 2.5,
        "max_files_per_job": 50,
        "retry_module_rules": "MF:200|NG:10",
    }
    assert found.splitrule == "NG=2.5,RM=MF:200|NG:10,MF=50"


# ----------------------------------------------------------------------------------- operators


def test_all_mistakes_of_a_file_at_once(engine: Engine) -> None:
    file = r"""
- {rule_id: 1, error_code: x, action: explode}
- {rule_id: 2, action: no_retry}
- {rule_id: 3, error_code: x, action: limit_retry}
- {rule_id: 4, message: '(a)\1', action: no_retry}
- {rule_id: 5, sight: A, action: no_retry}
"""
    with pytest.raises(BadInput) as caught, engine.begin() as tx:
        retry_rules.import_rules(call(tx, "me"), file)
    said = str(caught.value)
    for part in ("1.action", "2: ", "3: ", "4.message", "5.sight"):
        assert part in said
    with pytest.raises(BadInput, match=r"2\.message.*parentheses"), engine.begin() as tx:
        retry_rules.import_rules(
            call(tx, "me"),
            "- {rule_id: 1, error_code: x, action: no_retry}\n"
            "- {rule_id: 2, message: '(', action: no_retry}",
        )
    with engine.begin() as tx:
        assert [rule.error_code for rule in retry_rules.find(call(tx))] == ["memory_limit"]


def test_the_database_refuses_what_is_no_expression(engine: Engine) -> None:
    with pytest.raises(DBAPIError, match="regular expression"), engine.begin() as tx:
        tx.execute(text("UPDATE jedi_retry_rules SET message = '('"))


def test_a_rule_is_changed(engine: Engine) -> None:
    with engine.begin() as tx:
        changed = retry_rules.set_rule(call(tx, "me"), 1, ["active=false", "site=SITE_A"])
        assert (changed.active, changed.site, changed.error_code) == (
            False,
            "SITE_A",
            "memory_limit",
        )
        assert retry_rules.find(call(tx)) == [changed]
        for bad in ("active", "active=maybe", "rule_id=2", "action=limit_retry"):
            with pytest.raises(BadInput):
                retry_rules.set_rule(call(tx, "me"), 1, [bad])
        with pytest.raises(NotFound):
            retry_rules.set_rule(call(tx, "me"), 2, ["active=true"])


@pytest.mark.usefixtures("bare_service")
def test_operators_at_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- {rule_id: 2, message: 'no space', action: limit_retry, attempts: 2}\n")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    assert "1 retry rules imported." in run("import", str(file))
    assert "error_code = memory_limit" in run("list")
    assert json.loads(run("set", "2", "attempts=3", "--json"))["attempts"] == 3
    assert [rule["jobs"] for rule in json.loads(run("test", "--json"))] == [0, 0]
    assert "limit_retry" in run("test")
