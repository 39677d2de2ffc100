"""The settings of brokers, the throttler and shares: where work goes, and how much."""

from jedi.core.knobs.knob import Component, knob, switch


class TaskbrokerKnobs(Component):
    batch = knob(100, "tasks", least=1).means("tasks assigned in one claim")
    min_free_gb = knob(0.0, "GB").means("free space that a nucleus of vo local must have")
    room_tb = knob(5.0, "TB", current=100.0, least=0).means(
        "free space that a nucleus must keep when its tasks have ended"
    )
    count_reserved = switch(0, current=1).means(
        "1: reserved and unavailable space does not count as free"
    )
    endpoint_status = switch(0, current=1).means(
        "1: the endpoint of a nucleus must exchange files with other sites, and some endpoint must "
        "send input that a nucleus lacks"
    )
    backlog = knob(2000, "files", least=1).means(
        "limit of the files on their way to a nucleus, exclusive"
    )
    backlog_spares_t1 = switch(0, current=1).means(
        "1: that limit does not count for tasks with a negative t1Weight"
    )
    local_percent = knob(10.0, "%", least=0, most=100).means(
        "part of a large input that a nucleus must have"
    )
    local_above_gb = knob(1.0, "GB", least=0).means("size above which an input is large")
    local_above_files = knob(100, "files", least=0).means(
        "number of files above which an input is large"
    )
    local_gives_way = switch(0, current=1).means(
        "1: if no nucleus has that part, tasks may get their input moved under the limits below"
    )
    local_io_kb_s = knob(200.0, "kB/s", least=0).means(
        "highest I/O intensity of tasks whose input may move to a nucleus"
    )
    local_max_gb = knob(10_000.0, "GB", least=0).means("largest input that may move to a nucleus")
    local_priority = knob(800, "priority", least=0).means(
        "priority from which I/O intensity and size do not limit such moves"
    )
    local_days = knob(7.0, "days", least=0).means(
        "waiting time of a task after which its input may move in any case"
    )
    complete_percent = knob(100.0, "%", current=90.0, least=0, most=100).means(
        "part of a dataset that makes an endpoint a source of it"
    )
    data_if_intensive = switch(0, current=1).means(
        "1: input at a nucleus adds weight only for I/O-intensive tasks"
    )
    space_counts = switch(0, current=1).means("1: free space adds weight")
    free_cutoff_tb = knob(1000.0, "TB", least=0).means(
        "free space above which the weight grows no more"
    )
    retry_s = knob(1800.0, "s", least=0).means(
        "wait before the next choice of a nucleus when none fits"
    )
    retry_soon_s = knob(120.0, "s", current=1800.0, least=0).means(
        "wait before the next choice when the reasons of some nucleus pass by themselves"
    )


