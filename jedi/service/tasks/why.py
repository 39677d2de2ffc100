"""`jedi-task why`: the reason that holds a task now, and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Any

from jedi_client.times import written
from sqlalchemy import Connection

from jedi.brokerage.filters import Filter
from jedi.brokerage.vocabulary import FILTERS
from jedi.core.errors import NotFound
from jedi.core.holds import BY_REASON, BY_STATUS, FAULTS, HOLDS
from jedi.core.knobs import Knobs
from jedi.core.reasons import REASONS
from jedi.eventservice.jumbo import DECISIONS
from jedi.eventservice.jumbo_jobs import JumboNeed, JumboPlace, refusal
from jedi.eventservice.jumbo_places import ranked
from jedi.model.splitting.split_rules import SCOUTED
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.events import jumbo, jumbo_jobs
from jedi.taskbuffer.jobs import orders
from jedi.taskbuffer.reports import why_facts
from jedi.taskbuffer.reports.why_facts import LastDecision, RefusedSite, TaskFacts
from jedi.taskbuffer.scheduling import queues, task_order, throttling
from jedi.taskbuffer.scheduling.task_order import Stopped
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.throttler.decide import Skip, Throttle

MOST_AHEAD = 1000
WORKING = ("ready", "scouting", "running", "topreprocess", "preprocessing")


@dataclass(frozen=True, slots=True)
class RefusingCriterion:
    """A criterion that refused sites: how many, for how many of them it is the first reason, for
    how many the only one, and what its nearest site lacks, in words."""

    code: str
    sites: int
    first: int
    only: int
    nearest: str
    remedy: str
    lasting: bool


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Sites that lack one thing only: `gap` is what the nearest lacks in `unit`, if it has one."""

    code: str
    sites: tuple[str, ...]
    gap: float | None
    unit: str
    sentence: str


@dataclass(frozen=True, slots=True)
class BrokerOutcome:
    """A broker's last decision: the sites that it chose, those that its criteria refused, and the
    near misses. `dataset`: its dataset if each is brokered alone, else empty."""

    decision_id: int
    broker: str
    time: datetime
    chosen: tuple[str, ...]
    funnel: tuple[RefusingCriterion, ...]
    near_misses: tuple[NearMiss, ...]
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class TaskHold:
    """The reason that holds a task (a code of core/holds.py), its start, and the next try.
    `sentence` is the code in words, `detail` the case in words, `facts` the case in figures;
    `remedy`: what helps, if it does not pass by itself."""

    jedi_task_id: int
    status: str
    code: str
    sentence: str
    detail: str
    since: datetime | None
    next_try: datetime | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    brokerage: BrokerOutcome | None = None
    remedy: str | None = None


@operation("task.why", "GET", "/v1/tasks/{jedi_task_id}/why", ANYBODY, heavy=True)
def why(call: Call, jedi_task_id: TaskId) -> TaskHold:
    """Show the reason why a task waits, or why it ended.

    NotFound if there is none.
    """
    settings = call.knobs
    row = why_facts.TASK.row(call.tx, task=jedi_task_id, unit_s=settings.throttle.unit_s)
    if row is None:
        raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)
    return why_of(call.tx, row, settings)


