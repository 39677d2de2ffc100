"""Days of simulated grids: what policy does to shares, outages, scouts, transfers and time-outs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine
from typer.testing import CliRunner

from jedi.cli import simulate as cli
from jedi.cli.jedi import app
from jedi.core import clock
from jedi.core.errors import BadInput
from jedi.host.home import Home
from jedi.simulator.measure import Curve, Curves, SimulationOutcome, measure
from jedi.simulator.random_streams import RandomStreams
from jedi.simulator.record import Record, Sample
from jedi.simulator.report import differences, write_tables
from jedi.simulator.run import simulate, simulate_in
from jedi.simulator.scenario import Scenario, read_scenario
from jedi.taskbuffer.housekeeping.simulation import JobLife, TaskLife
from jedi.taskbuffer.jobs.timeouts import TIMEOUTS

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulations"
TINY = """
about: a few jobs
days: 0.5
tick_s: 1800
sites:
  - {site: GREEN, count: 2, slots: 3, endpoints: [DISK],
     failures: [{kind: error, probability: 0.3}]}
tasks:
  - {name: some, count: 2, files: 6, every_h: 6, run_s: 3600, parameters: {skipScout: true}}
"""


def example(name: str, factor: float = 1.0, **changes: Any) -> Scenario:
    """One of the examples, smaller."""
    scenario = read_scenario((EXAMPLES / f"{name}.yaml").read_text())
    return scenario.smaller(factor).model_copy(update=changes)


def sound(record: Record) -> SimulationOutcome:
    """What a run shows; its records agree and no agent had trouble."""
    assert (record.wrong, dict(record.troubles)) == ([], {})
    assert clock.turned() is None
    return measure(record)


# ----------------------------------------------------------------------------------- the scenario


def problems(text: str) -> dict[str, tuple[str, str]]:
    with pytest.raises(BadInput) as caught:
        read_scenario(text)
    return {p.path: (p.rule, p.remedy) for p in caught.value.problems}


def test_all_mistakes_of_a_scenario_are_told_at_once() -> None:
    found = problems("""
days: 1
tick: 60
knobs: {jobgen.bach: 1, agent.poll_s: often}
sites:
  - {site: A, slots: -1, endpoints: [DISK]}
  - {site: B, slots: 1}
  - {site: C, slots: 1, endpoints: []}
  - {site: GREEN, slots: 1, endpoints: [DISK], reads: [GREE], attributes: {teir: T1}}
  - {site: GREEN, slots: 1, endpoints: [DISK],
     failures: [{kind: error, probability: 0.7}, {kind: never_ends, probability: 0.7}]}
tasks:
  - {name: t, files: 1, run_s: 1, at: [GREN]}
  - {name: u, files: 1, run_s: 1, parameters: {nFilesPerJbo: 3}}
  - {name: w, files: 0, run_s: 1}
  - {name: w, files: 1, run_s: 1}
outages:
  - {site: X*, from_h: 1, hours: 1}
  - {site: B, from_h: 1, hours: 1}
commands:
  - {tasks: v, at_h: 1, command: pause}
  - {tasks: u, at_h: 1, command: stop}
  - {tasks: w, at_h: 1, command: kill}
