"""What is legal JEDI but not built yet: refused with a clear word, or kept and shown with a
warning, never ignored.

Whoever builds a feature takes its keys from here. Source: engine.md §2.2–2.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TASK_KEYS = _words(
    """
    nEventsPerRange minGranularity pfnList
    esmergeSpec loadXML segmentSpecs hpoRequestData
    """
)

KEPT = _words(
    """
    framework container_name cliParams fixedSandbox objectStore transferType osInfo
    ttcrTimestamp official tarBallViaDDM walltime walltimeUnit
    nEventsPerOutputFile useInFilesWithNewAttemptNr useInFilesInContainer
    esFraction esConvertible maxEventsPerJob dynamicNumEvents totNumJobs maxNumJobs
    segmentedWork onSiteMerging mergeEsOnOS
    disableReassign allowPartialFinish
    noLoopingCheck debugMode
    intermediateTask
    inFilePosEvtNum allowInputWAN avoidVP stayOutputOnSite altStageOut putLogToOS ddmBackEnd
    osMatching onlyTagsForFC cloudAsVO nEventsPerWorker
    nEsConsumers nSitesPerJob maxAttemptES maxAttemptEsJob decAttOnFailedES notDiscardEvents
    resurrectConsumers switchEStoNormal registerEsFiles useJobCloning useZipToPin usePrefetcher
    nJumboJobs maxJumboPerSite fineGrainedProc hpoWorkflow messageDriven pushStatusChanges
    pushJob encJobParams useSecrets multiStepExec noExecStrCnv
    """
)
"""Task parameters that are kept and shown, but not acted upon yet."""


def kept(document: Mapping[str, Any]) -> Iterator[str]:
    """What is worth a warning in a task: keys that are kept, but change nothing yet."""
    found = [(key, document[key]) for key in sorted(KEPT & document.keys())]
    for item in document.get("jobParameters", ()):
        found += [(key, item[key]) for key in sorted(ITEM_KEPT & item.keys())]
    for key in dict.fromkeys(key for key, value in found if value not in (None, False, [])):
        yield f"{key} is kept, but not acted upon yet."


ITEM_KEYS = _words("container es_only")

ITEM_KEPT = _words("usedup pseudo consolidate token")
"""The same in items."""

PARAM_TYPES = frozenset({"pseudo_input", "pp_input", "lib", "opaque"})

PLACEHOLDERS = _words(
    """
    XML_OUTMAP XML_EXESTR SEGMENT_ID SEGMENT_NAME
    """
)


def is_later(key: str) -> bool:
    """True for a task parameter that JEDI knows and we do not, yet."""
    return key in TASK_KEYS