def why_of(tx: Connection, row: TaskFacts, settings: Knobs) -> TaskHold:
    """Return the reason that holds a task with these facts."""
    jedi_task_id = row.jedi_task_id
    code, detail, found = _hold(tx, row, settings)
    if code == "in_turn" and row.locked_by:
        code, detail = "in_hand", f"Process {row.locked_by} has it."
    behind = why_facts.background(tx, jedi_task_id)
    if code == "merging" and _no_merge_site(behind.decision):
        detail, found = f"{detail} No site takes their merge jobs.", {**found, "merge": "no_site"}
    if code != "ended" and (jumbo := behind.jumbo):
        detail = f"{detail or ''} Jumbo jobs: {jumbo.sentence}".strip()
        found = {**found, "jumbo": jumbo.code}
    if code != "ended" and row.event_service and (end := behind.end):
        detail = f"{detail or ''} Consumer {end.panda_id} ({end.code}): {end.sentence}".strip()
        found = {**found, "consumer": end.panda_id, "consumer_end": end.code}
    if code != "ended" and row.event_service and (s := behind.job_set):
        detail = f"{detail or ''} Job set {s.jobset_id}: {s.sentence}".strip()
        found = {**found, "jobset": s.jobset_id, "jobset_waits": s.code}
    if row.event_service and (n := row.files_awaited):
        said = f"Input files that wait for a site: {n}; jumbo jobs may process their events."
        detail = f"{detail or ''} {said}".strip()
        found = {**found, "files_waiting_co_jumbo": n}
    if code != "ended" and row.event_service and (lack := _jumbo_lack(tx, jedi_task_id, settings)):
        detail = f"{detail or ''} {' '.join(lack.values())}".strip()
        found = {**found, "jumbo_lack": [*lack]}
    helps = REASONS.get(row.reason_code or "") if code == "problem" else None
    times = [row.rest_over or row.next_run_at, row.next_period if code == "period" else None]
    ahead = min((at for at in times if at and at > row.now), default=None)
    return TaskHold(
        jedi_task_id=jedi_task_id,
        status=row.status,
        code=code,
        sentence=HOLDS[code],
        detail=detail or "",
        since=_since(row, code),
        next_try=None if code in ("ended", "running") else ahead,
        facts=found,
        brokerage=explain(behind.decision, behind.refused) if behind.decision else None,
        remedy=helps,
    )


def _no_merge_site(last: LastDecision | None) -> bool:
    """Return True if the last decision was about merge jobs, and found no site."""
    merging = last is not None and ((last.need or {}).get("request") or {}).get("merging")
    return bool(merging and last and not last.chosen)


def _jumbo_lack(tx: Connection, jedi_task_id: int, settings: Knobs) -> dict[str, str]:
    """The reasons why a task with ranges gets no jumbo job: codes and sentences; empty: it may have
    one, or none at all."""
    sites = jumbo.JUMBO_SITES.rows(tx)
    most = max((one.min_events for one in sites), default=0)
    found: dict[str, str] = {}
    for task in jumbo_jobs.lacking(tx, [jedi_task_id], most):
        if task.living:
            continue
        if not sites:
            return {"jumbo_no_site": DECISIONS["jumbo_no_site"]}
        if task.idle >= settings.eventservice.jumbo_tries:
            said = f"Its last {task.idle} jumbo jobs processed nothing: it gets no other."
            return {"jumbo_tries": said}
        joins = jumbo_jobs.mergeable(tx, [task.jobset_id], [one.site for one in sites])
        [row] = orders.read_tasks(tx, [jedi_task_id])
        names = {one.site for one in sites}
        troubles = ranked(row, names, (), snapshots.load(tx), settings).troubles
        need = JumboNeed(task.release, task.events, task.cores, task.memory_mb)
        for one in sites:
            joined = (task.jobset_id, one.site) in joins
            place = JumboPlace(*one, joined, troubles.get(one.site, ""))
            if (refused := refusal(place, need)) is None:
                return {}
            found.setdefault(*refused)
    return found


def _since(row: TaskFacts, code: str) -> datetime | None:
    if code in ("running", "transfers", "merging", "user_cap", "jobs_held", "pilots", "slots"):
        return row.jobs_since
    return row.state_change_time


HoldFacts = tuple[str, str | None, Mapping[str, Any]]


