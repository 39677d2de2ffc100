-- The moves that 0.1.0 allows. It also replaces those of a later release.
CREATE OR REPLACE FUNCTION jedi_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'forbidden move of % in %: % -> %',
    TG_ARGV[0], TG_TABLE_NAME, OLD.status, NEW.status
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
CREATE OR REPLACE FUNCTION jedi_job_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ('activated>cancelled', 'activated>closed', 'activated>failed', 'activated>sent', 'activated>throttled', 'assigned>activated', 'assigned>cancelled', 'assigned>closed', 'assigned>failed', 'defined>activated', 'defined>assigned', 'defined>cancelled', 'defined>closed', 'defined>failed', 'holding>cancelled', 'holding>closed', 'holding>failed', 'holding>finished', 'holding>merging', 'holding>transferring', 'merging>cancelled', 'merging>closed', 'merging>failed', 'merging>finished', 'pending>activated', 'pending>assigned', 'pending>cancelled', 'pending>closed', 'pending>defined', 'pending>failed', 'running>cancelled', 'running>closed', 'running>failed', 'running>holding', 'sent>cancelled', 'sent>closed', 'sent>failed', 'sent>holding', 'sent>running', 'sent>starting', 'starting>cancelled', 'starting>closed', 'starting>failed', 'starting>holding', 'starting>running', 'throttled>activated', 'throttled>cancelled', 'throttled>closed', 'throttled>failed', 'transferring>cancelled', 'transferring>closed', 'transferring>failed', 'transferring>finished', 'transferring>merging', 'waiting>cancelled', 'waiting>closed', 'waiting>defined', 'waiting>failed', 'waiting>finished');
END $$;
CREATE OR REPLACE TRIGGER guard_input_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH
  ROW WHEN (old.status <> new.status AND (old.type = ANY (ARRAY['input', 'pseudo_input',
  'random_seed', 'pp_input', 'in_constituent', 'trn_log', 'trn_output'])) AND (((old.status || '>')
  || new.status) <> ALL (ARRAY['ready>running', 'running>finished', 'running>ready', 'broken>ready',
  'failed>ready', 'finished>failed', 'finished>ready', 'lost>ready', 'missing>ready',
  'pending>failed', 'pending>lost', 'pending>ready', 'pending>staging', 'ready>failed',
  'ready>lost', 'ready>waiting', 'running>broken', 'running>failed', 'running>missing',
  'staging>failed', 'staging>lost', 'staging>pending', 'staging>ready', 'waiting>failed',
  'waiting>lost', 'waiting>ready']))) EXECUTE FUNCTION jedi_refuse_move('input file');
CREATE OR REPLACE TRIGGER guard_output_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH
  ROW WHEN (old.status <> new.status AND (old.type <> ALL (ARRAY['input', 'pseudo_input',
  'random_seed', 'pp_input', 'in_constituent', 'trn_log', 'trn_output'])) AND (((old.status || '>')
  || new.status) <> ALL (ARRAY['defined>running', 'running>finished', 'defined>failed',
  'defined>finished', 'defined>merging', 'defined>nooutput', 'defined>prepared', 'finished>failed',
  'merging>failed', 'merging>finished', 'merging>nooutput', 'merging>prepared', 'prepared>failed',
  'prepared>finished', 'running>failed', 'running>nooutput', 'running>prepared']))) EXECUTE FUNCTION
  jedi_refuse_move('output file');
