"""The settings of the work at sites: pilots, files that move, results, events."""

from jedi.core.knobs.knob import Component, knob


class PilotKnobs(Component):
    heartbeat_s = knob(30.0, "s", least=0.1).means("interval between heartbeats of a pilot")
    poll_s = knob(0.5, "s", least=0.1).means("interval between requests of a pilot without work")
    idle_s = knob(5.0, "s", least=0.0).means("time without work after which a pilot ends")
    share = knob("", "paths").means(
        "paths of the host's /tmp, /var/tmp and /dev/shm that payloads see, separated by blanks; "
        "the rest of these directories is private to each payload"
    )
    max_processes = knob(256, "processes", least=1).means("most processes of one payload")
    min_free_mb = knob(1000, "MB", least=0).means(
        "free space of the disk of work directories below which the payload that wrote most ends; "
        "0: no bound"
    )
    min_free_percent = knob(5, "%", least=1, most=100).means(
        "this part of the disk instead, if it is less than pilot.min_free_mb"
    )
    n_ranges = knob(8, "ranges", least=1, most=1000).means(
        "ranges of events that the pilot of a consumer asks for at a time, if its payload does not "
        "ask for more"
    )
    zip_ranges = knob(100, "ranges", least=1).means(
        "most ranges of events whose outputs a pilot puts into one zip file"
    )
    zip_s = knob(60.0, "s", current=600.0, least=0.0).means(
        "longest time until a pilot stores and reports the outputs of a finished range of events"
    )
    max_jobs = knob(1000, "jobs", least=1).means("most jobs of one pilot")


class SubmitterKnobs(Component):
    batch = knob(1000, "sites", least=1).means("most sites that the submitter serves in one claim")
    check_s = knob(5.0, "s", least=0.1).means(
        "interval between comparisons of local pilots with the process table"
    )
    queue_s = knob(15.0, "s", least=0.1).means(
        "interval between queries of batch systems and submissions to them"
    )
    command_s = knob(30.0, "s", least=0.1).means("time-out of a batch system's command")
    first_pilots = knob(100, "pilots", least=1).means(
        "most pilots sent to a site while none runs there; later, as many may wait as run"
    )
    part_jobs = knob(10, "jobs", least=1).means(
        "jobs of one pilot in a part of a slot; after them its cores may go to jobs of another "
        "shape"
    )
    walltime_s = knob(86_400, "s", least=60).means(
        "time in which a pilot in a batch system takes jobs, unless its site has a maxtime"
    )
    token_s = knob(172_800.0, "s", least=60.0).means(
        "life of a pilot's token after the last contact of its submitter"
    )


class MoverKnobs(Component):
    batch = knob(500, "jobs", least=1).means("jobs of a site whose files move in one claim")
    retry_s = knob(30.0, "s", least=0.1).means(
        "wait before the next try to move the files of a job"
    )
    patience_s = knob(300.0, "s").means("time of failed moves after which the job fails")
    copy_lifetime_s = knob(604_800.0, "s", least=0.0).means(
        "longest life of a copy of a one-time input at the site that it was moved to; 0: for ever"
    )


class StagingKnobs(Component):
    batch = knob(100, "files", least=1).means(
        "files requested from tape at once; jobs use them when they have arrived"
    )
    limit_gb = knob(1024.0, "GB", least=0.0).means(
        "most data on its way from tape for one user (PRESTAGE_LIMIT); 0: no limit"
    )


class AdderKnobs(Component):
    batch = knob(500, "jobs", least=1).means("jobs whose results are stored in one transaction")
    retry_s = knob(30.0, "s", least=1).means(
        "wait before the next try to store the results of a job"
    )


class EventserviceKnobs(Component):
    batch = knob(100, "job sets", least=1).means(
        "job sets of events whose consumers end in one transaction"
    )
    retry_s = knob(30.0, "s", least=1).means(
        "wait before the next try to end the consumers of a job set"
    )
    jumbo_tries = knob(3, "jobs", least=1).means(
        "jumbo jobs of a task, one after the other, that process nothing, after which JEDI makes "
        "no more"
    )
    lost_pieces_s = knob(900.0, "s", least=0).means(
        "time from the end of the last consumer of a job set on after which pieces that its merge "
        "job can't read are lost; less than timeout.waiting_s"
    )
    merge_attempts = knob(3, "jobs", least=1).means(
        "merge jobs that a job set of events may have, one after the other"
    )
    merge_priority = knob(5000).means("priority of the merge jobs of job sets")
    merge_share = knob("Express").means("global share of the merge jobs of job sets")
    merge_memory_mb = knob(2000, "MB", least=1).means("memory of the merge jobs of job sets")


class JumboDogKnobs(Component):
    max_tasks = knob(1, "tasks", least=0).means(
        "active tasks with jumbo jobs; the JumboWatchDog enables no more"
    )
    min_events_disable = knob(100_000, "events", least=0).means(
        "remaining events below which a task loses its jumbo jobs"
    )
    min_events_enable = knob(-1, "events", least=-1).means(
        "a task gets jumbo jobs if more events than this remain; -1: 10 times "
        "jumbo_dog.min_events_disable"
    )
    max_events = knob(-1, "events", least=-1).means(
        "remaining events of all tasks with jumbo jobs from which no other task gets any; -1: half "
        "of jumbo_dog.max_tasks times the limit that enables"
    )
    per_task = knob(1, "jobs", least=1).means("jumbo jobs of a task")
    per_site = knob(1, "jobs", least=1).means("jumbo jobs of a task at a site")
    max_curr_prio = knob(500, "priority", least=0).means(
        "tasks of this priority or more get no jumbo jobs"
    )
