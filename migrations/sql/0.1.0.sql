-- The schema of 0.1.0: clock, sequences, tables, views. Their comments are those of tables.py.
CREATE OR REPLACE FUNCTION jedi_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('jedi.now', true), '')::timestamptz, now()) $$;
CREATE SEQUENCE jedi_dataset_id_seq CACHE 1;
CREATE SEQUENCE jedi_file_id_seq CACHE 1000;
CREATE SEQUENCE jedi_out_temp_id_seq CACHE 1;
CREATE SEQUENCE jedi_panda_id_seq CACHE 1;
CREATE SEQUENCE jedi_task_id_seq CACHE 1;
CREATE TABLE ddm_datasets (dataset_id bigserial, name text NOT NULL, state text NOT NULL,
  is_container boolean NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT
  ddm_datasets_pk PRIMARY KEY (dataset_id), CONSTRAINT ddm_datasets_name_uq UNIQUE (name),
  CONSTRAINT ddm_datasets_state_ck CHECK (state = ANY (ARRAY['open', 'closed'])));
CREATE TABLE ddm_files (file_id bigserial, dataset_id bigint NOT NULL, lfn text NOT NULL, size
  bigint NOT NULL, adler32 text NOT NULL, guid text NOT NULL, nevents bigint, boundary bigint,
  lumiblock integer, CONSTRAINT ddm_files_pk PRIMARY KEY (file_id), CONSTRAINT
  ddm_files_dataset_id_uq UNIQUE (dataset_id, lfn), CONSTRAINT ddm_files_dataset_id_fk FOREIGN KEY
  (dataset_id) REFERENCES ddm_datasets(dataset_id) ON DELETE CASCADE);
CREATE TABLE ddm_members (container_id bigint NOT NULL, member text NOT NULL, position integer NOT
  NULL, CONSTRAINT ddm_members_pk PRIMARY KEY (container_id, member), CONSTRAINT
  ddm_members_container_id_fk FOREIGN KEY (container_id) REFERENCES ddm_datasets(dataset_id) ON
  DELETE CASCADE);
CREATE TABLE ddm_replicas (file_id bigint NOT NULL, endpoint text NOT NULL, expires_at timestamptz,
  CONSTRAINT ddm_replicas_pk PRIMARY KEY (file_id, endpoint), CONSTRAINT ddm_replicas_file_id_fk
  FOREIGN KEY (file_id) REFERENCES ddm_files(file_id) ON DELETE CASCADE);
