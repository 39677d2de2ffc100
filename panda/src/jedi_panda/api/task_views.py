"""Tasks, jobs and files in PanDA's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jedi.core import states
from jedi_panda.api.envelope import stamp

_SUPER = {
    "registered": "registered staging staged topreprocess preprocessing rerefine toincexec",
    "submitting": "defined assigning toreassign reassigning",
    "ready": "ready pending throttled paused toretry",
    "running": "scouting scouted running prepared finishing passed aborting toabort tobroken "
    "exhausted",
}
SUPER_STATUS: Mapping[str, str] = {
    **{status: status for status in states.TASK.final},
    **{status: name for name, statuses in _SUPER.items() for status in statuses.split()},
}
"""PanDA's superStatus of each status: pbook shows those of `run` and of `fin` by it."""

Object = Mapping[str, Any]


def task_facts(task: Object) -> dict[str, Any]:
    """A task (TaskSummary) as pbook lists it."""
    total, good, bad = (task[key] for key in ("n_files", "n_files_finished", "n_files_failed"))
    return {
        "jediTaskID": task["jedi_task_id"],
        "reqID": task["req_id"],
        "taskName": task["task_name"],
        "userName": task["user_name"],
        "status": task["status"],
        "superStatus": SUPER_STATUS[task["status"]],
        "prodSourceLabel": task["prod_source_label"],
        "currentPriority": task["priority"],
        "attemptNr": task["attempt_nr"],
        "errorDialog": task["reason"],
        "creationDate": stamp(task["creation_date"]),
        "modificationTime": stamp(task["state_change_time"]),
        "endTime": stamp(task["end_time"]),
        "nfiles": total,
        "nfilesfinished": good,
        "nfilesfailed": bad,
        "pctfinished": 100 * good // total if total else 0,
        "pctfailed": 100 * bad // total if total else 0,
    }


def task_details(details: Object) -> dict[str, Any]:
    """A task with its datasets and jobs (TaskDetails)."""
    datasets = details["datasets"]

    def names(*types: str) -> str:
        return ",".join(dict.fromkeys(one["name"] for one in datasets if one["type"] in types))

    return {
        **task_facts(details["task"]),
        "inDS": names("input", "pseudo_input"),
        "outDS": names("output"),
        "logDS": names("log"),
        "statistics": details["jobs"],
        "failures": details["failures"],
    }


def _job(job: Object, task_id: int) -> dict[str, Any]:
    """The attributes that lists and descriptions of jobs share."""
    return {
        "PandaID": job["panda_id"],
        "jediTaskID": task_id,
        "taskID": task_id,
        "jobStatus": job["status"],
        "jobSubStatus": job["substatus"],
        "attemptNr": job["attempt_nr"],
        "computingSite": job["site"],
        "currentPriority": job["priority"],
        "transExitCode": job["exit_code"],
        "pilotErrorDiag": job["error_diag"],
    }


def job_facts(job: Object, task_id: int) -> dict[str, Any]:
    """A job (JobSummary) as PanDA describes it."""
    return {
        **_job(job, task_id),
        "creationTime": stamp(job["creation_time"]),
        "startTime": stamp(job["start_time"]),
        "endTime": stamp(job["end_time"]),
        "cpuConsumptionTime": job["cpu_s"],
        "maxRSS": job["max_rss_kb"],
    }


def job_description(details: Object) -> dict[str, Any]:
    """A job with its files (JobDetails), in the attributes of PanDA's JobSpec and FileSpec."""
    job = details["job"]
    return {
        **_job(job, job["jedi_task_id"]),
        "prodUserName": job["user_name"],
        "jobParameters": details["command"],
        "Files": [_file(one, job["panda_id"]) for one in details["files"]],
    }


def _file(file: Object, panda_id: int) -> dict[str, Any]:
    scope, _, name = file["dataset"].partition(":")
    return {
        "PandaID": panda_id,
        "lfn": file["lfn"],
        "type": file["type"],
        "scope": scope,
        "dataset": name,
        "fsize": file["size"],
        "destinationSE": file["endpoint"],
    }


def dataset_files(datasets: list[Any], files: list[Any]) -> list[dict[str, Any]]:
    """Datasets (DatasetSummary) and their files (FileSummary), as PanDA lists them."""
    found: dict[str, dict[str, Any]] = {
        one["name"]: {"dataset": {"name": one["name"], "id": one["dataset_id"]}, "files": []}
        for one in datasets
    }
    for file in files:
        if file["dataset"] in found:
            scope = file["dataset"].partition(":")[0]
            found[file["dataset"]]["files"].append(
                {
                    "lfn": file["lfn"],
                    "scope": scope,
                    "id": file["file_id"],
                    "status": file["status"],
                }
            )
    return list(found.values())
