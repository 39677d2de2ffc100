"""The files and the sandbox of a job as its pilot gets them, and the endpoints that it writes to:
parts of statements, and readers of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jedi.core import states
from jedi.model.jobs.attempt import JobFile
from jedi.taskbuffer.db.statement import returns

JOB_FILES = """
(SELECT json_agg(json_build_array(f.type, f.lfn, d.datasetname, f.endpoint, f.source_name,
   f.fsize, f.checksum, f.guid,
   (f.type = 'output' AND 'an' = ANY(string_to_array(d.attributes, ','))) IS TRUE)
   ORDER BY f.fileid)
 FROM jedi_job_files f LEFT JOIN LATERAL (SELECT datasetname, attributes FROM jedi_datasets d
   WHERE d.datasetid = f.datasetid OFFSET 0) d ON true
 WHERE f.pandaid = j.pandaid AND {condition})
"""
"""The files of a job `j` that meet a condition on `f`, as JSON for `job_files()`. Without OFFSET 0
PostgreSQL joined them with all datasets, for one job."""

STAGING = """
(SELECT json_agg(e.ddm_endpoint ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint)
 FROM jedi_site_endpoints e WHERE e.site = {site} AND e.roles LIKE '%write%')
"""
"""The endpoints of a site that pilots may write to, as JSON for `staging()`."""


def job_files(found: Sequence[Sequence[Any]] | None) -> tuple[JobFile, ...]:
    """The files behind JOB_FILES, each once: event ranges of one file are one file here."""
    return tuple(dict.fromkeys(map(JobFile._make, found or ())))


def staging(endpoints: Sequence[str] | None, files: Sequence[JobFile]) -> str:
    """The endpoint at which the pilot of a job stages its outputs, of those behind STAGING: their
    destination if it can."""
    wanted = [file.endpoint for file in files if file.type in states.OUTPUT_TYPES]
    for endpoint in endpoints or ():
        if endpoint in wanted:
            return endpoint
    return endpoints[0] if endpoints else ""


SANDBOX = returns(bytes)("""
-- The archive with this sha256.
SELECT data FROM jedi_sandboxes WHERE sha256 = :sha256
""")