class BrokerKnobs(Component):
    max_sites = knob(5, "sites", least=1).means("most sites that the generic broker offers")
    memory_factor = knob(1.0, current=0.9, least=0.0, most=1.0).means(
        "part of the requested memory that a site must offer; less than 1 keeps borderline jobs "
        "out of slots for large ones"
    )
    min_free_gb = knob(200.0, "GB").means("usable space that an output endpoint must have")
    space_strict = switch(1, current=0).means(
        "1: space must exceed broker.min_free_gb and taskbroker.room_tb; 0: it may equal them"
    )
    pilot_fresh_s = knob(10_800.0, "s").means(
        "age of the last pilot contact after which a site counts as having no pilots"
    )
    local = knob("generic", "name", among=("generic", "full")).means(
        "brokers of vo local: generic, or full as for other vos"
    )
    best_sites = knob(10, "sites", least=1).means("most sites that the production broker offers")
    best_when_capped = knob(3, "sites", current=0, least=0).means(
        "sites that it offers when all fitting sites have reached their cap of waiting jobs"
    )
    skip_test_names = switch(1, current=0).means(
        "1: sites with `test` in their names take only tasks that name them"
    )
    t1_only_from = knob(901, "priority", current=0, least=0).means(
        "least priority of jobs that go only to T1s, as scouts do; 0: no such rule"
    )
    pledged_from = knob(0, "priority", current=800, least=0).means(
        "least priority of jobs that avoid opportunistic sites, as scouts do; 0: no such rule"
    )
    active_from = knob(801, "priority", current=800, least=0).means(
        "least priority of jobs that go only to active sites, as scouts and merging tasks do; 0: "
        "no such rule"
    )
    active_s = knob(7200.0, "s", least=0).means(
        "a site is active if a job started there within this time"
    )
    idle_only_with_queue = switch(0, current=1).means(
        "1: a site where no job waits for a slot now counts as active; 0: a site where none waited "
        "within broker.active_s does"
    )
    any_cores_below = knob(0, "priority", current=900, least=0).means(
        "priority below which tasks with any number of cores, and scouts, get several cores; 0: no "
        "such rule"
    )
    zero_share_unnamed = switch(1, current=0).means(
        "1: a fair-share policy gives nothing to work that none of its rules names"
    )
    express_from = knob(1000, "priority", current=1001, least=0).means(
        "least priority of jobs whose transfers go first"
    )
    link_cap = knob(300, "files", current=149, least=0).means(
        "most files on their way from one site to the nucleus"
    )
    nucleus_cap = knob(0, "files", current=10_000, least=0).means(
        "limit of the files on their way from all sites to the nucleus, exclusive; 0: no limit"
    )
    io_from_input = switch(1, current=0).means(
        "1: I/O intensity is input divided by expected execution time; 0: as scouts measured it"
    )
    io_intensive_kb_s = knob(200.0, "kB/s").means(
        "I/O intensity above which only small inputs move"
    )
    move_gb = knob(10.0, "GB").means(
        "size below which the missing input of I/O-intensive jobs is small"
    )
    move_files = knob(100, "files", least=1).means(
        "number of files below which the missing input of I/O-intensive jobs is small"
    )
    void_if_nobody = switch(0, current=1).means(
        "1: the limits on moving input of I/O-intensive jobs do not count if they leave no site"
    )
    io_spares_events = switch(0, current=1).means(
        "1: the limits on moving input do not count for the event service"
    )
    site_io_limits = switch(0, current=1).means(
        "1: max_io_intensity and maxdiskio of a site limit the I/O of its jobs"
    )
    max_disk_io_kb_s = knob(0.0, "kB/s", least=0).means(
        "disk I/O per core of sites without maxdiskio; 0: no limit"
    )
    min_output_mb = knob(2560.0, "MB", current=1500.0, least=0).means(
        "least output that brokers assume for a job"
    )
    spare_work_mb = knob(0.0, "MB", current=300.0, least=0).means(
        "scratch space of a job besides the workDiskCount of its task, if that is set"
    )
    unknown_time_h = knob(0.0, "h", current=24.0, least=0).means(
        "least slot for jobs of unknown duration, in hours on 10 HS06; 0: no such rule"
    )
    es_high_from = knob(500, "priority", least=0).means(
        "least priority of event-service jobs for sites that take only those of high priority"
    )
    transferring_ratio = knob(2.0, least=0).means(
        "most jobs that send outputs for each running job, above the site's own limit"
    )
    transferring_spares_nucleus = switch(0, current=1).means(
        "1: that limit does not count for the queues of the task's nucleus"
    )
    bootstrap_jobs = knob(20, "jobs", least=0).means(
        "pilots count as running jobs at sites with fewer running jobs than this"
    )
    bootstrap_max_priority = knob(0, "priority", current=150, least=0).means(
        "highest priority of jobs for which pilots count as running jobs; 0: any priority"
    )
    bootstrap_streaming = switch(0, current=1).means(
        "1: pilots count so at unified sites that send pilots before there are jobs "
        "(catchall.workflow pull_ups), if pilots were seen there"
    )
    bootstrap_empty = switch(0, current=1).means(
        "1: a site without any job of the share gets one batch of such jobs before other sites"
    )
    declared_slots = switch(0, current=1).means(
        "1: slots of catchall.num_slots_map count as running jobs (0 slots: starting jobs count)"
    )
    cap_ratio = knob(2.0, least=0).means("most waiting jobs of a site for each running job")
    cap_jobs = knob(0, "jobs", current=20, least=0).means(
        "waiting jobs that a site may always have"
    )
    cap_by_type = switch(0, current=1).means(
        "1: the cap of waiting jobs counts each resource type by itself"
    )
    cap_spares_express = switch(0, current=1).means(
        "1: the cap of waiting jobs does not count for urgent jobs"
    )
    t1_io_from = knob(500.0, "kB/s", current=500.1).means(
        "least I/O intensity of tasks without t1Weight that get broker.t1_io_weight"
    )
    t1_io_weight = knob(4.0, least=1).means("T1 weight of tasks with high I/O intensity")
    t1_cloud_weights = knob("", "weight", least=1, pairs=True).means(
        "T1 weights of clouds instead of broker.t1_io_weight, such as US=8, WORLD=2"
    )
    t1_priority_from = knob(900, "priority", least=0).means(
        "least priority of jobs that get broker.t1_priority_weight"
    )
    t1_priority_weight = knob(100.0, least=1).means("least T1 weight of jobs of high priority")
    t1_spares = switch(0, current=1).means(
        "1: event-service tasks and tasks that name their sites never get broker.t1_priority_weight"
    )
    t1_spares_merging = switch(0, current=1).means(
        "1: merge jobs of tasks with t1Weight -1 may leave the nucleus"
    )
    t1_scouts = switch(0, current=1).means("1: scouts get broker.t1_priority_weight, too")
    one_queue_at_t1 = switch(0, current=1).means(
        "1: with t1Weight -1, the queue with most running jobs gets all jobs"
    )