CREATE OR REPLACE TRIGGER guard_input_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW
  WHEN (old.status <> new.status AND (old.type = ANY (ARRAY['input', 'pseudo_input', 'random_seed',
  'pp_input', 'in_constituent', 'trn_log', 'trn_output'])) AND (((old.status || '>') || new.status)
  <> ALL (ARRAY['broken>defined', 'broken>toupdate', 'defined>broken', 'defined>done',
  'defined>pending', 'defined>ready', 'defined>removed', 'defined>running', 'done>defined',
  'done>ready', 'done>running', 'done>toupdate', 'failed>defined', 'failed>ready', 'failed>running',
  'failed>toupdate', 'finished>defined', 'finished>ready', 'finished>running', 'finished>toupdate',
  'pending>broken', 'pending>done', 'pending>ready', 'pending>removed', 'pending>running',
  'ready>defined', 'ready>done', 'ready>failed', 'ready>finished', 'ready>running',
  'ready>toupdate', 'removed>toupdate', 'running>broken', 'running>defined', 'running>done',
  'running>failed', 'running>finished', 'running>ready', 'running>toupdate', 'toupdate>broken',
  'toupdate>done', 'toupdate>pending', 'toupdate>ready', 'toupdate>removed', 'toupdate>running'])))
  EXECUTE FUNCTION jedi_refuse_move('input dataset');
CREATE OR REPLACE TRIGGER guard_output_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW
  WHEN (old.status <> new.status AND (old.type <> ALL (ARRAY['input', 'pseudo_input', 'random_seed',
  'pp_input', 'in_constituent', 'trn_log', 'trn_output'])) AND (((old.status || '>') || new.status)
  <> ALL (ARRAY['defined>prepared', 'defined>ready', 'done>ready', 'failed>ready', 'finished>ready',
  'prepared>done', 'prepared>failed', 'prepared>finished', 'prepared>ready', 'ready>prepared',
  'ready>running', 'running>prepared']))) EXECUTE FUNCTION jedi_refuse_move('output dataset');
CREATE OR REPLACE TRIGGER guard_event_range AFTER UPDATE OF status ON jedi_events FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL (ARRAY['10>0', '6>10',
  '6>5', '6>9', '7>4', '7>8', '7>0', '3>5', '3>6', '0>4', '0>6', '0>7', '0>8', '0>3', '0>1', '2>4',
  '2>7', '2>3', '2>0', '1>4', '1>7', '1>3', '1>0', '1>2']))) EXECUTE FUNCTION
  jedi_refuse_move('event range');
CREATE OR REPLACE TRIGGER guard_job AFTER UPDATE OF status ON jedi_jobs FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL (ARRAY['activated>sent',
  'sent>starting', 'starting>running', 'sent>running', 'running>holding', 'holding>finished'])) AND
  NOT jedi_job_may_move(old.status, new.status)) EXECUTE FUNCTION jedi_refuse_move('job');
