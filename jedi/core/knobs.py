"""Every live setting, declared once: component, key, type, unit, both presets, meaning.

`classic` is the behaviour of the JEDI document, `current` PanDA's of today. Values that differ from
the preset live in jedi_knobs; `Knobs` is the frozen view that policies get.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jedi.core.errors import BadInput, Problem

PRESETS = ("classic", "current")
_KINDS = {int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class Knob:
    """A declared setting. The type of `classic` is its type."""

    component: str
    key: str
    unit: str
    classic: Any
    current: Any
    meaning: str
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`component.key`."""
        return f"{self.component}.{self.key}"

    def default(self, preset: str) -> Any:
        """The value of a preset."""
        return self.classic if preset == "classic" else self.current

    def check(self, value: Any) -> Any:
        """The value, converted from text if need be; BadInput names the rule it breaks."""
        wanted = type(self.classic)
        if isinstance(value, str) and wanted is not str:
            with suppress(ValueError):
                value = json.loads(value)
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise self._bad(value, f"is {_KINDS[wanted]} [{self.unit}]")
        if self.least is not None and value < self.least:
            raise self._bad(value, f"is at least {self.least} [{self.unit}]")
        if self.most is not None and value > self.most:
            raise self._bad(value, f"is at most {self.most} [{self.unit}]")
        if self.among and value not in self.among:
            raise self._bad(value, f"is one of {', '.join(self.among)}")
        return value

    def _bad(self, value: Any, rule: str) -> BadInput:
        remedy = f"give a value like {self.classic!r}"
        return BadInput([Problem(self.name, value, f"{self.name} {rule}", remedy)])


def _knob(name: str, unit: str, default: Any, meaning: str, current: Any = None,
          least: float | None = None, most: float | None = None,
          among: tuple[str, ...] = ()) -> Knob:  # fmt: skip
    component, key = name.split(".")
    other = default if current is None else current
    return Knob(component, key, unit, default, other, meaning, least, most, among)


_RESUBMISSION = (
    "site cloud includedSite excludedSite nFilesPerJob nGBPerJob nFiles nEvents ignoreMissingInDS"
)
_ALSO = (
    "cliParams fixedSandbox taskPriority ramCount t1Weight nEsConsumers nMaxFilesPerJob "
    "noInputPooling nEventsPerWorker nJumboJobs avoidVP allowInputLAN useLocalIO noLoopingCheck "
    "maxCoreCount onlyTagsForFC useZipToPin noAutoPause allowIncompleteInDS"
)

