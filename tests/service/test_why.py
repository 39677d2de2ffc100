"""`jedi-task why`: the one thing that holds a task, as the real agents left it."""

# Raw UPDATEs: each hold is made alone, without the days, users and pilots that lead to it.

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest
from jedi_client.cli import task as cli
from sqlalchemy import text
from support.calls import call
from support.generating import catalogue, document, generate, ready, rows, use
from support.situations import make_due, set_sites
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.errors import NotFound, Unreachable
from jedi.core.holds import BY_REASON, BY_STATUS, HOLDS
from jedi.core.reasons import REASONS
from jedi.core.states import TASK_STATES
from jedi.ddm.interface import FileInfo
from jedi.jobgenerator.agent import JobGenerator
from jedi.service.jobs import job_details
from jedi.service.queues import matching
from jedi.service.queues import order as queues_order
from jedi.service.sites.changes import set_site
from jedi.service.system import retry_rules
from jedi.service.tasks import task_details
from jedi.service.tasks.why import TaskHold, why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import listener
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.sites import pilots
from jedi.taskbuffer.tasks import tasks as claims
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk


def ask(world: World, task_id: int) -> TaskHold:
    with world.engine.begin() as tx:
        return why(call(tx), task_id)


def do(world: World, statement: str, **values: object) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement), values)


def test_the_list_of_holds_is_closed() -> None:
    assert set(BY_REASON.values()) | set(BY_STATUS.values()) <= set(HOLDS)
    assert set(BY_REASON) <= set(REASONS)
    assert set(BY_STATUS) <= set(TASK_STATES)
    page = (Path(__file__).parents[2] / "docs/why.md").read_text()
    assert [f"| `{code}` | {meaning} |" in page for code, meaning in HOLDS.items()] == [True] * len(
        HOLDS
    )


def test_nobody_knows_the_task(world: World) -> None:
    with pytest.raises(NotFound):
        ask(world, 7)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("exhausted", "exhausted"),
        ("paused", "paused"),
        ("throttled", "attempts"),
        ("finishing", "command"),
        ("done", "ended"),
        ("staging", "staging"),
    ],
)
def test_some_statuses_say_it_all(world: World, status: str, code: str) -> None:
    do(
        world,
        "INSERT INTO jedi_tasks (jeditaskid, reqid, status, statechangetime, errordialog) "
        "VALUES (5, 5, :status, jedi_now(), 'as was said')",
        status=status,
    )
    found = ask(world, 5)
    assert (found.code, found.detail) == (code, "as was said")
    assert found.since is not None and found.next_try is None


def test_a_task_that_has_done_all_of_its_open_input(world: World) -> None:
    """It waits for more files, or for the end of the dataset, and for no agent."""
    do(
        world,
        "INSERT INTO jedi_tasks (jeditaskid, reqid, status, reason_code, errordialog) "
        "VALUES (5, 5, 'running', 'fed', 'The open input was looked up again.')",
    )
    assert ask(world, 5).code == "in_turn"
    do(
        world,
        "INSERT INTO jedi_datasets (jeditaskid, datasetid, datasetname, type, status, state) "
        "VALUES (5, 1, 'user.me:run7', 'input', 'running', 'open')",
    )
    found = ask(world, 5)
    assert (found.code, found.facts["open"]) == ("input", ["user.me:run7"])
    assert found.detail == (
        "Jobs follow when user.me:run7 has enough new files, or is closed (jedi dataset close)."
    )


def test_a_task_in_the_hands_of_an_agent(world: World) -> None:
    """Expected: why says which process has it; a plug-in may take a minute, and a dead worker's
    lease two."""
    (task,) = put(world, good())
    with world.engine.begin() as tx:
        [held] = claims.claim(tx, ["registered"], "vm-17", 60.0, 1)
    found = ask(world, task)
    assert (found.code, found.detail) == ("in_hand", "Process vm-17 has it.")
    with world.engine.begin() as tx:
        claims.put_off(tx, [(held.jedi_task_id, held.lock_seq)])
    assert ask(world, task).code == "in_turn"


def test_trouble_with_data_management(world: World) -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            raise Unreachable("The storage does not answer.")

    (task,) = put(world, good())
    assert ask(world, task).code == "in_turn"
    use(world, Broken())
    TaskRefiner(world).run_once()
    found = ask(world, task)
    assert (found.code, found.status) == ("refining", "pending")
    assert "does not answer" in found.detail


