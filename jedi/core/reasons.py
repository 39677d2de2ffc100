"""The closed list of reason codes: why a task, a dataset or a job is where it is.

A code can be counted; the sentence here says what it means and, where there is one, the remedy.
The sentence that stands beside a code in a log has the facts of the case. test_reasons.py proves
that the list and the code agree; a full test run proves that every code is really produced.
"""

from __future__ import annotations

from collections.abc import Mapping

TASKS: Mapping[str, str] = {
    # on its way
    "submitted": "The task was stored.",
    "refined": "What was submitted became a task, or a dataset of a task.",
    "fed": "The files of the input are known.",
    "needs_nucleus": "A place where outputs are collected is to be chosen.",
    "nucleus_chosen": "The place where outputs are collected is chosen.",
    "scouts_generated": "The first jobs were made: the others follow when these were measured.",
    "jobs_generated": "Jobs were made.",
    "builds_generated": "The software is built first where jobs are to run.",
    "build_running": "The task waits for its software to be built.",
    "scouts_succeeded": "Scout jobs succeeded: all others follow.",
    "needs_preprocessing": "A job is to tell first what there is to do.",
    "preprocessing_job_generated": "The job that tells what there is to do was made.",
    "preprocessed": "A job told what there is to do: the task is refined with that.",
    "input_still_open": "The input known so far is processed; more may come.",
    "all_processed": "No input is left and no job is running.",
    # waiting; nothing has to be done about it
    "unique_name_taken": "The owner has a task of this name, and wanted no other: it was aborted.",
    "input_not_made": "Another task still makes the input: it is read when that has ended.",
    "input_awaited": "Nobody knows the input yet, and the task wants to wait for it (waitInput).",
    "input_open": "The input is open, more may come: close the dataset when it is complete.",
    "input_on_tape": "The input is being brought from tape; release the task to do without.",
    "staged": "Input was brought from tape: the task goes on.",
    "release": "The task was told to wait for no file from tape.",
    "workflow_hold": "A workflow says when the task goes on: jedi-task release.",
    "parent_not_ready": "The task waits for the end of its parent.",
    "no_ready_files": "No input file is ready for a job at the moment.",
    "queue_served": "Other tasks took what the work queue gets in a cycle: the next one is near.",
    "queue_throttled": "The work queue has enough jobs for its running ones: wait.",
    "queue_full": "The work queue has as many waiting jobs as it may have: wait.",
    # on hold
    "hold_over": "The task was on hold and is tried again.",
    "refining_failed": "The task could not be refined for now: look at data management.",
    "feeding_failed": "The input could not be looked up for now: look at data management.",
    "assigning_failed": "No nucleus could be chosen, for a fault of ours: report it.",
    "no_nucleus": "No nucleus fits the task: the reason tells what each of them lacks.",
    "no_site_now": "No site takes the jobs at the moment, which may pass by itself.",
    "no_site_fits": "No site can run the jobs: change what the task asks for, or reassign it.",
    "secondary_files_short": "Fewer files accompany the master's than a job needs: add some, or "
    "lower nFilesPerJob.",
    "inputs_alike": "A job would read two files of one name: rename one, submit the task anew.",
    "output_is_input": "An output has the name of an input of its job, which it would replace: "
    "submit the task anew with another name for the output.",
    "too_many_files_per_job": "A job would have more files than one may have: lower nFilesPerJob.",
    "serial_numbers_used_up": "No serial number is left for output names.",
    "unresolved_placeholder": "A placeholder has nothing behind it: correct the jobParameters.",
    "inputs_changed": "Input files changed while jobs were made of them: it is tried again.",
    "generation_failed": "Jobs could not be made, for a fault of ours: report it.",
    "unreachable": "A service that is needed does not answer: it is tried again.",
    "endpoint_missing": "Data management does not know an endpoint: look at the sites.",
    "internal_error": "An agent failed, for a fault of ours: it tries again; report it.",
    # waits for a person
    "scouts_too_slow": "Scout jobs took much more time an event than the task says: retry it all "
    "the same, or submit it anew with better figures.",
    "scouts_too_large": "Scout jobs took much more memory than the task says: retry it all the "
    "same, or submit it anew with better figures.",
    "scouts_too_short": "Very many very short jobs are expected: let each do more, or retry the "
    "task all the same.",
    "many_attempts": "Inputs failed again and again: no jobs are made for a while. Look at their "
    "errors; resume the task to go on at once.",
    "throttle_over": "The task rested long enough: jobs are made again.",
    "failure_rate": "Most jobs failed: look at their errors, then resume the task or end it.",
    "exhausted_timeout": "Nobody decided about the exhausted task: it ends with what it has.",
    "scouts_too_idle": "Scout jobs let their cores wait more than minCpuEfficiency allows: retry "
    "it all the same, or submit it anew.",
    "scouts_too_busy": "Scout jobs used more processors than they asked for: submit the task anew "
    "with a higher coreCount, or retry it all the same.",
    "scouts_partly_failed": "Fewer scout jobs succeeded than the task wants: retry it to run the "
    "others all the same.",
    "pending_timeout": "The task was on hold for too long: mend what held it, then retry it.",
    "worker_killed": "Processes that worked on the task died again and again: report it.",
    # commands
    "kill": "The task was told to end at once.",
    "finish": "The task was told to be content with what it has.",
    "retry": "The task was told to try failed inputs again.",
    "recover": "The task was told to make lost outputs again.",
    "retried": "A new attempt begins.",
    "nothing_to_retry": "No input failed and none is left.",
    "retry_limit": "The task cost too much to be retried: mend it, or retry it with --transcend.",
    "priority_set": "The task was given another priority.",
    "incexec": "The task was told to go on with new inputs and changed parameters.",
    "parameters_merged": "The changed parameters are stored: a new attempt begins.",
    "pause": "The task was told to do nothing until it is resumed.",
    "resume": "The task was told to go on.",
    "reassign": "The task was told to go on elsewhere.",
    "avalanche": "All jobs were told to follow the scouts, whatever these are going to say.",
    # relatives
    "parent_failed": "The parent failed, is broken or was aborted: the task ends with it.",
    "parent_retried": "The parent was retried: the task follows.",
    # the end
    "inputs_done": "All inputs were processed.",
    "inputs_finished": "Some inputs were processed: retry the task for the others.",
    "inputs_failed": "No input was processed: look at the errors of its jobs.",
    "empty_input_allowed": "There was no input file, which the task allows.",
    "goal_not_met": "Less of the input was processed than the goal: retry the task for the rest, "
    "or finish it.",
    "duplicates_found": "Jobs processed the same input: compare their outputs, then resume or kill "
    "the task.",
    "no_input": "There was no input file.",
    "preprocessing_failed": "The job that was to tell what there is to do failed: look at why.",
    "build_failed": "The software could not be built: look at the errors of the build jobs.",
    "scouts_failed": "Too few scout jobs succeeded: look at their errors, submit the task anew.",
    "malformed": "The parameters are wrong: correct them and submit the task anew.",
    "input_malformed": "What data management says of an input makes no sense: correct it.",
    "input_unknown": "Data management does not know an input dataset: check its name.",
    "input_empty": "No input dataset has a file.",
    "files_unknown": "A wanted file is not in its dataset.",
    "bad_file_name": "A file has a name that no job can use: rename it.",
    "events_unknown": "Nobody says how many events a file has: give nEventsPerInputFile.",
    "too_many_files": "A dataset has more files than a task may have: divide it.",
}
"""Of tasks; a dataset or a job may share one."""

