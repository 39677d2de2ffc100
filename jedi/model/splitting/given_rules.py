"""The rules that a task gives under the same names as jedi_tasks.rules keeps them.

One line a rule: its type, its two letters in jedi_tasks.splitrule, its meaning, and its key where
that is not the name in camelCase. Rules that other task parameters stand for, or JEDI itself makes,
are in `split_rules`. Source: docs/reference/splitting.md#split-rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

NO_WORDS: Mapping[str, int] = MappingProxyType({})

Flag = Annotated[bool | None, AfterValidator(lambda value: value or None)]
"""Set or not; false says as much as nothing."""
Count = Annotated[int, Field(ge=1, le=2**31 - 1)] | None
WholeNumber = Annotated[int, Field(ge=0, le=2**31 - 1)] | None
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None
Percent = Annotated[int, Field(ge=0, le=100)] | None
Tenths = Annotated[int, Field(ge=0, le=10)] | None
Mode = Annotated[int, Field(ge=1, le=4)] | None
Fields = Annotated[list[Annotated[int, Field(ge=1, le=99)]], Field(min_length=1)] | None
Word = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9_.:|/-]+$")] | None


def rule(
    code: str, meaning: str, key: str | None = None, words: Mapping[str, int] = NO_WORDS
) -> Any:
    """A rule that may be given or not. `words`: the numbers that stand for them in the text."""
    extra: dict[str, Any] = {"code": code}
    if words:
        extra["words"] = dict(words)
    return Field(default=None, alias=key, description=meaning, json_schema_extra=extra)


class Rules(BaseModel):
    """All of them; None: no rule."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # how large a job is
    n_events_per_job: Count = rule("NE", "events of a job, across files")
    n_files_per_job: Count = rule("NF", "files of a job")
    n_gb_per_job: Positive = rule("NG", "input and expected output of a job, in GB", "nGBPerJob")
    max_events_per_job: Count = rule("MX", "most events of a job that gets its events as it runs")
    dynamic_num_events: Count = rule("DY", "events that a job gets at a time as it runs")
    group_boundary_id: Mode = rule(
        "GB",
        "files with the same boundary id share jobs; 2 and 4: their outputs share it, too; 3 and "
        "4: all files of an id go to one job",
        "groupBoundaryID",
    )
    respect_lb: Flag = rule("RL", "all files of a job have one lumi block", "respectLB")
    order_by_lb: Flag = rule(
        "OL", "files are used in the order of lumi blocks, then names", "orderByLB"
    )
    release_per_lb: Flag = rule("RP", "open input is released by lumi blocks", "releasePerLB")
    order_input_by: Literal["eventsAlignment"] | None = rule(
        "OI", "files whose events fill whole jobs come first", words={"eventsAlignment": 1}
    )
    respect_split_rule: Flag = rule("RR", "scouts are as large as other jobs")
    tot_num_jobs: Count = rule("TJ", "jobs of the task, for display")
    max_num_jobs: Count = rule("MN", "most jobs of a parameter scan")
    no_input_pooling: Flag = rule("NI", "open input is released job by job")
    n_chunks_to_wait: Count = rule("NT", "open input is released for this many jobs at once")
    segmented_work: Flag = rule("SW", "the work has named segments")
    max_core_count: Count = rule("CC", "most cores of a job")
    random_seed: WholeNumber = rule("RS", "offset of the random seeds")
    first_event: WholeNumber = rule("FT", "offset of ${FIRSTEVENT}")

    # merging
    merge_output: Flag = rule("MO", "outputs are merged")
    n_files_per_merge_job: Count = rule("ZF", "files of a merge job")
    n_events_per_merge_job: Count = rule("ZE", "events of a merge job")
    n_gb_per_merge_job: Positive = rule("ZG", "GB of a merge job", "nGBPerMergeJob")
    n_max_files_per_merge_job: Count = rule("ZM", "most files of a merge job")
    on_site_merging: Flag = rule("OM", "the job that makes files merges them, too")
    merge_es_on_os: Flag = rule(
        "ME", "pieces of events are merged from object stores", "mergeEsOnOS"
    )

    # a task's life
    scout_success_rate: Tenths = rule("SS", "tenths of the scouts that must succeed")
    use_exhausted: Flag = rule("UX", "a task below its goal is exhausted instead of finished")
    fail_goal_unreached: Flag = rule("FG", "a task below its goal fails instead of finishing")
    disable_auto_finish: Flag = rule("DF", "an exhausted task does not finish by itself")
    disable_auto_retry: Flag = rule("DR", "each file is tried once")
    disable_reassign: Flag = rule("DI", "the task cannot be reassigned")
    allow_partial_finish: Flag = rule("AP", "jobs may finish without some of their events")
    allow_empty_input: Flag = rule("AE", "a task without any input file finishes")
    allow_incomplete_in_ds: Flag = rule(
        "AI", "input datasets may lack files at a site", "allowIncompleteInDS"
    )
    no_auto_pause: Flag = rule("NP", "failures do not pause the task")
    min_cpu_efficiency: Percent = rule(
        "MC", "percent of processor time below which scouts exhaust the task"
    )
    workflow_holdup: Flag = rule("WH", "the input counts as open until the task is released")
    no_looping_check: Flag = rule("LC", "the looping check does not kill jobs")
    debug_mode: Flag = rule("DM", "jobs report their output as they run")
    use_build: Flag = rule("UB", "a build job makes the software first")
    retry_module_rules: Word = rule("RM", "changes by attempts, as XX:value with bars between")
    retry_ram_offset: WholeNumber = rule("RX", "memory in MB at which retries start")
    retry_ram_step: WholeNumber = rule("RY", "memory in MB that each retry adds")
    retry_ram_max: WholeNumber = rule("RZ", "most memory in MB that retries ask for")

    # input
    wait_input: Flag = rule("WI", "wait for input that does not exist yet")
    ignore_missing_in_ds: Flag = rule(
        "IM", "skip input datasets that do not exist", "ignoreMissingInDS"
    )
    run_until_closed: Flag = rule("RC", "continue until the input is closed")
    no_wait_parent: Flag = rule("NW", "read the parent's outputs while the parent makes them")
    intermediate_task: Flag = rule("IN", "the outputs are for other tasks only")
    full_chain: Literal["only", "require", "capable"] | None = rule(
        "FU",
        "the chain of tasks runs at one nucleus",
        words={"only": 1, "require": 2, "capable": 3},
    )
    input_pre_staging: Flag = rule("IS", "input comes from tape first")
    use_real_num_events: Flag = rule(
        "UE", "numbers of events come from data management, not from nEventsPerInputFile"
    )
    reuse_sec_on_demand: Flag = rule("RO", "secondary files are used again when they run short")
    in_file_pos_evt_num: Flag = rule("IF", "jobs get positions of events in files")
    write_input_to_file: Flag = rule("WF", "jobs get file names in a file")
    use_local_io: Flag = rule("LI", "inputs are copied to the host of the job", "useLocalIO")
    allow_input_lan: Literal["use", "only"] | None = rule(
        "IL",
        "jobs may read input over the local network",
        "allowInputLAN",
        words={"use": 1, "only": 2},
    )
    allow_input_wan: Flag = rule("IW", "jobs may read input over the wide network", "allowInputWAN")
    avoid_vp: Flag = rule("AV", "no virtual placement of input", "avoidVP")

    # output
    add_nth_field_to_lfn: Fields = rule(
        "AN",
        "${MIDDLENAME} consists of these fields of the input dataset's name",
        "addNthFieldToLFN",
    )
    use_file_as_source_lfn: Flag = rule(
        "UF",
        "${MIDDLENAME} consists of fields of the first input file's name",
        "useFileAsSourceLFN",
    )
    instantiate_tmpl: Flag = rule(
        "IT", "output datasets are made when jobs need them, in a container of the given name"
    )
    instantiate_tmpl_site: bool | None = rule(
        "IA",
        "instantiateTmpl makes one dataset per site; default for prodSourceLabel user, unless the "
        "vo is local",
    )
    register_datasets: Flag = rule(
        "RD", "output datasets are registered before the first jobs are made, as always"
    )
    stay_output_on_site: Flag = rule("SO", "outputs stay at the site of their job")
    alt_stage_out: Literal["on", "off", "force"] | None = rule(
        "AT",
        "outputs may go elsewhere when their storage fails",
        words={"on": 1, "off": 2, "force": 3},
    )
    put_log_to_os: Flag = rule("PO", "logs go to an object store", "putLogToOS")
    ddm_back_end: Word = rule("DE", "the data management system")

    # placement
    t1_weight: Annotated[int, Field(ge=-1, le=10_000)] | None = rule(
        "TW", "weight of large sites; -1: only they"
    )
    ip_connectivity: Literal["full", "http"] | None = rule(
        "IP", "connections that jobs need", words={"full": 1, "http": 2}
    )
    ip_stack: Literal["IPv4", "IPv6"] | None = rule(
        "IK", "the addresses that jobs need", words={"IPv4": 4, "IPv6": 6}
    )
    os_matching: Flag = rule("OS", "the operating system must match")
    only_tags_for_fc: Flag = rule("OT", "use only sites that name the release", "onlyTagsForFC")
    cloud_as_vo: Flag = rule("CV", "the cloud is the virtual organisation's", "cloudAsVO")

    # event service
    n_events_per_worker: Count = rule("ES", "events of a range that a job gets while it runs")
    n_es_consumers: Count = rule("EC", "consumers or copies of each job", "nEsConsumers")
    n_sites_per_job: Count = rule("NS", "sites of these consumers or copies")
    max_attempt_es: Count = rule("XA", "attempts of events", "maxAttemptES")
    max_attempt_es_job: WholeNumber = rule(
        "XJ", "consumers that may follow those that fail", "maxAttemptEsJob"
    )
    dec_att_on_failed_es: Flag = rule(
        "XF", "events of a failed job lose no attempt", "decAttOnFailedES"
    )
    not_discard_events: Flag = rule(
        "ND", "processed events of killed jobs and failed job sets count"
    )
    resurrect_consumers: Flag = rule("SC", "closed consumers may come back")
    switch_es_to_normal: Flag = rule(
        "SE", "jobs at sites that take jobs of all kinds are ordinary ones", "switchEStoNormal"
    )
    register_es_files: Flag = rule("RE", "pieces are registered", "registerEsFiles")
    use_job_cloning: Literal["runonce", "storeonce"] | None = rule(
        "UC",
        "of the copies of a job the first to start or to store counts",
        words={"runonce": 1, "storeonce": 2},
    )
    use_zip_to_pin: Flag = rule("UZ", "inputs are pinned by archives")
    use_prefetcher: Flag = rule("UT", "inputs are fetched ahead")
    n_jumbo_jobs: Count = rule("NJ", "jumbo jobs of the task")
    max_jumbo_per_site: Count = rule("MJ", "jumbo jobs of the task at a site")
    fine_grained_proc: Flag = rule("FP", "ranges of events fail by themselves")
    hpo_workflow: Flag = rule("HO", "hyper-parameters are searched")

    # messages and payload
    message_driven: Flag = rule("MD", "messages trigger the agents")
    push_status_changes: Flag = rule("PC", "messages report changes of status")
    push_job: Flag = rule("PJ", "jobs are pushed to sites")
    enc_job_params: Flag = rule("EJ", "job parameters reach payloads unchanged, as they always do")
    use_secrets: Flag = rule("ST", "jobs get the owner's secrets")
    multi_step_exec: Flag = rule("MS", "the payload has several steps")
    no_exec_str_cnv: Flag = rule("NC", "job parameters are passed as written, as they always are")
