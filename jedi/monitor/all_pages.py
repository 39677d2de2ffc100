"""All pages, in the order of the menu."""

from __future__ import annotations

from jedi.monitor.pages import (
    agents,
    decisions,
    knobs,
    overview,
    queues,
    sites,
    task,
    tasks,
)
from jedi.monitor.table import PAGES

__all__ = ["MODULES", "PAGES"]
MODULES = (overview, tasks, task, sites, queues, decisions, agents, knobs)

_ORDER = {one.__name__: number for number, one in enumerate(MODULES)}
for _name in sorted(PAGES, key=lambda name: _ORDER[PAGES[name].run.__module__]):
    PAGES[_name] = PAGES.pop(_name)  # imports are in the order of the alphabet