def test_no_site_and_the_near_misses(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document(ramCount=3000))
    set_sites(world, "SITE_A", maxrss=2700, status="online")
    set_sites(world, "SITE_B", maxrss=1000, status="paused")
    generate(world)
    found = ask(world, task)
    assert (found.code, found.facts["reason_code"]) == ("brokerage", "no_site_fits")
    assert found.next_try is not None and found.brokerage is not None
    funnel = {one.code: (one.sites, one.first, one.only) for one in found.brokerage.funnel}
    assert funnel["little_memory"] == (2, 1, 1)
    memory = next(one for one in found.brokerage.funnel if one.code == "little_memory")
    assert memory.nearest == "slots of 2700 MB, the jobs need 3000 MB" and memory.lasting
    (miss,) = found.brokerage.near_misses
    assert (miss.code, miss.sites, miss.gap, miss.unit) == ("little_memory", ("SITE_A",), 300, "MB")
    assert miss.sentence == (
        "1 site lacks only 300 MB (little_memory: slots of 2700 MB, the jobs need 3000 MB)"
    )
    do(world, "UPDATE jedi_broker_reasons SET limits = array_replace(limits, 3000, 900703)")
    found = ask(world, task)
    assert found.brokerage is not None
    (miss,) = found.brokerage.near_misses
    assert miss.sentence == (
        "1 site lacks only 898003 MB (little_memory: slots of 2700 MB, the jobs need 900703 MB)"
    )


def test_near_misses_say_how_many_cores_the_task_wants(world: World) -> None:
    """Sites of one core a slot are refused for the 64 that the task wants, not for a second one
    (those with two take it as before: test_broker.py)."""
    catalogue(world, in_=2)
    (task,) = ready(world, document(coreCount=64))
    set_sites(world, corecount=1)
    generate(world)
    found = ask(world, task)
    assert found.brokerage is not None
    (miss,) = found.brokerage.near_misses
    told = "(few_cores: slots of 1 core, the jobs take 64)"
    assert miss.sentence == f"2 sites lack only 63 cores {told}"


@pytest.mark.parametrize("status", ["prepared", "finishing"])
def test_an_agent_that_fails_is_no_command(world: World, status: str) -> None:
    """What was prepared is taken in a moment, unless the agent that takes it fails."""
    do(
        world,
        "INSERT INTO jedi_tasks (jeditaskid, reqid, status, statechangetime, errordialog, "
        "reason_code) VALUES (5, 5, :status, jedi_now(), 'It broke.', 'internal_error'), "
        "(6, 6, 'prepared', jedi_now(), NULL, 'all_processed')",
        status=status,
    )
    assert (ask(world, 5).code, ask(world, 5).detail) == ("problem", "It broke.")
    assert ask(world, 6).code == "in_turn"


def test_a_problem_that_stays_is_one_hold_with_a_remedy(world: World) -> None:
    """An output with a name of its own that is an input's too: no try can heal that. `why`, `show`
    and `list` agree on the beginning, however often it is tried; `why` says what helps."""
    catalogue(world, in_=[FileInfo("result", 10, "00000001")])
    keys = document()
    keys["jobParameters"][-1]["sourceName"] = "result"
    (task,) = ready(world, keys)
    generate(world)
    first = ask(world, task)
    assert (first.code, first.remedy) == ("problem", REASONS["output_is_input"])
    count = "SELECT count(*) AS n FROM jedi_tasks_statuslog"
    logged = rows(world, count)[0].n
    for _ in range(3):
        do(world, "UPDATE jedi_tasks SET next_run_at = jedi_now() - interval '1 s'")
        assert walk(world, DOGS["pending"]) == Counts(hold_over=1)
        generate(world)
        found = ask(world, task)
        assert (found.status, found.since) == ("pending", first.since)
        with world.engine.begin() as tx:
            shown, (listed,) = task_details.show(call(tx), task).task, task_details.find(tx)
        assert shown.state_change_time == listed.state_change_time == first.since
        assert rows(world, count)[0].n == logged


@pytest.mark.usefixtures("operators")
def test_a_changed_site_is_tried_at_once(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document(ramCount=3000))
    set_sites(world, maxrss=1000)
    generate(world)
    assert ask(world, task).code == "brokerage"
    for change, status in (("maxrss=1000", "pending"), ("maxrss=4000", "ready")):
        with world.engine.begin() as tx:
            set_site(call(tx, "me"), "SITE_A", [change], None)
        walk(world, DOGS["pending"])
        assert ask(world, task).status == status


