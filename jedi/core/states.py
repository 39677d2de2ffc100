"""Every status and every allowed move, declared once.

The database's CHECKs and triggers, the drawings in docs/ and the tests of forbidden moves are all
generated from here. Source: docs/reference/task-states.md#statuses;
docs/reference/job-states.md#ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """One allowed move: who makes it, and why; `origin`: the rule that asks for it."""

    source: str
    target: str
    owner: str
    reason: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Statuses with their meaning, and the edges between them.

    `table.column` is guarded; `types` limits a machine to rows whose `type` is one of them, where
    two machines share a table. `negate_types` turns that into "none of them".
    """

    name: str
    table: str
    column: str
    states: dict[str, str]
    edges: tuple[Edge, ...]
    initial: frozenset[str]
    final: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()
    negate_types: bool = False

    def __post_init__(self) -> None:
        known = self.states.keys()
        for e in self.edges:
            if e.source not in known or e.target not in known or e.source == e.target:
                raise ValueError(f"{self.name}: impossible edge {e.source} -> {e.target}")

    def allows(self, source: str, target: str) -> bool:
        """True if the move is declared (staying is not a move)."""
        return (source, target) in self.pairs

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """All allowed (from, to)."""
        return frozenset((e.source, e.target) for e in self.edges)

    def forbidden(self) -> list[tuple[str, str]]:
        """All (from, to) that the database must refuse."""
        pairs = self.pairs
        return [(a, b) for a in self.states for b in self.states if a != b and (a, b) not in pairs]


def _edges(owner: str, sources: str, targets: str, reason: str, origin: str = "") -> Iterable[Edge]:
    """Every source to every target (blank-separated words), itself excepted."""
    for source in sources.split():
        for target in targets.split():
            if source != target:
                yield Edge(source, target, owner, reason, origin)


def _machine(rules: Iterable[tuple[str, ...]]) -> tuple[Edge, ...]:
    """Expand rules; the first rule that names a pair keeps it, so reasons stay single."""
    edges: dict[tuple[str, str], Edge] = {}
    for rule in rules:
        for edge in _edges(*rule):
            edges.setdefault((edge.source, edge.target), edge)
    return tuple(edges.values())


# ------------------------------------------------------------------------------------- tasks

TASK_STATES = {
    "registered": "the task is stored and waits to be refined",
    "defined": "all task parameters are properly defined",
    "assigning": "the task brokerage is choosing a nucleus",
    "ready": "the task is ready to generate jobs",
    "pending": "a temporary problem holds the task",
    "scouting": "scout jobs run and measure the payload",
    "scouted": "all scout jobs were evaluated with success",
    "running": "the task is running jobs",
    "prepared": "the task is ready to go to a final status",
    "done": "all inputs were successfully processed",
    "failed": "all inputs failed",
    "finished": "some inputs were processed, others failed or were not processed",
    "aborting": "the task is being killed",
    "toabort": "no job is left of the killed task",
    "aborted": "the task is killed",
    "finishing": "the task is forced to finish",
    "topreprocess": "the task needs a pre-processing job",
    "preprocessing": "the pre-processing job is running",
    "tobroken": "the task is about to become broken",
    "broken": "the task is broken, e.g. its definition is wrong",
    "toretry": "the retry command was received",
    "toincexec": "the incexec command was received",
    "rerefine": "task parameters change for incremental execution",
    "paused": "the task does nothing until it is resumed",
    "throttled": "the task may not generate jobs for a while",
    "exhausted": "all attempts are used up, or scouts warn: the task waits for a person or a "
    "time-out",
    "passed": "the task goes to a final status after a command or a time-out",
    "staging": "input is on its way from tape",
    "staged": "input arrived from tape",
    "toreassign": "the reassign command was received",
    "reassigning": "the jobs are gone, and the broker chooses a new place",
}

