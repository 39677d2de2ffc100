"""What each key of a task means, for people (`jedi-task params`, docs) and for editors (JSON
Schema). What it may be comes from the models themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jedi.spec.taskparams import TaskParams

KINDS = {
    "task": "TaskParams",
    "split rule": "TaskParams",
    "constant item": "ConstantItem",
    "input item": "InputItem",
    "output item": "OutputItem",
    "number item": "NumberItem",
    "log": "LogItem",
    "merge": "MergeSpec",
    "special job": "JobSpec",
    "build": "BuildSpec",
}
"""Where a key may stand, and the model there; split rules are keys of the task, too."""

MEANINGS = {
    "taskName": "the task's name",
    "jobParameters": "items: what the jobs are told, read and write",
    "userName": "the owner; by default who submits it",
    "vo": "the virtual organisation, which has work queues",
    "prodSourceLabel": "the kind of work, which selects the work queue",
    "taskPriority": "tasks with more come first; by default 1000",
    "taskType": "anal for users, prod for production",
    "processingType": "a label of what is done",
    "architecture": "the platform that the payload needs",
    "transUses": "the software release",
    "transHome": "where the software lies",
    "transPath": "the command, which stands before the job parameters",
    "currentPriority": "the priority to begin with; by default taskPriority",
    "gshare": "the share of the task's jobs; by default its work queue's",
    "workQueueName": "the work queue; by default the one whose criteria fit",
    "framework": "a label: what submitted the task",
    "container_name": "the software container that the payload needs",
    "cliParams": "a label: the command that people gave",
    "sourceURL": "where source code lies",
    "fixedSandbox": "a sandbox that lies elsewhere",
    "objectStore": "where pieces of outputs lie",
    "transferType": "how files are read",
    "mergeSpec": "how outputs are merged: transPath and jobParameters of merge jobs",
    "buildSpec": "a job that builds the software where others run: its transPath, jobParameters",
    "archiveName": "what ${IN} stands for in a build: a local file that comes along",
    "preproSpec": "a job that runs first and tells ${PP_...}: its transPath and jobParameters",
    "mergeRamCount": "memory of a merge job in MB; by default as all jobs of the task",
    "mergeCoreCount": "cores of a merge job, 0: any number; by default 1",
    "log_merge": "where the logs of merge jobs go, if the logs of the others are merged, too",
    "umNameAtEnd": "names of what is to be merged end with panda.um and do not begin with it",
    "mergeOnly": "an output that only merge jobs make",
    "useLocalIO": "inputs are copied, as they always are",
    "osInfo": "the operating system that the payload needs",
    "ttcrTimestamp": "when the task should be complete",
    "official": "a task of a group's official work",
    "noEmail": "no mail about the task",
    "tarBallViaDDM": "the sandbox lies in data management",
    "walltime": "processor seconds for each MB of input, where cpuTime is not known",
    "walltimeUnit": "its unit, which there is but one of",
    "ioIntensity": "kB of input and output for each second and core, which brokers go by until "
    "scouts have measured it",
    "ioIntensityUnit": "unit of ioIntensity",
    "includedSite": "run at these sites only: names with commas, * is anything",
    "excludedSite": "do not run at these sites: names with commas, * is anything",
    "destination": "the endpoint where outputs go",
    "nEventsPerOutputFile": "events of an output file",
    "skipFilesUsedBy": "tasks: files of the same datasets that they finished are left out",
    "getNumEventsInMetadata": "ask data management for numbers of events, which is done anyhow",
    "useInFilesWithNewAttemptNr": "use files of later attempts, too",
    "useInFilesInContainer": "use files of the whole container",
    "skipShortInput": "leave files out that have fewer events than nEventsPerInputFile",
    "skipShortOutput": "leave files or events out that do not fill a job",
    "esFraction": "the part of the task that goes to the event service",
    "esConvertible": "the task may go to the event service",
    "workingGroup": "the group that owns the task",
    "countryGroup": "the country that owns the task",
    "campaign": "a label",
    "requestType": "a label",
    "ticketID": "the ticket that asked for the task",
    "ticketSystemType": "where that ticket is",
    "reqID": "the request the task belongs to; by default its own id",
    "coreCount": "cores of a job; 0: as many as the site gives",
    "ramCount": "memory of a job, in ramUnit",
    "ramUnit": "unit of ramCount; Fixed: scouts do not change it",
    "baseRamCount": "memory in MB that does not grow with the cores",
    "cpuTime": "processor time of an event, in cpuTimeUnit",
    "cpuTimeUnit": "unit of cpuTime; m: milli, Fixed: scouts do not change it",
    "cpuEfficiency": "percent of the time that cores are busy; 0: time does not grow with events",
    "baseWalltime": "seconds of a job that do not grow with events; by default 600",
    "outDiskCount": "output for each MB of input, or each event, in outDiskUnit",
    "outDiskUnit": "unit of outDiskCount",
    "workDiskCount": "scratch space besides inputs and outputs, in workDiskUnit",
    "workDiskUnit": "unit of workDiskCount",
    "cloud": "the cloud where the jobs run",
    "site": "the site where the jobs run, or several with commas",
    "nucleus": "where the outputs are collected",
    "maxAttempt": "how often a file is tried before a person retries it; by default knob "
    "attempts.max_attempt",
    "maxFailure": "how often a file's jobs may fail",
    "pfnList": "files that are read instead of a dataset: absolute paths where the jobs run; "
    "/data/hits^500 has 500 events",
    "noInput": "the task reads no dataset; nFiles or nEvents say how many jobs it has",
    "nFiles": "use so many files at most",
    "nEvents": "use so many events at most, in whole files; without input: have so many",
    "nEventsPerInputFile": "events of files of which data management knows no number",
    "tgtNumEventsPerJob": "cut files into equal parts of at most so many events, a job each",
    "nFilesPerJob": "files of a job of that dataset, whatever the master has",
    "tgtMaxOutputForNG": "expected output of a job, in GB",
    "nMaxFilesPerJob": "most files of a job where its size decides",
    "maxWalltime": "hours a job may run",
    "skipScout": "do without scout jobs",
    "useScout": "false: do without scout jobs",
    "goal": "percent of the input that suffice: nothing is tried again for more",
    "termCondition": "end with so much input processed, such as 90% of files, or of events",
    "noThrottle": "make jobs however often others failed",
    "uniqueTaskName": "the task is aborted if its owner has one of this name already",
    "allowTaskDuplication": "output datasets may be those of another task that has ended",
    "useNewCode": "submitted again, the task runs the local files as they are now",
    "lostFiles": "make these outputs of an earlier task again, of what that made them of",
    "lostFilesDataset": "the output dataset that they were in",
    "recoverInto": "same: they go where they were (default); new: to output datasets of their own",
    "parentTaskName": "the user's last task of this name, which this one waits for and follows",
    "sandbox": "local files that every job finds in its directory",
    "holdJobs": "where jobs stop until they are released: manual_stage_in before they run, "
    "manual_stage_out or user_request when they have run, before outputs are stored",
    "log": "where log files go; by default beside the first output",
    "panda_data_carousel": "the same as inputPreStaging",
    "period": "files are used one job's worth at a time, this often: 10 min, or fields of cron",
    "type": "constant or template",
    "param_type": "what a template item stands for",
    "value": "text of the job parameters, with placeholders; of an output: ends with its file name",
    "padding": "a blank follows",
    "hidden": "not told to the jobs",
    "dataset": "scope:name; of inputs also several with commas",
    "container": "of outputs: the container that their dataset goes to; of inputs: the one that "
    "the dataset is read as a part of",
    "files": "use the files with these names",
    "include": "use files with names like these, patterns with commas",
    "exclude": "leave files with names like these out, patterns with commas",
    "offset": "leave so many files out; of a number: add it",
    "num_records": "use so many files",
    "random": "use files in random order",
    "check": "use only files that the parent recorded as finished",
    "indexConsistent": "use the files at the places of the master's",
    "usedup": "the same file may come from several datasets, as it always may",
    "pseudo": "the files are not real ones",
    "expand": "use the datasets of a container one by one, which is done anyhow",
    "consolidate": "several datasets count as one",
    "token": "outputs go to the endpoint with this space token, where their nucleus or site has "
    "one; input is read wherever it lies",
    "allowNoOutput": "jobs may do without making it",
    "transient": "it is kept for a while only (knob lifetime.transient_days)",
    "ratio": "files for each master file",
    "eventRatio": "events for each master event",
    "reusable": "begin again with the first file when too few are left for a job",
    "attributes": "the same in short forms, such as ratio=2,repeat or nosplit",
    "sourceName": "what the payload calls the file, if not by its name",
    "maxSerialNr": "the largest serial number of its files: no job is made beyond it",
}


DATASETS_FOR = "more datasets, with commas, for the input that the rest of the key names: dsForIN2"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A key: where it stands, what it may be, its default (None: none), what it means. `code`: its
    letters in the text of split rules."""

    where: str
    key: str
    mandatory: bool
    values: str
    default: Any
    meaning: str
    code: str


