"""The clock, the sequences and all tables of the first release."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None

STAMP = sa.DateTime(timezone=True)

CLOCK = """
CREATE OR REPLACE FUNCTION jedi_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('jedi.now', true), '')::timestamptz, now()) $$
"""

SEQUENCES = {
    "jedi_dataset_id_seq": 1,
    "jedi_file_id_seq": 1000,
    "jedi_out_temp_id_seq": 1,
    "jedi_panda_id_seq": 1,
    "jedi_task_id_seq": 1,
}
"""Names, and how many numbers a session draws at once."""

TABLES = """
    jedi_tasks jedi_taskparams jedi_jobparams_template
    jedi_datasets jedi_dataset_contents jedi_output_template jedi_events
    jedi_work_queue jedi_process_lock jedi_resource_types
    jedi_jobs jedi_jobs_archived
    jedi_job_files jedi_job_files_archived jedi_job_params jedi_job_ready jedi_job_tail
    jedi_job_retry_history jedi_acquire_requests
    jedi_tasks_statuslog jedi_datasets_statuslog jedi_jobs_statuslog
    job_stats job_stats_delta job_stats_hourly
    jedi_sites jedi_sites_history jedi_ddm_endpoints jedi_site_endpoints jedi_network_matrix
    jedi_site_metrics jedi_pilots
    jedi_snapshots jedi_broker_decisions jedi_broker_reasons
    jedi_knobs jedi_knobs_history jedi_commands jedi_users jedi_tokens jedi_agents jedi_outbox
    jedi_sandboxes
    ddm_replicas ddm_files ddm_members ddm_datasets
"""

RESOURCE_TYPES = """
INSERT INTO jedi_resource_types (resource_type, mincore, maxcore, minrampercore, maxrampercore)
VALUES ('SCORE', 1, 1, NULL, 2000), ('MCORE', 2, NULL, NULL, 2000),
       ('SCORE_HIMEM', 1, 1, 2000, NULL), ('MCORE_HIMEM', 2, NULL, 2000, NULL)
