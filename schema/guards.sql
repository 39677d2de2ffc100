-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

CREATE TRIGGER guard_input_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH ROW WHEN
    (old.status <> new.status AND (old.type = ANY
    ('{input,pseudo_input,random_seed,pp_input,in_constituent,trn_log,trn_output}')) AND
    (((old.status || '>') || new.status) <> ALL ('{ready>running,running>finished,running>ready}'))
    AND NOT jedi_input_file_may_move(old.status, new.status)) EXECUTE FUNCTION
    jedi_refuse_move('input file');

CREATE TRIGGER guard_output_file AFTER UPDATE OF status ON jedi_dataset_contents FOR EACH ROW WHEN
    (old.status <> new.status AND (old.type <> ALL
    ('{input,pseudo_input,random_seed,pp_input,in_constituent,trn_log,trn_output}')) AND
    (((old.status || '>') || new.status) <> ALL
    ('{defined>running,running>finished,defined>finished}')) AND NOT
    jedi_output_file_may_move(old.status, new.status)) EXECUTE FUNCTION
    jedi_refuse_move('output file');

CREATE TRIGGER guard_input_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW WHEN
    (old.status <> new.status AND (old.type = ANY
    ('{input,pseudo_input,random_seed,pp_input,in_constituent,trn_log,trn_output}')) AND
    (((old.status || '>') || new.status) <> ALL
    ('{broken>defined,broken>toupdate,defined>broken,defined>done,defined>pending,defined>ready,defined>removed,defined>running,done>defined,done>ready,done>running,done>toupdate,failed>defined,failed>ready,failed>running,failed>toupdate,finished>defined,finished>ready,finished>running,finished>toupdate,pending>broken,pending>done,pending>ready,pending>removed,pending>running,ready>defined,ready>done,ready>failed,ready>finished,ready>running,ready>toupdate,removed>toupdate,running>broken,running>defined,running>done,running>failed,running>finished,running>ready,running>toupdate,toupdate>broken,toupdate>done,toupdate>pending,toupdate>ready,toupdate>removed,toupdate>running}')))
    EXECUTE FUNCTION jedi_refuse_move('input dataset');

CREATE TRIGGER guard_output_dataset AFTER UPDATE OF status ON jedi_datasets FOR EACH ROW WHEN
    (old.status <> new.status AND (old.type <> ALL
    ('{input,pseudo_input,random_seed,pp_input,in_constituent,trn_log,trn_output}')) AND
    (((old.status || '>') || new.status) <> ALL
    ('{defined>prepared,defined>ready,done>ready,failed>ready,finished>ready,prepared>done,prepared>failed,prepared>finished,prepared>ready,ready>prepared,ready>running,running>prepared}')))
    EXECUTE FUNCTION jedi_refuse_move('output dataset');

CREATE TRIGGER guard_event_range AFTER UPDATE OF status ON jedi_events FOR EACH ROW WHEN (old.status
    <> new.status AND (((old.status || '>') || new.status) <> ALL
    ('{0>6,0>1,1>3,3>6,6>9,10>4,10>8,6>10,6>5,7>4,7>8,3>5,0>4,0>7,0>8,0>3,2>4,2>7,2>3,2>0,1>4,1>7,1>0,1>2}')))
    EXECUTE FUNCTION jedi_refuse_move('event range');

CREATE TRIGGER guard_job AFTER UPDATE OF status ON jedi_jobs FOR EACH ROW WHEN (old.status <>
    new.status AND (((old.status || '>') || new.status) <> ALL
    ('{activated>sent,sent>starting,starting>running,sent>running,running>holding,holding>finished}'))
    AND NOT jedi_job_may_move(old.status, new.status)) EXECUTE FUNCTION jedi_refuse_move('job');

