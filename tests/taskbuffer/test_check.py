"""Every invariant is broken once, by hand, and `jedi check` names it and what breaks it."""

# Raw UPDATEs: damaged rows are the point.

from __future__ import annotations

import json
import re
import zlib
from collections import Counter

import pytest
from sqlalchemy import Connection, Engine, event, text
from support.helpers import put_file_dataset, unguard
from support.job_rows import Made, make_jobs
from typer.testing import CliRunner, Result

from jedi.agent.base import World
from jedi.cli.jedi import app
from jedi.service.system.check import check
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.housekeeping import checks
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs

_LOGS = """
INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status) VALUES
  (:task, NULL, 'registered'), (:task, 'registered', 'defined'), (:task, 'defined', 'ready'),
  (:task, 'ready', 'running');
INSERT INTO jedi_datasets_statuslog (jeditaskid, datasetid, fromstatus, status)
SELECT jeditaskid, datasetid, NULL, 'defined' FROM jedi_datasets;
INSERT INTO jedi_datasets_statuslog (jeditaskid, datasetid, fromstatus, status)
SELECT jeditaskid, datasetid, 'defined', 'ready' FROM jedi_datasets;
INSERT INTO jedi_datasets_statuslog (jeditaskid, datasetid, fromstatus, status)
SELECT jeditaskid, datasetid, 'ready', 'running' FROM jedi_datasets WHERE status = 'running'
"""


_SET = (
    "INSERT INTO jedi_jobsets (jobsetid, jeditaskid, merge_pandaid, mode, n_ranges, "
    "n_consumers, n_merges, attempts_left, jumbo, priority, gshare, resource_type, cores, "
    "memory_mb, walltime_s, disk_mb, command, ended_at) VALUES (:finished, :task, :finished, "
    "'es', 1, 1, 1, 0, false, 0, '', '', 1, 0, 0, 0, '', jedi_now())"
)
_SET2 = _SET.replace(":finished, :task, :finished", ":failed, :task, 0")
_INTO = (
    "INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn) "
    "SELECT :{}, fileid, jeditaskid, datasetid, type, lfn FROM jedi_job_files WHERE fileid = :{}"
)
_HERD = "INSERT INTO jedi_herds VALUES (:task, :queued, 'Parametric', 'refine'"
_RANGE = (
    "INSERT INTO jedi_events (jeditaskid, datasetid, fileid, pandaid, jobsetid, "
    "job_processid, attemptnr, status) VALUES (:task, :input, :in_finished, "
)
_REGISTRY = """
INSERT INTO jedi_registries (guid, username, name, change, next_job, next_template, lease, holder,
  lease_until) VALUES ('g', 'ana', 'default', 9, 3, 1, 'l', 'h', jedi_now());
INSERT INTO jedi_drafts (guid, kind, id, status, name, comment, change, submissions, backend,
  backend_id, counts, submitted, ended, document) VALUES
  ('g', 'template', 0, 'new', '', '', 1, 0, NULL, NULL, '{}', NULL, NULL, '{}'),
  ('g', 'job', 0, 'new', '', '', 2, 0, NULL, NULL, '{}', NULL, NULL, '{}'),
  ('g', 'job', 1, 'completed', '', '', 8, 1, 'JEDI', '7', '{"completed": 2}', jedi_now(),
   jedi_now(), '{}'),
  ('g', 'job', 2, 'running', '', '', 5, 1, 'JEDI', '8', '{"running": 1}', jedi_now(), NULL, '{}');
INSERT INTO jedi_subjobs (guid, job, k, status, superseded) VALUES ('g', 1, 0, 'completed', false),
  ('g', 1, 1, 'completed', false), ('g', 1, 2, 'failed', true), ('g', 2, 0, 'running', false);
INSERT INTO jedi_folders VALUES ('g', '/a'), ('g', '/a/b'), ('g', '/');
INSERT INTO jedi_folder_jobs VALUES ('g', '/a/b', 0, 1, 1)
"""
JOBS = ("finished", "failed", "held", "queued")


