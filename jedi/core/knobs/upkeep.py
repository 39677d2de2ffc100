"""The settings of watchdogs: their periods, time-outs of jobs, lives of files and records."""

from jedi.core.knobs.knob import Component, knob


class WatchdogKnobs(Component):
    shares_period_s = knob(10.0, "s", least=0.1).means("interval between computations of shares")
    measure_period_s = knob(60.0, "s", least=0.1).means(
        "interval between searches for running tasks to measure again"
    )
    timeouts_period_s = knob(60.0, "s", least=0.1).means("stalled-job check interval")
    leases_period_s = knob(30.0, "s", least=0.1).means(
        "interval between searches for leases of dead workers"
    )
    pending_period_s = knob(15.0, "s", least=0.1).means("pending-task check interval")
    statistics_period_s = knob(5.0, "s", least=0.1).means(
        "interval between updates of job statistics"
    )
    progress_period_s = knob(30.0, "s", least=0.1).means(
        "interval between updates of the progress of tasks"
    )
    sweep_period_s = knob(600.0, "s", least=0.1).means(
        "interval between searches for leftovers of attempts"
    )
    staging_period_s = knob(10.0, "s", least=0.1).means(
        "interval between requests for files on tape"
    )
    copies_period_s = knob(3600.0, "s", least=0.1).means(
        "interval between searches for copies that no job needs any more"
    )
    expiry_period_s = knob(21_600.0, "s", least=0.1).means(
        "interval between searches for expired files"
    )
    purge_period_s = knob(60.0, "s", least=0.1).means(
        "interval between searches for outputs to purge"
    )
    space_period_s = knob(60.0, "s", least=0.1).means(
        "interval between measurements of the space at endpoints"
    )
    diskio_period_s = knob(300.0, "s", least=0.1).means(
        "interval between averages of the disk I/O of running jobs"
    )
    merging_timeout_s = knob(14_400.0, "s").means(
        "time after which a merge job or jumbo job that no pilot takes goes to another site"
    )
    heartbeat_timeout_s = knob(7200.0, "s").means("silence after which a running job fails")
    gone_pilot_s = knob(60.0, "s").means("time-out of a sent job whose pilot has ended")
    sent_timeout_s = knob(1800.0, "s").means("time-out of a sent job that does not start")
    pending_retry_s = knob(3600.0, "s").means(
        "wait before the next try of a pending task, unless its agent set another; longest wait "
        "between tries that double"
    )
    pending_timeout_s = knob(604_800.0, "s").means(
        "time on hold, or without a nucleus, after which a task is exhausted"
    )
    throttle_period_s = knob(300.0, "s", least=0.1).means("throttled-task check interval")
    exhausted_period_s = knob(300.0, "s", least=0.1).means("exhausted-task check interval")
    exhausted_timeout_s = knob(864_000.0, "s", current=172_800.0).means(
        "time after which an exhausted task ends"
    )
    goal_period_s = knob(3600.0, "s", least=0.1).means(
        "interval between checks whether tasks have reached their goal"
    )
    failing_period_s = knob(300.0, "s", least=0.1).means(
        "interval between searches for tasks to pause because most of their jobs fail"
    )
    jumbo_period_s = knob(600.0, "s", least=0.1).means("interval between runs of the JumboWatchDog")
    jumbo_jobs_period_s = knob(60.0, "s", least=0.1).means(
        "interval between checks whether tasks lack jumbo jobs"
    )
    co_jumbo_period_s = knob(3600.0, "s", least=0.1).means(
        "interval between searches for consumers whose events are processed, in tasks with jumbo "
        "jobs"
    )
    boost_period_s = knob(300.0, "s", current=1200.0, least=0.1).means(
        "interval between searches for nearly complete tasks"
    )
    retries_period_s = knob(5.0, "s", least=0.1).means(
        "interval between changes of tasks by retry rules"
    )
    periods_period_s = knob(5.0, "s", least=0.1).means(
        "interval between searches for periodical tasks that are due"
    )
    period_grace_s = knob(300.0, "s", least=0.0).means(
        "delay after which a period counts as missed"
    )
    caps_period_s = knob(60.0, "s", least=0.1).means(
        "interval between counts of users' running jobs"
    )
    cap_room_period_s = knob(5.0, "s", least=0.1).means(
        "interval between looks for room under caps, while jobs are kept back"
    )
    lookup_period_s = knob(3600.0, "s", least=0.1).means(
        "interval between queries of data management for inputs of urgent assigned jobs"
    )
    archive_period_s = knob(3600.0, "s", least=0.1).means("interval between runs of the archive")
    retention_period_s = knob(21_600.0, "s", least=0.1).means(
        "interval between removals of old records"
    )
    notifier_period_s = knob(5.0, "s", least=0.1).means(
        "interval between deliveries of messages to users"
    )
    batch = knob(1000, "rows", least=1).means("most rows that a dog changes in one transaction")


