"""Users' registries of jobs: drafts, subjobs, folders, and the lease of the writing session."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"

ADDED = """
CREATE TABLE jedi_registries (guid text NOT NULL, username text NOT NULL, name text NOT NULL,
  change bigint DEFAULT 0 NOT NULL, next_job bigint DEFAULT 0 NOT NULL, next_template bigint
  DEFAULT 0 NOT NULL, lease text, holder text, lease_until timestamptz, creationtime timestamptz
  DEFAULT jedi_now() NOT NULL, CONSTRAINT jedi_registries_pk PRIMARY KEY (guid));
CREATE UNIQUE INDEX jedi_registries_owner_uq ON jedi_registries (username, name);
CREATE TABLE jedi_drafts (guid text NOT NULL, kind text NOT NULL, id bigint NOT NULL, status text
  DEFAULT 'new' NOT NULL, name text NOT NULL, comment text NOT NULL, version bigint DEFAULT 1 NOT
  NULL, change bigint NOT NULL, submissions bigint DEFAULT 0 NOT NULL, backend text, backend_id
  text, backend_status text, cursor text, complete boolean DEFAULT true NOT NULL, reason text,
  counts JSONB DEFAULT '{}' NOT NULL, created timestamptz DEFAULT jedi_now() NOT NULL, submitted
  timestamptz, ended timestamptz, document text NOT NULL, CONSTRAINT jedi_drafts_pk PRIMARY KEY
  (guid, kind, id), CONSTRAINT jedi_drafts_kind_ck CHECK (kind IN ('job', 'template')), CONSTRAINT
  jedi_drafts_status_ck CHECK (status IN ('new', 'submitting', 'submitted', 'running',
  'completing', 'completed', 'failed', 'killed', 'unknown')), CONSTRAINT jedi_drafts_template_ck
  CHECK (kind = 'job' OR status = 'new'));
CREATE INDEX jedi_drafts_change_ix ON jedi_drafts (guid, kind, change);
CREATE TABLE jedi_removed_drafts (guid text NOT NULL, kind text NOT NULL, id bigint NOT NULL,
  change bigint NOT NULL, CONSTRAINT jedi_removed_drafts_pk PRIMARY KEY (guid, kind, id));
CREATE INDEX jedi_removed_drafts_change_ix ON jedi_removed_drafts (guid, kind, change);
CREATE TABLE jedi_subjobs (guid text NOT NULL, job bigint NOT NULL, k integer NOT NULL, status
  text NOT NULL, attempt integer, panda_id bigint, site text, exit_code bigint, reason text,
  superseded boolean DEFAULT false NOT NULL, override text DEFAULT '{}' NOT NULL, CONSTRAINT
  jedi_subjobs_pk PRIMARY KEY (guid, job, k), CONSTRAINT jedi_subjobs_status_ck CHECK (status IN
  ('new', 'submitting', 'submitted', 'running', 'completing', 'completed', 'failed', 'killed',
  'unknown')));
CREATE TABLE jedi_folders (guid text NOT NULL, path text NOT NULL, CONSTRAINT jedi_folders_pk
  PRIMARY KEY (guid, path));
CREATE TABLE jedi_folder_jobs (guid text NOT NULL, path text NOT NULL, job bigint NOT NULL, change
  bigint NOT NULL, place integer NOT NULL, CONSTRAINT jedi_folder_jobs_pk PRIMARY KEY (guid, path,
  job));
