-- From 0.1.0 to 0.2.0. A table that is rewritten is rewritten once.
CREATE OR REPLACE FUNCTION jedi_job_is_sound(status text, substatus text, hold_kind text, postprocessed_at timestamp with time zone, purged_at timestamp with time zone) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  broken text := CASE
    WHEN NOT (status IN ('pending', 'waiting', 'defined', 'assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled', 'closed')) THEN 'status'
    WHEN NOT (substatus IN ('merge_failed', 'merge_cancelled', 'merge_closed', 'pilot_failed', 'es_heartbeat', 'es_merge_failed', 'es_retry', 'es_merge', 'es_wait', 'es_inaction', 'es_noevent', 'es_badstatus', 'jc_unlock', 'es_killed', 'es_unused', 'es_aborted')) THEN 'substatus'
    WHEN NOT (hold_kind IS NULL OR CASE WHEN hold_kind = 'manual_stage_in' THEN status IN ('assigned', 'activated', 'throttled')
    WHEN hold_kind = 'manual_stage_out' THEN status IN ('holding', 'transferring', 'merging')
    WHEN hold_kind = 'failed_recoverable' THEN status IN ('assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging')
    WHEN hold_kind = 'user_request' THEN status IN ('assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging')
    ELSE false END) THEN 'held'
    WHEN NOT (status <> 'finished' OR postprocessed_at IS NOT NULL) THEN 'finished'
    WHEN NOT (postprocessed_at IS NULL OR status IN ('cancelled', 'closed', 'failed', 'finished')) THEN 'postprocessed'
    WHEN NOT (purged_at IS NULL OR status IN ('cancelled', 'closed', 'failed', 'finished')) THEN 'purged' END;
BEGIN
  IF broken IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = format('jedi_jobs_%s_ck', broken),
      MESSAGE = format('a row of jedi_jobs violates check constraint "jedi_jobs_%s_ck": status %s, '
        'substatus %s, hold_kind %s, postprocessed_at %s, purged_at %s', broken, status,
        substatus, hold_kind, postprocessed_at, purged_at);
  END IF;
  RETURN true;
