-- Back from 0.2.0 to the tables of 0.1.0, whose moves follow. Rows that 0.1.0 can't have go.
UPDATE jedi_jobs SET substatus = NULL
WHERE substatus IN ('es_noevent', 'es_badstatus', 'jc_unlock');
DELETE FROM jedi_dataset_contents WHERE status = 'skipped';
DELETE FROM jedi_tokens WHERE kind = 'link';
DROP VIEW jedi_herd_members;
DROP TABLE jedi_audit, jedi_cache_files, jedi_consumers, jedi_drafts, jedi_event_zips,
  jedi_folder_jobs, jedi_folders, jedi_herds, jedi_identities, jedi_jobsets, jedi_registries,
  jedi_removed_drafts, jedi_requests, jedi_subjobs, jedi_submission_keys, jedi_superseded_jobs,
  jedi_units, job_stats_archived;
DROP SEQUENCE jedi_ziprow_id_seq;
ALTER TABLE ddm_datasets DROP CONSTRAINT ddm_datasets_state_ck, ADD CONSTRAINT ddm_datasets_state_ck
  CHECK (state = ANY (ARRAY['open', 'closed']));
DROP INDEX jedi_dataset_contents_datasetid_fileid_ix, jedi_dataset_contents_unit_ix;
ALTER TABLE jedi_dataset_contents DROP CONSTRAINT jedi_dataset_contents_reason_ck, DROP CONSTRAINT
  jedi_dataset_contents_status_ck, DROP COLUMN freeattempt, DROP COLUMN freeinrow, DROP COLUMN
  reason, ADD CONSTRAINT jedi_dataset_contents_status_ck CHECK (status = ANY (ARRAY['pending',
  'staging', 'waiting', 'ready', 'missing', 'lost', 'broken', 'picked', 'running', 'finished',
  'failed', 'partial', 'defined', 'prepared', 'merging', 'nooutput']));
ALTER TABLE jedi_dataset_contents SET (fillfactor = 45);
CREATE INDEX jedi_dataset_contents_datasetid_ix ON jedi_dataset_contents (datasetid);
DROP INDEX jedi_datasets_open_ix, jedi_datasets_unprocessed_ix, jedi_datasets_waiting_ix,
  jedi_datasets_wanting_ix;
ALTER TABLE jedi_datasets DROP CONSTRAINT jedi_datasets_status_ck, DROP COLUMN unprocessed, DROP
  COLUMN fed_upto, DROP COLUMN nleftout, ADD CONSTRAINT jedi_datasets_status_ck CHECK (status = ANY
  (ARRAY['defined', 'toupdate', 'pending', 'broken', 'ready', 'running', 'done', 'finished',
  'failed', 'removed', 'prepared']));
DROP INDEX jedi_events_jobset_ix, jedi_events_pandaid_ix, jedi_events_ready_ix;
ALTER TABLE jedi_events DROP COLUMN ready, DROP COLUMN jobsetid, DROP COLUMN endpoint, DROP COLUMN
  error_diag;
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid);
DROP INDEX jedi_jobs_ended_ix, jedi_jobs_live_ix, jedi_jobs_reported_ix, jedi_jobs_to_book_ix;
ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_sound_ck, DROP COLUMN to_book, DROP COLUMN booked,
  ADD CONSTRAINT jedi_jobs_finished_ck CHECK (status <> 'finished' OR postprocessed_at IS NOT NULL),
  ADD CONSTRAINT jedi_jobs_held_ck CHECK (hold_kind IS NULL OR CASE WHEN hold_kind =
  'manual_stage_in' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled']) WHEN
  hold_kind = 'manual_stage_out' THEN status = ANY (ARRAY['holding', 'transferring', 'merging'])
  WHEN hold_kind = 'failed_recoverable' THEN status = ANY (ARRAY['assigned', 'activated',
  'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging']) WHEN
  hold_kind = 'user_request' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent',
  'starting', 'running', 'holding', 'transferring', 'merging']) ELSE false END), ADD CONSTRAINT
  jedi_jobs_postprocessed_ck CHECK (postprocessed_at IS NULL OR (status = ANY (ARRAY['cancelled',
  'closed', 'failed', 'finished']))), ADD CONSTRAINT jedi_jobs_purged_ck CHECK (purged_at IS NULL OR
  (status = ANY (ARRAY['cancelled', 'closed', 'failed', 'finished']))), ADD CONSTRAINT
  jedi_jobs_status_ck CHECK (status = ANY (ARRAY['pending', 'waiting', 'defined', 'assigned',
  'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging',
  'finished', 'failed', 'cancelled', 'closed'])), ADD CONSTRAINT jedi_jobs_substatus_ck CHECK
  (substatus = ANY (ARRAY['merge_failed', 'merge_cancelled', 'merge_closed', 'pilot_failed',
  'es_heartbeat', 'es_merge_failed', 'es_retry', 'es_merge', 'es_wait', 'es_inaction', 'es_killed',
  'es_unused', 'es_aborted']));
CREATE INDEX jedi_jobs_live_ix ON jedi_jobs (jeditaskid) WHERE postprocessed_at IS NULL;
CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE pilot_result IS NOT NULL AND
  postprocessed_at IS NULL;
DROP INDEX jedi_jobs_archived_jeditaskid_pandaid_ix, jedi_jobs_archived_leaving_ix,
  jedi_jobs_archived_unsuccessful_ix, jedi_jobs_archived_username_pandaid_ix,
  jedi_jobs_archived_users_unsuccessful_ix;
ALTER TABLE jedi_jobs_archived DROP COLUMN booked;
ALTER TABLE jedi_sites DROP CONSTRAINT jedi_sites_status_ck, ADD CONSTRAINT jedi_sites_status_ck
  CHECK (status = ANY (ARRAY['online', 'standby', 'brokeroff', 'test', 'offline', 'paused']));
DROP INDEX jedi_tasks_children_ix, jedi_tasks_merging_ix, jedi_tasks_reason_ix;
ALTER TABLE jedi_tasks DROP CONSTRAINT jedi_tasks_status_ck, DROP COLUMN counted_upto, DROP COLUMN
  counted_jobs, DROP COLUMN counted_failed, DROP COLUMN figures, ADD CONSTRAINT jedi_tasks_status_ck
  CHECK (status = ANY (ARRAY['registered', 'defined', 'assigning', 'ready', 'pending', 'scouting',
  'scouted', 'running', 'prepared', 'done', 'failed', 'finished', 'aborting', 'toabort', 'aborted',
  'finishing', 'topreprocess', 'preprocessing', 'tobroken', 'broken', 'toretry', 'toincexec',
  'rerefine', 'paused', 'throttled', 'exhausted', 'passed', 'staging', 'staged', 'toreassign',
  'reassigning']));
ALTER TABLE jedi_tokens DROP CONSTRAINT jedi_tokens_scope_ck, DROP COLUMN name, DROP COLUMN scope,
  DROP COLUMN used_at;
ALTER TABLE jedi_users DROP CONSTRAINT jedi_users_notices_ck, DROP CONSTRAINT jedi_users_role_ck,
  DROP CONSTRAINT jedi_users_webhook_secret_ck, ADD CONSTRAINT jedi_users_notices_ck CHECK (notices
  = ANY (ARRAY['tasks', 'jobs'])), ADD CONSTRAINT jedi_users_role_ck CHECK (role = ANY
  (ARRAY['user', 'production', 'operator']));
ALTER TABLE job_stats DROP COLUMN since;
