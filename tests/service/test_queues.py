"""Work queues: which tasks are theirs, and what an operator may write."""

# Raw UPDATEs: criteria that the service refuses.

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text
from support.calls import call
from support.task_rows import good, put, row_of

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.model.scheduling.criteria import compile_criterion
from jedi.model.scheduling.criterion import BadCriterion
from jedi.model.scheduling.priority import task_priority
from jedi.service.queues import matching, work_queues
from jedi.service.users.roles import User, change
from jedi.taskbuffer.scheduling import task_order
from jedi.taskbuffer.scheduling.queues import COLUMNS, match, match_all
from jedi.taskbuffer.scheduling.queues import mistake as tried
from jedi.taskrefiner.agent import TaskRefiner


def taken_by(tx: Connection, name: str | None = None, **row: Any) -> str | None:
    """The name of the queue that takes a task with these columns."""
    (found,) = match(tx, [{"vo": "local", "prodsourcelabel": "user", **row}], [name])
    return None if found.queue is None else str(found.queue.queue_name)


QUEUE = "- {{queue_id: {0}, queue_name: {1}, queue_type: user, vo: local, queue_order: {2}}}\n"


@pytest.mark.usefixtures("operators")
def test_queues_are_matched_in_their_order(engine: Engine) -> None:
    with engine.begin() as tx:
        work_queues.import_queues(
            call(tx, "me"),
            QUEUE.format(1, "late", 9)
            + QUEUE.format(2, "early", 3)
            + QUEUE.format(3, "partition", 1).replace("vo:", "partitionid: -1, vo:")
            + QUEUE.format(4, "closed", 2).replace("vo:", "status: inactive, vo:"),
        )
        assert taken_by(tx, vo="local", prodsourcelabel="user") == "early"
        assert taken_by(tx, vo="atlas", prodsourcelabel="user") is None
        assert taken_by(tx, vo="local", prodsourcelabel="managed") is None
        assert taken_by(tx, "late", prodsourcelabel="managed") == "late"
        assert [taken_by(tx, one) for one in ("partition", "closed", "none")] == [None] * 3
        assert taken_by(tx, "late", vo="atlas") is None
        work_queues.import_queues(
            call(tx, "me"), QUEUE.format(1, "late", 3) + QUEUE.format(2, "early", 9)
        )
        assert taken_by(tx, vo="local", prodsourcelabel="user") == "late"


@pytest.mark.usefixtures("operators")
def test_queues_that_do_not_go_together_are_refused(engine: Engine) -> None:
    with engine.begin() as tx:
        work_queues.import_queues(call(tx, "me"), QUEUE.format(1, "one", 1))
        with pytest.raises(BadInput) as caught:
            work_queues.import_queues(
                call(tx, "me"),
                QUEUE.format(2, "one", 1)
                + QUEUE.format(3, "three", 3).replace("vo:", "partitionid: 7, vo:")
                + QUEUE.format(4, "four", 4).replace("vo:", "criteria: a = 1, vo:"),
            )
        assert len(work_queues.find(call(tx))) == 1
    found = {p.path: p.rule for p in caught.value.problems}
    assert found == {
        "one.queue_name": "queue 1 (one) has this queue_name, too",
        "one.queue_order": "queue 1 (one) has this queue_order, too",
        "three.partitionid": "no such partition",
        "four.criteria": "a is not a column of jedi_tasks",
    }


SEED = """
- {queue_id: 1, queue_name: evgensimul, queue_type: user, vo: local, queue_order: 1,
   criteria: "processingType IN (:p1,:p2)", variables: "p1:evgen,p2:simul"}
- {queue_id: 2, queue_name: group, queue_type: user, vo: local, queue_order: 2,
   criteria: "workingGroup LIKE :p1", variables: "p1:GP_%"}
- {queue_id: 3, queue_name: parts, queue_type: user, vo: local, queue_order: 3, partitionid: -1}
- {queue_id: 4, queue_name: mcore, queue_type: user, vo: local, queue_order: 4, partitionid: 3,
   criteria: "coreCount > 1 AND NOT coreCount BETWEEN 100 AND :most", variables: "most:200"}
- {queue_id: 5, queue_name: rest, queue_type: user, vo: local, queue_order: 5, partitionid: 3,
   criteria: "site IS NULL OR lower(site) = 'here'"}
"""


