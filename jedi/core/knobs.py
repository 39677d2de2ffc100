"""Every live setting, declared once: component, key, type, unit, both presets, meaning.

`classic` is the behaviour of the JEDI document, `current` PanDA's of today. Values that differ from
the preset live in jedi_knobs; `Knobs` is the frozen view that policies get.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jedi.core.errors import BadInput, Problem
from jedi.core.knob_values import Components

PRESETS = ("classic", "current")
_KINDS = {int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class Knob:
    """A declared setting. The type of `classic` is its type; `pairs`: a text of names with a number
    each (see `numbers`)."""

    component: str
    key: str
    unit: str
    classic: Any
    current: Any
    meaning: str
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()
    pairs: bool = False

    @property
    def name(self) -> str:
        """`component.key`."""
        return f"{self.component}.{self.key}"

    @property
    def _in_unit(self) -> str:
        return f" [{self.unit}]" if self.unit else ""

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
            raise self._bad(value, f"is {_KINDS[wanted]}{self._in_unit}")
        if self.pairs:
            self._check_pairs(value)
        elif self.least is not None and value < self.least:
            raise self._bad(value, f"is at least {self.least}{self._in_unit}")
        elif self.most is not None and value > self.most:
            raise self._bad(value, f"is at most {self.most}{self._in_unit}")
        if self.among and value not in self.among:
            raise self._bad(value, f"is one of {', '.join(self.among)}")
        return value

    def _check_pairs(self, value: str) -> None:
        try:
            found = numbers(value)
        except ValueError:
            raise self._bad(value, f"is pairs like a=1, b=2{self._in_unit}") from None
        least = -math.inf if self.least is None else self.least
        if not all(least <= number < math.inf for number in found.values()):
            raise self._bad(value, f"has numbers of at least {self.least}{self._in_unit}")

    def _bad(self, value: Any, rule: str) -> BadInput:
        example = self.classic or "a=1, b=2" if self.pairs else self.classic
        remedy = f"Give a value like {example!r}"
        return BadInput([Problem(self.name, value, f"{self.name} {rule}", remedy)])


def _knob(name: str, unit: str, default: Any, meaning: str, current: Any = None,
          least: float | None = None, most: float | None = None,
          among: tuple[str, ...] = (), pairs: bool = False) -> Knob:  # fmt: skip
    component, key = name.split(".")
    other = default if current is None else current
    return Knob(component, key, unit, default, other, meaning, least, most, among, pairs)


_RESUBMISSION = (
    "site cloud includedSite excludedSite nFilesPerJob nGBPerJob nFiles nEvents ignoreMissingInDS"
)
_ALSO = (
    "cliParams fixedSandbox taskPriority ramCount t1Weight nEsConsumers nMaxFilesPerJob "
    "noInputPooling nEventsPerWorker nJumboJobs avoidVP allowInputLAN useLocalIO noLoopingCheck "
    "maxCoreCount onlyTagsForFC useZipToPin noAutoPause allowIncompleteInDS"
)

_DECLARED = [
    _knob("core.preset", "name", "classic", "preset of all unset knobs", among=PRESETS),
    _knob("agent.rest_s", "s", 20.0, "time without work after which an agent's process ends, until "
          "there is work again (`jedi up`; 0: never)"),
    _knob("agent.poll_s", "s", 2.0, "longest wait of an idle agent before it looks for work",
          least=0.01),
    _knob("agent.lease_s", "s", 120.0, "duration of a claim; the agent renews it while it works",
          least=1),
    _knob("agent.heartbeat_s", "s", 10.0, "interval between heartbeats of an agent", least=0.1),
    _knob("agent.plugin_s", "s", 60.0, "most time of a plug-in of other people for one task; then "
          "the task waits, and the plug-in is tried again", least=0.1),
    _knob("agent.statement_s", "s", 600.0, "most time of a statement of an agent in the database; "
          "then its cycle fails and is repeated; 0: no limit", least=0),
    _knob("agent.max_deaths", "claims", 3, "deaths of workers in a row after which their task is "
          "exhausted", least=1),
    _knob("taskrefiner.batch", "tasks", 100, "tasks refined in one transaction", least=1),
    _knob("taskrefiner.base_ram", "MB", "simul=1000, pile=1500, reco=1000", "baseRamCount of tasks "
          "without one whose memory counts per core, by processingType", "", least=0, pairs=True),
    _knob("contentsfeeder.batch", "tasks", 10, "tasks fed in one claim", least=1),
    _knob("contentsfeeder.max_records", "records", 5_000_000, "most files or event records of one "
          "dataset; with more, the task is broken", 200_000, least=1),
    _knob("contentsfeeder.part_files", "files", 100_000, "files of a closed dataset that are "
          "listed and fed at once, in whole jobs; the next ones follow at once", least=1),
    _knob("contentsfeeder.recheck_s", "s", 300.0, "interval between look-ups of an open dataset"),
    _knob("contentsfeeder.quiet_s", "s", 10.0, "least interval between look-ups of a dataset that "
          "another task still fills", least=0.1),
    _knob("split.batch", "herds", 20, "herds split in one transaction", least=1),
    _knob("split.max_mb", "MB", 100, "most MB of options of a herd's units; with more, the task is "
          "broken, and no unit is made", least=1),
    _knob("split.max_units", "units", 100_000, "most units of a herd; with more, the task is "
          "broken, and none is made", 10_000, least=1),
    _knob("split.memory_mb", "MiB", 2048, "memory of a splitter that is a plug-in; with more, its "
          "herd is broken", least=64),
    _knob("split.timeout_s", "s", 60.0, "time of a splitter that is a plug-in; after it, its herd "
          "is broken", least=0.1),
    _knob("taskbroker.batch", "tasks", 100, "tasks assigned in one claim", least=1),
    _knob("jobgen.batch", "tasks", 10, "tasks served in one claim", 50, least=1),
    _knob("jobgen.n_files", "files", 100_000, "files turned into jobs in one cycle", 5_000,
          least=1),
    _knob("jobgen.retry_s", "s", 30.0, "wait after the throttler or the broker refused the task",
          least=0.0),
    _knob("jobgen.max_files_per_job", "files", 200, "files per job, unless a rule of the task sets "
          "them", least=1),
    _knob("jobgen.hard_max_files_per_job", "files", 1000, "most files of any job", least=1),
    _knob("jobgen.max_gb_per_job", "GB", 20.0, "input per job, unless a rule of the task sets it"),
    _knob("jobgen.ng_output_gb", "GB", 2.5, "least output of a job in the sum that nGBPerJob "
          "limits", 1500 / 1024, least=0.0),
    _knob("jobgen.ng_covers_all", "truth", True, "true: nGBPerJob limits input, this least output "
          "and the work directory together; false: it limits the input alone, and the others come "
          "on top", False),
    _knob("jobgen.max_output_gb", "GB", 0.0, "most output of a job whose files and events are not "
          "fixed; 0: no limit", 10.0, least=0.0),
    _knob("jobgen.batch_jobs", "jobs", 25, "jobs in a row for one site", least=1),
    _knob("jobgen.batch_scouts", "jobs", 2, "scout jobs in a row for one site; small batches "
          "measure several sites", least=1),
    _knob("jobgen.jobs_per_step", "jobs", 0, "jobs of a user or working group that lower the "
          "priority of new analysis jobs by one step; 0: never", 5, least=0),
    _knob("broker.max_sites", "sites", 5, "most sites that the generic broker offers", least=1),
    _knob("broker.memory_factor", "", 1.0, "part of the requested memory that a site must offer; "
          "less than 1 keeps borderline jobs out of slots for large ones", 0.9, least=0.0,
          most=1.0),
    _knob("broker.min_free_gb", "GB", 200.0, "usable space that an output endpoint must have"),
    _knob("broker.space_strict", "0/1", 1, "1: space must exceed broker.min_free_gb and "
          "taskbroker.room_tb; 0: it may equal them", 0, least=0, most=1),
    _knob("broker.pilot_fresh_s", "s", 10_800.0, "age of the last pilot contact after which a site "
          "counts as having no pilots"),
    _knob("core.work_shortage", "0/1", 0, "1: work is short, and sites give no more than their "
          "pledge", least=0, most=1),
    _knob("broker.local", "name", "generic", "brokers of vo local: generic, or full as for other "
          "vos", among=("generic", "full")),
    _knob("broker.best_sites", "sites", 10, "most sites that the production broker offers",
          least=1),
    _knob("broker.best_when_capped", "sites", 3, "sites that it offers when all fitting sites have "
          "reached their cap of waiting jobs", 0, least=0),
    _knob("broker.skip_test_names", "0/1", 1, "1: sites with `test` in their names take only tasks "
          "that name them", 0, least=0, most=1),
    _knob("broker.t1_only_from", "priority", 901, "least priority of jobs that go only to T1s, as "
          "scouts do; 0: no such rule", 0, least=0),
    _knob("broker.pledged_from", "priority", 0, "least priority of jobs that avoid opportunistic "
          "sites, as scouts do; 0: no such rule", 800, least=0),
    _knob("broker.active_from", "priority", 801, "least priority of jobs that go only to active "
          "sites, as scouts and merging tasks do; 0: no such rule", 800, least=0),
    _knob("broker.active_s", "s", 7200.0, "a site is active if a job started there within this "
          "time", least=0),
    _knob("broker.idle_only_with_queue", "0/1", 0, "1: a site where no job waits for a slot now "
          "counts as active; 0: a site where none waited within broker.active_s does", 1, least=0,
          most=1),
    _knob("broker.any_cores_below", "priority", 0, "priority below which tasks with any number of "
          "cores, and scouts, get several cores; 0: no such rule", 900, least=0),
    _knob("broker.zero_share_unnamed", "0/1", 1, "1: a fair-share policy gives nothing to work "
          "that none of its rules names", 0, least=0, most=1),
    _knob("broker.express_from", "priority", 1000, "least priority of jobs whose transfers go "
          "first", 1001, least=0),
    _knob("broker.link_cap", "files", 300, "most files on their way from one site to the nucleus",
          149, least=0),
    _knob("broker.nucleus_cap", "files", 0, "limit of the files on their way from all sites to the "
          "nucleus, exclusive; 0: no limit", 10_000, least=0),
    _knob("broker.io_from_input", "0/1", 1, "1: I/O intensity is input divided by expected "
          "execution time; 0: as scouts measured it", 0, least=0, most=1),
    _knob("broker.io_intensive_kb_s", "kB/s", 200.0, "I/O intensity above which only small inputs "
          "move"),
    _knob("broker.move_gb", "GB", 10.0, "size below which the missing input of I/O-intensive jobs "
          "is small"),
    _knob("broker.move_files", "files", 100, "number of files below which the missing input of "
          "I/O-intensive jobs is small", least=1),
    _knob("broker.void_if_nobody", "0/1", 0, "1: the limits on moving input of I/O-intensive jobs "
          "do not count if they leave no site", 1, least=0, most=1),
    _knob("broker.io_spares_events", "0/1", 0, "1: the limits on moving input do not count for the "
          "event service", 1, least=0, most=1),
    _knob("broker.site_io_limits", "0/1", 0, "1: max_io_intensity and maxdiskio of a site limit "
          "the I/O of its jobs", 1, least=0, most=1),
    _knob("broker.max_disk_io_kb_s", "kB/s", 0.0, "disk I/O per core of sites without maxdiskio; "
          "0: no limit", least=0),
    _knob("broker.min_output_mb", "MB", 2560.0, "least output that brokers assume for a job",
          1500.0, least=0),
    _knob("broker.spare_work_mb", "MB", 0.0, "scratch space of a job besides the workDiskCount of "
          "its task, if that is set", 300.0, least=0),
    _knob("broker.unknown_time_h", "h", 0.0, "least slot for jobs of unknown duration, in hours "
          "on 10 HS06; 0: no such rule", 24.0, least=0),
    _knob("broker.es_high_from", "priority", 500, "least priority of event-service jobs for sites "
          "that take only those of high priority", least=0),
    _knob("broker.transferring_ratio", "", 2.0, "most jobs that send outputs for each running job, "
          "above the site's own limit", least=0),
    _knob("broker.transferring_spares_nucleus", "0/1", 0, "1: that limit does not count for the "
          "queues of the task's nucleus", 1, least=0, most=1),
    _knob("broker.bootstrap_jobs", "jobs", 20, "pilots count as running jobs at sites with fewer "
          "running jobs than this", least=0),
    _knob("broker.bootstrap_max_priority", "priority", 0, "highest priority of jobs for which "
          "pilots count as running jobs; 0: any priority", 150, least=0),
    _knob("broker.bootstrap_streaming", "0/1", 0, "1: pilots count so at unified sites that send "
          "pilots before there are jobs (catchall.workflow pull_ups), if pilots were seen there", 1,
          least=0, most=1),
    _knob("broker.bootstrap_empty", "0/1", 0, "1: a site without any job of the share gets one "
          "batch of such jobs before other sites", 1, least=0, most=1),
    _knob("broker.declared_slots", "0/1", 0, "1: slots of catchall.num_slots_map count as running "
          "jobs (0 slots: starting jobs count)", 1, least=0, most=1),
    _knob("broker.cap_ratio", "", 2.0, "most waiting jobs of a site for each running job", least=0),
    _knob("broker.cap_jobs", "jobs", 0, "waiting jobs that a site may always have", 20, least=0),
    _knob("broker.cap_by_type", "0/1", 0, "1: the cap of waiting jobs counts each resource type by "
          "itself", 1, least=0, most=1),
    _knob("broker.cap_spares_express", "0/1", 0, "1: the cap of waiting jobs does not count for "
          "urgent jobs", 1, least=0, most=1),
    _knob("broker.t1_io_from", "kB/s", 500.0, "least I/O intensity of tasks without t1Weight that "
          "get broker.t1_io_weight", 500.1),
    _knob("broker.t1_io_weight", "", 4.0, "T1 weight of tasks with high I/O intensity", least=1),
    _knob("broker.t1_cloud_weights", "weight", "", "T1 weights of clouds instead of "
          "broker.t1_io_weight, such as US=8, WORLD=2", least=1, pairs=True),
    _knob("broker.t1_priority_from", "priority", 900, "least priority of jobs that get "
          "broker.t1_priority_weight", least=0),
    _knob("broker.t1_priority_weight", "", 100.0, "least T1 weight of jobs of high priority",
          least=1),
    _knob("broker.t1_spares", "0/1", 0, "1: event-service tasks and tasks that name their sites "
          "never get broker.t1_priority_weight", 1, least=0, most=1),
    _knob("broker.t1_spares_merging", "0/1", 0, "1: merge jobs of tasks with t1Weight -1 may leave "
          "the nucleus", 1, least=0, most=1),
    _knob("broker.t1_scouts", "0/1", 0, "1: scouts get broker.t1_priority_weight, too", 1, least=0,
          most=1),
    _knob("broker.one_queue_at_t1", "0/1", 0, "1: with t1Weight -1, the queue with most running "
          "jobs gets all jobs", 1, least=0, most=1),
    _knob("network.active", "0/1", 1, "1: the network weight counts", 0, least=0, most=1),
    _knob("network.queue_part", "", 0.5, "part of the queued files in the network weight, besides "
          "the speed of the link", least=0, most=1),
    _knob("network.full_queue", "files", 300.0, "queued files on a link at which that part is "
          "smallest", 150.0, least=1),
    _knob("network.weight_from_50", "", 1.7, "weight of a speed between 50 and 75 MB/s", 1.6),
    _knob("network.express_threshold", "", 1.7, "least network weight of sites for urgent jobs"),
    _knob("network.express_multiplier", "", 1.0, "factor on that threshold"),
    _knob("analysis.max_sites", "sites", 10, "most sites with jobs of an analysis task", least=1),
    _knob("analysis.transfer_input", "when", "closed", "closed: input moves after jobs of the task "
          "were closed at all sites that have it; always: it moves whenever jobs cannot go to it",
          "always", among=("closed", "always")),
    _knob("analysis.avoid_troubled", "0/1", 0, "1: analysis jobs avoid hospital queues, and sites "
          "beyond the limits of analysis.bad_jobs, analysis.cap_jobs and analysis.overload_jobs",
          1, least=0, most=1),
    _knob("analysis.past_s", "s", 21_600.0, "age up to which ended jobs of a task count", least=0),
    _knob("analysis.bad_jobs", "jobs", 5, "most failed and closed jobs of a task at a site; twice "
          "the finished ones if that is more", least=0),
    _knob("analysis.cap_jobs", "jobs", 20, "most waiting jobs of a site, by resource type; "
          "broker.cap_ratio times the running ones if that is more", least=0),
    _knob("analysis.overload_jobs", "jobs", 20, "waiting jobs that never overload a site", least=0),
    _knob("analysis.overload_offset", "", 1.2, "factor on the average ratio of waiting to running "
          "jobs above which a site is overloaded", least=0),
    _knob("taskbroker.min_free_gb", "GB", 0.0, "free space that a nucleus of vo local must have"),
    _knob("taskbroker.room_tb", "TB", 5.0, "free space that a nucleus must keep when its tasks "
          "have ended", 100.0, least=0),
    _knob("taskbroker.count_reserved", "0/1", 0, "1: reserved and unavailable space does not count "
          "as free", 1, least=0, most=1),
    _knob("taskbroker.endpoint_status", "0/1", 0, "1: the endpoint of a nucleus must exchange "
          "files with other sites, and some endpoint must send input that a nucleus lacks", 1,
          least=0, most=1),
    _knob("taskbroker.backlog", "files", 2000, "limit of the files on their way to a nucleus, "
          "exclusive", least=1),
    _knob("taskbroker.backlog_spares_t1", "0/1", 0, "1: that limit does not count for tasks with "
          "a negative t1Weight", 1, least=0, most=1),
    _knob("taskbroker.local_percent", "%", 10.0, "part of a large input that a nucleus must have",
          least=0, most=100),
    _knob("taskbroker.local_above_gb", "GB", 1.0, "size above which an input is large", least=0),
    _knob("taskbroker.local_above_files", "files", 100, "number of files above which an input is "
          "large", least=0),
    _knob("taskbroker.local_gives_way", "0/1", 0, "1: if no nucleus has that part, tasks may get "
          "their input moved under the limits below", 1, least=0, most=1),
    _knob("taskbroker.local_io_kb_s", "kB/s", 200.0, "highest I/O intensity of tasks whose input "
          "may move to a nucleus", least=0),
    _knob("taskbroker.local_max_gb", "GB", 10_000.0, "largest input that may move to a nucleus",
          least=0),
    _knob("taskbroker.local_priority", "priority", 800, "priority from which I/O intensity and "
          "size do not limit such moves", least=0),
    _knob("taskbroker.local_days", "days", 7.0, "waiting time of a task after which its input may "
          "move in any case", least=0),
    _knob("taskbroker.complete_percent", "%", 100.0, "part of a dataset that makes an endpoint a "
          "source of it", 90.0, least=0, most=100),
    _knob("taskbroker.data_if_intensive", "0/1", 0, "1: input at a nucleus adds weight only for "
          "I/O-intensive tasks", 1, least=0, most=1),
    _knob("taskbroker.space_counts", "0/1", 0, "1: free space adds weight", 1, least=0, most=1),
    _knob("taskbroker.free_cutoff_tb", "TB", 1000.0, "free space above which the weight grows no "
          "more", least=0),
    _knob("taskbroker.retry_s", "s", 1800.0, "wait before the next choice of a nucleus when none "
          "fits", least=0),
    _knob("taskbroker.retry_soon_s", "s", 120.0, "wait before the next choice when the reasons of "
          "some nucleus pass by themselves", 1800.0, least=0),
    _knob("throttler.queue_cap", "jobs", 20_000, "most queued jobs of a work queue without a "
          "share; no other limit throttles it", least=1),
    _knob("throttler.threshold", "", 2.0, "queued jobs per running job above which a work queue "
          "has enough work", least=0.0),
    _knob("throttler.threshold_when_short", "", 2.0, "the same threshold while core.work_shortage "
          "is on", least=0.0),
    _knob("throttler.enough_work_s", "s", 0.0, "total duration of queued jobs up to which they are "
          "not enough work; 0: duration does not count", 5e7, least=0.0),
    _knob("throttler.bunch_least", "jobs", 500, "smallest bunch; a bunch is the gap to the "
          "threshold, and a cycle fills half of it", least=2),
    _knob("throttler.bunch_most", "jobs", 600, "largest bunch", least=2),
    _knob("throttler.limit_bunches", "bunches", 4, "bunches that may be queued in any case, unless "
          "the queue has an NQUEUELIMIT", least=1),
    _knob("throttler.waiting_per_running", "", 4.0, "jobs that wait for other jobs, per running "
          "job, above which a work queue has enough work", least=0.0),
    _knob("throttler.lack_percent", "%", 90.0, "part of the limit below which all generators may "
          "serve the queue at once", least=0.0, most=100.0),
    _knob("throttler.limit_parts", "", 20, "each generator makes one of so many parts of the limit "
          "in a cycle", least=1),
    _knob("throttler.cap_parts", "", 5, "a queue with an NQUEUECAP gets one of so many parts of it "
          "in a cycle", least=1),
    _knob("throttler.firm_cap", "0/1", 1, "1: only work more urgent than all queued jobs passes an "
          "NQUEUECAP, and without an NQUEUELIMIT a cycle makes no more than one part", 0, least=0,
          most=1),
    _knob("throttler.few_urgent", "jobs", 500, "queued jobs of the highest priority below which "
          "work of that priority passes a full queue", least=0),
    _knob("shares.demand_cap", "", "off", "on: the allocation of a work queue ends at its demand, "
          "and other queues get the rest", among=("off", "on")),
    _knob("watchdog.shares_period_s", "s", 10.0, "interval between computations of shares",
          least=0.1),
    _knob("merge.max_attempt", "attempts", 3, "attempts per file to merge", least=1),
    _knob("merge.max_files", "files", 50, "most files merged into one, unless the task sets it",
          least=1),
    _knob("merge.max_gb", "GB", 5.0, "size of a merged file, unless the task sets it", least=0.001),
    _knob("merge.min_ram_mb", "MB", 0, "least memory of a merge job; 0: the task's memory", 2000,
          least=0),
    _knob("merge.min_work_mb", "MB", 0, "least work space of a merge job besides its files", 500,
          least=0),
    _knob("attempts.max_attempt", "attempts", 3, "attempts per file, unless the task sets them",
          least=1),
    _knob("attempts.most_free", "attempts", 10, "attempts of a file in a row that do not count "
          "against maxAttempt, since their ends were nobody's fault; those after them count",
          least=0),
    _knob("attempts.retry_adds", "attempts", 5, "attempts per file that the retry command adds",
          least=1),
    _knob("resubmission.may_change", "keys", _RESUBMISSION, "parameters that a resubmission may "
          "change; the task keeps all others", f"{_RESUBMISSION} {_ALSO}"),
    _knob("retry.max_attempts", "attempts", 0, "attempts of a task after which retry makes it "
          "exhausted; 0 here and below: no limit", least=0),
    _knob("retry.max_file_attempts", "attempts", 0, "attempts of a file after which retry makes "
          "the task exhausted", least=0),
    _knob("retry.max_failed_hepscore_h", "HEP-score h", 0.0, "cost of failed jobs above which "
          "retry makes the task exhausted", least=0.0),
    _knob("retry.max_failed_hepscore_percent", "%", 0.0, "part of the task's cost in failed jobs "
          "above which retry makes it exhausted", least=0.0, most=100.0),
    _knob("retry.max_failed_jobs_percent", "%", 0.0, "part of failed jobs above which retry makes "
          "the task exhausted", least=0.0, most=100.0),
    _knob("retry.min_cpu_efficiency_percent", "%", 0.0, "median CPU efficiency of jobs below which "
          "retry makes the task exhausted", least=0.0),
    _knob("pilot.heartbeat_s", "s", 30.0, "interval between heartbeats of a pilot", least=0.1),
    _knob("pilot.poll_s", "s", 0.5, "interval between requests of a pilot without work", least=0.1),
    _knob("pilot.idle_s", "s", 5.0, "time without work after which a pilot ends", least=0.0),
    _knob("pilot.share", "paths", "", "paths of the host's /tmp, /var/tmp and /dev/shm that "
          "payloads see, separated by blanks; the rest of these directories is private to each "
          "payload"),
    _knob("pilot.max_processes", "processes", 256, "most processes of one payload", least=1),
    _knob("pilot.min_free_mb", "MB", 1000, "free space of the disk of work directories below which "
          "the payload that wrote most ends; 0: no bound", least=0),
    _knob("pilot.min_free_percent", "%", 5, "this part of the disk instead, if it is less than "
          "pilot.min_free_mb", least=1, most=100),
    _knob("pilot.n_ranges", "ranges", 8, "ranges of events that the pilot of a consumer asks for "
          "at a time, if its payload does not ask for more", least=1, most=1000),
    _knob("pilot.zip_ranges", "ranges", 100, "most ranges of events whose outputs a pilot puts "
          "into one zip file", least=1),
    _knob("pilot.zip_s", "s", 60.0, "longest time until a pilot stores and reports the outputs of "
          "a finished range of events", 600.0, least=0.0),
    _knob("pilot.max_jobs", "jobs", 1000, "most jobs of one pilot", least=1),
    _knob("submitter.batch", "sites", 1000, "most sites that the submitter serves in one claim",
          least=1),
    _knob("submitter.check_s", "s", 5.0, "interval between comparisons of local pilots with the "
          "process table", least=0.1),
    _knob("submitter.queue_s", "s", 15.0, "interval between queries of batch systems and "
          "submissions to them", least=0.1),
    _knob("submitter.command_s", "s", 30.0, "time-out of a batch system's command", least=0.1),
    _knob("submitter.first_pilots", "pilots", 100, "most pilots sent to a site while none runs "
          "there; later, as many may wait as run", least=1),
    _knob("submitter.part_jobs", "jobs", 10, "jobs of one pilot in a part of a slot; after them "
          "its cores may go to jobs of another shape", least=1),
    _knob("submitter.walltime_s", "s", 86_400, "time in which a pilot in a batch system takes "
          "jobs, unless its site has a maxtime", least=60),
    _knob("submitter.token_s", "s", 172_800.0, "life of a pilot's token after the last contact of "
          "its submitter", least=60.0),
    _knob("postprocessor.batch", "tasks", 50, "tasks finalised in one claim", least=1),
    _knob("postprocessor.retry_s", "s", 60.0, "wait before the next try to finalise a task",
          least=0.0),
    _knob("taskcommando.batch", "tasks", 100, "tasks whose commands run in one claim", least=1),
    _knob("taskcommando.kill_batch", "jobs", 5_000, "queued jobs ended in one transaction",
          least=1),
    _knob("taskcommando.retry_s", "s", 60.0, "wait before the next try of a command that failed",
          least=0.0),
    _knob("taskcommando.longest_wait_s", "s", 30.0, "longest interval between checks of a task "
          "whose jobs are ending", least=0.0),
    _knob("taskcommando.give_up_s", "s", 3600.0, "time after which JEDI refuses a command that the "
          "database did not accept", least=0.0),
    _knob("scout.chunks", "jobs", 10, "scout jobs of a task that has more jobs than this; 0: no "
          "scouts", least=0),
    _knob("scout.open_wait_s", "s", 600.0, "longest wait for so many scouts while the input is "
          "open", least=0.0),
    _knob("scout.sample", "jobs", 5, "most scouts to measure, in the order in which they finished",
          1000, least=1),
    _knob("scout.min_success_percent", "%", 0.0, "part of the scouts' files that an analysis task "
          "must process, at least one file; with less it is broken", 50.0, least=0.0, most=100.0),
    _knob("scout.cpu_percentile", "%", 95.0, "percentile of scouts that gives cpuTime, by nearest "
          "rank", least=0.0, most=100.0),
    _knob("scout.events_per_core", "events", 0, "least events per core of a scout that gives "
          "cpuTime", 10, least=0),
    _knob("scout.ram_percentile", "%", 100.0, "percentile of scouts that gives ramCount; 100: the "
          "largest", 75.0, least=0.0, most=100.0),
    _knob("scout.ram_margin_percent", "%", 0.0, "margin on the memory that scouts used", 10.0,
          least=0.0),
    _knob("scout.ram_min_mb", "MB", 0, "least memory that scouts set", 500, least=0),
    _knob("scout.out_percentile", "%", 75.0, "percentile of scouts that gives outDiskCount",
          least=0.0, most=100.0),
    _knob("scout.early_percent", "%", 100.0, "part of finished scouts from which they are "
          "evaluated; 100: when all have ended", 50.0, least=1.0, most=100.0),
    _knob("scout.measure_at", "jobs", "5", "finished jobs of a running task at which it is "
          "measured again", "1,5,100", among=("none", "5", "1,5,100")),
    _knob("scout.exhaust_from_percent", "%", 0.0, "part of the scouts' files from which "
          "insufficient success exhausts the task instead of breaking it; 0: never", least=0.0,
          most=100.0),
    _knob("scout.max_cpu_use", "", 0.0, "factor on the processor time of their cores above which "
          "scouts exhaust the task; 0: never", 2.0, least=0.0),
    _knob("watchdog.measure_period_s", "s", 60.0, "interval between searches for running tasks to "
          "measure again", least=0.1),
    _knob("scout.limit_factor", "", 2.0, "factor on the expected time, and on the memory that "
          "scouts measured, at which a job is killed", least=1.0),
    _knob("scout.least_limit_s", "s", 60.0, "least time limit of a job; a lower one would measure "
          "the host, not the payload", least=0.0),
    _knob("scout.least_limit_mb", "MB", 1000, "least memory limit of a job", least=0),
    _knob("scout.exhaust_above_jobs", "jobs", 0, "jobs to come above which measurements of scouts "
          "may exhaust the task", 20, least=0),
    _knob("scout.max_cpu_ratio", "", 2.0, "factor on the task's cpuTime above which scouts exhaust "
          "the task; 0: never", least=0.0),
    _knob("scout.max_cpu_ratio_from_h", "h", 0.0, "least duration of one scout for that rule", 24.0,
          least=0.0),
    _knob("scout.max_ram_mb", "MB", 0, "memory per core of scouts above which they exhaust a task "
          "that asks for less; 0: never", 4000, least=0),
    _knob("scout.short_s", "s", 240.0, "duration below which scouts are short", least=0.0),
    _knob("scout.short_max_scouts", "jobs", 5, "short scouts above which an analysis task is "
          "exhausted", least=0),
    _knob("scout.short_max_expected_jobs", "jobs", 1000, "least expected jobs for that rule, "
          "exclusive", least=0),
    _knob("mover.batch", "jobs", 500, "jobs of a site whose files move in one claim", least=1),
    _knob("mover.retry_s", "s", 30.0, "wait before the next try to move the files of a job",
          least=0.1),
    _knob("mover.patience_s", "s", 300.0, "time of failed moves after which the job fails"),
    _knob("adder.batch", "jobs", 500, "jobs whose results are stored in one transaction", least=1),
    _knob("adder.retry_s", "s", 30.0, "wait before the next try to store the results of a job",
          least=1),
    _knob("eventservice.batch", "job sets", 100, "job sets of events whose consumers end in one "
          "transaction", least=1),
    _knob("eventservice.retry_s", "s", 30.0, "wait before the next try to end the consumers of a "
          "job set", least=1),
    _knob("eventservice.jumbo_tries", "jobs", 3, "jumbo jobs of a task, one after the other, "
          "that process nothing, after which JEDI makes no more", least=1),
    _knob("eventservice.lost_pieces_s", "s", 900.0, "time from the end of the last consumer of a "
          "job set on after which pieces that its merge job can't read are lost; less than "
          "timeout.waiting_s", least=0),
    _knob("eventservice.merge_attempts", "jobs", 3, "merge jobs that a job set of events may have, "
          "one after the other", least=1),
    _knob("eventservice.merge_priority", "", 5000, "priority of the merge jobs of job sets"),
    _knob("eventservice.merge_share", "", "Express", "global share of the merge jobs of job sets"),
    _knob("eventservice.merge_memory_mb", "MB", 2000, "memory of the merge jobs of job sets",
          least=1),
    _knob("api.listen", "host:port", "", "address of the service for pilots and users, from its "
          "next start on; beyond loopback it needs service.crt and service.key in the home; empty: "
          "only a unix socket"),
    _knob("api.page", "host:port", "127.0.0.1:8765", "loopback address of web pages alone, from "
          "the next start of the service on; another port if this one is taken; empty, or with "
          "api.listen: none"),
    _knob("api.session_h", "h", 12.0, "hours after which a browser has to log in again", least=0.1,
          most=24 * 366),
    _knob("api.socket_group", "", "", "group whose members may use the unix socket, from the next "
          "start of the service on; they need the right to enter its directory, too"),
    _knob("api.peer_connections", "connections", 512, "most connections of one address, or of one "
          "process at the unix socket; a new one replaces the one that has kept the service "
          "waiting longest", least=1),
    _knob("api.proxies", "addresses", "", "addresses or networks, separated by blanks, of proxies "
          "whose X-Forwarded-For names the caller; empty: none"),
    _knob("api.headers_s", "s", 10.0, "time-out for the headers of a request", least=0.1),
    _knob("api.body_s", "s", 60.0, "time-out for the body of a request", least=0.1),
    _knob("api.watch_poll_s", "s", 0.5, "shortest interval between looks for changes of watched "
          "tasks", least=0.1),
    _knob("api.calls_per_s", "calls/s", 200.0, "most calls of one caller in the long run, in each "
          "service; pilots have no such limit; 0: no limit", least=0),
    _knob("api.calls_burst", "calls", 1_000, "most calls of one caller at once", least=1),
    _knob("api.wrong_tokens_per_s", "tokens/s", 10.0, "most wrong tokens of one address in the "
          "long run, in each service; the unix socket has no such limit; 0: no limit",
          least=0),
    _knob("api.wrong_tokens_burst", "tokens", 300, "most wrong tokens of one address at once",
          least=1),
    _knob("api.statement_s", "s", 25.0, "most time of a statement of the service in the database; "
          "then the request is refused; 0: no limit", least=0),
    _knob("api.heavy_calls", "calls", 6, "most heavy calls (docs/api.md) at work at once, in each "
          "service; others wait for 5 s and are then refused", least=1, most=8),
    _knob("api.caller_heavy_calls", "calls", 3, "most of them of one caller", least=1),
    _knob("api.caller_streams", "streams", 100, "most open streams of changes of one caller, in "
          "each service; 0: no limit", least=0),
    _knob("api.registry_lease_s", "s", 300.0, "time without a request after which another session "
          "may take the lease of a registry of jobs", least=1),
    _knob("api.metrics_open", "", "off", "on: every caller may read /metrics; off: only "
          "callers on the same machine and known users", among=("off", "on")),
    _knob("api.access_log", "", "on", "on: the service logs each request", among=("off", "on")),
    _knob("api.panda_url", "URL", "", "URL of the service for payloads under pilots of PanDA; "
          "empty: scheme and host by which their pilot asked"),
    _knob("oidc.issuer", "URL", "", "identity provider whose tokens the service takes; empty: "
          "none"),
    _knob("oidc.audience", "", "", "audience that its tokens must name; empty: the service takes "
          "none"),
    _knob("oidc.client_id", "", "", "id at the provider of jedi-task, a public client with the "
          "device flow"),
    _knob("oidc.scopes", "words", "openid profile offline_access", "scopes that jedi-task login "
          "asks for"),
    _knob("oidc.user_claim", "", "preferred_username", "claim with the user's name; sub if a token "
          "lacks it"),
    _knob("oidc.user_prefix", "", "", "beginning of the names of the provider's users"),
    _knob("oidc.shared_accounts", "0/1", 0, "1: the provider's name and the local account of the "
          "same name are one user; 0: the service refuses such a name", least=0, most=1),
    _knob("oidc.groups_claim", "", "groups", "claim with the user's groups"),
    _knob("oidc.roles", "group=role ...", "", "roles of the provider's groups, which decide at "
          "each request; empty: operators give roles"),
    _knob("watchdog.timeouts_period_s", "s", 60.0, "stalled-job check interval", least=0.1),
    _knob("watchdog.leases_period_s", "s", 30.0, "interval between searches for leases of dead "
          "workers", least=0.1),
    _knob("watchdog.pending_period_s", "s", 15.0, "pending-task check interval", least=0.1),
    _knob("watchdog.statistics_period_s", "s", 5.0, "interval between updates of job statistics",
          least=0.1),
    _knob("watchdog.progress_period_s", "s", 30.0, "interval between updates of the progress of "
          "tasks", least=0.1),
    _knob("watchdog.sweep_period_s", "s", 600.0, "interval between searches for leftovers of "
          "attempts", least=0.1),
    _knob("contentsfeeder.chunks", "jobs", 1, "jobs whose files an open dataset releases at once, "
          "unless the task sets them (nChunksToWait, noInputPooling)", 20, least=1),
    _knob("watchdog.staging_period_s", "s", 10.0, "interval between requests for files on tape",
          least=0.1),
    _knob("staging.batch", "files", 100, "files requested from tape at once; jobs use them when "
          "they have arrived", least=1),
    _knob("staging.limit_gb", "GB", 1024.0, "most data on its way from tape for one user "
          "(PRESTAGE_LIMIT); 0: no limit", least=0.0),
    _knob("watchdog.copies_period_s", "s", 3600.0, "interval between searches for copies that no "
          "job needs any more", least=0.1),
    _knob("mover.copy_lifetime_s", "s", 604_800.0, "longest life of a copy of a one-time input at "
          "the site that it was moved to; 0: for ever", least=0.0),
    _knob("watchdog.expiry_period_s", "s", 21_600.0, "interval between searches for expired files",
          least=0.1),
    _knob("lifetime.transient_days", "d", 14.0, "life of outputs with `transient` after their "
          "task's end; 0: for ever", least=0.0),
    _knob("lifetime.failed_logs_days", "d", 0.0, "life of logs of failed, aborted and broken "
          "tasks; 0: for ever", 30.0, least=0.0),
    _knob("lifetime.logs_days", "d", 365.0, "life of logs of all tasks; 0: for ever", least=0.0),
    _knob("lifetime.job_outputs_days", "d", 0.0, "life of outputs after the job's end, but not "
          "less than until the task's end; 0: for ever; PGI proposes several weeks", least=0.0),
    _knob("watchdog.purge_period_s", "s", 60.0, "interval between searches for outputs to purge",
          least=0.1),
    _knob("watchdog.space_period_s", "s", 60.0, "interval between measurements of the space at "
          "endpoints", least=0.1),
    _knob("watchdog.diskio_period_s", "s", 300.0, "interval between averages of the disk I/O of "
          "running jobs", least=0.1),
    _knob("watchdog.merging_timeout_s", "s", 14_400.0, "time after which a merge job or jumbo job "
          "that no pilot takes goes to another site"),
    _knob("watchdog.heartbeat_timeout_s", "s", 7200.0, "silence after which a running job fails"),
    _knob("watchdog.gone_pilot_s", "s", 60.0, "time-out of a sent job whose pilot has ended"),
    _knob("watchdog.sent_timeout_s", "s", 1800.0, "time-out of a sent job that does not start"),
    _knob("timeout.waiting_s", "s", 1800.0, "time-out of a job that waits for other jobs"),
    _knob("timeout.pending_s", "s", 3600.0, "time-out of a job that is not set up"),
    _knob("timeout.defined_s", "s", 14_400.0, "time-out of a job that is not prepared"),
    _knob("timeout.assigned_s", "s", 43_200.0, "time-out of a job whose inputs do not arrive"),
    _knob("timeout.activated_s", "s", 172_800.0, "time-out of an activated job that does not "
          "start"),
    _knob("timeout.analysis_s", "s", 43_200.0, "time-out of an analysis job that no pilot takes"),
    _knob("timeout.urgent_s", "s", 14_400.0, "time-out of an urgent job at a site where no job "
          "starts"),
    _knob("timeout.urgent_from", "priority", 800, "least priority of urgent jobs, also for "
          "transfers", least=0),
    _knob("timeout.idle_s", "s", 7200.0, "time without a start after which no job starts at a "
          "site"),
    _knob("timeout.t2_s", "s", 21_600.0, "time-out of an evgen or simul job that no pilot takes at "
          "a T2 without running jobs"),
    _knob("timeout.t2_ratio", "", 0.0, "waiting jobs per running job above which a T2 with running "
          "jobs has that time-out", least=0.0),
    _knob("timeout.t1_s", "s", 21_600.0, "time-out of an evgen or simul job that no pilot takes at "
          "a T1"),
    _knob("timeout.t1_spared", "clouds", "US, ND", "clouds whose T1s have no such time-out"),
    _knob("timeout.throttled_s", "s", 604_800.0, "time-out of a throttled job"),
    _knob("hold.sites", "sites", "", "sites where jobs may be held in their pilots: a held job "
          "keeps its slot"),
    _knob("hold.in_pilot_s", "s", 7200.0, "longest hold in a pilot; then the job fails", least=1.0),
    _knob("timeout.running_s", "s", 1_814_400.0, "time-out of a running job"),
    _knob("timeout.holding_s", "s", 10_800.0, "time-out of a job whose results cannot be added",
          172_800.0),
    _knob("watchdog.pending_retry_s", "s", 3600.0, "wait before the next try of a pending task, "
          "unless its agent set another; longest wait between tries that double"),
    _knob("watchdog.pending_timeout_s", "s", 604_800.0, "time on hold, or without a nucleus, "
          "after which a task is exhausted"),
    _knob("watchdog.throttle_period_s", "s", 300.0, "throttled-task check interval", least=0.1),
    _knob("throttle.every", "attempts", 5, "JEDI throttles a task when throttle.measure reaches a "
          "multiple of this", least=1),
    _knob("throttle.measure", "name", "largest_attempt", "number that throttles a task when jobs "
          "are made: the largest attemptNr of a job, or the mean of failures of the files that are "
          "left", "mean_failures", among=("largest_attempt", "mean_failures")),
    _knob("throttle.unit_s", "s", 7200.0, "rest of a throttled task: this time x the square of how "
          "often it was throttled", least=0.0),
    _knob("watchdog.exhausted_period_s", "s", 300.0, "exhausted-task check interval", least=0.1),
    _knob("watchdog.exhausted_timeout_s", "s", 864_000.0, "time after which an exhausted task ends",
          172_800.0),
    _knob("watchdog.goal_period_s", "s", 3600.0, "interval between checks whether tasks have "
          "reached their goal", least=0.1),
    _knob("watchdog.failing_period_s", "s", 300.0, "interval between searches for tasks to pause "
          "because most of their jobs fail", least=0.1),
    _knob("watchdog.jumbo_period_s", "s", 600.0, "interval between runs of the JumboWatchDog",
          least=0.1),
    _knob("watchdog.jumbo_jobs_period_s", "s", 60.0, "interval between checks whether tasks lack "
          "jumbo jobs", least=0.1),
    _knob("watchdog.co_jumbo_period_s", "s", 3600.0, "interval between searches for consumers "
          "whose events are processed, in tasks with jumbo jobs", least=0.1),
    _knob("jumbo_dog.max_tasks", "tasks", 1, "active tasks with jumbo jobs; the JumboWatchDog "
          "enables no more", least=0),
    _knob("jumbo_dog.min_events_disable", "events", 100_000, "remaining events below which a task "
          "loses its jumbo jobs", least=0),
    _knob("jumbo_dog.min_events_enable", "events", -1, "a task gets jumbo jobs if more events than "
          "this remain; -1: 10 times jumbo_dog.min_events_disable", least=-1),
    _knob("jumbo_dog.max_events", "events", -1, "remaining events of all tasks with jumbo jobs "
          "from which no other task gets any; -1: half of jumbo_dog.max_tasks times the limit "
          "that enables", least=-1),
    _knob("jumbo_dog.per_task", "jobs", 1, "jumbo jobs of a task", least=1),
    _knob("jumbo_dog.per_site", "jobs", 1, "jumbo jobs of a task at a site", least=1),
    _knob("jumbo_dog.max_curr_prio", "priority", 500, "tasks of this priority or more get no jumbo "
          "jobs", least=0),
    _knob("autopause.failure_percent", "%", 0.0, "part of failed jobs from which JEDI pauses a "
          "task; 0: never", 90.0, least=0.0, most=100.0),
    _knob("autopause.min_ended", "jobs", 1000, "least ended jobs of a task for that rule", least=1),
    _knob("autopause.min_left", "jobs", 100, "least jobs still to do of a task for that rule",
          least=0),
    _knob("watchdog.boost_period_s", "s", 300.0, "interval between searches for nearly complete "
          "tasks", 1200.0, least=0.1),
    _knob("boost.done_percent", "%", 95.0, "finished and failed files from which JEDI boosts a "
          "production task", least=0.0, most=100.0),
    _knob("boost.jobs", "jobs", 100, "remaining jobs below which JEDI boosts it", 101, least=0),
    _knob("boost.priority", "", 900, "least priority of a boosted task; its share is Express",
          least=0),
    _knob("watchdog.retries_period_s", "s", 5.0, "interval between changes of tasks by retry rules",
          least=0.1),
    _knob("retryrules.memory_percent", "%", 30.0, "part of a task's jobs that ran out of memory "
          "from which all jobs ask for more", least=0.0, most=100.0),
    _knob("build.max_attempt", "attempts", 3, "attempts of a build at an endpoint", least=1),
    _knob("build.kept_s", "s", 604_800.0, "life of a built library", least=1.0),
    _knob("watchdog.periods_period_s", "s", 5.0, "interval between searches for periodical tasks "
          "that are due", least=0.1),
    _knob("watchdog.period_grace_s", "s", 300.0, "delay after which a period counts as missed",
          least=0.0),
    _knob("watchdog.caps_period_s", "s", 60.0, "interval between counts of users' running jobs",
          least=0.1),
    _knob("caps.user_jobs", "jobs", 10_000, "most running analysis jobs of a user without a limit "
          "of their own; 0: no limit", least=0),
    _knob("caps.group_jobs", "jobs", 0, "most running analysis jobs of a working group; 0: no "
          "limit", least=0),
    _knob("watchdog.lookup_period_s", "s", 3600.0, "interval between queries of data management "
          "for inputs of urgent assigned jobs", least=0.1),
    _knob("lookup.above", "priority", 800, "priority above which assigned jobs are urgent for "
          "these queries"),
    _knob("watchdog.archive_period_s", "s", 3600.0, "interval between runs of the archive",
          least=0.1),
    _knob("archive.age_s", "s", 259_200.0, "age of ended jobs from which they are archived",
          least=3600.0),
    _knob("watchdog.retention_period_s", "s", 21_600.0, "interval between removals of old records",
          least=0.1),
    _knob("retention.requests_days", "d", 1.0, "life of answers to pilots; 0 here and below: for "
          "ever", least=0.0),
    _knob("retention.jobs_days", "d", 90.0, "life of parameters, last output, status log and retry "
          "matches of archived jobs", least=0.0),
    _knob("retention.decisions_days", "d", 30.0, "life of brokers' decisions", least=0.0),
    _knob("retention.snapshots_days", "d", 30.0, "life of snapshots that no decision uses",
          least=0.0),
    _knob("retention.pilots_days", "d", 7.0, "life of records of ended pilots", least=0.0),
    _knob("retention.tokens_days", "d", 7.0, "life of expired tokens", least=0.0),
    _knob("retention.messages_days", "d", 28.0, "life of sent and undeliverable messages to users",
          least=0.0),
    _knob("retention.cache_days", "d", 14.0, "life of uploads in the file cache of PanDA's clients "
          "after their last use", least=0.0),
    _knob("retention.sandboxes_days", "d", 365.0, "life of sandboxes of ended tasks", least=0.0),
    _knob("retention.answers_days", "d", 1.0, "life of answers to requests with an "
          "Idempotency-Key", least=0.0),
    _knob("retention.audit_days", "d", 365.0, "life of the audit's entries", least=0.0),
    _knob("retention.rates_days", "d", 90.0, "life of hourly numbers of jobs", least=0.0),
    _knob("watchdog.notifier_period_s", "s", 5.0, "interval between deliveries of messages to "
          "users", least=0.1),
    _knob("notify.retry_s", "s", 60.0, "wait before the second delivery of a message; the wait "
          "doubles each time", least=1.0),
    _knob("notify.longest_retry_s", "s", 600.0, "longest wait between deliveries", least=1.0),
    _knob("notify.timeout_s", "s", 10.0, "time-out of a receiver; of a mail relay, for each answer",
          least=0.1),
    _knob("notify.smtp_host", "host", "", "mail relay; empty: none"),
    _knob("notify.smtp_port", "port", 25, "port of the mail relay", least=1, most=65_535),
    _knob("notify.smtp_tls", "", "none", "encryption to the mail relay: none, starttls (port 587), "
          "tls from the first byte (port 465)", among=("none", "starttls", "tls")),
    _knob("notify.smtp_user", "name", "", "user at the mail relay, only with TLS; empty: no login"),
    _knob("notify.smtp_password_file", "path", "", "file with that user's password"),
    _knob("notify.mail_from", "address", "jedi@localhost", "sender of mail"),
    _knob("watchdog.batch", "rows", 1000, "most rows that a dog changes in one transaction",
          least=1),
    _knob("decisions.snapshot_max_mb", "MB", 16, "largest snapshot, compressed; larger ones are "
          "not kept, and their decisions cannot be replayed", least=0),
    _knob("decisions.total_max_mb", "MB", 2000, "most space of all snapshots; the oldest go first",
          least=0),
    _knob("sandbox.max_mb", "MB", 100, "largest input sandbox", least=1),
    _knob("prun.vo", "", "", "vo of the tasks of PanDA's clients; empty: the one that they name"),
    _knob("prun.cache_mb", "MB", 2000, "largest sum of a user's uploads in the file cache of "
          "PanDA's clients", least=0),
    _knob("upload.max_gb", "GB", 20.0, "largest file that people upload into a dataset",
          least=0.0),
    _knob("upload.keep_days", "d", 2.0, "life of uploads that nobody has added to a dataset, from "
          "the last change of the user's uploads to it", least=0.0),
    _knob("upload.open_gb", "GB", 500.0, "largest sum of a user's open uploads at an endpoint, as "
          "announced", least=0.0),
    _knob("upload.open_files", "files", 100_000, "most open uploads of a user at an endpoint",
          least=0),
    _knob("ddm.catalogue", "name", "filesystem", "catalogue of data management: filesystem "
          "(datasets are the files in the directories) or sql (in the database)",
          among=("filesystem", "sql")),
    _knob("ddm.event_count_command", "command", "", "command that prints the number of events of "
          "the file whose path is appended; empty: event counts come from side files only"),
]  # fmt: skip

KNOBS: dict[str, Knob] = {k.name: k for k in _DECLARED}


class Knobs(Components, Mapping[str, Any]):
    """All knobs with their values in force, as `knobs.component.key`; by name only where code puts
    the name together. Unknown overrides are ignored (an older release may have left them)."""

    def __init__(self, overrides: Mapping[str, Any] | None = None) -> None:
        found = dict(overrides or {})
        preset = found.get("core.preset", "classic")
        self._values = {n: found.get(n, k.default(preset)) for n, k in KNOBS.items()}
        self._fill(_by_component(self._values))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Knobs) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


def words(value: str) -> list[str]:
    """The words of a knob that holds several, with commas or blanks between them."""
    return value.replace(",", " ").split()


def numbers(value: str) -> dict[str, float]:
    """The numbers of a knob such as `simul=1000, pile=1500`, by name; ValueError: it has another
    form."""
    pairs = [word.rpartition("=") for word in words(value)]
    if not all(name for name, _, _ in pairs):
        raise ValueError(value)
    return {name: float(number) for name, _, number in pairs}


def _by_component(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        component, key = name.split(".")
        found.setdefault(component, {})[key] = value
    return found