""")
    assert found == {
        "scenario.tick": ("no such key", "Did you mean tick_s?"),
        "scenario.knobs.jobgen.bach": ("there is no such knob", "Did you mean jobgen.batch?"),
        "scenario.knobs.agent.poll_s": ("agent.poll_s is a number [s]", "Give a value like 2.0"),
        "scenario.sites[0].slots": ("must be at least 0", "It means: slots: jobs at once"),
        "scenario.sites[1].endpoints": ("is mandatory", "Add it"),
        "scenario.sites[2].endpoints": (
            "must have 1 or more values",
            "It means: at least one name; the endpoint is called SITE_NAME",
        ),
        "scenario.sites[3].reads": ("no site here has this name", "Did you mean GREEN?"),
        "scenario.sites[3].attributes.teir": ("no such key", "Did you mean tier?"),
        "scenario.sites[4]": ("scenario.sites[3] has this site too", "Rename one"),
        "scenario.sites[4].failures": (
            "their probabilities are more than 1 together",
            "Lower some of them",
        ),
        "scenario.tasks[0].at": ("no site here has this name", "Did you mean GREEN?"),
        "scenario.tasks[1].parameters.nFilesPerJbo": ("no such key", "Did you mean nFilesPerJob?"),
        "scenario.commands[0].tasks": ("no task here has this name", "There are t, u, w"),
        "scenario.commands[1].command": (
            "must be 'kill', 'finish', 'retry', 'pause', 'resume', 'avalanche', 'hold' or "
            "'release'",
            "It means: the command; hold and release go to jobs of the tasks that have not run",
        ),
        "scenario.tasks[2].files": (
            "must be at least 1",
            "It means: input files; without `at`: jobs",
        ),
        "scenario.tasks[3].name": ("several tasks have it", "Rename them"),
        "scenario.outages[0].site": ("no site here has this name", "There are A, B, C, GREEN"),
    }


def test_a_scenario_is_a_mapping() -> None:
    assert [*problems("[]")] == ["scenario"]


# ------------------------------------------------------------------------------------ simulations


@pytest.mark.long
def test_shares_become_what_is_allocated_and_no_task_starves(engine: Engine) -> None:
    record = simulate_in(engine, example("shares", 0.2, days=1, tick_s=1800))
    outcome = sound(record)
    shares = {one.share: one for one in outcome.shares}
    for share, part in (("large", 0.75), ("small", 0.25)):
        assert shares[share].allocation == pytest.approx(part, abs=0.01)
        assert shares[share].usage == pytest.approx(part, rel=0.1)
    assert outcome.utilisation > 0.8
    served = {row.jedi_task_id for row in record.jobs if row.start_time}
    noon = record.scenario.start + timedelta(hours=12)
    assert {row.jedi_task_id for row in record.tasks if row.creation_date < noon} <= served


@pytest.mark.long
def test_an_outage_drains_and_recovers(engine: Engine) -> None:
    record = simulate_in(engine, example("outage", 0.2, days=1.25, tick_s=1200))
    curves = sound(record).curves
    used = {
        site: dict(zip(curve.hours, known(curve), strict=True))
        for site, curve in curves.utilisation.items()
    }
    for site in ("GREEN_1", "RED"):
        assert used[site][11] > 0.5
        assert max(used[site][hour] for hour in (22, 23, 24)) > 0.5
    lost = {row.site for row in record.jobs if row.error_code == "lost_site"}
    assert lost == {"GREEN_1"}
    begin = record.scenario.start + timedelta(hours=12)
    down = [
        row
        for row in record.jobs
        if row.site in ("GREEN_1", "RED")
        and row.start_time
        and begin < row.start_time < begin + timedelta(hours=8)
    ]
    assert down == []
    early = [row for row in record.tasks if row.creation_date < begin]
    assert {row.status for row in early} == {"done"}


def test_scouts_go_first_and_the_others_follow(engine: Engine) -> None:
    record = simulate_in(engine, example("scouts", 0.2, days=0.75, tick_s=1800))
    outcome = sound(record)
    assert sum(outcome.tasks.values()) == outcome.tasks["done"] + outcome.tasks.get("finished", 0)
    waiting = known(outcome.curves.waiting["user"])
    assert waiting.index(max(waiting)) > 0
    assert outcome.ends.keys() == {"payload_exit"}


@pytest.mark.long
def test_stuck_transfers_are_given_up_and_tried_again(engine: Engine) -> None:
    outcome = sound(simulate_in(engine, example("transfers", 0.2, tick_s=7200)))
    assert outcome.ends["transfer_timeout"] > 10
    assert outcome.jobs["finished"] > 50


LIMITS_H = {
    "merge": ("not_taken", 4.0),
    "merge_left": ("given_back", 0.0),
    "dark": ("lost_site", 2.0),
    "sent": ("sent_timeout", 0.5),
    "silent": ("lost_heartbeat", 2.0),
    "holding": ("holding_timeout", 3.0),
    "urgent": ("idle_site", 4.0),
    "t1": ("t1_timeout", 6.0),
    "t2": ("t2_timeout", 6.0),
    "analysis": ("rebrokered", 12.0),
    "pending": ("setup_timeout", 1.0),
    "waiting": ("waiting_timeout", 0.5),
    "defined": ("defined_timeout", 4.0),
    "held": ("hold_timeout", 2.0),
    "throttled": ("throttled_timeout", 168.0),
    "assigned": ("assigned_timeout", 12.0),
    "quick": ("transfer_timeout", 24.0),
    "activated": ("activated_timeout", 48.0),
    "slow": ("transfer_timeout", 96.0),
    "running": ("running_timeout", 504.0),
    "running_t1": ("running_timeout", 504.0),
    "running_t2": ("running_timeout", 504.0),
}
"""By task of the example: why its jobs end, and after how long."""


@pytest.mark.long
def test_every_timeout_fires_in_its_day(engine: Engine) -> None:
    record = simulate_in(engine, example("timeouts", tick_s=14_000))
    assert sound(record).ends.keys() == {rule.code for rule in TIMEOUTS}
    names = {row.jedi_task_id: row.task_name.partition(".")[0] for row in record.tasks}
    ends = {}
    for row in record.jobs:
        if not row.error_code:  # in the end it found a slot
            continue
        took_h = (row.state_change_time - row.creation_time) / timedelta(hours=1)
        ends[names[row.jedi_task_id]] = (row.error_code, took_h)
    assert {name: code for name, (code, _) in ends.items()} == {
        name: code for name, (code, _) in LIMITS_H.items()
    }
    for name, (_, limit_h) in LIMITS_H.items():
        assert limit_h < ends[name][1] < limit_h + 24, name


@pytest.mark.long
def test_people_hold_jobs_and_kill_tasks(engine: Engine) -> None:
    scenario = read_scenario("""
