"""The end of a consumer: expected values by hand, from the JEDI document, "Final status of Event
Service jobs", and where it is silent from docs/reference/event-service.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jedi.core import states
from jedi.eventservice.outcome import (
    OUTCOMES,
    ConsumerFacts,
    ConsumerVerdict,
    holds,
    judge_consumer,
)


def end(**facts: Any) -> ConsumerVerdict:
    return judge_consumer(ConsumerFacts(**facts))


CASES: list[tuple[dict[str, Any], str | None, str | None, str]] = [
    # JEDI document: "ES jobs have status=merging when they have one or more successful event ranges
    # and they were retried to run unprocessed even ranges (jobsubstatus=es_retry)"
    ({"got": 5, "made": 3, "left": 2, "attempts": 1}, "merging", "es_retry", "retry"),
    # … progress costs no attempt: the limit is one of jobs that processed nothing
    ({"got": 5, "made": 3, "left": 2, "attempts": 0}, "merging", "es_retry", "retry"),
    ({"got": 5, "made": 3, "left": 2, "attempts": 0, "alive": 2}, "merging", "es_retry", "retry"),
    # "all event ranges were processed and ES merge jobs were generated (jobsubstatus=es_merge)"
    ({"got": 5, "made": 5, "done": 5}, "merging", "es_merge", "merge"),
    # an idle consumer is no reason to wait; it is killed
    ({"got": 5, "made": 5, "done": 5, "alive": 3}, "merging", "es_merge", "merge"),
    # … "merging / es_merge (closed if it did nothing)"
    ({"done": 5}, "closed", "es_merge", "merge"),
    # "all event ranges assigned to the job sets were done but they didn't generate ES merge jobs
    # since other jobs were still running (jobsubstatus=es_wait)"
    ({"got": 5, "made": 5, "done": 5, "busy": 1, "alive": 1}, "merging", "es_wait", "none"),
    # "they didn't process any event ranges but were retried since the num of attempts didn't reach
    # the limit (jobsubstatus=es_inaction)": merging, though PanDA closes it
    ({"got": 5, "left": 5, "attempts": 1}, "merging", "es_inaction", "retry"),
    # … a copy of a job leaves nothing to merge: "others closed" (job cloning)
    ({"got": 1, "left": 1, "attempts": 1, "clone": True}, "closed", "es_inaction", "retry"),
    # … if nobody follows, the document is silent: "none left, others running: closed / es_inaction
    # without progress"; "job attempts used up: failed if last consumer, else closed / es_inaction"
    ({"got": 5, "done": 5, "busy": 1, "alive": 1}, "closed", "es_inaction", "none"),
    ({"got": 5, "left": 5, "alive": 1}, "closed", "es_inaction", "none"),
    # the document is silent on a job that never got a range: "closed / es_noevent, new attempt"
    ({"left": 5, "attempts": 1}, "closed", "es_noevent", "retry"),
    # "ES jobs have status=failed when the number of attempts for some event ranges reached the
    # limit"
    ({"got": 5, "made": 3, "done": 3, "used_up": 2, "spent": True}, "failed", None, "fail"),
    # … at once, whoever else lives; "they were killed since associated ES jobs failed (es_aborted)"
    (
        {"got": 5, "made": 3, "done": 3, "used_up": 2, "spent": True, "busy": 1, "alive": 1},
        "failed",
        None,
        "fail",
    ),
    ({"got": 5, "made": 3, "done": 3, "used_up": 2}, "closed", "es_aborted", "fail"),
    # "all ranges failed: failed"
    ({"got": 5}, "failed", None, "fail"),
    # "job attempts used up: failed if last consumer"
    ({"got": 5, "left": 5}, "failed", None, "fail"),
    # "no ES queue online: failed"; while others live, they take the ranges
    ({"got": 5, "made": 3, "left": 2, "online": False}, "failed", None, "fail"),
    ({"got": 5, "made": 3, "left": 2, "online": False, "alive": 1}, "merging", "es_wait", "none"),
    ({"got": 5, "left": 2, "online": False, "alive": 1}, "closed", "es_inaction", "none"),
    # "the pilot reported errors with jobsubstatus=pilot_failed (jobsubstatus=pilot_failed)"
    ({"result": "failed", "got": 5, "left": 5, "attempts": 1}, "failed", "pilot_failed", "retry"),
    ({"result": "failed", "got": 5, "left": 5}, "failed", "pilot_failed", "fail"),
    # … but "ES jobs go to status=merging if they successfully processed one or more events"
    ({"result": "failed", "got": 5, "made": 1, "left": 4}, "merging", "es_retry", "retry"),
    # "heartbeat was lost without successful event ranges (jobsubstatus=es_heartbeat)"
    ({"result": "lost", "got": 5, "left": 5, "attempts": 1}, "failed", "es_heartbeat", "retry"),
    ({"result": "lost", "got": 5, "left": 5}, "failed", "es_heartbeat", "fail"),
    ({"result": "lost", "done": 5}, "failed", "es_heartbeat", "merge"),
    ({"result": "lost", "got": 5, "made": 1, "left": 4}, "merging", "es_retry", "retry"),
    # the site ended the pilot, which is nobody's failure
    (
        {"result": "failed", "error_code": "pilot_terminated", "left": 5, "attempts": 1},
        "closed",
        "es_noevent",
        "retry",
    ),
    # "they were killed since an associated ES job generated an ES merge job (es_killed)"
    ({"kill_code": "es_killed", "merge": "activated"}, "closed", "es_killed", "none"),
    ({"merge": "running"}, "closed", "es_killed", "none"),
    ({"merge": "finished"}, "closed", "es_killed", "none"),
    # "they were killed before being dispatched to WN (es_unused)"
    (
        {
            "status": "closed",
            "error_code": "activated_timeout",
            "kill_code": "activated_timeout",
            "dispatched": False,
            "left": 5,
        },
        None,
        "es_unused",
        "retry",
    ),
    # "they were killed since associated ES jobs failed (es_aborted)"
    ({"kill_code": "es_aborted", "merge": "failed"}, "closed", "es_aborted", "none"),
    ({"merge": "failed"}, "closed", "es_aborted", "none"),
    # "ES jobs have status=cancelled when they were killed by human using the kill command"
    ({"kill_code": "cancelled_by_user", "got": 5, "left": 5}, "cancelled", None, "cancel"),
    ({"kill_code": "cancelled_by_user", "left": 5, "alive": 1}, "cancelled", None, "none"),
    ({"status": "cancelled", "kill_code": "killed", "left": 5}, None, None, "cancel"),
    # … which leaves the work of others alone
    (
        {"status": "cancelled", "kill_code": "killed", "made": 2, "left": 2, "done": 3},
        None,
        None,
        "retry",
    ),
    ({"status": "cancelled", "kill_code": "killed", "merge": "cancelled"}, None, None, "none"),
    ({"kill_code": "reassigned", "merge": "closed"}, "closed", None, "none"),
    # "still defined/pending: closed / es_badstatus"
    (
        {
            "status": "closed",
            "error_code": "defined_timeout",
            "kill_code": "defined_timeout",
            "dispatched": False,
            "left": 5,
        },
        None,
        "es_badstatus",
        "retry",
    ),
    # somebody else ended it
    (
        {"status": "failed", "error_code": "holding_timeout", "made": 2, "left": 3},
        None,
        None,
        "retry",
    ),
    # it failed before a pilot took it: no kill, hence no es_unused, and an attempt used up
    (
        {
            "status": "failed",
            "error_code": "transfer_failed",
            "dispatched": False,
            "left": 5,
            "attempts": 1,
        },
        None,
        None,
        "retry",
    ),
    (
        {"status": "failed", "error_code": "transfer_failed", "dispatched": False, "left": 5},
        None,
        None,
        "fail",
    ),
    # job cloning: "others closed/jc_unlock"
    ({"kill_code": "jc_unlock", "busy": 1, "alive": 1}, "closed", "jc_unlock", "none"),
]


@pytest.mark.parametrize(("facts", "target", "substatus", "step"), CASES)
def test_the_end_of_a_consumer(
    facts: dict[str, Any], target: str | None, substatus: str | None, step: str
) -> None:
    """Each case stands below the sentence that asks for it."""
    verdict = end(**facts)
    assert (verdict.target, verdict.substatus, verdict.step) == (target, substatus, step)


def test_every_row_has_its_case() -> None:
    """The table above reaches every row of the code's table."""
    reached = {
        next(row for row in OUTCOMES if holds(row.when, ConsumerFacts(**facts)))
        for facts, *_ in CASES
    }
    assert [row.when for row in OUTCOMES if row not in reached] == []