def schema() -> dict[str, Any]:
    """The JSON Schema of a task, with the meanings as descriptions."""
    found = TaskParams.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "JEDI task"
    found["patternProperties"] = {"^dsFor": {"type": "string", "description": DATASETS_FOR}}
    for model in _models(found).values():
        for key, rules in model["properties"].items():
            rules.pop("title", None)
            rules.setdefault("description", MEANINGS.get(key, ""))
    return found


def parameters() -> Iterator[Parameter]:
    """All keys, in the order in which they are declared."""
    models = _models(TaskParams.model_json_schema())
    for where, name in KINDS.items():
        model = models[name]
        for key, rules in model["properties"].items():
            if (where == "split rule") == ("code" in rules) or model is not models["TaskParams"]:
                yield Parameter(
                    where=where,
                    key=key,
                    mandatory=key in model.get("required", ()),
                    values=_values(rules),
                    default=rules.get("default"),
                    meaning=rules.get("description") or MEANINGS.get(key, ""),
                    code=rules.get("code", ""),
                )


def _models(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"TaskParams": found, **found["$defs"]}


def _values(rules: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    options = [one for one in rules.get("anyOf", [rules]) if one.get("type") != "null"]
    one = options[0]
    if "const" in one or "enum" in one:
        return ", ".join(one.get("enum", [one.get("const")]))
    if "$ref" in one:
        return "keys"
    if one.get("type") == "array":
        return "a list"
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    word = words.get(one["type"], "text")
    least, most = one.get("minimum"), one.get("maximum")
    if least is not None and most not in (None, 2**31 - 1, 2**63 - 1):
        return f"{word}, {least} to {most}"
    return f"{word}, {least} or more" if least else word