CREATE OR REPLACE TRIGGER guard_task AFTER UPDATE OF status ON jedi_tasks FOR EACH ROW WHEN
  (old.status <> new.status AND (((old.status || '>') || new.status) <> ALL
  (ARRAY['aborted>toincexec', 'aborting>toabort', 'assigning>aborting', 'assigning>exhausted',
  'assigning>finishing', 'assigning>paused', 'assigning>ready', 'assigning>toabort',
  'assigning>toreassign', 'defined>aborting', 'defined>assigning', 'defined>exhausted',
  'defined>finishing', 'defined>paused', 'defined>pending', 'defined>ready', 'defined>toabort',
  'defined>tobroken', 'defined>toreassign', 'done>registered', 'done>toincexec', 'done>toretry',
  'exhausted>aborting', 'exhausted>finishing', 'exhausted>paused', 'exhausted>registered',
  'exhausted>running', 'exhausted>scouting', 'exhausted>toabort', 'exhausted>toincexec',
  'exhausted>toreassign', 'exhausted>toretry', 'failed>toincexec', 'failed>toretry',
  'finished>registered', 'finished>toincexec', 'finished>toretry', 'finishing>aborting',
  'finishing>passed', 'finishing>toabort', 'passed>aborting', 'passed>done', 'passed>failed',
  'passed>finished', 'paused>aborting', 'paused>assigning', 'paused>defined', 'paused>exhausted',
  'paused>finishing', 'paused>pending', 'paused>prepared', 'paused>preprocessing', 'paused>ready',
  'paused>registered', 'paused>rerefine', 'paused>running', 'paused>scouted', 'paused>scouting',
  'paused>staged', 'paused>staging', 'paused>throttled', 'paused>toabort', 'paused>topreprocess',
  'pending>aborting', 'pending>defined', 'pending>exhausted', 'pending>finishing', 'pending>paused',
  'pending>preprocessing', 'pending>ready', 'pending>registered', 'pending>rerefine',
  'pending>running', 'pending>scouting', 'pending>toabort', 'pending>topreprocess',
  'pending>toreassign', 'prepared>done', 'prepared>exhausted', 'prepared>failed',
  'prepared>finished', 'prepared>paused', 'preprocessing>aborting', 'preprocessing>finishing',
  'preprocessing>paused', 'preprocessing>pending', 'preprocessing>prepared',
  'preprocessing>registered', 'preprocessing>toabort', 'ready>aborting', 'ready>defined',
  'ready>exhausted', 'ready>finishing', 'ready>paused', 'ready>pending', 'ready>prepared',
  'ready>running', 'ready>scouting', 'ready>throttled', 'ready>toabort', 'ready>toreassign',
  'reassigning>aborting', 'reassigning>assigning', 'reassigning>defined', 'reassigning>exhausted',
  'reassigning>finishing', 'reassigning>pending', 'reassigning>ready', 'reassigning>running',
  'reassigning>scouted', 'reassigning>scouting', 'reassigning>toabort', 'registered>aborting',
  'registered>defined', 'registered>exhausted', 'registered>finishing', 'registered>paused',
  'registered>pending', 'registered>staging', 'registered>toabort', 'registered>tobroken',
  'registered>topreprocess', 'rerefine>aborting', 'rerefine>defined', 'rerefine>finishing',
  'rerefine>paused', 'rerefine>pending', 'rerefine>toabort', 'rerefine>tobroken',
  'running>aborting', 'running>defined', 'running>exhausted', 'running>finishing', 'running>paused',
  'running>pending', 'running>prepared', 'running>throttled', 'running>toabort',
  'running>toreassign', 'scouted>aborting', 'scouted>finishing', 'scouted>paused',
  'scouted>running', 'scouted>toabort', 'scouted>toreassign', 'scouting>aborting',
  'scouting>defined', 'scouting>exhausted', 'scouting>finishing', 'scouting>paused',
  'scouting>pending', 'scouting>prepared', 'scouting>scouted', 'scouting>throttled',
  'scouting>toabort', 'scouting>tobroken', 'scouting>toreassign', 'staged>aborting',
  'staged>defined', 'staged>finishing', 'staged>paused', 'staged>toabort', 'staged>tobroken',
  'staged>topreprocess', 'staging>aborting', 'staging>finishing', 'staging>paused',
  'staging>staged', 'staging>toabort', 'throttled>aborting', 'throttled>finishing',
  'throttled>paused', 'throttled>prepared', 'throttled>ready', 'throttled>running',
  'throttled>scouting', 'throttled>toabort', 'toabort>aborted', 'tobroken>aborting',
  'tobroken>broken', 'toincexec>aborting', 'toincexec>finishing', 'toincexec>rerefine',
  'toincexec>toabort', 'topreprocess>aborting', 'topreprocess>finishing', 'topreprocess>paused',
  'topreprocess>pending', 'topreprocess>preprocessing', 'topreprocess>toabort',
  'toreassign>aborting', 'toreassign>finishing', 'toreassign>reassigning', 'toreassign>toabort',
  'toretry>aborting', 'toretry>defined', 'toretry>done', 'toretry>exhausted', 'toretry>failed',
  'toretry>finished', 'toretry>finishing', 'toretry>ready', 'toretry>registered',
  'toretry>toabort']))) EXECUTE FUNCTION jedi_refuse_move('task');
