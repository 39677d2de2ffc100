"""/metrics, /ready, and the rules and the board that stand on them."""

# Raw UPDATEs: figures of agents, queues and decisions, without a system that runs.

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, text
from starlette.testclient import TestClient
from support.helpers import add_site
from support.job_rows import make_jobs, watch
from support.service_process import over, running
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.api.metrics import OTHER, BoundedLabels
from jedi.core.states import JOB
from jedi.host.home import Home
from jedi.server.app import create_app
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.reports import gauges
from jedi.taskbuffer.users import access, users

CONFIG = Path(__file__).parents[2] / "config"
RULES = CONFIG / "prometheus-rules.yaml"
BOARD = CONFIG / "grafana-jedi.json"
LABELS = {
    "operation",
    "status",
    "code",
    "le",
    "state",
    "site",
    "queue",
    "agent",
    "activity",
    "broker",
    "outcome",
    "version",
}
"""Labels that may stand in an answer: never task, user or host."""


def figures(client: httpx2.Client, **headers: str) -> dict[str, dict[tuple[str, ...], float]]:
    """All samples by name and values of labels, in the order of the labels' names."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for one in family.samples:
            assert one.name.startswith("jedi_")
            assert {*one.labels} <= LABELS
            key = tuple(one.labels[name] for name in sorted(one.labels))
            found.setdefault(one.name, {})[key] = one.value
    return found


def deltas(tx: Connection, *rows: tuple[str, int, str, int]) -> None:
    """Statistics of jobs: site, work queue, status, jobs."""
    tx.execute(
        text(
            "INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, "
            "cores) VALUES (:site, :queue, '', '', :status, :jobs, :jobs)"
        ),
        [dict(zip(("site", "queue", "status", "jobs"), row, strict=True)) for row in rows],
    )


def decide(tx: Connection, minutes: int, outcome: str, codes: list[str]) -> None:
    """A decision of so many minutes ago, which refused a site for these reasons."""
    tx.execute(
        text(
            "WITH d AS (INSERT INTO jedi_broker_decisions (jeditaskid, broker, seed, knobs, "
            "outcome, chosen, weights, need, creationtime) VALUES (1, 'generic', 1, '{}', "
            ":outcome, '{}', '{}', '{}', jedi_now() - :minutes * interval '1 minute') "
            "RETURNING decision_id) INSERT INTO jedi_broker_reasons (decision_id, site, codes, "
            "observed, limits) SELECT decision_id, 'SITE_A', :codes, '{}', '{}' FROM d"
        ),
        {"minutes": minutes, "outcome": outcome, "codes": codes},
    )


@pytest.fixture
def client(world: World) -> Iterator[httpx2.Client]:
    """The service, asked by this account over the unix socket."""
    with running(world), over(Home(world.settings.home)) as client:
        yield client


def test_figures_come_from_what_is_kept(world: World, client: httpx2.Client) -> None:
    """`gauges come from the kept counters, never from counting rows`: three rows of statistics say
    7 activated jobs at SITE_A, 2 at SITE_B and 1 running, though there is no job at all. Of two
    processes of an agent the later heartbeat counts. A decision six minutes old is not recent."""
    put(world, good(), good("a:two"))
    with world.engine.begin() as tx:
        deltas(
            tx,
            ("SITE_A", 1, "activated", 7),
            ("SITE_B", 2, "activated", 2),
            ("SITE_A", 9, "running", 1),
        )
        for process, items in (("x-1", 3), ("x-2", 4)):
            agents.BEAT.run(
                tx, agent="Adder", process=process, cycles=1, items=items, error=None, rss=100
            )
        tx.execute(
            text(
                "UPDATE jedi_agents SET heartbeat_at = clock_timestamp() - interval "
                "'1 hour' WHERE process = 'x-1'"
            )
        )
        decide(tx, 1, "chosen", ["disk", "memory"])
        decide(tx, 2, "chosen", ["disk"])
        decide(tx, 6, "none", ["disk"])
        tx.execute(
            text(
                "INSERT INTO jedi_commands (jeditaskid, command, username, creationtime) "
                "VALUES (1, 'kill', 'anna', jedi_now() - interval '50 seconds')"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_network_matrix (src, dst, key, value) VALUES "
                "('A', 'B', 'production_queued', 3), ('B', 'A', 'production_queued', 4)"
            )
        )
        tx.execute(
            text(
                "INSERT INTO job_stats_hourly (hour, site, gshare, status, jobs) VALUES "
                "(date_trunc('hour', jedi_now()), 'SITE_A', '', 'finished', 5), "
                "(date_trunc('hour', jedi_now()) - interval '1 hour', 'SITE_A', '', "
                "'finished', 50)"
            )
        )
    found = figures(client)
    jobs = {key[0]: value for key, value in found["jedi_jobs"].items()}
    assert jobs == dict.fromkeys(JOB.states, 0) | {"activated": 9, "running": 1}
    assert found["jedi_site_jobs"] == {
        ("SITE_A", "activated"): 7,
        ("SITE_A", "running"): 1,
        ("SITE_B", "activated"): 2,
    }
    assert found["jedi_queue_jobs"] == {
        ("user", "activated"): 7,
        ("managed", "activated"): 2,
        (OTHER, "running"): 1,
    }
    assert found["jedi_tasks"][("registered",)] == 2
    assert found["jedi_agent_lag_seconds"].keys() == {("Adder",)}
    assert 0 <= found["jedi_agent_lag_seconds"][("Adder",)] < 60
    assert found["jedi_agent_items"][("Adder",)] == 7
    assert found["jedi_agent_memory_bytes"][("Adder",)] == 204_800
    assert found["jedi_broker_decisions_recent"] == {("generic", "chosen"): 2}
    assert found["jedi_broker_rejections_recent"] == {("disk",): 2, ("memory",): 1}
    assert found["jedi_waiting_rows"] == {("commands",): 1, ("notices",): 0, ("statistics",): 3}
    assert 50 <= found["jedi_waiting_oldest_seconds"][("commands",)] < 100
    assert found["jedi_transfers_queued_files"] == {("production",): 7}
    assert found["jedi_jobs_reached_total"][("finished",)] == 5
    assert found["jedi_database_up"][()] == 1
    assert found["jedi_connections"][()] == 1
    assert found["jedi_database_connections"].keys() == {("in_use",), ("idle",)}


def test_no_statement_reads_jobs_or_contents(world: World) -> None:
    seen = watch(world.engine)
    with world.engine.begin() as tx:
        gauges.load(tx)
    assert len(seen) == 9
    assert not [one for one in seen if re.search(r"jedi_jobs|jedi_dataset_contents", one)]


def test_requests_are_counted_by_operation(client: httpx2.Client) -> None:
    """Paths with numbers do not make a series each: `labels are bounded sets`."""
    for task in (1, 2, 3):
        assert client.get(f"/v1/tasks/{task}").status_code == 404
    client.get("/no/such/page")
    client.get("/v1/me")
    found = figures(client)
    requests = found["jedi_requests_total"]
    assert requests[("task.show", "404")] == 3
    assert requests[("unknown", "404")] == 1
    assert requests[("me.show", "200")] == 1
    assert found["jedi_refusals_total"] == {("not_found",): 3, ("http_404",): 1}
    assert found["jedi_request_seconds_count"][("task.show",)] == 3
    assert found["jedi_request_seconds_bucket"][("+Inf", "task.show")] == 3
    assert found["jedi_database_statement_seconds_count"][()] >= 4
    assert found["jedi_response_bytes_total"][()] > 100
    assert found["jedi_requests_in_hand"][()] == 1  # this one


def test_readers_of_metrics(world: World) -> None:
    """A caller on this machine, a known user, or everybody, where an operator says so; a proxy on
    this machine speaks for somebody else."""
    with world.engine.begin() as tx:
        user = {"Authorization": f"Bearer {access.put_user_token(tx, 'bea', None, 'read', 60.0)}"}
        pilot = {"Authorization": f"Bearer {users.put_token(tx, 'pilot', site='SITE_A')}"}
    app = create_app(world)
    local, remote = (TestClient(app, client=(host, 1)) for host in ("127.0.0.1", "192.0.2.1"))

    def status(client: TestClient, headers: dict[str, str]) -> tuple[int, Any]:
        answer = client.get("/metrics", headers=headers)
        return answer.status_code, None if answer.status_code == 200 else answer.json()["code"]

    assert status(local, {}) == (200, None)
    assert status(local, {"X-Forwarded-For": "192.0.2.1"}) == (401, "no_token")
    assert status(local, {"Authorization": "Bearer wrong"}) == (401, "bad_token")
    assert status(remote, {}) == (401, "no_token")
    assert status(remote, user) == (200, None)
    assert status(remote, pilot) == (403, "not_a_user")
    with world.engine.begin() as tx:
        knobs.put(tx, "api.metrics_open", "on", "olga")
    world.refresh()
    assert status(TestClient(create_app(world), client=("192.0.2.1", 1)), {}) == (200, None)


def test_figures_are_read_once_in_a_while(world: World, client: httpx2.Client) -> None:
    before = figures(client).get("jedi_site_jobs", {})
    with world.engine.begin() as tx:
        deltas(tx, ("SITE_A", 1, "activated", 7))
    assert figures(client).get("jedi_site_jobs", {}) == before


def test_the_service_answers_without_its_database(world: World) -> None:
    """Unknown figures are absent, not old."""
    lost = replace(world, engine=connect_to_nothing(world))
    asking = TestClient(create_app(lost), client=("127.0.0.1", 1))
    found = figures(asking)
    assert found["jedi_database_up"] == {(): 0}
    assert "jedi_jobs" not in found
    assert asking.get("/health").json() == {"status": "ok"}
    answer = asking.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")
    assert answer.headers["retry-after"] == "1"


def connect_to_nothing(world: World) -> Any:
    from jedi.taskbuffer.db.engine import connect

    return connect(world.engine.url.set(host="/nowhere").render_as_string(hide_password=False))


def test_a_service_of_another_release_is_not_ready(world: World) -> None:
    asking = TestClient(create_app(world))
    assert asking.get("/ready").json() == {"status": "ok"}
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_schema_version SET version_num = '0001'"))
    answer = asking.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "schema_differs")
    assert answer.json()["facts"]["found"] == "0001"
    with world.engine.begin() as tx:
        tx.execute(text("DROP TABLE jedi_schema_version"))
    assert asking.get("/ready").json()["facts"]["found"] is None


def test_sites_beyond_the_limit_are_others() -> None:
    label = BoundedLabels(2)
    assert [label(name) for name in ("a", "b", "c", "a", "d", None)] == [
        "a",
        "b",
        OTHER,
        "a",
        OTHER,
        OTHER,
    ]


# --------------------------------------------------------------------------- rules and the board


def known_names(world: World) -> set[str]:
    """All names of samples in a real answer of a service that has something of everything."""
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
        add_site(tx, "SITE_C", "SITE_C_DATADISK", world.settings.home / "c")
        deltas(tx, ("SITE_A", 1, "activated", 7))
        agents.BEAT.run(tx, agent="Adder", process="x-1", cycles=1, items=1, error=None, rss=100)
        decide(tx, 1, "chosen", ["disk"])
        tx.execute(
            text(
                "INSERT INTO jedi_pilots (pilot_id, site, host, status) VALUES "
                "('p', 'SITE_A', 'h', 'running')"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_network_matrix (src, dst, key, value) VALUES "
                "('A', 'B', 'express_queued', 3)"
            )
        )
    asking = TestClient(create_app(world), client=("127.0.0.1", 1))
    asking.get("/v1/tasks/1")
    return {*figures(asking)}


def names_in(expression: str) -> set[str]:
    """The metrics of an expression of Prometheus."""
    return {*re.findall(r"\bjedi_\w+", expression)}


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> list[dict[str, Any]]:
    return [one for one in json.loads(BOARD.read_text())["panels"] if one["type"] != "row"]


def test_the_rules_and_the_board_name_metrics_that_exist(world: World) -> None:
    known = known_names(world)
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        assert names_in(rule["expr"]) and names_in(rule["expr"]) <= known | recorded, rule
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    for panel in panels():
        for target in panel["targets"]:
            assert names_in(target["expr"]) and names_in(target["expr"]) <= known, panel["title"]
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    assert len(rules()) >= 8 and len(shown) >= 10


def test_panels_of_the_board_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(BOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_accepts_rules_and_figures(world: World) -> None:
    asking = TestClient(create_app(world), client=("127.0.0.1", 1))
    asking.get("/v1/tasks/1")
    known_names(world)
    written = asking.get("/metrics").text
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint=all", str(RULES)],
        text=True,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=written, text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_alerts_fire(tmp_path: Path) -> None:
    """An agent silent for six minutes, and a database away for three, each raise their alert."""
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'jedi_agent_lag_seconds{agent="Adder"}', "values": "0+60x10"},
                    {"series": "jedi_database_up", "values": "1 1 1 0x10"},
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="JediAgentSilent", alertstate="firing"})',
                        "eval_time": "9m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                    {
                        "expr": 'count(ALERTS{alertname="JediDatabaseDown", alertstate="firing"})',
                        "eval_time": "9m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                    {
                        "expr": 'count(ALERTS{alertname=~"JediAgentSilent|JediDatabaseDown"})',
                        "eval_time": "1m",
                        "exp_samples": [],
                    },
                ],
            }
        ],
    }
    written = tmp_path / "test.yaml"
    written.write_text(yaml.safe_dump(case))
    checked = subprocess.run(
        ["promtool", "test", "rules", str(written)], text=True, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
