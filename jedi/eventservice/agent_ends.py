"""Ends of the consumers of job sets, and of the sets, in one transaction: facts, verdicts of
outcome.py, and their effects, in a constant number of statements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from jedi.core import kills, states
from jedi.core.faults import NOBODYS_FAULT
from jedi.core.knobs import Knobs
from jedi.eventservice import set_sites
from jedi.eventservice.agent_clones import settle_copies
from jedi.eventservice.merge_places import PieceChoice
from jedi.eventservice.outcome import (
    ConsumerFacts,
    ConsumerVerdict,
    SetStep,
    costs_attempt,
    holds,
    judge_consumer,
    next_step,
)
from jedi.model.jobs.attempt import ReportedJob
from jedi.model.jobs.events import NewConsumer
from jedi.taskbuffer.ends import job_ends, merge_retries
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import consumer_ends, job_sets, jumbo_jobs, lost_pieces, set_ends
from jedi.taskbuffer.events.consumer_ends import LockedSet, RangeOwner, SetConsumer, SetRanges
from jedi.taskbuffer.events.set_ends import ConsumerSite, MergeStart, NearSite, SetLook
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.jobs.jobs import JobMove

_LAST_WORDS = {
    "finished": ("es_merged", None, "Job {merge} merged the pieces of its job set."),
    "failed": (
        "es_merge_failed",
        "es_merge_failed",
        "The pieces of its job set are not merged: {diag}",
    ),
    "cancelled": ("killed", None, "Its job set was killed: {diag}"),
    "closed": ("es_aborted", "es_aborted", "Its job set was closed: {diag}"),
}
"""Code, sub-status and sentence of consumers whose set ends, by the end of the merge."""

_Site = TypeVar("_Site", NearSite, ConsumerSite)


class NextStep(NamedTuple):
    """A step of a job set, with code and sentence; a retry follows the consumer `after`, which was
    at `site`, made progress or not, and costs an attempt or not; `relation`: to that one;
    `free_in_row`: ends before it in a row that were nobody's fault."""

    jobset_id: int
    step: SetStep
    code: str
    reason: str
    site: str | None = None
    after: int | None = None
    progress: bool = False
    cost: bool = False
    relation: str = "retry"
    free_in_row: int = 0