def _hold(tx: Connection, row: TaskFacts, settings: Knobs) -> HoldFacts:
    """The first thing that the task waits for, in the order in which it would meet them."""
    facts = {"reason_code": row.reason_code, **(row.reason_facts or {})}
    if row.status in BY_STATUS:
        if row.reason_code in FAULTS and BY_STATUS[row.status] in ("command", "in_turn"):
            return "problem", row.reason, facts
        return BY_STATUS[row.status], row.reason, facts
    if row.reason_code == "generation_failed":  # its jobs may need those that can't be made
        return "problem", row.reason, facts
    if row.at_site + row.activated + row.throttled + row.moving + row.merging + row.held:
        return _jobs(row, settings)
    if row.status in WORKING and row.files_waiting:
        return _generation(tx, row, settings)
    if row.status in WORKING and row.next_period and row.next_period > row.now:
        return "period", None, {"next_period": row.next_period}
    if row.reason_code == "scouts_generated":
        return "scouts", "While the input is open, more scouts are waited for.", facts
    if (code := row.reason_code or "") in BY_REASON:
        return BY_REASON[code], row.reason, facts
    if row.status in WORKING and row.open_inputs:
        names = ", ".join(row.open_inputs)
        detail = (
            f"Jobs follow when {names} has enough new files, or is closed (jedi dataset close)."
        )
        return "input", detail, facts | {"open": row.open_inputs}
    return "problem" if row.status == "pending" else "in_turn", row.reason, facts


def _jobs(row: TaskFacts, settings: Knobs) -> HoldFacts:
    """A task with jobs waits for them."""
    names = ("at_site", "activated", "throttled", "moving", "merging", "held", "files_waiting")
    found = {name: getattr(row, name) for name in names}
    if row.at_site:
        scouting = row.status == "scouting" and row.scout != str(SCOUTED)
        return ("scouts" if scouting else "running"), f"{row.at_site} jobs are at sites.", found
    if row.activated:
        fresh = timedelta(seconds=settings.broker.pilot_fresh_s)
        seen = row.last_pilot is not None and row.now - row.last_pilot < fresh
        where = ", ".join(row.sites or ())
        found |= {"sites": row.sites, "last_pilot": row.last_pilot, "too_large": row.too_large}
        last = (
            f"The last pilot asked at {written(row.last_pilot)}."
            if (row.last_pilot and not seen)
            else ""
        )
        sentences = [f"{row.activated} jobs wait at {where}.", last, *_too_large(row, settings)]
        detail = " ".join(filter(None, [*sentences, *(row.troubles or ())]))
        return ("slots" if seen else "pilots"), detail, found
    if row.moving:
        later = f" Some can't be stored for now: {row.recoverable}" if row.recoverable else ""
        return "transfers", f"Files of {row.moving} jobs are on their way.{later}", found
    if row.throttled:
        return "user_cap", f"{row.throttled} jobs are kept from pilots.", found
    if row.merging:
        return "merging", f"{row.merging} jobs wait until their outputs are merged.", found
    return "jobs_held", f"{row.held} jobs are held by a person.", found


def _too_large(row: TaskFacts, settings: Knobs) -> list[str]:
    """Return a sentence about jobs that no slot of their site can take since the site changed."""
    if not row.too_large:
        return []
    knob = f"timeout.{'activated' if row.label in PRODUCTION_LABELS else 'analysis'}_s"
    return [
        f"{row.too_large} of them ask for more cores, memory or disk than any slot there has; "
        f"they are given back after {settings[knob] / 3600:g} h ({knob})."
    ]


def _generation(tx: Connection, row: TaskFacts, settings: Knobs) -> HoldFacts:
    """A task with files and without jobs waits for retry rules, the throttler or its turn."""
    if row.open_rules:
        numbers = ", ".join(map(str, row.open_rules))
        detail = f"Rules that hold for its failed jobs: {numbers}."
        return "retry_rule", detail, {"rules": row.open_rules}
    throttle = throttle_of(tx, settings)
    shape = None if row.event_service else row.resource_type or ""
    gate = throttle.decide(row.workqueue_id or 0, shape)
    if isinstance(gate, Skip):
        return "throttler", gate.reason, gate.facts
    if gate.least is not None and (row.priority is None or row.priority < gate.least):
        detail = f"Only tasks of priority {gate.least} or more get jobs in its work queue."
        return "throttler", detail, {"least": gate.least, "priority": row.priority}
    stopped = [Stopped(*one) for one in throttle.full()]
    listed = task_order.in_order(tx, MOST_AHEAD, stopped)
    order = [one.jedi_task_id for one in listed if not one.stopped]
    known = row.jedi_task_id in order
    found: dict[str, Any] = {"share": row.gshare, "priority": row.priority}
    if row.shared:
        found |= {"usage": row.usage, "allocation": row.allocation, "ratio": row.ratio}
    if known or len(listed) == MOST_AHEAD:
        found["ahead"] = order.index(row.jedi_task_id) if known else len(order)
    if row.next_run_at and row.next_run_at > row.now:
        return BY_REASON.get(row.reason_code or "", "in_turn"), row.reason, found
    if "ahead" not in found:
        return "in_turn", "It is not in the list of tasks that want jobs at this moment.", found
    first = f"{'' if known else 'At least '}{found['ahead']} tasks come first"
    if found["ahead"] >= settings.jobgen.batch:
        return "share", f"{first}.", found
    return "in_turn", f"{first}, all of them in the next cycle.", found


