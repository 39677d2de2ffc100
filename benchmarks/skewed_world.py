"""A skewed database: one task of 100,000 units, files, jobs and events beside 5,000 small ones, and
beside ordinary tasks, at work and ended. The server makes all rows from one task that the agents
have refined and fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, text

from benchmarks.common import make_world, run
from benchmarks.growth_world import copies
from benchmarks.jobs_world import ENDPOINT, Held, fed_task, place
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.schema.tables import metadata

SITES, SHARES = 20, 5
GUID = "skewed"
"""The registry of the jobs of people, the first of which has all units of the large task."""
PER_TASK = 100
"""Jobs of an ordinary task, and ranges of a job set."""


@dataclass(frozen=True, slots=True)
class Size:
    """The units of the large task; the numbers of small tasks, of ordinary ones at work and of
    ended ones. The large task's present jobs, and those of tasks at work, are live; its earlier
    attempts and the jobs of ended tasks are archived."""

    large: int = 100_000
    small: int = 5_000
    working: int = 900
    ended: int = 8_000

    def part(self, share: int) -> Size:
        """The same, `share` times as small."""
        return Size(*(number // share for number in asdict(self).values()))

    @property
    def tasks(self) -> int:
        """All tasks."""
        return 1 + self.small + self.working + self.ended


@dataclass(frozen=True, slots=True)
class Skewed:
    """Ids of a skewed database: the large task, the first of the small ones that follow it, and the
    ids of the first job of each unit of the large task, of its present jobs and of its files."""

    size: Size
    large: int
    small: int
    ended: int
    first_archived: int
    first_live: int
    first_small: int
    first_output: int
    inputs: int
    outputs: int


_DATASETS = text("SELECT type, datasetid FROM jedi_datasets WHERE jeditaskid = :model")


def fill(engine: Engine, size: Size) -> Skewed:
    """Fill a new database, and analyse it."""
    place(engine, SITES, SHARES)
    ddm: Any = Held(1)
    model = fed_task(engine, make_world(engine, ddm), 1)
    run(
        engine,
        "SET LOCAL session_replication_role = replica",
        f"UPDATE jedi_tasks SET status = 'aborted' WHERE jeditaskid = {model}",
    )
    with engine.begin() as tx:
        found = tx.execute(_DATASETS, {"model": model})
        places = {row.type: row.datasetid % 10 for row in found}
        made = _ids(size, model, places)
        values = {
            **asdict(size),
            "model": model,
            "sites": SITES,
            "shares": SHARES,
            "per": PER_TASK,
            "guid": GUID,
            "endpoint": ENDPOINT,
            "input": places["input"],
            "output": places["output"],
            "log": places["log"],
            "first": made.first_archived,
            "tasks": size.tasks,
        }
        tx.execute(text("SET LOCAL session_replication_role = replica"))  # no guards
        for statement in (*_tasks(), _JOBS, *_ROWS, *_EVENTS, *_PEOPLE):
            tx.execute(text(statement), values)
        archive_groups.count_all(tx)
        _beyond(tx)
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        connection.execute(text("VACUUM (ANALYZE)"))
    return made


def _ids(size: Size, model: int, places: Mapping[str, int]) -> Skewed:
    archived = 1 + PER_TASK * size.ended
    return Skewed(
        size,
        model + 1,
        model + 2,
        model + 2 + size.small + size.working,
        archived,
        archived + 2 * size.large,
        archived + 3 * size.large,
        _OUTPUT + archived + 2 * size.large,
        model + 10 + places["input"],
        model + 10 + places["output"],
    )


_SEQUENCES = {
    "jedi_task_id_seq": "jedi_tasks.jeditaskid",
    "jedi_panda_id_seq": "jedi_jobs.pandaid",
    "jedi_dataset_id_seq": "jedi_datasets.datasetid",
    "jedi_file_id_seq": "jedi_dataset_contents.fileid",
    "jedi_out_temp_id_seq": "jedi_output_template.outtempid",
    "jedi_ziprow_id_seq": "jedi_event_zips.ziprow_id",
}


def _beyond(tx: Connection) -> None:
    """Move sequences beyond the ids in use."""
    for sequence, column in _SEQUENCES.items():
        table, _, name = column.partition(".")
        tx.execute(text(f"SELECT setval('{sequence}', max({name})) FROM {table}"))


# ------------------------------------------------------------------------------------ tasks

_SMALL = "n BETWEEN 2 AND 1 + :small"
_AT_WORK = "n <= 1 + :small + :working"
_STATUS = "(ARRAY['running', 'running', 'running', 'scouting', 'exhausted', 'pending'])[1 + n % 6]"
_FINAL = "(ARRAY['done', 'done', 'finished', 'failed'])[1 + n % 4]"


def _tasks() -> list[str]:
    """Statements that make tasks `model + n`. The datasets of a task have ten numbers."""
    task, every = ":model + n", "jeditaskid = :model"
    dataset = ":model + 10 * n + m.datasetid % 10"
    age = "jedi_now() - make_interval(mins => CAST(1 + n % 50 AS int))"
    jobs = f"CASE WHEN n = 1 THEN :large WHEN {_SMALL} THEN 2 ELSE :per END"
    used = f"CASE WHEN m.type = 'input' THEN {jobs} ELSE 0 END"
    files = f"{jobs} + CASE WHEN n = 1 AND m.type = 'input' THEN :large / 2 ELSE 0 END"
    usable = f"CASE WHEN m.type = 'input' THEN {files} ELSE 0 END"
    return [
        copies(
            tables.tasks,
            ":tasks",
            {
                "jeditaskid": task,
                "reqid": task,
                "taskname": "'skew.' || n",
                "parent_tid": task,
                "username": "'user' || n % 500",
                "workqueue_id": "1 + n % :shares",
                "gshare": "'share' || 1 + n % :shares",
                "currentpriority": "500 + n % 50",
                "status": f"CASE WHEN n = 1 THEN 'running' WHEN {_AT_WORK} THEN {_STATUS} "
                f"ELSE {_FINAL} END",
                "oldstatus": "'running'",
                "statechangetime": age,
                "endtime": f"CASE WHEN {_AT_WORK} THEN NULL ELSE {age} END",
                "eventservice": "CASE WHEN n = 1 THEN 1 END",
                "next_run_at": "CASE WHEN n % 6 = 5 THEN jedi_now() + interval '1 h' END",
                "reason_code": "CASE WHEN n % 6 = 5 THEN 'no_site' END",
            },
            every,
        ),
        *(
            copies(table, ":tasks", {"jeditaskid": task}, every)
            for table in (tables.task_params, tables.job_params_template)
        ),
        copies(
            tables.datasets,
            ":tasks",
            {
                "jeditaskid": task,
                "datasetid": dataset,
                "datasetname": "m.datasetname || '.' || n",
                "nfiles": files,
                "nfilestobeused": usable,
                "nfilesused": used,
                "status": f"CASE WHEN {_AT_WORK} THEN m.status ELSE 'finished' END",
                "nfilesfinished": f"CASE WHEN {_AT_WORK} THEN 0 ELSE {used} END",
            },
            every,
        ),
        copies(
            tables.output_template,
            ":tasks",
            {
                "jeditaskid": task,
                "outtempid": ":model + 10 * n + m.outtempid % 10",
                "datasetid": dataset,
                "serialnr": jobs,
            },
            every,
        ),
        "INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status, agent, reason_code) "
        "SELECT jeditaskid, l.fromstatus, coalesce(l.status, t.status), 'bench', 'generated' "
        "FROM jedi_tasks t, (VALUES (NULL, 'registered'), ('registered', 'defined'), "
        "('defined', 'ready'), ('ready', 'running'), ('running', NULL)) l(fromstatus, status) "
        "WHERE jeditaskid > :model",
        f"INSERT INTO jedi_herds (jeditaskid, originpandaid, splitter, after, n_units, split_at) "
        "SELECT :model + n, :first + CASE WHEN n = 1 THEN 0 ELSE 3 * :large + 2 * (n - 2) END, "
        f"'GenericSplitter', 'refine', {jobs}, jedi_now() FROM generate_series(1, 1 + :small) n",
    ]


# ------------------------------------------------------------------------------------- jobs

_OUTPUT = 10_000_000
"""The id of a job's output is that of the job and this; that of its log, twice this."""
_JOBS = """
CREATE TEMP TABLE skewed ON COMMIT DROP AS
SELECT id, :model + task AS task, task AS n, unit, attempt, live,
  CASE task WHEN 1 THEN :first + unit - 1 ELSE id END AS origin,
  CASE WHEN task > 1 OR NOT live THEN 'normal' WHEN unit % :per = 0 THEN 'es_merge'
    WHEN unit % :per < 3 THEN 'consumer' WHEN unit % :per = 3 THEN 'merge'
    ELSE 'normal' END AS kind,
  CASE WHEN NOT live THEN CASE WHEN task = 1 OR id % 20 = 0 THEN 'failed' ELSE 'finished' END
    WHEN unit % :per = 0 AND task = 1 THEN 'waiting' WHEN unit % :per < 3 THEN 'running'
    ELSE coalesce((ARRAY['activated', 'activated', 'holding', 'transferring', 'assigned',
      'finished', 'failed'])[1 + id % 20], 'running') END AS status
FROM (
  SELECT g AS id, 2 + :small + :working + (g - 1) / :per AS task, 1 + (g - 1) % :per AS unit,
    1 AS attempt, false AS live FROM generate_series(1, CAST(:per AS bigint) * :ended) g
  UNION ALL
  SELECT :first + a * :large + u - 1, 1, u, a + 1, a = 2
  FROM generate_series(0, 2) a, generate_series(1, CAST(:large AS bigint)) u
  UNION ALL
  SELECT :first + 3 * :large + g, 2 + g / 2, 1 + g % 2, 1, true
  FROM generate_series(0, 2 * CAST(:small AS bigint) - 1) g
  UNION ALL
  SELECT :first + 3 * :large + 2 * :small + g, 2 + :small + g / :per, 1 + g % :per, 1, true
  FROM generate_series(0, CAST(:working AS bigint) * :per - 1) g) j
"""
_STARTED = "status NOT IN ('activated', 'assigned', 'waiting')"


