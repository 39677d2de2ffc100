"""Conditions on datasets: of a column that PostgreSQL computes, and parts of statements."""

from __future__ import annotations

from jedi.taskbuffer.db.sql_lists import MASTER_TYPES

UNPROCESSED = (
    "masterid IS NULL AND type = ANY ('{input,pseudo_input}'::text[]) "
    "AND (status = ANY ('{defined,toupdate,pending}'::text[]) "
    "OR status = ANY ('{ready,running}'::text[]) "
    "AND nfilesfinished + nfilesfailed + nfilesmissing < nfilestobeused)"
)
"""A master with files that are not processed, or not fed yet; see ending.any_processed."""
LISTED = "d.status <> 'removed'"
"""A dataset `d` counts for its task: its container has not lost it. The files of a removed one keep
their counters, for jobs at work and for a container that gets it back."""
LISTED_MASTER = f"d.masterid IS NULL AND d.type IN ({MASTER_TYPES}) AND {LISTED}"
"""A master `d` that counts for its task."""
SHARED = """(coalesce(string_to_array(d.attributes, ',') && '{nosplit,repeat,ru}', false)
  OR d.masterid IS NOT NULL AND d.type = 'input' AND EXISTS (SELECT FROM jedi_tasks s
    WHERE s.jeditaskid = d.jeditaskid AND s.rules @> '{"reuse_sec_on_demand": true}'))"""
"""A dataset `d` whose files several jobs may have at a time: they stay ready, for their use is not
kept track of (model/datasets/chunk.py, Secondary.tracked)."""