def test_sub_statuses_stand_beside_their_status() -> None:
    """A row gives no sub-status that jobs do not have, and the document's ones beside the
    document's status; only a job that did nothing is closed where others end the work."""
    closed_too = {("closed", "es_merge"), ("closed", "es_inaction"), ("closed", "{kill_code}")}
    for row in OUTCOMES:
        if row.substatus and row.target and (row.target, row.substatus) not in closed_too:
            assert states.JOB_SUBSTATES[row.substatus][0] == row.target, row


_COUNT = st.integers(0, 2)
_FACTS = st.builds(
    ConsumerFacts,
    status=st.sampled_from(["holding", "failed", "cancelled", "closed"]),
    result=st.sampled_from(["finished", "failed", "cancelled", "lost", None]),
    kill_code=st.sampled_from([None, "es_killed", "es_aborted", "cancelled_by_user", "reassigned"]),
    error_code=st.sampled_from([None, "payload_exit", "defined_timeout", "pilot_terminated"]),
    dispatched=st.booleans(),
    got=_COUNT,
    made=_COUNT,
    left=_COUNT,
    used_up=_COUNT,
    spent=st.booleans(),
    done=_COUNT,
    busy=_COUNT,
    alive=_COUNT,
    jumbo=_COUNT,
    attempts=_COUNT,
    online=st.booleans(),
    merge=st.sampled_from(["waiting", "activated", "running", "finished", "failed", "cancelled"]),
)


def _possible(facts: ConsumerFacts) -> bool:
    """Busy consumers and jumbo jobs live, and this one's ranges are ranges of its set."""
    return (
        facts.busy <= facts.alive + facts.jumbo
        and facts.made <= facts.got
        and facts.made <= facts.done
    )


@given(_FACTS.filter(_possible))
def test_random_ends_keep_the_rules(facts: ConsumerFacts) -> None:
    """Whatever ends and how: a set is merged only when no range is left or in work; it has a next
    step if nobody else could do one, not even a jumbo job of its task; a set whose merge job
    started or ended gets none; a job that has ended keeps its status."""
    verdict = judge_consumer(facts)
    complete = not (facts.left or facts.busy or facts.used_up) and facts.done > 0
    waits = facts.merge == "waiting"
    if verdict.step == "merge":
        assert complete
    if verdict.step == "retry":
        assert facts.left and facts.online and not facts.used_up
    if waits and not (facts.alive or facts.jumbo):
        assert verdict.step != "none"
    if not waits:
        assert verdict.step == "none"
    if waits and complete:
        assert verdict.step == "merge"
    assert (verdict.target is None) == (facts.status != "holding")
    assert bool(verdict.code) == (verdict.target is not None)
    assert verdict.reason.endswith(".") or facts.error_diag
