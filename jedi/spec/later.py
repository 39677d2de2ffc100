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
    nEventsPerRange minGranularity pfnList buildSpec
    preproSpec esmergeSpec loadXML segmentSpecs hpoRequestData uniqueTaskName
    panda_data_carousel lostFiles lostFilesDataset recoverInto useNewCode period
    allowTaskDuplication inputPrestaging
    """
)

KEPT = _words(
    """
    framework container_name cliParams sourceURL fixedSandbox objectStore transferType osInfo
    ttcrTimestamp official noEmail tarBallViaDDM walltime walltimeUnit ioIntensity ioIntensityUnit
    nEventsPerOutputFile useInFilesWithNewAttemptNr useInFilesInContainer esFraction esConvertible
    maxEventsPerJob dynamicNumEvents groupBoundaryID respectLB orderByLB releasePerLB orderInputBy
    totNumJobs maxNumJobs noInputPooling nChunksToWait segmentedWork maxCoreCount
    randomSeed
    onSiteMerging mergeEsOnOS
    disableAutoRetry disableReassign allowPartialFinish
    allowIncompleteInDS workflowHoldup noLoopingCheck debugMode
    useBuild retryModuleRules retryRamOffset retryRamStep retryRamMax waitInput
    runUntilClosed intermediateTask fullChain inputPreStaging useRealNumEvents reuseSecOnDemand
    inFilePosEvtNum writeInputToFile useLocalIO allowInputLAN allowInputWAN avoidVP
    addNthFieldToLFN useFileAsSourceLFN instantiateTmpl instantiateTmplSite registerDatasets
    stayOutputOnSite altStageOut putLogToOS ddmBackEnd t1Weight ipConnectivity ipStack osMatching
    onlyTagsForFC cloudAsVO nEventsPerWorker nEsConsumers nSitesPerJob maxAttemptES maxAttemptEsJob
    decAttOnFailedES notDiscardEvents resurrectConsumers switchEStoNormal registerEsFiles
    useJobCloning useZipToPin usePrefetcher nJumboJobs maxJumboPerSite fineGrainedProc hpoWorkflow
    messageDriven pushStatusChanges pushJob encJobParams useSecrets multiStepExec noExecStrCnv
    destination includedSite excludedSite gshare workQueueName skipFilesUsedBy
    getNumEventsInMetadata skipShortInput skipShortOutput currentPriority
    """
)
"""Task parameters that are kept and shown, but not acted upon yet."""


def kept(document: Mapping[str, Any]) -> Iterator[str]:
    """What is worth a warning in a task: keys that are kept, but change nothing yet."""
    for key in sorted(KEPT & document.keys()):
        if document[key] not in (None, False, []):
            yield f"{key} is kept, but not acted upon yet."


TASK_KEY_PREFIXES = ("dsFor",)

ITEM_KEYS = _words(
    """
    container expand token destination check usedup indexConsistent allowNoOutput
    transient pseudo consolidate es_only
    """
)

PARAM_TYPES = frozenset({"pseudo_input", "pp_input", "lib", "opaque"})

PLACEHOLDERS = _words(
    """
    SEQNUMBER SURL LIB MIDDLENAME XML_OUTMAP XML_EXESTR SEGMENT_ID SEGMENT_NAME
    """
)

DATASET_ATTRIBUTES = _words("manytime cvmfs ud cc ic os tr ps mo an ns")


def is_later(key: str) -> bool:
    """True for a task parameter that JEDI knows and we do not, yet."""
    return key in TASK_KEYS or key.startswith(TASK_KEY_PREFIXES)
