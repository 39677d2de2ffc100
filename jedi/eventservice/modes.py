"""Modes of tasks whose events are handed out while jobs run, and the codes that PanDA gives them.

Source: docs/reference/event-service.md#modes.
"""

from __future__ import annotations

from jedi.model.tasks.params import EVENT_CODES as TASK_CODES

__all__ = ["JOB_CODES", "TASK_CODES"]

JOB_CODES = {"consumer": 1, "es_merge": 2, "clone": 3, "jumbo": 4, "co_jumbo": 5, "fine": 6}
"""The code of a job's kind, as pilots of PanDA know it; 0: any other kind."""