days: 0.5
tick_s: 1800
knobs: {hold.sites: GREEN, hold.in_pilot_s: 86400}
sites:
  - {site: GREEN, slots: 9, endpoints: [DISK]}
tasks:
  - {name: held, files: 2, run_s: 7200, spread: 0, parameters: {skipScout: true}}
  - {name: free, files: 2, run_s: 7200, spread: 0, parameters: {skipScout: true}}
  - {name: killed, files: 2, run_s: 86400, parameters: {skipScout: true}}
commands:
  - {tasks: held, at_h: 1, command: hold}
  - {tasks: held, at_h: 4, command: release}
  - {tasks: killed, at_h: 3, command: kill}
  - {tasks: killed, at_h: 9, command: resume}
""")
    record = simulate_in(engine, scenario)
    names = {row.jedi_task_id: row.task_name.partition(".")[0] for row in record.tasks}
    lives: list[Any] = [*record.jobs]
    ends = {names[row.jedi_task_id]: (row.status, row.end_time - row.start_time) for row in lives}
    assert ends["free"] == ("finished", timedelta(hours=2))
    assert ends["held"] == ("finished", timedelta(hours=5))
    assert ends["killed"][0] == "cancelled"
    assert record.wrong == []
    [(trouble, times)] = record.troubles.items()
    assert trouble.startswith("resume: A task that is aborted can't be resumed")
    assert times == 1


@pytest.mark.long
def test_production_begins_on_a_fresh_grid_and_after_idle_hours(engine: Engine) -> None:
    """docs/reference/brokerage.md#inactive-queues: where nothing waited nothing could start, so
    that none did is no reason against a site. Without that scouts, which go only where jobs start,
    never begin anywhere."""
    scenario = read_scenario(
        FRESH_GRID
        + "".join(
            f"  - {{name: {name}, files: 20, run_s: 1800, at_h: {at_h}, parameters: {{"
            "prodSourceLabel: managed, taskType: prod, taskPriority: 500}}\n"
            for name, at_h in PRODUCTION.items()
        )
    )
    record = simulate_in(engine, scenario)
    sound(record)
    assert {row.task_name[:-2]: row.status for row in record.tasks} == dict.fromkeys(
        PRODUCTION, "done"
    )
    for row in record.tasks:
        jobs = [job for job in record.jobs if job.jedi_task_id == row.jedi_task_id]
        starts = [job.start_time for job in jobs if job.start_time]
        took = min(starts) - record.scenario.start
        assert took < timedelta(hours=PRODUCTION[row.task_name[:-2]] + 1), row.task_name


PRODUCTION = {"first": 0.5, "second": 0.5, "soon": 1.0, "later": 16.0}
"""Tasks, and when they come, in hours."""
FRESH_GRID = """
days: 1
tick_s: 600
knobs: {broker.local: full, taskbroker.room_tb: 0, broker.min_output_mb: 0}
queues:
  - {queue_id: 1, queue_name: managed, queue_type: managed, vo: local}
sites:
  - {site: GREEN, count: 3, slots: 9, endpoints: [DISK], attributes: {role: nucleus}}