END $$;
CREATE OR REPLACE FUNCTION jedi_job_to_book(kind text, status text, booked text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (kind IN ('consumer', 'co_jumbo', 'clone', 'fine') AND status IN ('holding', 'finished', 'failed', 'cancelled', 'closed')
      AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'es_merge' AND status IN ('finished', 'failed', 'cancelled', 'closed') AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL);
END $$;
CREATE SEQUENCE jedi_ziprow_id_seq CACHE 1;
CREATE TABLE jedi_audit (audit_id bigserial, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  username text NOT NULL, way text NOT NULL, operation text NOT NULL, subject text, arguments jsonb
  NOT NULL, address text, request_id text, CONSTRAINT jedi_audit_pk PRIMARY KEY (audit_id));
CREATE INDEX jedi_audit_time_ix ON jedi_audit (creationtime);
CREATE TABLE jedi_cache_files (filename text NOT NULL, username text NOT NULL, fsize bigint NOT
  NULL, crc32 bigint NOT NULL, data bytea NOT NULL, creationtime timestamptz NOT NULL DEFAULT
  jedi_now(), CONSTRAINT jedi_cache_files_pk PRIMARY KEY (filename));
CREATE INDEX jedi_cache_files_user_ix ON jedi_cache_files (username, fsize, crc32);
CREATE TABLE jedi_consumers (pandaid bigint NOT NULL, jeditaskid bigint NOT NULL, jobsetid bigint,
  kind text NOT NULL, number integer NOT NULL, settled_at timestamptz, request_id text, freeinrow
  smallint NOT NULL DEFAULT 0, CONSTRAINT jedi_consumers_pk PRIMARY KEY (pandaid));
CREATE INDEX jedi_consumers_jeditaskid_ix ON jedi_consumers (jeditaskid);
CREATE INDEX jedi_consumers_jobsetid_ix ON jedi_consumers (jobsetid);
CREATE INDEX jedi_consumers_jumbo_ix ON jedi_consumers (jeditaskid) WHERE jobsetid IS NULL;
CREATE INDEX jedi_consumers_live_ix ON jedi_consumers (jobsetid) WHERE settled_at IS NULL;
CREATE TABLE jedi_drafts (guid text NOT NULL, kind text NOT NULL, id bigint NOT NULL, status text
  NOT NULL DEFAULT 'new', name text NOT NULL, comment text NOT NULL, version bigint NOT NULL DEFAULT
  1, change bigint NOT NULL, submissions bigint NOT NULL DEFAULT 0, backend text, backend_id text,
  backend_status text, cursor text, complete boolean NOT NULL DEFAULT true, reason text, counts
  jsonb NOT NULL DEFAULT '{}', created timestamptz NOT NULL DEFAULT jedi_now(), submitted
  timestamptz, ended timestamptz, document text NOT NULL, CONSTRAINT jedi_drafts_pk PRIMARY KEY
  (guid, kind, id), CONSTRAINT jedi_drafts_kind_ck CHECK (kind = ANY ('{job,template}')), CONSTRAINT
  jedi_drafts_status_ck CHECK (status = ANY ('{new, submitting, submitted, running, completing,
  completed, failed, killed, unknown}')), CONSTRAINT jedi_drafts_template_ck CHECK (kind = 'job' OR
  status = 'new'));
CREATE INDEX jedi_drafts_change_ix ON jedi_drafts (guid, kind, change);
CREATE TABLE jedi_event_zips (ziprow_id bigint NOT NULL DEFAULT nextval('jedi_ziprow_id_seq'),
  jeditaskid bigint NOT NULL, jobsetid bigint, pandaid bigint NOT NULL, lfn text NOT NULL, endpoint
  text NOT NULL, fsize bigint, checksum text, n_events bigint NOT NULL DEFAULT 0, path_convention
  smallint, creationtime timestamptz NOT NULL DEFAULT jedi_now(), problems jsonb, CONSTRAINT
  jedi_event_zips_pk PRIMARY KEY (ziprow_id), CONSTRAINT jedi_event_zips_pandaid_uq UNIQUE (pandaid,
  lfn));
CREATE INDEX jedi_event_zips_jeditaskid_lfn_ix ON jedi_event_zips (jeditaskid, lfn);
CREATE INDEX jedi_event_zips_jobsetid_ix ON jedi_event_zips (jobsetid);
CREATE TABLE jedi_folder_jobs (guid text NOT NULL, path text NOT NULL, job bigint NOT NULL, change
  bigint NOT NULL, place integer NOT NULL, CONSTRAINT jedi_folder_jobs_pk PRIMARY KEY (guid, path,
  job));
CREATE INDEX jedi_folder_jobs_job_ix ON jedi_folder_jobs (guid, job);
CREATE TABLE jedi_folders (guid text NOT NULL, path text NOT NULL, CONSTRAINT jedi_folders_pk
  PRIMARY KEY (guid, path));
CREATE TABLE jedi_herds (jeditaskid bigint NOT NULL, originpandaid bigint NOT NULL, splitter text
  NOT NULL, after text NOT NULL, n_units integer, split_at timestamptz, CONSTRAINT jedi_herds_pk
  PRIMARY KEY (jeditaskid), CONSTRAINT jedi_herds_after_ck CHECK (after = ANY (ARRAY['refine',
  'contents'])));
CREATE UNIQUE INDEX jedi_herds_originpandaid_uq ON jedi_herds (originpandaid);
CREATE INDEX jedi_herds_unsplit_ix ON jedi_herds (jeditaskid) WHERE split_at IS NULL;
CREATE TABLE jedi_identities (username text NOT NULL, issuer text NOT NULL, subject text NOT NULL,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_identities_pk PRIMARY KEY
  (username));
CREATE TABLE jedi_jobsets (jobsetid bigint NOT NULL, jeditaskid bigint NOT NULL, merge_pandaid
  bigint NOT NULL, mode text NOT NULL, clone text, n_ranges integer NOT NULL, n_consumers integer
  NOT NULL, n_merges integer NOT NULL, attempts_left integer NOT NULL, jumbo boolean NOT NULL,
  priority integer NOT NULL, gshare text NOT NULL, resource_type text NOT NULL, cores integer NOT
  NULL, memory_mb integer NOT NULL, walltime_s integer NOT NULL, disk_mb integer NOT NULL, command
  text NOT NULL, texts jsonb, creationtime timestamptz NOT NULL DEFAULT jedi_now(), ended_at
  timestamptz, next_look_at timestamptz, wait_code text, wait_reason text, sites jsonb, CONSTRAINT
  jedi_jobsets_pk PRIMARY KEY (jobsetid), CONSTRAINT jedi_jobsets_clone_ck CHECK (clone = ANY
  (ARRAY['runonce', 'storeonce'])), CONSTRAINT jedi_jobsets_mode_ck CHECK (mode = ANY (ARRAY['es',
  'cloning', 'fine'])));
CREATE INDEX jedi_jobsets_jeditaskid_ix ON jedi_jobsets (jeditaskid);
CREATE INDEX jedi_jobsets_live_ix ON jedi_jobsets (jobsetid) WHERE ended_at IS NULL;
CREATE INDEX jedi_jobsets_look_ix ON jedi_jobsets (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX jedi_jobsets_merge_pandaid_ix ON jedi_jobsets (merge_pandaid);
CREATE TABLE jedi_registries (guid text NOT NULL, username text NOT NULL, name text NOT NULL, change
  bigint NOT NULL DEFAULT 0, next_job bigint NOT NULL DEFAULT 0, next_template bigint NOT NULL
  DEFAULT 0, lease text, holder text, lease_until timestamptz, creationtime timestamptz NOT NULL
  DEFAULT jedi_now(), CONSTRAINT jedi_registries_pk PRIMARY KEY (guid));
CREATE UNIQUE INDEX jedi_registries_owner_uq ON jedi_registries (username, name);
CREATE TABLE jedi_removed_drafts (guid text NOT NULL, kind text NOT NULL, id bigint NOT NULL, change
  bigint NOT NULL, CONSTRAINT jedi_removed_drafts_pk PRIMARY KEY (guid, kind, id));
CREATE INDEX jedi_removed_drafts_change_ix ON jedi_removed_drafts (guid, kind, change);
CREATE TABLE jedi_requests (request_key text NOT NULL, digest text NOT NULL, answer text,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_requests_pk PRIMARY KEY
  (request_key));
CREATE INDEX jedi_requests_time_ix ON jedi_requests (creationtime);
CREATE TABLE jedi_subjobs (guid text NOT NULL, job bigint NOT NULL, k integer NOT NULL, status text
  NOT NULL, attempt integer, panda_id bigint, site text, exit_code bigint, reason text, superseded
  boolean NOT NULL DEFAULT false, override text NOT NULL DEFAULT '{}', CONSTRAINT jedi_subjobs_pk
  PRIMARY KEY (guid, job, k), CONSTRAINT jedi_subjobs_status_ck CHECK (status = ANY ('{new,
  submitting, submitted, running, completing, completed, failed, killed, unknown}')));
CREATE TABLE jedi_submission_keys (username text NOT NULL, submission_key text NOT NULL, jeditaskid
  bigint, creationtime timestamptz NOT NULL DEFAULT jedi_now(), attemptnr integer NOT NULL DEFAULT
  1, CONSTRAINT jedi_submission_keys_pk PRIMARY KEY (username, submission_key));
CREATE TABLE jedi_superseded_jobs (pandaid bigint NOT NULL, jeditaskid bigint NOT NULL,
  superseded_at timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_superseded_jobs_pk PRIMARY
  KEY (pandaid));
CREATE INDEX jedi_superseded_jobs_jeditaskid_ix ON jedi_superseded_jobs (jeditaskid);
CREATE TABLE jedi_units (jeditaskid bigint NOT NULL, unit_nr integer NOT NULL, originpandaid bigint
  NOT NULL, options jsonb NOT NULL, files jsonb, refusal text, killed_at timestamptz, superseded
  text, CONSTRAINT jedi_units_pk PRIMARY KEY (jeditaskid, unit_nr), CONSTRAINT
  jedi_units_superseded_ck CHECK (superseded = ANY (ARRAY['completed', 'failed', 'killed'])));
CREATE UNIQUE INDEX jedi_units_originpandaid_uq ON jedi_units (originpandaid);
CREATE TABLE job_stats_archived (jeditaskid bigint NOT NULL, kind text NOT NULL, status text NOT
  NULL, site text NOT NULL, is_first boolean NOT NULL, cause jsonb NOT NULL, jobs bigint NOT NULL
  DEFAULT 0, purged bigint NOT NULL DEFAULT 0, limited boolean NOT NULL, walltime_s integer NOT
  NULL, memory_mb integer NOT NULL, disk_mb integer NOT NULL, wall_s double precision,
  used_memory_kb bigint, used_disk_kb bigint, last_job bigint NOT NULL, first_seen timestamptz,
  last_seen timestamptz, CONSTRAINT job_stats_archived_pk PRIMARY KEY (jeditaskid, kind, status,
  site, is_first, cause));
CREATE VIEW jedi_herd_members AS
SELECT h.jeditaskid, u.unit_nr, coalesce(u.originpandaid, h.originpandaid) AS originpandaid,
  h.originpandaid AS masterjobid, CASE WHEN h.split_at IS NULL THEN 'WillSplit'
    WHEN u.originpandaid = h.originpandaid THEN 'Splitted' ELSE 'Single' END AS jobsplittype,
  lpad((u.unit_nr - 1)::text, length(h.n_units::text), '0') AS splitid, u.options
FROM jedi_herds h LEFT JOIN jedi_units u USING (jeditaskid);
ALTER TABLE ddm_datasets DROP CONSTRAINT ddm_datasets_state_ck, ADD CONSTRAINT ddm_datasets_state_ck
  CHECK (state = ANY ('{open,closed}'));
ALTER TABLE jedi_dataset_contents DROP CONSTRAINT jedi_dataset_contents_status_ck, ADD COLUMN
  freeattempt smallint NOT NULL DEFAULT 0, ADD COLUMN freeinrow smallint NOT NULL DEFAULT 0, ADD
  COLUMN reason text, ADD CONSTRAINT jedi_dataset_contents_reason_ck CHECK ((status = 'skipped') =
  (reason IS NOT NULL)), ADD CONSTRAINT jedi_dataset_contents_status_ck CHECK (status = ANY
  ('{pending, staging, waiting, ready, missing, lost, broken, picked, running, finished, failed,
  partial, skipped, defined, prepared, merging, nooutput}'));
ALTER TABLE jedi_dataset_contents SET (fillfactor = 40);
DROP INDEX jedi_dataset_contents_datasetid_ix;
CREATE INDEX jedi_dataset_contents_datasetid_fileid_ix ON jedi_dataset_contents (datasetid, fileid);
CREATE INDEX jedi_dataset_contents_unit_ix ON jedi_dataset_contents (datasetid, boundaryid) WHERE
  boundaryid IS NOT NULL;
ALTER TABLE jedi_datasets DROP CONSTRAINT jedi_datasets_status_ck, ADD COLUMN unprocessed boolean
  GENERATED ALWAYS AS ((masterid IS NULL) AND (type = ANY ('{input,pseudo_input}')) AND ((status =
  ANY ('{defined,toupdate,pending}')) OR ((status = ANY ('{ready,running}')) AND (((nfilesfinished +
  nfilesfailed) + nfilesmissing) < nfilestobeused)))) STORED, ADD COLUMN fed_upto text, ADD COLUMN
  nleftout bigint NOT NULL DEFAULT 0, ADD CONSTRAINT jedi_datasets_status_ck CHECK (status = ANY
  ('{defined, toupdate, pending, broken, ready, running, done, finished, failed, removed,
  prepared}'));
CREATE INDEX jedi_datasets_open_ix ON jedi_datasets (statechecktime) WHERE type = 'input' AND status
  = 'running' AND datasetid > 0;
CREATE INDEX jedi_datasets_unprocessed_ix ON jedi_datasets (jeditaskid) WHERE unprocessed;
CREATE INDEX jedi_datasets_waiting_ix ON jedi_datasets (jeditaskid) WHERE nfileswaiting > 0;
CREATE INDEX jedi_datasets_wanting_ix ON jedi_datasets (jeditaskid) WHERE masterid IS NULL AND
  (status = ANY (ARRAY['ready', 'running'])) AND nfilestobeused > (nfilesused + nfilesmissing);
ALTER TABLE jedi_events ADD COLUMN jobsetid bigint, ADD COLUMN endpoint text, ADD COLUMN error_diag
  text, ADD COLUMN ready boolean GENERATED ALWAYS AS ((status = 0) AND (jobsetid IS NOT NULL))
  STORED;
DROP INDEX jedi_events_pandaid_ix;
CREATE INDEX jedi_events_jobset_ix ON jedi_events (jobsetid, fileid, job_processid) WHERE jobsetid
  IS NOT NULL;
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid) WHERE job_processid = 0;
CREATE INDEX jedi_events_ready_ix ON jedi_events (jeditaskid, jobsetid, fileid, job_processid) WHERE
  ready;
ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_finished_ck, DROP CONSTRAINT jedi_jobs_held_ck, DROP
  CONSTRAINT jedi_jobs_postprocessed_ck, DROP CONSTRAINT jedi_jobs_purged_ck, DROP CONSTRAINT
  jedi_jobs_status_ck, DROP CONSTRAINT jedi_jobs_substatus_ck, ADD COLUMN booked text, ADD COLUMN
  to_book boolean GENERATED ALWAYS AS ((kind <> 'normal') AND jedi_job_to_book(kind, status,
  booked)) STORED, ADD CONSTRAINT jedi_jobs_sound_ck CHECK (hold_kind IS NULL AND substatus IS NULL
  AND purged_at IS NULL AND (status = 'finished') = (postprocessed_at IS NOT NULL) AND (status = ANY
  ('{activated,sent,running,holding,finished}')) OR jedi_job_is_sound(status, substatus, hold_kind,
  postprocessed_at, purged_at));
DROP INDEX jedi_jobs_live_ix, jedi_jobs_reported_ix;
CREATE INDEX jedi_jobs_ended_ix ON jedi_jobs (jeditaskid, pandaid) WHERE postprocessed_at IS NOT
  NULL;
CREATE INDEX jedi_jobs_live_ix ON jedi_jobs (jeditaskid, pandaid) WHERE postprocessed_at IS NULL;
CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE pilot_result IS NOT NULL AND
  postprocessed_at IS NULL AND (kind <> ALL (ARRAY['consumer', 'co_jumbo', 'jumbo', 'clone',
  'fine']));
CREATE INDEX jedi_jobs_to_book_ix ON jedi_jobs (pandaid) WHERE to_book;
ALTER TABLE jedi_jobs_archived ADD COLUMN booked text;
CREATE INDEX jedi_jobs_archived_jeditaskid_pandaid_ix ON jedi_jobs_archived (jeditaskid, pandaid);
CREATE INDEX jedi_jobs_archived_leaving_ix ON jedi_jobs_archived (jeditaskid) WHERE retention IS NOT
  NULL AND purged_at IS NULL;
CREATE INDEX jedi_jobs_archived_unsuccessful_ix ON jedi_jobs_archived (jeditaskid, pandaid) WHERE
  status <> 'finished';
CREATE INDEX jedi_jobs_archived_username_pandaid_ix ON jedi_jobs_archived (username, pandaid);
CREATE INDEX jedi_jobs_archived_users_unsuccessful_ix ON jedi_jobs_archived (username, pandaid)
  WHERE status <> 'finished';
ALTER TABLE jedi_sites DROP CONSTRAINT jedi_sites_status_ck, ADD CONSTRAINT jedi_sites_status_ck
  CHECK (status = ANY ('{online,standby,brokeroff,test,offline,paused}'));
ALTER TABLE jedi_tasks DROP CONSTRAINT jedi_tasks_status_ck, ADD COLUMN counted_upto bigint NOT NULL
  DEFAULT 0, ADD COLUMN counted_jobs bigint NOT NULL DEFAULT 0, ADD COLUMN counted_failed bigint NOT
  NULL DEFAULT 0, ADD COLUMN figures jsonb, ADD CONSTRAINT jedi_tasks_status_ck CHECK (status = ANY
  ('{registered, defined, assigning, ready, pending, scouting, scouted, running, prepared, done,
  failed, finished, aborting, toabort, aborted, finishing, topreprocess, preprocessing, tobroken,
  broken, toretry, toincexec, rerefine, paused, throttled, exhausted, passed, staging, staged,
  toreassign, reassigning}'));
CREATE INDEX jedi_tasks_children_ix ON jedi_tasks (parent_tid) WHERE parent_tid <> jeditaskid AND
  (status <> ALL (ARRAY['aborted', 'broken', 'done', 'failed', 'finished']));
CREATE INDEX jedi_tasks_merging_ix ON jedi_tasks (status) WHERE rules @> '{"merge_output": true}';
CREATE INDEX jedi_tasks_reason_ix ON jedi_tasks (status, reason_code, workqueue_id, statechangetime)
  WHERE status <> ALL (ARRAY['aborted', 'broken', 'done', 'failed', 'finished']);
ALTER TABLE jedi_tokens ADD COLUMN name text, ADD COLUMN scope text, ADD COLUMN used_at timestamptz,
  ADD CONSTRAINT jedi_tokens_scope_ck CHECK (scope = ANY ('{read,submit,all}'));
ALTER TABLE jedi_users DROP CONSTRAINT jedi_users_notices_ck, DROP CONSTRAINT jedi_users_role_ck,
  ADD CONSTRAINT jedi_users_notices_ck CHECK (notices = ANY ('{tasks,jobs}')), ADD CONSTRAINT
  jedi_users_role_ck CHECK (role = ANY ('{user,production,operator}')), ADD CONSTRAINT
  jedi_users_webhook_secret_ck CHECK (NOT starts_with(webhook_secret, 'whsec_'));
ALTER TABLE job_stats ADD COLUMN since timestamptz;

-- What 0.1.0 kept elsewhere, or not at all: finished jobs whose outputs are lost, keys of
-- submissions, archived jobs in groups. Cloud WORLD is no place.
INSERT INTO jedi_superseded_jobs (pandaid, jeditaskid)
SELECT DISTINCT f.pandaid, f.jeditaskid
FROM (SELECT pandaid, fileid, jeditaskid, type FROM jedi_job_files UNION ALL
      SELECT pandaid, fileid, jeditaskid, type FROM jedi_job_files_archived) f
  JOIN (SELECT pandaid, status FROM jedi_jobs UNION ALL
        SELECT pandaid, status FROM jedi_jobs_archived) j USING (pandaid)
  JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  JOIN jedi_lost_files l ON l.fileid = c.fileid AND l.jeditaskid = c.jeditaskid
WHERE f.type = 'output' AND c.type <> 'log' AND j.status = 'finished';
INSERT INTO jedi_submission_keys (username, submission_key, jeditaskid, creationtime)
SELECT username, idempotency_key, jeditaskid, creationdate FROM jedi_tasks
WHERE idempotency_key IS NOT NULL;
INSERT INTO job_stats_archived
SELECT jeditaskid, kind, status, site, attemptnr = 1, CASE status WHEN 'failed' THEN
  jsonb_build_array(error_code, error_source, exit_code) ELSE '[]' END, count(*), count(purged_at),
  bool_or(retention IS NOT NULL OR purged_at IS NOT NULL), max(walltime_s), max(memory_mb),
  max(disk_mb), max(wall_s), max(coalesce(max_pss_kb, max_rss_kb)), max(workdir_kb), max(pandaid),
  min(statechangetime), max(statechangetime)
FROM jedi_jobs_archived GROUP BY 1, 2, 3, 4, 5, 6;
UPDATE jedi_tasks SET cloud = NULL WHERE cloud = 'WORLD';

-- The moves that 0.2.0 allows.
CREATE OR REPLACE FUNCTION jedi_job_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ('activated>cancelled', 'activated>closed', 'activated>failed', 'activated>sent', 'activated>throttled', 'assigned>activated', 'assigned>cancelled', 'assigned>closed', 'assigned>failed', 'defined>activated', 'defined>assigned', 'defined>cancelled', 'defined>closed', 'defined>failed', 'holding>cancelled', 'holding>closed', 'holding>failed', 'holding>finished', 'holding>merging', 'holding>transferring', 'merging>cancelled', 'merging>closed', 'merging>failed', 'merging>finished', 'pending>activated', 'pending>assigned', 'pending>cancelled', 'pending>closed', 'pending>defined', 'pending>failed', 'running>cancelled', 'running>closed', 'running>failed', 'running>holding', 'sent>cancelled', 'sent>closed', 'sent>failed', 'sent>holding', 'sent>running', 'sent>starting', 'starting>cancelled', 'starting>closed', 'starting>failed', 'starting>holding', 'starting>running', 'throttled>activated', 'throttled>cancelled', 'throttled>closed', 'throttled>failed', 'transferring>cancelled', 'transferring>closed', 'transferring>failed', 'transferring>finished', 'transferring>merging', 'waiting>activated', 'waiting>assigned', 'waiting>cancelled', 'waiting>closed', 'waiting>defined', 'waiting>failed', 'waiting>finished');
END $$;
CREATE OR REPLACE FUNCTION jedi_input_file_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ('broken>ready', 'failed>ready', 'finished>failed', 'finished>ready', 'lost>ready', 'missing>ready', 'pending>broken', 'pending>failed', 'pending>lost', 'pending>missing', 'pending>ready', 'pending>staging', 'ready>broken', 'ready>failed', 'ready>lost', 'ready>missing', 'ready>running', 'ready>waiting', 'running>broken', 'running>failed', 'running>finished', 'running>missing', 'running>ready', 'staging>failed', 'staging>lost', 'staging>pending', 'staging>ready', 'waiting>failed', 'waiting>lost', 'waiting>ready');
END $$;
CREATE OR REPLACE FUNCTION jedi_output_file_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ('defined>failed', 'defined>finished', 'defined>merging', 'defined>nooutput', 'defined>prepared', 'defined>running', 'finished>failed', 'merging>failed', 'merging>finished', 'merging>nooutput', 'merging>prepared', 'prepared>failed', 'prepared>finished', 'running>failed', 'running>finished', 'running>nooutput', 'running>prepared');
END $$;
CREATE OR REPLACE TRIGGER guard_input_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH
  ROW WHEN (old.status <> new.status AND (old.type = ANY ('{input, pseudo_input, random_seed,
  pp_input, in_constituent, trn_log, trn_output}')) AND (((old.status || '>') || new.status) <> ALL
  ('{ready>running,running>finished,running>ready}')) AND NOT jedi_input_file_may_move(old.status,
  new.status)) EXECUTE FUNCTION jedi_refuse_move('input file');
CREATE OR REPLACE TRIGGER guard_output_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH
  ROW WHEN (old.status <> new.status AND (old.type <> ALL ('{input, pseudo_input, random_seed,
  pp_input, in_constituent, trn_log, trn_output}')) AND (((old.status || '>') || new.status) <> ALL
  ('{defined>running,running>finished,defined>finished}')) AND NOT
  jedi_output_file_may_move(old.status, new.status)) EXECUTE FUNCTION
  jedi_refuse_move('output file');
CREATE OR REPLACE TRIGGER guard_input_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW
  WHEN (old.status <> new.status AND (old.type = ANY ('{input, pseudo_input, random_seed, pp_input,
  in_constituent, trn_log, trn_output}')) AND (((old.status || '>') || new.status) <> ALL
  ('{broken>defined, broken>toupdate, defined>broken, defined>done, defined>pending, defined>ready,
  defined>removed, defined>running, done>defined, done>ready, done>running, done>toupdate,
  failed>defined, failed>ready, failed>running, failed>toupdate, finished>defined, finished>ready,
  finished>running, finished>toupdate, pending>broken, pending>done, pending>ready, pending>removed,
  pending>running, ready>defined, ready>done, ready>failed, ready>finished, ready>running,
  ready>toupdate, removed>toupdate, running>broken, running>defined, running>done, running>failed,
  running>finished, running>ready, running>toupdate, toupdate>broken, toupdate>done,
  toupdate>pending, toupdate>ready, toupdate>removed, toupdate>running}'))) EXECUTE FUNCTION
  jedi_refuse_move('input dataset');
CREATE OR REPLACE TRIGGER guard_output_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW
  WHEN (old.status <> new.status AND (old.type <> ALL ('{input, pseudo_input, random_seed, pp_input,
  in_constituent, trn_log, trn_output}')) AND (((old.status || '>') || new.status) <> ALL
  ('{defined>prepared, defined>ready, done>ready, failed>ready, finished>ready, prepared>done,
  prepared>failed, prepared>finished, prepared>ready, ready>prepared, ready>running,
  running>prepared}'))) EXECUTE FUNCTION jedi_refuse_move('output dataset');
CREATE OR REPLACE TRIGGER guard_event_range AFTER UPDATE OF status ON jedi_events FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL ('{0>6, 0>1, 1>3, 3>6,
  6>9, 10>4, 10>8, 6>10, 6>5, 7>4, 7>8, 3>5, 0>4, 0>7, 0>8, 0>3, 2>4, 2>7, 2>3, 2>0, 1>4, 1>7, 1>0,
  1>2}'))) EXECUTE FUNCTION jedi_refuse_move('event range');
CREATE OR REPLACE TRIGGER guard_job AFTER UPDATE OF status ON jedi_jobs FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL ('{activated>sent,
  sent>starting, starting>running, sent>running, running>holding, holding>finished}')) AND NOT
  jedi_job_may_move(old.status, new.status)) EXECUTE FUNCTION jedi_refuse_move('job');
CREATE OR REPLACE TRIGGER guard_task AFTER UPDATE OF status ON jedi_tasks FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL ('{aborted>toincexec,
  aborted>toretry, aborting>toabort, assigning>aborting, assigning>exhausted, assigning>finishing,
  assigning>paused, assigning>ready, assigning>toabort, assigning>toreassign, defined>aborting,
  defined>assigning, defined>exhausted, defined>finishing, defined>paused, defined>pending,
  defined>ready, defined>toabort, defined>tobroken, defined>toreassign, done>registered,
  done>toincexec, done>toretry, exhausted>aborting, exhausted>finishing, exhausted>paused,
  exhausted>registered, exhausted>running, exhausted>scouting, exhausted>toabort,
  exhausted>toincexec, exhausted>toreassign, exhausted>toretry, failed>toincexec, failed>toretry,
  finished>registered, finished>toincexec, finished>toretry, finishing>aborting, finishing>passed,
  finishing>registered, finishing>toabort, passed>aborting, passed>done, passed>failed,
  passed>finished, passed>registered, paused>aborting, paused>assigning, paused>defined,
  paused>exhausted, paused>finishing, paused>pending, paused>prepared, paused>preprocessing,
  paused>ready, paused>registered, paused>rerefine, paused>running, paused>scouted, paused>scouting,
  paused>staged, paused>staging, paused>throttled, paused>toabort, paused>topreprocess,
  pending>aborting, pending>defined, pending>exhausted, pending>finishing, pending>paused,
  pending>preprocessing, pending>ready, pending>registered, pending>rerefine, pending>running,
  pending>scouting, pending>toabort, pending>topreprocess, pending>toreassign, prepared>done,
  prepared>exhausted, prepared>failed, prepared>finished, prepared>paused, prepared>registered,
  preprocessing>aborting, preprocessing>finishing, preprocessing>paused, preprocessing>pending,
  preprocessing>prepared, preprocessing>registered, preprocessing>toabort, ready>aborting,
  ready>defined, ready>exhausted, ready>finishing, ready>paused, ready>pending, ready>prepared,
  ready>running, ready>scouting, ready>throttled, ready>toabort, ready>toreassign,
  reassigning>aborting, reassigning>assigning, reassigning>defined, reassigning>exhausted,
  reassigning>finishing, reassigning>pending, reassigning>ready, reassigning>running,
  reassigning>scouted, reassigning>scouting, reassigning>toabort, registered>aborting,
  registered>defined, registered>exhausted, registered>finishing, registered>paused,
  registered>pending, registered>staging, registered>toabort, registered>tobroken,
  registered>topreprocess, rerefine>aborting, rerefine>defined, rerefine>finishing, rerefine>paused,
  rerefine>pending, rerefine>toabort, rerefine>tobroken, running>aborting, running>defined,
  running>exhausted, running>finishing, running>paused, running>pending, running>prepared,
  running>throttled, running>toabort, running>toreassign, scouted>aborting, scouted>finishing,
  scouted>paused, scouted>running, scouted>toabort, scouted>toreassign, scouting>aborting,
  scouting>defined, scouting>exhausted, scouting>finishing, scouting>paused, scouting>pending,
  scouting>prepared, scouting>scouted, scouting>throttled, scouting>toabort, scouting>tobroken,
  scouting>toreassign, staged>aborting, staged>defined, staged>finishing, staged>paused,
  staged>toabort, staged>tobroken, staged>topreprocess, staging>aborting, staging>finishing,
  staging>paused, staging>staged, staging>toabort, throttled>aborting, throttled>finishing,
  throttled>paused, throttled>prepared, throttled>ready, throttled>running, throttled>scouting,
  throttled>toabort, toabort>aborted, tobroken>aborting, tobroken>broken, toincexec>aborting,
  toincexec>finishing, toincexec>rerefine, toincexec>toabort, topreprocess>aborting,
  topreprocess>finishing, topreprocess>paused, topreprocess>pending, topreprocess>preprocessing,
  topreprocess>toabort, toreassign>aborting, toreassign>finishing, toreassign>reassigning,
  toreassign>toabort, toretry>aborting, toretry>defined, toretry>done, toretry>exhausted,
  toretry>failed, toretry>finished, toretry>finishing, toretry>ready, toretry>registered,
  toretry>toabort}'))) EXECUTE FUNCTION jedi_refuse_move('task');