CREATE INDEX ddm_replicas_expires_at_ix ON ddm_replicas (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE jedi_acquire_requests (request_id text NOT NULL, site text NOT NULL, pandaids bigint[]
  NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT
  jedi_acquire_requests_pk PRIMARY KEY (request_id));
CREATE INDEX jedi_acquire_requests_creationtime_ix ON jedi_acquire_requests (creationtime);
CREATE TABLE jedi_agents (agent text NOT NULL, process text NOT NULL, starttime timestamptz NOT NULL
  DEFAULT jedi_now(), heartbeat_at timestamptz, cycles bigint NOT NULL DEFAULT 0, items bigint NOT
  NULL DEFAULT 0, last_error text, rss_kb bigint, CONSTRAINT jedi_agents_pk PRIMARY KEY (agent,
  process));
CREATE TABLE jedi_broker_decisions (decision_id bigserial, jeditaskid bigint NOT NULL, broker text
  NOT NULL, snapshot_hash text, seed bigint NOT NULL, knobs jsonb NOT NULL, outcome text NOT NULL,
  chosen text[] NOT NULL, weights double precision[] NOT NULL, need jsonb NOT NULL, creationtime
  timestamptz NOT NULL DEFAULT jedi_now(), used text[] NOT NULL DEFAULT '{}', CONSTRAINT
  jedi_broker_decisions_pk PRIMARY KEY (decision_id));
CREATE INDEX jedi_broker_decisions_creationtime_ix ON jedi_broker_decisions (creationtime);
CREATE INDEX jedi_broker_decisions_jeditaskid_decision_id_ix ON jedi_broker_decisions (jeditaskid,
  decision_id);
CREATE INDEX jedi_broker_decisions_snapshot_hash_ix ON jedi_broker_decisions (snapshot_hash);
CREATE TABLE jedi_broker_reasons (decision_id bigint NOT NULL, site text NOT NULL, codes text[] NOT
  NULL, observed double precision[] NOT NULL, limits double precision[] NOT NULL, CONSTRAINT
  jedi_broker_reasons_pk PRIMARY KEY (decision_id, site));
CREATE TABLE jedi_commands (command_id bigserial, jeditaskid bigint NOT NULL, command text NOT NULL,
  arguments jsonb NOT NULL DEFAULT '{}', username text NOT NULL, comment text, creationtime
  timestamptz NOT NULL DEFAULT jedi_now(), acknowledged_at timestamptz, outcome text, message text,
  retry_at timestamptz, CONSTRAINT jedi_commands_pk PRIMARY KEY (command_id));
CREATE INDEX jedi_commands_jeditaskid_ix ON jedi_commands (jeditaskid);
CREATE INDEX jedi_commands_open_ix ON jedi_commands (command_id) WHERE acknowledged_at IS NULL;
CREATE TABLE jedi_dataset_contents (fileid bigint NOT NULL DEFAULT nextval('jedi_file_id_seq'),
  datasetid bigint NOT NULL, jeditaskid bigint NOT NULL, creationdate timestamptz NOT NULL DEFAULT
  jedi_now(), lastattempttime timestamptz, lfn text NOT NULL, guid text, type text NOT NULL, fsize
  bigint, checksum text, scope text, status text NOT NULL, attemptnr smallint NOT NULL DEFAULT 0,
  maxattempt smallint, nevents bigint, keeptrack smallint, startevent bigint, endevent bigint,
  firstevent bigint, boundaryid bigint, pandaid bigint, failedattempt smallint NOT NULL DEFAULT 0,
  lumiblocknr integer, outpandaid bigint, maxfailure smallint, is_waiting text, jobsetid bigint,
  proc_status text, ramcount integer, ready boolean GENERATED ALWAYS AS (status = 'ready') STORED,
  CONSTRAINT jedi_dataset_contents_pk PRIMARY KEY (fileid, jeditaskid), CONSTRAINT
  jedi_dataset_contents_lfn_ck CHECK (length(lfn) <= 256), CONSTRAINT
  jedi_dataset_contents_status_ck CHECK (status = ANY (ARRAY['pending', 'staging', 'waiting',
  'ready', 'missing', 'lost', 'broken', 'picked', 'running', 'finished', 'failed', 'partial',
  'defined', 'prepared', 'merging', 'nooutput']))) WITH (autovacuum_analyze_scale_factor=0.05,
  autovacuum_vacuum_scale_factor=0.05, fillfactor=45);
CREATE INDEX jedi_dataset_contents_datasetid_ix ON jedi_dataset_contents (datasetid);
CREATE INDEX jedi_dataset_contents_jeditaskid_datasetid_ix ON jedi_dataset_contents (jeditaskid,
  datasetid);
CREATE INDEX jedi_dataset_contents_lfn_ix ON jedi_dataset_contents (lfn) WHERE type = ANY
  (ARRAY['output', 'log']);
CREATE INDEX jedi_dataset_contents_ready_ix ON jedi_dataset_contents (datasetid, fileid) WHERE
  ready;
CREATE TABLE jedi_datasets (datasetid bigint NOT NULL DEFAULT nextval('jedi_dataset_id_seq'),
  datasetname text NOT NULL, containername text, jeditaskid bigint NOT NULL, masterid bigint,
  provenanceid bigint, state text, statechecktime timestamptz, statecheckexpiration timestamptz,
  nfiles bigint NOT NULL DEFAULT 0, nfilestobeused bigint NOT NULL DEFAULT 0, nfilesused bigint NOT
  NULL DEFAULT 0, nfilesfinished bigint NOT NULL DEFAULT 0, nfilesfailed bigint NOT NULL DEFAULT 0,
  nfilesonhold bigint NOT NULL DEFAULT 0, nevents bigint, neventstobeused bigint, neventsused
  bigint, status text NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(), frozentime timestamptz, type text NOT
  NULL, vo text, cloud text, site text, lockedby text, lockedtime timestamptz, attributes text,
  streamname text, storagetoken text, destination text, templateid bigint, nfileswaiting bigint NOT
  NULL DEFAULT 0, nfilesmissing bigint NOT NULL DEFAULT 0, CONSTRAINT jedi_datasets_pk PRIMARY KEY
  (datasetid, jeditaskid), CONSTRAINT jedi_datasets_status_ck CHECK (status = ANY (ARRAY['defined',
  'toupdate', 'pending', 'broken', 'ready', 'running', 'done', 'finished', 'failed', 'removed',
  'prepared']))) WITH (fillfactor=70);
CREATE INDEX jedi_datasets_container_ix ON jedi_datasets (containername, type) WHERE containername
  IS NOT NULL;
CREATE INDEX jedi_datasets_datasetname_type_ix ON jedi_datasets (datasetname, type);
CREATE INDEX jedi_datasets_jeditaskid_ix ON jedi_datasets (jeditaskid);
CREATE INDEX jedi_datasets_locked_ix ON jedi_datasets (lockedtime) WHERE lockedby IS NOT NULL;
CREATE INDEX jedi_datasets_statecheck_ix ON jedi_datasets (statechecktime) WHERE
  statecheckexpiration IS NOT NULL;
CREATE TABLE jedi_datasets_statuslog (log_id bigserial, fromstatus text, status text NOT NULL,
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(), agent text, reason_code text, reason
  text, datasetid bigint NOT NULL, jeditaskid bigint NOT NULL, CONSTRAINT jedi_datasets_statuslog_pk
  PRIMARY KEY (log_id));
CREATE INDEX jedi_datasets_statuslog_jeditaskid_ix ON jedi_datasets_statuslog (jeditaskid);
CREATE TABLE jedi_ddm_endpoints (ddm_endpoint text NOT NULL, site text, token text, type text NOT
  NULL DEFAULT 'DATADISK', path text, is_tape boolean NOT NULL DEFAULT false, space_total double
  precision, space_free double precision, space_used double precision, space_expired double
  precision, space_min_free double precision, space_unavailable double precision, space_timestamp
  timestamptz, detailed_status jsonb NOT NULL DEFAULT '{}', CONSTRAINT jedi_ddm_endpoints_pk PRIMARY
  KEY (ddm_endpoint));
CREATE TABLE jedi_events (jeditaskid bigint NOT NULL, datasetid bigint NOT NULL, fileid bigint NOT
  NULL, status smallint NOT NULL, pandaid bigint NOT NULL, job_processid bigint NOT NULL,
  def_min_eventid bigint, def_max_eventid bigint, processed_upto_eventid bigint, attemptnr smallint
  NOT NULL, objstore_id integer, event_offset bigint, is_jumbo smallint, ziprow_id bigint,
  file_not_deleted text, error_code integer, path_convention smallint, CONSTRAINT jedi_events_pk
  PRIMARY KEY (jeditaskid, pandaid, fileid, job_processid, attemptnr), CONSTRAINT
  jedi_events_status_ck CHECK (status >= 0 AND status <= 10));
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid);
CREATE TABLE jedi_job_files (pandaid bigint NOT NULL, fileid bigint NOT NULL, jeditaskid bigint NOT
  NULL, datasetid bigint NOT NULL, type text NOT NULL, lfn text NOT NULL, source_name text, endpoint
  text, fsize bigint, checksum text, guid text, n_events bigint, start_event bigint, end_event
  bigint, problem text, CONSTRAINT jedi_job_files_pk PRIMARY KEY (pandaid, fileid, jeditaskid)) WITH
  (fillfactor=45);