@pytest.mark.parametrize(
    ("row", "queue"),
    [
        ({"processingtype": "simul", "workinggroup": "GP_x"}, "evgensimul"),
        ({"processingtype": "reco", "workinggroup": "GP_x"}, "group"),
        ({"corecount": 8}, "mcore"),
        ({"corecount": 150}, "rest"),
        ({"corecount": 1, "site": "HERE"}, "rest"),
        ({"corecount": 1, "site": "THERE"}, None),
        ({"corecount": 8, "prodsourcelabel": "managed"}, None),
    ],
)
@pytest.mark.usefixtures("operators")
def test_each_task_is_taken_by_one_queue(
    engine: Engine, row: dict[str, Any], queue: str | None
) -> None:
    with engine.begin() as tx:
        work_queues.import_queues(call(tx, "me"), SEED)
        assert taken_by(tx, **row) == queue


@pytest.mark.usefixtures("operators")
def test_all_queues_whose_criteria_hold(engine: Engine) -> None:
    with engine.begin() as tx:
        work_queues.import_queues(call(tx, "me"), SEED)
        row = {"vo": "local", "prodsourcelabel": "user", "processingtype": "evgen", "corecount": 4}
        assert match_all(tx, [row, {**row, "vo": "atlas"}]) == [[1, 4, 5], []]


@pytest.mark.parametrize(
    ("criteria", "variables", "rule"),
    [
        ("1=1); drop table jedi_tasks; --", None, "comments"),
        ("1=1); drop table jedi_tasks", None, "more than one"),
        ("1=1) or (1=1", None, "not an SQL condition"),
        ("vo = 'a'; delete from jedi_tasks", None, "more than one"),
        ("vo = 'a' /* no */", None, "comments"),
        ("vo IN (SELECT vo FROM jedi_users)", None, "SELECT"),
        ("EXISTS (SELECT 1)", None, "EXISTS"),
        ("pg_sleep(10) = 'a'", None, "PG_SLEEP"),
        ("pg_terminate_backend(1)", None, "PG_TERMINATE_BACKEND"),
        ("current_user = 'postgres'", None, "CURRENT_USER"),
        ("nextval('jedi_task_id_seq') = 1", None, "NEXTVAL"),
        ("CASE WHEN vo = 'a' THEN 1 ELSE 0 END = 1", None, "CASE"),
        ("vo::int = 1", None, "CAST"),
        ("noSuchColumn = 'a'", None, "noSuchColumn is not a column"),
        ("processinType = 'a'", None, "Did you mean processingtype?"),
        ("jedi_users.role = 'operator'", None, "names a table"),
        ("rules = 'a'", None, "can't be compared"),
        ("vo = :p1", None, ":p1 has no value"),
        ("vo = ?", None, "has no value"),
        ("vo = :p1", "p1:a,p2:b", "the criteria do not use p2"),
        ("vo = :p1", "p1:a,p1:b", "p1 stands twice"),
        ("vo = :p1", "p1", "not name:value"),
        (None, "p1:a", "without criteria"),
        ("coreCount = :p1", "p1:many", "compared with a number"),
        ("coreCount = 99999999999999999999", None, "compared with a number"),
        ("coreCount = vo", None, "a value of another type"),
        ("coreCount LIKE '1%'", None, "LIKE compares text"),
        ("coreCount", None, "not allowed"),
        ("vo IN ()", None, "is never true"),
        ("vo =", None, "not an SQL condition"),
        ("taskName LIKE '\\'", None, "ends with a backslash"),
        ("taskName LIKE 'a\\\\\\'", None, "ends with a backslash"),
        ("taskName ILIKE :p1", "p1:a\\", "ends with a backslash"),
        ("taskName LIKE lower(('\\'))", None, "ends with a backslash"),
        ("taskName LIKE site", None, "a fixed pattern"),
        ("processingType = 1", None, "1 is a number, and it is compared with text"),
        ("processingType IN ('a', -2)", None, "-2 is a number, and it is compared with text"),
        ("lower(vo) = 1", None, "1 is a number"),
        ("'a' = 1", None, "1 is a number"),
        ("( '' ) = starttime", None, "starttime can't be compared"),
        ("starttime IS NULL", None, "starttime can't be compared"),
        ("starttime IN ('a')", None, "starttime can't be compared"),
        ("starttime BETWEEN 1 AND 2", None, "starttime can't be compared"),
        ("(" * 60 + "vo = 'a'" + ")" * 60, None, "nested too deeply"),
        ("NOT " * 60 + "vo = 'a'", None, "nested too deeply"),
        ("coreCount = " + "- " * 60 + "1", None, "nested too deeply"),
        ("vo = " + "lower(" * 60 + "vo" + ")" * 60, None, "nested too deeply"),
        (" OR ".join(["vo = 'a'"] * 2000), None, "join more than"),
        ("NOT vo = " * 900 + "'a'", None, "nested too deeply"),
        ("vo = 'a'" + "::text" * 5000, None, "nested too deeply"),
    ],
)
def test_a_criterion_is_a_condition_and_nothing_else(
    criteria: str | None, variables: str | None, rule: str
) -> None:
    with pytest.raises(BadCriterion) as caught:
        compile_criterion(criteria, variables, COLUMNS, "v")
    assert caught.value.remedy
    assert rule in f"{caught.value.rule}: {caught.value.remedy}"


