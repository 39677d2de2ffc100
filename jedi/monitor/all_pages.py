"""All pages, in the order of the menu."""

from __future__ import annotations

from jedi.monitor.pages import overview, past, task, tasks
from jedi.monitor.table import PAGES

__all__ = ["MODULES", "PAGES"]
MODULES = (overview, tasks, task, past)