_WORKING = "ready scouting running"
_HOLDABLE = f"{_WORKING} defined topreprocess preprocessing registered rerefine"
_PAUSABLE = f"{_HOLDABLE} prepared staging staged assigning pending scouted throttled exhausted"
_REASSIGNABLE = "defined ready running scouting scouted pending assigning exhausted"
TASK_HOLDS = ("pending", "paused", "throttled", "toreassign", "reassigning")
"""Statuses from which a task returns to the one before."""
_KILLABLE = (
    "registered staging staged topreprocess preprocessing defined assigning ready pending "
    "scouting scouted running throttled paused exhausted toretry toincexec rerefine toreassign "
    "reassigning finishing"
)
_COUNTED = "finished failed exhausted"
_FOLLOWS = "done finished exhausted prepared finishing passed"

_SEED = "JEDI document"
_PANDA = "PanDA"
_OURS = "ruling"
"""Origins of moves: JEDI document, "Transition of task status", "Task retry and resubmission" and
"Broken tasks"; docs/reference/sources.md#panda; docs/reference/task-states.md."""

TASK = Machine(
    "task",
    "jedi_tasks",
    "status",
    TASK_STATES,
    _machine(
        [
            ("TaskRefiner", "registered staged rerefine", "defined", "refined", _SEED),
            ("TaskRefiner", "registered staged", "topreprocess", "needs_preprocessing", _SEED),
            ("TaskRefiner", "registered", "staging", "input_on_tape", _PANDA),
            ("TaskRefiner", "registered staged", "toabort", "unique_name_taken", _OURS),
            ("TaskRefiner", "registered staged rerefine", "tobroken", "malformed", _SEED),
            ("ContentsFeeder", "defined", "assigning", "needs_nucleus", _SEED),
            ("ContentsFeeder", "defined", "ready", "fed", _SEED),
            ("ContentsFeeder", "defined", "tobroken", "input_unusable", _SEED),
            ("ContentsFeeder", "defined", "finishing", "empty_input_allowed", _OURS),
            ("Splitter", "defined", "tobroken", "split_refused", _OURS),
            ("TaskBroker", "assigning", "ready", "nucleus_chosen", _SEED),
            ("JobGenerator", "ready", "scouting", "scouts_generated", _SEED),
            ("JobGenerator", "ready", "running", "jobs_generated", _SEED),
            ("JobGenerator", "topreprocess", "preprocessing", "preprocessing_job_generated", _SEED),
            ("PostProcessor", "preprocessing", "registered", "preprocessed", _SEED),
            ("PostProcessor", "preprocessing", "prepared", "preprocessing_failed", _PANDA),
            ("PostProcessor", "scouting", "scouted", "scouts_succeeded", _SEED),
            ("PostProcessor", "scouting", "tobroken", "scouts_failed", _SEED),
            ("PostProcessor", "scouted", "running", "avalanche", _PANDA),
            ("PostProcessor", f"{_WORKING} throttled", "prepared", "all_processed", _SEED),
            ("PostProcessor", "ready scouting running", "defined", "input_still_open", _PANDA),
            ("PostProcessor", "scouting", "exhausted", "scouts_exhausted", _SEED),
            ("PostProcessor", "prepared passed", "done finished failed", "finalised", _SEED),
            ("PostProcessor", "prepared", "exhausted", "goal_not_met", _SEED),
            ("PostProcessor", "prepared", "paused", "duplicates_found", _PANDA),
            ("PostProcessor", "toabort", "aborted", "finalised", _SEED),
            ("PostProcessor", "tobroken", "broken", "finalised", _SEED),
            ("PostProcessor", _KILLABLE, "toabort", "parent_failed", _PANDA),
            ("any agent", _HOLDABLE, "pending", "on_hold", _SEED),
            ("WatchDog", "pending", _HOLDABLE, "hold_over", _PANDA),
            ("WatchDog", "pending assigning", "exhausted", "pending_timeout", _SEED),
            ("JobGenerator", _WORKING, "throttled", "many_attempts", _SEED),
            ("WatchDog", "throttled", _WORKING, "throttle_over", _SEED),
            ("WatchDog", "exhausted", "finishing", "exhausted_timeout", _SEED),
            ("WatchDog", f"registered defined {_WORKING}", "exhausted", "worker_killed", _OURS),
            ("TaskCommando", "reassigning", _REASSIGNABLE, "reassigned", _PANDA),
            ("TaskCommando", _KILLABLE + " passed tobroken", "aborting", "kill", _SEED),
            ("TaskCommando", "aborting", "toabort", "no_job_left", _SEED),
            ("TaskCommando", _KILLABLE, "finishing", "finish", _SEED),
            ("TaskCommando", "finishing", "passed", "no_job_left", _SEED),
            ("TaskCommando", _COUNTED, "toretry", "retry", _SEED),
            ("TaskCommando", "toretry", "registered defined ready", "retried", _SEED),
            ("TaskCommando", "done", "toretry", "recover", _OURS),
            ("TaskCommando", "aborted", "toretry", "reactivate", _OURS),
            ("TaskCommando", "toretry", f"{_COUNTED} done", "nothing_to_retry", _OURS),
            ("TaskCommando", "exhausted", "running scouting", "retry_resumes", _PANDA),
            ("TaskCommando", f"{_COUNTED} done aborted", "toincexec", "incexec", _SEED),
            ("TaskCommando", "toincexec", "rerefine", "parameters_merged", _SEED),
            ("TaskCommando", _FOLLOWS, "registered", "parent_retried", _SEED),
            ("TaskCommando", _PAUSABLE, "paused", "pause", _SEED),
            ("TaskCommando", "paused", _PAUSABLE, "resume", _SEED),
            ("WatchDog", "staging", "staged", "staged", _PANDA),
            ("TaskCommando", _REASSIGNABLE, "toreassign", "reassign", _PANDA),
            ("TaskCommando", "toreassign", "reassigning", "jobs_gone", _PANDA),
        ]
    ),
    initial=frozenset({"registered"}),
    final=frozenset({"done", "finished", "failed", "aborted", "broken"}),
)