CREATE TABLE jedi_job_files_archived (pandaid bigint NOT NULL, fileid bigint NOT NULL, jeditaskid
  bigint NOT NULL, datasetid bigint NOT NULL, type text NOT NULL, lfn text NOT NULL, source_name
  text, endpoint text, fsize bigint, checksum text, guid text, n_events bigint, start_event bigint,
  end_event bigint, problem text, CONSTRAINT jedi_job_files_archived_pk PRIMARY KEY (pandaid,
  fileid, jeditaskid));
CREATE TABLE jedi_job_params (pandaid bigint NOT NULL, jobparameters text NOT NULL, texts jsonb,
  CONSTRAINT jedi_job_params_pk PRIMARY KEY (pandaid));
CREATE TABLE jedi_job_ready (pandaid bigint NOT NULL, site text NOT NULL, gshare text NOT NULL,
  priority integer NOT NULL, cores integer NOT NULL, memory_mb integer NOT NULL, walltime_s integer
  NOT NULL, disk_mb integer NOT NULL, CONSTRAINT jedi_job_ready_pk PRIMARY KEY (pandaid));
CREATE INDEX jedi_job_ready_order_ix ON jedi_job_ready (site, gshare, priority DESC, pandaid);
CREATE TABLE jedi_job_retry_history (jeditaskid bigint NOT NULL, oldpandaid bigint NOT NULL,
  newpandaid bigint NOT NULL, relationtype text, originpandaid bigint, CONSTRAINT
  jedi_job_retry_history_pk PRIMARY KEY (jeditaskid, newpandaid, oldpandaid));
CREATE INDEX jedi_job_retry_history_oldpandaid_ix ON jedi_job_retry_history (oldpandaid);
CREATE INDEX jedi_job_retry_history_originpandaid_ix ON jedi_job_retry_history (originpandaid);
CREATE TABLE jedi_job_tail (pandaid bigint NOT NULL, stdout_tail text, stderr_tail text,
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_job_tail_pk PRIMARY KEY
  (pandaid));
CREATE TABLE jedi_jobparams_template (jeditaskid bigint NOT NULL, jobparamstemplate text, CONSTRAINT
  jedi_jobparams_template_pk PRIMARY KEY (jeditaskid));
CREATE TABLE jedi_jobs (pandaid bigint NOT NULL, jeditaskid bigint NOT NULL, taskid bigint NOT NULL,
  originpandaid bigint NOT NULL, unit_nr integer NOT NULL, attemptnr smallint NOT NULL, kind text
  NOT NULL DEFAULT 'normal', status text NOT NULL, substatus text, prodsourcelabel text,
  processingtype text, username text, vo text, site text NOT NULL, nucleus text, workqueue_id
  integer NOT NULL DEFAULT 0, gshare text NOT NULL DEFAULT '', resource_type text NOT NULL DEFAULT
  '', priority integer NOT NULL, cores integer NOT NULL, memory_mb integer NOT NULL, walltime_s
  integer NOT NULL, disk_mb integer NOT NULL, n_inputs integer NOT NULL DEFAULT 0, n_events bigint,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), statechangetime timestamptz NOT NULL DEFAULT
  jedi_now(), starttime timestamptz, endtime timestamptz, heartbeat_at timestamptz, lock_seq bigint
  NOT NULL DEFAULT 0, pilot_id text, kill_code text, pilot_result text, exit_code integer,
  error_source text, error_code text, error_diag text, cpu_s double precision, wall_s double
  precision, max_rss_kb bigint, max_pss_kb bigint, read_bytes bigint, write_bytes bigint, workdir_kb
  bigint, input_bytes bigint, output_bytes bigint, hold_kind text, hold_reason text, hold_since
  timestamptz, hold_deadline timestamptz, delegation_kind text, delegation_queue text, delegation_id
  text, postprocessed_at timestamptz, purged_at timestamptz, retention timestamptz, metadata jsonb,
  hold_next text, moving boolean GENERATED ALWAYS AS (status = ANY (ARRAY['assigned',
  'transferring'])) STORED, CONSTRAINT jedi_jobs_pk PRIMARY KEY (pandaid), CONSTRAINT
  jedi_jobs_finished_ck CHECK (status <> 'finished' OR postprocessed_at IS NOT NULL), CONSTRAINT
  jedi_jobs_held_ck CHECK (hold_kind IS NULL OR CASE WHEN hold_kind = 'manual_stage_in' THEN
  status = ANY (ARRAY['assigned', 'activated', 'throttled']) WHEN hold_kind = 'manual_stage_out'
  THEN status = ANY (ARRAY['holding', 'transferring', 'merging']) WHEN hold_kind =
  'failed_recoverable' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent',
  'starting', 'running', 'holding', 'transferring', 'merging']) WHEN hold_kind = 'user_request'
  THEN status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent', 'starting', 'running',
  'holding', 'transferring', 'merging']) ELSE false END), CONSTRAINT jedi_jobs_postprocessed_ck
  CHECK (postprocessed_at IS NULL OR (status = ANY (ARRAY['cancelled', 'closed', 'failed',
  'finished']))), CONSTRAINT jedi_jobs_purged_ck CHECK (purged_at IS NULL OR (status = ANY
  (ARRAY['cancelled', 'closed', 'failed', 'finished']))), CONSTRAINT jedi_jobs_status_ck CHECK
  (status = ANY (ARRAY['pending', 'waiting', 'defined', 'assigned', 'activated', 'throttled',
  'sent', 'starting', 'running', 'holding', 'transferring', 'merging', 'finished', 'failed',
  'cancelled', 'closed'])), CONSTRAINT jedi_jobs_substatus_ck CHECK (substatus = ANY
  (ARRAY['merge_failed', 'merge_cancelled', 'merge_closed', 'pilot_failed', 'es_heartbeat',
  'es_merge_failed', 'es_retry', 'es_merge', 'es_wait', 'es_inaction', 'es_killed', 'es_unused',
  'es_aborted']))) WITH (fillfactor=45);
