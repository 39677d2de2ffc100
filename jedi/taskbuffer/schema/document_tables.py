"""The ten tables of the JEDI document, each with every column of its definition list.

Columns after the comment "ours" go beyond it. Names are in lower case and mapped as in
docs/reference/identifiers-and-names.md#names-in-the-database: STATECEHCKTIME is statechecktime,
JobParams_Template.TASKID is jeditaskid.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Computed,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import among
from jedi.taskbuffer.schema.columns import col, count, key, metadata, stamp, words
from jedi.taskbuffer.schema.dataset_rules import UNPROCESSED


def one_of(column: str, names: Iterable[str], label: str = "status") -> CheckConstraint:
    """CHECK that a status is a declared one."""
    return CheckConstraint(among(column, names), name=label)


task_id_seq = Sequence("jedi_task_id_seq", metadata=metadata)
dataset_id_seq = Sequence("jedi_dataset_id_seq", metadata=metadata)
file_id_seq = Sequence("jedi_file_id_seq", metadata=metadata, cache=1000)
out_temp_id_seq = Sequence("jedi_out_temp_id_seq", metadata=metadata)
panda_id_seq = Sequence("jedi_panda_id_seq", metadata=metadata)

_SUBMIT = "new_tasks.insert_task"
_REFINE = "new_tasks.define_tasks"
_MERGE = "incremental.merge_parameters"
_REVISE = "incremental.revise_tasks"
_REASSIGN = "reassigning.set_destination"
_MOVE = "tasks.move_tasks"
_CLAIM = "tasks.claim"
_SCOUT = "scouting.store_measured"
_FIGURE = f"{_REFINE} {_SCOUT}"
_WITHHOLD = "scouting.withhold scouting.release"
_NOTED = "statistics.NOTE_PROGRESS"
_LATER = "not yet written"

tasks = Table(
    "jedi_tasks",
    metadata,
    key(
        "jeditaskid:jedi_task_id",
        "the task's identifier, from a sequence",
        _SUBMIT,
        server_default=task_id_seq.next_value(),
    ),
    stamp("creationdate:creation_date", "time of the record's insertion", _SUBMIT, now=True),
    stamp(
        "modificationtime:modification_time",
        "time of the last update",
        f"{_SUBMIT} {_MOVE}",
        now=True,
    ),
    stamp("starttime:start_time", "start of the task", _NOTED),
    stamp("endtime:end_time", "time of the task's final status", _MOVE),
    stamp("frozentime:frozen_time", "time of the task's first hold", _MOVE),
    words("prodsourcelabel:prod_source_label", "managed, user, prod_test, ...", _SUBMIT),
    words("taskname:task_name", "the task's name", _SUBMIT),
    words("username:user_name", "the user who owns the task", _SUBMIT),
    words("workinggroup:working_group", "the working group that owns the task", _SUBMIT),
    words("vo", "the virtual organisation that owns the task", _SUBMIT),
    col("corecount:core_count", Integer, "cores per job; 0 if it can vary", _REFINE),
    words("tasktype:task_type", "prod or anal", _SUBMIT),
    words("processingtype:processing_type", "the type of the process", _SUBMIT),
    col("taskpriority:task_priority", Integer, "the assigned priority", f"{_SUBMIT} {_MERGE}"),
    col(
        "currentpriority:current_priority",
        Integer,
        "the present priority",
        f"{_SUBMIT} commands.begin_attempt interventions.boost",
    ),
    words("status", "the task's status", f"{_SUBMIT} {_MOVE}", nullable=False),
    words("oldstatus:old_status", "the status before the present one", _MOVE),
    words("architecture", "the architecture on which the task runs", _REFINE),
    words("transuses:trans_uses", "the software release", _REFINE),
    words("transhome:trans_home", "the software cache of the transformation", _REFINE),
    words("transpath:trans_path", "the transformation", _REFINE),
    words("lockedby:locked_by", "the process that takes care of the record", _CLAIM),
    stamp("lockedtime:locked_time", "time of the record's lock", _CLAIM),
    words("termcondition:term_condition", "termination condition of the task", _REFINE),
    words(
        "splitrule:split_rule",
        "rules for splitting as two-letter codes, rendered from rules",
        f"{_REFINE} {_REVISE} {_WITHHOLD}",
    ),
    col(
        "walltime",
        BigInteger,
        "walltime per MB of input, measured by scouts",
        f"{_REFINE} {_SCOUT}",
    ),
    words("walltimeunit:walltime_unit", "unit of walltime", f"{_REFINE} {_SCOUT}"),
    col(
        "outdiskcount:out_disk_count",
        BigInteger,
        "output size per MB of input or per event",
        f"{_REFINE} {_SCOUT}",
    ),
    words("outdiskunit:out_disk_unit", "unit of outdiskcount", _FIGURE),
    col("workdiskcount:work_disk_count", BigInteger, "size of the work directory", _FIGURE),
    words("workdiskunit:work_disk_unit", "unit of workdiskcount", _FIGURE),
    col(
        "ramcount:ram_count",
        BigInteger,
        "memory asked or measured",
        f"{_REFINE} {_REVISE} {_SCOUT}",
    ),
    words("ramunit:ram_unit", "MB, MBPerCore or MBPerCoreFixed", _REFINE),
    col(
        "iointensity:io_intensity",
        BigInteger,
        "(input+output)/walltime/cores",
        f"{_REFINE} {_SCOUT}",
    ),
    words("iointensityunit:io_intensity_unit", "kBPerS", f"{_REFINE} {_SCOUT}"),
    col("workqueue_id", Integer, "the work queue of the task", _REFINE),
    col("progress", SmallInteger, "completion in percent", _NOTED),
    col("failurerate:failure_rate", SmallInteger, "job failures in percent", _NOTED),
    words("errordialog:error_dialog", "the diagnosis for people", _MOVE),
    words("cloud", "the cloud where the task is assigned", f"{_REFINE} {_REVISE}"),
    words(
        "site",
        "the site where the task is assigned; NULL: brokerage",
        f"{_REFINE} {_REVISE} {_REASSIGN}",
    ),
    key("reqid", "the request's identifier; the task's own if none", _SUBMIT),
    words("countrygroup:country_group", "the user's country group", _SUBMIT),
    col("parent_tid", BigInteger, "the parent task; the task itself if none", _SUBMIT),
    col(
        "eventservice:event_service", SmallInteger, "1 if the task uses the event service", _REFINE
    ),
    words("ticketid:ticket_id", "ticket to keep track of the task", _REFINE),
    words("ticketsystemtype:ticket_system_type", "the ticket system", _REFINE),
    stamp("statechangetime:state_change_time", "time of the status", f"{_SUBMIT} {_MOVE}"),
    words(
        "superstatus:super_status",
        "the status as the requesting system sees it",
        f"{_SUBMIT} {_MOVE}",
    ),
    words("campaign", "the campaign", _REFINE),
    col("mergeramcount:merge_ram_count", BigInteger, "memory of merge jobs", _REFINE),
    words("mergeramunit:merge_ram_unit", "unit of mergeramcount", _LATER),
    col("mergewalltime:merge_walltime", BigInteger, "walltime of merge jobs", _LATER),
    words("mergewalltimeunit:merge_walltime_unit", "unit of mergewalltime", _LATER),
    stamp(
        "throttledtime:throttled_time",
        "time of the last throttling",
        "interventions.note_throttled",
    ),
    col(
        "numthrottled:num_throttled",
        SmallInteger,
        "number of times the task was throttled",
        "interventions.note_throttled",
    ),
    col("mergecorecount:merge_core_count", Integer, "cores per merge job", _REFINE),
    col("goal", SmallInteger, "goal in percent multiplied by 10", _REFINE),
    stamp("assessmenttime:assessment_time", "time of the last statistics", _NOTED),
    col("cputime:cpu_time", BigInteger, "HS06 seconds per event", f"{_REFINE} {_SCOUT}"),
    words("cputimeunit:cpu_time_unit", "HS06sPerEvent or mHS06sPerEvent", f"{_REFINE} {_SCOUT}"),
    col("cpuefficiency:cpu_efficiency", SmallInteger, "single core efficiency in percent", _REFINE),
    col("basewalltime:base_walltime", Integer, "offset of the walltime in seconds", _REFINE),
    words("amiflag:ami_flag", "READY when the task is done or finished", _MOVE),
    words(
        "nucleus",
        "the site that collects the outputs",
        f"{_REFINE} decisions.assign_nuclei {_REASSIGN}",
    ),
    col(
        "baseramcount:base_ram_count",
        BigInteger,
        "memory in MB that does not scale with cores",
        _REFINE,
    ),
    stamp(
        "rescuetime:rescue_time",
        "time of the last rescue from a dead process by a dog",
        "dogs.RELEASE_STALE",
    ),
    words("requesttype:request_type", "type of the request", _REFINE),
    words("usejumbo:use_jumbo", "Y when using jumbo jobs", "jumbo.switch jumbo_jobs.add_jumbos"),
    col("diskio:disk_io", BigInteger, "(read+written)/walltime of scouts", _SCOUT),
    words("diskiounit:disk_io_unit", "kBPerS", _SCOUT),
    # ours
    words(
        "gshare",
        "the global share of the task's jobs",
        f"{_REFINE} interventions.boost commands.begin_attempt",
    ),
    words("resource_type", "the shape of the task's jobs", f"{_REFINE} {_REVISE} {_SCOUT}"),
    col("rules", JSONB, "the typed split rules", f"{_REFINE} {_REVISE} {_WITHHOLD}"),
    col(
        "attemptnr:attempt_nr",
        Integer,
        "the task's attempt, raised by retry",
        f"{_SUBMIT} commands.begin_attempt",
        nullable=False,
        server_default=text("1"),
    ),
    words("reason_code", "code of the reason for the status", _MOVE),
    col("reason_facts", JSONB, "the facts behind reason_code", _MOVE),
    stamp(
        "next_run_at",
        "time before which no agent takes the task",
        f"{_MOVE} {_CLAIM} tasks.put_off",
    ),
    count(
        "lock_seq",
        "raised by each claim; fences the claimant's writes",
        f"{_CLAIM} dogs.CLAIM_KILLERS dogs.RELEASE_STALE",
    ),
    stamp("lease_until", "the claim ends here, in real time", _CLAIM),
    count(
        "worker_deaths",
        "claims in a row whose worker did not come back",
        f"{_CLAIM} dogs.RELEASE_STALE",
        SmallInteger,
    ),
    words("idempotency_key", "the submitter's key: a repeat gives the same task", _SUBMIT),
    stamp("split_at", "creation of the first job", _NOTED),
    col("origin_pandaid", BigInteger, "the id a submitter got at once (DIRAC RFC #15)", _LATER),
    count(
        "measured_jobs", "finished jobs at the last measurement", "scouting.store_measured", Integer
    ),
    words("period", "interval between jobs of a periodical task", _REFINE),
    stamp("nextperiod:next_period", "time of the next period", "periods.SET_NEXT"),
    count("counted_upto", "PandaID up to which all jobs have ended and are counted", _NOTED),
    count("counted_jobs", "finished and failed jobs up to there", _NOTED),
    count("counted_failed", "failed jobs up to there", _NOTED),
    col("figures", JSONB, "values of figures, measured and proven", f"{_SCOUT} retry_rules.change"),
    PrimaryKeyConstraint("jedi_task_id"),
    UniqueConstraint("user_name", "idempotency_key"),
    one_of("status", states.TASK_STATES),
    CheckConstraint("parent_tid <= jeditaskid", name="parent"),  # hence there are no circles
    Index(None, "status", text("currentpriority DESC"), "jedi_task_id"),
    # task_order.NEXT: the first tasks of each share
    Index(
        "jedi_tasks_turn_ix",
        "gshare",
        literal_column("(currentpriority + (status = 'scouting'::text)::integer)").desc(),
        "jedi_task_id",
        postgresql_where=text(
            "status IN ('ready', 'scouting', 'running', 'topreprocess', 'preprocessing')"
        ),
    ),
    # ... of each user
    Index(
        "jedi_tasks_owner_ix",
        "gshare",
        literal_column("coalesce(username, ''::text)"),
        literal_column("(currentpriority + (status = 'scouting'::text)::integer)").desc(),
        "jedi_task_id",
        postgresql_where=text(
            "status IN ('ready', 'scouting', 'running', 'topreprocess', 'preprocessing')"
        ),
    ),
    Index(None, "user_name", "task_name"),
    Index(None, "task_name"),
    Index(None, "parent_tid"),
    Index(
        "jedi_tasks_period_ix",
        "next_period",
        postgresql_where=text("period IS NOT NULL AND status IN ('ready', 'running')"),
    ),
    Index("jedi_tasks_locked_ix", "locked_time", postgresql_where=text("lockedby IS NOT NULL")),
    comment="all production and analysis tasks",
    postgresql_with={"fillfactor": "80"},
)

task_params = Table(
    "jedi_taskparams",
    metadata,
    key("jeditaskid:jedi_task_id", "the task", _SUBMIT),
    col(
        "taskparams:task_params", JSONB, "the task's parameters", f"{_SUBMIT} {_MERGE} {_REASSIGN}"
    ),
    # ours
    words("source_text", "the submitted text, byte for byte", _SUBMIT),
    words("source_format", "json or yaml", _SUBMIT),
    words("sandbox_sha256", "the task's sandbox", _SUBMIT),
    PrimaryKeyConstraint("jedi_task_id"),
    comment="the parameters of each task",
)

job_params_template = Table(
    "jedi_jobparams_template",
    metadata,
    key("jeditaskid:jedi_task_id", "the task", _REFINE),
    words("jobparamstemplate:job_params_template", "template of job parameters", _REFINE),
    PrimaryKeyConstraint("jedi_task_id"),
    comment="templates of the job parameters of each task",
)

_FEED = "contents.feed"
_OUT = "contents.leave_out"
_FED = "contents.note_fed"
_RELEASED = f"{_FED} contents.release contents.lose {_WITHHOLD}"
_MARK = "contents.lose contents.find_again contents.release"
_NEW_DS = "dataset_rows.insert_datasets"
_END = "job_ends.end_jobs"
_GEN = "generation.write_jobs"
_DS_MOVE = "dataset_rows.move_datasets"
_RETRY = "commands.revive commands.give_up_unused recovery.undo"

datasets = Table(
    "jedi_datasets",
    metadata,
    key(
        "datasetid:dataset_id",
        "the dataset's identifier, from a sequence",
        _NEW_DS,
        server_default=dataset_id_seq.next_value(),
    ),
    words("datasetname:dataset_name", "scope:name", _NEW_DS, nullable=False),
    words(
        "containername:container_name",
        "the container it came from, or is in",
        f"{_NEW_DS} instances.at_sites",
    ),
    key("jeditaskid:jedi_task_id", "the task", _NEW_DS),
    col("masterid:master_id", BigInteger, "the master of a secondary dataset", _NEW_DS),
    col("provenanceid:provenance_id", BigInteger, "the input an output belongs to", _NEW_DS),
    words(
        "state",
        "open or closed in data management, when last looked up",
        f"{_FED} expiry.NOTE_GONE",
    ),
    stamp(
        "statechecktime:state_check_time",
        "time of the last look at the state",
        "datasets.note_look datasets.wake_consumers expiry.NOTE_GONE",
    ),
    stamp(
        "statecheckexpiration:state_check_expiration",
        "look-ups end here; NULL: none needed",
        _LATER,
    ),
    count("nfiles:n_files", "files, or ranges of their events, for jobs", f"{_FED} {_GEN}"),
    count("nfilestobeused:n_files_to_be_used", "files released for jobs", _RELEASED),
    count(
        "nfilesused:n_files_used", "files in jobs or through with them", f"{_GEN} {_END} {_RETRY}"
    ),
    count("nfilesfinished:n_files_finished", "files finished", _END),
    count("nfilesfailed:n_files_failed", "files failed for good", f"{_END} {_RETRY}"),
    count("nfilesonhold:n_files_on_hold", "files on hold", _LATER),
    col("nevents:n_events", BigInteger, "events in the dataset; NULL unless needed", _FED),
    col("neventstobeused:n_events_to_be_used", BigInteger, "events released", _RELEASED),
    col("neventsused:n_events_used", BigInteger, "events finished", _END),
    words("status", "use of the dataset by its task", f"{_NEW_DS} {_DS_MOVE}", nullable=False),
    stamp("creationtime:creation_time", "time of the record's insertion", _NEW_DS, now=True),
    stamp("modificationtime:modification_time", "time of the last update", _DS_MOVE, now=True),
    stamp("frozentime:frozen_time", "time of the dataset's freezing", _DS_MOVE),
    words("type", "input, output, log, pseudo_input, random_seed, ...", _NEW_DS, nullable=False),
    words("vo", "the virtual organisation", _NEW_DS),
    words("cloud", "the cloud whose replica is used", _LATER),
    words("site", "the site whose jobs fill it; NULL: any", "instances.at_sites"),
    words("lockedby:locked_by", "the process that takes care of the record", _LATER),
    stamp("lockedtime:locked_time", "time of the record's lock", _LATER),
    words("attributes", "attributes for splitting: ratio, nosplit, repeat, ...", _NEW_DS),
    words("streamname:stream_name", "its placeholder in the job parameters", _NEW_DS),
    words("storagetoken:storage_token", "storage of the files while the task runs", _NEW_DS),
    words(
        "destination",
        "the endpoint where outputs go",
        f"{_NEW_DS} decisions.assign_nuclei {_REASSIGN}",
    ),
    col(
        "templateid:template_id", BigInteger, "the container it was made for", "instances.at_sites"
    ),
    count(
        "nfileswaiting:n_files_waiting", "files waiting for real co-jumbo jobs", "placeholders.FLAG"
    ),
    # ours
    count(
        "nfilesmissing:n_files_missing",
        "files lost, missing or broken",
        f"contents.lose contents.find_again {_END}",
    ),
    col(
        "unprocessed",
        Boolean,
        "a master with files that are not processed, or not fed yet",
        "migration",
        server_default=Computed(UNPROCESSED, persisted=True),
    ),
    words(
        "fed_upto",
        "the last file that was listed, while later ones are still to be fed",
        f"{_FED} family.follow_retry",
    ),
    count("nleftout:n_left_out", "files and other entries that no job gets", _OUT),
    PrimaryKeyConstraint("dataset_id", "jedi_task_id"),
    one_of("status", {**states.INPUT_DATASET.states, **states.OUTPUT_DATASET.states}),
    Index(None, "jedi_task_id"),
    Index(None, "dataset_name", "type"),
    Index(
        "jedi_datasets_container_ix",
        "container_name",
        "type",
        postgresql_where=text("containername IS NOT NULL"),
    ),
    Index(
        "jedi_datasets_statecheck_ix",
        "state_check_time",
        postgresql_where=text("statecheckexpiration IS NOT NULL"),
    ),
    Index("jedi_datasets_locked_ix", "locked_time", postgresql_where=text("lockedby IS NOT NULL")),
    Index("jedi_datasets_waiting_ix", "jedi_task_id", postgresql_where=text("nfileswaiting > 0")),
    comment="datasets and their relations with tasks",
    postgresql_with={"fillfactor": "70"},
)

contents = Table(
    "jedi_dataset_contents",
    metadata,
    key(
        "fileid:file_id",
        "the file's identifier, from a sequence",
        _FEED,
        server_default=file_id_seq.next_value(),
    ),
    key("datasetid:dataset_id", "the dataset", _FEED),
    key("jeditaskid:jedi_task_id", "the task", _FEED),
    stamp("creationdate:creation_date", "time of the record's insertion", _FEED, now=True),
    stamp("lastattempttime:last_attempt_time", "time of the last attempt", _GEN),
    words("lfn", "the logical file name", f"{_FEED} recovery.rename", nullable=False),
    words("guid", "the file's GUID", f"{_FEED} {_END}"),
    words("type", "the dataset's type", _FEED, nullable=False),
    col("fsize", BigInteger, "size in bytes", f"{_FEED} contents.find_again {_END}"),
    words("checksum", "adler32, 8 hex digits", f"{_FEED} contents.find_again {_END}"),
    words("scope", "the scope", _FEED),
    words(
        "status",
        "the file's status",
        f"{_FEED} {_MARK} {_GEN} dispatch.accept_reports {_END} {_RETRY}",
        nullable=False,
    ),
    col(
        "attemptnr:attempt_nr",
        SmallInteger,
        "number of attempts",
        _GEN,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "maxattempt:max_attempt",
        SmallInteger,
        "largest number of attempts",
        f"{_FEED} commands.revive {_MERGE} {_END}",
    ),
    col("nevents:n_events", BigInteger, "events in the file", _FEED),
    col("keeptrack:keep_track", SmallInteger, "1 if the file's use is kept track of", _FEED),
    col("startevent:start_event", BigInteger, "first event of the range in the file", _FEED),
    col("endevent:end_event", BigInteger, "last event of the range in the file", _FEED),
    col("firstevent:first_event", BigInteger, "number given to the first event", _FEED),
    col("boundaryid:boundary_id", BigInteger, "splitting respects this id", f"{_FEED} {_GEN}"),
    col("pandaid:panda_id", BigInteger, "the job that uses the file", _GEN),
    col(
        "failedattempt:failed_attempt",
        SmallInteger,
        "number of failed attempts",
        _END,
        nullable=False,
        server_default=text("0"),
    ),
    col("lumiblocknr:lumi_block_nr", Integer, "lumi block in the file", _FEED),
    col("outpandaid:out_panda_id", BigInteger, "the job that made the file", _GEN),
    col(
        "maxfailure:max_failure",
        SmallInteger,
        "largest number of failed attempts",
        f"{_FEED} commands.revive {_MERGE}",
    ),
    words("is_waiting", "Y if it waits for a real co-jumbo job", "placeholders.FLAG"),
    col(
        "jobsetid:jobset_id",
        BigInteger,
        "the job set that uses the file",
        "job_sets.write_sets job_sets.add_consumers",
    ),
    words("proc_status", "the status as users see it", f"{_FEED} {_MARK} {_GEN} {_END} {_RETRY}"),
    # ours
    col(
        "ramcount:ram_count",
        Integer,
        "memory that its jobs need if the task asks for less, in the task's unit",
        _LATER,
    ),
    # an index on the status itself would make each change of it an update of all indexes
    col(
        "ready",
        Boolean,
        "the status is ready",
        "migration",
        server_default=Computed("status = 'ready'", persisted=True),
    ),
    count("freeattempt:free_attempt", "attempts that are nobody's fault", _END, SmallInteger),
    count("freeinrow:free_in_row", "the last of them in a row", _END, SmallInteger),
    words("reason", "the code of the reason, if no job gets the file", _OUT),
    PrimaryKeyConstraint("file_id", "jedi_task_id"),
    CheckConstraint("length(lfn) <= 256", name="lfn"),
    CheckConstraint("(status = 'skipped') = (reason IS NOT NULL)", name="reason"),
    one_of("status", {**states.INPUT_FILE.states, **states.OUTPUT_FILE.states}),
    Index(None, "jedi_task_id", "dataset_id"),
    Index(None, "dataset_id", "file_id"),
    Index(
        "jedi_dataset_contents_ready_ix", "dataset_id", "file_id", postgresql_where=text("ready")
    ),
    Index(
        "jedi_dataset_contents_unit_ix",
        "dataset_id",
        "boundary_id",
        postgresql_where=text("boundaryid IS NOT NULL"),
    ),
    Index(
        "jedi_dataset_contents_lfn_ix", "lfn", postgresql_where=text("type IN ('output', 'log')")
    ),
    comment="files (or event ranges of files) and their use by tasks",
    postgresql_with={
        "fillfactor": "40",  # outputs are a third longer at their end
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_analyze_scale_factor": "0.05",
    },
)

output_template = Table(
    "jedi_output_template",
    metadata,
    col(
        "outtempid",
        BigInteger,
        "the template's identifier",
        "dataset_rows.insert_templates",
        server_default=out_temp_id_seq.next_value(),
        nullable=False,
    ),
    key("jeditaskid:jedi_task_id", "the task", "dataset_rows.insert_templates"),
    key("datasetid:dataset_id", "the output dataset", "dataset_rows.insert_templates"),
    words(
        "filenametemplate:file_name_template",
        "template of output names",
        "dataset_rows.insert_templates",
        nullable=False,
    ),
    words(
        "sourcename:source_name",
        "the payload's own name of the file, if another",
        "dataset_rows.insert_templates",
    ),
    col(
        "serialnr:serial_nr",
        Integer,
        "the last serial number used",
        _GEN,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "maxserialnr:max_serial_nr",
        Integer,
        "the largest serial number allowed",
        "dataset_rows.insert_templates",
    ),
    words(
        "streamname:stream_name",
        "its placeholder in the job parameters",
        "dataset_rows.insert_templates",
    ),
    words("outtype:out_type", "output or log", "dataset_rows.insert_templates"),
    PrimaryKeyConstraint("outtempid"),
    Index(None, "jedi_task_id"),
    comment="templates of the file names of each output dataset",
)

_QUEUES = "queues.put_queues"

work_queue = Table(
    "jedi_work_queue",
    metadata,
    col("queue_id", Integer, "unique identifier", _QUEUES, nullable=False, autoincrement=False),
    words("queue_name", "the queue's name", _QUEUES, nullable=False),
    words("queue_type", "the prodSourceLabel it serves", _QUEUES, nullable=False),
    words("vo", "the virtual organisation it serves", _QUEUES, nullable=False),
    col("queue_share", Integer, "its share; NULL: not throttled", _QUEUES),
    col("queue_order", Integer, "evaluated before queues of higher order", _QUEUES),
    words("criteria", "SQL condition on jedi_tasks", _QUEUES),
    words("variables", "values of the condition's variables", _QUEUES),
    col("partitionid", Integer, "its partition; -1: it is a partition", _QUEUES),
    col("stretchable", SmallInteger, "1 if it may use shares of idle queues", _QUEUES),
    words("status", "active or inactive", _QUEUES),
    # ours
    col(
        "caps",
        JSONB,
        "limits of the throttler in jobs, by NQUEUELIMIT, NQUEUECAP or NRUNNINGCAP, "
        "with _<resource type> for one alone",
        _QUEUES,
    ),
    PrimaryKeyConstraint("queue_id"),
    UniqueConstraint("queue_order"),
    UniqueConstraint("queue_name"),
    CheckConstraint("length(queue_name) <= 64", name="name"),
    comment="partitions and shares of the workload",
)

job_retry_history = Table(
    "jedi_job_retry_history",
    metadata,
    key("jeditaskid:jedi_task_id", "the task", _GEN),
    key("oldpandaid:old_panda_id", "the earlier job", _GEN),
    key("newpandaid:new_panda_id", "the later job", _GEN),
    words("relationtype:relation_type", "retry, merge, ...", _GEN),
    col("originpandaid:origin_panda_id", BigInteger, "the first job of the line", _GEN),
    PrimaryKeyConstraint("jedi_task_id", "new_panda_id", "old_panda_id"),
    Index(None, "old_panda_id"),
    Index(None, "origin_panda_id"),
    comment="jobs and the jobs that replaced them",
)

process_lock = Table(
    "jedi_process_lock",
    metadata,
    words("prodsourcelabel:prod_source_label", "the source label", "locks.take", nullable=False),
    words("vo", "the virtual organisation", "locks.take", nullable=False),
    col("workqueue_id", Integer, "the work queue", "locks.take", nullable=False),
    words("cloud", "the cloud", "locks.take", nullable=False, server_default=""),
    words("lockedby:locked_by", "the process that holds the lock", "locks.take", nullable=False),
    stamp("lockedtime:locked_time", "time of the lock", "locks.take", now=True),
    # ours
    words("component", "object of the lock", "locks.take", nullable=False, server_default=""),
    stamp("lease_until", "the lock ends here, in real time", "locks.take"),
    PrimaryKeyConstraint("prod_source_label", "vo", "workqueue_id", "cloud", "component"),
    comment="locks of agents and dogs",
)