def _copied(table: str, source: str = "skewed", where: str = "true", **columns: str) -> str:
    """A statement that inserts these columns (SQL), a row for each of a source."""
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
        f"FROM {source} WHERE {where}"
    )


def _jobs(table: str, where: str) -> str:
    ended = "CASE WHEN status IN ('finished', 'failed') THEN jedi_now() - interval '1 h' END"
    failed = "CASE WHEN status = 'failed' THEN {} END"
    return _copied(
        table,
        where=where,
        **{"pandaid": "id"},
        originpandaid="origin",
        **{"jeditaskid": "task"},
        taskid="task",
        unit_nr="unit",
        attemptnr="attempt",
        kind="kind",
        status="status",
        prodsourcelabel="'user'",
        processingtype="'generic'",
        username="'user' || n % 500",
        vo="'local'",
        site="'BENCH' || id % :sites",
        workqueue_id="1 + n % :shares",
        gshare="'share' || 1 + n % :shares",
        resource_type="'SCORE'",
        priority="500 + n % 50",
        cores="1",
        memory_mb="2000",
        walltime_s="86400",
        disk_mb="9537",
        n_inputs="1",
        n_events="1000",
        lock_seq=f"CASE WHEN {_STARTED} THEN 1 ELSE 0 END",
        starttime=f"CASE WHEN {_STARTED} THEN jedi_now() - interval '2 h' END",
        heartbeat_at=f"CASE WHEN {_STARTED} THEN jedi_now() END",
        endtime=ended,
        postprocessed_at=ended,
        pilot_result="CASE WHEN status IN ('holding', 'finished') THEN 'finished' "
        "WHEN status = 'failed' THEN 'failed' END",
        wall_s=ended.replace("jedi_now() - interval '1 h'", "60"),
        max_rss_kb="CASE WHEN status = 'finished' THEN 2000 * (id % 999) END",
        error_source=failed.format("'payload'"),
        error_code=failed.format("'payload_failed'"),
        exit_code=failed.format("id / 20 % 3"),
        error_diag=failed.format("'The payload ended with ' || id / 20 % 3"),
    )