def test_jobs_that_became_too_large_for_their_site(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document(ramCount=3000, nFilesPerJob=1))
    generate(world)
    found = ask(world, task)
    assert (found.code, found.facts["activated"], found.facts["too_large"]) == ("slots", 2, 0)
    assert found.detail.endswith("jobs wait at SITE_A.")
    do(
        world,
        "UPDATE jedi_jobs SET memory_mb = 1000 WHERE pandaid = (SELECT min(pandaid) "
        "FROM jedi_jobs)",
    )
    set_sites(world, maxrss=2500)
    found = ask(world, task)
    assert (found.code, found.facts["too_large"]) == ("slots", 1)
    assert "1 of them ask for more cores, memory or disk than any slot there has" in found.detail
    assert found.detail.endswith("given back after 12 h (timeout.analysis_s).")
    do(world, "UPDATE jedi_tasks SET prodsourcelabel = 'managed'")
    assert ask(world, task).detail.endswith("given back after 48 h (timeout.activated_s).")


def test_a_job_that_is_held_in_its_slot(world: World) -> None:
    """docs/pgi.md: "`jedi-task why` reports a hold if nothing else holds the task": with two jobs
    at a site and one of them held, the other one runs; with both held, a person holds the task."""
    catalogue(world, in_=2)
    (task,) = ready(world, document(nFilesPerJob=1))
    generate(world)
    do(world, "UPDATE jedi_jobs SET status = 'sent'")
    do(world, "UPDATE jedi_jobs SET status = 'running'")
    with world.engine.begin() as tx:
        knobs.put(tx, "hold.sites", "SITE_A,SITE_B", "ops")
    first, second = (row.pandaid for row in rows(world, "SELECT pandaid FROM jedi_jobs ORDER BY 1"))
    for job, expected in ((first, ("running", 1, 1)), (second, ("jobs_held", 0, 2))):
        with world.engine.begin() as tx:
            job_details.hold(tx, "anna", [job], None)
        found = ask(world, task)
        assert (found.code, found.facts["at_site"], found.facts["held"]) == expected
    assert found.detail == "2 jobs are held by a person."


def test_sites_where_there_never_was_a_pilot(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = ready(world, document())
    set_sites(world, lastpilot=None)
    generate(world)
    found = ask(world, task).brokerage
    assert found is not None
    assert [one.nearest for one in found.funnel] == ["no pilot was ever seen"]
    (miss,) = found.near_misses
    told = "2 sites: only no_pilots stands in the way (no pilot was ever seen)"
    assert (miss.gap, miss.sentence) == (None, told)


def test_a_throttled_queue(world: World) -> None:
    catalogue(world, in_=4)
    with world.engine.begin() as tx:
        knobs.put(tx, "throttler.queue_cap", 3, "test")
    first, second = ready(world, document(nFilesPerJob=1), document(nFilesPerJob=1, output="a:two"))
    generate(world)
    make_due(world)
    found = ask(world, second)
    assert (found.code, found.facts["queued"]) == ("throttler", 3)
    assert "3 jobs wait" in found.detail
    assert ask(world, first).code == "slots"
    do(world, "UPDATE jedi_sites SET lastpilot = jedi_now() - interval '1 day'")
    assert ask(world, first).code == "pilots"
    set_sites(world, "SITE_A", submitter="local", nslots=0)
    assert ask(world, first).detail.endswith("SITE_A: no pilots are sent: status online, nslots 0")
    set_sites(world, "SITE_A", submitter="none")
    with world.engine.begin() as tx:
        pilots.note_trouble(tx, "SITE_A", {"reason": "sbatch: no such partition"})
    told = ask(world, first).detail
    assert "jobs wait at SITE_A. The last pilot asked at " in told
    assert told.endswith(" UTC. SITE_A: sbatch: no such partition")
    do(world, "UPDATE jedi_jobs SET status = 'throttled' WHERE jeditaskid = :t", t=first)
    assert ask(world, first).code == "user_cap"
    do(world, "UPDATE jedi_jobs SET status = 'activated' WHERE jeditaskid = :t", t=first)
    do(world, "UPDATE jedi_jobs SET status = 'sent' WHERE jeditaskid = :t", t=first)
    assert ask(world, first).code == "running"
    do(world, "UPDATE jedi_jobs SET status = 'holding' WHERE jeditaskid = :t", t=first)
    assert ask(world, first).code == "transfers"
    do(world, "UPDATE jedi_jobs SET status = 'merging' WHERE jeditaskid = :t", t=first)
    assert ask(world, first).code == "merging"
    do(
        world,
        "UPDATE jedi_tasks SET reason_code = 'generation_failed' WHERE jeditaskid = :t",
        t=first,
    )
    assert ask(world, first).code == "problem"


@pytest.mark.usefixtures("operators")
def test_the_task_is_changed_before_what_failed_is_tried_again(world: World) -> None:
    catalogue(world, in_=4)
    (task,) = ready(world, document(nMaxFilesPerJob=4))
    with world.engine.begin() as tx:
        retry_rules.import_rules(
            call(tx, "me"),
            "- {rule_id: 2, error_code: workdir_limit, action: reduce_input_per_job}",
        )
    assert generate(world) == 1
    jobs = "SELECT pandaid, n_inputs FROM jedi_jobs WHERE status = 'activated'"
    (job,) = rows(world, jobs)
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(job.pandaid, "failed", "workdir_limit", "Oh.")], "me")
    assert generate(world) == 0
    found = ask(world, task)
    assert (found.code, found.facts) == ("retry_rule", {"rules": [2]})
    assert found.detail == "Rules that hold for its failed jobs: 2."
    with closing(listener(world.engine)) as ear:
        walk(world, DOGS["retries"])
        heard = {one.payload for one in ear.notifies(timeout=10, stop_after=1)}
    assert heard & JobGenerator.wakes
    assert ask(world, task).code == "in_turn"
    assert generate(world) == 1
    assert [one.n_inputs for one in rows(world, jobs)] == [2, 2]


