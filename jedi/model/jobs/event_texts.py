"""Texts of jobs of the event service that are for their pilots, not for their payloads.

They are among the texts of jedi_job_params, so that the statement that hands out jobs has no column
of the event service.
"""

from __future__ import annotations

EVENTS = "jedi:events"
"""A text of a consumer, JSON: its job set (null: any of the task) as jobset_id, its mode, and
clone, runonce or storeonce."""

PIECES = "jedi:pieces"
"""A text of a job that merges pieces, empty: its pilot asks for them."""
