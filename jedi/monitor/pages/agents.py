"""Agents and dogs: their state, their age and their present work."""

from __future__ import annotations

from typing import Any

from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.system.status import AgentStatus

_AGENTS = (
    Column("agent", "Agent", "id"),
    Column("state", "State", "status"),
    Column("processes", "Processes", "number"),
    Column("memory", "Memory", "bytes"),
    Column("items", "Items so far", "number", wide=True),
    Column("heartbeat_at", "Last heartbeat", "time"),
    Column("last_error", "Last error", "reason"),
)
_DOGS = (
    Column("dog", "Dog", "id"),
    Column("about", "Work"),
    Column("period_s", "Every", "seconds"),
    Column("knob", "Knob", "id", link=lambda row: f"/knobs/{row.knob}"),
)


@page("agents", "/agents", menu="Agents", topics=("agents", "tasks"))
def agents(ask: Ask) -> View:
    """Agents with their processes, heartbeats, memory and last errors."""
    found = ask("system.status")
    rows = [_row(one) for one in found.agents]
    sheet = Sheet("agents", "Agents", _AGENTS, rows, "agent")
    return View("Agents", {"found": found}, (sheet,))


def _row(one: AgentStatus) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "state": _state(one),
        "processes": one.processes,
        "memory": one.rss_kb * 1024 if one.processes else None,
        "items": one.items if one.processes else None,
        "heartbeat_at": one.heartbeat_at,
        "last_error": one.last_error,
    }


def _state(one: AgentStatus) -> str:
    if not one.healthy:
        return "silent"
    return "fails" if one.last_error else "asleep" if one.asleep else "healthy"


@page("dogs", "/dogs", menu="Dogs", topics=("knobs",))
def dogs(ask: Ask) -> View:
    """The WatchDog's dogs: their work and the interval between their runs."""
    sheet = Sheet("dogs", "Dogs", _DOGS, ask("dog.list"), "dog")
    return View("Dogs", {}, (sheet,))
