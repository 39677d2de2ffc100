"""The closed list of reason codes: why a task, a dataset or a job is where it is.

A code can be counted; the sentence here has its meaning and, where there is one, the remedy. The
sentence that stands beside a code in a log has the facts of the case. test_reasons.py proves that
the list and the code agree; a full test run proves that every code is really produced.
"""

from __future__ import annotations

from collections.abc import Mapping

TASKS: Mapping[str, str] = {
    # on its way
    "submitted": "The task was stored.",
    "refined": "The submitted parameters became a task, or a dataset of a task.",
    "fed": "The input files are recorded.",
    "to_split": "The input of the herd is known: the splitter divides it.",
    "units_resubmitted": "Units of the task are submitted again: it goes on with them.",
    "split": "The herd has its units.",
    "needs_nucleus": "The task needs a nucleus, which collects the outputs.",
    "nucleus_chosen": "The nucleus, which collects the outputs, is chosen.",
    "scouts_generated": "The first jobs were made: the others follow when these are measured.",
    "jobs_generated": "Jobs were made.",
    "builds_generated": "A build job makes the software first, where jobs are to run.",
    "build_running": "The task waits for the build of its software.",
    "scouts_anew": "Scout jobs had too little time: JEDI cuts smaller ranges of events and makes "
    "new scouts.",
    "scouts_succeeded": "Scout jobs succeeded: all others follow.",
    "needs_preprocessing": "A pre-processing job runs first and defines the work.",
    "preprocessing_job_generated": "The pre-processing job was made.",
    "preprocessed": "The pre-processing job defined the work: the task is refined with its "
    "results.",
    "input_still_open": "All known input is processed; more may come.",
    "all_processed": "No input is left and no job is running.",
    # waiting; nothing has to be done about it
    "unique_name_taken": "The owner has another task of this name and asked for a unique one: the "
    "task was aborted.",
    "input_not_made": "Another task still makes the input: JEDI reads it when that task has ended.",
    "input_awaited": "The input does not exist yet, and the task waits for it (waitInput).",
    "input_open": "The input is open, more may come: close the dataset when it is complete.",
    "input_on_tape": "The input is coming from tape; release the task to skip the wait.",
    "staged": "The input arrived from tape: the task continues.",
    "release": "A person released the task: it does not wait for files on tape.",
    "workflow_hold": "A workflow holds the task until: jedi-task release.",
    "parent_not_ready": "The task waits for the end of its parent.",
    "no_ready_files": "No input file is ready for a job at the moment.",
    "queue_served": "Other tasks took the work queue's part of this cycle: wait for the next one.",
    "queue_throttled": "The work queue has enough jobs for its running ones: wait.",
    "queue_full": "The work queue has as many waiting jobs as it may have: wait.",
    # on hold
    "hold_over": "The hold is over: the task is tried again.",
    "refining_failed": "The task could not be refined for now: check data management.",
    "feeding_failed": "The input could not be looked up for now: check data management.",
    "splitting_failed": "The herd could not be split for now: check data management.",
    "assigning_failed": "JEDI itself failed to choose a nucleus: report it.",
    "no_nucleus": "No nucleus fits the task: the reason names the lack of each.",
    "no_site_now": "No site takes the jobs at the moment; this may pass by itself.",
    "no_site_fits": "No site can run the jobs: change the task's requirements, or reassign it.",
    "secondary_files_short": "A secondary dataset has fewer files than a job needs: add some, or "
    "lower nFilesPerJob.",
    "inputs_alike": "A job would read two files of the same name: rename one and submit the task "
    "anew.",
    "output_is_input": "An output would replace an input of its job, since both have the same "
    "name: submit the task anew with another name for the output.",
    "bad_unit_value": "A value of a unit makes a bad name of an output: submit the task anew.",
    "too_many_files_per_job": "A job would have more files than the limit: lower nFilesPerJob.",
    "boundary_id_too_large": "A boundary id has more files or output than a job may have: raise "
    "the limit in the reason, or use groupBoundaryID 1 or 2.",
    "serial_numbers_used_up": "No serial number is left for output names.",
    "unresolved_placeholder": "A placeholder has no value: correct the jobParameters.",
    "inputs_changed": "Input files changed while jobs were made from them: JEDI tries again.",
    "generation_failed": "JEDI itself failed to make jobs: report it.",
    "unreachable": "A service that JEDI needs does not answer: JEDI tries again.",
    "endpoint_missing": "Data management does not know an endpoint: check the sites.",
    "internal_error": "An agent failed by a fault of JEDI and tries again: report it.",
    "plugin_failed": "The plug-in of the task's vo and prodSourceLabel fails: correct or uninstall "
    "it, and restart JEDI.",
    "plugin_timeout": "The plug-in of the task's vo and prodSourceLabel does not answer in time "
    "(knob agent.plugin_s). JEDI tries it again: correct it, or raise the knob.",
    # waits for a person
    "scouts_too_slow": "Scout jobs took much more time an event than the task says: retry it to "
    "continue, or submit it anew with better figures.",
    "scouts_too_large": "Scout jobs took much more memory than the task says: retry it to "
    "continue, or submit it anew with better figures.",
    "scouts_too_short": "Very many very short jobs are expected: make jobs larger, or retry the "
    "task to continue.",
    "many_attempts": "Inputs failed again and again: no jobs are made for a while. Check their "
    "errors; resume the task to continue at once.",
    "throttle_over": "The task rested long enough: jobs are made again.",
    "failure_rate": "Most jobs failed: check their errors, then resume the task or end it.",
    "exhausted_timeout": "No person decided about the exhausted task in time: it ends with its "
    "present results.",
    "scouts_too_idle": "Scout jobs used less of their cores than minCpuEfficiency asks: retry the "
    "task to continue, or submit it anew.",
    "scouts_too_busy": "Scout jobs used more processors than they asked for: submit the task anew "
    "with a higher coreCount, or retry it to continue.",
    "scouts_partly_failed": "Fewer scout jobs succeeded than the task asks: retry it to run the "
    "others.",
    "pending_timeout": "The task was on hold, or without a nucleus, for too long: remove the "
    "cause, then retry it.",
    "worker_killed": "Processes that worked on the task died again and again: report it.",
    # commands
    "kill": "An operator or the owner killed the task.",
    "finish": "An operator or the owner finished the task early.",
    "retry": "An operator or the owner retried failed inputs.",
    "recover": "An operator or the owner asked for lost outputs again.",
    "retried": "A new attempt begins.",
    "nothing_to_retry": "No input failed and no input is left.",
    "retry_limit": "The task cost too much for a retry: mend it, or retry it with --transcend.",
    "priority_set": "A command changed the priority of the task.",
    "incexec": "A command asked for new inputs and changed parameters.",
    "parameters_merged": "The changed parameters are stored: a new attempt begins.",
    "pause": "A command paused the task until it is resumed.",
    "resume": "A command resumed the task.",
    "reassign": "The task was reassigned.",
    "avalanche": "A command released all jobs without waiting for the scouts.",
    # relatives
    "parent_failed": "The parent failed, is broken or was aborted: the task ends, too.",
    "parent_retried": "The parent was retried: the task follows.",
    # the end
    "inputs_done": "All inputs were processed.",
    "inputs_finished": "Some inputs were processed: retry the task for the others.",
    "inputs_failed": "No input was processed: check the errors of its jobs.",
    "empty_input_allowed": "The input is empty, and the task allows that.",
    "goal_not_met": "Less input was processed than the goal: retry the task for the rest, or "
    "finish it.",
    "duplicates_found": "Several jobs processed the same input: compare their outputs, then resume "
    "or kill the task.",
    "no_input": "The input is empty.",
    "preprocessing_failed": "The pre-processing job failed: check its errors.",
    "build_failed": "The software could not be built: check the errors of the build jobs.",
    "scouts_failed": "Too few scout jobs succeeded: check their errors, submit the task anew.",
    "malformed": "The parameters are wrong: correct them and submit the task anew.",
    "input_malformed": "Data management gives contradictory facts about an input: correct them.",
    "input_unknown": "Data management does not know an input dataset: check its name.",
    "input_empty": "No input dataset has a file.",
    "files_unknown": "A file that the task names is not in its dataset.",
    "events_unknown": "The number of events of a file is unknown: give nEventsPerInputFile.",
    "too_many_files": "A dataset has more files than a task may have: divide it.",
    "split_refused": "The splitter cannot divide the input: correct its options or the input.",
    "splitter_unknown": "The splitter is not installed: install it, or name another.",
    "splitter_failed": "The splitter, a plug-in, ended without units: correct it, as "
    "docs/splitters.md says.",
    "splitter_timeout": "The splitter, a plug-in, took too long: make it faster, or raise knob "
    "split.timeout_s.",
    "splitter_nonsense": "The splitter, a plug-in, made units that no herd can have: correct it, "
    "as docs/splitters.md says.",
    "split_made_no_units": "The splitter made no unit of the herd: correct its options.",
    "too_large_units": "The options of the units are longer than allowed: shorten them, or raise "
    "knob split.max_mb.",
    "too_many_units": "The splitter makes more units than a herd may have: make units larger, or "
    "raise knob split.max_units.",
}
"""Reasons of tasks; a dataset or a job may share one."""

