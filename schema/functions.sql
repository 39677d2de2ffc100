-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

CREATE OR REPLACE FUNCTION jedi_input_file_may_move(before text, after text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN before || '>' || after IN ('broken>ready', 'failed>ready', 'finished>failed', 'finished>ready', 'lost>ready', 'missing>ready', 'pending>broken', 'pending>failed', 'pending>lost', 'pending>missing', 'pending>ready', 'pending>staging', 'ready>broken', 'ready>failed', 'ready>lost', 'ready>missing', 'ready>running', 'ready>waiting', 'running>broken', 'running>failed', 'running>finished', 'running>missing', 'running>ready', 'staging>failed', 'staging>lost', 'staging>pending', 'staging>ready', 'waiting>failed', 'waiting>lost', 'waiting>ready');
END $function$;

CREATE OR REPLACE FUNCTION jedi_job_is_sound(status text, substatus text, hold_kind text, postprocessed_at timestamp with time zone, purged_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
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
END $function$;

CREATE OR REPLACE FUNCTION jedi_job_may_move(before text, after text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN before || '>' || after IN ('activated>cancelled', 'activated>closed', 'activated>failed', 'activated>sent', 'activated>throttled', 'assigned>activated', 'assigned>cancelled', 'assigned>closed', 'assigned>failed', 'defined>activated', 'defined>assigned', 'defined>cancelled', 'defined>closed', 'defined>failed', 'holding>cancelled', 'holding>closed', 'holding>failed', 'holding>finished', 'holding>merging', 'holding>transferring', 'merging>cancelled', 'merging>closed', 'merging>failed', 'merging>finished', 'pending>activated', 'pending>assigned', 'pending>cancelled', 'pending>closed', 'pending>defined', 'pending>failed', 'running>cancelled', 'running>closed', 'running>failed', 'running>holding', 'sent>cancelled', 'sent>closed', 'sent>failed', 'sent>holding', 'sent>running', 'sent>starting', 'starting>cancelled', 'starting>closed', 'starting>failed', 'starting>holding', 'starting>running', 'throttled>activated', 'throttled>cancelled', 'throttled>closed', 'throttled>failed', 'transferring>cancelled', 'transferring>closed', 'transferring>failed', 'transferring>finished', 'transferring>merging', 'waiting>activated', 'waiting>assigned', 'waiting>cancelled', 'waiting>closed', 'waiting>defined', 'waiting>failed', 'waiting>finished');
END $function$;

CREATE OR REPLACE FUNCTION jedi_job_to_book(kind text, status text, booked text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN (kind IN ('consumer', 'co_jumbo', 'clone', 'fine') AND status IN ('holding', 'finished', 'failed', 'cancelled', 'closed')
      AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'es_merge' AND status IN ('finished', 'failed', 'cancelled', 'closed') AND booked IS DISTINCT FROM 'ended')
    OR (kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL);
END $function$;

CREATE OR REPLACE FUNCTION jedi_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT coalesce(nullif(current_setting('jedi.now', true), '')::timestamptz, now()) $function$;

CREATE OR REPLACE FUNCTION jedi_output_file_may_move(before text, after text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN before || '>' || after IN ('defined>failed', 'defined>finished', 'defined>merging', 'defined>nooutput', 'defined>prepared', 'defined>running', 'finished>failed', 'merging>failed', 'merging>finished', 'merging>nooutput', 'merging>prepared', 'prepared>failed', 'prepared>finished', 'running>failed', 'running>finished', 'running>nooutput', 'running>prepared');
END $function$;

CREATE OR REPLACE FUNCTION jedi_refuse_move()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  RAISE EXCEPTION 'forbidden move of % in %: % -> %',
    TG_ARGV[0], TG_TABLE_NAME, OLD.status, NEW.status
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $function$;
