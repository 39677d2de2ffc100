"""Questions that run plug-ins of other people are answered by a process of their own: one that
hangs, raises or dies holds no thread of the service for longer than its limit.

Expected: "Plug-ins of any kind that hang or fail hold their own task only".
"""

from __future__ import annotations

import getpass
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import add_inputs
from support.generating import document, generate
from support.plug_ins import installed, set_limit, source_of
from support.service_process import served
from support.task_rows import put

from jedi.agent.base import World
from jedi.agent.plugins import PluginFailed
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput, NotFound
from jedi.host import processes
from jedi.host.home import Home
from jedi.service.operations.all_operations import TABLE
from jedi.service.operations.table import Call, KnownCaller
from jedi.service.submission.submission_requests import TaskText
from jedi.taskbuffer.users import users
from jedi.taskrefiner.agent import TaskRefiner

LIMIT_S = 6.0
"""The process takes a second or two to begin."""
OWN = "from jedi.brokerage.generic import GenericBroker\nclass Bad(GenericBroker): pass\n"


@pytest.fixture(autouse=True)
def _anna_may(world: World) -> None:
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="anna", role="operator", gridpref=None, cap=None)


def ask(world: World, operation: str, **given: Any) -> Any:
    with world.engine.connect() as tx:
        call = Call(tx, KnownCaller("anna", "socket"), Home(world.settings.home))
        return TABLE[operation](call, **given)


def plan(world: World, **keys: Any) -> Any:
    task = document(nFilesPerJob=1, prodSourceLabel="managed", site="SITE_A", **keys)
    found = TaskText(text=json.dumps(task), format="json")
    return ask(world, "task.plan", text=found)


@pytest.mark.parametrize(
    ("room", "act", "code", "said"),
    [
        (
            "broker",
            "time.sleep(3600)",
            "plugin_timeout",
            "it did not answer within 6 s (knob agent.plugin_s)",
        ),
        ("refiner", "while True: pass", "plugin_timeout", "it did not answer within 6 s"),
        ("generator", "os._exit(3)", "plugin_failed", "its process ended (exit code 3)"),
        ("broker", "raise ValueError('no run')", "plugin_failed", "ValueError: no run"),
    ],
)
def test_a_plan_waits_for_no_plugin(
    world: World, tmp_path: Path, room: str, act: str, code: str, said: str
) -> None:
    add_inputs(world, 2)
    if code == "plugin_timeout":
        set_limit(world, LIMIT_S)
    began = time.monotonic()
    with installed(tmp_path, room, source_of(room, act)), pytest.raises(PluginFailed) as failed:
        plan(world)
    assert time.monotonic() - began < 60
    assert failed.value.code == code
    plug_in = f"local:managed of jedi.{room} (strange_plugins:Bad, of strange 1)"
    assert f"The plug-in {plug_in} fails: {said}" in failed.value.sentence


def test_a_plan_with_a_good_plugin_is_the_same(world: World, tmp_path: Path) -> None:
    """Two jobs; so are its refusals: all mistakes at once."""
    add_inputs(world, 2)
    with installed(tmp_path, "broker", OWN):
        found = plan(world)
        with pytest.raises(BadInput) as mistaken:
            plan(world, nFiles=-1, taskPriority="x")
    assert found.plan.jobs == 2
    assert found == plan(world)
    assert len(mistaken.value.problems) == 2


def test_a_plan_whose_caller_leaves_ends_its_process(world: World, tmp_path: Path) -> None:
    """Expected: work of the service "ends when its caller has gone", that of plug-ins too, long
    before their own limit of an hour here."""
    add_inputs(world, 2)
    set_limit(world, 3600.0)
    hint = tmp_path / "pid"
    act = f"open({str(hint)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    task = document(nFilesPerJob=1, prodSourceLabel="managed", site="SITE_A")
    text = TaskText(text=json.dumps(task), format="json")
    body = json.dumps({"text": text.model_dump()}).encode()
    head = f"POST /v1/tasks/plan HTTP/1.1\r\nHost: jedi\r\nContent-Length: {len(body)}\r\n\r\n"
    with world.engine.begin() as tx:
        me = getpass.getuser()
        users.PUT_USER.run(tx, user=me, role="operator", gridpref=None, cap=None)
    with installed(tmp_path, "broker", source_of("broker", act)), served(world):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(Home(world.settings.home).api_socket))
            caller.sendall(head.encode() + body)
            until(lambda: hint.exists() and hint.read_text() != "")
        pid = int(hint.read_text())
        until(lambda: processes.started(pid) is None)


def until(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_decision_waits_for_no_broker(world: World, tmp_path: Path) -> None:
    """JEDI's own broker chose; it is repeated by the plug-in that serves the task now."""
    add_inputs(world, 2)
    put(world, document(nFilesPerJob=1, site="SITE_A"), label="managed")
    TaskRefiner(world).run_once()
    ContentsFeeder(world).run_once()
    assert generate(world) == 1
    with world.engine.begin() as tx:
        decision = tx.scalar(text("SELECT max(decision_id) FROM jedi_broker_decisions"))
    set_limit(world, LIMIT_S)
    with installed(tmp_path, "broker", source_of("broker", "time.sleep(3600)")):
        with pytest.raises(PluginFailed, match="it did not answer within 6 s"):
            ask(world, "decision.replay", decision_id=decision)
        with pytest.raises(NotFound):
            ask(world, "decision.replay", decision_id=decision + 1)
    with_own = ask(world, "decision.replay", decision_id=decision)
    assert with_own.same
