"""The settings of jobs: how they are made, tried again, merged, measured by scouts, and limited."""

from jedi.core.knobs.knob import Component, knob

_RESUBMISSION = (
    "site cloud includedSite excludedSite nFilesPerJob nGBPerJob nFiles nEvents ignoreMissingInDS"
)
_ALSO = (
    "cliParams fixedSandbox taskPriority ramCount t1Weight nEsConsumers nMaxFilesPerJob "
    "noInputPooling nEventsPerWorker nJumboJobs avoidVP allowInputLAN useLocalIO noLoopingCheck "
    "maxCoreCount onlyTagsForFC useZipToPin noAutoPause allowIncompleteInDS"
)


class JobgenKnobs(Component):
    batch = knob(10, "tasks", current=50, least=1).means("tasks served in one claim")
    n_files = knob(100_000, "files", current=5000, least=1).means(
        "files turned into jobs in one cycle"
    )
    retry_s = knob(30.0, "s", least=0.0).means(
        "wait after the throttler or the broker refused the task"
    )
    max_files_per_job = knob(200, "files", least=1).means(
        "files per job, unless a rule of the task sets them"
    )
    hard_max_files_per_job = knob(1000, "files", least=1).means("most files of any job")
    max_gb_per_job = knob(20.0, "GB").means("input per job, unless a rule of the task sets it")
    ng_output_gb = knob(2.5, "GB", current=1500 / 1024, least=0.0).means(
        "least output of a job in the sum that nGBPerJob limits"
    )
    ng_covers_all = knob(True, "truth", current=False).means(
        "true: nGBPerJob limits input, this least output and the work directory together; false: "
        "it limits the input alone, and the others come on top"
    )
    max_output_gb = knob(0.0, "GB", current=10.0, least=0.0).means(
        "most output of a job whose files and events are not fixed; 0: no limit"
    )
    batch_jobs = knob(25, "jobs", least=1).means("jobs in a row for one site")
    batch_scouts = knob(2, "jobs", least=1).means(
        "scout jobs in a row for one site; small batches measure several sites"
    )
    jobs_per_step = knob(0, "jobs", current=5, least=0).means(
        "jobs of a user or working group that lower the priority of new analysis jobs by one step; "
        "0: never"
    )


class MergeKnobs(Component):
    max_attempt = knob(3, "attempts", least=1).means("attempts per file to merge")
    max_files = knob(50, "files", least=1).means(
        "most files merged into one, unless the task sets it"
    )
    max_gb = knob(5.0, "GB", least=0.001).means("size of a merged file, unless the task sets it")
    min_ram_mb = knob(0, "MB", current=2000, least=0).means(
        "least memory of a merge job; 0: the task's memory"
    )
    min_work_mb = knob(0, "MB", current=500, least=0).means(
        "least work space of a merge job besides its files"
    )


class AttemptsKnobs(Component):
    max_attempt = knob(3, "attempts", least=1).means("attempts per file, unless the task sets them")
    most_free = knob(10, "attempts", least=0).means(
        "attempts of a file in a row that do not count against maxAttempt, since their ends were "
        "nobody's fault; those after them count"
    )
    retry_adds = knob(5, "attempts", least=1).means("attempts per file that the retry command adds")


class ResubmissionKnobs(Component):
    may_change = knob(_RESUBMISSION, "keys", current=f"{_RESUBMISSION} {_ALSO}").means(
        "parameters that a resubmission may change; the task keeps all others"
    )


class RetryKnobs(Component):
    max_attempts = knob(0, "attempts", least=0).means(
        "attempts of a task after which retry makes it exhausted; 0 here and below: no limit"
    )
    max_file_attempts = knob(0, "attempts", least=0).means(
        "attempts of a file after which retry makes the task exhausted"
    )
    max_failed_hepscore_h = knob(0.0, "HEP-score h", least=0.0).means(
        "cost of failed jobs above which retry makes the task exhausted"
    )
    max_failed_hepscore_percent = knob(0.0, "%", least=0.0, most=100.0).means(
        "part of the task's cost in failed jobs above which retry makes it exhausted"
    )
    max_failed_jobs_percent = knob(0.0, "%", least=0.0, most=100.0).means(
        "part of failed jobs above which retry makes the task exhausted"
    )
    min_cpu_efficiency_percent = knob(0.0, "%", least=0.0).means(
        "median CPU efficiency of jobs below which retry makes the task exhausted"
    )


class RetryrulesKnobs(Component):
    memory_percent = knob(30.0, "%", least=0.0, most=100.0).means(
        "part of a task's jobs that ran out of memory from which all jobs ask for more"
    )