class NetworkKnobs(Component):
    active = switch(1, current=0).means("1: the network weight counts")
    queue_part = knob(0.5, least=0, most=1).means(
        "part of the queued files in the network weight, besides the speed of the link"
    )
    full_queue = knob(300.0, "files", current=150.0, least=1).means(
        "queued files on a link at which that part is smallest"
    )
    weight_from_50 = knob(1.7, current=1.6).means("weight of a speed between 50 and 75 MB/s")
    express_threshold = knob(1.7).means("least network weight of sites for urgent jobs")
    express_multiplier = knob(1.0).means("factor on that threshold")


class AnalysisKnobs(Component):
    max_sites = knob(10, "sites", least=1).means("most sites with jobs of an analysis task")
    transfer_input = knob("closed", "when", current="always", among=("closed", "always")).means(
        "closed: input moves after jobs of the task were closed at all sites that have it; always: "
        "it moves whenever jobs cannot go to it"
    )
    avoid_troubled = switch(0, current=1).means(
        "1: analysis jobs avoid hospital queues, and sites beyond the limits of analysis.bad_jobs, "
        "analysis.cap_jobs and analysis.overload_jobs"
    )
    past_s = knob(21_600.0, "s", least=0).means("age up to which ended jobs of a task count")
    bad_jobs = knob(5, "jobs", least=0).means(
        "most failed and closed jobs of a task at a site; twice the finished ones if that is more"
    )
    cap_jobs = knob(20, "jobs", least=0).means(
        "most waiting jobs of a site, by resource type; broker.cap_ratio times the running ones if "
        "that is more"
    )
    overload_jobs = knob(20, "jobs", least=0).means("waiting jobs that never overload a site")
    overload_offset = knob(1.2, least=0).means(
        "factor on the average ratio of waiting to running jobs above which a site is overloaded"
    )


class ThrottlerKnobs(Component):
    queue_cap = knob(20_000, "jobs", least=1).means(
        "most queued jobs of a work queue without a share; no other limit throttles it"
    )
    threshold = knob(2.0, least=0.0).means(
        "queued jobs per running job above which a work queue has enough work"
    )
    threshold_when_short = knob(2.0, least=0.0).means(
        "the same threshold while core.work_shortage is on"
    )
    enough_work_s = knob(0.0, "s", current=5e7, least=0.0).means(
        "total duration of queued jobs up to which they are not enough work; 0: duration does not "
        "count"
    )
    bunch_least = knob(500, "jobs", least=2).means(
        "smallest bunch; a bunch is the gap to the threshold, and a cycle fills half of it"
    )
    bunch_most = knob(600, "jobs", least=2).means("largest bunch")
    limit_bunches = knob(4, "bunches", least=1).means(
        "bunches that may be queued in any case, unless the queue has an NQUEUELIMIT"
    )
    waiting_per_running = knob(4.0, least=0.0).means(
        "jobs that wait for other jobs, per running job, above which a work queue has enough work"
    )
    lack_percent = knob(90.0, "%", least=0.0, most=100.0).means(
        "part of the limit below which all generators may serve the queue at once"
    )
    limit_parts = knob(20, least=1).means(
        "each generator makes one of so many parts of the limit in a cycle"
    )
    cap_parts = knob(5, least=1).means(
        "a queue with an NQUEUECAP gets one of so many parts of it in a cycle"
    )
    firm_cap = switch(1, current=0).means(
        "1: only work more urgent than all queued jobs passes an NQUEUECAP, without an NQUEUELIMIT "
        "a cycle makes no more than one part of it, and below 90 % of one the cap says nothing"
    )
    few_urgent = knob(500, "jobs", least=0).means(
        "queued jobs of the highest priority below which work of that priority passes a full queue"
    )


class SharesKnobs(Component):
    demand_cap = knob("off", among=("off", "on")).means(
        "on: the allocation of a work queue ends at its demand, and other queues get the rest"
    )


class DecisionsKnobs(Component):
    snapshot_max_mb = knob(16, "MB", least=0).means(
        "largest snapshot, compressed; larger ones are not kept, and their decisions cannot be "
        "replayed"
    )
    total_max_mb = knob(2000, "MB", least=0).means(
        "most space of all snapshots; the oldest go first"
    )
