"""What is legal JEDI but not built yet: refused with a clear word, never ignored.

Whoever builds a feature takes its keys from here. Source: engine.md §2.2–2.6.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TASK_KEYS = _words(
    """
    currentPriority framework container_name gshare workQueueName mergeRamCount mergeCoreCount
    walltime walltimeUnit ioIntensity ioIntensityUnit includedSite excludedSite destination goal
    nEventsPerRange minGranularity pfnList
    skipFilesUsedBy useInFilesWithNewAttemptNr useInFilesInContainer getNumEventsInMetadata
    skipShortInput skipShortOutput mergeOutput mergeSpec buildSpec preproSpec
    esmergeSpec multiStepExec loadXML segmentSpecs hpoRequestData log_merge sourceURL fixedSandbox
    cliParams tarBallViaDDM objectStore transferType nEventsPerOutputFile uniqueTaskName official
    noEmail noThrottle esFraction esConvertible osInfo ttcrTimestamp inputPreStaging
    panda_data_carousel lostFiles lostFilesDataset recoverInto useNewCode period
    allowTaskDuplication t1Weight maxEventsPerJob
    dynamicNumEvents groupBoundaryID respectLB orderByLB releasePerLB orderInputBy
    respectSplitRule totNumJobs maxNumJobs noInputPooling nChunksToWait segmentedWork maxCoreCount
    randomSeed nFilesPerMergeJob nEventsPerMergeJob nGBPerMergeJob
    nMaxFilesPerMergeJob onSiteMerging mergeEsOnOS useScout scoutSuccessRate useExhausted
    failGoalUnreached failWhenGoalUnreached disableAutoFinish disableAutoRetry disableReassign
    allowPartialFinish allowEmptyInput allowIncompleteInDS noAutoPause minCpuEfficiency
    workflowHoldup noLoopingCheck debugMode useBuild usePrePro retryModuleRules retryRamOffset
    retryRamStep retryRamMax waitInput ignoreMissingInDS runUntilClosed
    intermediateTask fullChain firstContentsFeed useRealNumEvents reuseSecOnDemand
    inFilePosEvtNum writeInputToFile useLocalIO allowInputLAN allowInputWAN avoidVP
    addNthFieldToLFN useFileAsSourceLFN instantiateTmpl instantiateTmplSite registerDatasets
    stayOutputOnSite altStageOut putLogToOS ddmBackEnd limitedSites ipConnectivity ipStack
    osMatching onlyTagsForFC cloudAsVO nEventsPerWorker nEsConsumers nSitesPerJob maxAttemptES
    maxAttemptEsJob decAttOnFailedES notDiscardEvents resurrectConsumers switchEStoNormal
    registerEsFiles useJobCloning useZipToPin usePrefetcher nJumboJobs maxJumboPerSite
    fineGrainedProc hpoWorkflow messageDriven pushStatusChanges pushJob encJobParams useSecrets
    noExecStrCnv
    """
)

TASK_KEY_PREFIXES = ("dsFor",)

ITEM_KEYS = _words(
    """
    container expand token destination check usedup indexConsistent mergeOnly allowNoOutput
    transient pseudo consolidate es_only
    """
)

PARAM_TYPES = frozenset({"pseudo_input", "pp_input", "lib", "opaque"})

PLACEHOLDERS = _words(
    """
    SEQNUMBER SURL LIB MIDDLENAME XML_OUTMAP XML_EXESTR SEGMENT_ID SEGMENT_NAME TRN_OUTPUT TRN_LOG
    """
)

DATASET_ATTRIBUTES = _words("manytime cvmfs ud cc ic os tr ps mo an ns")


def is_later(key: str) -> bool:
    """True for a task parameter that JEDI knows and we do not, yet."""
    return key in TASK_KEYS or key.startswith(TASK_KEY_PREFIXES)
