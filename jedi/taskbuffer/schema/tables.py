"""All tables: the hand-written truth. The ten of the JEDI document come from document_tables, the
rest is here.

`migrations/` and `schema/` must agree with this file; CI proves it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jedi.core import states
from jedi.taskbuffer.schema import pgi_views
from jedi.taskbuffer.schema.columns import col, count, key, metadata, stamp, words
from jedi.taskbuffer.schema.document_tables import (
    contents,
    datasets,
    events,
    job_params_template,
    job_retry_history,
    one_of,
    output_template,
    process_lock,
    task_params,
    tasks,
    work_queue,
)

_GEN = "generation.write_jobs"
_MOVE = "jobs.move_jobs"
_REPORT = "dispatch.accept_reports"
_END = "job_ends.end_jobs"
_HOLD = "job_ends.hold jobs.move_jobs one_job.hold one_job.hold_next one_job.release"
_READY = f"{_GEN} {_MOVE} one_job.release"
_TAKEN = "pilots.note_delegation"
_LATER = "not yet written"


def _number(name: str, meaning: str, by: str = "") -> Column[float]:
    return col(name, Double, meaning, by)


# -------------------------------------------------------------------------------------- jobs


def _job_columns() -> list[Column[Any]]:
    """The columns of a job; the archive has the same."""
    return [*_wanted_columns(), *_seen_columns()]


def _job_checks() -> list[CheckConstraint]:
    """What holds for each job, so that it has a PGI state; true of any plain SQL, too."""
    return [CheckConstraint(rule, name=name) for name, rule in pgi_views.CHECKS.items()]


_ZERO = text("0")


def _wanted_columns() -> list[Column[Any]]:
    """What a job is, and what it asks for."""
    return [
        key("pandaid:panda_id", "one attempt", _GEN),
        key("jeditaskid:jedi_task_id", "the task", _GEN),
        key("taskid:req_id", "the request (jedi_tasks.reqid)", _GEN),
        key("originpandaid:origin_panda_id", "the first attempt's id, kept by submitters", _GEN),
        col("unit_nr", Integer, "number of the unit of work within its task", _GEN,
            nullable=False),
        col("attemptnr:attempt_nr", SmallInteger, "attempt", _GEN, nullable=False),
        words("kind", "normal, scout, merge, build, preprocess", _GEN, nullable=False,
              server_default="normal"),
        words("status", "the job's status", f"{_GEN} {_MOVE}", nullable=False),
        words("substatus", "detail of the status", "merging.outcomes"),
        words("prodsourcelabel:prod_source_label", "as the task's", _GEN),
        words("processingtype:processing_type", "as the task's", _GEN),
        words("username:user_name", "as the task's", _GEN),
        words("vo", "as the task's", _GEN),
        words("site", "the site of the job", _GEN, nullable=False),
        words("nucleus", "the nucleus that gets its outputs", _GEN),
        col("workqueue_id", Integer, "as the task's", _GEN, nullable=False,
            server_default=_ZERO),
        words("gshare", "global share", _GEN, nullable=False, server_default=""),
        words("resource_type", "shape", _GEN, nullable=False, server_default=""),
        col("priority", Integer, "larger first", _GEN, nullable=False),
        col("cores", Integer, "cores asked", _GEN, nullable=False),
        col("memory_mb", Integer, "memory asked in MB; 0: no limit", _GEN, nullable=False),
        col("walltime_s", Integer, "wall time asked in seconds; 0: no limit", _GEN,
            nullable=False),
        col("disk_mb", Integer, "disk asked in MB; 0: no limit", _GEN, nullable=False),
        col("n_inputs", Integer, "input files", _GEN, nullable=False, server_default=_ZERO),
        col("n_events", BigInteger, "events to process", _GEN),
    ]  # fmt: skip


def _seen_columns() -> list[Column[Any]]:
    """What becomes of it."""
    return [
        stamp("creationtime:creation_time", "when it was made", _GEN, now=True),
        stamp("statechangetime:state_change_time", "when the status changed", _MOVE, now=True),
        stamp("starttime:start_time", "when the payload started", _REPORT),
        stamp("endtime:end_time", "when the payload ended", _REPORT),
        stamp("heartbeat_at", "last heartbeat of the pilot", _REPORT),
        count("lock_seq", "raised by each dispatch; fences the pilot's writes",
              "dispatch.acquire"),
        words("pilot_id", "the pilot that has it", "dispatch.acquire"),
        words("kill_code", "reason of the kill request", f"jobs.ask_to_kill {_MOVE}"),
        words("pilot_result", "finished, failed or cancelled, as the pilot reported", _REPORT),
        col("exit_code", Integer, "the payload's exit code", _REPORT),
        words("error_source", "pilot, payload, jedi, user", _MOVE),
        words("error_code", "code that can be counted", f"{_REPORT} {_MOVE}"),
        words("error_diag", "sentence for people", f"{_REPORT} {_MOVE}"),
        _number("cpu_s", "cpu seconds of all processes", _REPORT),
        _number("wall_s", "wall seconds of the payload", _REPORT),
        col("max_rss_kb", BigInteger, "peak resident memory of all processes", _REPORT),
        col("max_pss_kb", BigInteger, "peak proportional memory of all processes", _REPORT),
        col("read_bytes", BigInteger, "read from storage", _REPORT),
        col("write_bytes", BigInteger, "written to storage", _REPORT),
        col("workdir_kb", BigInteger, "peak of the work directory", _REPORT),
        col("input_bytes", BigInteger, "size of its inputs", _REPORT),
        col("output_bytes", BigInteger, "size of its outputs", _REPORT),
        words("hold_kind", "PGI hold", _HOLD),
        words("hold_reason", "why it is held", _HOLD),
        stamp("hold_since", "when the hold began", _HOLD),
        stamp("hold_deadline", "when the hold ends by itself", _HOLD),
        words("delegation_kind", "the batch engine it was handed to", _TAKEN),
        words("delegation_queue", "the engine's queue", _TAKEN),
        words("delegation_id", "the engine's job id", _TAKEN),
        stamp("postprocessed_at", "when its results were added", _END),
        stamp("purged_at", "when its outputs were purged", "purging.note_purged"),
        stamp("retention", "its outputs are kept until then",
              "purging.keep_until purging.keep_task_until"),
        col("metadata", JSONB, "metadata that the payload reports", _REPORT),
        words("hold_next", "the hold that begins when the payload succeeds", "one_job.plan_hold"),
    ]  # fmt: skip


_KEPT = text("retention IS NOT NULL AND purged_at IS NULL")

jobs = Table(
    "jedi_jobs",
    metadata,
    *_job_columns(),
    col("moving", Boolean, "its files are on their way: assigned or transferring", "migration",
        server_default=Computed("status = ANY (ARRAY['assigned'::text, 'transferring'::text])",
                                persisted=True)),
    PrimaryKeyConstraint("panda_id"),
    one_of("status", states.JOB.states),
    one_of("substatus", states.JOB_SUBSTATES, "substatus"),
    *_job_checks(),
    # unit_nr: the next unit's number is the task's largest plus one
    Index(None, "jedi_task_id", "unit_nr"),
    Index("jedi_jobs_live_ix", "jedi_task_id",
          postgresql_where=text("postprocessed_at IS NULL")),
    # Not on status: an update of an indexed column can't be HOT.
    Index("jedi_jobs_reported_ix", "panda_id",
          postgresql_where=text("pilot_result IS NOT NULL AND postprocessed_at IS NULL")),
    Index("jedi_jobs_moving_ix", "panda_id", postgresql_where=text("moving")),
    Index(None, "retention", postgresql_where=_KEPT),
    comment="jobs that are alive or not yet archived",
    postgresql_with={"fillfactor": "45"},  # all jobs of a page are moved at once
)  # fmt: skip

jobs_archived = Table(
    "jedi_jobs_archived",
    metadata,
    *_job_columns(),
    PrimaryKeyConstraint("panda_id"),
    *_job_checks(),
    Index(None, "jedi_task_id", "unit_nr"),
    Index(None, "retention", postgresql_where=_KEPT),
    comment="ended jobs, moved here in batches",
)


def _job_file_columns() -> list[Column[Any]]:
    return [
        key("pandaid:panda_id", "the job", _GEN),
        key("fileid:file_id", "the contents row", _GEN),
        key("jeditaskid:jedi_task_id", "the task", _GEN),
        key("datasetid:dataset_id", "the dataset", _GEN),
        words("type", "input, output, log, pseudo_input, ...", _GEN, nullable=False),
        words("lfn", "the logical file name", _GEN, nullable=False),
        words("source_name", "the payload's own name of an output", _GEN),
        words("endpoint", "endpoint of an input or output", _GEN),
        col("fsize", BigInteger, "size in bytes", f"{_GEN} {_REPORT}"),
        words("checksum", "adler32", f"{_GEN} {_REPORT}"),
        words("guid", "GUID", _REPORT),
        col("n_events", BigInteger, "events", _GEN),
        col("start_event", BigInteger, "first event of the range", _GEN),
        col("end_event", BigInteger, "last event of the range", _GEN),
        words(
            "problem",
            "missing or broken: why an input could not be used",
            f"{_REPORT} job_ends.acquit",
        ),
    ]


job_files = Table(
    "jedi_job_files",
    metadata,
    *_job_file_columns(),
    PrimaryKeyConstraint("panda_id", "file_id", "jedi_task_id"),
    comment="the files of each job",
    postgresql_with={"fillfactor": "45"},
)

job_files_archived = Table(
    "jedi_job_files_archived",
    metadata,
    *_job_file_columns(),
    PrimaryKeyConstraint("panda_id", "file_id", "jedi_task_id"),
    comment="the files of archived jobs",
)

for _column in (*jobs_archived.columns, *job_files_archived.columns):
    _column.info["by"] = "archive.archive_jobs"

job_params = Table(
    "jedi_job_params",
    metadata,
    key("pandaid:panda_id", "the job", _GEN),
    words("jobparameters:job_parameters", "the rendered command", _GEN, nullable=False),
    col("texts", JSONB, "files that the job finds, with their text, by name", _GEN),
    PrimaryKeyConstraint("panda_id"),
    comment="the rendered job parameters",
)

job_ready = Table(
    "jedi_job_ready",
    metadata,
    key("pandaid:panda_id", "an activated job", _READY),
    words("site", "as the job's", _READY, nullable=False),
    words("gshare", "as the job's", _READY, nullable=False),
    col("priority", Integer, "as the job's", _READY, nullable=False),
    col("cores", Integer, "as the job's", _READY, nullable=False),
    col("memory_mb", Integer, "as the job's", _READY, nullable=False),
    col("walltime_s", Integer, "as the job's", _READY, nullable=False),
    col("disk_mb", Integer, "as the job's", _READY, nullable=False),
    PrimaryKeyConstraint("panda_id"),
    Index("jedi_job_ready_order_ix", "site", "gshare", text("priority DESC"), "panda_id"),
    comment="the queue of activated jobs: rows are inserted and deleted, never updated",
)

job_tail = Table(
    "jedi_job_tail",
    metadata,
    key("pandaid:panda_id", "the job", "dispatch.store_tails"),
    words("stdout_tail", "last lines of stdout", "dispatch.store_tails"),
    words("stderr_tail", "last lines of stderr", "dispatch.store_tails"),
    stamp("modificationtime:modification_time", "when it was sent", "dispatch.store_tails",
          now=True),
    PrimaryKeyConstraint("panda_id"),
    comment="last output of payloads",
)  # fmt: skip

acquire_requests = Table(
    "jedi_acquire_requests",
    metadata,
    words("request_id", "the pilot's own number of its request", "dispatch.acquire",
          nullable=False),
    words("site", "the pilot's site", "dispatch.acquire", nullable=False),
    col("pandaids:panda_ids", ARRAY(BigInteger), "the jobs handed out", "dispatch.acquire",
        nullable=False),
    stamp("creationtime:creation_time", "when", "dispatch.acquire", now=True),
    PrimaryKeyConstraint("request_id"),
    Index(None, "creation_time"),
    comment="answers given to pilots, so that a repeated request gets the same jobs",
)  # fmt: skip

# -------------------------------------------------------------------------------- status logs


def _log_columns(by: str) -> list[Column[Any]]:
    return [
        col("log_id", BigInteger, "order of the rows", by, autoincrement=True, nullable=False),
        words("fromstatus:from_status", "before; NULL at insertion", by),
        words("status", "after", by, nullable=False),
        stamp("modificationtime:modification_time", "when", by, now=True),
        words("agent", "who", by),
        words("reason_code", "why", by),
        words("reason", "why, for people", by),
    ]


_TASK_LOG = "new_tasks.insert_task tasks.move_tasks"
_DATASET_LOG = "datasets.insert_datasets datasets.move_datasets"

task_log = Table(
    "jedi_tasks_statuslog",
    metadata,
    *_log_columns(_TASK_LOG),
    key("jeditaskid:jedi_task_id", "the task", _TASK_LOG),
    col("attemptnr:attempt_nr", Integer, "the task's attempt", _TASK_LOG),
    words("username:user_name", "the person behind a command", _TASK_LOG),
    PrimaryKeyConstraint("log_id"),
    Index(None, "jedi_task_id"),
    comment="every status a task had",
)

dataset_log = Table(
    "jedi_datasets_statuslog",
    metadata,
    *_log_columns(_DATASET_LOG),
    key("datasetid:dataset_id", "the dataset", _DATASET_LOG),
    key("jeditaskid:jedi_task_id", "the task", _DATASET_LOG),
    PrimaryKeyConstraint("log_id"),
    Index(None, "jedi_task_id"),
    comment="every status a dataset had",
)

job_log = Table(
    "jedi_jobs_statuslog",
    metadata,
    *_log_columns(f"{_GEN} {_MOVE}"),
    key("pandaid:panda_id", "the job", f"{_GEN} {_MOVE}"),
    key("jeditaskid:jedi_task_id", "the task", f"{_GEN} {_MOVE}"),
    PrimaryKeyConstraint("panda_id", "log_id"),
    comment="every status a job had",
)

# --------------------------------------------------------------------------------- statistics


def _stat_key() -> list[Column[Any]]:
    by = "jobs.append_deltas statistics.fold"
    return [
        words("site", "site", by, nullable=False),
        col("workqueue", Integer, "work queue", by, nullable=False),
        words("gshare", "global share", by, nullable=False),
        words("resource_type", "shape", by, nullable=False),
        words("status", "job status", by, nullable=False),
        col("jobs", BigInteger, "number of jobs (a change of it, in deltas)", by, nullable=False),
        col("cores", BigInteger, "their cores (a change of them, in deltas)", by, nullable=False),
    ]


job_stats = Table(
    "job_stats",
    metadata,
    *_stat_key(),
    stamp("modificationtime", "when jobs last came to the status, or left it", "statistics.fold"),
    PrimaryKeyConstraint("site", "workqueue", "gshare", "resource_type", "status"),
    comment="number of jobs by place and status; add job_stats_delta for the present value",
)

job_stats_delta = Table(
    "job_stats_delta",
    metadata,
    col("delta_id", BigInteger, "order of the rows", "jobs.append_deltas", autoincrement=True,
        nullable=False),
    *_stat_key(),
    stamp("modificationtime", "when they came, or left", "jobs.append_deltas", now=True),
    PrimaryKeyConstraint("delta_id"),
    comment="changes not yet folded into job_stats",
)  # fmt: skip

job_stats_hourly = Table(
    "job_stats_hourly",
    metadata,
    stamp("hour", "the hour", "statistics.fold", now=True),
    words("site", "site", "statistics.fold", nullable=False),
    words("gshare", "global share", "statistics.fold", nullable=False),
    words("status", "the status reached", "statistics.fold", nullable=False),
    col("jobs", BigInteger, "jobs that reached it in the hour", "statistics.fold", nullable=False),
    PrimaryKeyConstraint("hour", "site", "gshare", "status"),
    comment="rates by hour",
)

# -------------------------------------------------------------------------------------- sites

_SITES = "sites.put_sites"

sites = Table(
    "jedi_sites",
    metadata,
    words("site", "the site's (queue's) name", _SITES, nullable=False),
    words("status", "online, standby, brokeroff, test, offline, paused", _SITES, nullable=False,
          server_default="online"),
    words("type", "production, analysis or unified", _SITES, nullable=False,
          server_default="unified"),
    words("cloud", "the cloud it belongs to", _SITES, nullable=False, server_default="WORLD"),
    words("tier", "T0, T1, T2, ...", _SITES),
    words("pandasite:panda_site", "the grid site behind the queue", _SITES),
    words("role", "nucleus or satellite", _SITES, nullable=False, server_default="nucleus"),
    words("state", "ACTIVE nuclei take tasks", _SITES, nullable=False, server_default="ACTIVE"),
    words("capability", "ucore: unified over resource types", _SITES),
    col("corecount:core_count", Integer, "cores per slot; 0: 1", _SITES, nullable=False,
        server_default=text("1")),
    col("corepower:core_power", Double, "HS06 per core", _SITES, nullable=False,
        server_default=text("10")),
    col("maxtime:max_time", BigInteger, "longest wall time in s; 0: no limit", _SITES,
        nullable=False, server_default=text("0")),
    col("mintime:min_time", BigInteger, "shortest wall time in s; 0: no limit", _SITES,
        nullable=False, server_default=text("0")),
    col("maxrss:max_rss", BigInteger, "memory of a slot in MB; 0: no limit", _SITES,
        nullable=False, server_default=text("0")),
    col("minrss:min_rss", BigInteger, "least memory in MB; 0: no limit", _SITES,
        nullable=False, server_default=text("0")),
    col("maxwdir:max_wdir", BigInteger, "scratch of a slot in MB; 0: unknown", _SITES,
        nullable=False, server_default=text("0")),
    col("maxinputsize:max_input_size", BigInteger, "MB; -1: always direct I/O", _SITES,
        nullable=False, server_default=text("0")),
    col("nslots:n_slots", Integer, "pilots the submitter may have at once", _SITES,
        nullable=False, server_default=text("0")),
    words("submitter", "engine of pilots: local, slurm, lsf, pbs, htcondor; none: another system "
          "starts them", _SITES, nullable=False, server_default="none"),
    words("fairsharepolicy:fair_share_policy", "zero-share rules", _SITES),
    col("transferringlimit:transferring_limit", Integer, "jobs; 0: 2000", _SITES,
        nullable=False, server_default=text("0")),
    col("pledgedcpu:pledged_cpu", Integer, "cores; -1: opportunistic", _SITES),
    col("transtimehi:trans_time_hi", Integer, "days for transfers of priority >= 800", _SITES,
        nullable=False, server_default=text("1")),
    col("transtimelo:trans_time_lo", Integer, "days for transfers below", _SITES,
        nullable=False, server_default=text("4")),
    col("direct_access_lan", Boolean, "jobs may read inputs over the LAN", _SITES,
        nullable=False, server_default=text("false")),
    col("direct_access_wan", Boolean, "jobs may read inputs over the WAN", _SITES,
        nullable=False, server_default=text("false")),
    col("releases", ARRAY(Text), "software; ANY or AUTO", _SITES),
    words("wnconnectivity:wn_connectivity", "full, http or none, # IPv4 or IPv6", _SITES),
    words("jobseed:job_seed", "std, es, eshigh, all", _SITES, nullable=False,
          server_default="std"),
    _number("max_io_intensity", "kB/s", _SITES),
    _number("maxdiskio:max_disk_io", "kB/s per core", _SITES),
    col("catchall", JSONB, "further attributes", _SITES, nullable=False,
        server_default=text("'{}'")),
    stamp("laststart:last_start", "when a job last started", "dispatch.accept_reports"),
    stamp("lastpilot:last_pilot", "when a pilot or its submitter was last seen",
          "dispatch.acquire dispatch.accept_reports dispatch.beat pilots.serve"),
    words("comment", "the operator's reason for its settings", _SITES),
    stamp("modificationtime:modification_time", "when it was changed", _SITES, now=True),
    words("queue", "the batch system's queue or partition", _SITES),
    col("batch", JSONB, "options of the batch system for pilots", _SITES, nullable=False,
        server_default=text("'{}'")),
    PrimaryKeyConstraint("site"),
    one_of("status", ("online", "standby", "brokeroff", "test", "offline", "paused")),
    comment="sites (queues) of the grid",
)  # fmt: skip

sites_history = Table(
    "jedi_sites_history",
    metadata,
    col("change_id", BigInteger, "order", _SITES, autoincrement=True, nullable=False),
    words("site", "the site", _SITES, nullable=False),
    words("attribute", "the changed attribute", _SITES, nullable=False),
    words("oldvalue:old_value", "before", _SITES),
    words("newvalue:new_value", "after", _SITES),
    words("username:user_name", "who", _SITES),
    words("comment", "why", _SITES),
    stamp("modificationtime:modification_time", "when", _SITES, now=True),
    PrimaryKeyConstraint("change_id"),
    Index(None, "site"),
    comment="changes of sites",
)

_ENDPOINTS = "sites.put_endpoints"

ddm_endpoints = Table(
    "jedi_ddm_endpoints",
    metadata,
    words("ddm_endpoint:endpoint", "the endpoint's name", _ENDPOINTS, nullable=False),
    words("site", "the grid site it belongs to", _ENDPOINTS),
    words("token", "space token", _ENDPOINTS),
    words("type", "DATADISK, DATATAPE, ...", _ENDPOINTS, nullable=False,
          server_default="DATADISK"),
    words("path", "root directory, for file-system endpoints", _ENDPOINTS),
    col("is_tape", Boolean, "tape", _ENDPOINTS, nullable=False, server_default=text("false")),
    _number("space_total", "GB", f"{_ENDPOINTS} sites.note_space"),
    _number("space_free", "GB", f"{_ENDPOINTS} sites.note_space"),
    _number("space_used", "GB", f"{_ENDPOINTS} sites.note_space"),
    _number("space_expired", "GB", _ENDPOINTS),
    _number("space_min_free", "GB", _ENDPOINTS),
    _number("space_unavailable", "GB", _ENDPOINTS),
    stamp("space_timestamp", "when space was measured", f"{_ENDPOINTS} sites.note_space"),
    col("detailed_status", JSONB, "read_lan, write_lan, read_wan, write_wan: ON, OFF, TEST",
        _ENDPOINTS, nullable=False, server_default=text("'{}'")),
    PrimaryKeyConstraint("endpoint"),
    comment="storage",
)  # fmt: skip

site_endpoints = Table(
    "jedi_site_endpoints",
    metadata,
    words("site", "the site", _ENDPOINTS, nullable=False),
    words("ddm_endpoint:endpoint", "the endpoint", _ENDPOINTS, nullable=False),
    words("scope", "production or analysis", _ENDPOINTS, nullable=False,
          server_default="default"),
    col("is_local", Boolean, "on the site's LAN", _ENDPOINTS, nullable=False,
        server_default=text("true")),
    words("roles", "read, write", _ENDPOINTS, nullable=False, server_default="read,write"),
    col("order_read", Integer, "smaller first", _ENDPOINTS, nullable=False,
        server_default=text("1")),
    col("order_write", Integer, "smaller first", _ENDPOINTS, nullable=False,
        server_default=text("1")),
    col("default_read", Boolean, "first choice", _ENDPOINTS, nullable=False,
        server_default=text("true")),
    col("default_write", Boolean, "first choice", _ENDPOINTS, nullable=False,
        server_default=text("true")),
    PrimaryKeyConstraint("site", "endpoint", "scope"),
    comment="storage of each site",
)  # fmt: skip

_NETWORK = "sites.put_links"

network_matrix = Table(
    "jedi_network_matrix",
    metadata,
    words("src", "source", _NETWORK, nullable=False),
    words("dst", "destination", _NETWORK, nullable=False),
    words("key", "closeness, production_queued, express_queued, mbps_1h, mbps_1d, mbps_1w",
          _NETWORK, nullable=False),
    _number("value", "value; speeds in MB/s", _NETWORK),
    stamp("ts", "when it was measured", _NETWORK, now=True),
    PrimaryKeyConstraint("src", "dst", "key"),
    Index(None, "key", "dst"),
    comment="links between places",
)  # fmt: skip

_METRICS = "pilots.note_trouble statistics.note_disk_io"

site_metrics = Table(
    "jedi_site_metrics",
    metadata,
    words("site", "the site", _METRICS, nullable=False),
    words("gshare", "global share; empty: all", _METRICS, nullable=False,
          server_default=""),
    words("metric", "name", _METRICS, nullable=False),
    col("value", JSONB, "value", _METRICS),
    stamp("ts", "when", _METRICS, now=True),
    PrimaryKeyConstraint("site", "gshare", "metric"),
    comment="measurements of sites",
)  # fmt: skip

resource_types = Table(
    "jedi_resource_types",
    metadata,
    words("resource_type", "name", "migration", nullable=False),
    col("mincore:min_core", Integer, "least cores", "migration"),
    col("maxcore:max_core", Integer, "most cores", "migration"),
    col("minrampercore:min_ram_per_core", Integer, "MB, exclusive", "migration"),
    col("maxrampercore:max_ram_per_core", Integer, "MB, inclusive", "migration"),
    PrimaryKeyConstraint("resource_type"),
    comment="shapes of jobs; the first that matches wins",
)

_SHARES = "shares.put"

queue_shares = Table(
    "jedi_queue_shares",
    metadata,
    col("queue_id", Integer, "the work queue", _SHARES, nullable=False, autoincrement=False),
    col("active", Boolean, "it has tasks or jobs", _SHARES, nullable=False),
    _number("entitlement", "cores by its share alone; NULL: outside the shares", _SHARES),
    _number("allocation", "cores that it may use now", _SHARES),
    _number("usage", "cores of its jobs at sites", _SHARES),
    _number("demand", "cores that it could use", _SHARES),
    _number("ratio", "usage by allocation; NULL where nothing is allocated", _SHARES),
    col("place", Integer, "its place when jobs are dispatched", _SHARES, nullable=False),
    col("turn", Integer, "its place when jobs are made: that of its partition", _SHARES,
        nullable=False),
    stamp("computed_at", "when", _SHARES, now=True),
    PrimaryKeyConstraint("queue_id"),
    comment="use of shares by work queues, as last computed",
)  # fmt: skip

# ----------------------------------------------------------------------- operation and access

knobs = Table(
    "jedi_knobs",
    metadata,
    words("component", "the part of the system", "knobs.put", nullable=False),
    words("key", "the knob", "knobs.put", nullable=False),
    col("value", JSONB, "the value in force instead of the preset's", "knobs.put",
        nullable=False),
    words("username:user_name", "the user who set it", "knobs.put"),
    stamp("modificationtime:modification_time", "when", "knobs.put", now=True),
    PrimaryKeyConstraint("component", "key"),
    comment="settings that differ from the preset; the preset is knob core.preset",
)  # fmt: skip

knobs_history = Table(
    "jedi_knobs_history",
    metadata,
    col("change_id", BigInteger, "order", "knobs.put", autoincrement=True, nullable=False),
    words("component", "component", "knobs.put", nullable=False),
    words("key", "knob", "knobs.put", nullable=False),
    col("value", JSONB, "new value; NULL: back to the preset", "knobs.put"),
    words("username:user_name", "who", "knobs.put"),
    stamp("modificationtime:modification_time", "when", "knobs.put", now=True),
    PrimaryKeyConstraint("change_id"),
    comment="changes of knobs",
)

commands = Table(
    "jedi_commands",
    metadata,
    col("command_id", BigInteger, "order", "commands.append", autoincrement=True, nullable=False),
    key("jeditaskid:jedi_task_id", "the task", "commands.append"),
    words("command", "kill, finish, retry, ...", "commands.append", nullable=False),
    col("arguments", JSONB, "the command's arguments", "commands.append", nullable=False,
        server_default=text("'{}'")),
    words("username:user_name", "the user who commanded", "commands.append", nullable=False),
    words("comment", "why", "commands.append"),
    stamp("creationtime:creation_time", "when", "commands.append", now=True),
    stamp("acknowledged_at", "when it was taken up; NULL: not yet", "commands.acknowledge"),
    words("outcome", "accepted or refused", "commands.acknowledge"),
    words("message", "the outcome, for people", "commands.acknowledge"),
    stamp("retry_at", "when it is tried again; NULL: at once", "commands.try_later"),
    PrimaryKeyConstraint("command_id"),
    Index(None, "jedi_task_id"),
    Index("jedi_commands_open_ix", "command_id",
          postgresql_where=text("acknowledged_at IS NULL")),
    comment="commands to tasks: rows are only added and acknowledged",
)  # fmt: skip

_LOST = "recovery.undo validation.lose_logs"

lost_files = Table(
    "jedi_lost_files",
    metadata,
    key("jeditaskid:jedi_task_id", "the task that made it", _LOST),
    key("fileid:file_id", "its contents row", _LOST),
    words("datasetname:dataset_name", "the output dataset", _LOST, nullable=False),
    words("lfn", "the logical file name", _LOST, nullable=False),
    stamp("creationtime:creation_time", "when the loss was recorded", _LOST, now=True),
    stamp("removed_at", "when it was removed from data management, if it was there; NULL: not yet",
          "recovery.note_removed validation.lose_logs"),
    PrimaryKeyConstraint("jedi_task_id", "file_id"),
    Index(None, "dataset_name"),
    comment="lost outputs, which are made again under another name, and lost logs",
)  # fmt: skip

_RULES = "retry_rules.put"

retry_rules = Table(
    "jedi_retry_rules",
    metadata,
    col("rule_id", Integer, "order and name", _RULES, nullable=False, autoincrement=False),
    col("active", Boolean, "false: matches are only recorded", _RULES, nullable=False),
    words("error_source", "of the jobs that it concerns; NULL, here and below: any", _RULES),
    words("error_code", "theirs", _RULES),
    col("exit_code", Integer, "theirs", _RULES),
    words("message", "regular expression found in their error_diag", _RULES),
    words("site", "theirs", _RULES),
    col("queue_id", Integer, "their work queue", _RULES),
    words("label", "their prodSourceLabel", _RULES),
    words("architecture", "their task's", _RULES),
    words("release", "their task's transUses", _RULES),
    words("action", "no_retry, limit_retry, increase_memory, ...", _RULES, nullable=False),
    col("attempts", Integer, "limit_retry: attempts of an input", _RULES),
    words("description", "for people", _RULES),
    words("username:user_name", "the user who wrote the rule", _RULES),
    stamp("modificationtime:modification_time", "when", _RULES, now=True),
    PrimaryKeyConstraint("rule_id"),
    CheckConstraint("message IS NULL OR length(message) <= 256 AND ('' ~ message) IS NOT NULL",
                    name="message"),
    comment="effects of jobs' errors besides another attempt",
)  # fmt: skip

_MATCH = "retry_rules.obey"

retry_matches = Table(
    "jedi_retry_matches",
    metadata,
    key("pandaid:panda_id", "the failed job", _MATCH),
    col("rule_id", Integer, "the rule that concerns it", _MATCH, nullable=False),
    key("jeditaskid:jedi_task_id", "the task", _MATCH),
    words("effect", "the effect, for people", _MATCH, nullable=False),
    stamp("creationtime:creation_time", "when", _MATCH, now=True),
    stamp("settled_at", "when the task was changed, if it had to be; NULL: not yet",
          "retry_rules.causes"),
    PrimaryKeyConstraint("panda_id", "rule_id"),
    Index("jedi_retry_matches_open_ix", "jedi_task_id",
          postgresql_where=text("settled_at IS NULL")),
    comment="retry rules that concerned failed jobs",
)  # fmt: skip

snapshots = Table(
    "jedi_snapshots",
    metadata,
    words("snapshot_hash", "sha256 of the data", "decisions.put_snapshot", nullable=False),
    col("data", LargeBinary, "the world as the broker saw it, compressed JSON",
        "decisions.put_snapshot", nullable=False),
    stamp("creationtime:creation_time", "when", "decisions.put_snapshot", now=True),
    PrimaryKeyConstraint("snapshot_hash"),
    comment="snapshots of brokers, shared by decisions",
)  # fmt: skip

broker_decisions = Table(
    "jedi_broker_decisions",
    metadata,
    col("decision_id", BigInteger, "order", "decisions.record", autoincrement=True,
        nullable=False),
    key("jeditaskid:jedi_task_id", "the task", "decisions.record"),
    words("broker", "nucleus, production, analysis, generic", "decisions.record", nullable=False),
    words("snapshot_hash", "hash of the broker's snapshot", "decisions.record"),
    col("seed", BigInteger, "seed of the lottery", "decisions.record", nullable=False),
    col("knobs", JSONB, "the knobs it used", "decisions.record", nullable=False),
    words("outcome", "chosen, none, ...", "decisions.record", nullable=False),
    col("chosen", ARRAY(Text), "the sites, best first", "decisions.record",
        nullable=False),
    col("weights", ARRAY(Double), "their weights", "decisions.record", nullable=False),
    col("need", JSONB, "requirements of the task", "decisions.record", nullable=False),
    stamp("creationtime:creation_time", "when", "decisions.record", now=True),
    col("used", ARRAY(Text), "the sites that the task had jobs at", "decisions.record",
        nullable=False, server_default=text("'{}'::text[]")),
    PrimaryKeyConstraint("decision_id"),
    Index(None, "jedi_task_id", "decision_id"),
    Index(None, "creation_time"),
    Index(None, "snapshot_hash"),
    comment="decisions of brokers",
)  # fmt: skip

broker_reasons = Table(
    "jedi_broker_reasons",
    metadata,
    key("decision_id", "the decision", "decisions.record"),
    words("site", "a site that was refused", "decisions.record", nullable=False),
    col("codes", ARRAY(Text), "every reason", "decisions.record", nullable=False),
    col("observed", ARRAY(Double), "observed values, by reason", "decisions.record",
        nullable=False),
    col("limits", ARRAY(Double), "the limits, by reason", "decisions.record", nullable=False),
    PrimaryKeyConstraint("decision_id", "site"),
    comment="refused sites of decisions, with reasons",
)  # fmt: skip

users = Table(
    "jedi_users",
    metadata,
    words("username:user_name", "the user", "users.put_user", nullable=False),
    words(
        "role",
        "user, production or operator",
        "users.put_user",
        nullable=False,
        server_default="user",
    ),
    words("gridpref", "letters k, p, s, g", "users.put_user", nullable=False, server_default=""),
    words("email", "address for mail about tasks", "users.put_notices"),
    stamp("creationtime:creation_time", "when", "users.put_user", now=True),
    col(
        "cap_running_jobs",
        Integer,
        "most running analysis jobs; NULL: as the knob says, 0: no limit",
        "users.put_user",
    ),
    words("webhook", "URL for messages about tasks", "users.put_notices"),
    words("webhook_secret", "signs them", "users.put_notices"),
    words(
        "notices",
        "tasks: notices of tasks; jobs: also of jobs",
        "users.put_notices",
        nullable=False,
        server_default="tasks",
    ),
    PrimaryKeyConstraint("user_name"),
    one_of("role", ("user", "production", "operator"), "role"),
    one_of("notices", ("tasks", "jobs"), "notices"),
    comment="users and their permissions",
)

_TOKEN = "users.put_token pilots.insert_pilots"

tokens = Table(
    "jedi_tokens",
    metadata,
    words("token_hash", "sha256 of the token", _TOKEN, nullable=False),
    words("kind", "pilot or user", _TOKEN, nullable=False),
    words("site", "the pilot's site", _TOKEN),
    words("username:user_name", "the user", "users.put_token"),
    stamp("creationtime:creation_time", "when", _TOKEN, now=True),
    stamp("expires_at", "until when", f"{_TOKEN} pilots.renew_tokens"),
    stamp("revoked_at", "taken back", "users.revoke_token pilots.end_pilots"),
    PrimaryKeyConstraint("token_hash"),
    comment="tokens for the service",
)

pilots = Table(
    "jedi_pilots",
    metadata,
    words("pilot_id", "the pilot", "pilots.insert_pilots", nullable=False),
    words("site", "its site", "pilots.insert_pilots", nullable=False),
    words("host", "host of the submitter that sent it", "pilots.insert_pilots", nullable=False),
    col("pid", Integer, "process id, if it is local", "pilots.note_found"),
    col("process_start", BigInteger, "start time of the process in clock ticks",
        "pilots.note_found"),
    words("token_hash", "its token", "pilots.insert_pilots"),
    words("status", "submitted, running, ended, lost", "pilots.note_found pilots.end_pilots",
          nullable=False),
    stamp("creationtime:creation_time", "when", "pilots.insert_pilots", now=True),
    stamp("endtime:end_time", "when it ended", "pilots.end_pilots"),
    words("engine", "engine: local, slurm, ...", "pilots.insert_pilots", nullable=False,
          server_default="local"),
    words("batch_id", "the batch system's id of it", "pilots.note_found"),
    words("resource_type", "the shape of its slot; empty: a whole slot", "pilots.insert_pilots",
          nullable=False, server_default=""),
    PrimaryKeyConstraint("pilot_id"),
    Index("jedi_pilots_live_ix", "site", postgresql_where=text("endtime IS NULL")),
    comment="pilots that the submitter started",
)  # fmt: skip

agents = Table(
    "jedi_agents",
    metadata,
    words("agent", "name of the agent", "agents.beat", nullable=False),
    words("process", "host, pid and a number", "agents.beat", nullable=False),
    stamp("starttime:start_time", "when it started", "agents.beat", now=True),
    stamp("heartbeat_at", "last heartbeat, in real time", "agents.beat"),
    count("cycles", "cycles so far", "agents.beat"),
    count("items", "items worked on so far", "agents.beat"),
    words("last_error", "the last error of its loop", "agents.beat"),
    col("rss_kb", BigInteger, "resident memory", "agents.beat"),
    PrimaryKeyConstraint("agent", "process"),
    comment="heartbeats of agents",
)

_TELL = "outbox.tell_jobs outbox.tell_tasks"

outbox = Table(
    "jedi_outbox",
    metadata,
    col("message_id", BigInteger, "order", _TELL, autoincrement=True, nullable=False),
    words("topic", "subject; a user gets one message of each by each channel", _TELL,
          nullable=False),
    col("payload", JSONB, "the message", _TELL, nullable=False),
    col("urgent", Boolean, "urgent", _TELL, nullable=False,
        server_default=text("false")),
    stamp("creationtime:creation_time", "when", _TELL, now=True),
    stamp("sent_at", "when it was delivered", "outbox.note"),
    col("attempts", Integer, "deliveries tried", "outbox.claim", nullable=False,
        server_default=text("0")),
    words("username:user_name", "the recipient", _TELL),
    words("channel", "mail or webhook", _TELL),
    stamp("next_try_at", "not tried again before; NULL: not tried yet", "outbox.claim"),
    words("error", "error of the last delivery", "outbox.note"),
    PrimaryKeyConstraint("message_id"),
    UniqueConstraint("topic", "user_name", "channel"),
    Index("jedi_outbox_open_ix", "message_id", postgresql_where=text("sent_at IS NULL")),
    comment="notifications, written with the change and delivered later",
)  # fmt: skip

sandboxes = Table(
    "jedi_sandboxes",
    metadata,
    words("sha256", "sha256 of the archive", "new_tasks.put_sandbox", nullable=False),
    col(
        "data",
        LargeBinary,
        "a tar.gz whose members were checked",
        "new_tasks.put_sandbox",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "when", "new_tasks.put_sandbox", now=True),
    PrimaryKeyConstraint("sha256"),
    comment="input sandboxes, stored once",
)

# ---------------------------------------------------------------------------- data catalogue
# Foreign keys, unlike elsewhere: rows go with what they belong to, whoever races with whom. They
# cost 17 microseconds a file, little beside what is done with its bytes.

_PUBLISH = "catalogue.put_files"

ddm_datasets = Table(
    "ddm_datasets",
    metadata,
    col("dataset_id", BigInteger, "order", "catalogue.put_dataset", autoincrement=True,
        nullable=False),
    words("name", "scope:name", "catalogue.put_dataset", nullable=False),
    words("state", "open: more files may come; closed", "catalogue.put_dataset catalogue.close",
          nullable=False),
    col("is_container", Boolean, "it holds datasets, not files", "catalogue.put_dataset",
        nullable=False),
    stamp("creationtime:creation_time", "when it was made", "catalogue.put_dataset", now=True),
    PrimaryKeyConstraint("dataset_id"),
    UniqueConstraint("name"),
    one_of("state", ("open", "closed"), "state"),
    comment="datasets and containers of the SQL catalogue",
)  # fmt: skip

ddm_members = Table(
    "ddm_members",
    metadata,
    key("container_id", "the container", "catalogue.add_members"),
    words("member", "scope:name of a dataset in it", "catalogue.add_members", nullable=False),
    col("position", Integer, "order", "catalogue.add_members", nullable=False),
    PrimaryKeyConstraint("container_id", "member"),
    ForeignKeyConstraint(["container_id"], ["ddm_datasets.dataset_id"], ondelete="CASCADE"),
    comment="members of containers",
)

ddm_files = Table(
    "ddm_files",
    metadata,
    col("file_id", BigInteger, "order", _PUBLISH, autoincrement=True, nullable=False),
    key("dataset_id", "its dataset", _PUBLISH),
    words("lfn", "its name, which its dataset has once", _PUBLISH, nullable=False),
    col("size", BigInteger, "bytes", _PUBLISH, nullable=False),
    words("adler32", "8 lower-case hex digits", _PUBLISH, nullable=False),
    words("guid", "globally unique identifier", _PUBLISH, nullable=False),
    col("nevents", BigInteger, "events in it, if known", f"{_PUBLISH} catalogue.note_events"),
    col("boundary", BigInteger, "files with the same one belong together", _PUBLISH),
    col("lumiblock", Integer, "the lumi block of its events", _PUBLISH),
    PrimaryKeyConstraint("file_id"),
    UniqueConstraint("dataset_id", "lfn"),
    ForeignKeyConstraint(["dataset_id"], ["ddm_datasets.dataset_id"], ondelete="CASCADE"),
    comment="files of datasets",
)

ddm_replicas = Table(
    "ddm_replicas",
    metadata,
    key("file_id", "the file", _PUBLISH),
    words("endpoint", "endpoint of the replica", _PUBLISH, nullable=False),
    stamp("expires_at", "until when a copy stays; empty: for good", _PUBLISH),
    PrimaryKeyConstraint("file_id", "endpoint"),
    ForeignKeyConstraint(["file_id"], ["ddm_files.file_id"], ondelete="CASCADE"),
    Index(None, "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    comment="replicas of files",
)

__all__ = [
    "acquire_requests",
    "agents",
    "broker_decisions",
    "broker_reasons",
    "commands",
    "contents",
    "dataset_log",
    "datasets",
    "ddm_datasets",
    "ddm_endpoints",
    "ddm_files",
    "ddm_members",
    "ddm_replicas",
    "events",
    "job_files",
    "job_files_archived",
    "job_log",
    "job_params",
    "job_params_template",
    "job_ready",
    "job_retry_history",
    "job_stats",
    "job_stats_delta",
    "job_stats_hourly",
    "job_tail",
    "jobs",
    "jobs_archived",
    "knobs",
    "knobs_history",
    "metadata",
    "network_matrix",
    "outbox",
    "output_template",
    "pilots",
    "process_lock",
    "queue_shares",
    "resource_types",
    "retry_matches",
    "retry_rules",
    "sandboxes",
    "site_endpoints",
    "site_metrics",
    "sites",
    "sites_history",
    "snapshots",
    "task_log",
    "task_params",
    "tasks",
    "tokens",
    "users",
    "work_queue",
]  # fmt: skip