_DECLARED = [
    _knob("core.preset", "name", "classic", "the preset that fills in unset knobs",
          among=PRESETS),
    _knob("agent.poll_s", "s", 2.0, "an agent looks for work at least this often", least=0.01),
    _knob("agent.lease_s", "s", 120.0, "a claim ends after this time unless renewed", least=1),
    _knob("agent.heartbeat_s", "s", 10.0, "an agent says it is alive this often", least=0.1),
    _knob("agent.max_deaths", "claims", 3,
          "a task whose workers died this often in a row is set aside as exhausted", least=1),
    _knob("taskrefiner.batch", "tasks", 100, "tasks refined in one transaction", least=1),
    _knob("contentsfeeder.batch", "tasks", 10, "tasks fed in one claim", least=1),
    _knob("contentsfeeder.max_records", "records", 5_000_000,
          "most records of one dataset; beyond, the task is broken", 200_000, least=1),
    _knob("contentsfeeder.recheck_s", "s", 300.0, "an open dataset is looked up this often"),
    _knob("contentsfeeder.quiet_s", "s", 10.0, "what another task is making is looked up as it "
          "grows, but not more often than this", least=0.1),
    _knob("taskbroker.batch", "tasks", 100, "tasks assigned in one claim", least=1),
    _knob("jobgen.batch", "tasks", 10, "tasks served in one claim", 50, least=1),
    _knob("jobgen.n_files", "files", 100_000, "files turned into jobs in one cycle", 5_000,
          least=1),
    _knob("jobgen.retry_s", "s", 30.0, "wait after the throttler or broker said no", least=0.0),
    _knob("jobgen.max_files_per_job", "files", 200, "files per job where no rule says otherwise",
          least=1),
    _knob("jobgen.hard_max_files_per_job", "files", 1000, "no job gets more files", least=1),
    _knob("jobgen.max_gb_per_job", "GB", 20.0, "input per job where no rule says otherwise"),
    _knob("jobgen.ng_output_gb", "GB", 2.5, "nGBPerJob counts the output of a job as so much at "
          "least", 1500 / 1024, least=0.0),
    _knob("jobgen.ng_covers_all", "truth", True, "nGBPerJob covers, besides the input, that least "
          "output and the work directory; false: these are allowed on top of it", False),
    _knob("jobgen.max_output_gb", "GB", 0.0, "no job is to make more output, where neither files "
          "nor events per job are fixed; 0: no limit", 10.0, least=0.0),
    _knob("jobgen.batch_jobs", "jobs", 25, "jobs that go to one site in a row", least=1),
    _knob("jobgen.batch_scouts", "jobs", 2, "... of scouts, which tell more of several sites",
          least=1),
    _knob("jobgen.jobs_per_step", "jobs", 0, "for so many jobs that a user has, or a working "
          "group, new ones of an analysis task are a step less urgent; 0: they are as urgent", 5,
          least=0),
    _knob("broker.max_sites", "sites", 5, "sites the generic broker offers", least=1),
    _knob("broker.memory_factor", "", 1.0, "part of the memory asked that a site must have: less "
          "than 1 keeps borderline jobs out of slots for large ones", 0.9, least=0.0, most=1.0),
    _knob("broker.min_free_gb", "GB", 200.0, "usable space an output endpoint must have"),
    _knob("broker.pilot_fresh_s", "s", 10_800.0, "a site whose pilots were last seen earlier "
          "has none"),
    _knob("core.work_shortage", "0/1", 0, "1: work is short, sites give no more than they pledged",
          least=0, most=1),
    _knob("broker.local", "name", "generic", "the brokers of vo local: generic, or full as those "
          "of other vos", among=("generic", "full")),
    _knob("broker.best_sites", "sites", 10, "sites the production broker offers", least=1),
    _knob("broker.best_when_capped", "sites", 3, "sites it offers where all that fit have jobs "
          "enough", 0, least=0),
    _knob("broker.skip_test_names", "0/1", 1, "1: sites with `test` in their names take only "
          "tasks that ask for them", 0, least=0, most=1),
    _knob("broker.t1_only_from", "priority", 901, "jobs of this priority, and scouts, go only to "
          "T1s; 0: none do", 0, least=0),
    _knob("broker.pledged_from", "priority", 0, "jobs of this priority, and scouts, do not go to "
          "opportunistic sites; 0: all may", 800, least=0),
    _knob("broker.active_from", "priority", 801, "jobs of this priority, scouts, and tasks that "
          "merge go only where jobs start; 0: all go anywhere", 800, least=0),
    _knob("broker.active_s", "s", 7200.0, "... where one started within this time", least=0),
    _knob("broker.idle_only_with_queue", "0/1", 0, "1: a site where nothing waits for a slot "
          "now counts as active; 0: one where nothing waited within broker.active_s", 1, least=0,
          most=1),
    _knob("broker.any_cores_below", "priority", 0, "tasks of any number of cores and this "
          "priority, and scouts, get several cores; 0: none do", 900, least=0),
    _knob("broker.zero_share_unnamed", "0/1", 1, "1: a fair-share policy leaves nothing for those "
          "it has no rule for", 0, least=0, most=1),
    _knob("broker.express_from", "priority", 1000, "transfers of jobs of this priority go first",
          1001, least=0),
    _knob("broker.link_cap", "files", 300, "most files on their way from a site to the nucleus",
          149, least=0),
    _knob("broker.nucleus_cap", "files", 0, "... fewer than this from all sites; 0: any number",
          10_000, least=0),
    _knob("broker.io_from_input", "0/1", 1, "1: I/O intensity is input by execution time, as "
          "expected; 0: as scouts measured it", 0, least=0, most=1),
    _knob("broker.io_intensive_kb_s", "kB/s", 200.0, "above, input is moved only if it is small"),
    _knob("broker.move_gb", "GB", 10.0, "... less than this is missing"),
    _knob("broker.move_files", "files", 100, "... and fewer files than this are", least=1),
    _knob("broker.void_if_nobody", "0/1", 0, "1: ... unless no site is left", 1, least=0, most=1),
    _knob("broker.io_spares_events", "0/1", 0, "1: ... but for event service", 1, least=0, most=1),
    _knob("broker.site_io_limits", "0/1", 0, "1: max_io_intensity and maxdiskio of a site limit "
          "the I/O of its jobs", 1, least=0, most=1),
    _knob("broker.max_disk_io_kb_s", "kB/s", 0.0, "... disk I/O per core where the site says "
          "nothing; 0: no limit", least=0),
    _knob("broker.min_output_mb", "MB", 2560.0, "outputs of a job count as this at least", 1500.0,
          least=0),
    _knob("broker.spare_work_mb", "MB", 0.0, "room that jobs get besides workDiskCount of their "
          "task, where that is said", 300.0, least=0),
    _knob("broker.unknown_time_h", "h", 24.0, "least slot, in hours on 10 HS06, for jobs of "
          "unknown duration", least=0),
    _knob("broker.es_high_from", "priority", 500, "event-service jobs of this priority go to "
          "sites for high ones", least=0),
    _knob("broker.transferring_ratio", "", 2.0, "jobs that may be sending outputs, by running "
          "ones, beyond the site's limit", least=0),
    _knob("broker.bootstrap_jobs", "jobs", 20, "where fewer run, so many pilots count as running "
          "jobs", least=0),
    _knob("broker.bootstrap_max_priority", "priority", 0, "... for jobs up to this priority; 0: "
          "for all", 150, least=0),
    _knob("broker.bootstrap_streaming", "0/1", 0, "1: ... at unified sites whose pilots come "
          "before there are jobs (catchall.workflow pull_ups), and were seen", 1, least=0, most=1),
    _knob("broker.bootstrap_empty", "0/1", 0, "1: a site with no job of the share gets a batch of "
          "such jobs before others do", 1, least=0, most=1),
    _knob("broker.declared_slots", "0/1", 0, "1: slots of catchall.num_slots_map count as running "
          "jobs (0 slots: those that start do)", 1, least=0, most=1),
    _knob("broker.cap_ratio", "", 2.0, "waiting jobs a site may have, by running ones", least=0),
    _knob("broker.cap_jobs", "jobs", 0, "... and so many at least", 20, least=0),
    _knob("broker.cap_by_type", "0/1", 0, "1: ... counted for each resource type", 1, least=0,
          most=1),
    _knob("broker.cap_spares_express", "0/1", 0, "1: ... but for urgent jobs", 1, least=0, most=1),
    _knob("broker.t1_io_from", "kB/s", 500.0, "tasks without t1Weight and with this I/O intensity "
          "get ...", 500.1),
    _knob("broker.t1_io_weight", "", 4.0, "... this T1 weight", least=1),
    _knob("broker.t1_priority_from", "priority", 900, "jobs of this priority get at least ...",
          least=0),
    _knob("broker.t1_priority_weight", "", 100.0, "... this T1 weight", least=1),
    _knob("broker.t1_scouts", "0/1", 0, "1: ... scouts, too", 1, least=0, most=1),
    _knob("broker.one_queue_at_t1", "0/1", 0, "1: with t1Weight -1 the queue with most running "
          "jobs gets all", 1, least=0, most=1),
    _knob("network.active", "0/1", 1, "1: the network weight counts", 0, least=0, most=1),
    _knob("network.queue_part", "", 0.5, "part of what waits on a link in its weight, beside its "
          "speed", least=0, most=1),
    _knob("network.full_queue", "files", 300.0, "files on a link where that part is least", 150.0,
          least=1),
    _knob("network.weight_from_50", "", 1.7, "weight of a speed between 50 and 75 MB/s", 1.6),
    _knob("network.express_threshold", "", 1.7, "network weight that urgent jobs need"),
    _knob("network.express_multiplier", "", 1.0, "... times this"),
    _knob("analysis.max_sites", "sites", 10, "sites the analysis broker offers", least=1),
    _knob("analysis.transfer_input", "when", "closed", "input moves where jobs cannot go to it: "
          "if some of theirs were closed at all sites that have it, or always", "always",
          among=("closed", "always")),
    _knob("analysis.past_s", "s", 21_600.0, "jobs of a task that ended within this time count",
          least=0),
    _knob("analysis.bad_jobs", "jobs", 5, "failed and closed jobs of a task that a site may have, "
          "or twice the finished ones", least=0),
    _knob("analysis.cap_jobs", "jobs", 20, "waiting jobs a site may have, or broker.cap_ratio "
          "times the running ones, of each resource type", least=0),
    _knob("analysis.overload_jobs", "jobs", 20, "waiting jobs a site may have ...", least=0),
    _knob("analysis.overload_offset", "", 1.2, "... or by running ones, so many times as on the "
          "average", least=0),
    _knob("taskbroker.min_free_gb", "GB", 0.0, "free space a nucleus of vo local must have"),
    _knob("taskbroker.room_tb", "TB", 5.0, "free space a nucleus must have when its tasks are "
          "done", 100.0, least=0),
    _knob("taskbroker.count_reserved", "0/1", 0, "1: space that is to stay free, or unavailable, "
          "is not free", 1, least=0, most=1),
    _knob("taskbroker.endpoint_status", "0/1", 0, "1: the endpoint of a nucleus must exchange "
          "files with other sites", 1, least=0, most=1),
    _knob("taskbroker.backlog", "files", 2000, "fewer files must be on their way to a nucleus",
          least=1),
    _knob("taskbroker.local_percent", "%", 10.0, "part of the input that a nucleus must have ...",
          least=0, most=100),
    _knob("taskbroker.local_above_gb", "GB", 1.0, "... of inputs larger than this", least=0),
    _knob("taskbroker.local_above_files", "files", 100, "... or of more files", least=0),
    _knob("taskbroker.local_gives_way", "0/1", 0, "1: where nobody has so much, it may be brought "
          "...", 1, least=0, most=1),
    _knob("taskbroker.local_io_kb_s", "kB/s", 200.0, "... if the task reads no faster than this "
          "...", least=0),
    _knob("taskbroker.local_max_gb", "GB", 10_000.0, "... and all of it is no larger", least=0),
    _knob("taskbroker.local_priority", "priority", 800, "... or the priority is this", least=0),
    _knob("taskbroker.local_days", "days", 7.0, "... or the task has waited so long", least=0),
    _knob("taskbroker.complete_percent", "%", 100.0, "part of a dataset that makes an endpoint a "
          "source of it", 90.0, least=0, most=100),
    _knob("taskbroker.data_if_intensive", "0/1", 0, "1: what a nucleus has of the input counts "
          "only where I/O is intensive", 1, least=0, most=1),
    _knob("taskbroker.space_counts", "0/1", 0, "1: free space counts", 1, least=0, most=1),
    _knob("taskbroker.free_cutoff_tb", "TB", 1000.0, "... up to this", least=0),
    _knob("taskbroker.retry_s", "s", 1800.0, "a task for which there is no nucleus is tried again "
          "after this time", least=0),
    _knob("taskbroker.retry_soon_s", "s", 120.0, "... after this where some nucleus is refused "
          "only for what passes by itself", 1800.0, least=0),
    _knob("throttler.queue_cap", "jobs", 20_000, "most queued jobs of a work queue without a "
          "share, which is not throttled otherwise", least=1),
    _knob("throttler.threshold", "", 2.0, "more queued jobs for each running one are enough",
          least=0.0),
    _knob("throttler.threshold_when_short", "", 2.0, "... while core.work_shortage is on",
          least=0.0),
    _knob("throttler.enough_work_s", "s", 0.0, "jobs that are queued are not enough where all of "
          "them together take no longer than this; 0: however long they take", 5e7, least=0.0),
    _knob("throttler.bunch_least", "jobs", 500, "least and ...", least=2),
    _knob("throttler.bunch_most", "jobs", 600, "... most of what is missing to the threshold that "
          "one cycle makes good by half", least=2),
    _knob("throttler.limit_bunches", "bunches", 4, "so many may be queued in any case, unless the "
          "queue has an NQUEUELIMIT", least=1),
    _knob("throttler.waiting_per_running", "", 4.0, "more jobs that wait for others for each "
          "running one are enough", least=0.0),
    _knob("throttler.lack_percent", "%", 90.0, "with less than this part of the limit queued, all "
          "generators may serve the queue at once", least=0.0, most=100.0),
    _knob("throttler.limit_parts", "", 20, "... and each may make this part of the limit", least=1),
    _knob("throttler.cap_parts", "", 5, "a queue with an NQUEUECAP gets this part of it at once",
          least=1),
    _knob("throttler.firm_cap", "0/1", 1, "1: only work more urgent than all that is queued passes "
          "an NQUEUECAP, and without an NQUEUELIMIT no more than that part is made at once", 0,
          least=0, most=1),
    _knob("throttler.few_urgent", "jobs", 500, "fewer queued jobs of the highest priority let work "
          "of that priority pass a full queue", least=0),
    _knob("shares.demand_cap", "", "off", "whether a work queue that could use less than its share "
          "gets no more than that, and others the rest", among=("off", "on")),
    _knob("watchdog.shares_period_s", "s", 10.0, "shares are computed this often", least=0.1),
    _knob("merge.max_attempt", "attempts", 3, "attempts per file that is to be merged", least=1),
    _knob("merge.max_files", "files", 50, "files merged into one where the task says nothing",
          least=1),
    _knob("merge.max_gb", "GB", 5.0, "size of a merged file where the task says nothing",
          least=0.001),
    _knob("merge.min_ram_mb", "MB", 0, "memory that a merge job asks for at least; 0: no more "
          "than the task says", 2000, least=0),
    _knob("merge.min_work_mb", "MB", 0, "room for work of a merge job, besides its files, at least",
          500, least=0),
    _knob("attempts.max_attempt", "attempts", 3, "attempts per file where the task says nothing",
          least=1),
    _knob("attempts.retry_adds", "attempts", 5, "attempts that the retry command adds", least=1),
    _knob("resubmission.may_change", "keys", _RESUBMISSION, "what may differ in a task that is "
          "submitted again; everything else is refused", f"{_RESUBMISSION} {_ALSO}"),
    _knob("retry.max_attempts", "attempts", 0, "a task with so many attempts is exhausted instead "
          "of being retried; 0 here and below: no limit", least=0),
    _knob("retry.max_file_attempts", "attempts", 0, "... if a file may have so many already",
          least=0),
    _knob("retry.max_failed_hepscore_h", "HEP-score h", 0.0, "... if its failed jobs took so much",
          least=0.0),
    _knob("retry.max_failed_hepscore_percent", "%", 0.0, "... if that is so much of all it took",
          least=0.0, most=100.0),
    _knob("retry.max_failed_jobs_percent", "%", 0.0, "... if so many of its jobs failed",
          least=0.0, most=100.0),
    _knob("retry.min_cpu_efficiency_percent", "%", 0.0, "... if its jobs, in the median, used less "
          "of their cores", least=0.0),
    _knob("pilot.heartbeat_s", "s", 30.0, "a pilot says it is alive this often", least=0.1),
    _knob("pilot.poll_s", "s", 0.5, "a pilot without work asks again after this time", least=0.1),
    _knob("pilot.idle_s", "s", 5.0, "a pilot without work leaves after this time", least=0.0),
    _knob("pilot.share", "paths", "", "what payloads see, beside blanks, of /tmp, /var/tmp and "
          "/dev/shm of the machine that they run on; all else there is their own"),
    _knob("pilot.max_processes", "processes", 256, "processes of one payload", least=1),
    _knob("pilot.max_jobs", "jobs", 100, "jobs of one pilot", least=1),
    _knob("submitter.batch", "sites", 1000, "sites that the submitter looks after", least=1),
    _knob("submitter.check_s", "s", 5.0, "local pilots are compared with the process table "
          "this often", least=0.1),
    _knob("submitter.queue_s", "s", 15.0, "batch systems are asked for our pilots, and given "
          "more, this often", least=0.1),
    _knob("submitter.command_s", "s", 30.0, "a command of a batch system that has not answered "
          "in this time is given up", least=0.1),
    _knob("submitter.first_pilots", "pilots", 100, "pilots sent to a site while none runs there; "
          "then as many may wait as run", least=1),
    _knob("submitter.part_jobs", "jobs", 10, "jobs of one pilot in a part of a slot; then its "
          "cores may go to jobs of another shape", least=1),
    _knob("submitter.walltime_s", "s", 86_400, "pilots take jobs for this time in batch systems, "
          "if their site has no maxtime", least=60),
    _knob("submitter.token_s", "s", 172_800.0, "a pilot's token lasts so long after its submitter "
          "was last seen", least=60.0),
    _knob("postprocessor.batch", "tasks", 50, "tasks finalised in one claim", least=1),
    _knob("postprocessor.retry_s", "s", 60.0, "a task that could not be finalised is tried again "
          "after this time", least=0.0),
    _knob("taskcommando.batch", "tasks", 100, "tasks whose commands are carried out in one claim",
          least=1),
    _knob("taskcommando.kill_batch", "jobs", 5_000, "queued jobs ended in one transaction",
          least=1),
    _knob("taskcommando.retry_s", "s", 60.0, "a command that could not be carried out is tried "
          "again after this time", least=0.0),
    _knob("taskcommando.longest_wait_s", "s", 30.0, "a task whose jobs are being ended is looked "
          "at ever more seldom, but once in this time", least=0.0),
    _knob("taskcommando.give_up_s", "s", 3600.0, "a command that the database could not take up "
          "for so long is refused", least=0.0),
    _knob("scout.chunks", "jobs", 10, "a task with more jobs than this first runs so many scout "
          "jobs; 0: none does", least=0),
    _knob("scout.open_wait_s", "s", 600.0, "while the input of a task is open, so many scouts are "
          "waited for so long", least=0.0),
    _knob("scout.sample", "jobs", 5, "scouts that are measured, those that finished first", 1000,
          least=1),
    _knob("scout.min_success_percent", "%", 0.0, "files of an analysis task that its scouts have "
          "to process, or it is broken; one at least", 50.0, least=0.0, most=100.0),
    _knob("scout.cpu_percentile", "%", 95.0, "the scout that tells cpuTime, by nearest rank",
          least=0.0, most=100.0),
    _knob("scout.events_per_core", "events", 0, "fewer events tell no cpuTime", 10, least=0),
    _knob("scout.ram_percentile", "%", 100.0, "the scout that tells ramCount; 100: the largest",
          75.0, least=0.0, most=100.0),
    _knob("scout.ram_margin_percent", "%", 0.0, "added to the memory that scouts used", 10.0,
          least=0.0),
    _knob("scout.ram_min_mb", "MB", 0, "scouts never tell less memory", 500, least=0),
    _knob("scout.out_percentile", "%", 75.0, "the scout that tells outDiskCount", least=0.0,
          most=100.0),
    _knob("scout.early_percent", "%", 100.0, "scouts are judged when so many of them finished, "
          "others being at work yet; 100: when all have ended", 50.0, least=1.0, most=100.0),
    _knob("scout.measure_at", "jobs", "5", "a running task is measured anew when so many of its "
          "jobs finished", "1,5,100", among=("none", "5", "1,5,100")),
    _knob("scout.exhaust_from_percent", "%", 0.0, "scouts that did not process enough, but so "
          "much, exhaust the task instead of breaking it; 0: never", least=0.0, most=100.0),
    _knob("scout.max_cpu_use", "", 0.0, "scouts that use more than so many times the processor "
          "time that their cores have exhaust the task; 0: never", 2.0, least=0.0),
    _knob("watchdog.measure_period_s", "s", 60.0, "running tasks that are to be measured anew are "
          "looked for this often", least=0.1),
    _knob("scout.limit_factor", "", 2.0, "a job may take so many times the time it is thought to "
          "need, and the memory that scouts measured, before it is killed", least=1.0),
    _knob("scout.least_limit_s", "s", 60.0, "... and at least so long: less tells more of the host "
          "than of the payload", least=0.0),
    _knob("scout.least_limit_mb", "MB", 1000, "... and so much memory at least", least=0),
    _knob("scout.exhaust_above_jobs", "jobs", 0, "only tasks with more jobs to come are exhausted "
          "by what their scouts say", 20, least=0),
    _knob("scout.max_cpu_ratio", "", 2.0, "scouts that take more than so many times the task's "
          "cpuTime exhaust it; 0: never", least=0.0),
    _knob("scout.max_cpu_ratio_from_h", "h", 0.0, "... if one of them ran longer", 24.0,
          least=0.0),
    _knob("scout.max_ram_mb", "MB", 0, "scouts that need more a core, where the task says less, "
          "exhaust it; 0: never", 4000, least=0),
    _knob("scout.short_s", "s", 240.0, "scouts that take less time are short", least=0.0),
    _knob("scout.short_max_scouts", "jobs", 5, "more short scouts of an analysis task ...",
          least=0),
    _knob("scout.short_max_expected_jobs", "jobs", 1000, "... exhaust it if more jobs are "
          "expected", least=0),
    _knob("mover.batch", "jobs", 500, "jobs of a site moved in one claim", least=1),
    _knob("mover.retry_s", "s", 30.0, "a job whose files could not be moved is tried again after",
          least=0.1),
    _knob("mover.patience_s", "s", 300.0, "a job whose files could not be moved for so long fails"),
    _knob("adder.batch", "jobs", 500, "jobs added in one transaction", least=1),
    _knob("adder.retry_s", "s", 30.0, "a job whose results could not be stored is tried again "
          "after this time", least=1),
    _knob("api.listen", "host:port", "", "where the service listens, and pilots reach it; beyond "
          "loopback with service.crt and service.key in the home; empty: a unix socket"),
    _knob("api.peer_connections", "connections", 512, "most that one address, or one process at "
          "the unix socket, may have; the one that has kept the service waiting longest makes room "
          "for the next", least=1),
    _knob("api.headers_s", "s", 10.0, "a connection that has not sent the headers of a request "
          "after this time is closed", least=0.1),
    _knob("api.body_s", "s", 60.0, "... and one that has not sent the rest", least=0.1),
    _knob("watchdog.timeouts_period_s", "s", 60.0, "jobs that do not get on are looked for this "
          "often", least=0.1),
    _knob("watchdog.leases_period_s", "s", 30.0, "leases of dead workers are looked for this "
          "often", least=0.1),
    _knob("watchdog.pending_period_s", "s", 15.0, "tasks on hold are looked at this often",
          least=0.1),
    _knob("watchdog.statistics_period_s", "s", 5.0, "job statistics are folded this often",
          least=0.1),
    _knob("watchdog.progress_period_s", "s", 30.0, "progress of tasks is noted this often",
          least=0.1),
    _knob("watchdog.sweep_period_s", "s", 600.0, "left-overs of attempts are looked for this "
          "often", least=0.1),
    _knob("contentsfeeder.chunks", "jobs", 1, "files of an open dataset are released for so many "
          "jobs at once, where the task does not say (nChunksToWait, noInputPooling)", 20, least=1),
    _knob("watchdog.staging_period_s", "s", 10.0, "files that are to come from tape are asked for "
          "this often", least=0.1),
    _knob("staging.batch", "files", 100, "files asked for at once; those that came are used then",
          least=1),
    _knob("staging.limit_gb", "GB", 1024.0, "most that is brought from tape at a time for a user "
          "(PRESTAGE_LIMIT); 0: no limit", least=0.0),
    _knob("watchdog.copies_period_s", "s", 3600.0, "copies that nobody needs any more are looked "
          "for this often", least=0.1),
    _knob("mover.copy_lifetime_s", "s", 604_800.0, "a copy of a one-time input stays no longer at "
          "the site it was brought to; 0: for good", least=0.0),
    _knob("watchdog.expiry_period_s", "s", 21_600.0, "what was made for a while is looked for this "
          "often", least=0.1),
    _knob("lifetime.transient_days", "d", 14.0, "outputs with `transient` stay so long after their "
          "task's end; 0: for good", least=0.0),
    _knob("lifetime.failed_logs_days", "d", 0.0, "... logs of failed, aborted and broken tasks",
          30.0, least=0.0),
    _knob("lifetime.logs_days", "d", 365.0, "... logs of all tasks", least=0.0),
    _knob("lifetime.job_outputs_days", "d", 0.0, "... outputs of jobs, after the job's end and "
          "not before the task's; PGI thinks of several weeks", least=0.0),
    _knob("watchdog.purge_period_s", "s", 60.0, "outputs that are not to be kept are looked for "
          "this often", least=0.1),
    _knob("watchdog.space_period_s", "s", 60.0, "the room at endpoints is measured this often",
          least=0.1),
    _knob("watchdog.diskio_period_s", "s", 300.0, "the disk I/O of running jobs is averaged this "
          "often", least=0.1),
    _knob("watchdog.merging_period_s", "s", 300.0, "merge jobs that no pilot takes are looked for "
          "this often", least=0.1),
    _knob("watchdog.merging_timeout_s", "s", 14_400.0, "a merge job that no pilot took is closed "
          "after"),
    _knob("watchdog.heartbeat_timeout_s", "s", 7200.0, "a running job not heard of fails after"),
    _knob("watchdog.sent_timeout_s", "s", 1800.0, "a sent job that does not start fails after"),
    _knob("timeout.waiting_s", "s", 1800.0, "a job that waits for others is closed after"),
    _knob("timeout.pending_s", "s", 3600.0, "... one that is not set up"),
    _knob("timeout.defined_s", "s", 14_400.0, "... one that is not prepared"),
    _knob("timeout.assigned_s", "s", 43_200.0, "... one whose inputs do not come"),
    _knob("timeout.activated_s", "s", 172_800.0, "... one that does not start"),
    _knob("timeout.analysis_s", "s", 43_200.0, "... one of analysis that no pilot takes"),
    _knob("timeout.urgent_s", "s", 14_400.0, "... an urgent one that does not start where no "
          "other does"),
    _knob("timeout.urgent_from", "priority", 800, "... which is one of this priority, for "
          "transfers, too", least=0),
    _knob("timeout.idle_s", "s", 7200.0, "... none having started within this time"),
    _knob("timeout.t2_s", "s", 21_600.0, "... one of evgen or simul that no pilot takes at a T2 "
          "where nothing runs"),
    _knob("timeout.t2_ratio", "", 0.0, "... or more wait for each running job than this",
          least=0.0),
    _knob("timeout.t1_s", "s", 21_600.0, "... one of evgen or simul that no pilot takes at a T1"),
    _knob("timeout.t1_spared", "clouds", "US, ND", "... but for T1s of these clouds"),
    _knob("timeout.throttled_s", "s", 604_800.0, "... one that is kept from pilots"),
    _knob("hold.sites", "sites", "", "jobs in pilots may be held at these sites: a held job keeps "
          "its slot"),
    _knob("hold.in_pilot_s", "s", 7200.0, "... and fail when they are held longer", least=1.0),
    _knob("timeout.running_s", "s", 1_814_400.0, "a job that runs fails after"),
    _knob("timeout.holding_s", "s", 10_800.0, "... one whose results can't be added", 172_800.0),
    _knob("watchdog.pending_retry_s", "s", 3600.0, "a pending task is tried again after, if "
          "whoever held it did not say when"),
    _knob("watchdog.pending_timeout_s", "s", 604_800.0, "a pending task is exhausted after"),
    _knob("watchdog.throttle_period_s", "s", 300.0, "whether throttled tasks have rested is looked "
          "at this often", least=0.1),
    _knob("throttle.every", "attempts", 5, "a task is throttled when it has come to so many, to "
          "twice as many ...", least=1),
    _knob("throttle.measure", "name", "largest_attempt", "what of: the largest attemptNr of a job, "
          "or the mean of failures of the files that are left; looked at when jobs are made",
          "mean_failures", among=("largest_attempt", "mean_failures")),
    _knob("throttle.unit_s", "s", 7200.0, "for this long x the square of how often it was",
          least=0.0),
    _knob("watchdog.exhausted_period_s", "s", 300.0, "exhausted tasks are looked at this often",
          least=0.1),
    _knob("watchdog.exhausted_timeout_s", "s", 864_000.0, "an exhausted task ends after",
          172_800.0),
    _knob("watchdog.goal_period_s", "s", 3600.0, "whether tasks have reached their goal is looked "
          "at this often", least=0.1),
    _knob("watchdog.failing_period_s", "s", 300.0, "tasks most of whose jobs fail are looked for "
          "this often", least=0.1),
    _knob("autopause.failure_percent", "%", 0.0, "a task is paused when so many of its jobs "
          "failed; 0: never", 90.0, least=0.0, most=100.0),
    _knob("autopause.min_ended", "jobs", 1000, "... of at least so many that ended", least=1),
    _knob("autopause.min_left", "jobs", 100, "... while so many are to do", least=0),
    _knob("watchdog.boost_period_s", "s", 300.0, "nearly complete tasks are looked for this often",
          1200.0, least=0.1),
    _knob("boost.done_percent", "%", 95.0, "production tasks are boosted when so much is done",
          least=0.0, most=100.0),
    _knob("boost.jobs", "jobs", 100, "... and fewer jobs than this are left", 101, least=0),
    _knob("boost.priority", "", 900, "a boosted task has this priority at least, and the "
          "share Express", least=0),
    _knob("watchdog.retries_period_s", "s", 5.0, "tasks are changed as retry rules say this often",
          least=0.1),
    _knob("retryrules.memory_percent", "%", 30.0, "if jobs of so much of a task's input ran out of "
          "memory, all ask for more", least=0.0, most=100.0),
    _knob("build.max_attempt", "attempts", 3, "a build is tried so often at an endpoint", least=1),
    _knob("build.kept_s", "s", 604_800.0, "what was built is used for so long", least=1.0),
    _knob("watchdog.periods_period_s", "s", 5.0, "periodical tasks whose time has come are looked "
          "for this often", least=0.1),
    _knob("watchdog.period_grace_s", "s", 300.0, "a period that begins later than this is missed",
          least=0.0),
    _knob("watchdog.caps_period_s", "s", 60.0, "running jobs of users are counted this often",
          least=0.1),
    _knob("caps.user_jobs", "jobs", 10_000, "most running analysis jobs of a user, who may have a "
          "number of his own; 0: no limit", least=0),
    _knob("caps.group_jobs", "jobs", 0, "... of a working group", least=0),
    _knob("watchdog.lookup_period_s", "s", 3600.0, "data management is asked this often whether "
          "inputs have come ...", least=0.1),
    _knob("lookup.above", "priority", 800, "... of assigned jobs of more than this priority"),
    _knob("watchdog.archive_period_s", "s", 3600.0, "ended jobs are archived this often",
          least=0.1),
    _knob("archive.age_s", "s", 259_200.0, "... when they ended so long ago", least=3600.0),
    _knob("watchdog.retention_period_s", "s", 21_600.0, "what is old is forgotten this often",
          least=0.1),
    _knob("retention.requests_days", "d", 1.0, "answers to pilots are forgotten after so many "
          "days; 0 here and below: never", least=0.0),
    _knob("retention.jobs_days", "d", 90.0, "... parameters, last output, status log and "
          "retry rules of archived jobs", least=0.0),
    _knob("retention.decisions_days", "d", 30.0, "... decisions of brokers", least=0.0),
    _knob("retention.snapshots_days", "d", 30.0, "... what brokers knew, and no decision is left "
          "of", least=0.0),
    _knob("retention.pilots_days", "d", 7.0, "... pilots that have ended", least=0.0),
    _knob("retention.tokens_days", "d", 7.0, "... tokens that have expired", least=0.0),
    _knob("retention.messages_days", "d", 28.0, "... what users were told, or could not be told",
          least=0.0),
    _knob("retention.sandboxes_days", "d", 365.0, "... local files of tasks that have ended",
          least=0.0),
    _knob("retention.rates_days", "d", 90.0, "... numbers of jobs by hour", least=0.0),
    _knob("watchdog.notifier_period_s", "s", 5.0, "messages to users are delivered this often",
          least=0.1),
    _knob("notify.retry_s", "s", 60.0, "a message that can't be delivered is tried again after ...",
          least=1.0),
    _knob("notify.longest_retry_s", "s", 600.0, "... twice as long each time, but not longer than",
          least=1.0),
    _knob("notify.timeout_s", "s", 10.0, "a receiver has so long for a message; a relay, for each "
          "of its answers", least=0.1),
    _knob("notify.smtp_host", "host", "", "relay that takes mail; empty: there is none"),
    _knob("notify.smtp_port", "port", 25, "its port", least=1, most=65_535),
    _knob("notify.smtp_tls", "", "none", "how mail is encrypted on its way there: not; after "
          "STARTTLS (port 587); from the first byte (port 465)", among=("none", "starttls", "tls")),
    _knob("notify.smtp_user", "name", "", "who logs in there, never without TLS; empty: nobody"),
    _knob("notify.smtp_password_file", "path", "", "file that holds that user's password"),
    _knob("notify.mail_from", "address", "jedi@localhost", "who mail is from"),
    _knob("watchdog.batch", "rows", 1000, "rows that a dog treats in one transaction", least=1),
    _knob("decisions.snapshot_max_mb", "MB", 16, "larger snapshots of the world (compressed) are "
          "not kept: decisions made from them can't be replayed", least=0),
    _knob("decisions.total_max_mb", "MB", 2000, "all snapshots together: the oldest are forgotten",
          least=0),
    _knob("sandbox.max_mb", "MB", 100, "largest input sandbox", least=1),
    _knob("ddm.catalogue", "name", "filesystem", "where data management keeps what it knows: "
          "filesystem (datasets are what lies in the directories) or sql (in the database)",
          among=("filesystem", "sql")),
    _knob("ddm.event_count_command", "command", "", "prints the number of events of the file "
          "whose path is appended; empty: event counts come from side files only"),
]  # fmt: skip

KNOBS: dict[str, Knob] = {k.name: k for k in _DECLARED}


class Knobs(Mapping[str, Any]):
    """All knobs with their values in force. Unknown overrides are ignored (an older release
    may have left them)."""

    def __init__(self, overrides: Mapping[str, Any] | None = None) -> None:
        found = dict(overrides or {})
        preset = found.get("core.preset", "classic")
        self._values = {n: found.get(n, k.default(preset)) for n, k in KNOBS.items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def words(self, name: str) -> list[str]:
        """The words of a knob that holds several, with commas or blanks between them."""
        return self._values[name].replace(",", " ").split()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Knobs) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]