DATASETS: Mapping[str, str] = {
    "made_for_site": "The dataset was made for the outputs of new jobs.",
    "registered": "Data management knows the output dataset.",
    "fed_open": "The files so far are recorded; more may come.",
    "unavailable": "The dataset could not be looked up for now.",
    "unusable": "The dataset cannot be used: the task has the reason.",
    "processed": "The dataset has no work left.",
    "frozen": "The dataset is closed: its task has ended.",
    "not_in_container": "The container no longer lists the dataset.",
}
"""Reasons of datasets."""

JOBS: Mapping[str, str] = {
    # on its way
    "generated": "The job was made.",
    "input_ready": "All inputs are at the site.",
    "acquired": "A pilot took the job.",
    "reported": "The pilot reported the progress of the job.",
    "outputs_move": "Outputs are on their way from the site to their destination.",
    "to_be_merged": "The outputs are stored at the site and wait for a merge job.",
    "job_finished": "The job succeeded and its outputs are stored.",
    "merged": "A merge job has merged the outputs: the job is finished.",
    "task_paused": "The task is paused: no pilot gets the job.",
    "task_resumed": "The task was resumed.",
    "user_cap": "Its user or working group has reached the limit of running jobs: wait.",
    "user_cap_over": "Its user or working group may have more running jobs again.",
    "held": "The owner holds the job: release it to continue.",
    "released": "The hold of the job has ended.",
    "to_be_purged": "The owner limited the life of the outputs; the log stays.",
    "purged": "The outputs were removed at the end of their life.",
    # ended by the system or by people
    "cancelled_by_user": "A person cancelled this job alone: its inputs are tried again if "
    "attempts are left.",
    "killed": "The task ended, and the job with it.",
    "reassigned": "The job ended because its task was reassigned.",
    "restored": "The database was restored from a backup: the inputs are tried again.",
    "shut_down": "JEDI was shut down: the inputs are tried again.",
    "pilot_terminated": "The site ended the pilot: the inputs are tried again.",
    "merge_cancelled": "The merge job of the outputs was killed: the inputs are tried again.",
    "merge_closed": "The system ended the last merge job of the outputs: they are not merged.",
    "waiting_timeout": "The jobs that it waited for did not come: the inputs are tried again.",
    "setup_timeout": "The job was not set up: the inputs are tried again.",
    "defined_timeout": "The job was not prepared: the inputs are tried again.",
    "assigned_timeout": "The inputs did not reach the site: they are tried again elsewhere.",
    "activated_timeout": "The job did not start for days: its inputs are tried elsewhere.",
    "rebrokered": "No pilot took the analysis job for hours: its inputs are tried elsewhere.",
    "idle_site": "No job starts at the site: the inputs of the urgent one are tried elsewhere.",
    "t2_timeout": "Too little runs at the T2: the inputs are tried elsewhere.",
    "t1_timeout": "No pilot took the job at the T1: its inputs are tried elsewhere.",
    "throttled_timeout": "The job was throttled for days: the inputs are tried again.",
    "given_back": "The site is offline or paused: another site gets the job.",
    "not_taken": "No pilot took the merge job or jumbo job: another site gets one.",
    "merge_failed": "The outputs could not be merged: the inputs are tried again. Read the log of "
    "the merge job.",
    # events that are handed out while jobs run
    "es_retry": "The job processed some ranges of events; another job processes the others.",
    "es_inaction": "The job processed no range of events; others do, or another one tries.",
    "es_noevent": "The job got no range of events; another job tries those that are left.",
    "es_wait": "No range of events is left, but other jobs of the set still have some.",
    "es_merge": "All ranges of events are processed: a job near their pieces merges them.",
    "es_merge_again": "The merge of the pieces failed: another job tries it.",
    "es_jumbo": "The jumbo job processed ranges of events; those without a result came back.",
    "es_merged": "The pieces of the job set are merged: the job is finished.",
    "es_merge_failed": "The pieces could not be merged: the inputs are tried again. Read the log "
    "of the merge job.",
    "es_heartbeat": "The pilot fell silent before a range of events was processed.",
    "pilot_failed": "The pilot reported an error before a range of events was processed: the "
    "reason has it.",
    "es_killed": "All ranges of the job set are being merged: the job is needed no longer.",
    "es_unused": "No pilot had the job before all ranges of its job set were processed.",
    "es_aborted": "The job set ended without success, and the job with it.",
    "es_ranges_failed": "Ranges of events have no attempt left: check the errors of the jobs, or "
    "allow partial results (allowPartialFinish).",
    "es_attempts": "Ranges of events are left, but no job may follow (maxAttemptEsJob).",
    "es_no_queue": "Ranges of events are left, but no site of the job set is online.",
    "es_merge_refused": "The broker takes no site that reads all pieces of the job set: `why` has "
    "its reasons.",
    "es_no_merge_site": "No site that is online reads all pieces of the job set: set one online, "
    "or let one read their endpoints.",
    "es_pieces_lost": "Pieces of the job set could be read by no site that is online for long: "
    "their events are processed again.",
    "jc_unlock": "Another copy of the job was first.",
    # the payload's fault
    "payload_exit": "The payload ended with an exit code, or by a signal: read its log.",
    "output_missing": "The payload did not make an output: compare names with the task's.",
    "bad_metadata": "The payload's jedi_metadata.json is not valid: correct it.",
    "output_not_file": "An output is not a regular file.",
    "wall_limit": "The payload exceeded its wall time.",
    "cpu_limit": "The payload exceeded its CPU time.",
    "memory_limit": "The payload exceeded its memory: raise ramCount.",
    "workdir_limit": "The payload's files exceeded their disk space: raise workDiskCount.",
    "disk_full": "The payload filled the disk of its work directory. Give the site a maxwdir, or a "
    "work directory with more space.",
    "process_limit": "The payload exceeded its number of processes.",
    # the site's, or a file's
    "stagein_missing": "An input is missing at its endpoint.",
    "stagein_size": "An input has another size than recorded.",
    "stagein_checksum": "An input is damaged: its checksum differs.",
    "stagein_failed": "An input could not be copied.",
    "stagein_sandbox": "The sandbox could not be fetched.",
    "sandbox_bad": "The sandbox could not be unpacked.",
    "stageout_failed": "An output could not be stored at the site.",
    "output_not_reported": "The pilot reported success without some of the outputs.",
    "size_differs": "An output differs in size from the pilot's report.",
    "declared_otherwise": "Data management has an older entry of an output with other values: "
    "remove it.",
    "target_differs": "Another file already has the name of an output: choose another name.",
    "staged_missing": "An output that the pilot reported is missing.",
    "dataset_missing": "The dataset of an output is missing: check its storage.",
    "dataset_closed": "An output arrived after its dataset was closed.",
    "transfer_failed": "Outputs did not reach their destination.",
    # the pilot's
    "lost_pilot": "The pilot died.",
    "lost_heartbeat": "The pilot fell silent.",
    "lost_node": "The batch system ended the pilot at its own limit, or the node was lost: the "
    "inputs are tried again.",
    "lost_site": "All pilots of the site fell silent: the inputs are tried again.",
    "running_timeout": "The job ran for weeks.",
    "holding_timeout": "The results could not be added for hours: check data management.",
    "transfer_timeout": "The outputs did not arrive for days: check the links of the site.",
    "hold_timeout": "The job was held in a pilot until its deadline: the slot is free again.",
    "sent_timeout": "The pilot did not start the job that it took.",
    "pilot_error": "The pilot itself failed: report it.",
    "panda_unfit": "A pilot of PanDA got the job and can't run it: the reason says why. Rename the "
    "files, or let JEDI's own pilots serve the site.",
    "no_reason": "The pilot reported a failure without a reason.",
}
"""Reasons of jobs: their log and error_code."""

FILES: Mapping[str, str] = {
    "bad_file_name": "A job cannot use the name: rename the file.",
    "not_a_file": "The entry is a directory, a FIFO, a socket or a device.",
    "link_broken": "The link ends at no file: mend it, or remove it.",
    "link_outside": "The link leads out of its storage: put a copy in its place.",
    "no_events": "The file has no events.",
    "not_selected": "The task does not select the file (files, include, exclude, offset, "
    "num_records).",
    "too_few_events": "The file has too few events for the task (skipShortInput).",
    "used_elsewhere": "A task of skipFilesUsedBy processed the file.",
    "not_from_parent": "The parent of the task did not finish the file.",
    "without_master": "No file of the master dataset has this place (indexConsistent).",
    "beyond_limit": "The task has as much input as it wants (nFiles, nEvents, skipShortOutput).",
}
"""Reasons of input files and other entries of a dataset that no job gets."""

REASONS: Mapping[str, str] = {**TASKS, **DATASETS, **JOBS, **FILES}