@pytest.fixture
def made(engine: Engine) -> Made:
    """Four jobs: the first finished, the second failed, the third is held, the last is queued."""
    with engine.begin() as tx:
        made = make_jobs(tx, 4)
        for statement in (*_LOGS.split(";"), *_REGISTRY.split(";")):
            tx.execute(text(statement), {"task": made.task})
        first, second, third, _ = made.jobs
        moves = [JobMove(job, "sent", "test", "test") for job in (first, second, third)]
        move_jobs(tx, moves, "test", ["activated"])
        moves = [JobMove(job, "holding", "test", "test") for job in (first, second, third)]
        move_jobs(tx, moves, "test", ["sent"])
        ends = [JobEnd(first, "finished", "test", "test"), JobEnd(second, "failed", "t", "t")]
        end_jobs(tx, ends, "test")
    return made


def broken(tx: Connection) -> dict[str, list[int | str]]:
    return {one.invariant: one.ids for one in check(tx) if one.violations}


def test_sound_records_pass_and_every_invariant_examines_rows(engine: Engine, made: Made) -> None:
    with engine.begin() as tx:
        found = check(tx)
    assert [one for one in found if one.violations] == []
    merging = {"merged_files", "merging_jobs"}  # these see rows in test_merging
    events = {
        "merging_consumers",
        "merged_once",
        "owned_ranges",
        "whole_job_sets",
        "pieces",
        "dead_consumers",
        "jumbo_ranges",
        "ended_job_sets",
    }  # these see rows in tests/eventservice
    herds = {
        "whole_herds",
        "units_of_jobs",
        "superseded_jobs",
        "killed_units",
        "refused_units",
        "superseded_units",
    }  # these see rows in tests/splitter
    archived = {"archived_statistics"}  # it sees rows in test_archive
    unseen = {one.invariant for one in found if not one.examined}
    assert unseen == merging | events | herds | archived
    assert len({one.invariant for one in found}) == len(checks.INVARIANTS)


def test_one_look_at_all_files_serves_many_invariants(engine: Engine) -> None:
    looks: Counter[str] = Counter()

    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        looks.update(re.findall(r"(?:FROM|JOIN) (\w+)", sql))

    event.listen(engine, "before_cursor_execute", note)
    with engine.begin() as tx:
        check(tx)
    event.remove(engine, "before_cursor_execute", note)
    assert looks["jedi_dataset_contents"] <= 10
    assert looks["jedi_job_files_archived"] <= 3
    assert looks["jedi_jobs_archived"] <= 15


COUNTERS = [
    *((name, "input") for name in checks._INPUT_COUNTERS),
    *((name, "output") for name in checks._OUTPUT_COUNTERS),
]


@pytest.mark.parametrize(("counter", "kind"), COUNTERS)
def test_every_counter_is_compared(engine: Engine, made: Made, counter: str, kind: str) -> None:
    dataset = getattr(made, kind)
    with engine.begin() as tx:
        tx.execute(
            text(
                f"UPDATE jedi_datasets SET {counter} = coalesce({counter}, 0) + 1 "
                "WHERE datasetid = :id"
            ),
            {"id": dataset},
        )
        assert broken(tx) == {f"{kind}_counters": [f"{dataset}.{counter}"]}