class ScoutKnobs(Component):
    chunks = knob(10, "jobs", least=0).means(
        "scout jobs of a task that has more jobs than this; 0: no scouts"
    )
    open_wait_s = knob(600.0, "s", least=0.0).means(
        "longest wait for so many scouts while the input is open"
    )
    sample = knob(5, "jobs", current=1000, least=1).means(
        "most scouts to measure, in the order in which they finished"
    )
    min_success_percent = knob(0.0, "%", current=50.0, least=0.0, most=100.0).means(
        "part of the scouts' files that an analysis task must process, at least one file; with "
        "less it is broken"
    )
    cpu_percentile = knob(95.0, "%", least=0.0, most=100.0).means(
        "percentile of scouts that gives cpuTime, by nearest rank"
    )
    events_per_core = knob(0, "events", current=10, least=0).means(
        "least events per core of a scout that gives cpuTime"
    )
    ram_percentile = knob(100.0, "%", current=75.0, least=0.0, most=100.0).means(
        "percentile of scouts that gives ramCount; 100: the largest"
    )
    ram_margin_percent = knob(0.0, "%", current=10.0, least=0.0).means(
        "margin on the memory that scouts used"
    )
    ram_min_mb = knob(0, "MB", current=500, least=0).means("least memory that scouts set")
    out_percentile = knob(75.0, "%", least=0.0, most=100.0).means(
        "percentile of scouts that gives outDiskCount"
    )
    early_percent = knob(100.0, "%", current=50.0, least=1.0, most=100.0).means(
        "part of finished scouts from which they are evaluated; 100: when all have ended"
    )
    measure_at = knob("5", "jobs", current="1,5,100", among=("none", "5", "1,5,100")).means(
        "finished jobs of a running task at which it is measured again"
    )
    exhaust_from_percent = knob(0.0, "%", least=0.0, most=100.0).means(
        "part of the scouts' files from which insufficient success exhausts the task instead of "
        "breaking it; 0: never"
    )
    max_cpu_use = knob(0.0, current=2.0, least=0.0).means(
        "factor on the processor time of their cores above which scouts exhaust the task; 0: never"
    )
    limit_factor = knob(2.0, least=1.0).means(
        "factor on the expected time, and on the memory that scouts measured, at which a job is "
        "killed"
    )
    least_limit_s = knob(60.0, "s", least=0.0).means(
        "least time limit of a job; a lower one would measure the host, not the payload"
    )
    least_limit_mb = knob(1000, "MB", least=0).means("least memory limit of a job")
    exhaust_above_jobs = knob(0, "jobs", current=20, least=0).means(
        "jobs to come above which measurements of scouts may exhaust the task"
    )
    max_cpu_ratio = knob(2.0, least=0.0).means(
        "factor on the task's cpuTime above which scouts exhaust the task; 0: never"
    )
    max_cpu_ratio_from_h = knob(0.0, "h", current=24.0, least=0.0).means(
        "least duration of one scout for that rule"
    )
    max_ram_mb = knob(0, "MB", current=4000, least=0).means(
        "memory per core of scouts above which they exhaust a task that asks for less; 0: never"
    )
    short_s = knob(240.0, "s", least=0.0).means("duration below which scouts are short")
    short_max_scouts = knob(5, "jobs", least=0).means(
        "short scouts above which an analysis task is exhausted"
    )
    short_max_expected_jobs = knob(1000, "jobs", least=0).means(
        "least expected jobs for that rule, exclusive"
    )


class BuildKnobs(Component):
    max_attempt = knob(3, "attempts", least=1).means("attempts of a build at an endpoint")
    kept_s = knob(604_800.0, "s", least=1.0).means("life of a built library")


class ThrottleKnobs(Component):
    every = knob(5, "attempts", least=1).means(
        "JEDI throttles a task when throttle.measure reaches a multiple of this"
    )
    measure = knob(
        "largest_attempt",
        "name",
        current="mean_failures",
        among=("largest_attempt", "mean_failures"),
    ).means(
        "number that throttles a task when jobs are made: the largest attemptNr of a job, or the "
        "mean of failures of the files that are left"
    )
    unit_s = knob(7200.0, "s", least=0.0).means(
        "rest of a throttled task: this time x the square of how often it was throttled"
    )


class AutopauseKnobs(Component):
    failure_percent = knob(0.0, "%", current=90.0, least=0.0, most=100.0).means(
        "part of failed jobs from which JEDI pauses a task; 0: never"
    )
    min_ended = knob(1000, "jobs", least=1).means("least ended jobs of a task for that rule")
    min_left = knob(100, "jobs", least=0).means("least jobs still to do of a task for that rule")


class BoostKnobs(Component):
    done_percent = knob(95.0, "%", least=0.0, most=100.0).means(
        "finished and failed files from which JEDI boosts a production task"
    )
    jobs = knob(100, "jobs", current=101, least=0).means(
        "remaining jobs below which JEDI boosts it"
    )
    priority = knob(900, least=0).means("least priority of a boosted task; its share is Express")


class CapsKnobs(Component):
    user_jobs = knob(10_000, "jobs", least=0).means(
        "most running analysis jobs of a user without a limit of their own; 0: no limit"
    )
    group_jobs = knob(0, "jobs", least=0).means(
        "most running analysis jobs of a working group; 0: no limit"
    )