@pytest.mark.parametrize(
    "criteria",
    [
        " AND ".join(f"taskName NOT LIKE 'a{n}%'" for n in range(100)),
        f"coreCount IN ({', '.join(str(-n) for n in range(1, 100))})",
        "vo IN (" + ", ".join(["'('", "'or'", "'not'"] * 100) + ")",
        " OR ".join(["vo = 'a'"] * 200),
    ],
    ids=range(4),
)
def test_a_long_criterion_is_not_a_deep_one(engine: Engine, criteria: str) -> None:
    with engine.begin() as tx:
        assert tried(tx, criteria, None) is None


@given(st.text(max_size=60))
def test_no_text_is_more_than_refused(criteria: str) -> None:
    try:
        found = compile_criterion(criteria, None, COLUMNS, "v")
    except BadCriterion:
        return
    assert set(found.columns) <= set(COLUMNS)


PIECES = st.sampled_from(
    [
        "taskName",
        "processingType",
        "site",
        "coreCount",
        "jediTaskID",
        "startTime",
        "rules",
        "vo",
        ":p1",
        ":p2",
        "''",
        "'\\'",
        "'%a_\\%'",
        "'x'",
        "1",
        "-1",
        "99999999999999999999",
        "1.5",
        "NULL",
        "=",
        "<>",
        "<",
        ">=",
        "LIKE",
        "NOT LIKE",
        "ILIKE",
        "IS NULL",
        "IS NOT NULL",
        "IN",
        "BETWEEN",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        "('a', 'b')",
        "(1, 2)",
        "lower(site)",
        ",",
        "~",
        "(taskName LIKE '%a%')",
        "(coreCount > 1)",
        "NOT (vo = :p1)",
        "ESCAPE '!'",
        "ANY",
        "::text",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it only reads
@given(
    st.lists(PIECES, min_size=1, max_size=9).map(" ".join),
    st.sampled_from([None, "p1:a", "p1:7", "p1:\\", "p1:a,p2:%\\", "p1:"]),
)
def test_what_is_accepted_never_fails(engine: Engine, criteria: str, variables: str | None) -> None:
    """A work queue never ends a submission with a traceback: whatever is accepted can
    be evaluated for every task."""
    with engine.begin() as tx:
        try:
            assert tried(tx, criteria, variables) is None
        except BadCriterion as bad:
            assert bad.rule and bad.remedy


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(
    "criteria",
    [
        "taskName LIKE '\\'",
        "(" * 60 + "vo = 'a'" + ")" * 60,
        "processingType = 1",
        "( '' ) = starttime",
        "NOT " * 60 + "vo = 'a'",
    ],
    ids=range(5),
)
def test_criteria_that_a_release_before_took_hold_for_no_task(
    engine: Engine, criteria: str
) -> None:
    """Such criteria are refused when defined, and where they are stored they
    hold for no task instead of stopping every submission."""
    with engine.begin() as tx:
        with pytest.raises(BadInput) as caught:
            more = f"criteria: {json.dumps(criteria)}, vo:"
            work_queues.import_queues(
                call(tx, "me"), QUEUE.format(1, "bad", 1).replace("vo:", more)
            )
        assert [p.path for p in caught.value.problems] == ["bad.criteria"]
        work_queues.import_queues(
            call(tx, "me"), QUEUE.format(1, "bad", 1) + QUEUE.format(2, "good", 2)
        )
        tx.execute(
            text("UPDATE jedi_work_queue SET criteria = :c WHERE queue_id = 1"), {"c": criteria}
        )
        assert taken_by(tx) == "good"
        assert [q.wrong is not None for q in matching.match(call(tx))] == [True, False]


@pytest.mark.usefixtures("operators")
def test_criteria_are_tried_when_they_are_imported(engine: Engine) -> None:
    """Criteria run once when they are imported or defined, under a statement timeout. A
    table that somebody keeps locked stands for a condition that takes too long."""
    entry = QUEUE.format(1, "slow", 1).replace("vo:", "criteria: coreCount > 1, vo:")
    with engine.begin() as tx:
        before = tx.scalar(text("SHOW statement_timeout"))
        with engine.begin() as other:
            other.execute(text("LOCK TABLE jedi_tasks IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(BadInput) as caught:
                work_queues.import_queues(call(tx, "me"), entry)
        (problem,) = caught.value.problems
        assert problem.path == "slow.criteria"
        assert problem.rule == "the database needs more than 2 s to try it"
        assert work_queues.find(call(tx)) == []
        assert tx.scalar(text("SHOW statement_timeout")) == before
        work_queues.import_queues(call(tx, "me"), entry)
        assert taken_by(tx, corecount=2) == "slow"


@pytest.mark.usefixtures("operators")
def test_bad_criteria_loops_and_partitions_with_criteria_are_refused(engine: Engine) -> None:
    file = "".join(
        QUEUE.format(n, name, n).replace("vo:", f"{more}, vo:")
        for n, (name, more) in enumerate(
            [
                ("drop", "criteria: '1=1); drop table jedi_tasks; --'"),
                ("self", "partitionid: 1"),
                ("ring", "partitionid: 3"),
                ("back", "partitionid: 2"),
                ("whole", "partitionid: -1, criteria: vo = 'a'"),
            ]
        )
    )
    with engine.begin() as tx, pytest.raises(BadInput) as caught:
        work_queues.import_queues(call(tx, "me"), file)
    found = {p.path: p.rule for p in caught.value.problems}
    loop = "a queue can't be its own part"
    assert found == {
        "drop.criteria": "comments are not allowed",
        "self.partitionid": loop,
        "ring.partitionid": loop,
        "back.partitionid": loop,
        "whole.criteria": "a partition has none: its sub-queues have",
    }


@pytest.mark.usefixtures("operators")
def test_a_refined_task_is_in_its_queue_and_urgent_ones_ignore_shares(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_work_queue"))
        work_queues.import_queues(call(tx, "me"), SEED)
    world.ddm.create("demo:in", "SITE_A_DATADISK", "closed")
    many, rest, nowhere, urgent = put(
        world,
        good("a:1", coreCount=8),
        good("a:2", coreCount=1),
        good("a:3", coreCount=1, site="SITE_A"),
        good("a:4", coreCount=1, processingType="urgent"),
    )
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET processingtype = 'urgent' WHERE jeditaskid = :t"),
            {"t": urgent},
        )
    assert TaskRefiner(world).run_once() == 4
    places = [
        (row_of(world, t).workqueue_id, row_of(world, t).gshare) for t in (many, rest, urgent)
    ]
    assert places == [(4, "mcore"), (5, "rest"), (5, "Express")]
    lost = row_of(world, nowhere)
    asked = "no active work queue takes the task (evgensimul, group, mcore, rest)"
    assert lost.status == "tobroken" and asked in lost.errordialog


@pytest.mark.parametrize(
    ("asked", "task_type", "gridpref", "group", "priority"),
    [
        (None, "anal", "", None, 1000),
        (950, "anal", "kp", "GP", 950),
        (950, "anal", "s", None, 1500),
        (None, "anal", "g", None, 1000),
        (None, "anal", "g", "GP", 1500),
        (1800, "anal", "sg", None, 1800),
        (300, "prod", "s", None, 300),
    ],
)
def test_priorities_of_privileged_users_jump(
    asked: int | None, task_type: str, gridpref: str, group: str | None, priority: int
) -> None:
    assert task_priority(asked, task_type, gridpref, group) == priority


@pytest.mark.usefixtures("operators")
def test_special_permissions_are_letters(engine: Engine) -> None:
    with engine.begin() as tx:
        assert change(call(tx, "me"), "anna", "production", "sk") == User(
            "anna", "production", "sk"
        )
        assert change(call(tx, "me"), "anna", None, None) == User("anna", "production", "sk")
        assert change(call(tx, "me"), "anna", "user", "") == User("anna", "user", "")
        with pytest.raises(BadInput, match="x is not a known letter"):
            change(call(tx, "me"), "anna", None, "sx")


def test_a_few_turns_are_the_first_of_all(engine: Engine) -> None:
    """Those who look no further than they must find the same tasks first."""
    with engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo) "
                "SELECT q, 'q' || q, 'user', 'local' "
                "FROM generate_series(1, 5) q"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_queue_shares (queue_id, active, allocation, usage, ratio, place, "
                "turn) SELECT q, true, 1, q, q, q, q / 2 FROM generate_series(1, 5) q"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_tasks (jeditaskid, reqid, status, currentpriority, gshare) "
                "SELECT n, n, 'ready', n * 7 % 11, 'q' || 1 + n % 6 FROM generate_series(1, 60) n"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, "
                "nfilestobeused) SELECT n, n, 's:n', 'input', 'ready', 1 "
                "FROM generate_series(1, 60) n WHERE n % 5 > 0"
            )
        )
        all_turns = [row.jedi_task_id for row in task_order.in_order(tx, 1000, [])]
        assert len(all_turns) == 48
        for few in (1, 2, 7, 20):
            found = [row.jedi_task_id for row in task_order.in_order(tx, few, [])]
            assert found == all_turns[:few]