def test_more_memory_for_an_input_is_not_waited_for(world: World) -> None:
    catalogue(world, in_=1)
    ready(world, document())
    generate(world)
    (job,) = rows(world, "SELECT pandaid FROM jedi_jobs")
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(job.pandaid, "failed", "memory_limit", "Oh.")], "me")
    assert generate(world) == 1


def test_turns_follow_shares_and_the_list_says_why(world: World) -> None:
    catalogue(world, in_=1)
    do(world, "UPDATE jedi_work_queue SET queue_share = 50 WHERE queue_id = 1")
    do(
        world,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, "
        "status, queue_share, criteria) VALUES (3, 'anna', 'user', 'local', 0, 'active', 50, "
        "'campaign = ''two'''), (4, 'free', 'user', 'local', -1, 'active', NULL, "
        "'campaign = ''three''')",
    )
    busy, idle, urgent, low = ready(
        world,
        document(output="a:1"),
        document(output="a:2", campaign="two"),
        document(output="a:3", campaign="two", gshare="Express"),
        document(output="a:4", campaign="two"),
    )
    do(
        world,
        "INSERT INTO job_stats VALUES ('SITE_A', 1, 'user', 'SCORE', 'running', 8, 8), "
        "('SITE_A', 3, 'anna', 'SCORE', 'running', 2, 2)",
    )
    do(world, "UPDATE jedi_tasks SET currentpriority = 900 WHERE jeditaskid = :t", t=low)
    walk(world, DOGS["shares"])
    with world.engine.begin() as tx:
        knobs.put(tx, "jobgen.batch", 1, "test")
        turns = queues_order.by_turn(call(tx), 10)
        shares = {one.queue_name: one for one in queues_order.find_shares(call(tx))}
    assert [one.jedi_task_id for one in turns] == [urgent, idle, low, busy]
    assert [one.reason.split(";")[0] for one in turns] == [
        "urgent: before all shares",
        "its share uses 40 % of its allocation",
        "its share uses 40 % of its allocation",
        "its share uses 160 % of its allocation",
    ]
    assert (shares["user"].allocation, shares["user"].usage) == (5, 8)
    assert shares["free"].allocation is None
    held = ask(world, busy)
    assert (held.code, held.facts["ahead"], held.facts["ratio"]) == ("share", 3, 1.6)
    order = []
    for _ in turns:
        assert generate(world) == 1
        made = rows(world, "SELECT DISTINCT jeditaskid AS task FROM jedi_jobs ORDER BY 1")
        order += [row.task for row in made if row.task not in order]
    assert order == [one.jedi_task_id for one in turns]


