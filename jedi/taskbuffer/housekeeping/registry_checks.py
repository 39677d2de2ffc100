"""Invariants of users' registries; see checks.py.

Source: docs/reference/ganga.md#writers.
"""

from __future__ import annotations

LEASES = """
SELECT guid, lease IS NULL <> (holder IS NULL) OR lease IS NULL <> (lease_until IS NULL)
FROM jedi_registries"""
"""A lease has its holder and its time."""

RECORDS = """
SELECT d.guid || '/' || d.kind || '/' || d.id, r.guid IS NULL OR d.change > r.change
  OR d.id >= CASE d.kind WHEN 'job' THEN r.next_job ELSE r.next_template END OR g.id IS NOT NULL
FROM jedi_drafts d LEFT JOIN jedi_registries r USING (guid)
  LEFT JOIN jedi_removed_drafts g USING (guid, kind, id)"""
"""A record has its registry, an id and a change that were drawn there, and is not removed."""

SUBMISSIONS = """
SELECT guid || '/' || id, CASE
  WHEN status = 'new' THEN backend IS NOT NULL
  WHEN status IN ('submitting', 'unknown') THEN backend IS NULL OR submissions = 0
  WHEN status = 'failed' THEN backend IS NULL
  ELSE backend_id IS NULL OR submitted IS NULL
    OR (ended IS NOT NULL) <> (status IN ('completed', 'killed')) END
FROM jedi_drafts WHERE kind = 'job'"""
"""A job that was submitted has its backend there, and its end once it has ended; a new one has
neither."""

SUBJOBS = """
SELECT coalesce(d.guid || '/' || d.id, u.guid || '/' || u.job), d.id IS NULL OR d.status = 'new'
  OR d.counts <> coalesce(u.counts, '{}')
FROM (SELECT * FROM jedi_drafts WHERE kind = 'job') d FULL JOIN (
  SELECT guid, job, jsonb_object_agg(status, n) FILTER (WHERE n > 0) AS counts FROM (
    SELECT guid, job, status, count(*) FILTER (WHERE NOT superseded) AS n
    FROM jedi_subjobs GROUP BY guid, job, status) s
  GROUP BY guid, job) u ON u.guid = d.guid AND u.job = d.id
WHERE u.guid IS NOT NULL OR d.counts <> '{}'"""
"""Subjobs have their job, which has been submitted and counts them by status."""

FOLDERS = """
SELECT f.guid || f.path, r.guid IS NULL OR f.path <> '/' AND p.path IS NULL
FROM jedi_folders f LEFT JOIN jedi_registries r USING (guid)
  LEFT JOIN jedi_folders p ON p.guid = f.guid
    AND p.path = coalesce(nullif(regexp_replace(f.path, '/[^/]+$', ''), ''), f.path)"""
"""A folder has its registry and its parents."""

LINKS = """
SELECT l.guid || l.path || ':' || l.job, f.path IS NULL OR d.id IS NULL
FROM jedi_folder_jobs l LEFT JOIN jedi_folders f USING (guid, path)
  LEFT JOIN jedi_drafts d ON d.guid = l.guid AND d.kind = 'job' AND d.id = l.job"""
"""A link of a folder leads to a job of its registry."""