tasks:
"""


# -------------------------------------------------------------------------------------- the result


@pytest.mark.long
def test_two_runs_with_one_seed_are_equal_and_another_seed_differs(tmp_path: Path) -> None:
    runs = [sound(simulate(read_scenario(TINY + f"seed: {seed}"))) for seed in (1, 1, 2)]
    tables = [
        {path.name: path.read_bytes() for path in write_tables(run, tmp_path / str(number))}
        for number, run in enumerate(runs)
    ]
    assert runs[0] == runs[1]
    assert tables[0] == tables[1]
    assert tables[0].keys() == {"sites.csv", "shares.csv", "tasks.csv", "events.csv", "curves.csv"}
    assert tables[0] != tables[2]
    assert runs[0].jobs["finished"] >= 12
    assert [d for d in differences(runs[0], runs[1]) if d.change] == []


def test_what_holds_tasks_in_the_end_is_told() -> None:
    scenario = read_scenario(TINY)
    task: dict[str, Any] = {
        "jedi_task_id": 1,
        "task_name": "t",
        "share": "user",
        "creation_date": scenario.start,
        "end_time": None,
    }
    reasons = {"assigning": "no_nucleus", "running": "generated", "pending": "queue_full"}
    tasks = [TaskLife(**task, status=s, reason_code=code) for s, code in reasons.items()]
    assert measure(Record(scenario, tasks=tasks)).held == {"no_nucleus": 1, "queue_full": 1}


# ------------------------------------------------------------------------------ what is measured

DAY = """
days: 1
queues:
  - {queue_id: 1, queue_name: large, queue_type: managed, vo: local, queue_share: 3}
  - {queue_id: 2, queue_name: small, queue_type: managed, vo: local, queue_share: 1}
sites:
  - {site: BLUE, slots: 2, endpoints: [DISK], attributes: {corecount: 8}}
  - {site: GREEN, slots: 4, endpoints: [DISK]}
tasks:
  - {name: t, files: 1, run_s: 1}
"""


def lived(panda_id: int, made: float, begins: float | None, ends: float, **other: Any) -> Any:
    """A job, with the hours of its life."""
    start = read_scenario(DAY).start

    def at(hour: float | None) -> Any:
        return None if hour is None else start + timedelta(hours=hour)

    row = {
        "panda_id": panda_id,
        "jedi_task_id": 1,
        "site": "GREEN",
        "queue": "large",
        "share": "large",
        "gshare": "large",
        "status": "finished",
        "error_code": None,
        "cores": 1,
        "creation_time": at(made),
        "start_time": at(begins),
        "end_time": at(ends),
        "state_change_time": at(ends),
        "kind": "normal",
    }
    return JobLife(**{**row, **other})


def known(curve: Curve) -> list[float]:
    return [value for value in curve.values if value is not None]


def test_there_is_one_utilisation() -> None:
    """Cores in use / cores of the slots. BLUE has 2 slots of 8 cores: 8 cores for 12 of 24 h are
    (8 x 12) / (16 x 24) = 25 %. GREEN has 4 slots of a core: 2 jobs for 6 h each are 12 / 96 =
    12.5 %. All: (96 + 12) / (384 + 96) = 22.5 %. Each curve's mean is the figure of the table."""
    jobs = [
        lived(1, 0, 0, 12, site="BLUE", cores=8),
        lived(2, 0, 2.25, 8.25),
        lived(3, 0, 18.5, 24.5),
        lived(4, 0, None, 3, status="closed"),
    ]
    jobs[2] = jobs[2]._replace(end_time=jobs[2].end_time - timedelta(minutes=30))
    jobs.append(lived(5, 0, 23.5, 30))
    outcome = measure(Record(read_scenario(DAY), jobs=jobs))
    blue, green = outcome.sites
    assert (blue.cores, blue.utilisation) == (16, 0.25)
    assert (green.cores, green.utilisation) == (4, 0.125)
    assert outcome.utilisation == pytest.approx(0.225)
    means = {
        name: sum(known(curve)) / len(curve.values)
        for name, curve in outcome.curves.utilisation.items()
    }
    assert means == pytest.approx({"all": 0.225, "BLUE": 0.25, "GREEN": 0.125}, abs=1e-4)
    assert outcome.curves.utilisation["BLUE"].values[11:13] == [0.5, 0.0]