CREATE INDEX jedi_jobs_jeditaskid_unit_nr_ix ON jedi_jobs (jeditaskid, unit_nr);
CREATE INDEX jedi_jobs_live_ix ON jedi_jobs (jeditaskid) WHERE postprocessed_at IS NULL;
CREATE INDEX jedi_jobs_moving_ix ON jedi_jobs (pandaid) WHERE moving;
CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE pilot_result IS NOT NULL AND
  postprocessed_at IS NULL;
CREATE INDEX jedi_jobs_retention_ix ON jedi_jobs (retention) WHERE retention IS NOT NULL AND
  purged_at IS NULL;
CREATE TABLE jedi_jobs_archived (pandaid bigint NOT NULL, jeditaskid bigint NOT NULL, taskid bigint
  NOT NULL, originpandaid bigint NOT NULL, unit_nr integer NOT NULL, attemptnr smallint NOT NULL,
  kind text NOT NULL DEFAULT 'normal', status text NOT NULL, substatus text, prodsourcelabel text,
  processingtype text, username text, vo text, site text NOT NULL, nucleus text, workqueue_id
  integer NOT NULL DEFAULT 0, gshare text NOT NULL DEFAULT '', resource_type text NOT NULL DEFAULT
  '', priority integer NOT NULL, cores integer NOT NULL, memory_mb integer NOT NULL, walltime_s
  integer NOT NULL, disk_mb integer NOT NULL, n_inputs integer NOT NULL DEFAULT 0, n_events bigint,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), statechangetime timestamptz NOT NULL DEFAULT
  jedi_now(), starttime timestamptz, endtime timestamptz, heartbeat_at timestamptz, lock_seq bigint
  NOT NULL DEFAULT 0, pilot_id text, kill_code text, pilot_result text, exit_code integer,
  error_source text, error_code text, error_diag text, cpu_s double precision, wall_s double
  precision, max_rss_kb bigint, max_pss_kb bigint, read_bytes bigint, write_bytes bigint, workdir_kb
  bigint, input_bytes bigint, output_bytes bigint, hold_kind text, hold_reason text, hold_since
  timestamptz, hold_deadline timestamptz, delegation_kind text, delegation_queue text, delegation_id
  text, postprocessed_at timestamptz, purged_at timestamptz, retention timestamptz, metadata jsonb,
  hold_next text, CONSTRAINT jedi_jobs_archived_pk PRIMARY KEY (pandaid), CONSTRAINT
  jedi_jobs_archived_finished_ck CHECK (status <> 'finished' OR postprocessed_at IS NOT NULL),
  CONSTRAINT jedi_jobs_archived_held_ck CHECK (hold_kind IS NULL OR CASE WHEN hold_kind =
  'manual_stage_in' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled']) WHEN
  hold_kind = 'manual_stage_out' THEN status = ANY (ARRAY['holding', 'transferring', 'merging'])
  WHEN hold_kind = 'failed_recoverable' THEN status = ANY (ARRAY['assigned', 'activated',
  'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging']) WHEN
  hold_kind = 'user_request' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent',
  'starting', 'running', 'holding', 'transferring', 'merging']) ELSE false END), CONSTRAINT
  jedi_jobs_archived_postprocessed_ck CHECK (postprocessed_at IS NULL OR (status = ANY
  (ARRAY['cancelled', 'closed', 'failed', 'finished']))), CONSTRAINT jedi_jobs_archived_purged_ck
  CHECK (purged_at IS NULL OR (status = ANY (ARRAY['cancelled', 'closed', 'failed', 'finished']))));
CREATE INDEX jedi_jobs_archived_jeditaskid_unit_nr_ix ON jedi_jobs_archived (jeditaskid, unit_nr);
CREATE INDEX jedi_jobs_archived_retention_ix ON jedi_jobs_archived (retention) WHERE retention IS
  NOT NULL AND purged_at IS NULL;
CREATE TABLE jedi_jobs_statuslog (log_id bigserial, fromstatus text, status text NOT NULL,
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(), agent text, reason_code text, reason
  text, pandaid bigint NOT NULL, jeditaskid bigint NOT NULL, CONSTRAINT jedi_jobs_statuslog_pk
  PRIMARY KEY (pandaid, log_id));
CREATE TABLE jedi_knobs (component text NOT NULL, key text NOT NULL, value jsonb NOT NULL, username
  text, modificationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_knobs_pk PRIMARY
  KEY (component, key));
CREATE TABLE jedi_knobs_history (change_id bigserial, component text NOT NULL, key text NOT NULL,
  value jsonb, username text, modificationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT
  jedi_knobs_history_pk PRIMARY KEY (change_id));
CREATE TABLE jedi_lost_files (jeditaskid bigint NOT NULL, fileid bigint NOT NULL, datasetname text
  NOT NULL, lfn text NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(), removed_at
  timestamptz, CONSTRAINT jedi_lost_files_pk PRIMARY KEY (jeditaskid, fileid));
CREATE INDEX jedi_lost_files_datasetname_ix ON jedi_lost_files (datasetname);
CREATE TABLE jedi_network_matrix (src text NOT NULL, dst text NOT NULL, key text NOT NULL, value
  double precision, ts timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_network_matrix_pk
  PRIMARY KEY (src, dst, key));
