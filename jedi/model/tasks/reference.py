"""The meaning of each key of a task, for people (`jedi-task params`, docs) and for editors (JSON
Schema). The permitted values come from the models themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jedi.model.tasks.params import TaskParams

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
    "splitter": "SplitterSpec",
}
"""The places of keys, and the model of each; split rules are keys of the task, too."""

MEANINGS = {
    "taskName": "the task's name",
    "jobParameters": "items: the arguments, inputs and outputs of the jobs",
    "userName": "the owner; by default the submitter",
    "vo": "the virtual organisation, which has work queues",
    "prodSourceLabel": "the kind of work, which selects the work queue",
    "taskPriority": "tasks with a larger one come first; by default 1000",
    "taskType": "anal for users, prod for production",
    "processingType": "a label: the type of processing",
    "architecture": "the platform that the payload needs",
    "transUses": "the software release",
    "transHome": "the directory of the software",
    "transPath": "the command, which precedes the job parameters",
    "currentPriority": "the priority at the start; by default taskPriority",
    "gshare": "the share of the task's jobs; by default its work queue's",
    "workQueueName": "the work queue; by default the one whose criteria fit",
    "framework": "a label: the system that submitted the task",
    "container_name": "the software container that the payload needs",
    "cliParams": "a label: the command line of the user",
    "sourceURL": "the URL of the source code",
    "fixedSandbox": "a sandbox outside JEDI",
    "objectStore": "the object store for pieces of outputs",
    "transferType": "how files are read",
    "mergeSpec": "the merge jobs: their transPath and jobParameters",
    "buildSpec": "a build job, which runs first at each site: its transPath and jobParameters",
    "archiveName": "the value of ${IN} in a build: a local file that the task uploads",
    "preproSpec": "a pre-processing job, which runs first and sets ${PP_...}: its transPath and "
    "jobParameters",
    "splitter": "the division of a herd: the task's jobs are the units that a split strategy makes",
    "name": "the split strategy, such as Parametric",
    "options": "the strategy's own options",
    "values": "options of every child, with variables such as $Parameter; ${UNIT/Name} in "
    "jobParameters is the value of Name",
    "mergeRamCount": "memory of a merge job in MB; by default the task's",
    "mergeCoreCount": "cores of a merge job, 0: any number; by default 1",
    "log_merge": "the dataset of merge jobs' logs, if the logs of the other jobs are merged, too",
    "umNameAtEnd": "names of files to merge end with panda.um instead of beginning with it",
    "mergeOnly": "only merge jobs make this output",
    "useLocalIO": "jobs copy their inputs, as they always do",
    "osInfo": "the operating system that the payload needs",
    "ttcrTimestamp": "the time at which the task should be complete",
    "official": "a task of a group's official work",
    "noEmail": "no mail about the task",
    "tarBallViaDDM": "the sandbox is in data management",
    "walltime": "processor seconds for each MB of input, if cpuTime is unset",
    "walltimeUnit": "unit of walltime; there is only one",
    "ioIntensity": "kB of input and output per second and core; brokers use it until scouts have "
    "measured it",
    "ioIntensityUnit": "unit of ioIntensity",
    "includedSite": "run at these sites only: names with commas, * is anything",
    "excludedSite": "do not run at these sites: names with commas, * is anything",
    "destination": "the endpoint of the outputs",
    "nEventsPerOutputFile": "events in an output file",
    "skipFilesUsedBy": "tasks: the task leaves out files of the same datasets that they finished",
    "getNumEventsInMetadata": "ask data management for numbers of events, which JEDI always does",
    "useInFilesWithNewAttemptNr": "use files of later attempts, too",
    "useInFilesInContainer": "use files of the whole container",
    "skipShortInput": "leave out files with fewer events than nEventsPerInputFile",
    "skipShortOutput": "leave out files or events that do not fill a job",
    "esFraction": "the chance that the task goes to the event service: more than 0, at most 1",
    "esConvertible": "the task may go to the event service; esFraction decides",
    "esmergeSpec": "transPath and jobParameters of the jobs that merge pieces of events",
    "workingGroup": "the group that owns the task",
    "countryGroup": "the country that owns the task",
    "campaign": "a label",
    "requestType": "a label",
    "ticketID": "the ticket of the task",
    "ticketSystemType": "the system of that ticket",
    "reqID": "the request the task belongs to; by default its own id",
    "coreCount": "cores of a job; 0: as many as the site offers",
    "ramCount": "memory of a job, in ramUnit",
    "ramUnit": "unit of ramCount; Fixed: scouts do not change it",
    "baseRamCount": "memory in MB that does not grow with the cores; default: knob "
    "taskrefiner.base_ram",
    "cpuTime": "processor time of an event, in cpuTimeUnit",
    "cpuTimeUnit": "unit of cpuTime; m: milli, Fixed: scouts do not change it",
    "cpuEfficiency": "percent of the time in which cores are busy; 0: time does not grow with "
    "events",
    "baseWalltime": "seconds of a job that do not grow with events; by default 600",
    "outDiskCount": "output for each MB of input, or each event, in outDiskUnit",
    "outDiskUnit": "unit of outDiskCount",
    "workDiskCount": "scratch space besides inputs and outputs, in workDiskUnit",
    "workDiskUnit": "unit of workDiskCount",
    "cloud": "the cloud where the jobs run; WORLD: any",
    "site": "the site where the jobs run, or several with commas",
    "nucleus": "the nucleus, which collects the outputs",
    "maxAttempt": "attempts of a file before a person has to retry it; by default knob "
    "attempts.max_attempt",
    "maxFailure": "failures of a file's jobs before the file fails",
    "pfnList": "input files instead of a dataset: absolute paths at the site; /data/hits^500 has "
    "500 events",
    "noInput": "the task reads no dataset; nFiles or nEvents set the number of jobs",
    "nFiles": "most files to use",
    "nEvents": "most events to use, in whole files; without input: the number of events",
    "nEventsPerInputFile": "events of a file whose number data management does not know",
    "tgtNumEventsPerJob": "cut files into equal parts of at most this many events, one job each",
    "nFilesPerJob": "files of this dataset in a job, independent of its master files",
    "tgtMaxOutputForNG": "expected output of a job, in GB",
    "nMaxFilesPerJob": "most files of a job whose size limits it",
    "maxWalltime": "longest time of a job in hours",
    "skipScout": "run no scout jobs",
    "useScout": "false: run no scout jobs",
    "goal": "percent of the input that suffices: JEDI retries nothing beyond it",
    "termCondition": "end when this much input is processed, such as 90% of files, or of events",
    "noThrottle": "make jobs however often other jobs failed",
    "uniqueTaskName": "the task is aborted if its owner already has one of this name",
    "allowTaskDuplication": "output datasets may be those of another task that has ended",
    "useNewCode": "at resubmission, the task runs the present local files",
    "lostFiles": "make these outputs of an earlier task again, from the same input",
    "lostFilesDataset": "the output dataset of the lost files",
    "recoverInto": "same: into their old datasets (default); new: into output datasets of this "
    "task",
    "parentTaskName": "the user's last task of this name becomes the parent of this one",
    "sandbox": "local files that every job finds in its directory",
    "holdJobs": "the hold of each job until its release: manual_stage_in before it runs, "
    "manual_stage_out or user_request when it has run, before outputs are stored",
    "log": "the dataset of log files; by default beside the first output",
    "panda_data_carousel": "the same as inputPreStaging",
    "period": "use the files of one job at a time, in this interval: 10 min, or fields of cron",
    "type": "constant or template",
    "param_type": "the kind of a template item",
    "value": "text of the job parameters, with placeholders; of an output: ends with its file name",
    "padding": "a blank follows",
    "es_only": "only jobs of the event service get it as an argument",
    "hidden": "jobs do not get it as an argument",
    "dataset": "scope:name; an output with `/` at its end is a container; inputs may have several, "
    "with commas",
    "container": "of outputs: the container that gets their dataset; of inputs: the container that "
    "the dataset belongs to",
    "files": "use only the files with these names",
    "include": "use only files with matching names: patterns, with commas",
    "exclude": "leave out files with matching names: patterns, with commas",
    "offset": "number of files to leave out; of a number: its offset",
    "num_records": "number of files to use",
    "random": "use files in random order",
    "check": "use only files that the parent recorded as finished",
    "indexConsistent": "use the files at the same positions as the master's",
    "usedup": "the same file may come from several datasets, as is always the case",
    "pseudo": "the files are not real ones",
    "expand": "use the datasets of a container one by one, as JEDI always does",
    "consolidate": "several datasets count as one",
    "token": "outputs go to the endpoint with this space token, if their nucleus or site has one; "
    "input is read from any endpoint",
    "allowNoOutput": "jobs may succeed without this output",
    "transient": "the output has a limited life (knob lifetime.transient_days)",
    "ratio": "files for each master file",
    "eventRatio": "events for each master event",
    "reusable": "start again with the first file when too few are left for a job",
    "attributes": "the same in short forms, such as ratio=2,repeat or nosplit",
    "sourceName": "the payload's own name of the file, if it differs",
    "maxSerialNr": "the largest serial number of its files: no job follows beyond it",
}


DATASETS_FOR = "more datasets, with commas, for the input that the rest of the key names: dsForIN2"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A key: its place, its values, its default (None: none), its meaning. `code`: its letters in
    the text of split rules."""

    where: str
    key: str
    mandatory: bool
    values: str
    default: Any
    meaning: str
    code: str


def schema() -> dict[str, Any]:
    """The JSON Schema of a task, with the meanings as descriptions."""
    document = TaskParams.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "JEDI task"
    document["patternProperties"] = {"^dsFor": {"type": "string", "description": DATASETS_FOR}}
    for model in _models(document).values():
        for key, rules in model["properties"].items():
            rules.pop("title", None)
            rules.setdefault("description", MEANINGS.get(key, ""))
    return document


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
    """The possible values, in words."""
    options = [one for one in rules.get("anyOf", [rules]) if one.get("type") != "null"]
    one = options[0]
    if "const" in one or "enum" in one:
        return ", ".join(one.get("enum", [one.get("const")]))
    if "$ref" in one:
        return "keys"
    if one.get("type") == "array":
        return "a list"
    if one.get("type") == "object":
        return "keys"
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    word = words.get(one["type"], "text")
    least, most = one.get("minimum"), one.get("maximum")
    if least is not None and most not in (None, 2**31 - 1, 2**63 - 1):
        return f"{word}, {least} to {most}"
    return f"{word}, {least} or more" if least else word