CORRUPTIONS = {
    "job_statistics": (
        "UPDATE job_stats_delta SET cores = cores + 1 WHERE status = 'finished'",
        "SITE_A/0///finished",
    ),
    "archived_statistics": (
        "INSERT INTO job_stats_archived (jeditaskid, kind, status, site, "
        "is_first, cause, jobs, limited, walltime_s, memory_mb, disk_mb, "
        "last_job) VALUES (:task, 'normal', 'failed', 'SITE_A', true, '[]', 1, "
        "false, 0, 0, 0, 1)",
        "{task}/normal/failed/SITE_A",
    ),
    "counted_jobs": ("UPDATE jedi_tasks SET counted_upto = :failed, counted_jobs = 2", "task"),
    "one_live_job": (
        "UPDATE jedi_job_files SET pandaid = :queued "
        "WHERE fileid = :in_held OR fileid = :in_failed AND pandaid = :failed; "
        "INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, "
        "lfn) SELECT :held, fileid, jeditaskid, datasetid, type, lfn "
        "FROM jedi_job_files WHERE fileid = :in_held",
        "in_held",
    ),
    "processed_once": (_INTO.format("queued", "in_finished"), "in_finished"),
    "inputs_of_jobs": (
        "UPDATE jedi_dataset_contents SET status = 'ready' "
        "WHERE fileid IN (:in_finished, :in_held)",
        "in_finished in_held",
    ),
    "shared_inputs": (
        "UPDATE jedi_datasets SET attributes = 'ru' WHERE datasetid = :input; UPDATE "
        "jedi_dataset_contents SET status = 'ready' WHERE datasetid = :input AND "
        "fileid <> :in_held",
        "in_held",
    ),
    "one_writer": (_INTO.format("queued", "out_held"), "out_held"),
    "files_of_jobs": (
        "DELETE FROM jedi_job_files WHERE pandaid = :queued "
        "OR pandaid = :held AND type IN ('output', 'log')",
        "held queued",
    ),
    "params_of_jobs": ("DELETE FROM jedi_job_params WHERE pandaid = :held", "held"),
    "running_inputs": (
        "UPDATE jedi_dataset_contents SET status = 'running' WHERE fileid = :in_failed",
        "in_failed",
    ),
    "finished_inputs": (
        "UPDATE jedi_dataset_contents SET status = 'finished' WHERE fileid = :in_held",
        "in_held",
    ),
    "superseded_jobs": (
        "INSERT INTO jedi_superseded_jobs (jeditaskid, pandaid) VALUES "
        "(:task, :finished), (:task, :held), (:task, 0)",
        "0 finished held",
    ),
    "finished_outputs": (
        "UPDATE jedi_dataset_contents SET status = 'finished' WHERE fileid = :out_failed",
        "out_failed",
    ),
    "open_outputs": (
        "UPDATE jedi_dataset_contents SET status = 'defined' WHERE fileid = :out_failed",
        "out_failed",
    ),
    "done_datasets": (
        "UPDATE jedi_dataset_contents SET status = 'finished' WHERE fileid <> "
        ":in_held; UPDATE jedi_datasets SET status = 'done'",
        "in_held",
    ),
    "params_of_task": ("DELETE FROM jedi_taskparams", "task"),
    "outputs_of_finished_jobs": (
        "UPDATE jedi_dataset_contents SET status = 'running' WHERE fileid = :out_finished",
        "out_finished",
    ),
    "merged_files": (
        "INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, "
        "status, outpandaid) VALUES (0, :output, :task, 'um', 'trn_output', "
        "'finished', :held)",
        "0",
    ),
    "merging_jobs": ("UPDATE jedi_jobs SET status = 'merging' WHERE pandaid = :held", "held"),
    "merging_consumers": (
        "UPDATE jedi_jobs SET status = 'merging', kind = 'consumer' "
        "WHERE pandaid = :held; INSERT INTO jedi_consumers (pandaid, jeditaskid, "
        "kind, number) VALUES (:held, :task, 'consumer', 1)",
        "held",
    ),
    "merged_once": (f"{_SET}; {_RANGE} :finished, :finished, 1, 1, 5)", "in_finished"),
    "owned_ranges": (
        f"{_RANGE} 0, 0, 1, 1, 0); {_SET}; {_RANGE.replace('in_finished', 'in_held')} "
        ":finished, :finished, 1, 1, 1)",
        "in_finished in_held",
    ),
    "whole_job_sets": (
        f"{_SET}; UPDATE jedi_jobsets SET ended_at = NULL; {_SET2}",
        "finished failed",
    ),
    "pieces": (f"{_SET}; {_RANGE} :finished, :finished, 1, 1, 6)", "in_finished"),
    "dead_consumers": (
        f"{_SET}; {_RANGE} :held, :finished, 1, 1, 1); INSERT INTO jedi_consumers "
        "(pandaid, jeditaskid, jobsetid, kind, number, settled_at) VALUES "
        "(:held, :task, :finished, 'consumer', 1, jedi_now())",
        "held",
    ),
    "jumbo_ranges": (
        f"{_SET}; {_RANGE} :held, :finished, 1, 1, 1); INSERT INTO jedi_consumers "
        "(pandaid, jeditaskid, kind, number) VALUES (:held, :task, 'jumbo', 1)",
        "held",
    ),
    "ended_job_sets": (f"{_SET}; {_RANGE} :finished, :finished, 1, 1, 0)", "finished"),
    "whole_herds": (f"{_HERD}, 2, jedi_now())", "task"),
    "units_of_jobs": (
        f"{_HERD}, NULL, NULL); INSERT INTO jedi_units VALUES "
        "(:task, 1, :queued, '{}'), (:task, 2, :held, '{}')",
        "finished failed held queued",
    ),
    "killed_units": (
        f"{_HERD}, 2, jedi_now()); INSERT INTO jedi_units (jeditaskid, unit_nr, "
        "originpandaid, options, killed_at) SELECT :task, n, :queued + n, '{}', "
        "jedi_now() FROM generate_series(1, 3) n; UPDATE jedi_jobs SET unit_nr = 1 "
        "WHERE pandaid = :held; UPDATE jedi_dataset_contents SET boundaryid = 2, "
        "status = 'ready' WHERE fileid = :in_failed; UPDATE jedi_jobs SET unit_nr = 3 "
        "WHERE pandaid <> :held",
        "{task}.1 {task}.2 {task}.3",
    ),
    "refused_units": (
        f"{_HERD}, 4, jedi_now()); INSERT INTO jedi_units (jeditaskid, unit_nr, "
        "originpandaid, options, refusal) SELECT :task, n, :queued + n, '{}', 'No.' "
        "FROM generate_series(1, 4) n; UPDATE jedi_jobs SET unit_nr = 1 WHERE "
        "pandaid = :held; UPDATE jedi_jobs SET unit_nr = 5 WHERE pandaid <> :held; "
        "UPDATE jedi_dataset_contents SET boundaryid = 2 WHERE fileid = :in_failed; "
        "UPDATE jedi_units SET killed_at = jedi_now() WHERE unit_nr = 3",
        "{task}.1 {task}.2 {task}.3",
    ),
    "superseded_units": (
        f"{_HERD}, 2, jedi_now()); INSERT INTO jedi_units (jeditaskid, unit_nr, "
        "originpandaid, options, superseded) SELECT :task, n, :queued + n, '{}', "
        "'failed' FROM generate_series(1, 3) n; UPDATE jedi_jobs SET unit_nr = 1 "
        "WHERE pandaid = :held; UPDATE jedi_dataset_contents SET boundaryid = 2 "
        "WHERE fileid = :in_failed; UPDATE jedi_jobs SET unit_nr = 5 "
        "WHERE pandaid <> :held",
        "{task}.1 {task}.2",
    ),
    "registry_leases": ("UPDATE jedi_registries SET lease = NULL", "g"),
    "registry_records": (
        "UPDATE jedi_registries SET next_template = 0, change = 6; INSERT INTO "
        "jedi_removed_drafts VALUES ('g', 'job', 2, 3)",
        "g/job/1 g/job/2 g/template/0",
    ),
    "registry_submissions": (
        "UPDATE jedi_drafts SET backend = 'JEDI' WHERE id = 0; UPDATE "
        "jedi_drafts SET ended = NULL WHERE id = 1; UPDATE jedi_drafts SET "
        "backend_id = NULL WHERE id = 2",
        "g/0 g/1 g/2",
    ),
    "registry_subjobs": (
        "DELETE FROM jedi_subjobs WHERE job = 1; UPDATE jedi_subjobs SET "
        "superseded = true WHERE job = 2; INSERT INTO jedi_subjobs (guid, job, k, "
        "status) VALUES ('g', 0, 0, 'new'), ('g', 7, 0, 'new')",
        "g/0 g/1 g/2 g/7",
    ),
    "registry_folders": ("DELETE FROM jedi_folders WHERE path = '/a'", "g/a/b"),
    "registry_links": (
        "DELETE FROM jedi_folders WHERE path = '/a/b'; INSERT INTO jedi_folder_jobs "
        "VALUES ('g', '/a', 9, 1, 1)",
        "g/a/b:0 g/a:9",
    ),
    "unique_outputs": (
        "INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, "
        "type, status) SELECT 0, datasetid, jeditaskid, lfn, type, 'failed' "
        "FROM jedi_dataset_contents WHERE fileid = :out_failed",
        "0 out_failed",
    ),
    "attempts": (
        "UPDATE jedi_dataset_contents SET attemptnr = maxattempt + 1 WHERE fileid = :in_held",
        "in_held",
    ),
    "dataset_of_file": (
        "UPDATE jedi_dataset_contents SET datasetid = 0 WHERE fileid = :in_held",
        "in_held",
    ),
    "task_of_dataset": (
        "UPDATE jedi_datasets SET jeditaskid = 0 WHERE datasetid = :input",
        "input",
    ),
    "task_of_job": ("UPDATE jedi_jobs SET jeditaskid = 0 WHERE pandaid = :held", "held"),
    "job_of_files": ("DELETE FROM jedi_jobs WHERE pandaid = :failed", "failed"),
    "job_of_params": ("DELETE FROM jedi_jobs WHERE pandaid = :failed", "failed"),
    "ready_queue": ("UPDATE jedi_job_ready SET pandaid = :held", "held queued"),
    "done_tasks": (
        "UPDATE jedi_tasks SET status = 'done'; UPDATE jedi_dataset_contents SET "
        "status = 'finished'; UPDATE jedi_dataset_contents SET status = 'missing' "
        "WHERE fileid = :in_held",
        "in_held",
    ),
    "final_tasks": ("UPDATE jedi_tasks SET status = 'done'", "held queued"),
    "task_log": ("UPDATE jedi_tasks SET status = 'pending'", "task"),
    "input_log": (
        "UPDATE jedi_datasets_statuslog SET fromstatus = NULL, status = 'ready' "
        "WHERE datasetid = :input AND status = 'defined'",
        "input",
    ),
    "output_log": ("DELETE FROM jedi_datasets_statuslog WHERE datasetid = :output", "output"),
    "job_log": (
        "DELETE FROM jedi_jobs_statuslog WHERE pandaid = :held AND status = 'sent'",
        "held",
    ),
}
"""By invariant: what breaks it, and the ids that it then names."""


