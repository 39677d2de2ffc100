-- From 0.1.0 to an empty database.
DROP VIEW jedi_files, jedi_job_states, jedi_task_states, jedi_job_allocations;
DROP TABLE ddm_datasets, ddm_files, ddm_members, ddm_replicas, jedi_acquire_requests, jedi_agents,
  jedi_broker_decisions, jedi_broker_reasons, jedi_commands, jedi_dataset_contents, jedi_datasets,
  jedi_datasets_statuslog, jedi_ddm_endpoints, jedi_events, jedi_job_files,
  jedi_job_files_archived, jedi_job_params, jedi_job_ready, jedi_job_retry_history, jedi_job_tail,
  jedi_jobparams_template, jedi_jobs, jedi_jobs_archived, jedi_jobs_statuslog, jedi_knobs,
  jedi_knobs_history, jedi_lost_files, jedi_network_matrix, jedi_outbox, jedi_output_template,
  jedi_pilots, jedi_process_lock, jedi_queue_shares, jedi_resource_types, jedi_retry_matches,
  jedi_retry_rules, jedi_sandboxes, jedi_site_endpoints, jedi_site_metrics, jedi_sites,
  jedi_sites_history, jedi_snapshots, jedi_taskparams, jedi_tasks, jedi_tasks_statuslog,
  jedi_tokens, jedi_users, jedi_work_queue, job_stats, job_stats_delta, job_stats_hourly;
DROP SEQUENCE jedi_dataset_id_seq, jedi_file_id_seq, jedi_out_temp_id_seq, jedi_panda_id_seq,
  jedi_task_id_seq;
DROP FUNCTION jedi_refuse_move, jedi_job_may_move, jedi_now;