def test_a_lost_job_does_not_use_its_slot_until_that_is_noticed() -> None:
    """All pilots of GREEN are gone after 3 h, which is noticed after 5 h: 3 of 4 x 24 core-hours,
    and no curve above its cores when others have the slot meanwhile."""
    jobs = [lived(n, 0, 0, 5, status="failed") for n in range(4)]
    jobs += [lived(n, 0, 3, 5) for n in range(4, 8)]
    lost = Record(read_scenario(DAY), jobs=jobs, left=dict.fromkeys(range(4), 3.0))
    outcome = measure(lost)
    assert outcome.sites[1].utilisation == pytest.approx(20 / 96, abs=1e-4)
    assert max(known(outcome.curves.utilisation["GREEN"])) == 1.0


def test_a_curve_goes_from_the_first_job_of_its_share_to_the_end_of_the_last() -> None:
    """No zeros before a share exists or after it ended."""
    small = {"queue": "small", "share": "small", "gshare": "small", "jedi_task_id": 2}
    jobs = [lived(1, 0, 1, 24), lived(2, 6.5, 8, 10.25, **small), lived(3, 7, 9, 10, **small)]
    samples = [Sample(at, "large", 4.0, True) for at in (5, 7, 9, 11)]
    samples += [Sample(at, "small", float(at in (7, 9)), at in (7, 9)) for at in (5, 7, 9, 11)]
    outcome = measure(Record(read_scenario(DAY), jobs=jobs, samples=samples))
    curves = outcome.curves
    assert curves.waiting["small"].hours == [6.5, 7.0, 8.0, 9.0, 10.0, 10.25]
    assert curves.waiting["small"].values == [1.0, 2.0, 1.0, 0.0, 0.0, 0.0]
    assert curves.usage["small"].hours == [7.0, 8.0, 9.0, 10.0, 10.25]
    assert curves.usage["small"].values == pytest.approx([0, 0, 1 / 2, 2 / 3, 1 / 2], abs=1e-4)
    assert curves.waiting["large"].hours[-1] == curves.usage["large"].hours[-1] == 24.0
    assert curves.allocation["small"] == Curve([7.0, 9.0], [0.2, 0.2])
    assert curves.allocation["large"].hours == [5.0, 7.0, 9.0, 11.0]


def test_a_curve_is_broken_where_its_share_has_no_job(tmp_path: Path) -> None:
    jobs = [lived(1, 2, 2, 3.5), lived(2, 6, 7, 8)]
    outcome = measure(Record(read_scenario(DAY), jobs=jobs, samples=[Sample(1, "large", 1, True)]))
    waiting, usage = (getattr(outcome.curves, one)["large"] for one in ("waiting", "usage"))
    assert waiting == Curve([2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0, 0, None, None, 1, 0, 0])
    assert usage == Curve([3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1, 1, None, None, 0, 1])
    write_tables(outcome, tmp_path)
    assert "usage,large,5.0" not in (tmp_path / "curves.csv").read_text()


