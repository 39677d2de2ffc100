-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

CREATE VIEW jedi_files AS
 SELECT jeditaskid,
    datasetid,
    min(fileid) AS fileid,
    lfn,
    min(type) AS type,
    count(*) AS ranges,
        CASE
            WHEN count(*) = 1 THEN min(status)
            WHEN bool_and(status = 'finished') THEN 'finished'
            WHEN bool_or(status = 'finished') THEN 'partial'
            WHEN bool_or(status = 'running') THEN 'running'
            WHEN bool_or(status = 'ready') THEN 'ready'
            ELSE min(status)
        END AS status,
    max(attemptnr) AS attemptnr,
    max(failedattempt) AS failedattempt
   FROM jedi_dataset_contents
  GROUP BY jeditaskid, datasetid, lfn;

CREATE VIEW jedi_herd_members AS
 SELECT h.jeditaskid,
    u.unit_nr,
    COALESCE(u.originpandaid, h.originpandaid) AS originpandaid,
    h.originpandaid AS masterjobid,
        CASE
            WHEN h.split_at IS NULL THEN 'WillSplit'
            WHEN u.originpandaid = h.originpandaid THEN 'Splitted'
            ELSE 'Single'
        END AS jobsplittype,
    lpad((u.unit_nr - 1)::text, length(h.n_units::text), '0') AS splitid,
    u.options
   FROM jedi_herds h
     LEFT JOIN jedi_units u USING (jeditaskid);

CREATE VIEW jedi_job_allocations AS
 SELECT l.pandaid,
    l.jeditaskid,
    r.resource,
    min(l.modificationtime) FILTER (WHERE l.status = ANY (r.allocated)) AS allocated_at,
    min(l.modificationtime) FILTER (WHERE l.status = ANY (r.free)) AS released_at
   FROM jedi_jobs_statuslog l,
    ( VALUES ('stage_in',ARRAY['assigned', 'activated', 'throttled', 'sent', 'starting', 'running'],ARRAY['holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled', 'closed']), ('exec_storage',ARRAY['sent', 'starting', 'running'],ARRAY['holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled', 'closed']), ('compute',ARRAY['sent', 'starting', 'running'],ARRAY['holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled', 'closed']), ('stage_out',ARRAY['holding', 'transferring', 'merging'],ARRAY['finished', 'failed', 'cancelled', 'closed'])) r(resource, allocated, free)
  GROUP BY l.pandaid, l.jeditaskid, r.resource
 HAVING bool_or(l.status = ANY (r.allocated));