def _files(table: str, offset: int, kind: str, where: str, **columns: str) -> str:
    """Files of one type of jobs."""
    dataset = f":model + 10 * n + :{kind}"
    return _copied(
        table,
        where=where,
        **{"pandaid": "id"},
        fileid=f"{offset} + id",
        **{"jeditaskid": "task"},
        datasetid=dataset,
        lfn=f"'{kind}.' || id",
        type=f"'{kind}'",
        fsize="1000000000",
        checksum="'0badcafe'",
        **columns,
    )


_CONTENTS = {
    "attemptnr": "attempt",
    "maxattempt": "3",
    "keeptrack": "1",
    "scope": "'bench'",
    "proc_status": "'queued'",
}
_INPUT = (
    "CASE WHEN status = 'finished' THEN 'finished' WHEN status = 'failed' THEN 'failed' "
    "ELSE 'running' END"
)
_MADE = (
    "CASE WHEN status = 'finished' THEN 'finished' WHEN status = 'failed' THEN 'failed' "
    "ELSE 'defined' END"
)
_PRESENT = "live OR n > 1"
"""Jobs that are the last ones of their files."""
_ROWS = (
    _jobs("jedi_jobs", "live"),
    _jobs("jedi_jobs_archived", "NOT live"),
    *(
        _files(table, offset, kind, where)
        for table, where in (("jedi_job_files", "live"), ("jedi_job_files_archived", "NOT live"))
        for kind, offset in (("input", 0), ("output", _OUTPUT))
    ),
    _files("jedi_job_files", 2 * _OUTPUT, "log", "live"),
    _files("jedi_dataset_contents", 0, "input", _PRESENT, status=_INPUT, **_CONTENTS),
    _files(
        "jedi_dataset_contents",
        _OUTPUT,
        "output",
        _PRESENT,
        status=_MADE,
        outpandaid="id",
        **_CONTENTS,
    ),
    _files(
        "jedi_dataset_contents",
        2 * _OUTPUT,
        "log",
        "live",
        status=_MADE,
        outpandaid="id",
        **_CONTENTS,
    ),
    "INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, status, fsize, "
    "nevents, maxattempt, keeptrack, proc_status) SELECT 40000000 + g, :model + 10 + :input, "
    ":model + 1, 'next.' || g, 'input', 'ready', 1000000000, 1000, 3, 1, 'ready' "
    "FROM generate_series(1, :large / 2) g",
    _copied(
        "jedi_job_params", where="live", **{"pandaid": "id"}, jobparameters="'cat input.' || id"
    ),
    _copied(
        "jedi_job_ready",
        source="jedi_jobs",
        where="status = 'activated'",
        **{
            name: name
            for name in (
                "pandaid",
                "site",
                "gshare",
                "priority",
                "cores",
                "memory_mb",
                "walltime_s",
                "disk_mb",
            )
        },
    ),
    *(
        _copied(
            "jedi_jobs_statuslog",
            **{"pandaid": "id"},
            **{"jeditaskid": "task"},
            fromstatus=f"{before}",
            status=f"{status}",
            agent="'bench'",
            reason_code="'generated'",
            where=_PRESENT,
        )
        for before, status in (("NULL", "'activated'"), ("'activated'", "status"))
    ),
    _copied(
        "jedi_job_retry_history",
        where="n = 1 AND attempt > 1",
        **{"jeditaskid": "task"},
        oldpandaid="id - :large",
        newpandaid="id",
        relationtype="'retry'",
        originpandaid="origin",
    ),
    _copied(
        "jedi_units",
        where="live AND n <= 1 + :small",
        **{"jeditaskid": "task"},
        unit_nr="unit",
        originpandaid="origin",
        options="jsonb_build_object('arguments', jsonb_build_array(unit))",
    ),
    _copied(
        "jedi_retry_matches",
        where="n = 1 AND NOT live AND id % 100 = 0",
        **{"pandaid": "id"},
        rule_id="1",
        **{"jeditaskid": "task"},
        effect="'no more attempts'",
    ),
    _copied(
        "jedi_job_tail",
        where="live AND n = 1 AND status = 'running'",
        **{"pandaid": "id"},
        stdout_tail="'at work'",
        stderr_tail="''",
    ),
    "INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, jobs, cores) "
    "SELECT site, workqueue_id, gshare, resource_type, status, count(*), sum(cores) FROM ("
    "SELECT site, workqueue_id, gshare, resource_type, status, cores FROM jedi_jobs UNION ALL "
    "SELECT site, workqueue_id, gshare, resource_type, status, cores FROM jedi_jobs_archived) j "
    "GROUP BY 1, 2, 3, 4, 5",
)