# ---------------------------------------------------------------------------------- datasets

INPUT_TYPES = (
    "input",
    "pseudo_input",
    "random_seed",
    "pp_input",
    "in_constituent",
    "trn_log",
    "trn_output",
)
FILE_TYPES = tuple(kind for kind in INPUT_TYPES if kind not in ("pseudo_input", "random_seed"))
"""Inputs that are files: they lie somewhere, and are moved."""
MASTER_TYPES = ("input", "pseudo_input")
JOB_MAKING_TYPES = (*MASTER_TYPES, "pp_input")
"""Types of files that make jobs, also before the task knows its masters."""
PRE_MERGE_TYPES = ("trn_output", "trn_log")
"""Files that one job makes and a merge job reads: they move like inputs, pending until made."""
FED_TYPES = tuple(kind for kind in INPUT_TYPES if kind not in PRE_MERGE_TYPES)
"""Inputs that do not come from the task's own jobs."""
OUTPUT_TYPES = ("output", "log")
TEMPLATE_TYPES = ("tmpl_output", "tmpl_log")
"""Containers of outputs, whose datasets are made where jobs need them."""
PRODUCT_TYPES = (*OUTPUT_TYPES, *TEMPLATE_TYPES, "pp_log", "lib")
"""Types of datasets that remain when the task has ended."""
MADE_TYPES = (*PRODUCT_TYPES, *PRE_MERGE_TYPES)
"""Types of datasets that the task's own jobs fill."""

INPUT_DATASET = Machine(
    "input dataset",
    "jedi_datasets",
    "status",
    {
        "defined": "the dataset is known to the task",
        "toupdate": "the dataset needs to be looked up again",
        "pending": "the dataset is temporarily unavailable",
        "broken": "the dataset is permanently unavailable",
        "ready": "the dataset is ready to be used",
        "running": "the dataset is open: its files are used, more may come",
        "done": "all files were processed",
        "finished": "some files were processed",
        "failed": "no file was processed",
        "removed": "the container no longer lists the dataset",
    },
    _machine(
        [
            ("ContentsFeeder", "defined toupdate pending", "ready", "fed"),
            ("ContentsFeeder", "defined toupdate pending ready", "running", "fed_open"),
            ("ContentsFeeder", "running", "ready", "closed"),
            ("ContentsFeeder", "defined toupdate", "pending", "unavailable"),
            ("ContentsFeeder", "defined toupdate pending running", "broken", "unknown"),
            ("PostProcessor", "ready running", "done finished failed", "processed"),
            ("PostProcessor", "defined toupdate pending", "done", "not_needed"),
            ("TaskCommando", "done finished failed", "ready running", "retry"),
            (
                "TaskCommando",
                "ready running done finished failed broken",
                "defined",
                "retry_looks_again",
            ),
            (
                "TaskCommando",
                "ready running done finished failed broken removed",
                "toupdate",
                "incexec",
            ),
            ("TaskRefiner", "defined toupdate pending", "removed", "not_in_container"),
        ]
    ),
    initial=frozenset({"defined"}),
    types=INPUT_TYPES,
)