CREATE VIEW jedi_job_states AS
 SELECT pandaid,
    jeditaskid,
    originpandaid,
    attemptnr,
    status,
        CASE
            WHEN purged_at IS NOT NULL AND (status = ANY (ARRAY['cancelled', 'closed', 'failed', 'finished'])) THEN 'Purged'
            WHEN postprocessed_at IS NOT NULL AND (status = 'finished' OR status = 'failed' AND error_source = 'payload') THEN 'Finished'
            WHEN status = ANY (ARRAY['finished', 'failed', 'cancelled', 'closed']) THEN 'Failed-Cancelled'
            WHEN hold_kind IS NOT NULL AND (status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging'])) THEN
            CASE
                WHEN status = ANY (ARRAY['assigned', 'activated', 'throttled']) THEN 'Pre-processing-Hold'
                WHEN status = ANY (ARRAY['sent', 'starting', 'running']) THEN 'Delegated-Hold'
                WHEN status = ANY (ARRAY['holding', 'transferring', 'merging']) THEN 'Post-processing-Hold'
                ELSE NULL::text
            END
            WHEN status = ANY (ARRAY['pending', 'waiting', 'defined']) THEN 'Submitted'
            WHEN status = ANY (ARRAY['assigned', 'activated', 'throttled']) THEN 'Pre-processing'
            WHEN status = ANY (ARRAY['sent', 'starting', 'running']) THEN 'Delegated'
            WHEN status = ANY (ARRAY['holding', 'transferring', 'merging']) THEN 'Post-processing'
            ELSE NULL::text
        END AS pgi_state,
        CASE
            WHEN purged_at IS NOT NULL AND (status = ANY (ARRAY['cancelled', 'closed', 'failed', 'finished'])) THEN NULL::text
            WHEN postprocessed_at IS NOT NULL AND (status = 'finished' OR status = 'failed' AND error_source = 'payload') THEN
            CASE
                WHEN status = 'finished' THEN 'success'
                WHEN status = 'failed' THEN 'error'
                ELSE NULL::text
            END
            WHEN status = ANY (ARRAY['finished', 'failed']) THEN 'failed'
            WHEN status = 'cancelled' THEN 'cancelled'
            WHEN status = 'closed' THEN 'closed-by-system'
            WHEN hold_kind IS NOT NULL AND (status = ANY (ARRAY['assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring', 'merging'])) THEN
            CASE
                WHEN hold_kind = 'manual_stage_in' THEN 'Manual-Stage-In'
                WHEN hold_kind = 'manual_stage_out' THEN 'Manual-Stage-Out'
                WHEN hold_kind = 'failed_recoverable' THEN 'Failed-Recoverable'
                WHEN hold_kind = 'user_request' THEN 'User-Request'
                ELSE NULL::text
            END
            WHEN status = 'running' AND delegation_kind = 'grid' THEN 'Forwarded'
            WHEN status = 'pending' THEN 'Incoming'
            WHEN status = 'waiting' THEN 'Waiting'
            WHEN status = 'defined' THEN 'Outgoing'
            WHEN status = 'assigned' THEN 'Automatic-Stage-In'
            WHEN status = ANY (ARRAY['activated', 'throttled']) THEN 'Outgoing'
            WHEN status = ANY (ARRAY['sent', 'starting']) THEN 'Incoming'
            WHEN status = 'running' THEN 'Running'
            WHEN status = 'holding' THEN 'Incoming'
            WHEN status = 'transferring' THEN 'Automatic-Stage-Out'
            WHEN status = 'merging' THEN 'Merging'
            ELSE NULL::text
        END AS pgi_substate
   FROM ( SELECT pandaid,
            jeditaskid,
            originpandaid,
            attemptnr,
            status,
            hold_kind,
            delegation_kind,
            error_source,
            postprocessed_at,
            purged_at
           FROM jedi_jobs
        UNION ALL
         SELECT pandaid,
            jeditaskid,
            originpandaid,
            attemptnr,
            status,
            hold_kind,
            delegation_kind,
            error_source,
            postprocessed_at,
            purged_at
           FROM jedi_jobs_archived) j;

CREATE VIEW jedi_task_states AS
 SELECT jeditaskid,
    status,
        CASE
            WHEN status = ANY (ARRAY['aborted', 'failed', 'finished', 'broken']) THEN 'Failed-Cancelled'
            WHEN status = ANY (ARRAY['registered', 'defined', 'assigning', 'topreprocess', 'rerefine', 'ready', 'scouting', 'scouted', 'running', 'prepared', 'aborting', 'toabort', 'finishing', 'preprocessing', 'tobroken', 'toretry', 'toincexec', 'passed', 'toreassign', 'reassigning', 'pending', 'paused', 'throttled', 'exhausted', 'staging', 'staged']) THEN 'Submitted'
            ELSE NULL::text
        END AS pgi_state,
        CASE
            WHEN status = 'aborted' THEN 'cancelled'
            WHEN status = ANY (ARRAY['failed', 'finished', 'broken']) THEN 'failed'
            WHEN status = ANY (ARRAY['registered', 'defined', 'assigning', 'topreprocess', 'rerefine']) THEN 'Incoming'
            WHEN status = ANY (ARRAY['ready', 'scouting', 'scouted', 'running', 'prepared', 'aborting', 'toabort', 'finishing', 'preprocessing', 'tobroken', 'toretry', 'toincexec', 'passed', 'toreassign', 'reassigning']) THEN 'Outgoing'
            WHEN status = ANY (ARRAY['pending', 'paused', 'throttled', 'exhausted', 'staging', 'staged']) THEN 'Waiting'
            ELSE NULL::text
        END AS pgi_substate
   FROM jedi_tasks t
  WHERE status <> 'done' AND NOT (EXISTS ( SELECT
           FROM jedi_jobs j
          WHERE j.jeditaskid = t.jeditaskid
        UNION ALL
         SELECT
           FROM jedi_jobs_archived j
          WHERE j.jeditaskid = t.jeditaskid));