def test_a_task_that_is_not_in_line_has_no_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tasks are alive: "1000 tasks come first" was the default, not a count. With a full list
    of two, two others come first at least."""
    catalogue(world, in_=1)
    four = ready(world, *(document(output=f"a:{n}") for n in range(4)))
    do(world, "UPDATE jedi_tasks SET gshare = NULL WHERE jeditaskid = :t", t=four[-1])
    held = ask(world, four[-1])
    assert (held.code, "ahead" in held.facts) == ("in_turn", False)
    assert "tasks come first" not in held.detail
    assert ask(world, four[2]).detail == "2 tasks come first, all of them in the next cycle."
    monkeypatch.setattr("jedi.service.tasks.why.MOST_AHEAD", 2)
    held = ask(world, four[2])
    assert (held.facts["ahead"], held.detail[:32]) == (2, "At least 2 tasks come first, all")


def test_users_take_turns_where_a_queue_has_no_share(world: World) -> None:
    catalogue(world, in_=1)
    first, second, third, low, jump, jump_too = ready(
        world, *(document(output=f"a:{n}") for n in range(6))
    )
    for task, user, priority in (
        (first, "anna", 1000),
        (second, "anna", 990),
        (third, "anna", 980),
        (low, "bob", 900),
        (jump, "eve", 1500),
        (jump_too, "eve", 1501),
    ):
        do(
            world,
            "UPDATE jedi_tasks SET username = :u, currentpriority = :p WHERE jeditaskid = :t",
            u=user,
            p=priority,
            t=task,
        )

    def order() -> list[int]:
        with world.engine.begin() as tx:
            return [one.jedi_task_id for one in queues_order.by_turn(call(tx), 10)]

    assert order() == [jump_too, jump, first, low, second, third]
    with world.engine.begin() as tx:
        knobs.put(tx, "jobgen.batch", 4, "test")
    world.refresh()
    assert generate(world) == 4
    assert order() == [second, third]
    do(world, "UPDATE jedi_tasks SET gshare = 'Express'")
    do(world, "UPDATE jedi_tasks SET username = 'bob' WHERE jeditaskid = :t", t=third)
    assert order() == [second, third]


def test_priority_alone_counts_where_a_queue_has_a_share(world: World) -> None:
    catalogue(world, in_=1)
    do(world, "UPDATE jedi_work_queue SET queue_share = 50")
    first, second, low = ready(world, *(document(output=f"a:{n}") for n in range(3)))
    do(
        world,
        "UPDATE jedi_tasks SET username = 'bob', currentpriority = 900 WHERE jeditaskid = :t",
        t=low,
    )
    walk(world, DOGS["shares"])
    with world.engine.begin() as tx:
        assert [one.jedi_task_id for one in queues_order.by_turn(call(tx), 10)] == [
            first,
            second,
            low,
        ]


def test_queues_are_tested_against_the_tasks_there_are(world: World) -> None:
    do(
        world,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, "
        "status, criteria, variables) VALUES (3, 'mine', 'user', 'local', 0, 'active', "
        r"'userName = \:me', 'me\:anna')",
    )
    task, other = put(world, good(), good("a:2"))
    do(world, "UPDATE jedi_tasks SET username = 'bob' WHERE jeditaskid = :t", t=other)
    with world.engine.begin() as tx:
        found = {one.queue_name: (one.tasks, one.holds_for) for one in matching.match(call(tx))}
        assert found == {"mine": (1, 1), "user": (1, 2), "managed": (0, 0)}
        mine = matching.match(call(tx), task)[0]
        assert (mine.criteria, mine.tasks, mine.examples) == ("userName = 'anna'", 1, [task])
        with pytest.raises(NotFound):
            matching.match(call(tx), 99)


@pytest.mark.usefixtures("service")
def test_people_and_programs_read_it(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", world.settings.database_url or "")
    catalogue(world, in_=2)
    held, waits = ready(world, document(ramCount=3000), document(output="a:2", nFilesPerJob=1))
    set_sites(world, maxrss=2700)

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["jedi-task", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    turns = json.loads(run("list", "--order", "generation", "--json"))
    assert [one["jedi_task_id"] for one in turns] == [held, waits]
    assert "not shared" in run("list", "--order", "generation")
    generate(world)
    told = run("why", str(held))
    assert "held by   brokerage: No site can run its jobs." in told
    near = "2 sites lack only 300 MB (little_memory: slots of 2700 MB, the jobs need 3000 MB)"
    assert f"near miss {near}: SITE_A, SITE_B" in told
    found = json.loads(run("why", str(held), "--json"))
    assert {"code", "since", "next_try", "facts"} <= found.keys()
    assert found["brokerage"]["near_misses"][0]["gap"] == 300