# ----------------------------------------------------------------------------------- events

_SET = "skewed WHERE n = 1 AND live AND unit % :per = 0"
_EVENTS = (
    "INSERT INTO jedi_jobsets (jobsetid, jeditaskid, merge_pandaid, mode, n_ranges, n_consumers, "
    "n_merges, attempts_left, jumbo, priority, gshare, resource_type, cores, memory_mb, "
    "walltime_s, disk_mb, command) SELECT id, task, id, 'es', :per, 2, 1, 3, true, 500, 'share2', "
    f"'SCORE', 1, 2000, 600, 0, 'work' FROM {_SET}",
    "INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number) "
    "SELECT id, task, id + :per - unit % :per, kind, unit % :per FROM skewed "
    "WHERE kind = 'consumer'",
    "INSERT INTO jedi_event_zips (ziprow_id, jeditaskid, jobsetid, pandaid, lfn, endpoint) "
    "SELECT id, task, id + :per - unit % :per, id, 'zip.' || id, :endpoint FROM skewed "
    "WHERE kind = 'consumer'",
    # of ten ranges five are ready, two at work, two done and zipped, and one failed
    "INSERT INTO jedi_events (jeditaskid, datasetid, fileid, status, pandaid, job_processid, "
    "def_min_eventid, def_max_eventid, attemptnr, jobsetid, event_offset, ziprow_id) "
    "SELECT task, :model + 10 + :input, id, (ARRAY[0, 0, 0, 0, 0, 1, 2, 6, 6, 7])[1 + g % 10], "
    "CASE WHEN g % 10 < 5 THEN id ELSE id - :per + 1 + g % 2 END, 1 + 10 * g, 10 * g, "
    "10 * g + 9, 3, id, 0, CASE WHEN g % 10 IN (7, 8) THEN id - :per + 1 + g % 2 END "
    f"FROM {_SET.replace('skewed', 'skewed, generate_series(0, :per - 1) g')}",
)

