"""The end of a consumer, as a table: the job's next status and sub-status, and the next step of its
job set. Source: JEDI document, "Final status of Event Service jobs";
docs/reference/event-service.md#the-end-of-a-consumer.

A row names conditions; the first row whose conditions all hold counts. `!` negates a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

SetStep = Literal["none", "retry", "merge", "fail", "cancel"]
"""retry: one more consumer; merge: the merge job starts; fail, cancel: the merge job ends so, and
with it the job set, whose inputs are tried again."""

SET_KILLS = ("es_killed", "es_unused", "es_aborted", "jc_unlock")
"""Kill codes by which JEDI ends consumers that their job set needs no longer."""
_UNPREPARED = ("setup_timeout", "defined_timeout")
_FINAL = ("finished", "failed", "cancelled", "closed")
_BAD = ("failed", "cancelled", "closed")


class ConsumerFacts(NamedTuple):
    """A consumer that ends, and its job set, when the consumer's ranges have been given back.

    status: the job's present status. result: as its pilot reported, or lost. dispatched: a pilot
    had it. got: ranges that it ever had; made: those that it processed. Of the set: left: ranges
    that are ready and may be tried; used_up: ranges without attempts that nobody may do without;
    done: ranges that wait to be merged; busy: other consumers that hold ranges; alive: other
    consumers that have not ended; jumbo: jumbo jobs of the task that have not ended; attempts:
    attempts without progress that are left; free: its end is nobody's fault, and uses up no
    attempt; online: a queue that may take one more consumer is
    online; merge: the status of the merge job; clone: its jobs are copies of one job."""

    status: str = "holding"
    result: str | None = "finished"
    kill_code: str | None = None
    error_code: str | None = None
    error_diag: str | None = None
    dispatched: bool = True
    got: int = 0
    made: int = 0
    left: int = 0
    used_up: int = 0
    spent: bool = False
    done: int = 0
    busy: int = 0
    alive: int = 0
    jumbo: int = 0
    attempts: int = 0
    free: bool = False
    online: bool = True
    merge: str = "waiting"
    clone: bool = False


class Outcome(NamedTuple):
    """A row of the table. target None: the job has ended already, and keeps its status and code."""

    when: str
    target: str | None
    substatus: str | None
    code: str
    sentence: str


class ConsumerVerdict(NamedTuple):
    """The end of a consumer, and the next step of its job set with its own code and sentence."""

    target: str | None
    substatus: str | None
    code: str
    reason: str
    step: SetStep
    step_code: str = ""
    step_reason: str = ""


def costs_attempt(facts: ConsumerFacts) -> bool:
    """Return True if a consumer that follows uses up an attempt of the job set: this one processed
    no range though a pilot had it, or failed before, as without its input, and somebody may be to
    blame for that."""
    return not facts.made and not facts.free and (facts.dispatched or facts.status == "failed")


CONDITIONS: Mapping[str, Callable[[ConsumerFacts], bool]] = {
    "ended": lambda f: f.status in _FINAL,
    "unprepared": lambda f: f.error_code in _UNPREPARED,
    "dispatched": lambda f: f.dispatched,
    "killed": lambda f: f.kill_code in SET_KILLS,
    "reassigned": lambda f: f.kill_code == "reassigned",
    "cancelled": lambda f: (
        f.status == "cancelled"
        or (f.status not in _FINAL and (f.result == "cancelled" or bool(f.kill_code)))
    ),
    "set_failed": lambda f: f.merge in _BAD,
    "set_merges": lambda f: f.merge != "waiting",
    "lost": lambda f: f.result == "lost",
    "failed": lambda f: f.result == "failed" and f.error_code != "pilot_terminated",
    "got": lambda f: f.got > 0,
    "made": lambda f: f.made > 0,
    "left": lambda f: f.left > 0,
    "used_up": lambda f: f.used_up > 0,
    "spent": lambda f: f.spent,
    "done": lambda f: f.done > 0,
    "busy": lambda f: f.busy > 0,
    "alive": lambda f: f.alive > 0,
    "served": lambda f: f.alive + f.jumbo > 0,
    "early": lambda f: f.status == "failed" and not f.dispatched,
    "attempts": lambda f: f.attempts > 0 or not costs_attempt(f),
    "online": lambda f: f.online,
    "clone": lambda f: f.clone,
}

_USED_UP = ("used_up", "es_ranges_failed", "Ranges without an attempt: {used_up}.")
_FAILS = (
    ("!left !busy !done", "es_ranges_failed", "All ranges failed."),
    ("left !online !served", "es_no_queue", "Ranges left: {left}; no queue for them is online."),
    (
        "left !attempts !served",
        "es_attempts",
        "Ranges left: {left}; the attempts of jobs are used up.",
    ),
)
"""Ends of the whole job set: conditions, code and sentence."""

_ELSEWHERE = "Other jobs of the set still run."
_INACTION = Outcome(
    "",
    "closed",
    "es_inaction",
    "es_inaction",
    f"It processed no range, and none follows it. {_ELSEWHERE}",
)
OUTCOMES = (
    Outcome("ended unprepared", None, "es_badstatus", "", "It ended before it was prepared."),
    Outcome("early", None, None, "", "It failed before a pilot took it."),
    Outcome(
        "ended !dispatched !cancelled", None, "es_unused", "", "It ended before a pilot took it."
    ),
    Outcome("ended", None, None, "", "It had ended already."),
    Outcome("killed", "closed", "{kill_code}", "{kill_code}", "Its job set needs it no longer."),
    Outcome("reassigned", "closed", None, "reassigned", "Its task was reassigned."),
    Outcome("cancelled", "cancelled", None, "{cancelled}", "{error_diag}"),
    Outcome("set_failed", "closed", "es_aborted", "es_aborted", "Its job set ended as {merge}."),
    Outcome(
        "set_merges",
        "closed",
        "es_killed",
        "es_killed",
        "All ranges of its job set are being merged.",
    ),
    Outcome(
        "lost !made",
        "failed",
        "es_heartbeat",
        "es_heartbeat",
        "Its pilot fell silent before a range was processed: {error_diag}",
    ),
    Outcome("failed !made", "failed", "pilot_failed", "pilot_failed", "{error_code}: {error_diag}"),
    Outcome("used_up spent", "failed", None, *_USED_UP[1:]),
    Outcome(
        "used_up",
        "closed",
        "es_aborted",
        "es_aborted",
        "Ranges of other jobs of its set have no attempt left.",
    ),
    *(Outcome(when, "failed", None, code, sentence) for when, code, sentence in _FAILS),
    Outcome("left !online made", "merging", "es_wait", "es_wait", _ELSEWHERE),
    _INACTION._replace(when="left !online"),
    _INACTION._replace(when="left !attempts"),
    Outcome(
        "left made",
        "merging",
        "es_retry",
        "es_retry",
        "Ranges processed: {made}; left for another job: {left}.",
    ),
    _INACTION._replace(
        when="left got clone", sentence="It stored no outputs; another copy follows it."
    ),
    Outcome(
        "left got",
        "merging",
        "es_inaction",
        "es_inaction",
        "It processed no range; another job tries the {left} that are left.",
    ),
    Outcome(
        "left",
        "closed",
        "es_noevent",
        "es_noevent",
        "It got no range; another job tries the {left} that are left.",
    ),
    Outcome(
        "busy made",
        "merging",
        "es_wait",
        "es_wait",
        "Ranges processed: {made}, none is left; other jobs with ranges: {busy}.",
    ),
    _INACTION._replace(when="busy"),
    Outcome(
        "made",
        "merging",
        "es_merge",
        "es_merge",
        "All ranges of its job set are processed: they are being merged.",
    ),
    Outcome(
        "",
        "closed",
        "es_merge",
        "es_merge",
        "It processed no range, and all of its job set are processed: they are being merged.",
    ),
)
"""The document's states win over those of PanDA: `es_inaction` is merging if another job follows,
and a consumer that processed ranges is merging or failed while its job set lives."""


def holds(when: str, facts: ConsumerFacts) -> bool:
    """Return True if all conditions of a row hold."""
    return all(CONDITIONS[word.lstrip("!")](facts) != word.startswith("!") for word in when.split())


def judge_consumer(facts: ConsumerFacts) -> ConsumerVerdict:
    """Return the row of the table that counts, and the next step of the job set."""
    return verdict(OUTCOMES, facts, *next_step(facts))


def verdict(
    table: Sequence[Outcome],
    facts: ConsumerFacts,
    step: SetStep = "none",
    code: str = "",
    reason: str = "",
) -> ConsumerVerdict:
    """Return the first row of a table whose conditions hold, with a step of the job set."""
    row = next(row for row in table if holds(row.when, facts))
    words = {
        **facts._asdict(),
        "error_code": facts.error_code or "no_reason",
        "error_diag": facts.error_diag or "No reason was given.",
        "cancelled": facts.kill_code or facts.error_code or "cancelled_by_user",
    }
    substatus = row.substatus and row.substatus.format_map(words)
    said = row.code.format_map(words), row.sentence.format_map(words)
    return ConsumerVerdict(row.target, substatus, *said, step, code, reason)


def next_step(facts: ConsumerFacts) -> tuple[SetStep, str, str]:
    """The next step of the job set of a consumer that has ended, with code and sentence."""
    if holds("set_merges", facts):
        return "none", "", ""
    if holds("left cancelled !killed served", facts):
        return "none", "", ""
    if holds("left cancelled !killed !done", facts):
        return "cancel", "cancelled_by_user", "The last of its consumers was cancelled."
    for when, code, sentence in (_USED_UP, *_FAILS):
        if holds(when, facts):
            return "fail", code, sentence.format_map(facts._asdict())
    if holds("left online attempts", facts):
        return "retry", "es_retry", f"Ranges left: {facts.left}."
    if holds("!left !busy done", facts):
        return "merge", "es_merge", f"Ranges processed: {facts.done}."
    return "none", "", ""
