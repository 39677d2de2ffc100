"""Keys of JEDI that are not built yet: JEDI refuses them with a remedy, or keeps and shows them "
"with a warning about the effect. It never ignores them. A new feature removes its keys from here. "
"Source:
docs/reference/task-parameters.md#later-keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TASK_KEYS = {
    "nEventsPerRange": "Use nEventsPerJob",
    "minGranularity": "Use nEventsPerJob",
    "loadXML": "Use groupBoundaryID, or a task for each group of files",
    "segmentSpecs": "Submit a task for each segment",
    "hpoRequestData": "Submit a task for each point, or number its jobs with ${SEQNUMBER}",
}
"""Task parameters that are refused, and the alternatives."""

_ITS_JOBS = "a job gets its events when it is made, unless the task has nEventsPerWorker"
_SEARCH = "there are no searches of hyper-parameters: the task is an ordinary one"
_POLLED = "agents look at the database and need no messages"
_COPIED = "inputs are copied to the job from storage at its site before the payload begins"
_STORED = "outputs and logs are stored at endpoints of sites: see destination and token"
_SANDBOX = "jobs get the local files that sandbox names, nothing else"
_PLACED = "other keys choose the sites: architecture, transUses, cloud, site"

_KEPT_BECAUSE = {
    "merge jobs run near the pieces, wherever these are": "mergeEsOnOS",
    "a new consumer takes the place of a closed one": "resurrectConsumers",
    "pieces are no files of datasets": "registerEsFiles",
    _ITS_JOBS: "maxEventsPerJob dynamicNumEvents",
    _SEARCH: "hpoWorkflow totNumJobs maxNumJobs segmentedWork",
    _POLLED: "messageDriven pushStatusChanges pushJob",
    _COPIED: "transferType allowInputWAN avoidVP usePrefetcher useZipToPin",
    _STORED: "objectStore stayOutputOnSite altStageOut putLogToOS ddmBackEnd",
    _SANDBOX: "fixedSandbox tarBallViaDDM useSecrets",
    _PLACED: "container_name osMatching onlyTagsForFC cloudAsVO",
    "the payload is one command, which may run several steps": "multiStepExec onSiteMerging",
    "priorities determine the order": "ttcrTimestamp",
    "workingGroup and gshare name the owner of the work": "official",
    "the number of events does not determine the files": "nEventsPerOutputFile",
    "JEDI uses every file that the dataset lists": "useInFilesWithNewAttemptNr "
    "useInFilesInContainer",
    "only its limits end a job, never its silence": "noLoopingCheck",
    "the log has the output of an ended payload; jedi-job log shows it before": "debugMode",
    "its outputs stay; transient marks outputs that JEDI may remove": "intermediateTask",
}


def _by_key(because: Mapping[str, str]) -> dict[str, str]:
    return {key: why for why, keys in because.items() for key in keys.split()}


KEPT = _by_key(_KEPT_BECAUSE)
"""Task parameters that are kept and shown, but have no effect, and what happens instead."""

ITEM_KEPT = {
    "pseudo": "JEDI copies the files like any others; set noInput for a task without files",
    "consolidate": "the files of each dataset go to separate jobs",
}
"""The same in items."""


_EVENT_MODES = ("nEventsPerWorker", "useJobCloning", "fineGrainedProc", "esFraction")
_OF_EVENT_MODES = (
    "allowPartialFinish",
    "decAttOnFailedES",
    "esConvertible",
    "inFilePosEvtNum",
    "maxAttemptES",
    "maxAttemptEsJob",
    "maxJumboPerSite",
    "nEsConsumers",
    "nSitesPerJob",
    "notDiscardEvents",
    "switchEStoNormal",
)
_OF_JUMBO_JOBS = ("nJumboJobs", "maxJumboPerSite")
_NAMES_SITE = "a task that names its site has no jumbo jobs; includedSite may name several"
_NO_EVENT_MODE = f"the task has none of {', '.join(_EVENT_MODES)}"


def kept(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about keys that are kept, but change nothing."""
    found = [(key, document[key], KEPT[key]) for key in sorted(KEPT.keys() & document.keys())]
    if not any(map(document.get, _EVENT_MODES)):
        found += [(key, document.get(key), _NO_EVENT_MODE) for key in _OF_EVENT_MODES]
    elif document.get("site"):
        found += [(key, document.get(key), _NAMES_SITE) for key in _OF_JUMBO_JOBS]
    for item in document.get("jobParameters", ()):
        keys = sorted(ITEM_KEPT.keys() & item.keys())
        found += [(key, item[key], ITEM_KEPT[key]) for key in keys]
    kept_keys = ((key, why) for key, value, why in found if value not in (None, False, []))
    for key, why in dict.fromkeys(kept_keys):
        yield f"{key} is kept, but changes nothing: {why}."


PARAM_TYPES = frozenset({"pseudo_input", "pp_input", "lib", "opaque"})

PLACEHOLDERS = frozenset({"XML_OUTMAP", "XML_EXESTR", "SEGMENT_ID", "SEGMENT_NAME"})
