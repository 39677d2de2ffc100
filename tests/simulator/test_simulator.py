"""Days of simulated grids: what policy does to shares, outages, scouts, transfers and time-outs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine
from typer.testing import CliRunner

from jedi.cli.jedi import app
from jedi.core import clock
from jedi.core.errors import BadInput
from jedi.host.home import Home
from jedi.simulator.dice import Dice
from jedi.simulator.measure import Outcome, measure
from jedi.simulator.record import Record
from jedi.simulator.report import differences, write_tables
from jedi.simulator.run import simulate, simulate_in
from jedi.simulator.scenario import Scenario, read_scenario
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


def sound(record: Record) -> Outcome:
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
  - {site: GREEN, slots: 1, endpoints: [DISK], attributes: {teir: T1}}
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
        "scenario.knobs.agent.poll_s": ("agent.poll_s is a number [s]", "give a value like 2.0"),
        "scenario.sites[0].slots": (
            "input should be greater than or equal to 0", "It means: jobs at once"),
        "scenario.sites[1].endpoints": ("is mandatory", "Add it"),
        "scenario.sites[2].endpoints": (
            "list should have at least 1 item after validation, not 0",
            "It means: at least one; the storage is called SITE_NAME"),
        "scenario.sites[3].attributes.teir": ("no such key", "Did you mean tier?"),
        "scenario.sites[4]": ("scenario.sites[3] has this site too", "Rename one"),
        "scenario.sites[4].failures": (
            "their probabilities are more than 1 together", "Lower some of them"),
        "scenario.tasks[0].at": ("no site here has this name", "Did you mean GREEN?"),
        "scenario.tasks[1].parameters.nFilesPerJbo": (
            "no such key", "Did you mean nFilesPerJob?"),
        "scenario.commands[0].tasks": ("no task here has this name", "There are t, u, w"),
        "scenario.commands[1].command": (
            "input should be 'kill', 'finish', 'retry', 'pause', 'resume', 'avalanche', 'hold' or "
            "'release'",
            "It means: to the tasks; hold and release to those of their jobs that have not run"),
        "scenario.tasks[2].files": (
            "input should be greater than or equal to 1",
            "It means: input files, or without `at` jobs"),
        "scenario.tasks[3].name": ("several tasks have it", "Rename them"),
        "scenario.outages[0].site": ("no site here has this name", "There are A, B, C, GREEN"),
    }  # fmt: skip


def test_a_scenario_is_a_mapping() -> None:
    assert [*problems("[]")] == ["scenario"]


# ------------------------------------------------------------------------------------ simulations


def test_shares_become_what_is_allocated_and_no_task_starves(engine: Engine) -> None:
    record = simulate_in(engine, example("shares", 0.2, days=1, tick_s=1800))
    outcome = sound(record)
    shares = {one.share: one for one in outcome.shares}
    for share, part in (("large", 0.75), ("small", 0.25)):
        assert shares[share].allocation == pytest.approx(part, abs=0.01)
        assert shares[share].usage == pytest.approx(part, rel=0.1)
    assert outcome.utilisation > 0.8
    served = {row.jeditaskid for row in record.jobs if row.starttime}
    noon = record.scenario.start + timedelta(hours=12)
    assert {row.jeditaskid for row in record.tasks if row.creationdate < noon} <= served


def test_an_outage_drains_and_recovers(engine: Engine) -> None:
    record = simulate_in(engine, example("outage", 0.2, days=1.25, tick_s=1200))
    curves = sound(record).curves
    used = {
        site: dict(zip(curves.hours, values, strict=True))
        for site, values in curves.utilisation.items()
    }
    for site in ("GREEN_1", "RED"):
        assert used[site][11] > 0.5
        assert max(used[site][hour] for hour in (22, 23, 24)) > 0.5
    lost = {row.site for row in record.jobs if row.error_code == "lost_heartbeat"}
    assert lost == {"GREEN_1"}
    begin = record.scenario.start + timedelta(hours=12)
    down = [row for row in record.jobs if row.site in ("GREEN_1", "RED") and row.starttime
            and begin < row.starttime < begin + timedelta(hours=8)]  # fmt: skip
    assert down == []
    early = [row for row in record.tasks if row.creationdate < begin]
    assert {row.status for row in early} == {"done"}


def test_scouts_go_first_and_the_others_follow(engine: Engine) -> None:
    record = simulate_in(engine, example("scouts", 0.2, days=0.75, tick_s=1800))
    outcome = sound(record)
    assert sum(outcome.tasks.values()) == outcome.tasks["done"] + outcome.tasks.get("finished", 0)
    waiting = outcome.curves.waiting["user"]
    assert waiting.index(max(waiting)) > 0
    assert outcome.ends.keys() == {"payload_exit"}


def test_stuck_transfers_are_given_up_and_tried_again(engine: Engine) -> None:
    outcome = sound(simulate_in(engine, example("transfers", 0.2, tick_s=7200)))
    assert outcome.ends["transfer_timeout"] > 10
    assert outcome.jobs["finished"] > 50


LIMITS_H = {
    "sent": ("sent_timeout", 0.5), "silent": ("lost_heartbeat", 2.0),
    "holding": ("holding_timeout", 3.0), "urgent": ("idle_site", 4.0), "t1": ("t1_timeout", 6.0),
    "t2": ("t2_timeout", 6.0), "analysis": ("rebrokered", 12.0),
    "pending": ("setup_timeout", 1.0), "waiting": ("waiting_timeout", 0.5),
    "defined": ("defined_timeout", 4.0), "held": ("hold_timeout", 2.0),
    "throttled": ("throttled_timeout", 168.0),
    "assigned": ("assigned_timeout", 12.0), "quick": ("transfer_timeout", 24.0),
    "activated": ("activated_timeout", 48.0), "slow": ("transfer_timeout", 96.0),
    "running": ("running_timeout", 504.0), "running_t1": ("running_timeout", 504.0),
    "running_t2": ("running_timeout", 504.0),
}  # fmt: skip
"""By task of the example: why its jobs end, and after how long."""


def test_every_timeout_fires_in_its_day(engine: Engine) -> None:
    record = simulate_in(engine, example("timeouts", tick_s=21_600))
    assert sound(record).ends.keys() == {rule.code for rule in TIMEOUTS}
    names = {row.jeditaskid: row.taskname.partition(".")[0] for row in record.tasks}
    ends = {}
    for row in record.jobs:
        took_h = (row.statechangetime - row.creationtime) / timedelta(hours=1)
        ends[names[row.jeditaskid]] = (row.error_code, took_h)
    assert {name: code for name, (code, _) in ends.items()} == {
        name: code for name, (code, _) in LIMITS_H.items()
    }
    for name, (_, limit_h) in LIMITS_H.items():
        assert limit_h < ends[name][1] < limit_h + 24, name


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
    names = {row.jeditaskid: row.taskname.partition(".")[0] for row in record.tasks}
    ends = {names[row.jeditaskid]: (row.status, row.endtime - row.starttime) for row in record.jobs}
    assert ends["free"] == ("finished", timedelta(hours=2))
    assert ends["held"] == ("finished", timedelta(hours=5))
    assert ends["killed"][0] == "cancelled"
    assert record.wrong == []
    [(trouble, times)] = record.troubles.items()
    assert trouble.startswith("resume: A task that is aborted can't be resumed")
    assert times == 1


def test_production_begins_on_a_fresh_grid_and_after_idle_hours(engine: Engine) -> None:
    """Contracts §16: where nothing waited nothing could start, so that none did is no reason
    against a site. Without that scouts, which go only where jobs start, never begin anywhere."""
    scenario = read_scenario(FRESH_GRID + "".join(
        f"  - {{name: {name}, files: 20, run_s: 1800, at_h: {at_h}, parameters: {{"
        "prodSourceLabel: managed, taskType: prod, taskPriority: 500}}\n"
        for name, at_h in PRODUCTION.items()
    ))  # fmt: skip
    record = simulate_in(engine, scenario)
    sound(record)
    assert {row.taskname[:-2]: row.status for row in record.tasks} == dict.fromkeys(
        PRODUCTION, "done"
    )
    for row in record.tasks:
        starts = [job.starttime for job in record.jobs if job.jeditaskid == row.jeditaskid]
        took = min(starts) - record.scenario.start
        assert took < timedelta(hours=PRODUCTION[row.taskname[:-2]] + 1), row.taskname


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


def test_two_runs_with_one_seed_are_equal_and_another_seed_differs(tmp_path: Path) -> None:
    runs = [sound(simulate(read_scenario(TINY + f"seed: {seed}"))) for seed in (1, 1, 2)]
    tables = [
        {path.name: path.read_bytes() for path in write_tables(run, tmp_path / str(number))}
        for number, run in enumerate(runs)
    ]
    assert runs[0] == runs[1]
    assert tables[0] == tables[1]
    assert tables[0].keys() == {"sites.csv", "shares.csv", "tasks.csv", "curves.csv"}
    assert tables[0] != tables[2]
    assert runs[0].jobs["finished"] >= 12
    assert [d for d in differences(runs[0], runs[1]) if d.change] == []


def test_what_holds_tasks_in_the_end_is_told() -> None:
    scenario = read_scenario(TINY)
    task = {"taskname": "t", "gshare": "user", "creationdate": scenario.start, "endtime": None}
    reasons = {"assigning": "no_nucleus", "running": "generated", "pending": "queue_full"}
    tasks = [SimpleNamespace(**task, status=s, reason_code=code) for s, code in reasons.items()]
    assert measure(Record(scenario, tasks=tasks)).held == {"no_nucleus": 1, "queue_full": 1}


def test_draws_depend_on_their_names_only() -> None:
    first = Dice(1).stream("job", 7).random()
    dice = Dice(1)
    dice.stream("job", 8).random()
    assert dice.stream("job", 7).random() == first != Dice(2).stream("job", 7).random()


def test_two_sets_of_knobs_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "current.yaml").write_text(yaml.safe_dump({"core.preset": "current"}))
    monkeypatch.setattr(Home, "current", lambda: pytest.fail("the present home is not looked at"))
    said = CliRunner().invoke(app, [
        "simulate", str(tmp_path / "tiny.yaml"), "--compare", "", str(tmp_path / "current.yaml"),
        "--out", str(tmp_path / "out"), "--plots", "--json",
    ])  # fmt: skip
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert len(found["runs"]) == 2
    assert {"utilisation", "jobs finished"} <= {one["what"] for one in found["differences"]}
    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert pictures == [f"{name}.png" for name in
                        ("completion", "queues", "shares", "utilisation", "waiting")]  # fmt: skip
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"A", "B"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "jobgen.bach=1"], "Did you mean jobgen.batch?"),
        (["--compare", "nowhere", ""], "it is neither a file nor KNOB=VALUE"),
        (["--plots"], "Say --out DIRECTORY"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(
    tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    said = CliRunner().invoke(app, ["simulate", str(tmp_path / "tiny.yaml"), *words])
    assert isinstance(said.exception, BadInput)
    assert says in str(said.exception)
