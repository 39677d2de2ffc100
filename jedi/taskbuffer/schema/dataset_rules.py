"""Expressions of columns that PostgreSQL computes for datasets."""

from __future__ import annotations

UNPROCESSED = (
    "masterid IS NULL AND type = ANY ('{input,pseudo_input}'::text[]) "
    "AND (status = ANY ('{defined,toupdate,pending}'::text[]) "
    "OR status = ANY ('{ready,running}'::text[]) "
    "AND nfilesfinished + nfilesfailed + nfilesmissing < nfilestobeused)"
)
"""A master with files that are not processed, or not fed yet; see ending.any_processed."""
