"""Modes of tasks whose events are handed out while jobs run, and the codes that PanDA gives them.

Source: docs/reference/event-service.md#modes.
"""

from __future__ import annotations

TASK_CODES = {"es": 1, "cloning": 2, "fine": 3}
"""jedi_tasks.eventservice by mode; 0 and NULL: the task is an ordinary one."""

JOB_CODES = {"consumer": 1, "es_merge": 2, "clone": 3, "jumbo": 4, "co_jumbo": 5, "fine": 6}
"""The code of a job's kind, as pilots of PanDA know it; 0: any other kind."""

CONSUMERS = {"es": "consumer", "cloning": "clone", "fine": "fine"}
"""The kind of the consumers of a mode."""