OUTPUT_DATASET = Machine(
    "output dataset",
    "jedi_datasets",
    "status",
    {
        "defined": "the dataset is known to the task",
        "ready": "the dataset is registered in data management",
        "running": "files are being added",
        "prepared": "all files are made: ready for post-processing",
        "done": "complete and frozen",
        "finished": "frozen, some files are missing",
        "failed": "frozen, the task failed",
    },
    _machine(
        [
            ("JobGenerator", "defined", "ready", "registered"),
            ("JobGenerator", "ready", "running", "jobs_generated"),
            ("PostProcessor", "defined ready running", "prepared", "all_processed"),
            ("PostProcessor", "prepared", "done finished failed", "frozen"),
            ("TaskCommando", "prepared done finished failed", "ready", "retry"),
        ]
    ),
    initial=frozenset({"defined"}),
    types=INPUT_TYPES,
    negate_types=True,
)

# ------------------------------------------------------------------------------------- files

INPUT_FILE = Machine(
    "input file",
    "jedi_dataset_contents",
    "status",
    {
        "pending": "known, but withheld while the dataset is open",
        "staging": "on its way from tape",
        "waiting": "waits for its time (periodical tasks)",
        "ready": "can be used for a job",
        "missing": "missing at the site of the job",
        "lost": "listed before, but no longer",
        "broken": "corrupted",
        "picked": "taken to generate jobs; never stored, since the next status follows in the same "
        "step",
        "running": "one or more jobs are using it",
        "finished": "successfully used",
        "failed": "all attempts failed",
        "partial": "some of its event ranges are processed; only the view jedi_files shows this "
        "status",
        "skipped": "left out, for the reason beside it: no job gets it",
    },
    _machine(
        [
            ("ContentsFeeder", "pending staging waiting", "ready", "released"),
            ("ContentsFeeder", "pending", "staging", "on_tape"),
            ("ContentsFeeder", "staging", "pending", "staged"),
            ("ContentsFeeder", "ready pending staging waiting", "lost", "gone_from_listing"),
            ("ContentsFeeder", "ready", "waiting", "next_period"),
            ("ContentsFeeder", "lost missing broken", "ready", "found_again"),
            ("JobGenerator", "ready", "running", "job_generated"),
            ("Adder", "running", "finished", "job_finished"),
            ("Adder", "running", "ready", "job_failed"),
            ("Adder", "running", "failed", "attempts_used_up"),
            ("Adder", "ready pending running", "missing", "not_at_site"),
            ("Adder", "ready pending running", "broken", "corrupted"),
            ("TaskCommando", "ready pending staging waiting", "failed", "forced_finish"),
            ("TaskCommando", "failed", "ready", "retry"),
            ("TaskCommando", "finished", "ready", "output_lost"),
            ("TaskCommando", "finished", "failed", "merged_file_lost"),
        ]
    ),
    initial=frozenset({"ready", "pending", "staging", "waiting", "skipped"}),
    types=INPUT_TYPES,
)