# ------------------------------------------------------------------- people, brokers, catalogue

_PEOPLE = (
    "INSERT INTO jedi_registries (guid, username, name, next_job, lease, lease_until) VALUES "
    "(:guid, 'user1', 'skewed', 1 + :small, 'lease', jedi_now() + interval '1 h')",
    "INSERT INTO jedi_drafts (guid, kind, id, status, name, comment, change, backend, backend_id, "
    "submissions, document) SELECT :guid, 'job', n - 1, 'running', 'job' || n, '', n, 'JEDI', "
    ":model + n, 1, '{}' FROM generate_series(1, 1 + :small) n",
    "INSERT INTO jedi_subjobs (guid, job, k, status, attempt, panda_id, site) SELECT :guid, n - 1, "
    "unit - 1, 'running', attempt, id, 'BENCH' || id % :sites FROM skewed "
    "WHERE live AND n <= 1 + :small",
    "INSERT INTO jedi_folders (guid, path) SELECT :guid, 'folder' || n "
    "FROM generate_series(0, 9) n",
    "INSERT INTO jedi_folder_jobs (guid, path, job, change, place) "
    "SELECT :guid, 'folder' || n % 10, n, n, 0 FROM generate_series(0, :small) n",
    "INSERT INTO jedi_commands (jeditaskid, command, username, acknowledged_at, outcome) "
    "SELECT :model + n, 'retry', 'user' || n % 500, CASE WHEN n % 100 > 0 THEN jedi_now() END, "
    "CASE WHEN n % 100 > 0 THEN 'accepted' END FROM generate_series(1, :tasks) n",
    "INSERT INTO jedi_snapshots (snapshot_hash, data) SELECT 'snapshot' || n, '\\x00' "
    "FROM generate_series(1, 100) n",
    "INSERT INTO jedi_broker_decisions (jeditaskid, broker, snapshot_hash, seed, knobs, outcome, "
    "chosen, weights, need) SELECT :model + CASE WHEN n % 4 = 0 THEN 1 ELSE n END, 'generic', "
    "'snapshot' || 1 + n % 100, n, '{}', 'chosen', ARRAY['BENCH1'], ARRAY[1.0], '{}' "
    "FROM generate_series(1, :tasks) n",
    "INSERT INTO jedi_broker_reasons (decision_id, site, codes, observed, limits) "
    "SELECT decision_id, 'BENCH' || g, ARRAY['status'], ARRAY[0.0], ARRAY[1.0] "
    "FROM jedi_broker_decisions, generate_series(2, 6) g",
    "INSERT INTO jedi_pilots (pilot_id, site, host, pid, status, endtime) SELECT 'pilot' || n, "
    "'BENCH' || n % :sites, 'host' || n % 9, n, CASE WHEN n % 5 = 0 THEN 'running' ELSE 'ended' "
    "END, CASE WHEN n % 5 > 0 THEN jedi_now() END FROM generate_series(1, :large / 5) n",
    "INSERT INTO jedi_acquire_requests (request_id, site, pandaids) SELECT 'request' || id, "
    "'BENCH' || id % :sites, ARRAY[id] FROM skewed WHERE status = 'running' AND id % 5 = 0",
    "INSERT INTO jedi_outbox (topic, payload, username, channel, sent_at) SELECT 'task ' || n, "
    "'{}', 'user' || n % 500, 'mail', CASE WHEN n % 50 > 0 THEN jedi_now() END "
    "FROM generate_series(1, :tasks) n",
    "INSERT INTO jedi_users (username) SELECT 'user' || n FROM generate_series(0, 499) n "
    "ON CONFLICT DO NOTHING",
    "INSERT INTO jedi_tokens (token_hash, kind, username, name, scope) SELECT 'token' || n, 'user',"
    " 'user' || n % 500, 'token' || n, 'all' FROM generate_series(1, 1000) n",
    "INSERT INTO jedi_audit (username, way, operation, subject, arguments) SELECT 'user' || n % "
    "500, 'socket', 'task.submit', 'task ' || n, '{}' FROM generate_series(1, :tasks) n",
    "INSERT INTO jedi_requests (request_key, digest, answer) SELECT 'user' || n % 500 || ' ' || n, "
    "'digest', '{}' FROM generate_series(1, :tasks) n",
    "INSERT INTO jedi_lost_files (jeditaskid, fileid, datasetname, lfn) SELECT jeditaskid, fileid, "
    "'bench:lost', lfn FROM jedi_dataset_contents WHERE jeditaskid = :model + 1 "
    "AND type = 'output' AND fileid % 100 = 0",
    "INSERT INTO jedi_superseded_jobs (pandaid, jeditaskid) SELECT pandaid, jeditaskid "
    "FROM jedi_jobs WHERE status = 'finished' AND pandaid % 100 = 5",
    "INSERT INTO ddm_datasets (name, state, is_container) SELECT 'bench:set' || n, 'open', false "
    "FROM generate_series(1, 1 + :small) n",
    "INSERT INTO ddm_files (dataset_id, lfn, size, adler32, guid, nevents) SELECT dataset_id, "
    "'input.' || g, 1000, '0badcafe', dataset_id || '.' || g, 10 FROM ddm_datasets, "
    "generate_series(1, CASE dataset_id WHEN 1 THEN :large ELSE 2 END) g",
    "INSERT INTO ddm_replicas (file_id, endpoint) SELECT file_id, :endpoint FROM ddm_files",
)


_ROWS_OF = text(
    "SELECT relname, CAST(reltuples AS bigint) FROM pg_class WHERE relname = ANY(:names)"
)


def rows(tx: Connection) -> dict[str, int]:
    """The number of rows of each table, as ANALYZE found it."""
    found = tx.execute(_ROWS_OF, {"names": [*metadata.tables]})
    return {str(name): int(n) for name, n in found}