def values(tx: Connection, made: Made) -> dict[str, int]:
    """Ids by name: the task, datasets and jobs; `in_held` is the first input of the held job."""
    jobs = dict(zip(JOBS, made.jobs, strict=True))
    files = {
        f"{short}_{name}": int(tx.scalar(text(FIRST_FILE), {"job": job, "type": kind}) or 0)
        for name, job in jobs.items()
        for short, kind in (("in", "input"), ("out", "output"))
    }
    datasets = {"task": made.task, "input": made.input, "output": made.output}
    return {**jobs, **files, **datasets}


FIRST_FILE = "SELECT min(fileid) FROM jedi_job_files WHERE pandaid = :job AND type = :type"


@pytest.mark.parametrize("invariant", CORRUPTIONS)
def test_a_broken_row_is_named(
    engine: Engine, made: Made, monkeypatch: pytest.MonkeyPatch, invariant: str
) -> None:
    corruption, names = CORRUPTIONS[invariant]
    with engine.begin() as tx:
        known = values(tx, made)
        unguard(tx)
        for statement in corruption.split("; "):
            tx.execute(text(statement), known)
    answer = run_check(engine, monkeypatch)
    assert answer.exit_code == 1
    ids = {one["invariant"]: one["ids"] for one in json.loads(answer.stdout)["invariants"]}
    expected = names.split()
    assert ids[invariant] == [
        known.get(n, int(n) if n.isdigit() else n.format_map(known)) for n in expected
    ]


