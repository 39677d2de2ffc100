"""All tables under one name: the hand-written truth, a file a subject.

`migrations/` and `schema/` must agree with these files; CI proves it.
"""

from __future__ import annotations

from jedi.taskbuffer.schema import idle_indexes  # noqa: F401 - it adds indexes to tables
from jedi.taskbuffer.schema.access_tables import (
    agents,
    audit,
    cache_files,
    outbox,
    pilots,
    requests,
    sandboxes,
    tokens,
    users,
)
from jedi.taskbuffer.schema.catalogue_tables import (
    ddm_datasets,
    ddm_files,
    ddm_members,
    ddm_replicas,
)
from jedi.taskbuffer.schema.columns import metadata
from jedi.taskbuffer.schema.document_tables import (
    contents,
    datasets,
    job_params_template,
    job_retry_history,
    output_template,
    process_lock,
    task_params,
    tasks,
    work_queue,
)
from jedi.taskbuffer.schema.event_tables import consumers, event_zips, events, jobsets
from jedi.taskbuffer.schema.herd_tables import herds, submission_keys, units
from jedi.taskbuffer.schema.job_tables import (
    acquire_requests,
    job_files,
    job_files_archived,
    job_params,
    job_ready,
    job_tail,
    jobs,
    jobs_archived,
)
from jedi.taskbuffer.schema.log_tables import dataset_log, job_log, task_log
from jedi.taskbuffer.schema.operation_tables import (
    broker_decisions,
    broker_reasons,
    commands,
    knobs,
    knobs_history,
    retry_matches,
    retry_rules,
    snapshots,
)
from jedi.taskbuffer.schema.registry_tables import (
    drafts,
    folder_jobs,
    folders,
    registries,
    removed_drafts,
    subjobs,
)
from jedi.taskbuffer.schema.site_tables import (
    ddm_endpoints,
    network_matrix,
    queue_shares,
    resource_types,
    site_endpoints,
    site_metrics,
    sites,
    sites_history,
)
from jedi.taskbuffer.schema.statistics_tables import (
    job_stats,
    job_stats_archived,
    job_stats_delta,
    job_stats_hourly,
)

__all__ = [
    "acquire_requests",
    "agents",
    "audit",
    "broker_decisions",
    "broker_reasons",
    "cache_files",
    "commands",
    "consumers",
    "contents",
    "dataset_log",
    "datasets",
    "ddm_datasets",
    "ddm_endpoints",
    "ddm_files",
    "ddm_members",
    "ddm_replicas",
    "drafts",
    "event_zips",
    "events",
    "folder_jobs",
    "folders",
    "herds",
    "job_files",
    "job_files_archived",
    "job_log",
    "job_params",
    "job_params_template",
    "job_ready",
    "job_retry_history",
    "job_stats",
    "job_stats_archived",
    "job_stats_delta",
    "job_stats_hourly",
    "job_tail",
    "jobs",
    "jobs_archived",
    "jobsets",
    "knobs",
    "knobs_history",
    "metadata",
    "network_matrix",
    "outbox",
    "output_template",
    "pilots",
    "process_lock",
    "queue_shares",
    "registries",
    "removed_drafts",
    "requests",
    "resource_types",
    "retry_matches",
    "retry_rules",
    "sandboxes",
    "site_endpoints",
    "site_metrics",
    "sites",
    "sites_history",
    "snapshots",
    "subjobs",
    "submission_keys",
    "task_log",
    "task_params",
    "tasks",
    "tokens",
    "units",
    "users",
    "work_queue",
]