CREATE INDEX jedi_network_matrix_key_dst_ix ON jedi_network_matrix (key, dst);
CREATE TABLE jedi_outbox (message_id bigserial, topic text NOT NULL, payload jsonb NOT NULL, urgent
  boolean NOT NULL DEFAULT false, creationtime timestamptz NOT NULL DEFAULT jedi_now(), sent_at
  timestamptz, attempts integer NOT NULL DEFAULT 0, username text, channel text, next_try_at
  timestamptz, error text, CONSTRAINT jedi_outbox_pk PRIMARY KEY (message_id), CONSTRAINT
  jedi_outbox_topic_uq UNIQUE (topic, username, channel));
CREATE INDEX jedi_outbox_open_ix ON jedi_outbox (message_id) WHERE sent_at IS NULL;
CREATE TABLE jedi_output_template (outtempid bigint NOT NULL DEFAULT
  nextval('jedi_out_temp_id_seq'), jeditaskid bigint NOT NULL, datasetid bigint NOT NULL,
  filenametemplate text NOT NULL, sourcename text, serialnr integer NOT NULL DEFAULT 0, maxserialnr
  integer, streamname text, outtype text, CONSTRAINT jedi_output_template_pk PRIMARY KEY
  (outtempid));
CREATE INDEX jedi_output_template_jeditaskid_ix ON jedi_output_template (jeditaskid);
CREATE TABLE jedi_pilots (pilot_id text NOT NULL, site text NOT NULL, host text NOT NULL, pid
  integer, process_start bigint, token_hash text, status text NOT NULL, creationtime timestamptz NOT
  NULL DEFAULT jedi_now(), endtime timestamptz, engine text NOT NULL DEFAULT 'local', batch_id text,
  resource_type text NOT NULL DEFAULT '', CONSTRAINT jedi_pilots_pk PRIMARY KEY (pilot_id));
CREATE INDEX jedi_pilots_live_ix ON jedi_pilots (site) WHERE endtime IS NULL;
CREATE TABLE jedi_process_lock (prodsourcelabel text NOT NULL, vo text NOT NULL, workqueue_id
  integer NOT NULL, cloud text NOT NULL DEFAULT '', lockedby text NOT NULL, lockedtime timestamptz
  NOT NULL DEFAULT jedi_now(), component text NOT NULL DEFAULT '', lease_until timestamptz,
  CONSTRAINT jedi_process_lock_pk PRIMARY KEY (prodsourcelabel, vo, workqueue_id, cloud,
  component));
CREATE TABLE jedi_queue_shares (queue_id integer NOT NULL, active boolean NOT NULL, entitlement
  double precision, allocation double precision, usage double precision, demand double precision,
  ratio double precision, place integer NOT NULL, turn integer NOT NULL, computed_at timestamptz NOT
  NULL DEFAULT jedi_now(), CONSTRAINT jedi_queue_shares_pk PRIMARY KEY (queue_id));
CREATE TABLE jedi_resource_types (resource_type text NOT NULL, mincore integer, maxcore integer,
  minrampercore integer, maxrampercore integer, CONSTRAINT jedi_resource_types_pk PRIMARY KEY
  (resource_type));
CREATE TABLE jedi_retry_matches (pandaid bigint NOT NULL, rule_id integer NOT NULL, jeditaskid
  bigint NOT NULL, effect text NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  settled_at timestamptz, CONSTRAINT jedi_retry_matches_pk PRIMARY KEY (pandaid, rule_id));
CREATE INDEX jedi_retry_matches_open_ix ON jedi_retry_matches (jeditaskid) WHERE settled_at IS NULL;
CREATE TABLE jedi_retry_rules (rule_id integer NOT NULL, active boolean NOT NULL, error_source text,
  error_code text, exit_code integer, message text, site text, queue_id integer, label text,
  architecture text, release text, action text NOT NULL, attempts integer, description text,
  username text, modificationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT
  jedi_retry_rules_pk PRIMARY KEY (rule_id), CONSTRAINT jedi_retry_rules_message_ck CHECK (message
  IS NULL OR length(message) <= 256 AND ('' ~ message) IS NOT NULL));
CREATE TABLE jedi_sandboxes (sha256 text NOT NULL, data bytea NOT NULL, creationtime timestamptz NOT
  NULL DEFAULT jedi_now(), CONSTRAINT jedi_sandboxes_pk PRIMARY KEY (sha256));
CREATE TABLE jedi_site_endpoints (site text NOT NULL, ddm_endpoint text NOT NULL, scope text NOT
  NULL DEFAULT 'default', is_local boolean NOT NULL DEFAULT true, roles text NOT NULL DEFAULT
  'read,write', order_read integer NOT NULL DEFAULT 1, order_write integer NOT NULL DEFAULT 1,
  default_read boolean NOT NULL DEFAULT true, default_write boolean NOT NULL DEFAULT true,
  CONSTRAINT jedi_site_endpoints_pk PRIMARY KEY (site, ddm_endpoint, scope));
CREATE TABLE jedi_site_metrics (site text NOT NULL, gshare text NOT NULL DEFAULT '', metric text NOT
  NULL, value jsonb, ts timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_site_metrics_pk
  PRIMARY KEY (site, gshare, metric));
