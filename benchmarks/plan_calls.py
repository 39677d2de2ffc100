"""Statements that functions complete, or whose binds need values of their own; and those without a
plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, event, text

from benchmarks.jobs_world import ENDPOINT
from benchmarks.plan_values import Subject, Values
from jedi.model.queries import EVERY_TASK, JobQuery
from jedi.taskbuffer.housekeeping import checks, retention
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import generation, merging, orders
from jedi.taskbuffer.reports import found_jobs, job_listings, owned_jobs, task_groups
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.tasks import commands, ending, family, herds, preprocessing

WITHOUT_PLAN = {
    "CREATE": "it makes a temporary table",
    "LOCK": "it locks a table",
    "SET": "it changes a setting",
    "VACUUM": "it runs outside transactions",
}
"""The first words of statements that PostgreSQL executes without a plan."""


def _all(*values: object) -> Values:
    return lambda s: [values[n % len(values)] for n in range(s.rows)]


def _json(**row: object) -> Values:
    return lambda _s: [json.dumps(row)]


PILOTS = 20
"""Pilots that are answered together."""
KNOWN: Mapping[str, Values] = {
    **{
        f"events.dispatch._HAND_OUT.{one}": lambda s: range(min(s.rows, PILOTS))
        for one in ("in_pools", "pools")
    },
    **{
        f"events.dispatch._HAND_OUT.{one}": lambda s: s.sets[:PILOTS]
        for one in ("lows", "highs", "jobsets", "files")
    },
    "events.dispatch._HAND_OUT.ids": lambda s: s.consumers[:PILOTS],
    "events.dispatch._HAND_OUT.requests": lambda s: [f"new{n}" for n in range(PILOTS)],
    "events.jumbo_jobs._STAGE.ids": lambda s: s.consumers[:5],
    "db.engine._NOTIFY.channel": _all("bench"),
    "events.consumer_ends._SUBSTATES.words": _all("es_wait"),
    "events.kept_ranges._TAKE_OVER.news": lambda s: s.sets,
    "events.kept_ranges._TAKE_OVER.olds": lambda s: s.sets,
    **{
        f"ends.merge_retries.{one}.news": lambda s: [90_000_000 + n for n in range(s.rows)]
        for one in ("_JOBS", "_FILES", "_LOGS")
    },
    "housekeeping.agents.REST.agents": lambda s: [f"agent{n}" for n in range(s.rows)],
    "inputs.catalogue._PUT_DATASET.name": _all("bench:new"),
    "jobs.one_job._HOLD.kind": _all("user_request"),
    **{f"jobs.jobs.{one}.targets": _all("holding") for one in ("_MOVE", "_MOVE_ON")},
    "ends.job_ends._SETTLE.ids": lambda s: [
        s.world.first_live - s.world.first_live % 20 + 26 + 20 * n for n in range(s.rows)
    ],
    "jobs.orders._IDS.ids": lambda s: s.tasks,
    "jobs.retry_rules._PUT.rows": _json(rule_id=1, active=True, action="no_retry"),
    "jobs.timeouts._OVERDUE.t2_ratio": _all(0.5),
    "jobs.retry_rules._NOTE.rules": _all(2),
    "reports.unit_states._STATES.lows": _all(0),
    **{f"reports.unit_states._STATES.{one}": _all(None) for one in ("bounds", "statuses")},
    "reports.unit_states._STATES.counted": _all(False),
    "reports.unit_states._STATES.units": lambda _s: None,
    "registries.drafts.CREATE.kind": _all("job"),
    "registries.drafts.CREATE.first": _all(1_000_000),
    "registries.subjobs.PUT.statuses": _all("running"),
    "scheduling.queues._PUT.rows": _json(queue_id=1, queue_name="new", queue_type="user", vo="vo"),
    "sites.pilots._INSERT_PILOTS.ids": lambda s: [f"new{n}" for n in range(s.rows)],
    "sites.pilots._INSERT_PILOTS.hashes": lambda s: [f"new{n}" for n in range(s.rows)],
    "sites.sites._INSERT_RELATIONS.rows": _json(
        site="BENCH0",
        ddm_endpoint=ENDPOINT,
        scope="new",
        is_local=True,
        roles="read",
        order_read=1,
        order_write=1,
        default_read=True,
        default_write=True,
    ),
    **{
        f"sites.sites._PUT_LINKS.{one}": lambda s: [f"BENCH{n}" for n in range(s.rows)]
        for one in ("src", "dst", "keys")
    },
    "tasks.herds.BEGIN.after": _all("refine"),
    "tasks.herds.BEGIN.task": _all(90_000_000),
    "tasks.herds.BEGIN.origin": _all(90_000_000),
    **{
        f"tasks.new_tasks._INSERT.{one}": _all(None)
        for one in ("task_id", "req_id", "parent_id", "idempotency_key")
    },
    **{f"tasks.new_tasks.{one}.params": _all("{}") for one in ("_INSERT", "_PUT_PARAMS")},
    "tasks.resplits._ADD.origins": lambda s: [90_000_000 + n for n in range(s.rows)],
    "tasks.resplits._ADD.news": lambda s: [1_000_000 + n for n in range(s.rows)],
    "tasks.resplits._MARK.states": _all("completed"),
    "tasks.scouting._SET_RULES.rules": _all("{}"),
    **{f"users.access.{one}.scope": _all("all") for one in ("_PUT", "_PUT_LINK")},
    "users.users._PUT_NOTICES.about": _all("tasks"),
    "users.users.PUT_USER.role": _all("user"),
}
"""Values of binds whose column or name gives none, or one that a constraint refuses."""

Call = Callable[[Connection, Subject], object]
_PATCH = {f"BENCH{n}": {"comment": "bench"} for n in range(5)}


def _map(tx: Connection, subject: Subject) -> None:
    """The next files of the large task, with their jobs to be."""
    generation._MAP.run(tx)
    tx.execute(
        text(
            "INSERT INTO jedi_gen_map SELECT fileid, 90000000 + fileid, 1 FROM "
            "jedi_dataset_contents WHERE datasetid = :id AND ready ORDER BY fileid "
            "LIMIT :most"
        ),
        {"id": subject.world.inputs, "most": subject.rows},
    )


def _use(tx: Connection, subject: Subject) -> None:
    """These files go to their jobs, as the JobGenerator lets them."""
    ranges = generation._RANGE.format(n=0)
    tx.execute(
        text(generation._USE.format(ranges=ranges)),
        {
            "endpoints": [ENDPOINT],
            "paths": "{}",
            "d0": [subject.world.inputs],
            "a0": 0,
            "b0": 10**12,
        },
    )


def _forget(tx: Connection, _subject: Subject) -> None:
    for rule in retention.RULES:
        retention.forget(tx, rule, 0, 1000)


def _listed(tx: Connection, subject: Subject) -> None:
    for statuses in (None, ["failed"], ["running"]):
        job_listings.jobs(tx, subject.task, JobQuery(statuses), 1000)


def _owned(tx: Connection, _subject: Subject) -> None:
    for statuses in (None, ["failed"], ["running"]):
        owned_jobs.owned(tx, "user1", JobQuery(statuses), 1000)


def _claimed(tx: Connection, _subject: Subject) -> None:
    """As agents claim tasks."""
    lease: tuple[str, float, int] = "bench", 60, 100
    herds.claim(tx, *lease)
    ending.claim_final(tx, *lease)
    commands.claim_commanded(tx, *lease)
    family.claim_orphans(tx, *lease)
    preprocessing.claim_through(tx, *lease)
    datasets.claim_to_feed(tx, *lease, 3600)
    merging.claim(tx, *lease, 10, 10)
    orders.claim(tx, *lease)


CALLS: Mapping[str, Call] = {
    "housekeeping.checks._EXAMINE": lambda tx, _: checks.examine(tx),
    "housekeeping.retention._DELETE": _forget,
    "jobs.generation._USE": _use,
    "reports.found_jobs._BOTH": lambda tx, _: found_jobs.search(
        tx, 10**12, 0, JobQuery(["failed"]), 1000
    ),
    "reports.job_listings._JOBS": _listed,
    "reports.owned_jobs._OWNED": _owned,
    "reports.task_groups._GROUPS": lambda tx, _: task_groups.counts(tx, "user", EVERY_TASK),
    "scheduling.queues._MATCH": lambda tx, _: queues.match_all(tx, [{"vo": "local"}] * 100),
    "scheduling.queues._TRIAL": lambda tx, _: queues.mistake(tx, "vo = 'local'", None),
    "sites.sites._MERGE": lambda tx, _: sites.put_sites(tx, _PATCH),
    "tasks.tasks._CLAIM": _claimed,
}
"""Functions that complete a template, by its name."""


BEFORE: Mapping[str, Call] = {"jobs.generation._USE": _map}
"""Rows that a call finds in temporary tables."""
LEFT_OUT = {
    "sites.sites._CREATE": "see sites.sites._MERGE",
    "tasks.tasks._CHOSEN": "see tasks.tasks._CLAIM",
}
"""Reasons for single statements."""


def sent(tx: Connection, call: Call, subject: Subject) -> list[tuple[str, dict[str, Any]]]:
    """The statements that a call sends, as psycopg takes them, with their values; its changes are
    rolled back."""
    found: list[tuple[str, dict[str, Any]]] = []

    def note(_connection: Any, _cursor: Any, sql: str, given: Any, *_: Any) -> None:
        found.append((sql, dict(given or {})))

    engine: Engine = tx.engine
    event.listen(engine, "before_cursor_execute", note)
    trial = tx.begin_nested()
    try:
        call(tx, subject)
    finally:
        event.remove(engine, "before_cursor_execute", note)
        trial.rollback()
    return found