class TimeoutKnobs(Component):
    waiting_s = knob(1800.0, "s").means("time-out of a job that waits for other jobs")
    pending_s = knob(3600.0, "s").means("time-out of a job that is not set up")
    defined_s = knob(14_400.0, "s").means("time-out of a job that is not prepared")
    assigned_s = knob(43_200.0, "s").means("time-out of a job whose inputs do not arrive")
    activated_s = knob(172_800.0, "s").means("time-out of an activated job that does not start")
    analysis_s = knob(43_200.0, "s").means("time-out of an analysis job that no pilot takes")
    urgent_s = knob(14_400.0, "s").means("time-out of an urgent job at a site where no job starts")
    urgent_from = knob(800, "priority", least=0).means(
        "least priority of urgent jobs, also for transfers"
    )
    idle_s = knob(7200.0, "s").means("time without a start after which no job starts at a site")
    t2_s = knob(21_600.0, "s").means(
        "time-out of an evgen or simul job that no pilot takes at a T2 without running jobs"
    )
    t2_ratio = knob(0.0, least=0.0).means(
        "waiting jobs per running job above which a T2 with running jobs has that time-out"
    )
    t1_s = knob(21_600.0, "s").means(
        "time-out of an evgen or simul job that no pilot takes at a T1"
    )
    t1_spared = knob("US, ND", "clouds").means("clouds whose T1s have no such time-out")
    throttled_s = knob(604_800.0, "s").means("time-out of a throttled job")
    running_s = knob(1_814_400.0, "s").means("time-out of a running job")
    holding_s = knob(10_800.0, "s", current=172_800.0).means(
        "time-out of a job whose results cannot be added"
    )


class HoldKnobs(Component):
    sites = knob("", "sites").means(
        "sites where jobs may be held in their pilots: a held job keeps its slot"
    )
    in_pilot_s = knob(7200.0, "s", least=1.0).means("longest hold in a pilot; then the job fails")


class LookupKnobs(Component):
    above = knob(800, "priority").means(
        "priority above which assigned jobs are urgent for these queries"
    )


class ArchiveKnobs(Component):
    age_s = knob(259_200.0, "s", least=3600.0).means(
        "age of ended jobs from which they are archived"
    )


class LifetimeKnobs(Component):
    transient_days = knob(14.0, "d", least=0.0).means(
        "life of outputs with `transient` after their task's end; 0: for ever"
    )
    failed_logs_days = knob(0.0, "d", current=30.0, least=0.0).means(
        "life of logs of failed, aborted and broken tasks; 0: for ever"
    )
    logs_days = knob(365.0, "d", least=0.0).means("life of logs of all tasks; 0: for ever")
    job_outputs_days = knob(0.0, "d", least=0.0).means(
        "life of outputs after the job's end, but not less than until the task's end; 0: for ever; "
        "PGI proposes several weeks"
    )


class RetentionKnobs(Component):
    requests_days = knob(1.0, "d", least=0.0).means(
        "life of answers to pilots; 0 here and below: for ever"
    )
    jobs_days = knob(90.0, "d", least=0.0).means(
        "life of parameters, last output, status log and retry matches of archived jobs"
    )
    decisions_days = knob(30.0, "d", least=0.0).means("life of brokers' decisions")
    snapshots_days = knob(30.0, "d", least=0.0).means("life of snapshots that no decision uses")
    pilots_days = knob(7.0, "d", least=0.0).means("life of records of ended pilots")
    tokens_days = knob(7.0, "d", least=0.0).means("life of expired tokens")
    messages_days = knob(28.0, "d", least=0.0).means(
        "life of sent and undeliverable messages to users"
    )
    cache_days = knob(14.0, "d", least=0.0).means(
        "life of uploads in the file cache of PanDA's clients after their last use"
    )
    sandboxes_days = knob(365.0, "d", least=0.0).means("life of sandboxes of ended tasks")
    answers_days = knob(1.0, "d", least=0.0).means(
        "life of answers to requests with an Idempotency-Key"
    )
    audit_days = knob(365.0, "d", least=0.0).means("life of the audit's entries")
    rates_days = knob(90.0, "d", least=0.0).means("life of hourly numbers of jobs")