CREATE INDEX jedi_folder_jobs_job_ix ON jedi_folder_jobs (guid, job);
"""
REMOVED = """
DROP TABLE jedi_folder_jobs;
DROP TABLE jedi_folders;
DROP TABLE jedi_subjobs;
DROP TABLE jedi_removed_drafts;
DROP TABLE jedi_drafts;
DROP TABLE jedi_registries;
"""
COMMENTS = {
    "TABLE jedi_registries": "registries of users' jobs",
    "COLUMN jedi_registries.guid": "the registry, unique in the world",
    "COLUMN jedi_registries.username": "its owner",
    "COLUMN jedi_registries.name": "the owner's name for it",
    "COLUMN jedi_registries.change": "number of changes",
    "COLUMN jedi_registries.next_job": "id of the next job",
    "COLUMN jedi_registries.next_template": "id of the next template",
    "COLUMN jedi_registries.lease": "the session that may write; NULL: none",
    "COLUMN jedi_registries.holder": "host and process of that session",
    "COLUMN jedi_registries.lease_until": "time after which another session may take the lease",
    "COLUMN jedi_registries.creationtime": "time of the record",
    "TABLE jedi_drafts": "jobs and templates of registries",
    "COLUMN jedi_drafts.guid": "the registry",
    "COLUMN jedi_drafts.kind": "job or template",
    "COLUMN jedi_drafts.id": "its id, from 0 on",
    "COLUMN jedi_drafts.status": "status of the job",
    "COLUMN jedi_drafts.name": "its name",
    "COLUMN jedi_drafts.comment": "the user's comment",
    "COLUMN jedi_drafts.version": "number of the present document",
    "COLUMN jedi_drafts.change": "the registry's number of the last change",
    "COLUMN jedi_drafts.submissions": "submissions so far",
    "COLUMN jedi_drafts.backend": "its backend: JEDI, Local",
    "COLUMN jedi_drafts.backend_id": "the backend's id, such as a task",
    "COLUMN jedi_drafts.backend_status": "the backend's status",
    "COLUMN jedi_drafts.cursor": "the state after which the backend's next changes come",
    "COLUMN jedi_drafts.complete": "all its input is cut",
    "COLUMN jedi_drafts.reason": "reason of its status",
    "COLUMN jedi_drafts.counts": "number of subjobs by status",
    "COLUMN jedi_drafts.created": "time of the record",
    "COLUMN jedi_drafts.submitted": "time of the submission",
    "COLUMN jedi_drafts.ended": "end",
    "COLUMN jedi_drafts.document": "the job as JSON",
    "TABLE jedi_removed_drafts": "ids of removed jobs and templates",
    "COLUMN jedi_removed_drafts.guid": "the registry",
    "COLUMN jedi_removed_drafts.kind": "job or template",
    "COLUMN jedi_removed_drafts.id": "its id",
    "COLUMN jedi_removed_drafts.change": "the registry's number of the change",
    "TABLE jedi_subjobs": "subjobs, as registries know them",
    "COLUMN jedi_subjobs.guid": "the registry",
    "COLUMN jedi_subjobs.job": "the job",
    "COLUMN jedi_subjobs.k": "number of the subjob, from 0 on",
    "COLUMN jedi_subjobs.status": "its status",
    "COLUMN jedi_subjobs.attempt": "number of its latest attempt",
    "COLUMN jedi_subjobs.panda_id": "PandaID of its latest attempt",
    "COLUMN jedi_subjobs.site": "site of its latest attempt",
    "COLUMN jedi_subjobs.exit_code": "exit code of its latest attempt",
    "COLUMN jedi_subjobs.reason": "reason of its status",
    "COLUMN jedi_subjobs.superseded": "its input was cut again: it counts no longer",
    "COLUMN jedi_subjobs.override": "its differences from the job as JSON",
    "TABLE jedi_folders": "folders of registries",
    "COLUMN jedi_folders.guid": "the registry",
    "COLUMN jedi_folders.path": "its path",
    "TABLE jedi_folder_jobs": "links from folders to jobs",
    "COLUMN jedi_folder_jobs.guid": "the registry",
    "COLUMN jedi_folder_jobs.path": "the folder",
    "COLUMN jedi_folder_jobs.job": "the job",
    "COLUMN jedi_folder_jobs.change": "the registry's number of the change",
    "COLUMN jedi_folder_jobs.place": "its place among the links of this change",
}


def upgrade() -> None:
    op.execute(ADDED)
    for on, meaning in COMMENTS.items():
        escaped = meaning.replace("'", "''")
        op.execute(f"COMMENT ON {on} IS '{escaped}'")


def downgrade() -> None:
    op.execute(REMOVED)