def throttle_of(tx: Connection, settings: Knobs) -> Throttle:
    """The throttler as it decides at this moment."""
    urgency = partial(throttling.urgency, tx, timed=settings.throttler.enough_work_s > 0)
    return Throttle.of(queues.ALL_QUEUES.rows(tx), throttling.LOADS.rows(tx), settings, urgency)


def explain(decision: LastDecision, refused: Sequence[RefusedSite]) -> BrokerOutcome:
    """A decision for people: how many sites each criterion refused, and who came near."""
    codes = Counter(code for site in refused for code in site.codes)
    first = Counter(site.codes[0] for site in refused)
    only = Counter(site.codes[0] for site in refused if len(site.codes) == 1)
    return BrokerOutcome(
        decision_id=decision.decision_id,
        broker=decision.broker,
        time=decision.creation_time,
        chosen=tuple(decision.chosen),
        funnel=tuple(
            _refused(code, sites, first[code], only[code], refused)
            for code, sites in sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        near_misses=tuple(
            _near(code, [site for site in refused if site.codes == [code]])
            for code, _ in only.most_common()
        ),
        dataset=(decision.need or {}).get("dataset", ""),
    )


def _refused(
    code: str, sites: int, first: int, only: int, refused: Sequence[RefusedSite]
) -> RefusingCriterion:
    found = FILTERS.get(code)
    nearest = min((_figures(site, code) for site in refused if code in site.codes), key=_gap)
    return RefusingCriterion(
        code,
        sites,
        first,
        only,
        _say(found, nearest),
        found.remedy if found else "",
        found.lasting if found else True,
    )


def _near(code: str, sites: Sequence[RefusedSite]) -> NearMiss:
    """Sites that lack one thing only, with what the nearest has and what the task wants."""
    figures, found = min((_figures(site, code) for site in sites), key=_gap), FILTERS.get(code)
    nearest, shortfall = _gap(figures), _say(found, figures)
    gap = nearest if nearest < inf else None
    why = f"{code}: {shortfall}" if shortfall else code
    unit = found.unit if found else ""
    count = f"{len(sites)} site{'s' if len(sites) > 1 else ''}"
    if gap and unit:
        lacks = f"{gap:.0f}" if gap >= 1000 else f"{gap:.4g}"
        sentence = f"{count} lack{'s' if len(sites) == 1 else ''} only {lacks} {unit} ({why})"
    else:
        sentence = f"{count}: only {code} stands in the way{f' ({shortfall})' if shortfall else ''}"
    return NearMiss(code, tuple(site.site for site in sites), gap, unit, sentence)


def _figures(site: RefusedSite, code: str) -> tuple[float, float]:
    """The figure of a criterion at a site that it refused, and its limit; NULL stands for
    infinity."""
    at = site.codes.index(code)
    observed, limit = site.observed[at], site.limits[at]
    return inf if observed is None else observed, inf if limit is None else limit


def _gap(pair: tuple[float, float]) -> float:
    return abs(pair[0] - pair[1])


def _say(found: Filter | None, figures: tuple[float, float]) -> str:
    return found.sentence(*figures) if found else ""