CREATE TABLE jedi_sites (site text NOT NULL, status text NOT NULL DEFAULT 'online', type text NOT
  NULL DEFAULT 'unified', cloud text NOT NULL DEFAULT 'WORLD', tier text, pandasite text, role text
  NOT NULL DEFAULT 'nucleus', state text NOT NULL DEFAULT 'ACTIVE', capability text, corecount
  integer NOT NULL DEFAULT 1, corepower double precision NOT NULL DEFAULT 10, maxtime bigint NOT
  NULL DEFAULT 0, mintime bigint NOT NULL DEFAULT 0, maxrss bigint NOT NULL DEFAULT 0, minrss bigint
  NOT NULL DEFAULT 0, maxwdir bigint NOT NULL DEFAULT 0, maxinputsize bigint NOT NULL DEFAULT 0,
  nslots integer NOT NULL DEFAULT 0, submitter text NOT NULL DEFAULT 'none', fairsharepolicy text,
  transferringlimit integer NOT NULL DEFAULT 0, pledgedcpu integer, transtimehi integer NOT NULL
  DEFAULT 1, transtimelo integer NOT NULL DEFAULT 4, direct_access_lan boolean NOT NULL DEFAULT
  false, direct_access_wan boolean NOT NULL DEFAULT false, releases text[], wnconnectivity text,
  jobseed text NOT NULL DEFAULT 'std', max_io_intensity double precision, maxdiskio double
  precision, catchall jsonb NOT NULL DEFAULT '{}', laststart timestamptz, lastpilot timestamptz,
  comment text, modificationtime timestamptz NOT NULL DEFAULT jedi_now(), queue text, batch jsonb
  NOT NULL DEFAULT '{}', CONSTRAINT jedi_sites_pk PRIMARY KEY (site), CONSTRAINT
  jedi_sites_status_ck CHECK (status = ANY (ARRAY['online', 'standby', 'brokeroff', 'test',
  'offline', 'paused'])));
CREATE TABLE jedi_sites_history (change_id bigserial, site text NOT NULL, attribute text NOT NULL,
  oldvalue text, newvalue text, username text, comment text, modificationtime timestamptz NOT NULL
  DEFAULT jedi_now(), CONSTRAINT jedi_sites_history_pk PRIMARY KEY (change_id));
CREATE INDEX jedi_sites_history_site_ix ON jedi_sites_history (site);
CREATE TABLE jedi_snapshots (snapshot_hash text NOT NULL, data bytea NOT NULL, creationtime
  timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT jedi_snapshots_pk PRIMARY KEY
  (snapshot_hash));
CREATE TABLE jedi_taskparams (jeditaskid bigint NOT NULL, taskparams jsonb, source_text text,
  source_format text, sandbox_sha256 text, CONSTRAINT jedi_taskparams_pk PRIMARY KEY (jeditaskid));
CREATE TABLE jedi_tasks (jeditaskid bigint NOT NULL DEFAULT nextval('jedi_task_id_seq'),
  creationdate timestamptz NOT NULL DEFAULT jedi_now(), modificationtime timestamptz NOT NULL
  DEFAULT jedi_now(), starttime timestamptz, endtime timestamptz, frozentime timestamptz,
  prodsourcelabel text, taskname text, username text, workinggroup text, vo text, corecount integer,
  tasktype text, processingtype text, taskpriority integer, currentpriority integer, status text NOT
  NULL, oldstatus text, architecture text, transuses text, transhome text, transpath text, lockedby
  text, lockedtime timestamptz, termcondition text, splitrule text, walltime bigint, walltimeunit
  text, outdiskcount bigint, outdiskunit text, workdiskcount bigint, workdiskunit text, ramcount
  bigint, ramunit text, iointensity bigint, iointensityunit text, workqueue_id integer, progress
  smallint, failurerate smallint, errordialog text, cloud text, site text, reqid bigint NOT NULL,
  countrygroup text, parent_tid bigint, eventservice smallint, ticketid text, ticketsystemtype text,
  statechangetime timestamptz, superstatus text, campaign text, mergeramcount bigint, mergeramunit
  text, mergewalltime bigint, mergewalltimeunit text, throttledtime timestamptz, numthrottled
  smallint, mergecorecount integer, goal smallint, assessmenttime timestamptz, cputime bigint,
  cputimeunit text, cpuefficiency smallint, basewalltime integer, amiflag text, nucleus text,
  baseramcount bigint, rescuetime timestamptz, requesttype text, usejumbo text, diskio bigint,
  diskiounit text, gshare text, resource_type text, rules jsonb, attemptnr integer NOT NULL DEFAULT
  1, reason_code text, reason_facts jsonb, next_run_at timestamptz, lock_seq bigint NOT NULL DEFAULT
  0, lease_until timestamptz, worker_deaths smallint NOT NULL DEFAULT 0, idempotency_key text,
  split_at timestamptz, origin_pandaid bigint, measured_jobs integer NOT NULL DEFAULT 0, period
  text, nextperiod timestamptz, CONSTRAINT jedi_tasks_pk PRIMARY KEY (jeditaskid), CONSTRAINT
  jedi_tasks_username_uq UNIQUE (username, idempotency_key), CONSTRAINT jedi_tasks_parent_ck CHECK
  (parent_tid <= jeditaskid), CONSTRAINT jedi_tasks_status_ck CHECK (status = ANY
  (ARRAY['registered', 'defined', 'assigning', 'ready', 'pending', 'scouting', 'scouted', 'running',
  'prepared', 'done', 'failed', 'finished', 'aborting', 'toabort', 'aborted', 'finishing',
  'topreprocess', 'preprocessing', 'tobroken', 'broken', 'toretry', 'toincexec', 'rerefine',
  'paused', 'throttled', 'exhausted', 'passed', 'staging', 'staged', 'toreassign', 'reassigning'])))
  WITH (fillfactor=80);
CREATE INDEX jedi_tasks_locked_ix ON jedi_tasks (lockedtime) WHERE lockedby IS NOT NULL;
CREATE INDEX jedi_tasks_owner_ix ON jedi_tasks (gshare, COALESCE(username, ''), (currentpriority +
  (status = 'scouting')::integer) DESC, jeditaskid) WHERE status = ANY (ARRAY['ready', 'scouting',
  'running', 'topreprocess', 'preprocessing']);