OUTPUT_FILE = Machine(
    "output file",
    "jedi_dataset_contents",
    "status",
    {
        "defined": "a job will make it",
        "running": "a job is making it",
        "prepared": "made, not yet at its destination",
        "merging": "a merge job is making it",
        "finished": "successfully made",
        "failed": "not made, or its merge failed",
        "nooutput": "not made, as allowed: its job succeeded without it",
    },
    _machine(
        [
            ("Adder", "defined", "running", "job_running"),
            ("Adder", "defined", "merging", "merge_job_running"),
            ("Adder", "defined running merging", "prepared", "job_transferring"),
            ("Adder", "defined running merging", "nooutput", "not_made"),
            ("Adder", "defined running merging prepared", "finished", "job_finished"),
            ("Adder", "defined running merging prepared", "failed", "job_failed"),
            ("TaskCommando", "finished", "failed", "output_lost"),
        ]
    ),
    initial=frozenset({"defined"}),
    types=INPUT_TYPES,
    negate_types=True,
)

# ------------------------------------------------------------------------------------ events

EVENT_CODES = {
    "ready": 0,
    "sent": 1,
    "running": 2,
    "finished": 3,
    "cancelled": 4,
    "discarded": 5,
    "done": 6,
    "failed": 7,
    "fatal": 8,
    "merged": 9,
    "corrupted": 10,
}

EVENT = Machine(
    "event range",
    "jedi_events",
    "status",
    {
        "ready": "ready to be processed",
        "sent": "sent to the pilot",
        "running": "being processed",
        "finished": "processed; its job still runs",
        "cancelled": "its job was killed before it was processed",
        "discarded": "its job was killed in merging after it was processed",
        "done": "processed and waiting to be merged",
        "failed": "failed to be processed",
        "fatal": "failed, no attempt is left",
        "merged": "merged",
        "corrupted": "to be processed again, its output is bad",
    },
    _machine(
        [
            ("EventService", "ready", "sent", "dispatched"),
            ("EventService", "sent", "running", "reported"),
            ("EventService", "ready sent running", "finished failed", "reported"),
            ("Adder", "ready", "done failed fatal", "job_ended"),
            ("EventService", "finished", "done", "consumer_ended"),
            ("EventService", "sent running", "ready", "no_result"),
            ("EventService", "failed corrupted", "fatal", "attempts_used_up"),
            ("EventService", "done finished", "discarded", "consumer_killed"),
            ("EventService", "ready sent running failed corrupted", "cancelled", "consumer_killed"),
            ("EventService", "done", "merged corrupted", "merge_ended"),
        ]
    ),
    initial=frozenset({"ready"}),
    final=frozenset({"cancelled", "discarded", "fatal", "merged"}),
)
"""Ranges that failed or are corrupted stay so: their next attempt is a row of its own, ready, with
one attempt less. Source: docs/reference/event-service.md#life-of-a-range."""

# -------------------------------------------------------------------------------------- jobs

_QUEUED = "pending waiting defined assigned activated throttled"
_AT_SITE = "sent starting running"
_AFTER = "holding transferring merging"

JOB = Machine(
    "job",
    "jedi_jobs",
    "status",
    {
        "pending": "stored, not yet set up",
        "waiting": "a placeholder waits for its real consumer",
        "defined": "to be set up",
        "assigned": "input is on its way to the site",
        "activated": "ready to be handed to a pilot",
        "throttled": "no pilot gets the job: its task is paused, or its user has reached the limit "
        "of running jobs",
        "sent": "handed to a pilot",
        "starting": "the pilot prepares the job",
        "running": "the payload runs",
        "holding": "the pilot has reported the end",
        "transferring": "outputs are on their way to the destination",
        "merging": "outputs wait to be merged",
        "finished": "success",
        "failed": "failure",
        "cancelled": "killed by a person or a command",
        "closed": "ended by the system before success or failure",
    },
    _machine(
        [
            ("JobGenerator", "pending waiting", "defined", "set_up"),
            ("Mover", "pending defined", "assigned", "input_requested"),
            ("Mover", "pending defined assigned", "activated", "input_ready"),
            ("TaskCommando", "activated", "throttled", "task_paused"),
            ("TaskCommando", "throttled", "activated", "task_resumed"),
            ("EventService", "waiting", "assigned activated", "pieces_ready"),
            ("JobDispatcher", "activated", "sent", "acquired"),
            ("JobDispatcher", "sent", "starting", "reported"),
            ("JobDispatcher", "sent starting", "running", "reported"),
            ("JobDispatcher", _AT_SITE, "holding", "reported"),
            ("Adder", "holding", "transferring", "outputs_move"),
            ("Adder", "holding transferring", "merging", "outputs_wait_for_merge"),
            ("Adder", "holding transferring merging waiting", "finished", "success"),
            ("Adder", f"{_AT_SITE} {_AFTER} {_QUEUED}", "failed", "failure"),
            ("TaskCommando", f"{_QUEUED} {_AT_SITE} {_AFTER}", "cancelled", "killed"),
            ("WatchDog", f"{_QUEUED} {_AT_SITE} {_AFTER}", "closed", "closed_by_system"),
        ]
    ),
    initial=frozenset({"pending", "waiting", "defined", "assigned", "activated"}),
    final=frozenset({"finished", "failed", "cancelled", "closed"}),
)

