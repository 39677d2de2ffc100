-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

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