"""


def upgrade() -> None:
    op.execute(CLOCK)
    for name, cache in SEQUENCES.items():
        op.execute(f"CREATE SEQUENCE {name} CACHE {cache}")
    tasks()
    files()
    queues()
    jobs()
    job_details()
    logs()
    statistics()
    sites()
    decisions()
    operation()
    catalogue()
    op.execute(RESOURCE_TYPES)


def downgrade() -> None:
    for name in TABLES.split():
        op.drop_table(name)
    for name in SEQUENCES:
        op.execute(f"DROP SEQUENCE {name}")
    op.execute("DROP FUNCTION jedi_now()")


def table(name: str, meaning: str, primary_key: str, *items: Any, **options: Any) -> None:
    key = sa.PrimaryKeyConstraint(*primary_key.split(), name=op.f(f"{name}_pk"))
    op.create_table(name, *items, key, comment=meaning, **options)


def may(name: str, kind: Any, meaning: str, default: str | None = None) -> sa.Column[Any]:
    server_default = None if default is None else sa.text(default)
    return sa.Column(
        name, kind, server_default=server_default, comment=meaning, autoincrement=False
    )


def must(name: str, kind: Any, meaning: str, default: str | None = None) -> sa.Column[Any]:
    column = may(name, kind, meaning, default)
    column.nullable = False
    return column


def serial(name: str, meaning: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, autoincrement=True, comment=meaning)


def one_of(name: str, column: str, words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words.split())
    return sa.CheckConstraint(f"{column} IN ({listed})", name=op.f(name))


def unique(name: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(name))


def belongs(name: str, column: str, owner: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [owner], name=op.f(name), ondelete="CASCADE")


def tasks() -> None:
    table(
        "jedi_tasks",
        "all production and analysis tasks",
        "jeditaskid",
        must(
            "jeditaskid",
            sa.BigInteger,
            "the task's identifier, from a sequence",
            default="nextval('jedi_task_id_seq')",
        ),
        must("creationdate", STAMP, "when the record was inserted", default="jedi_now()"),
        must("modificationtime", STAMP, "when the record was updated", default="jedi_now()"),
        may("starttime", STAMP, "when the task got started"),
        may("endtime", STAMP, "when the task reached a final status"),
        may("frozentime", STAMP, "when the task was first put on hold"),
        may("prodsourcelabel", sa.Text, "managed, user, prod_test, ..."),
        may("taskname", sa.Text, "the task's name"),
        may("username", sa.Text, "the user who owns the task"),
        may("workinggroup", sa.Text, "the working group that owns the task"),
        may("vo", sa.Text, "the virtual organisation that owns the task"),
        may("corecount", sa.Integer, "cores per job; 0 if it can vary"),
        may("tasktype", sa.Text, "prod or anal"),
        may("processingtype", sa.Text, "the type of the process"),
        may("taskpriority", sa.Integer, "the assigned priority"),
        may("currentpriority", sa.Integer, "the present priority"),
        must("status", sa.Text, "the task's status"),
        may("oldstatus", sa.Text, "the status before the present one"),
        may("architecture", sa.Text, "the architecture on which the task runs"),
        may("transuses", sa.Text, "the software release"),
        may("transhome", sa.Text, "the software cache of the transformation"),
        may("transpath", sa.Text, "the transformation"),
        may("lockedby", sa.Text, "the process that takes care of the record"),
        may("lockedtime", STAMP, "when the record was locked"),
        may("termcondition", sa.Text, "termination condition of the task"),
        may("splitrule", sa.Text, "rules for splitting as two-letter codes, rendered from rules"),
        may("walltime", sa.BigInteger, "walltime per MB of input, measured by scouts"),
        may("walltimeunit", sa.Text, "unit of walltime"),
        may("outdiskcount", sa.BigInteger, "output size per MB of input or per event"),
        may("outdiskunit", sa.Text, "unit of outdiskcount"),
        may("workdiskcount", sa.BigInteger, "size of the work directory"),
        may("workdiskunit", sa.Text, "unit of workdiskcount"),
        may("ramcount", sa.BigInteger, "memory asked or measured"),
        may("ramunit", sa.Text, "MB, MBPerCore or MBPerCoreFixed"),
        may("iointensity", sa.BigInteger, "(input+output)/walltime/cores"),
        may("iointensityunit", sa.Text, "kBPerS"),
        may("workqueue_id", sa.Integer, "the work queue of the task"),
        may("progress", sa.SmallInteger, "completion in percent"),
        may("failurerate", sa.SmallInteger, "job failures in percent"),
        may("errordialog", sa.Text, "the diagnosis for people"),
        may("cloud", sa.Text, "the cloud where the task is assigned"),
        may("site", sa.Text, "the site where the task is assigned; NULL: brokerage"),
        must("reqid", sa.BigInteger, "the request's identifier; the task's own if none"),
        may("countrygroup", sa.Text, "the user's country group"),
        may("parent_tid", sa.BigInteger, "the parent task; the task itself if none"),
        may("eventservice", sa.SmallInteger, "1 if the task uses the event service"),
        may("ticketid", sa.Text, "ticket to keep track of the task"),
        may("ticketsystemtype", sa.Text, "the ticket system"),
        may("statechangetime", STAMP, "when the status changed"),
        may("superstatus", sa.Text, "the status as the requesting system sees it"),
        may("campaign", sa.Text, "the campaign"),
        may("mergeramcount", sa.BigInteger, "memory of merge jobs"),
        may("mergeramunit", sa.Text, "unit of mergeramcount"),
        may("mergewalltime", sa.BigInteger, "walltime of merge jobs"),
        may("mergewalltimeunit", sa.Text, "unit of mergewalltime"),
        may("throttledtime", STAMP, "when the task's throttling ends"),
        may("numthrottled", sa.SmallInteger, "how often the task was throttled"),
        may("mergecorecount", sa.Integer, "cores per merge job"),
        may("goal", sa.SmallInteger, "goal in percent multiplied by 10"),
        may("assessmenttime", STAMP, "when statistics were updated"),
        may("cputime", sa.BigInteger, "HS06 seconds per event"),
        may("cputimeunit", sa.Text, "HS06sPerEvent or mHS06sPerEvent"),
        may("cpuefficiency", sa.SmallInteger, "single core efficiency in percent"),
        may("basewalltime", sa.Integer, "offset of the walltime in seconds"),
        may("amiflag", sa.Text, "READY when the task is done or finished"),
        may("nucleus", sa.Text, "the site that collects the outputs"),
        may("baseramcount", sa.BigInteger, "memory in MB that does not scale with cores"),
        may("rescuetime", STAMP, "when a rescue process checked the task"),
        may("requesttype", sa.Text, "type of the request"),
        may("usejumbo", sa.Text, "Y when using jumbo jobs"),
        may("diskio", sa.BigInteger, "(read+written)/walltime of scouts"),
        may("diskiounit", sa.Text, "kBPerS"),
        may("gshare", sa.Text, "the global share of the task's jobs"),
        may("resource_type", sa.Text, "the shape of the task's jobs"),
        may("rules", JSONB, "the typed split rules"),
        must("attemptnr", sa.Integer, "the task's attempt, raised by retry", default="1"),
        may("reason_code", sa.Text, "why the task is where it is"),
        may("reason_facts", JSONB, "the facts behind reason_code"),
        may("next_run_at", STAMP, "no agent looks at the task before"),
        must(
            "lock_seq",
            sa.BigInteger,
            "raised by each claim; fences the claimant's writes",
            default="0",
        ),
        may("lease_until", STAMP, "the claim ends here, in real time"),
        must(
            "worker_deaths",
            sa.SmallInteger,
            "claims in a row whose worker did not come back",
            default="0",
        ),
        may("idempotency_key", sa.Text, "the submitter's key: a repeat gives the same task"),
        may("split_at", STAMP, "when the first job was made"),
        may("origin_pandaid", sa.BigInteger, "the id a submitter got at once (DIRAC RFC #15)"),
        one_of(
            "jedi_tasks_status_ck",
            "status",
            "registered defined assigning ready pending scouting scouted running prepared "
            "done failed finished aborting toabort aborted finishing topreprocess "
            "preprocessing tobroken broken toretry toincexec rerefine paused throttled "
            "exhausted passed staging staged toreassign reassigning",
        ),
        sa.UniqueConstraint("username", "idempotency_key", name=op.f("jedi_tasks_username_uq")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(
        op.f("jedi_tasks_locked_ix"),
        "jedi_tasks",
        ["lockedtime"],
        postgresql_where=sa.text("lockedby IS NOT NULL"),
    )
    op.create_index(op.f("jedi_tasks_parent_tid_ix"), "jedi_tasks", ["parent_tid"])
    op.create_index(
        op.f("jedi_tasks_status_jeditaskid_ix"),
        "jedi_tasks",
        ["status", sa.text("currentpriority DESC"), "jeditaskid"],
    )
    op.create_index(op.f("jedi_tasks_taskname_ix"), "jedi_tasks", ["taskname"])
    op.create_index(op.f("jedi_tasks_username_taskname_ix"), "jedi_tasks", ["username", "taskname"])
    table(
        "jedi_taskparams",
        "the parameters of each task",
        "jeditaskid",
        must("jeditaskid", sa.BigInteger, "the task"),
        may("taskparams", JSONB, "the task's parameters"),
        may("source_text", sa.Text, "what was submitted, byte for byte"),
        may("source_format", sa.Text, "json or yaml"),
        may("sandbox_sha256", sa.Text, "the task's sandbox"),
    )
    table(
        "jedi_jobparams_template",
        "how the job parameters of each task are made",
        "jeditaskid",
        must("jeditaskid", sa.BigInteger, "the task"),
        may("jobparamstemplate", sa.Text, "how job parameters are made"),
    )


def files() -> None:
    table(
        "jedi_datasets",
        "datasets and their relations with tasks",
        "datasetid jeditaskid",
        must(
            "datasetid",
            sa.BigInteger,
            "the dataset's identifier, from a sequence",
            default="nextval('jedi_dataset_id_seq')",
        ),
        must("datasetname", sa.Text, "scope:name"),
        may("containername", sa.Text, "the container it came from"),
        must("jeditaskid", sa.BigInteger, "the task"),
        may("masterid", sa.BigInteger, "the master of a secondary dataset"),
        may("provenanceid", sa.BigInteger, "the input an output belongs to"),
        may("state", sa.Text, "open or closed in data management, when last looked up"),
        may("statechecktime", STAMP, "when the state was looked up"),
        may("statecheckexpiration", STAMP, "look-ups end here; NULL: none needed"),
        must("nfiles", sa.BigInteger, "files in the dataset", default="0"),
        must("nfilestobeused", sa.BigInteger, "files released for jobs", default="0"),
        must("nfilesused", sa.BigInteger, "files in jobs or through with them", default="0"),
        must("nfilesfinished", sa.BigInteger, "files finished", default="0"),
        must("nfilesfailed", sa.BigInteger, "files failed for good", default="0"),
        must("nfilesonhold", sa.BigInteger, "files on hold", default="0"),
        may("nevents", sa.BigInteger, "events in the dataset; NULL unless needed"),
        may("neventstobeused", sa.BigInteger, "events released"),
        may("neventsused", sa.BigInteger, "events finished"),
        must("status", sa.Text, "how the dataset is being used"),
        must("creationtime", STAMP, "when the record was inserted", default="jedi_now()"),
        must("modificationtime", STAMP, "when the record was updated", default="jedi_now()"),
        may("frozentime", STAMP, "when the dataset was frozen"),
        must("type", sa.Text, "input, output, log, pseudo_input, random_seed, ..."),
        may("vo", sa.Text, "the virtual organisation"),
        may("cloud", sa.Text, "the cloud whose replica is used"),
        may("site", sa.Text, "the site whose replica is used"),
        may("lockedby", sa.Text, "the process that takes care of the record"),
        may("lockedtime", STAMP, "when the record was locked"),
        may("attributes", sa.Text, "how the dataset is split: ratio, nosplit, repeat, ..."),
        may("streamname", sa.Text, "its placeholder in the job parameters"),
        may("storagetoken", sa.Text, "where files are while the task runs"),
        may("destination", sa.Text, "the endpoint where outputs go"),
        may("templateid", sa.BigInteger, "the template dataset it came from"),
        must("nfileswaiting", sa.BigInteger, "files waiting for real co-jumbo jobs", default="0"),
        must("nfilesmissing", sa.BigInteger, "files lost, missing or broken", default="0"),
        one_of(
            "jedi_datasets_status_ck",
            "status",
            "defined toupdate pending broken ready running done finished failed removed prepared",
        ),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        op.f("jedi_datasets_container_ix"),
        "jedi_datasets",
        ["containername", "type"],
        postgresql_where=sa.text("containername IS NOT NULL"),
    )
    op.create_index(
        op.f("jedi_datasets_datasetname_type_ix"), "jedi_datasets", ["datasetname", "type"]
    )
    op.create_index(op.f("jedi_datasets_jeditaskid_ix"), "jedi_datasets", ["jeditaskid"])
    op.create_index(
        op.f("jedi_datasets_locked_ix"),
        "jedi_datasets",
        ["lockedtime"],
        postgresql_where=sa.text("lockedby IS NOT NULL"),
    )
    op.create_index(
        op.f("jedi_datasets_statecheck_ix"),
        "jedi_datasets",
        ["statechecktime"],
        postgresql_where=sa.text("statecheckexpiration IS NOT NULL"),
    )
    table(
        "jedi_dataset_contents",
        "files (or event ranges of files) and how tasks use them",
        "fileid jeditaskid",
        must(
            "fileid",
            sa.BigInteger,
            "the file's identifier, from a sequence",
            default="nextval('jedi_file_id_seq')",
        ),
        must("datasetid", sa.BigInteger, "the dataset"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("creationdate", STAMP, "when the record was inserted", default="jedi_now()"),
        may("lastattempttime", STAMP, "when the file was tried"),
        must("lfn", sa.Text, "the logical file name"),
        may("guid", sa.Text, "the file's GUID"),
        must("type", sa.Text, "the dataset's type"),
        may("fsize", sa.BigInteger, "size in bytes"),
        may("checksum", sa.Text, "adler32, 8 hex digits"),
        may("scope", sa.Text, "the scope"),
        must("status", sa.Text, "the file's status"),
        must("attemptnr", sa.SmallInteger, "how often the file was tried", default="0"),
        may("maxattempt", sa.SmallInteger, "how often the file can be tried"),
        may("nevents", sa.BigInteger, "events in the file"),
        may("keeptrack", sa.SmallInteger, "1 if the file's use is kept track of"),
        may("startevent", sa.BigInteger, "first event of the range in the file"),
        may("endevent", sa.BigInteger, "last event of the range in the file"),
        may("firstevent", sa.BigInteger, "number given to the first event"),
        may("boundaryid", sa.BigInteger, "splitting respects this id"),
        may("pandaid", sa.BigInteger, "the job that uses the file"),
        must("failedattempt", sa.SmallInteger, "how often the file failed", default="0"),
        may("lumiblocknr", sa.Integer, "lumi block in the file"),
        may("outpandaid", sa.BigInteger, "the job that made the file"),
        may("maxfailure", sa.SmallInteger, "how often the file can fail"),
        may("is_waiting", sa.Text, "Y if it waits for a real co-jumbo job"),
        may("jobsetid", sa.BigInteger, "the job set that uses the file"),
        may("proc_status", sa.Text, "the status as users see it"),
        sa.CheckConstraint("length(lfn) <= 256", name=op.f("jedi_dataset_contents_lfn_ck")),
        one_of(
            "jedi_dataset_contents_status_ck",
            "status",
            "pending staging waiting ready missing lost broken picked running finished "
            "failed partial defined prepared merging",
        ),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.05",
            "autovacuum_analyze_scale_factor": "0.05",
        },
    )
    op.create_index(
        op.f("jedi_dataset_contents_datasetid_ix"), "jedi_dataset_contents", ["datasetid"]
    )
    op.create_index(
        op.f("jedi_dataset_contents_jeditaskid_datasetid_ix"),
        "jedi_dataset_contents",
        ["jeditaskid", "datasetid"],
    )
    op.create_index(
        op.f("jedi_dataset_contents_lfn_ix"),
        "jedi_dataset_contents",
        ["lfn"],
        postgresql_where=sa.text("type IN ('output', 'log')"),
    )
    op.create_index(
        op.f("jedi_dataset_contents_ready_ix"),
        "jedi_dataset_contents",
        ["datasetid", "fileid"],
        postgresql_where=sa.text("status = 'ready'"),
    )
    table(
        "jedi_output_template",
        "how the file names of each output dataset are made",
        "outtempid",
        must(
            "outtempid",
            sa.BigInteger,
            "the template's identifier",
            default="nextval('jedi_out_temp_id_seq')",
        ),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("datasetid", sa.BigInteger, "the output dataset"),
        must("filenametemplate", sa.Text, "how output names are made"),
        may("sourcename", sa.Text, "the payload's own name of the file, if another"),
        must("serialnr", sa.Integer, "the last serial number used", default="0"),
        may("maxserialnr", sa.Integer, "the largest serial number allowed"),
        may("streamname", sa.Text, "its placeholder in the job parameters"),
        may("outtype", sa.Text, "output or log"),
    )
    op.create_index(
        op.f("jedi_output_template_jeditaskid_ix"), "jedi_output_template", ["jeditaskid"]
    )
    table(
        "jedi_events",
        "progress of jobs in events",
        "jeditaskid pandaid fileid job_processid attemptnr",
        must("jeditaskid", sa.BigInteger, "the task"),
        must("datasetid", sa.BigInteger, "the dataset of the file"),
        must("fileid", sa.BigInteger, "the contents row"),
        must("status", sa.SmallInteger, "its status (code)"),
        must("pandaid", sa.BigInteger, "the job that processes the range"),
        must("job_processid", sa.BigInteger, "the worker process; 0: the job's only one"),
        may("def_min_eventid", sa.BigInteger, "first event of the range"),
        may("def_max_eventid", sa.BigInteger, "last event of the range"),
        may("processed_upto_eventid", sa.BigInteger, "last event processed"),
        must("attemptnr", sa.SmallInteger, "attempts"),
        may("objstore_id", sa.Integer, "endpoint of the pre-merged file"),
        may("event_offset", sa.BigInteger, "events before the first one of the file"),
        may("is_jumbo", sa.SmallInteger, "1 if a jumbo job processes it"),
        may("ziprow_id", sa.BigInteger, "row of the zip file"),
        may("file_not_deleted", sa.Text, "Y if pre-merged files can be deleted"),
        may("error_code", sa.Integer, "error of the range"),
        may("path_convention", sa.SmallInteger, "how the file's path is made"),
        sa.CheckConstraint("status BETWEEN 0 AND 10", name=op.f("jedi_events_status_ck")),
    )
    op.create_index(op.f("jedi_events_pandaid_ix"), "jedi_events", ["pandaid"])


def queues() -> None:
    table(
        "jedi_work_queue",
        "partitions and shares of the workload",
        "queue_id",
        must("queue_id", sa.Integer, "unique identifier"),
        must("queue_name", sa.Text, "the queue's name"),
        must("queue_type", sa.Text, "the prodSourceLabel it serves"),
        must("vo", sa.Text, "the virtual organisation it serves"),
        may("queue_share", sa.Integer, "its share; NULL: not throttled"),
        may("queue_order", sa.Integer, "evaluated before queues of higher order"),
        may("criteria", sa.Text, "SQL condition on jedi_tasks"),
        may("variables", sa.Text, "values of the condition's variables"),
        may("partitionid", sa.Integer, "its partition; -1: it is a partition"),
        may("stretchable", sa.SmallInteger, "1 if it may use shares of idle queues"),
        may("status", sa.Text, "active or inactive"),
        sa.CheckConstraint("length(queue_name) <= 64", name=op.f("jedi_work_queue_name_ck")),
        sa.UniqueConstraint("queue_name", name=op.f("jedi_work_queue_queue_name_uq")),
        sa.UniqueConstraint("queue_order", name=op.f("jedi_work_queue_queue_order_uq")),
    )
    table(
        "jedi_process_lock",
        "locks of agents and dogs",
        "prodsourcelabel vo workqueue_id cloud component",
        must("prodsourcelabel", sa.Text, "the source label"),
        must("vo", sa.Text, "the virtual organisation"),
        must("workqueue_id", sa.Integer, "the work queue"),
        must("cloud", sa.Text, "the cloud", default="''"),
        must("lockedby", sa.Text, "who holds the lock"),
        must("lockedtime", STAMP, "when it was taken", default="jedi_now()"),
        must("component", sa.Text, "what the lock protects", default="''"),
        may("lease_until", STAMP, "the lock ends here, in real time"),
    )
    table(
        "jedi_resource_types",
        "shapes of jobs; the first that matches wins",
        "resource_type",
        must("resource_type", sa.Text, "name"),
        may("mincore", sa.Integer, "least cores"),
        may("maxcore", sa.Integer, "most cores"),
        may("minrampercore", sa.Integer, "MB, exclusive"),
        may("maxrampercore", sa.Integer, "MB, inclusive"),
    )


def jobs() -> None:
    table(
        "jedi_jobs",
        "jobs that are alive or not yet archived",
        "pandaid",
        must("pandaid", sa.BigInteger, "one attempt"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("taskid", sa.BigInteger, "the request (jedi_tasks.reqid)"),
        must("originpandaid", sa.BigInteger, "the first attempt's id, kept by submitters"),
        must("unit_nr", sa.Integer, "number of the unit of work within its task"),
        must("attemptnr", sa.SmallInteger, "attempt"),
        must("kind", sa.Text, "normal, scout, merge, build, preprocess", default="'normal'"),
        must("status", sa.Text, "the job's status"),
        may("substatus", sa.Text, "detail of the status"),
        may("prodsourcelabel", sa.Text, "as the task's"),
        may("processingtype", sa.Text, "as the task's"),
        may("username", sa.Text, "as the task's"),
        may("vo", sa.Text, "as the task's"),
        must("site", sa.Text, "where it runs"),
        may("nucleus", sa.Text, "where its outputs go"),
        must("workqueue_id", sa.Integer, "as the task's", default="0"),
        must("gshare", sa.Text, "global share", default="''"),
        must("resource_type", sa.Text, "shape", default="''"),
        must("priority", sa.Integer, "larger first"),
        must("cores", sa.Integer, "cores asked"),
        must("memory_mb", sa.Integer, "memory asked in MB; 0: no limit"),
        must("walltime_s", sa.Integer, "wall time asked in seconds; 0: no limit"),
        must("disk_mb", sa.Integer, "disk asked in MB; 0: no limit"),
        must("n_inputs", sa.Integer, "input files", default="0"),
        may("n_events", sa.BigInteger, "events to process"),
        must("creationtime", STAMP, "when it was made", default="jedi_now()"),
        must("statechangetime", STAMP, "when the status changed", default="jedi_now()"),
        may("starttime", STAMP, "when the payload started"),
        may("endtime", STAMP, "when the payload ended"),
        may("heartbeat_at", STAMP, "when the pilot was last heard of"),
        must(
            "lock_seq",
            sa.BigInteger,
            "raised by each dispatch; fences the pilot's writes",
            default="0",
        ),
        may("pilot_id", sa.Text, "the pilot that has it"),
        may("kill_code", sa.Text, "why it is to be killed"),
        may("pilot_result", sa.Text, "finished, failed or cancelled, as the pilot said"),
        may("exit_code", sa.Integer, "the payload's exit code"),
        may("error_source", sa.Text, "pilot, payload, jedi, user"),
        may("error_code", sa.Text, "code that can be counted"),
        may("error_diag", sa.Text, "sentence for people"),
        may("cpu_s", sa.Double, "cpu seconds of all processes"),
        may("wall_s", sa.Double, "wall seconds of the payload"),
        may("max_rss_kb", sa.BigInteger, "peak resident memory of all processes"),
        may("max_pss_kb", sa.BigInteger, "peak proportional memory of all processes"),
        may("read_bytes", sa.BigInteger, "read from storage"),
        may("write_bytes", sa.BigInteger, "written to storage"),
        may("workdir_kb", sa.BigInteger, "peak of the work directory"),
        may("input_bytes", sa.BigInteger, "size of its inputs"),
        may("output_bytes", sa.BigInteger, "size of its outputs"),
        may("hold_kind", sa.Text, "PGI hold"),
        may("hold_reason", sa.Text, "why it is held"),
        may("hold_since", STAMP, "when the hold began"),
        may("hold_deadline", STAMP, "when the hold ends by itself"),
        may("delegation_kind", sa.Text, "the batch engine it was handed to"),
        may("delegation_queue", sa.Text, "the engine's queue"),
        may("delegation_id", sa.Text, "the engine's job id"),
        may("postprocessed_at", STAMP, "when its results were added"),
        may("purged_at", STAMP, "when its sandbox was purged"),
        may("retention", STAMP, "its sandbox is kept until then"),
        one_of(
            "jedi_jobs_status_ck",
            "status",
            "pending waiting defined assigned activated throttled sent starting running "
            "holding transferring merging finished failed cancelled closed",
        ),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(op.f("jedi_jobs_jeditaskid_unit_nr_ix"), "jedi_jobs", ["jeditaskid", "unit_nr"])
    op.create_index(
        op.f("jedi_jobs_live_ix"),
        "jedi_jobs",
        ["jeditaskid"],
        postgresql_where=sa.text("postprocessed_at IS NULL"),
    )
    op.create_index(
        op.f("jedi_jobs_reported_ix"),
        "jedi_jobs",
        ["pandaid"],
        postgresql_where=sa.text("pilot_result IS NOT NULL AND postprocessed_at IS NULL"),
    )
    table(
        "jedi_jobs_archived",
        "ended jobs, moved here in batches",
        "pandaid",
        must("pandaid", sa.BigInteger, "one attempt"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("taskid", sa.BigInteger, "the request (jedi_tasks.reqid)"),
        must("originpandaid", sa.BigInteger, "the first attempt's id, kept by submitters"),
        must("unit_nr", sa.Integer, "number of the unit of work within its task"),
        must("attemptnr", sa.SmallInteger, "attempt"),
        must("kind", sa.Text, "normal, scout, merge, build, preprocess", default="'normal'"),
        must("status", sa.Text, "the job's status"),
        may("substatus", sa.Text, "detail of the status"),
        may("prodsourcelabel", sa.Text, "as the task's"),
        may("processingtype", sa.Text, "as the task's"),
        may("username", sa.Text, "as the task's"),
        may("vo", sa.Text, "as the task's"),
        must("site", sa.Text, "where it runs"),
        may("nucleus", sa.Text, "where its outputs go"),
        must("workqueue_id", sa.Integer, "as the task's", default="0"),
        must("gshare", sa.Text, "global share", default="''"),
        must("resource_type", sa.Text, "shape", default="''"),
        must("priority", sa.Integer, "larger first"),
        must("cores", sa.Integer, "cores asked"),
        must("memory_mb", sa.Integer, "memory asked in MB; 0: no limit"),
        must("walltime_s", sa.Integer, "wall time asked in seconds; 0: no limit"),
        must("disk_mb", sa.Integer, "disk asked in MB; 0: no limit"),
        must("n_inputs", sa.Integer, "input files", default="0"),
        may("n_events", sa.BigInteger, "events to process"),
        must("creationtime", STAMP, "when it was made", default="jedi_now()"),
        must("statechangetime", STAMP, "when the status changed", default="jedi_now()"),
        may("starttime", STAMP, "when the payload started"),
        may("endtime", STAMP, "when the payload ended"),
        may("heartbeat_at", STAMP, "when the pilot was last heard of"),
        must(
            "lock_seq",
            sa.BigInteger,
            "raised by each dispatch; fences the pilot's writes",
            default="0",
        ),
        may("pilot_id", sa.Text, "the pilot that has it"),
        may("kill_code", sa.Text, "why it is to be killed"),
        may("pilot_result", sa.Text, "finished, failed or cancelled, as the pilot said"),
        may("exit_code", sa.Integer, "the payload's exit code"),
        may("error_source", sa.Text, "pilot, payload, jedi, user"),
        may("error_code", sa.Text, "code that can be counted"),
        may("error_diag", sa.Text, "sentence for people"),
        may("cpu_s", sa.Double, "cpu seconds of all processes"),
        may("wall_s", sa.Double, "wall seconds of the payload"),
        may("max_rss_kb", sa.BigInteger, "peak resident memory of all processes"),
        may("max_pss_kb", sa.BigInteger, "peak proportional memory of all processes"),
        may("read_bytes", sa.BigInteger, "read from storage"),
        may("write_bytes", sa.BigInteger, "written to storage"),
        may("workdir_kb", sa.BigInteger, "peak of the work directory"),
        may("input_bytes", sa.BigInteger, "size of its inputs"),
        may("output_bytes", sa.BigInteger, "size of its outputs"),
        may("hold_kind", sa.Text, "PGI hold"),
        may("hold_reason", sa.Text, "why it is held"),
        may("hold_since", STAMP, "when the hold began"),
        may("hold_deadline", STAMP, "when the hold ends by itself"),
        may("delegation_kind", sa.Text, "the batch engine it was handed to"),
        may("delegation_queue", sa.Text, "the engine's queue"),
        may("delegation_id", sa.Text, "the engine's job id"),
        may("postprocessed_at", STAMP, "when its results were added"),
        may("purged_at", STAMP, "when its sandbox was purged"),
        may("retention", STAMP, "its sandbox is kept until then"),
    )
    op.create_index(
        op.f("jedi_jobs_archived_jeditaskid_unit_nr_ix"),
        "jedi_jobs_archived",
        ["jeditaskid", "unit_nr"],
    )


def job_details() -> None:
    table(
        "jedi_job_files",
        "the files of each job",
        "pandaid fileid jeditaskid",
        must("pandaid", sa.BigInteger, "the job"),
        must("fileid", sa.BigInteger, "the contents row"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("datasetid", sa.BigInteger, "the dataset"),
        must("type", sa.Text, "input, output, log, pseudo_input, ..."),
        must("lfn", sa.Text, "the logical file name"),
        may("source_name", sa.Text, "the payload's own name of an output"),
        may("endpoint", sa.Text, "where an input is read, where an output goes"),
        may("fsize", sa.BigInteger, "size in bytes"),
        may("checksum", sa.Text, "adler32"),
        may("guid", sa.Text, "GUID"),
        may("n_events", sa.BigInteger, "events"),
        may("start_event", sa.BigInteger, "first event of the range"),
        may("end_event", sa.BigInteger, "last event of the range"),
        may("problem", sa.Text, "missing or broken: why an input could not be used"),
    )
    table(
        "jedi_job_files_archived",
        "the files of archived jobs",
        "pandaid fileid jeditaskid",
        must("pandaid", sa.BigInteger, "the job"),
        must("fileid", sa.BigInteger, "the contents row"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("datasetid", sa.BigInteger, "the dataset"),
        must("type", sa.Text, "input, output, log, pseudo_input, ..."),
        must("lfn", sa.Text, "the logical file name"),
        may("source_name", sa.Text, "the payload's own name of an output"),
        may("endpoint", sa.Text, "where an input is read, where an output goes"),
        may("fsize", sa.BigInteger, "size in bytes"),
        may("checksum", sa.Text, "adler32"),
        may("guid", sa.Text, "GUID"),
        may("n_events", sa.BigInteger, "events"),
        may("start_event", sa.BigInteger, "first event of the range"),
        may("end_event", sa.BigInteger, "last event of the range"),
        may("problem", sa.Text, "missing or broken: why an input could not be used"),
    )
    table(
        "jedi_job_params",
        "the rendered job parameters",
        "pandaid",
        must("pandaid", sa.BigInteger, "the job"),
        must("jobparameters", sa.Text, "the rendered command"),
    )
    table(
        "jedi_job_ready",
        "the queue of activated jobs: rows are inserted and deleted, never updated",
        "pandaid",
        must("pandaid", sa.BigInteger, "an activated job"),
        must("site", sa.Text, "as the job's"),
        must("gshare", sa.Text, "as the job's"),
        must("priority", sa.Integer, "as the job's"),
        must("cores", sa.Integer, "as the job's"),
        must("memory_mb", sa.Integer, "as the job's"),
        must("walltime_s", sa.Integer, "as the job's"),
        must("disk_mb", sa.Integer, "as the job's"),
    )
    op.create_index(
        op.f("jedi_job_ready_order_ix"),
        "jedi_job_ready",
        ["site", "gshare", sa.text("priority DESC"), "pandaid"],
    )
    table(
        "jedi_job_tail",
        "what a payload printed last",
        "pandaid",
        must("pandaid", sa.BigInteger, "the job"),
        may("stdout_tail", sa.Text, "last lines of stdout"),
        may("stderr_tail", sa.Text, "last lines of stderr"),
        must("modificationtime", STAMP, "when it was sent", default="jedi_now()"),
    )
    table(
        "jedi_job_retry_history",
        "which job took over from which",
        "jeditaskid newpandaid oldpandaid",
        must("jeditaskid", sa.BigInteger, "the task"),
        must("oldpandaid", sa.BigInteger, "the earlier job"),
        must("newpandaid", sa.BigInteger, "the later job"),
        may("relationtype", sa.Text, "retry, merge, ..."),
        may("originpandaid", sa.BigInteger, "the first job of the line"),
    )
    op.create_index(
        op.f("jedi_job_retry_history_oldpandaid_ix"), "jedi_job_retry_history", ["oldpandaid"]
    )
    op.create_index(
        op.f("jedi_job_retry_history_originpandaid_ix"), "jedi_job_retry_history", ["originpandaid"]
    )
    table(
        "jedi_acquire_requests",
        "answers given to pilots, so that a repeated request gets the same jobs",
        "request_id",
        must("request_id", sa.Text, "the pilot's own number of its request"),
        must("site", sa.Text, "the pilot's site"),
        must("pandaids", ARRAY(sa.BigInteger), "the jobs handed out"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
    )
    op.create_index(
        op.f("jedi_acquire_requests_creationtime_ix"), "jedi_acquire_requests", ["creationtime"]
    )


def logs() -> None:
    table(
        "jedi_tasks_statuslog",
        "every status a task had",
        "log_id",
        serial("log_id", "order of the rows"),
        may("fromstatus", sa.Text, "before; NULL at insertion"),
        must("status", sa.Text, "after"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
        may("agent", sa.Text, "who"),
        may("reason_code", sa.Text, "why"),
        may("reason", sa.Text, "why, for people"),
        must("jeditaskid", sa.BigInteger, "the task"),
        may("attemptnr", sa.Integer, "the task's attempt"),
        may("username", sa.Text, "the person behind a command"),
    )
    op.create_index(
        op.f("jedi_tasks_statuslog_jeditaskid_ix"), "jedi_tasks_statuslog", ["jeditaskid"]
    )
    table(
        "jedi_datasets_statuslog",
        "every status a dataset had",
        "log_id",
        serial("log_id", "order of the rows"),
        may("fromstatus", sa.Text, "before; NULL at insertion"),
        must("status", sa.Text, "after"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
        may("agent", sa.Text, "who"),
        may("reason_code", sa.Text, "why"),
        may("reason", sa.Text, "why, for people"),
        must("datasetid", sa.BigInteger, "the dataset"),
        must("jeditaskid", sa.BigInteger, "the task"),
    )
    op.create_index(
        op.f("jedi_datasets_statuslog_jeditaskid_ix"), "jedi_datasets_statuslog", ["jeditaskid"]
    )
    table(
        "jedi_jobs_statuslog",
        "every status a job had",
        "log_id",
        serial("log_id", "order of the rows"),
        may("fromstatus", sa.Text, "before; NULL at insertion"),
        must("status", sa.Text, "after"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
        may("agent", sa.Text, "who"),
        may("reason_code", sa.Text, "why"),
        may("reason", sa.Text, "why, for people"),
        must("pandaid", sa.BigInteger, "the job"),
        must("jeditaskid", sa.BigInteger, "the task"),
    )
    op.create_index(op.f("jedi_jobs_statuslog_pandaid_ix"), "jedi_jobs_statuslog", ["pandaid"])


def statistics() -> None:
    table(
        "job_stats",
        "number of jobs by place and status; add job_stats_delta for the present value",
        "site workqueue gshare resource_type status",
        must("site", sa.Text, "site"),
        must("workqueue", sa.Integer, "work queue"),
        must("gshare", sa.Text, "global share"),
        must("resource_type", sa.Text, "shape"),
        must("status", sa.Text, "job status"),
        must("jobs", sa.BigInteger, "number of jobs (a change of it, in deltas)"),
        must("cores", sa.BigInteger, "their cores (a change of them, in deltas)"),
    )
    table(
        "job_stats_delta",
        "changes not yet folded into job_stats",
        "delta_id",
        serial("delta_id", "order of the rows"),
        must("site", sa.Text, "site"),
        must("workqueue", sa.Integer, "work queue"),
        must("gshare", sa.Text, "global share"),
        must("resource_type", sa.Text, "shape"),
        must("status", sa.Text, "job status"),
        must("jobs", sa.BigInteger, "number of jobs (a change of it, in deltas)"),
        must("cores", sa.BigInteger, "their cores (a change of them, in deltas)"),
    )
    table(
        "job_stats_hourly",
        "rates by hour",
        "hour site gshare status",
        must("hour", STAMP, "the hour", default="jedi_now()"),
        must("site", sa.Text, "site"),
        must("gshare", sa.Text, "global share"),
        must("status", sa.Text, "the status reached"),
        must("jobs", sa.BigInteger, "jobs that reached it in the hour"),
    )


def sites() -> None:
    table(
        "jedi_sites",
        "where jobs can run",
        "site",
        must("site", sa.Text, "the site's (queue's) name"),
        must(
            "status",
            sa.Text,
            "online, standby, brokeroff, test, offline, paused",
            default="'online'",
        ),
        must("type", sa.Text, "production, analysis or unified", default="'unified'"),
        must("cloud", sa.Text, "the cloud it belongs to", default="'WORLD'"),
        may("tier", sa.Text, "T0, T1, T2, ..."),
        may("pandasite", sa.Text, "the grid site behind the queue"),
        must("role", sa.Text, "nucleus or satellite", default="'nucleus'"),
        must("state", sa.Text, "ACTIVE nuclei take tasks", default="'ACTIVE'"),
        may("capability", sa.Text, "ucore: unified over resource types"),
        must("corecount", sa.Integer, "cores per slot; 0: 1", default="1"),
        must("corepower", sa.Double, "HS06 per core", default="10"),
        must("maxtime", sa.BigInteger, "longest wall time in s; 0: no limit", default="0"),
        must("mintime", sa.BigInteger, "shortest wall time in s; 0: no limit", default="0"),
        must("maxrss", sa.BigInteger, "memory of a slot in MB; 0: no limit", default="0"),
        must("minrss", sa.BigInteger, "least memory in MB; 0: no limit", default="0"),
        must("maxwdir", sa.BigInteger, "scratch of a slot in MB; 0: unknown", default="0"),
        must("maxinputsize", sa.BigInteger, "MB; -1: always direct I/O", default="0"),
        must("nslots", sa.Integer, "pilots the local submitter may run at once", default="0"),
        must(
            "submitter",
            sa.Text,
            "who sends pilots: local, none (they come by themselves), ...",
            default="'none'",
        ),
        may("fairsharepolicy", sa.Text, "zero-share rules"),
        must("transferringlimit", sa.Integer, "jobs; 0: 2000", default="0"),
        may("pledgedcpu", sa.Integer, "cores; -1: opportunistic"),
        must("transtimehi", sa.Integer, "days for transfers of priority >= 800", default="1"),
        must("transtimelo", sa.Integer, "days for transfers below", default="4"),
        must("direct_access_lan", sa.Boolean, "jobs may read inputs over the LAN", default="false"),
        must("direct_access_wan", sa.Boolean, "jobs may read inputs over the WAN", default="false"),
        may("releases", ARRAY(sa.Text), "software; ANY or AUTO"),
        may("wnconnectivity", sa.Text, "full, http or none, # IPv4 or IPv6"),
        must("jobseed", sa.Text, "std, es, eshigh, all", default="'std'"),
        may("max_io_intensity", sa.Double, "kB/s"),
        may("maxdiskio", sa.Double, "kB/s per core"),
        must("catchall", JSONB, "further attributes", default="'{}'"),
        may("laststart", STAMP, "when a job last started"),
        may("lastpilot", STAMP, "when a pilot or its submitter was last seen"),
        may("comment", sa.Text, "why an operator set it so"),
        must("modificationtime", STAMP, "when it was changed", default="jedi_now()"),
        one_of("jedi_sites_status_ck", "status", "online standby brokeroff test offline paused"),
    )
    table(
        "jedi_sites_history",
        "changes of sites",
        "change_id",
        serial("change_id", "order"),
        must("site", sa.Text, "the site"),
        must("attribute", sa.Text, "what changed"),
        may("oldvalue", sa.Text, "before"),
        may("newvalue", sa.Text, "after"),
        may("username", sa.Text, "who"),
        may("comment", sa.Text, "why"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
    )
    op.create_index(op.f("jedi_sites_history_site_ix"), "jedi_sites_history", ["site"])
    table(
        "jedi_ddm_endpoints",
        "storage",
        "ddm_endpoint",
        must("ddm_endpoint", sa.Text, "the endpoint's name"),
        may("site", sa.Text, "the grid site it belongs to"),
        may("token", sa.Text, "space token"),
        must("type", sa.Text, "DATADISK, DATATAPE, ...", default="'DATADISK'"),
        may("path", sa.Text, "root directory, for file-system endpoints"),
        must("is_tape", sa.Boolean, "tape", default="false"),
        may("space_total", sa.Double, "GB"),
        may("space_free", sa.Double, "GB"),
        may("space_used", sa.Double, "GB"),
        may("space_expired", sa.Double, "GB"),
        may("space_min_free", sa.Double, "GB"),
        may("space_unavailable", sa.Double, "GB"),
        may("space_timestamp", STAMP, "when space was measured"),
        must(
            "detailed_status",
            JSONB,
            "read_lan, write_lan, read_wan, write_wan: ON, OFF, TEST",
            default="'{}'",
        ),
    )
    table(
        "jedi_site_endpoints",
        "which site uses which storage",
        "site ddm_endpoint scope",
        must("site", sa.Text, "the site"),
        must("ddm_endpoint", sa.Text, "the endpoint"),
        must("scope", sa.Text, "production or analysis", default="'default'"),
        must("is_local", sa.Boolean, "on the site's LAN", default="true"),
        must("roles", sa.Text, "read, write", default="'read,write'"),
        must("order_read", sa.Integer, "smaller first", default="1"),
        must("order_write", sa.Integer, "smaller first", default="1"),
        must("default_read", sa.Boolean, "first choice", default="true"),
        must("default_write", sa.Boolean, "first choice", default="true"),
    )
    table(
        "jedi_network_matrix",
        "links between places",
        "src dst key",
        must("src", sa.Text, "source"),
        must("dst", sa.Text, "destination"),
        must("key", sa.Text, "closeness, <activity>_queued, mbps_1h, ..."),
        may("value", sa.Double, "value; speeds in MB/s"),
        must("ts", STAMP, "when it was measured", default="jedi_now()"),
    )
    table(
        "jedi_site_metrics",
        "what is known of sites besides their attributes",
        "site gshare metric",
        must("site", sa.Text, "the site"),
        must("gshare", sa.Text, "global share; empty: all", default="''"),
        must("metric", sa.Text, "name"),
        may("value", JSONB, "value"),
        must("ts", STAMP, "when", default="jedi_now()"),
    )
    table(
        "jedi_pilots",
        "pilots that the submitter started",
        "pilot_id",
        must("pilot_id", sa.Text, "the pilot"),
        must("site", sa.Text, "its site"),
        must("host", sa.Text, "where it runs"),
        may("pid", sa.Integer, "process id"),
        may("process_start", sa.BigInteger, "start time of the process in clock ticks"),
        may("token_hash", sa.Text, "its token"),
        must("status", sa.Text, "submitted, running, ended, lost"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
        may("endtime", STAMP, "when it ended"),
    )
    op.create_index(
        op.f("jedi_pilots_live_ix"),
        "jedi_pilots",
        ["site"],
        postgresql_where=sa.text("endtime IS NULL"),
    )


def decisions() -> None:
    table(
        "jedi_snapshots",
        "what brokers knew, shared by decisions",
        "snapshot_hash",
        must("snapshot_hash", sa.Text, "sha256 of the data"),
        must("data", sa.LargeBinary, "the world as the broker saw it, compressed JSON"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
    )
    table(
        "jedi_broker_decisions",
        "what brokers decided",
        "decision_id",
        serial("decision_id", "order"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("broker", sa.Text, "nucleus, production, analysis, generic"),
        may("snapshot_hash", sa.Text, "what the broker knew"),
        must("seed", sa.BigInteger, "seed of the lottery"),
        must("knobs", JSONB, "the knobs it used"),
        must("outcome", sa.Text, "chosen, none, ..."),
        must("chosen", ARRAY(sa.Text), "the sites, best first"),
        must("weights", ARRAY(sa.Double), "their weights"),
        must("need", JSONB, "what the task asked for"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
    )
    op.create_index(
        op.f("jedi_broker_decisions_jeditaskid_decision_id_ix"),
        "jedi_broker_decisions",
        ["jeditaskid", "decision_id"],
    )
    table(
        "jedi_broker_reasons",
        "why sites were refused",
        "decision_id site",
        must("decision_id", sa.BigInteger, "the decision"),
        must("site", sa.Text, "a site that was refused"),
        must("codes", ARRAY(sa.Text), "every reason"),
        must("observed", ARRAY(sa.Double), "what was seen, by reason"),
        must("limits", ARRAY(sa.Double), "the limits, by reason"),
    )


def operation() -> None:
    table(
        "jedi_knobs",
        "settings that differ from the preset; the preset is knob core.preset",
        "component key",
        must("component", sa.Text, "the part of the system"),
        must("key", sa.Text, "the knob"),
        must("value", JSONB, "the value in force instead of the preset's"),
        may("username", sa.Text, "who set it"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
    )
    table(
        "jedi_knobs_history",
        "changes of knobs",
        "change_id",
        serial("change_id", "order"),
        must("component", sa.Text, "component"),
        must("key", sa.Text, "knob"),
        may("value", JSONB, "new value; NULL: back to the preset"),
        may("username", sa.Text, "who"),
        must("modificationtime", STAMP, "when", default="jedi_now()"),
    )
    table(
        "jedi_commands",
        "what people asked of tasks: rows are only added and acknowledged",
        "command_id",
        serial("command_id", "order"),
        must("jeditaskid", sa.BigInteger, "the task"),
        must("command", sa.Text, "kill, finish, retry, ..."),
        must("arguments", JSONB, "the command's arguments", default="'{}'"),
        must("username", sa.Text, "who asked"),
        may("comment", sa.Text, "why"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
        may("acknowledged_at", STAMP, "when it was taken up; NULL: not yet"),
        may("outcome", sa.Text, "accepted or refused"),
        may("message", sa.Text, "the outcome, for people"),
    )
    op.create_index(op.f("jedi_commands_jeditaskid_ix"), "jedi_commands", ["jeditaskid"])
    op.create_index(
        op.f("jedi_commands_open_ix"),
        "jedi_commands",
        ["command_id"],
        postgresql_where=sa.text("acknowledged_at IS NULL"),
    )
    table(
        "jedi_users",
        "people and what they may do",
        "username",
        must("username", sa.Text, "the user"),
        must("role", sa.Text, "user, production or operator", default="'user'"),
        must("gridpref", sa.Text, "letters k, p, s, g", default="''"),
        may("email", sa.Text, "for notifications"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
        one_of("jedi_users_role_ck", "role", "user production operator"),
    )
    table(
        "jedi_tokens",
        "who may speak to the service",
        "token_hash",
        must("token_hash", sa.Text, "sha256 of the token"),
        must("kind", sa.Text, "pilot or user"),
        may("site", sa.Text, "the pilot's site"),
        may("username", sa.Text, "the user"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
        may("expires_at", STAMP, "until when"),
        may("revoked_at", STAMP, "taken back"),
    )
    table(
        "jedi_agents",
        "heartbeats of agents",
        "agent process",
        must("agent", sa.Text, "name of the agent"),
        must("process", sa.Text, "host, pid and a number"),
        must("starttime", STAMP, "when it started", default="jedi_now()"),
        may("heartbeat_at", STAMP, "when it was last heard of, in real time"),
        must("cycles", sa.BigInteger, "cycles so far", default="0"),
        must("items", sa.BigInteger, "items worked on so far", default="0"),
        may("last_error", sa.Text, "the last error of its loop"),
        may("rss_kb", sa.BigInteger, "resident memory"),
    )
    table(
        "jedi_outbox",
        "notifications, written with the change and delivered later",
        "message_id",
        serial("message_id", "order"),
        must("topic", sa.Text, "what it is about"),
        must("payload", JSONB, "the message"),
        must("urgent", sa.Boolean, "urgent", default="false"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
        may("sent_at", STAMP, "when it was delivered"),
        must("attempts", sa.Integer, "deliveries tried", default="0"),
    )
    op.create_index(
        op.f("jedi_outbox_open_ix"),
        "jedi_outbox",
        ["message_id"],
        postgresql_where=sa.text("sent_at IS NULL"),
    )
    table(
        "jedi_sandboxes",
        "input sandboxes, stored once",
        "sha256",
        must("sha256", sa.Text, "sha256 of the archive"),
        must("data", sa.LargeBinary, "a tar.gz whose members were checked"),
        must("creationtime", STAMP, "when", default="jedi_now()"),
    )


def catalogue() -> None:
    table(
        "ddm_datasets",
        "datasets and containers of the SQL catalogue",
        "dataset_id",
        serial("dataset_id", "order"),
        must("name", sa.Text, "scope:name"),
        must("state", sa.Text, "open: more files may come; closed"),
        must("is_container", sa.Boolean, "it holds datasets, not files"),
        must("creationtime", STAMP, "when it was made", default="jedi_now()"),
        unique("ddm_datasets_name_uq", "name"),
        one_of("ddm_datasets_state_ck", "state", "open closed"),
    )
    table(
        "ddm_members",
        "what containers hold",
        "container_id member",
        must("container_id", sa.BigInteger, "the container"),
        must("member", sa.Text, "scope:name of a dataset in it"),
        must("position", sa.Integer, "order"),
        belongs("ddm_members_container_id_fk", "container_id", "ddm_datasets.dataset_id"),
    )
    table(
        "ddm_files",
        "files of datasets",
        "file_id",
        serial("file_id", "order"),
        must("dataset_id", sa.BigInteger, "its dataset"),
        must("lfn", sa.Text, "its name, which its dataset has once"),
        must("size", sa.BigInteger, "bytes"),
        must("adler32", sa.Text, "8 lower-case hex digits"),
        must("guid", sa.Text, "globally unique identifier"),
        may("nevents", sa.BigInteger, "events in it, if known"),
        unique("ddm_files_dataset_id_uq", "dataset_id", "lfn"),
        belongs("ddm_files_dataset_id_fk", "dataset_id", "ddm_datasets.dataset_id"),
    )
    table(
        "ddm_replicas",
        "where files lie",
        "file_id endpoint",
        must("file_id", sa.BigInteger, "the file"),
        must("endpoint", sa.Text, "where it lies"),
        belongs("ddm_replicas_file_id_fk", "file_id", "ddm_files.file_id"),
    )