CREATE INDEX jedi_tasks_parent_tid_ix ON jedi_tasks (parent_tid);
CREATE INDEX jedi_tasks_period_ix ON jedi_tasks (nextperiod) WHERE period IS NOT NULL AND (status =
  ANY (ARRAY['ready', 'running']));
CREATE INDEX jedi_tasks_status_jeditaskid_ix ON jedi_tasks (status, currentpriority DESC,
  jeditaskid);
CREATE INDEX jedi_tasks_taskname_ix ON jedi_tasks (taskname);
CREATE INDEX jedi_tasks_turn_ix ON jedi_tasks (gshare, (currentpriority + (status =
  'scouting')::integer) DESC, jeditaskid) WHERE status = ANY (ARRAY['ready', 'scouting', 'running',
  'topreprocess', 'preprocessing']);
CREATE INDEX jedi_tasks_username_taskname_ix ON jedi_tasks (username, taskname);
CREATE TABLE jedi_tasks_statuslog (log_id bigserial, fromstatus text, status text NOT NULL,
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(), agent text, reason_code text, reason
  text, jeditaskid bigint NOT NULL, attemptnr integer, username text, CONSTRAINT
  jedi_tasks_statuslog_pk PRIMARY KEY (log_id));
CREATE INDEX jedi_tasks_statuslog_jeditaskid_ix ON jedi_tasks_statuslog (jeditaskid);
CREATE TABLE jedi_tokens (token_hash text NOT NULL, kind text NOT NULL, site text, username text,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), expires_at timestamptz, revoked_at
  timestamptz, CONSTRAINT jedi_tokens_pk PRIMARY KEY (token_hash));
CREATE TABLE jedi_users (username text NOT NULL, role text NOT NULL DEFAULT 'user', gridpref text
  NOT NULL DEFAULT '', email text, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  cap_running_jobs integer, webhook text, webhook_secret text, notices text NOT NULL DEFAULT
  'tasks', CONSTRAINT jedi_users_pk PRIMARY KEY (username), CONSTRAINT jedi_users_notices_ck CHECK
  (notices = ANY (ARRAY['tasks', 'jobs'])), CONSTRAINT jedi_users_role_ck CHECK (role = ANY
  (ARRAY['user', 'production', 'operator'])));
CREATE TABLE jedi_work_queue (queue_id integer NOT NULL, queue_name text NOT NULL, queue_type text
  NOT NULL, vo text NOT NULL, queue_share integer, queue_order integer, criteria text, variables
  text, partitionid integer, stretchable smallint, status text, caps jsonb, CONSTRAINT
  jedi_work_queue_pk PRIMARY KEY (queue_id), CONSTRAINT jedi_work_queue_queue_name_uq UNIQUE
  (queue_name), CONSTRAINT jedi_work_queue_queue_order_uq UNIQUE (queue_order), CONSTRAINT
  jedi_work_queue_name_ck CHECK (length(queue_name) <= 64));
CREATE TABLE job_stats (site text NOT NULL, workqueue integer NOT NULL, gshare text NOT NULL,
  resource_type text NOT NULL, status text NOT NULL, jobs bigint NOT NULL, cores bigint NOT NULL,
  modificationtime timestamptz, CONSTRAINT job_stats_pk PRIMARY KEY (site, workqueue, gshare,
  resource_type, status));
CREATE TABLE job_stats_delta (delta_id bigserial, site text NOT NULL, workqueue integer NOT NULL,
  gshare text NOT NULL, resource_type text NOT NULL, status text NOT NULL, jobs bigint NOT NULL,
  cores bigint NOT NULL, modificationtime timestamptz NOT NULL DEFAULT jedi_now(), CONSTRAINT
  job_stats_delta_pk PRIMARY KEY (delta_id));
CREATE TABLE job_stats_hourly (hour timestamptz NOT NULL DEFAULT jedi_now(), site text NOT NULL,
  gshare text NOT NULL, status text NOT NULL, jobs bigint NOT NULL, CONSTRAINT job_stats_hourly_pk
  PRIMARY KEY (hour, site, gshare, status));
INSERT INTO jedi_resource_types (resource_type, mincore, maxcore, minrampercore, maxrampercore)
VALUES ('SCORE', 1, 1, NULL, 2000), ('MCORE', 2, NULL, NULL, 2000),
       ('SCORE_HIMEM', 1, 1, 2000, NULL), ('MCORE_HIMEM', 2, NULL, 2000, NULL);
INSERT INTO jedi_retry_rules (rule_id, active, error_code, action, description)
VALUES (1, true, 'memory_limit', 'increase_memory', 'out of memory: the next jobs get more');
CREATE VIEW jedi_files AS
SELECT jeditaskid, datasetid, min(fileid) AS fileid, lfn, min(type) AS type, count(*) AS ranges,
  CASE WHEN count(*) = 1 THEN min(status) WHEN bool_and(status = 'finished') THEN 'finished' WHEN
  bool_or(status = 'finished') THEN 'partial' WHEN bool_or(status = 'running') THEN 'running' WHEN
  bool_or(status = 'ready') THEN 'ready' ELSE min(status) END AS status, max(attemptnr) AS
  attemptnr, max(failedattempt) AS failedattempt FROM jedi_dataset_contents GROUP BY jeditaskid,
  datasetid, lfn;
