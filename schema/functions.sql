-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

CREATE OR REPLACE FUNCTION jedi_job_may_move(before text, after text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN before || '>' || after IN ('activated>cancelled', 'activated>closed', 'activated>failed', 'activated>sent', 'activated>throttled', 'assigned>activated', 'assigned>cancelled', 'assigned>closed', 'assigned>failed', 'defined>activated', 'defined>assigned', 'defined>cancelled', 'defined>closed', 'defined>failed', 'holding>cancelled', 'holding>closed', 'holding>failed', 'holding>finished', 'holding>merging', 'holding>transferring', 'merging>cancelled', 'merging>closed', 'merging>failed', 'merging>finished', 'pending>activated', 'pending>assigned', 'pending>cancelled', 'pending>closed', 'pending>defined', 'pending>failed', 'running>cancelled', 'running>closed', 'running>failed', 'running>holding', 'sent>cancelled', 'sent>closed', 'sent>failed', 'sent>holding', 'sent>running', 'sent>starting', 'starting>cancelled', 'starting>closed', 'starting>failed', 'starting>holding', 'starting>running', 'throttled>activated', 'throttled>cancelled', 'throttled>closed', 'throttled>failed', 'transferring>cancelled', 'transferring>closed', 'transferring>failed', 'transferring>finished', 'transferring>merging', 'waiting>activated', 'waiting>assigned', 'waiting>cancelled', 'waiting>closed', 'waiting>defined', 'waiting>failed', 'waiting>finished');
END $function$;

CREATE OR REPLACE FUNCTION jedi_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT coalesce(nullif(current_setting('jedi.now', true), '')::timestamptz, now()) $function$;

CREATE OR REPLACE FUNCTION jedi_refuse_move()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  RAISE EXCEPTION 'forbidden move of % in %: % -> %',
    TG_ARGV[0], TG_TABLE_NAME, OLD.status, NEW.status
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $function$;
