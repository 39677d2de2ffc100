"""The agents by name, and where their classes are; none is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jedi.agent.base import Agent
from jedi.core.errors import NotFound
from jedi.core.suggest import suggest

AGENTS = {
    name: f"jedi.{room}.agent:{name}"
    for name, room in {
        "TaskRefiner": "taskrefiner",
        "ContentsFeeder": "contentsfeeder",
        "Splitter": "splitter",
        "TaskBroker": "brokerage",
        "JobGenerator": "jobgenerator",
        "Mover": "mover",
        "Submitter": "submitter",
        "Adder": "jobdispatcher",
        "EventService": "eventservice",
        "PostProcessor": "postprocessor",
        "TaskCommando": "taskcommando",
        "WatchDog": "watchdog",
    }.items()
}

AWAKE = frozenset({"Submitter", "WatchDog"})
"""Agents that have a process also while there is nothing to claim: the Submitter confirms each 30 s
that it serves its sites, and the WatchDog has a timetable."""


def load(name: str) -> type[Agent[Any, Any]]:
    """The class of an agent; NotFound, with the nearest name, if there is none."""
    if name not in AGENTS:
        hint = suggest(name, AGENTS, f"There are {', '.join(AGENTS)}.")
        raise NotFound(f"There is no agent {name}. {hint}", code="no_agent", agent=name)
    module, _, cls = AGENTS[name].partition(":")
    found: type[Agent[Any, Any]] = getattr(import_module(module), cls)
    return found