CREATE VIEW jedi_job_states AS
SELECT pandaid, jeditaskid, originpandaid, attemptnr, status, CASE WHEN purged_at IS NOT NULL AND
  status IN ('cancelled', 'closed', 'failed', 'finished') THEN 'Purged' WHEN postprocessed_at IS NOT
  NULL AND (status = 'finished' OR status = 'failed' AND error_source = 'payload') THEN 'Finished'
  WHEN status IN ('finished', 'failed', 'cancelled', 'closed') THEN 'Failed-Cancelled' WHEN
  hold_kind IS NOT NULL AND status IN ('assigned', 'activated', 'throttled', 'sent', 'starting',
  'running', 'holding', 'transferring', 'merging') THEN CASE WHEN status IN ('assigned',
  'activated', 'throttled') THEN 'Pre-processing-Hold' WHEN status IN ('sent', 'starting',
  'running') THEN 'Delegated-Hold' WHEN status IN ('holding', 'transferring', 'merging') THEN
  'Post-processing-Hold' END WHEN status IN ('pending', 'waiting', 'defined') THEN 'Submitted' WHEN
  status IN ('assigned', 'activated', 'throttled') THEN 'Pre-processing' WHEN status IN ('sent',
  'starting', 'running') THEN 'Delegated' WHEN status IN ('holding', 'transferring', 'merging') THEN
  'Post-processing' END AS pgi_state, CASE WHEN purged_at IS NOT NULL AND status IN ('cancelled',
  'closed', 'failed', 'finished') THEN NULL WHEN postprocessed_at IS NOT NULL AND (status =
  'finished' OR status = 'failed' AND error_source = 'payload') THEN CASE WHEN status IN
  ('finished') THEN 'success' WHEN status IN ('failed') THEN 'error' END WHEN status IN ('finished',
  'failed') THEN 'failed' WHEN status IN ('cancelled') THEN 'cancelled' WHEN status IN ('closed')
  THEN 'closed-by-system' WHEN hold_kind IS NOT NULL AND status IN ('assigned', 'activated',
  'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging') THEN CASE WHEN
  hold_kind = 'manual_stage_in' THEN 'Manual-Stage-In' WHEN hold_kind = 'manual_stage_out' THEN
  'Manual-Stage-Out' WHEN hold_kind = 'failed_recoverable' THEN 'Failed-Recoverable' WHEN hold_kind
  = 'user_request' THEN 'User-Request' END WHEN status = 'running' AND delegation_kind = 'grid' THEN
  'Forwarded' WHEN status IN ('pending') THEN 'Incoming' WHEN status IN ('waiting') THEN 'Waiting'
  WHEN status IN ('defined') THEN 'Outgoing' WHEN status IN ('assigned') THEN 'Automatic-Stage-In'
  WHEN status IN ('activated', 'throttled') THEN 'Outgoing' WHEN status IN ('sent', 'starting') THEN
  'Incoming' WHEN status IN ('running') THEN 'Running' WHEN status IN ('holding') THEN 'Incoming'
  WHEN status IN ('transferring') THEN 'Automatic-Stage-Out' WHEN status IN ('merging') THEN
  'Merging' END AS pgi_substate FROM (SELECT pandaid, jeditaskid, originpandaid, attemptnr, status,
  hold_kind, delegation_kind, error_source, postprocessed_at, purged_at FROM jedi_jobs UNION ALL
  SELECT pandaid, jeditaskid, originpandaid, attemptnr, status, hold_kind, delegation_kind,
  error_source, postprocessed_at, purged_at FROM jedi_jobs_archived) j;
CREATE VIEW jedi_task_states AS
SELECT t.jeditaskid, t.status, CASE WHEN status IN ('aborted', 'failed', 'finished', 'broken') THEN
  'Failed-Cancelled' WHEN status IN ('registered', 'defined', 'assigning', 'topreprocess',
  'rerefine', 'ready', 'scouting', 'scouted', 'running', 'prepared', 'aborting', 'toabort',
  'finishing', 'preprocessing', 'tobroken', 'toretry', 'toincexec', 'passed', 'toreassign',
  'reassigning', 'pending', 'paused', 'throttled', 'exhausted', 'staging', 'staged') THEN
  'Submitted' END AS pgi_state, CASE WHEN status IN ('aborted') THEN 'cancelled' WHEN status IN
  ('failed', 'finished', 'broken') THEN 'failed' WHEN status IN ('registered', 'defined',
  'assigning', 'topreprocess', 'rerefine') THEN 'Incoming' WHEN status IN ('ready', 'scouting',
  'scouted', 'running', 'prepared', 'aborting', 'toabort', 'finishing', 'preprocessing', 'tobroken',
  'toretry', 'toincexec', 'passed', 'toreassign', 'reassigning') THEN 'Outgoing' WHEN status IN
  ('pending', 'paused', 'throttled', 'exhausted', 'staging', 'staged') THEN 'Waiting' END AS
  pgi_substate FROM jedi_tasks t WHERE t.status <> 'done' AND NOT EXISTS (SELECT FROM jedi_jobs j
  WHERE j.jeditaskid = t.jeditaskid UNION ALL SELECT FROM jedi_jobs_archived j WHERE j.jeditaskid =
  t.jeditaskid);
CREATE VIEW jedi_job_allocations AS
SELECT l.pandaid, l.jeditaskid, r.resource, min(l.modificationtime) FILTER (WHERE l.status = ANY
  (r.allocated)) AS allocated_at, min(l.modificationtime) FILTER (WHERE l.status = ANY (r.free)) AS
  released_at FROM jedi_jobs_statuslog l, (VALUES ('stage_in', ARRAY['assigned', 'activated',
  'throttled', 'sent', 'starting', 'running'], ARRAY['holding', 'transferring', 'merging',
  'finished', 'failed', 'cancelled', 'closed']), ('exec_storage', ARRAY['sent', 'starting',
  'running'], ARRAY['holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled',
  'closed']), ('compute', ARRAY['sent', 'starting', 'running'], ARRAY['holding', 'transferring',
  'merging', 'finished', 'failed', 'cancelled', 'closed']), ('stage_out', ARRAY['holding',
  'transferring', 'merging'], ARRAY['finished', 'failed', 'cancelled', 'closed']) ) r (resource,
  allocated, free) GROUP BY l.pandaid, l.jeditaskid, r.resource HAVING bool_or(l.status = ANY
  (r.allocated));