class SetEnds:
    """The ends in one transaction."""

    def __init__(self, tx: Connection, knobs: Knobs, agent: str) -> None:
        self.tx, self.knobs, self.agent = tx, knobs, agent
        self._counting: Mapping[int, int] = {}
        self._dismissed: list[SetConsumer] = []
        self._waits: dict[int, tuple[str, str]] = {}
        self.served: set[int] = set()  # tasks that got consumers
        self.to_merge: Mapping[int, int] = {}  # tasks of job sets that are to be merged
        self._given_back: Mapping[int, int] = {}

    def settle(
        self,
        jobset_ids: Sequence[int],
        looked_at: Mapping[int, ReportedJob],
        unstored: Collection[int],
        copies: Collection[int] = (),
    ) -> None:
        """Do all that job sets are due for. `looked_at` are the consumers whose pilots are through;
        those of them in `unstored` have no stored log. `copies` of jobs have stored outputs."""
        sets = {one.jobset_id: one for one in consumer_ends.lock_sets(self.tx, jobset_ids)}
        if not sets:
            return
        consumers = consumer_ends.CONSUMERS_OF.rows(self.tx, ids=list(sets))
        if any(of.clone for of in sets.values()):
            good = {one: looked_at[one] for one in copies}
            self._settle_copies(sets, consumers, good)
            sets = {one.jobset_id: one for one in consumer_ends.lock_sets(self.tx, jobset_ids)}
            consumers = consumer_ends.CONSUMERS_OF.rows(self.tx, ids=list(sets))
        ended = [one for one in consumers if _has_ended(one, looked_at)]
        facts = self._facts(sets, consumers, ended)
        verdicts = [(one, judge_consumer(facts[one.panda_id])) for one in ended]
        self._end_consumers(verdicts, looked_at, unstored)
        steps = self._steps(sets, consumers, verdicts, facts)
        alive = [one for one in consumers if not one.settled and one not in ended]
        self._take(sets, steps, alive)
        self._close(sets, [one.jobset_id for one in steps if one.step in ("fail", "cancel")], alive)
        changed = {one.jobset_id for one in (*ended, *self._dismissed)} | {*self._given_back}
        looks = [SetLook(one, one in changed, *self._waits.get(one, ())) for one in sets]
        set_ends.look_again(self.tx, looks, float(self.knobs.eventservice.retry_s))

    def _settle_copies(
        self,
        sets: Mapping[int, LockedSet],
        consumers: Sequence[SetConsumer],
        good: Mapping[int, ReportedJob],
    ) -> None:
        """Let a copy of each job count, and end the others."""
        self._counting = settle_copies(self.tx, self.agent, [*sets.values()], consumers, good)
        rest = [
            one
            for one in consumers
            if not one.settled and self._counting.get(one.jobset_id, one.panda_id) != one.panda_id
        ]
        self._dismiss(rest, "jc_unlock", "jc_unlock")

    # ------------------------------------------------------------------------------- facts

    def _facts(
        self,
        sets: Mapping[int, LockedSet],
        consumers: Sequence[SetConsumer],
        ended: Sequence[SetConsumer],
    ) -> dict[int, ConsumerFacts]:
        """Give the ranges of ended consumers back; then the facts of each, in their order."""
        ids = [one.panda_id for one in ended]
        held = consumer_ends.ranges_held(
            self.tx, (sets[one.jobset_id].jedi_task_id for one in ended), ids
        )
        own = {one.panda_id: self._own(one, sets[one.jobset_id], held) for one in ended}
        self._return_ranges(sets, ended, own)
        self._near = _by_set(set_ends.BROKERED_SITES.rows(self.tx, ids=list(sets)))
        live = [one.panda_id for one in consumers if not one.settled and one.panda_id not in own]
        live += self._take_processed(sets)
        self._ranges = consumer_ends.ranges_of_sets(self.tx, list(sets), live)
        found = {}
        left: dict[int, int] = defaultdict(int)
        for one in consumers:
            left[one.jobset_id] += not one.settled
        for one in ended:
            left[one.jobset_id] -= 1
            of, alive = sets[one.jobset_id], left[one.jobset_id]
            found[one.panda_id] = self._with_set(own[one.panda_id], of, alive, one.panda_id)
        return found

    def _take_processed(self, sets: Mapping[int, LockedSet]) -> list[int]:
        """Ranges that jumbo jobs have processed are done. Return the jumbo jobs that live."""
        jumbos = jumbo_jobs.of_tasks(self.tx, [of.jedi_task_id for of in sets.values()])
        tasks = {one.jedi_task_id for one in jumbos}
        jumbo_jobs.take_processed(
            self.tx,
            [
                of.jobset_id
                for of in sets.values()
                if of.jedi_task_id in tasks and of.merge_status == "waiting" and not of.ended
            ],
        )
        self._jumbos = Counter(one.jedi_task_id for one in jumbos if one.alive)
        return [one.panda_id for one in jumbos if one.alive]

    def _own(
        self, one: SetConsumer, of: LockedSet, held: Mapping[int, consumer_ends.ConsumerRanges]
    ) -> ConsumerFacts:
        ranges = held.get(one.panda_id)
        facts = ConsumerFacts(
            status=one.status,
            result=one.pilot_result,
            kill_code=one.kill_code,
            error_code=one.error_code,
            error_diag=one.error_diag,
            dispatched=one.lock_seq > 0,
            got=ranges.got if ranges else 0,
            made=ranges.made if ranges else 0,
            merge=of.merge_status,
            clone=bool(of.clone),
            free=one.error_code in NOBODYS_FAULT
            and one.free_in_row < self.knobs.attempts.most_free,
        )
        if not of.clone:
            return facts
        late = of.merge_status not in ("waiting", "failed", "cancelled")
        if late or self._counting.get(of.jobset_id, one.panda_id) != one.panda_id:
            return facts._replace(kill_code=facts.kill_code or "jc_unlock")
        if facts.result == "finished":
            diag = "Its outputs could not be stored."
            return facts._replace(result="failed", error_code="stageout_failed", error_diag=diag)
        return facts

    def _with_set(
        self, facts: ConsumerFacts, of: LockedSet, alive: int, panda_id: int = 0
    ) -> ConsumerFacts:
        ranges = self._ranges.get(of.jobset_id) or SetRanges(of.jobset_id, 0, 0, None, 0, 0)
        return facts._replace(
            left=ranges.left,
            used_up=0 if of.partial else ranges.used_up,
            done=ranges.done,
            spent=panda_id in (ranges.last_tried_by or ()),
            busy=ranges.busy,
            alive=alive,
            jumbo=self._jumbos[of.jedi_task_id],
            attempts=of.attempts_left,
            online=bool(self._near[of.jobset_id]),
        )

    def _return_ranges(
        self,
        sets: Mapping[int, LockedSet],
        ended: Sequence[SetConsumer],
        own: Mapping[int, ConsumerFacts],
    ) -> None:
        back, gone, failed = [], [], []
        for one in ended:
            of, facts = sets[one.jobset_id], own[one.panda_id]
            lives = of.merge_status == "waiting"
            killed = holds("cancelled !killed", facts) and not of.keeps_events
            if of.keeps_events and holds("set_failed", facts):
                continue  # the next job set takes over what is done
            if not lives or killed:
                gone.append(RangeOwner(of.jedi_task_id, one.panda_id, lives))
            else:
                spares = of.spares_attempts or facts.free
                back.append(RangeOwner(of.jedi_task_id, one.panda_id, spares))
            if lives and not one.judged:
                failed.append(RangeOwner(of.jedi_task_id, one.panda_id, of.partial))
        consumer_ends.give_back(self.tx, back)
        consumer_ends.discard(self.tx, gone)
        consumer_ends.retry_failed(self.tx, failed)

    # ------------------------------------------------------------------------------- consumers

    def _end_consumers(
        self,
        verdicts: Sequence[tuple[SetConsumer, ConsumerVerdict]],
        looked_at: Mapping[int, ReportedJob],
        unstored: Collection[int],
    ) -> None:
        merging, ends, without = [], [], []
        for one, v in verdicts:
            if v.target == "merging":
                merging.append(JobMove(one.panda_id, v.target, v.code, v.reason, one.lock_seq))
                if one.panda_id in unstored:
                    logs = [f.lfn for f in looked_at[one.panda_id].files if f.type == "log"]
                    without += [(one.panda_id, one.lock_seq, lfn) for lfn in logs]
            elif v.target:
                source = "user" if v.target == "cancelled" else "jedi"
                ends.append(JobEnd(one.panda_id, v.target, v.code, v.reason, one.lock_seq, source))
        job_ends.leave_out(self.tx, without)
        jobs.move_jobs(self.tx, merging, self.agent, ["holding"])
        job_ends.end_jobs(self.tx, ends, self.agent, ["holding"])
        words = {one.panda_id: v.substatus for one, v in verdicts}
        consumer_ends.note_substates(self.tx, words)
        consumer_ends.note_settled(self.tx, [one.panda_id for one, _ in verdicts])

    # ------------------------------------------------------------------------------- steps

    def _steps(
        self,
        sets: Mapping[int, LockedSet],
        consumers: Sequence[SetConsumer],
        verdicts: Sequence[tuple[SetConsumer, ConsumerVerdict]],
        facts: Mapping[int, ConsumerFacts],
    ) -> list[NextStep]:
        """Steps of the sets: each consumer may be followed by one; a set ends, or is merged, once,
        as the last of its consumers says."""
        found: list[NextStep] = []
        for one, v in verdicts:
            known = facts[one.panda_id]
            cost = costs_attempt(known)
            others = sets[one.jobset_id].clone and known.alive  # they are tries enough
            step: SetStep = "none" if others and v.step == "retry" else v.step
            kill = kills.kill(one.kill_code)
            relation = kill.relation if kill else "retry"
            free = one.free_in_row + 1 if known.free and not known.made else 0
            found.append(
                NextStep(
                    one.jobset_id,
                    step,
                    v.step_code,
                    v.step_reason,
                    one.site,
                    one.panda_id,
                    known.made > 0,
                    cost,
                    relation,
                    free,
                )
            )
        served = {one.jobset_id for one in consumers if not one.settled}
        for of in sets.values():
            if of.jobset_id not in served and not of.ended:
                found.append(NextStep(of.jobset_id, *self._next_step(of)))
        return _once(found)

    def _next_step(self, of: LockedSet) -> tuple[SetStep, str, str]:
        """The next step of a set without an ended consumer."""
        none = ConsumerFacts(status="closed", result=None, dispatched=False, merge=of.merge_status)
        return next_step(self._with_set(none, of, 0))

    def _take(
        self,
        sets: Mapping[int, LockedSet],
        steps: Sequence[NextStep],
        alive: Sequence[SetConsumer],
    ) -> None:
        self._add_consumers(sets, [one for one in steps if one.step == "retry"])
        self._merge(sets, [one.jobset_id for one in steps if one.step == "merge"])
        ends = [
            JobEnd(
                sets[one.jobset_id].merge_panda_id,
                "failed" if one.step == "fail" else "cancelled",
                one.code,
                one.reason,
                None,
                "jedi" if one.step == "fail" else "user",
            )
            for one in steps
            if one.step in ("fail", "cancel")
        ]
        job_ends.end_jobs(self.tx, ends, self.agent, ["waiting"])
        self._dismiss([one for one in alive if self._is_unused(one)], "es_unused", "es_unused")

    def _is_unused(self, one: SetConsumer) -> bool:
        """No pilot has the consumer, and no range is left for it."""
        ranges = self._ranges.get(one.jobset_id)
        return one.status in states.JOB_QUEUED and (ranges is None or not ranges.left)

    def _add_consumers(self, sets: Mapping[int, LockedSet], steps: Sequence[NextStep]) -> None:
        """One more consumer for each. A job set counts those that follow others; where these were
        of use, or no pilot had them, that is no attempt used up."""
        wanted: list[NewConsumer] = []
        failing: dict[int, list[str]] = defaultdict(list)
        for one in steps:
            if one.site and not one.progress:
                failing[one.jobset_id].append(one.site)
        held, readers = self._storage([one.jobset_id for one in steps])
        free: Counter[int] = Counter()
        for one in steps:
            places, pieces = self._near[one.jobset_id], held[one.jobset_id]
            if not sets[one.jobset_id].clone:  # a copy leaves no pieces
                places = set_sites.joining(places, pieces, readers)
            lost = failing[one.jobset_id]
            if site := set_sites.next_site(places, one.site, one.progress, lost):
                wanted.append(
                    NewConsumer(
                        one.jobset_id,
                        site,
                        after=one.after,
                        relation=one.relation,
                        free_in_row=one.free_in_row,
                    )
                )
                pieces.update(place.endpoint for place in places if place.site == site)
                free[one.jobset_id] += one.after is not None and not one.cost
        set_ends.give_attempts(self.tx, free)
        added = job_sets.add_consumers(self.tx, wanted, self.agent)
        self.served |= {one.jedi_task_id for one in added}

    def _storage(
        self, jobset_ids: Sequence[int]
    ) -> tuple[dict[int, Counter[str]], set_sites.Readers]:
        """The pieces of job sets by endpoint, and what online sites read of these endpoints, and of
        those of sites for next consumers."""
        held: dict[int, Counter[str]] = defaultdict(Counter)
        for one in set_ends.HELD.rows(self.tx, ids=jobset_ids) if jobset_ids else ():
            held[one.jobset_id][one.endpoint] = one.pieces
        places = {place.endpoint for one in jobset_ids for place in self._near[one]}
        return held, set_ends.readers(self.tx, places.union(*held.values())) if jobset_ids else []

    def _merge(self, sets: Mapping[int, LockedSet], jobset_ids: Sequence[int]) -> None:
        """Note the sets whose merge jobs may start: the broker chooses first, without these locks.
        Where no site can merge the pieces, note the reason."""
        if not jobset_ids:
            return
        readable = {site.jobset_id for site in set_ends.MERGE_SITES.rows(self.tx, ids=jobset_ids)}
        self.to_merge = {one: sets[one].jedi_task_id for one in jobset_ids if one in readable}
        self._wait([one for one in jobset_ids if one not in readable])

    def start_merges(self, choices: Mapping[int, PieceChoice]) -> None:
        """Start the merge jobs of sets that are still to be merged, where the broker takes them,
        else note the reason; end the consumers that nobody needs."""
        sets = {one.jobset_id: one for one in consumer_ends.lock_sets(self.tx, [*choices])}
        consumers = consumer_ends.CONSUMERS_OF.rows(self.tx, ids=list(sets))
        self._facts(sets, consumers, [])
        due = [one for one, of in sets.items() if self._next_step(of)[0] == "merge"]
        found = _by_set(set_ends.MERGE_SITES.rows(self.tx, ids=due)) if due else {}
        starts = [
            MergeStart(one, sets[one].merge_panda_id, *site)
            for one in found
            if (site := set_sites.merge_site(found[one], choices[one].weights))
        ]
        es = self.knobs.eventservice
        set_ends.start_merges(
            self.tx, starts, self.agent, es.merge_share, es.merge_priority, es.merge_memory_mb
        )
        started = {one.jobset_id for one in starts}
        for one in found.keys() - started:
            names = ", ".join(sorted({site.site for site in found[one]}))
            said = f"No site that reads its pieces takes its merge job: {names}."
            self._waits[one] = "es_merge_refused", said
        alive = [
            one
            for one in consumers
            if one.jobset_id in started and not one.settled and one.status not in states.JOB.final
        ]
        self._dismiss(alive, "es_unused", "es_killed")
        looks = [SetLook(one, False, *self._waits.get(one, ())) for one in found]
        set_ends.look_again(self.tx, looks, float(self.knobs.eventservice.retry_s))

    def _wait(self, jobset_ids: Sequence[int]) -> None:
        """No site can merge the pieces of these job sets. After some time, those that the best site
        does not read are processed again; until then, note the reason."""
        held, readers = self._storage(jobset_ids)
        wait_s = float(self.knobs.eventservice.lost_pieces_s)
        lost = {
            one: set_sites.unread(self._near[one], held[one], readers)
            for one in lost_pieces.WAITED.rows(self.tx, ids=jobset_ids, wait_s=wait_s)
        }
        self._given_back = lost_pieces.give_back_unread(self.tx, lost)
        for one in jobset_ids:
            said = f"No site that is online reads its pieces at {', '.join(held[one])}."
            self._waits[one] = "es_no_merge_site", said
        for one, n in self._given_back.items():
            said = f"Ranges processed again: {n}, with pieces at {', '.join(lost[one])}."
            self._waits[one] = "es_pieces_lost", said

    def _dismiss(self, alive: Sequence[SetConsumer], queued: str, at_site: str) -> None:
        """End consumers that their set needs no longer: those without a pilot at once, others by
        their pilots."""
        self._dismissed += alive
        waiting = [one.panda_id for one in alive if one.status in states.JOB_QUEUED]
        ends = [
            JobEnd(one, "closed", queued, "Its job set needs it no longer.", None, "jedi")
            for one in waiting
        ]
        job_ends.end_jobs(self.tx, ends, self.agent, states.JOB_QUEUED)
        consumer_ends.note_substates(self.tx, dict.fromkeys(waiting, queued))
        consumer_ends.note_settled(self.tx, waiting)
        busy = [one.panda_id for one in alive if one.status in states.JOB_AT_SITE]
        if busy:
            jobs.ASK_TO_KILL.run(self.tx, code=at_site, ids=busy)

    # ------------------------------------------------------------------------------- ends of sets

    def _close(
        self,
        sets: Mapping[int, LockedSet],
        failed: Collection[int],
        alive: Sequence[SetConsumer],
    ) -> None:
        """End the sets whose merge jobs have ended."""
        over = [
            of
            for of in sets.values()
            if not of.ended and (of.merge_status in states.JOB.final or of.jobset_id in failed)
        ]
        if not over:
            return
        merges = {
            of.jobset_id: of
            for of in consumer_ends.lock_sets(self.tx, [of.jobset_id for of in over])
        }
        waiting = [
            one
            for one in consumer_ends.CONSUMERS_OF.rows(self.tx, ids=list(merges))
            if one.status == "merging"
        ]
        ends = [self._last_words(one, merges[one.jobset_id]) for one in waiting]
        words = {one.panda_id: _LAST_WORDS[_merge_end(merges[one.jobset_id])][1] for one in waiting}
        job_ends.end_jobs(self.tx, ends, self.agent, ["merging"])
        consumer_ends.note_substates(self.tx, words)
        for merged, queued, at_site in (
            (True, "es_unused", "es_killed"),
            (False, "es_aborted", "es_aborted"),
        ):
            rest = [
                one
                for one in alive
                if one.jobset_id in merges
                and (merges[one.jobset_id].merge_status == "finished") is merged
            ]
            self._dismiss(rest, queued, at_site)
        set_ends.close_sets(
            self.tx, {one: of.merge_status == "finished" for one, of in merges.items()}
        )

    def _last_words(self, one: SetConsumer, of: LockedSet) -> JobEnd:
        end = _merge_end(of)
        code, _, sentence = _LAST_WORDS[end]
        if end == "cancelled":
            code = of.merge_code or code
        reason = sentence.format(merge=of.merge_panda_id, diag=of.merge_diag)
        source = "user" if end == "cancelled" else "jedi"
        return JobEnd(one.panda_id, end, code, reason, None, source)


def _merge_end(of: LockedSet) -> str:
    """The end of a set's last merge job: one that JEDI closed for itself has failed, one that it
    closed with its task has not."""
    closed = of.merge_status == "closed" and of.merge_code not in merge_retries.NOT_AGAIN
    return "failed" if closed else of.merge_status


def _has_ended(one: SetConsumer, looked_at: Mapping[int, ReportedJob]) -> bool:
    """Its end is not booked, and others ended it, or its pilot is through and its log stored."""
    if one.settled or one.status in states.JOB.final:
        return not one.settled
    job = None if one.held else looked_at.get(one.panda_id)
    return one.status == "holding" and job is not None and job.lock_seq == one.lock_seq


def _by_set(sites: Iterable[_Site]) -> dict[int, list[_Site]]:
    found: dict[int, list[_Site]] = defaultdict(list)
    for one in sites:
        found[one.jobset_id].append(one)
    return found


def _once(steps: Sequence[NextStep]) -> list[NextStep]:
    """All retries; of each set's other steps the last one, which then stands alone."""
    last = {one.jobset_id: one for one in steps if one.step in ("merge", "fail", "cancel")}
    return [one for one in steps if one.step == "retry" and one.jobset_id not in last] + [
        *last.values()
    ]