def test_every_invariant_was_broken() -> None:
    names = {one.name for one in checks.INVARIANTS}
    assert CORRUPTIONS.keys() | {"input_counters", "output_counters"} == names


def test_illegal_edge_in_a_log_is_found(engine: Engine, made: Made) -> None:
    with engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status) "
                "VALUES (:t, 'running', 'done'), (:t, 'done', 'running')"
            ),
            {"t": made.task},
        )
        assert broken(tx) == {"task_log": [made.task]}


def test_few_of_many_ids_are_told(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, checks.SHOWN + 5)
        tx.execute(text("DELETE FROM jedi_jobs_statuslog"))
        found = next(one for one in check(tx) if one.invariant == "job_log")
    assert (found.examined, found.violations, len(found.ids)) == (25, 25, checks.SHOWN)


def run_check(engine: Engine, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    url = engine.url.render_as_string(hide_password=False)
    monkeypatch.setenv("JEDI_DATABASE_URL", url)
    return CliRunner().invoke(app, ["check", "--json", *options])


def test_files_of_finished_outputs_are_read(
    world: World, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test:{made.task}.output"
    lfns = {"good": b"good", "short": b"s", "changed": b"hcanged", "gone": b"gone"}
    with world.engine.begin() as tx:
        unguard(tx)
        for (lfn, data), row in zip(lfns.items(), outputs(tx, made), strict=True):
            tx.execute(
                text(
                    "UPDATE jedi_dataset_contents SET lfn = :lfn, fsize = :size, checksum = :sum, "
                    "status = 'finished' WHERE fileid = :id"
                ),
                {"lfn": lfn, "size": len(data), "sum": f"{zlib.adler32(data):08x}", "id": row},
            )
        tx.execute(text("UPDATE jedi_dataset_contents SET status = 'failed' WHERE type = 'log'"))
    stored = {"good": b"good", "short": b"", "changed": b"changed"}
    put_file_dataset(world, name, stored, "SITE_A_DATADISK")
    answer = run_check(world.engine, monkeypatch, "--files")
    files = json.loads(answer.stdout)["invariants"][-1]
    bad = [f"{name} {lfn}" for lfn in ("short", "changed", "gone")]
    assert (files["examined"], files["ids"]) == (4, bad)


def outputs(tx: Connection, made: Made) -> list[int]:
    rows = tx.scalars(
        text("SELECT fileid FROM jedi_dataset_contents WHERE datasetid = :id ORDER BY 1"),
        {"id": made.output},
    )
    return list(rows)


def test_people_see_a_table(engine: Engine, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    with engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_datasets SET nfiles = 7 WHERE datasetid = :i"), {"i": made.input}
        )
    answer = CliRunner().invoke(app, ["check"])
    assert answer.exit_code == 1
    assert f"input_counters: dataset.counter {made.input}.nfiles" in answer.stdout
    table = answer.stdout.partition("\n\n")[0].splitlines()
    names = ["invariant", *(one.name for one in checks.INVARIANTS)]
    assert [line.split()[0] for line in table if not line.startswith(" ")] == names
    assert max(map(len, table)) <= 100
