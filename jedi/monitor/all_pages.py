"""All pages, in the order of the menu."""

from __future__ import annotations

from jedi.monitor.pages import overview, past, task, tasks
from jedi.monitor.table import PAGES

__all__ = ["MODULES", "PAGES"]
MODULES = (overview, tasks, task, past)

_ORDER = {one.__name__: number for number, one in enumerate(MODULES)}
for _name in sorted(PAGES, key=lambda name: _ORDER[PAGES[name].run.__module__]):
    PAGES[_name] = PAGES.pop(_name)  # imports are in the order of the alphabet