JOB_KINDS = {
    "normal": "processes input",
    "scout": "processes input first, and measures the task",
    "merge": "merges outputs of other jobs",
    "build": "builds the software",
    "preprocess": "finds out what the task is",
    "es_merge": "merges the pieces of a job set, whose inputs and outputs it has; until then it "
    "waits",
    "consumer": "processes ranges of events of one job set",
    "co_jumbo": "a consumer of a job set that jumbo jobs serve, too; it may be a placeholder",
    "jumbo": "processes ranges of events of all job sets of its task",
    "clone": "one of several copies of a job: one of them counts",
    "fine": "processes ranges of events, each of which succeeds or fails by itself",
}
"""The work of a job (jedi_jobs.kind)."""
CONSUMER_KINDS = ("consumer", "co_jumbo", "jumbo", "clone", "fine")
"""Jobs beside the one that has their inputs and outputs: their ends settle nothing but their log
(jedi_consumers has a row for each)."""
JOBSET_MODES = {"es": "consumer", "cloning": "clone", "fine": "fine"}
"""The kind of the consumers of job sets, by mode."""

JOB_QUEUED = tuple(_QUEUED.split())
JOB_AT_SITE = tuple(_AT_SITE.split())
JOB_TO_START = ("activated", "sent", "starting")
"""Jobs that only want a slot, or have one and do not run yet."""
JOB_LIVE = tuple(f"{_QUEUED} {_AT_SITE} {_AFTER}".split())
JOB_FINAL = tuple(sorted(JOB.final))
JOB_SUBSTATES: dict[str, tuple[str, str]] = {
    "merge_failed": ("cancelled", "the last merge of its outputs failed"),
    "merge_cancelled": ("cancelled", "the merge of its outputs was killed"),
    "merge_closed": ("cancelled", "the system ended the last merge of its outputs"),
    # event service
    "pilot_failed": ("failed", "the pilot reported an error"),
    "es_heartbeat": ("failed", "the pilot fell silent before a range of events was processed"),
    "es_merge_failed": ("failed", "its ranges of events could not be merged"),
    "es_retry": ("merging", "another job processes the ranges that are left"),
    "es_merge": ("merging", "all ranges are processed and being merged"),
    "es_wait": ("merging", "all ranges are processed or at work elsewhere"),
    "es_inaction": ("merging", "it processed no range; closed: no other job follows it"),
    "es_noevent": ("closed", "it got no range; another job is tried"),
    "es_badstatus": ("closed", "it ended before a pilot had it"),
    "jc_unlock": ("closed", "another copy of the job counts"),
    "es_killed": ("closed", "all ranges are being merged"),
    "es_unused": ("closed", "no pilot had it before all ranges were processed"),
    "es_aborted": ("closed", "jobs with the same ranges failed"),
}
"""More of a job's status, which is the first of the pair. Source: JEDI document, "Final
status of Event Service jobs"; docs/reference/job-states.md#sub-statuses."""

MACHINES = (TASK, INPUT_DATASET, OUTPUT_DATASET, INPUT_FILE, OUTPUT_FILE, EVENT, JOB)