def test_boosted_jobs_and_tasks_are_shown_as_such() -> None:
    """The dog `boost` gives a task the share Express after 10 h. The job that waits since 9 h
    belongs to its own share until then, the one that is made after it never does. A task that
    came as an urgent one is no boosted one."""
    hurried = {"jedi_task_id": 2, "gshare": "Express"}
    urgent = {"jedi_task_id": 3, "gshare": "Express", "share": "Express"}
    jobs = [
        lived(1, 0, 1, 24),
        lived(2, 9, 12, 13, **hurried),
        lived(3, 11, 14, 15, **hurried),
        lived(4, 2, 4, 6, **hurried),
        lived(5, 3, 4, 5, **urgent),
    ]
    jobs[3] = jobs[3]._replace(gshare="large")
    start = read_scenario(DAY).start
    tasks = [
        TaskLife(number, str(number), "done", share, None, start, start + timedelta(hours=15))
        for number, share in ((1, "large"), (2, "large"), (3, "Express"))
    ]
    outcome = measure(Record(read_scenario(DAY), jobs=jobs, tasks=tasks, boosted={2: 10.0}))
    curves = outcome.curves
    assert curves.waiting.keys() == {"large", "large, boosted", "Express"}
    assert curves.waiting["large, boosted"] == Curve(
        [10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [1.0, 2.0, 1.0, 1.0, 0.0, 0.0]
    )
    own = dict(zip(curves.waiting["large"].hours, curves.waiting["large"].values, strict=True))
    assert (own[9.0], own[10.0], own[11.0]) == (1.0, 0.0, 0.0)
    assert curves.waits == {"large": [1.0, 2.0], "large, boosted": [3.0, 3.0], "Express": [1.0]}
    assert [(one.share, one.boosted) for one in outcome.task_ends] == [
        ("large", False),
        ("large", True),
        ("Express", False),
    ]


def test_a_simulation_notes_what_is_boosted(engine: Engine) -> None:
    """A production task with 95 % of its jobs done and few left is boosted; no cores are in use
    that slots do not have, where a site has several a slot."""
    scenario = read_scenario("""
days: 1
tick_s: 900
queues:
  - {queue_id: 1, queue_name: managed, queue_type: managed, vo: local, queue_share: 1}
sites:
  - {site: GREEN, slots: 5, endpoints: [DISK], attributes: {corecount: 8}}
tasks:
  - {name: some, files: 100, run_s: 3600, spread: 0.1,
     parameters: {prodSourceLabel: managed, skipScout: true, coreCount: 8}}
""")
    outcome = sound(simulate_in(engine, scenario))
    [end] = outcome.task_ends
    assert (end.share, end.boosted, end.status) == ("managed", True, "done")
    assert {one.share for one in outcome.shares} == {"managed", "managed, boosted"}
    boosted = outcome.curves.usage["managed, boosted"]
    assert boosted.hours[0] > outcome.curves.usage["managed"].hours[0]
    used = known(outcome.curves.utilisation["GREEN"])
    assert 0.9 < max(used) <= 1.0
    assert sum(used) / len(used) == pytest.approx(outcome.utilisation, abs=1e-3)


def test_draws_depend_on_their_names_only() -> None:
    first = RandomStreams(1).stream("job", 7).random()
    streams = RandomStreams(1)
    streams.stream("job", 8).random()
    assert streams.stream("job", 7).random() == first != RandomStreams(2).stream("job", 7).random()


@pytest.mark.long
def test_two_sets_of_knobs_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "current.yaml").write_text(yaml.safe_dump({"core.preset": "current"}))
    monkeypatch.setattr(Home, "current", lambda: pytest.fail("the present home is not looked at"))
    said = CliRunner().invoke(
        app,
        [
            "simulate",
            str(tmp_path / "tiny.yaml"),
            "--compare",
            "",
            str(tmp_path / "current.yaml"),
            "--out",
            str(tmp_path / "out"),
            "--plots",
            "--json",
        ],
    )
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert len(found["runs"]) == 2
    assert {"utilisation", "jobs finished"} <= {one["what"] for one in found["differences"]}
    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert pictures == [
        f"{name}.png" for name in ("completion", "queues", "utilisation", "waiting")
    ]
    with (tmp_path / "out" / "A" / "curves.csv").open() as file:
        curves = {line.partition(",")[0] for line in file}
    assert not curves & {"usage", "allocation"}  # which is why there is no picture of shares
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"A", "B"}


def test_an_empty_picture_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sites are in use, and no work queue has a share: two pictures have a curve (utilisation, the
    waits of jobs without a share), the others have none. Those of an earlier run go."""
    used, idle = Curve([0.0, 1.0], [0.5, 1.0]), Curve([0.0, 1.0], [None, None])
    curves = Curves({"all": used}, {}, {"none": idle}, {}, {"none": [0.5, 1.0]})
    outcome = SimulationOutcome("", 0.1, {}, {}, {}, {}, [], [], [], {}, [], curves)
    (tmp_path / "shares.png").write_bytes(b"old")
    empty = cli._write({"": outcome}, tmp_path, plots=True)
    assert empty == [
        "Shares: cores in use and allocated",
        "Jobs that wait for their start",
        "From submission to the end",
        "Events that consumers processed",
    ]
    assert {file.name for file in tmp_path.glob("*.png")} == {"utilisation.png", "waiting.png"}
    cli._show({"": outcome}, as_json=False)
    cli._tell_files(tmp_path, empty, plots=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "Tables and pictures are in" in said
    assert '"Shares: cores in use and allocated" is not written: it would be empty.' in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "jobgen.bach=1"], "Did you mean jobgen.batch?"),
        (["--compare", "nowhere", ""], "it is neither a file nor KNOB=VALUE"),
        (["--plots"], "Give --out DIRECTORY"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(
    tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    said = CliRunner().invoke(app, ["simulate", str(tmp_path / "tiny.yaml"), *words])
    assert isinstance(said.exception, BadInput)
    assert says in str(said.exception)