CREATE TRIGGER guard_task AFTER UPDATE OF status ON jedi_tasks FOR EACH ROW WHEN (old.status <>
    new.status AND (((old.status || '>') || new.status) <> ALL
    ('{aborted>toincexec,aborted>toretry,aborting>toabort,assigning>aborting,assigning>exhausted,assigning>finishing,assigning>paused,assigning>ready,assigning>toabort,assigning>toreassign,defined>aborting,defined>assigning,defined>exhausted,defined>finishing,defined>paused,defined>pending,defined>ready,defined>toabort,defined>tobroken,defined>toreassign,done>registered,done>toincexec,done>toretry,exhausted>aborting,exhausted>finishing,exhausted>paused,exhausted>registered,exhausted>running,exhausted>scouting,exhausted>toabort,exhausted>toincexec,exhausted>toreassign,exhausted>toretry,failed>toincexec,failed>toretry,finished>registered,finished>toincexec,finished>toretry,finishing>aborting,finishing>passed,finishing>registered,finishing>toabort,passed>aborting,passed>done,passed>failed,passed>finished,passed>registered,paused>aborting,paused>assigning,paused>defined,paused>exhausted,paused>finishing,paused>pending,paused>prepared,paused>preprocessing,paused>ready,paused>registered,paused>rerefine,paused>running,paused>scouted,paused>scouting,paused>staged,paused>staging,paused>throttled,paused>toabort,paused>topreprocess,pending>aborting,pending>defined,pending>exhausted,pending>finishing,pending>paused,pending>preprocessing,pending>ready,pending>registered,pending>rerefine,pending>running,pending>scouting,pending>toabort,pending>topreprocess,pending>toreassign,prepared>done,prepared>exhausted,prepared>failed,prepared>finished,prepared>paused,prepared>registered,preprocessing>aborting,preprocessing>finishing,preprocessing>paused,preprocessing>pending,preprocessing>prepared,preprocessing>registered,preprocessing>toabort,ready>aborting,ready>defined,ready>exhausted,ready>finishing,ready>paused,ready>pending,ready>prepared,ready>running,ready>scouting,ready>throttled,ready>toabort,ready>toreassign,reassigning>aborting,reassigning>assigning,reassigning>defined,reassigning>exhausted,reassigning>finishing,reassigning>pending,reassigning>ready,reassigning>running,reassigning>scouted,reassigning>scouting,reassigning>toabort,registered>aborting,registered>defined,registered>exhausted,registered>finishing,registered>paused,registered>pending,registered>staging,registered>toabort,registered>tobroken,registered>topreprocess,rerefine>aborting,rerefine>defined,rerefine>finishing,rerefine>paused,rerefine>pending,rerefine>toabort,rerefine>tobroken,running>aborting,running>defined,running>exhausted,running>finishing,running>paused,running>pending,running>prepared,running>throttled,running>toabort,running>toreassign,scouted>aborting,scouted>finishing,scouted>paused,scouted>running,scouted>toabort,scouted>toreassign,scouting>aborting,scouting>defined,scouting>exhausted,scouting>finishing,scouting>paused,scouting>pending,scouting>prepared,scouting>scouted,scouting>throttled,scouting>toabort,scouting>tobroken,scouting>toreassign,staged>aborting,staged>defined,staged>finishing,staged>paused,staged>toabort,staged>tobroken,staged>topreprocess,staging>aborting,staging>finishing,staging>paused,staging>staged,staging>toabort,throttled>aborting,throttled>finishing,throttled>paused,throttled>prepared,throttled>ready,throttled>running,throttled>scouting,throttled>toabort,toabort>aborted,tobroken>aborting,tobroken>broken,toincexec>aborting,toincexec>finishing,toincexec>rerefine,toincexec>toabort,topreprocess>aborting,topreprocess>finishing,topreprocess>paused,topreprocess>pending,topreprocess>preprocessing,topreprocess>toabort,toreassign>aborting,toreassign>finishing,toreassign>reassigning,toreassign>toabort,toretry>aborting,toretry>defined,toretry>done,toretry>exhausted,toretry>failed,toretry>finished,toretry>finishing,toretry>ready,toretry>registered,toretry>toabort}')))
    EXECUTE FUNCTION jedi_refuse_move('task');