DATASETS: Mapping[str, str] = {
    "made_for_site": "The dataset was made for the outputs of jobs that are made.",
    "registered": "The output dataset is known to data management.",
    "fed_open": "The files so far are known; more may come.",
    "unavailable": "The dataset could not be looked up for now.",
    "unusable": "The dataset can't be used: the task says why.",
    "processed": "Nothing is left to do with the dataset.",
    "frozen": "The dataset is closed for good.",
    "not_in_container": "The container no longer lists the dataset.",
}
"""Of datasets."""

JOBS: Mapping[str, str] = {
    # on its way
    "generated": "The job was made.",
    "input_ready": "All inputs are at the site.",
    "acquired": "The job was handed to a pilot.",
    "reported": "The pilot reported how far the job is.",
    "outputs_move": "Outputs are on their way from the site to their destination.",
    "to_be_merged": "The outputs are stored at the site and wait for a merge job.",
    "job_finished": "The job succeeded and its outputs are stored.",
    "merged": "A merge job has merged the outputs: the job is finished.",
    "task_paused": "The task is paused: no pilot gets the job.",
    "task_resumed": "The task was resumed.",
    "user_cap": "Its user, or working group, has as many running jobs as one may have: wait.",
    "user_cap_over": "Its user, or working group, may have more running jobs.",
    "held": "Its owner holds the job: release it, and it goes on.",
    "released": "The job is held no longer.",
    "to_be_purged": "Its owner keeps the outputs until then; the log stays.",
    "purged": "The outputs were removed: their time was over.",
    # ended by the system or by people
    "cancelled_by_user": "The job alone was cancelled: its inputs are tried again if they may be.",
    "killed": "The job was ended because its task is.",
    "reassigned": "The job was ended because its task goes on elsewhere.",
    "restored": "The database was restored from a backup: the inputs are tried again.",
    "shut_down": "JEDI was shut down: the inputs are tried again.",
    "pilot_terminated": "The pilot was told to end by its site: the inputs are tried again.",
    "merge_cancelled": "The merge job of the outputs was killed: the inputs are tried again.",
    "merge_closed": "The outputs were not merged by the last merge job, which the system ended.",
    "waiting_timeout": "Other jobs did not come for which it waited: the inputs are tried again.",
    "setup_timeout": "The job was not set up: the inputs are tried again.",
    "defined_timeout": "The job was not prepared: the inputs are tried again.",
    "assigned_timeout": "The inputs did not come to the site: they are tried again, elsewhere.",
    "activated_timeout": "The job did not start for days: its inputs are tried elsewhere.",
    "rebrokered": "No pilot took the analysis job for hours: its inputs are tried elsewhere.",
    "idle_site": "No job starts at the site: the inputs of the urgent one are tried elsewhere.",
    "t2_timeout": "Too little runs at the T2: the inputs are tried elsewhere.",
    "t1_timeout": "No pilot took the job at the T1: its inputs are tried elsewhere.",
    "throttled_timeout": "The job was kept from pilots for days: the inputs are tried again.",
    "merge_stuck": "No pilot took the merge job: another one is made.",
    "merge_failed": "The outputs could not be merged: the inputs are tried again. Read the log of "
    "the merge job.",
    # the payload's fault
    "payload_exit": "The payload ended with an exit code, or by a signal: read its log.",
    "output_missing": "The payload did not make an output: compare names with the task's.",
    "bad_metadata": "The payload's jedi_metadata.json is not what it should be: correct it.",
    "output_not_file": "Where an output should be lies something else.",
    "wall_limit": "The payload ran longer than it may.",
    "cpu_limit": "The payload used more CPU time than it may.",
    "memory_limit": "The payload wanted more memory than it may have: raise ramCount.",
    "workdir_limit": "The payload's files took more room than they may: raise workDiskCount.",
    "process_limit": "The payload had more processes at a time than it may have.",
    # the site's, or a file's
    "stagein_missing": "An input is not where it should be.",
    "stagein_size": "An input is not the file it should be.",
    "stagein_checksum": "An input is damaged.",
    "stagein_failed": "An input could not be copied.",
    "stagein_sandbox": "The task's own files could not be fetched.",
    "sandbox_bad": "The task's own files could not be unpacked.",
    "stageout_failed": "An output could not be stored at the site.",
    "output_not_reported": "The pilot said finished, but left outputs out.",
    "size_differs": "An output is not the file that the pilot reported.",
    "declared_otherwise": "Data management was told otherwise of an output: remove its old entry.",
    "target_differs": "Another file has the name of an output already: choose another name.",
    "staged_missing": "An output that the pilot reported is not there.",
    "dataset_missing": "The dataset of an output is not there: look at the storage it was in.",
    "dataset_closed": "An output came after its dataset was closed.",
    "transfer_failed": "Outputs did not come to their destination.",
    # the pilot's
    "lost_pilot": "The pilot died.",
    "lost_heartbeat": "The pilot fell silent.",
    "running_timeout": "The job ran for weeks.",
    "holding_timeout": "The results could not be added for hours: look at data management.",
    "transfer_timeout": "The outputs did not arrive for days: look at the links of the site.",
    "hold_timeout": "The job was held in a pilot until its deadline: the slot is free again.",
    "sent_timeout": "The pilot did not start the job that it was given.",
    "pilot_error": "The pilot itself failed: report it.",
    "no_reason": "The pilot said that the job failed, but not why.",
}
"""Of jobs: their log and error_code."""

REASONS: Mapping[str, str] = {**TASKS, **DATASETS, **JOBS}
