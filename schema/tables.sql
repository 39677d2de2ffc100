-- Generated from a migrated database: change jedi/taskbuffer and migrations instead.

CREATE SEQUENCE jedi_dataset_id_seq CACHE 1;
CREATE SEQUENCE jedi_file_id_seq CACHE 1000;
CREATE SEQUENCE jedi_out_temp_id_seq CACHE 1;
CREATE SEQUENCE jedi_panda_id_seq CACHE 1;
CREATE SEQUENCE jedi_task_id_seq CACHE 1;
CREATE SEQUENCE jedi_ziprow_id_seq CACHE 1;

-- datasets and containers of the SQL catalogue
CREATE TABLE ddm_datasets (
    dataset_id bigserial,                                  -- order
    name text NOT NULL,                                    -- scope:name
    state text NOT NULL,                                   -- open: more files may come; closed
    is_container boolean NOT NULL,                         -- it holds datasets, not files
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of creation
    CONSTRAINT ddm_datasets_pk PRIMARY KEY (dataset_id),
    CONSTRAINT ddm_datasets_name_uq UNIQUE (name),
    CONSTRAINT ddm_datasets_state_ck CHECK (state = ANY ('{open,closed}'))
);

-- files of datasets
CREATE TABLE ddm_files (
    file_id bigserial,           -- order
    dataset_id bigint NOT NULL,  -- its dataset
    lfn text NOT NULL,           -- its name, which its dataset has once
    size bigint NOT NULL,        -- bytes
    adler32 text NOT NULL,       -- 8 lower-case hex digits
    guid text NOT NULL,          -- globally unique identifier
    nevents bigint,              -- events in it, if known
    boundary bigint,             -- files with the same one belong together
    lumiblock integer,           -- the lumi block of its events
    CONSTRAINT ddm_files_pk PRIMARY KEY (file_id),
    CONSTRAINT ddm_files_dataset_id_uq UNIQUE (dataset_id, lfn),
    CONSTRAINT ddm_files_dataset_id_fk FOREIGN KEY (dataset_id) REFERENCES ddm_datasets(dataset_id)
        ON DELETE CASCADE
);

-- members of containers
CREATE TABLE ddm_members (
    container_id bigint NOT NULL,  -- the container
    member text NOT NULL,          -- scope:name of a dataset in it
    position integer NOT NULL,     -- order
    CONSTRAINT ddm_members_pk PRIMARY KEY (container_id, member),
    CONSTRAINT ddm_members_container_id_fk FOREIGN KEY (container_id) REFERENCES
        ddm_datasets(dataset_id) ON DELETE CASCADE
);

-- replicas of files
CREATE TABLE ddm_replicas (
    file_id bigint NOT NULL,  -- the file
    endpoint text NOT NULL,   -- endpoint of the replica
    expires_at timestamptz,   -- end of the copy's pin; empty: it stays for good
    CONSTRAINT ddm_replicas_pk PRIMARY KEY (file_id, endpoint),
    CONSTRAINT ddm_replicas_file_id_fk FOREIGN KEY (file_id) REFERENCES ddm_files(file_id) ON DELETE
        CASCADE
);
CREATE INDEX ddm_replicas_expires_at_ix ON ddm_replicas (expires_at) WHERE expires_at IS NOT NULL;

-- answers given to pilots, so that a repeated request gets the same jobs
CREATE TABLE jedi_acquire_requests (
    request_id text NOT NULL,                              -- the pilot's own number of its request
    site text NOT NULL,                                    -- the pilot's site
    pandaids bigint[] NOT NULL,                            -- the jobs handed out
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_acquire_requests_pk PRIMARY KEY (request_id)
);
CREATE INDEX jedi_acquire_requests_creationtime_ix ON jedi_acquire_requests (creationtime);

-- heartbeats of agents
CREATE TABLE jedi_agents (
    agent text NOT NULL,                                -- name of the agent
    process text NOT NULL,                              -- host, pid and a number
    starttime timestamptz NOT NULL DEFAULT jedi_now(),  -- start
    heartbeat_at timestamptz,                           -- last heartbeat, in real time
    cycles bigint NOT NULL DEFAULT 0,                   -- cycles so far
    items bigint NOT NULL DEFAULT 0,                    -- items worked on so far
    last_error text,                                    -- the last error of its loop
    rss_kb bigint,                                      -- resident memory
    CONSTRAINT jedi_agents_pk PRIMARY KEY (agent, process)
);

-- changes that callers of the service made
CREATE TABLE jedi_audit (
    audit_id bigserial,                                    -- order
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    username text NOT NULL,                                -- the caller
    way text NOT NULL,                                     -- socket, token or oidc
    operation text NOT NULL,                               -- the operation's name
    subject text,                                          -- the object, such as task 17
    arguments jsonb NOT NULL,                              -- the arguments, long texts cut
    address text,                                          -- the caller's address; unix:UID on the unix socket
    request_id text,                                       -- the request, as the access log names it
    CONSTRAINT jedi_audit_pk PRIMARY KEY (audit_id)
);
CREATE INDEX jedi_audit_time_ix ON jedi_audit (creationtime);

-- decisions of brokers
CREATE TABLE jedi_broker_decisions (
    decision_id bigserial,                                 -- order
    jeditaskid bigint NOT NULL,                            -- the task
    broker text NOT NULL,                                  -- nucleus, production, analysis, generic
    snapshot_hash text,                                    -- hash of the broker's snapshot
    seed bigint NOT NULL,                                  -- seed of the lottery
    knobs jsonb NOT NULL,                                  -- the knobs it used
    outcome text NOT NULL,                                 -- chosen, none, ...
    chosen text[] NOT NULL,                                -- the sites, best first
    weights double precision[] NOT NULL,                   -- their weights
    need jsonb NOT NULL,                                   -- requirements of the task
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    used text[] NOT NULL DEFAULT '{}',                     -- the sites that the task had jobs at
    CONSTRAINT jedi_broker_decisions_pk PRIMARY KEY (decision_id)
);
CREATE INDEX jedi_broker_decisions_creationtime_ix ON jedi_broker_decisions (creationtime);
CREATE INDEX jedi_broker_decisions_jeditaskid_decision_id_ix ON jedi_broker_decisions (jeditaskid,
    decision_id);
CREATE INDEX jedi_broker_decisions_snapshot_hash_ix ON jedi_broker_decisions (snapshot_hash);

-- refused sites of decisions, with reasons
CREATE TABLE jedi_broker_reasons (
    decision_id bigint NOT NULL,           -- the decision
    site text NOT NULL,                    -- a site that was refused
    codes text[] NOT NULL,                 -- every reason
    observed double precision[] NOT NULL,  -- observed values, by reason
    limits double precision[] NOT NULL,    -- the limits, by reason
    CONSTRAINT jedi_broker_reasons_pk PRIMARY KEY (decision_id, site)
);

-- files that PanDA's clients upload before they submit a task
CREATE TABLE jedi_cache_files (
    filename text NOT NULL,                                -- name, which says nothing of the content
    username text NOT NULL,                                -- the user who uploaded it
    fsize bigint NOT NULL,                                 -- bytes
    crc32 bigint NOT NULL,                                 -- CRC-32 of the unpacked content, as the end of a gzip file has it
    data bytea NOT NULL,                                   -- the file, not checked yet
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the upload, or of its last use
    CONSTRAINT jedi_cache_files_pk PRIMARY KEY (filename)
);
CREATE INDEX jedi_cache_files_user_ix ON jedi_cache_files (username, fsize, crc32);

-- commands to tasks: rows are only added and acknowledged
CREATE TABLE jedi_commands (
    command_id bigserial,                                  -- order
    jeditaskid bigint NOT NULL,                            -- the task
    command text NOT NULL,                                 -- kill, finish, retry, ...
    arguments jsonb NOT NULL DEFAULT '{}',                 -- the command's arguments
    username text NOT NULL,                                -- the user who commanded
    comment text,                                          -- why
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    acknowledged_at timestamptz,                           -- time of its start; NULL: not yet
    outcome text,                                          -- accepted or refused
    message text,                                          -- the outcome, for people
    retry_at timestamptz,                                  -- time of the next try; NULL: at once
    CONSTRAINT jedi_commands_pk PRIMARY KEY (command_id)
);
CREATE INDEX jedi_commands_jeditaskid_ix ON jedi_commands (jeditaskid);
CREATE INDEX jedi_commands_open_ix ON jedi_commands (command_id) WHERE acknowledged_at IS NULL;

-- jobs that process ranges of events
CREATE TABLE jedi_consumers (
    pandaid bigint NOT NULL,                -- the job
    jeditaskid bigint NOT NULL,             -- the task
    jobsetid bigint,                        -- its job set; NULL: any of the task (jumbo)
    kind text NOT NULL,                     -- consumer, clone, co_jumbo, jumbo or fine
    number integer NOT NULL,                -- its number within the job set, from 1 on
    settled_at timestamptz,                 -- time at which the effects of its end on ranges were booked
    request_id text,                        -- its last ask for ranges that was answered
    freeinrow smallint NOT NULL DEFAULT 0,  -- consumers before it in a row that used up no attempt, since their ends were nobody's fault
    CONSTRAINT jedi_consumers_pk PRIMARY KEY (pandaid)
);
CREATE INDEX jedi_consumers_jeditaskid_ix ON jedi_consumers (jeditaskid);
CREATE INDEX jedi_consumers_jobsetid_ix ON jedi_consumers (jobsetid);
CREATE INDEX jedi_consumers_jumbo_ix ON jedi_consumers (jeditaskid) WHERE jobsetid IS NULL;
CREATE INDEX jedi_consumers_live_ix ON jedi_consumers (jobsetid) WHERE settled_at IS NULL;

-- files (or event ranges of files) and their use by tasks
CREATE TABLE jedi_dataset_contents (
    fileid bigint NOT NULL DEFAULT nextval('jedi_file_id_seq'),  -- the file's identifier, from a sequence
    datasetid bigint NOT NULL,                              -- the dataset
    jeditaskid bigint NOT NULL,                             -- the task
    creationdate timestamptz NOT NULL DEFAULT jedi_now(),   -- time of the record's insertion
    lastattempttime timestamptz,                            -- time of the last attempt
    lfn text NOT NULL,                                      -- the logical file name
    guid text,                                              -- the file's GUID
    type text NOT NULL,                                     -- the dataset's type
    fsize bigint,                                           -- size in bytes
    checksum text,                                          -- adler32, 8 hex digits
    scope text,                                             -- the scope
    status text NOT NULL,                                   -- the file's status
    attemptnr smallint NOT NULL DEFAULT 0,                  -- number of attempts
    maxattempt smallint,                                    -- largest number of attempts
    nevents bigint,                                         -- events in the file
    keeptrack smallint,                                     -- 1 if the file's use is kept track of
    startevent bigint,                                      -- first event of the range in the file
    endevent bigint,                                        -- last event of the range in the file
    firstevent bigint,                                      -- number given to the first event
    boundaryid bigint,                                      -- splitting respects this id
    pandaid bigint,                                         -- the job that uses the file
    failedattempt smallint NOT NULL DEFAULT 0,              -- number of failed attempts
    lumiblocknr integer,                                    -- lumi block in the file
    outpandaid bigint,                                      -- the job that made the file
    maxfailure smallint,                                    -- largest number of failed attempts
    is_waiting text,                                        -- Y if it waits for a real co-jumbo job
    jobsetid bigint,                                        -- the job set that uses the file
    proc_status text,                                       -- the status as users see it
    ramcount integer,                                       -- memory that its jobs need if the task asks for less, in the task's unit
    ready boolean GENERATED ALWAYS AS (status = 'ready') STORED,  -- the status is ready
    freeattempt smallint NOT NULL DEFAULT 0,                -- attempts that are nobody's fault
    freeinrow smallint NOT NULL DEFAULT 0,                  -- the last of them in a row
    reason text,                                            -- the code of the reason, if no job gets the file
    CONSTRAINT jedi_dataset_contents_pk PRIMARY KEY (fileid, jeditaskid),
    CONSTRAINT jedi_dataset_contents_lfn_ck CHECK (length(lfn) <= 256),
    CONSTRAINT jedi_dataset_contents_reason_ck CHECK ((status = 'skipped') = (reason IS NOT NULL)),
    CONSTRAINT jedi_dataset_contents_status_ck CHECK (status = ANY
        ('{pending,staging,waiting,ready,missing,lost,broken,picked,running,finished,failed,partial,skipped,defined,prepared,merging,nooutput}'))
) WITH (autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_scale_factor=0.05, fillfactor=40);
CREATE INDEX jedi_dataset_contents_datasetid_fileid_ix ON jedi_dataset_contents (datasetid, fileid);
CREATE INDEX jedi_dataset_contents_jeditaskid_datasetid_ix ON jedi_dataset_contents (jeditaskid,
    datasetid);
CREATE INDEX jedi_dataset_contents_lfn_ix ON jedi_dataset_contents (lfn) WHERE type = ANY
    (ARRAY['output', 'log']);
CREATE INDEX jedi_dataset_contents_ready_ix ON jedi_dataset_contents (datasetid, fileid) WHERE
    ready;
CREATE INDEX jedi_dataset_contents_unit_ix ON jedi_dataset_contents (datasetid, boundaryid) WHERE
    boundaryid IS NOT NULL;

-- datasets and their relations with tasks
CREATE TABLE jedi_datasets (
    datasetid bigint NOT NULL DEFAULT nextval('jedi_dataset_id_seq'),  -- the dataset's identifier, from a sequence
    datasetname text NOT NULL,                              -- scope:name
    containername text,                                     -- the container it came from, or is in
    jeditaskid bigint NOT NULL,                             -- the task
    masterid bigint,                                        -- the master of a secondary dataset
    provenanceid bigint,                                    -- the input an output belongs to
    state text,                                             -- open or closed in data management, when last looked up
    statechecktime timestamptz,                             -- time of the last look at the state
    statecheckexpiration timestamptz,                       -- look-ups end here; NULL: none needed
    nfiles bigint NOT NULL DEFAULT 0,                       -- files, or ranges of their events, for jobs
    nfilestobeused bigint NOT NULL DEFAULT 0,               -- files released for jobs
    nfilesused bigint NOT NULL DEFAULT 0,                   -- files in jobs or through with them
    nfilesfinished bigint NOT NULL DEFAULT 0,               -- files finished
    nfilesfailed bigint NOT NULL DEFAULT 0,                 -- files failed for good
    nfilesonhold bigint NOT NULL DEFAULT 0,                 -- files on hold
    nevents bigint,                                         -- events in the dataset; NULL unless needed
    neventstobeused bigint,                                 -- events released
    neventsused bigint,                                     -- events finished
    status text NOT NULL,                                   -- use of the dataset by its task
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),   -- time of the record's insertion
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the last update
    frozentime timestamptz,                                 -- time of the dataset's freezing
    type text NOT NULL,                                     -- input, output, log, pseudo_input, random_seed, ...
    vo text,                                                -- the virtual organisation
    cloud text,                                             -- the cloud whose replica is used
    site text,                                              -- the site whose jobs fill it; NULL: any
    lockedby text,                                          -- the process that takes care of the record
    lockedtime timestamptz,                                 -- time of the record's lock
    attributes text,                                        -- attributes for splitting: ratio, nosplit, repeat, ...
    streamname text,                                        -- its placeholder in the job parameters
    storagetoken text,                                      -- storage of the files while the task runs
    destination text,                                       -- the endpoint where outputs go
    templateid bigint,                                      -- the container it was made for
    nfileswaiting bigint NOT NULL DEFAULT 0,                -- files waiting for real co-jumbo jobs
    nfilesmissing bigint NOT NULL DEFAULT 0,                -- files lost, missing or broken
    unprocessed boolean GENERATED ALWAYS AS ((masterid IS NULL) AND (type = ANY
        ('{input,pseudo_input}')) AND ((status = ANY ('{defined,toupdate,pending}')) OR ((status =
        ANY ('{ready,running}')) AND (((nfilesfinished + nfilesfailed) + nfilesmissing) <
        nfilestobeused)))) STORED,  -- a master with files that are not processed, or not fed yet
    fed_upto text,                                          -- the last file that was listed, while later ones are still to be fed
    nleftout bigint NOT NULL DEFAULT 0,                     -- files and other entries that no job gets
    CONSTRAINT jedi_datasets_pk PRIMARY KEY (datasetid, jeditaskid),
    CONSTRAINT jedi_datasets_status_ck CHECK (status = ANY
        ('{defined,toupdate,pending,broken,ready,running,done,finished,failed,removed,prepared}'))
) WITH (fillfactor=70);
CREATE INDEX jedi_datasets_container_ix ON jedi_datasets (containername, type) WHERE containername
    IS NOT NULL;
CREATE INDEX jedi_datasets_datasetname_type_ix ON jedi_datasets (datasetname, type);
CREATE INDEX jedi_datasets_jeditaskid_ix ON jedi_datasets (jeditaskid);
CREATE INDEX jedi_datasets_locked_ix ON jedi_datasets (lockedtime) WHERE lockedby IS NOT NULL;
CREATE INDEX jedi_datasets_open_ix ON jedi_datasets (statechecktime) WHERE type = 'input' AND status
    = 'running' AND datasetid > 0;
CREATE INDEX jedi_datasets_statecheck_ix ON jedi_datasets (statechecktime) WHERE
    statecheckexpiration IS NOT NULL;
CREATE INDEX jedi_datasets_unprocessed_ix ON jedi_datasets (jeditaskid) WHERE unprocessed;
CREATE INDEX jedi_datasets_waiting_ix ON jedi_datasets (jeditaskid) WHERE nfileswaiting > 0;
CREATE INDEX jedi_datasets_wanting_ix ON jedi_datasets (jeditaskid) WHERE masterid IS NULL AND
    (status = ANY (ARRAY['ready', 'running'])) AND nfilestobeused > (nfilesused + nfilesmissing);

-- every status a dataset had
CREATE TABLE jedi_datasets_statuslog (
    log_id bigserial,                                       -- order of the rows
    fromstatus text,                                        -- before; NULL at insertion
    status text NOT NULL,                                   -- after
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    agent text,                                             -- who
    reason_code text,                                       -- why
    reason text,                                            -- why, for people
    datasetid bigint NOT NULL,                              -- the dataset
    jeditaskid bigint NOT NULL,                             -- the task
    CONSTRAINT jedi_datasets_statuslog_pk PRIMARY KEY (log_id)
);
CREATE INDEX jedi_datasets_statuslog_jeditaskid_ix ON jedi_datasets_statuslog (jeditaskid);

-- storage
CREATE TABLE jedi_ddm_endpoints (
    ddm_endpoint text NOT NULL,                   -- the endpoint's name
    site text,                                    -- the grid site it belongs to
    token text,                                   -- space token
    type text NOT NULL DEFAULT 'DATADISK',        -- DATADISK, DATATAPE, ...
    path text,                                    -- root directory, for file-system endpoints
    is_tape boolean NOT NULL DEFAULT false,       -- tape
    space_total double precision,                 -- GB
    space_free double precision,                  -- GB
    space_used double precision,                  -- GB
    space_expired double precision,               -- GB
    space_min_free double precision,              -- GB
    space_unavailable double precision,           -- GB
    space_timestamp timestamptz,                  -- time of the measurement of space
    detailed_status jsonb NOT NULL DEFAULT '{}',  -- read_lan, write_lan, read_wan, write_wan: ON, OFF, TEST
    CONSTRAINT jedi_ddm_endpoints_pk PRIMARY KEY (ddm_endpoint)
);

-- jobs and templates of registries
CREATE TABLE jedi_drafts (
    guid text NOT NULL,                               -- the registry
    kind text NOT NULL,                               -- job or template
    id bigint NOT NULL,                               -- its id, from 0 on
    status text NOT NULL DEFAULT 'new',               -- status of the job
    name text NOT NULL,                               -- its name
    comment text NOT NULL,                            -- the user's comment
    version bigint NOT NULL DEFAULT 1,                -- number of the present document
    change bigint NOT NULL,                           -- the registry's number of the last change
    submissions bigint NOT NULL DEFAULT 0,            -- submissions so far
    backend text,                                     -- its backend: JEDI, Local
    backend_id text,                                  -- the backend's id, such as a task
    backend_status text,                              -- the backend's status
    cursor text,                                      -- the state after which the backend's next changes come
    complete boolean NOT NULL DEFAULT true,           -- all its input is cut
    reason text,                                      -- reason of its status
    counts jsonb NOT NULL DEFAULT '{}',               -- number of subjobs by status
    created timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    submitted timestamptz,                            -- time of the submission
    ended timestamptz,                                -- end
    document text NOT NULL,                           -- the job as JSON
    CONSTRAINT jedi_drafts_pk PRIMARY KEY (guid, kind, id),
    CONSTRAINT jedi_drafts_kind_ck CHECK (kind = ANY ('{job,template}')),
    CONSTRAINT jedi_drafts_status_ck CHECK (status = ANY
        ('{new,submitting,submitted,running,completing,completed,failed,killed,unknown}')),
    CONSTRAINT jedi_drafts_template_ck CHECK (kind = 'job' OR status = 'new')
);
CREATE INDEX jedi_drafts_change_ix ON jedi_drafts (guid, kind, change);

-- zip files with pieces, the outputs of ranges
CREATE TABLE jedi_event_zips (
    ziprow_id bigint NOT NULL DEFAULT nextval('jedi_ziprow_id_seq'),  -- the zip file
    jeditaskid bigint NOT NULL,                             -- the task
    jobsetid bigint,                                        -- its job set; NULL: of several (jumbo)
    pandaid bigint NOT NULL,                                -- the consumer that made it
    lfn text NOT NULL,                                      -- its name
    endpoint text NOT NULL,                                 -- endpoint of the file
    fsize bigint,                                           -- size in bytes
    checksum text,                                          -- adler32
    n_events bigint NOT NULL DEFAULT 0,                     -- events in it, as reported
    path_convention smallint,                               -- rule for its path
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),   -- time of the report
    problems jsonb,                                         -- missing or broken, by the PandaID of the merge job that could not read it
    CONSTRAINT jedi_event_zips_pk PRIMARY KEY (ziprow_id),
    CONSTRAINT jedi_event_zips_pandaid_uq UNIQUE (pandaid, lfn)
);
CREATE INDEX jedi_event_zips_jeditaskid_lfn_ix ON jedi_event_zips (jeditaskid, lfn);
CREATE INDEX jedi_event_zips_jobsetid_ix ON jedi_event_zips (jobsetid);

-- progress of jobs in events
CREATE TABLE jedi_events (
    jeditaskid bigint NOT NULL,                             -- the task
    datasetid bigint NOT NULL,                              -- the dataset of the file
    fileid bigint NOT NULL,                                 -- the contents row
    status smallint NOT NULL,                               -- its status (code)
    pandaid bigint NOT NULL,                                -- the job that processes the range; the job set until a consumer gets it
    job_processid bigint NOT NULL,                          -- number of the range's first event, from 1 on; 0: a range of an ordinary job
    def_min_eventid bigint,                                 -- first event of the range: an ordinary job's is counted from 0 in the file, an event service's is the number that payloads get
    def_max_eventid bigint,                                 -- last event of the range
    processed_upto_eventid bigint,                          -- last event processed
    attemptnr smallint NOT NULL,                            -- attempts: those so far of an ordinary job's range, those left of an event service's
    objstore_id integer,                                    -- number of the endpoint of its piece, as pilots of PanDA report it
    event_offset bigint,                                    -- events before the first one of the file, as events are numbered
    is_jumbo smallint,                                      -- 1 if a jumbo job processes it
    ziprow_id bigint,                                       -- the zip file (jedi_event_zips) with its piece; NULL: it is not zipped
    file_not_deleted text,                                  -- Y if its piece can be deleted
    error_code integer,                                     -- error of the range
    path_convention smallint,                               -- rule for the path of its piece
    jobsetid bigint,                                        -- the job set of the range; NULL: an ordinary job's
    endpoint text,                                          -- the endpoint of its piece; NULL: it is in a zip file, or not made
    error_diag text,                                        -- error of the range in words
    ready boolean GENERATED ALWAYS AS ((status = 0) AND (jobsetid IS NOT NULL)) STORED,  -- a consumer may get it
    CONSTRAINT jedi_events_pk PRIMARY KEY (jeditaskid, pandaid, fileid, job_processid, attemptnr),
    CONSTRAINT jedi_events_status_ck CHECK (status >= 0 AND status <= 10)
);
CREATE INDEX jedi_events_jobset_ix ON jedi_events (jobsetid, fileid, job_processid) WHERE jobsetid
    IS NOT NULL;
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid) WHERE job_processid = 0;
CREATE INDEX jedi_events_ready_ix ON jedi_events (jeditaskid, jobsetid, fileid, job_processid) WHERE
    ready;

-- links from folders to jobs
CREATE TABLE jedi_folder_jobs (
    guid text NOT NULL,      -- the registry
    path text NOT NULL,      -- the folder
    job bigint NOT NULL,     -- the job
    change bigint NOT NULL,  -- the registry's number of the change
    place integer NOT NULL,  -- its place among the links of this change
    CONSTRAINT jedi_folder_jobs_pk PRIMARY KEY (guid, path, job)
);
CREATE INDEX jedi_folder_jobs_job_ix ON jedi_folder_jobs (guid, job);

-- folders of registries
CREATE TABLE jedi_folders (
    guid text NOT NULL,  -- the registry
    path text NOT NULL,  -- its path
    CONSTRAINT jedi_folders_pk PRIMARY KEY (guid, path)
);

-- tasks with a splitter
CREATE TABLE jedi_herds (
    jeditaskid bigint NOT NULL,     -- the task
    originpandaid bigint NOT NULL,  -- the originator: the PandaID of its first unit, reserved at submission
    splitter text NOT NULL,         -- the name of its split strategy
    after text NOT NULL,            -- the step after which it can be split: refine (its parameters are known) or contents (its input files are)
    n_units integer,                -- number of its units; NULL: it is not split yet
    split_at timestamptz,           -- time of its split; NULL: it is not split yet
    CONSTRAINT jedi_herds_pk PRIMARY KEY (jeditaskid),
    CONSTRAINT jedi_herds_after_ck CHECK (after = ANY (ARRAY['refine', 'contents']))
);
CREATE UNIQUE INDEX jedi_herds_originpandaid_uq ON jedi_herds (originpandaid);
CREATE INDEX jedi_herds_unsplit_ix ON jedi_herds (jeditaskid) WHERE split_at IS NULL;

-- users that an identity provider named, whose roles follow their groups
CREATE TABLE jedi_identities (
    username text NOT NULL,                                -- the user
    issuer text NOT NULL,                                  -- the provider's URL
    subject text NOT NULL,                                 -- the provider's id of the person
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_identities_pk PRIMARY KEY (username)
);

-- the files of each job
CREATE TABLE jedi_job_files (
    pandaid bigint NOT NULL,     -- the job
    fileid bigint NOT NULL,      -- the contents row
    jeditaskid bigint NOT NULL,  -- the task
    datasetid bigint NOT NULL,   -- the dataset
    type text NOT NULL,          -- input, output, log, pseudo_input, ...
    lfn text NOT NULL,           -- the logical file name
    source_name text,            -- the payload's own name of an output
    endpoint text,               -- endpoint of an input or output
    fsize bigint,                -- size in bytes
    checksum text,               -- adler32
    guid text,                   -- GUID
    n_events bigint,             -- events
    start_event bigint,          -- first event of the range
    end_event bigint,            -- last event of the range
    problem text,                -- missing or broken: the fault of an input
    CONSTRAINT jedi_job_files_pk PRIMARY KEY (pandaid, fileid, jeditaskid)
) WITH (fillfactor=45);

-- the files of archived jobs
CREATE TABLE jedi_job_files_archived (
    pandaid bigint NOT NULL,     -- the job
    fileid bigint NOT NULL,      -- the contents row
    jeditaskid bigint NOT NULL,  -- the task
    datasetid bigint NOT NULL,   -- the dataset
    type text NOT NULL,          -- input, output, log, pseudo_input, ...
    lfn text NOT NULL,           -- the logical file name
    source_name text,            -- the payload's own name of an output
    endpoint text,               -- endpoint of an input or output
    fsize bigint,                -- size in bytes
    checksum text,               -- adler32
    guid text,                   -- GUID
    n_events bigint,             -- events
    start_event bigint,          -- first event of the range
    end_event bigint,            -- last event of the range
    problem text,                -- missing or broken: the fault of an input
    CONSTRAINT jedi_job_files_archived_pk PRIMARY KEY (pandaid, fileid, jeditaskid)
);

-- the rendered job parameters
CREATE TABLE jedi_job_params (
    pandaid bigint NOT NULL,      -- the job
    jobparameters text NOT NULL,  -- the rendered command
    texts jsonb,                  -- files that the job finds, with their text, by name
    CONSTRAINT jedi_job_params_pk PRIMARY KEY (pandaid)
);

-- the queue of activated jobs: rows are inserted and deleted, never updated
CREATE TABLE jedi_job_ready (
    pandaid bigint NOT NULL,      -- an activated job
    site text NOT NULL,           -- as the job's
    gshare text NOT NULL,         -- as the job's
    priority integer NOT NULL,    -- as the job's
    cores integer NOT NULL,       -- as the job's
    memory_mb integer NOT NULL,   -- as the job's
    walltime_s integer NOT NULL,  -- as the job's
    disk_mb integer NOT NULL,     -- as the job's
    CONSTRAINT jedi_job_ready_pk PRIMARY KEY (pandaid)
);
CREATE INDEX jedi_job_ready_order_ix ON jedi_job_ready (site, gshare, priority DESC, pandaid);

-- jobs and the jobs that replaced them
CREATE TABLE jedi_job_retry_history (
    jeditaskid bigint NOT NULL,  -- the task
    oldpandaid bigint NOT NULL,  -- the earlier job
    newpandaid bigint NOT NULL,  -- the later job
    relationtype text,           -- retry, merge, ...
    originpandaid bigint,        -- the first job of the line
    CONSTRAINT jedi_job_retry_history_pk PRIMARY KEY (jeditaskid, newpandaid, oldpandaid)
);
CREATE INDEX jedi_job_retry_history_oldpandaid_ix ON jedi_job_retry_history (oldpandaid);
CREATE INDEX jedi_job_retry_history_originpandaid_ix ON jedi_job_retry_history (originpandaid);

-- last output of payloads
CREATE TABLE jedi_job_tail (
    pandaid bigint NOT NULL,                                -- the job
    stdout_tail text,                                       -- last lines of stdout
    stderr_tail text,                                       -- last lines of stderr
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of sending
    CONSTRAINT jedi_job_tail_pk PRIMARY KEY (pandaid)
);

-- templates of the job parameters of each task
CREATE TABLE jedi_jobparams_template (
    jeditaskid bigint NOT NULL,  -- the task
    jobparamstemplate text,      -- template of job parameters
    CONSTRAINT jedi_jobparams_template_pk PRIMARY KEY (jeditaskid)
);

-- jobs that are alive or not yet archived
CREATE TABLE jedi_jobs (
    pandaid bigint NOT NULL,                                -- one attempt
    jeditaskid bigint NOT NULL,                             -- the task
    taskid bigint NOT NULL,                                 -- the request (jedi_tasks.reqid)
    originpandaid bigint NOT NULL,                          -- the first attempt's id, kept by submitters
    unit_nr integer NOT NULL,                               -- number of the unit of work within its task
    attemptnr smallint NOT NULL,                            -- attempt
    kind text NOT NULL DEFAULT 'normal',                    -- the job's work: normal, scout, merge, build, preprocess, es_merge, consumer, co_jumbo, jumbo, clone, fine
    status text NOT NULL,                                   -- the job's status
    substatus text,                                         -- detail of the status
    prodsourcelabel text,                                   -- as the task's
    processingtype text,                                    -- as the task's
    username text,                                          -- as the task's
    vo text,                                                -- as the task's
    site text NOT NULL,                                     -- the site of the job
    nucleus text,                                           -- the nucleus that gets its outputs
    workqueue_id integer NOT NULL DEFAULT 0,                -- as the task's
    gshare text NOT NULL DEFAULT '',                        -- global share
    resource_type text NOT NULL DEFAULT '',                 -- shape
    priority integer NOT NULL,                              -- larger first
    cores integer NOT NULL,                                 -- cores asked
    memory_mb integer NOT NULL,                             -- memory asked in MB; 0: no limit
    walltime_s integer NOT NULL,                            -- wall time asked in seconds; 0: no limit
    disk_mb integer NOT NULL,                               -- disk asked in MB; 0: no limit
    n_inputs integer NOT NULL DEFAULT 0,                    -- input files
    n_events bigint,                                        -- events to process
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),   -- time of creation
    statechangetime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the status
    starttime timestamptz,                                  -- start of the payload
    endtime timestamptz,                                    -- end of the payload
    heartbeat_at timestamptz,                               -- last heartbeat of the pilot
    lock_seq bigint NOT NULL DEFAULT 0,                     -- raised by each dispatch; fences the pilot's writes
    pilot_id text,                                          -- the pilot that has it
    kill_code text,                                         -- reason of the kill request
    pilot_result text,                                      -- finished, failed or cancelled, as the pilot reported; lost: the pilot of a consumer fell silent
    exit_code integer,                                      -- the payload's exit code
    error_source text,                                      -- pilot, payload, jedi, user
    error_code text,                                        -- code that can be counted
    error_diag text,                                        -- sentence for people
    cpu_s double precision,                                 -- cpu seconds of all processes
    wall_s double precision,                                -- wall seconds of the payload
    max_rss_kb bigint,                                      -- peak resident memory of all processes
    max_pss_kb bigint,                                      -- peak proportional memory of all processes
    read_bytes bigint,                                      -- read from storage
    write_bytes bigint,                                     -- written to storage
    workdir_kb bigint,                                      -- peak of the work directory
    input_bytes bigint,                                     -- size of its inputs
    output_bytes bigint,                                    -- size of its outputs
    hold_kind text,                                         -- PGI hold
    hold_reason text,                                       -- reason for the hold
    hold_since timestamptz,                                 -- start of the hold
    hold_deadline timestamptz,                              -- end of the hold unless somebody ends it before
    delegation_kind text,                                   -- the batch engine it was handed to
    delegation_queue text,                                  -- the engine's queue
    delegation_id text,                                     -- the engine's job id
    postprocessed_at timestamptz,                           -- time at which its results were added
    purged_at timestamptz,                                  -- time at which its outputs were purged
    retention timestamptz,                                  -- its outputs are kept until then
    metadata jsonb,                                         -- metadata that the payload reports
    hold_next text,                                         -- the hold that begins when the payload succeeds
    moving boolean GENERATED ALWAYS AS (status = ANY (ARRAY['assigned', 'transferring'])) STORED,  -- its files are on their way: assigned or transferring
    booked text,                                            -- the part of its life that its job set of events knows: started, ended
    to_book boolean GENERATED ALWAYS AS ((kind <> 'normal') AND jedi_job_to_book(kind, status,
        booked)) STORED,  -- its job set of events has to look at it
    CONSTRAINT jedi_jobs_pk PRIMARY KEY (pandaid),
    CONSTRAINT jedi_jobs_sound_ck CHECK (hold_kind IS NULL AND substatus IS NULL AND purged_at IS
        NULL AND (status = 'finished') = (postprocessed_at IS NOT NULL) AND (status = ANY
        ('{activated,sent,running,holding,finished}')) OR jedi_job_is_sound(status, substatus,
        hold_kind, postprocessed_at, purged_at))
) WITH (fillfactor=45);
CREATE INDEX jedi_jobs_ended_ix ON jedi_jobs (jeditaskid, pandaid) WHERE postprocessed_at IS NOT
    NULL;
CREATE INDEX jedi_jobs_jeditaskid_unit_nr_ix ON jedi_jobs (jeditaskid, unit_nr);
CREATE INDEX jedi_jobs_live_ix ON jedi_jobs (jeditaskid, pandaid) WHERE postprocessed_at IS NULL;
CREATE INDEX jedi_jobs_moving_ix ON jedi_jobs (pandaid) WHERE moving;
CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE pilot_result IS NOT NULL AND
    postprocessed_at IS NULL AND (kind <> ALL (ARRAY['consumer', 'co_jumbo', 'jumbo', 'clone',
    'fine']));
CREATE INDEX jedi_jobs_retention_ix ON jedi_jobs (retention) WHERE retention IS NOT NULL AND
    purged_at IS NULL;
CREATE INDEX jedi_jobs_to_book_ix ON jedi_jobs (pandaid) WHERE to_book;

-- ended jobs, moved here in batches
CREATE TABLE jedi_jobs_archived (
    pandaid bigint NOT NULL,                                -- one attempt
    jeditaskid bigint NOT NULL,                             -- the task
    taskid bigint NOT NULL,                                 -- the request (jedi_tasks.reqid)
    originpandaid bigint NOT NULL,                          -- the first attempt's id, kept by submitters
    unit_nr integer NOT NULL,                               -- number of the unit of work within its task
    attemptnr smallint NOT NULL,                            -- attempt
    kind text NOT NULL DEFAULT 'normal',                    -- the job's work: normal, scout, merge, build, preprocess, es_merge, consumer, co_jumbo, jumbo, clone, fine
    status text NOT NULL,                                   -- the job's status
    substatus text,                                         -- detail of the status
    prodsourcelabel text,                                   -- as the task's
    processingtype text,                                    -- as the task's
    username text,                                          -- as the task's
    vo text,                                                -- as the task's
    site text NOT NULL,                                     -- the site of the job
    nucleus text,                                           -- the nucleus that gets its outputs
    workqueue_id integer NOT NULL DEFAULT 0,                -- as the task's
    gshare text NOT NULL DEFAULT '',                        -- global share
    resource_type text NOT NULL DEFAULT '',                 -- shape
    priority integer NOT NULL,                              -- larger first
    cores integer NOT NULL,                                 -- cores asked
    memory_mb integer NOT NULL,                             -- memory asked in MB; 0: no limit
    walltime_s integer NOT NULL,                            -- wall time asked in seconds; 0: no limit
    disk_mb integer NOT NULL,                               -- disk asked in MB; 0: no limit
    n_inputs integer NOT NULL DEFAULT 0,                    -- input files
    n_events bigint,                                        -- events to process
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),   -- time of creation
    statechangetime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the status
    starttime timestamptz,                                  -- start of the payload
    endtime timestamptz,                                    -- end of the payload
    heartbeat_at timestamptz,                               -- last heartbeat of the pilot
    lock_seq bigint NOT NULL DEFAULT 0,                     -- raised by each dispatch; fences the pilot's writes
    pilot_id text,                                          -- the pilot that has it
    kill_code text,                                         -- reason of the kill request
    pilot_result text,                                      -- finished, failed or cancelled, as the pilot reported; lost: the pilot of a consumer fell silent
    exit_code integer,                                      -- the payload's exit code
    error_source text,                                      -- pilot, payload, jedi, user
    error_code text,                                        -- code that can be counted
    error_diag text,                                        -- sentence for people
    cpu_s double precision,                                 -- cpu seconds of all processes
    wall_s double precision,                                -- wall seconds of the payload
    max_rss_kb bigint,                                      -- peak resident memory of all processes
    max_pss_kb bigint,                                      -- peak proportional memory of all processes
    read_bytes bigint,                                      -- read from storage
    write_bytes bigint,                                     -- written to storage
    workdir_kb bigint,                                      -- peak of the work directory
    input_bytes bigint,                                     -- size of its inputs
    output_bytes bigint,                                    -- size of its outputs
    hold_kind text,                                         -- PGI hold
    hold_reason text,                                       -- reason for the hold
    hold_since timestamptz,                                 -- start of the hold
    hold_deadline timestamptz,                              -- end of the hold unless somebody ends it before
    delegation_kind text,                                   -- the batch engine it was handed to
    delegation_queue text,                                  -- the engine's queue
    delegation_id text,                                     -- the engine's job id
    postprocessed_at timestamptz,                           -- time at which its results were added
    purged_at timestamptz,                                  -- time at which its outputs were purged
    retention timestamptz,                                  -- its outputs are kept until then
    metadata jsonb,                                         -- metadata that the payload reports
    hold_next text,                                         -- the hold that begins when the payload succeeds
    booked text,                                            -- the part of its life that its job set of events knows: started, ended
    CONSTRAINT jedi_jobs_archived_pk PRIMARY KEY (pandaid),
    CONSTRAINT jedi_jobs_archived_finished_ck CHECK (status <> 'finished' OR postprocessed_at IS NOT
        NULL),
    CONSTRAINT jedi_jobs_archived_held_ck CHECK (hold_kind IS NULL OR CASE     WHEN hold_kind =
        'manual_stage_in' THEN status = ANY (ARRAY['assigned', 'activated', 'throttled'])     WHEN
        hold_kind = 'manual_stage_out' THEN status = ANY (ARRAY['holding', 'transferring',
        'merging'])     WHEN hold_kind = 'failed_recoverable' THEN status = ANY (ARRAY['assigned',
        'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring',
        'merging'])     WHEN hold_kind = 'user_request' THEN status = ANY (ARRAY['assigned',
        'activated', 'throttled', 'sent', 'starting', 'running', 'holding', 'transferring',
        'merging'])     ELSE false END),
    CONSTRAINT jedi_jobs_archived_postprocessed_ck CHECK (postprocessed_at IS NULL OR (status = ANY
        (ARRAY['cancelled', 'closed', 'failed', 'finished']))),
    CONSTRAINT jedi_jobs_archived_purged_ck CHECK (purged_at IS NULL OR (status = ANY
        (ARRAY['cancelled', 'closed', 'failed', 'finished'])))
);
CREATE INDEX jedi_jobs_archived_jeditaskid_pandaid_ix ON jedi_jobs_archived (jeditaskid, pandaid);
CREATE INDEX jedi_jobs_archived_jeditaskid_unit_nr_ix ON jedi_jobs_archived (jeditaskid, unit_nr);
CREATE INDEX jedi_jobs_archived_leaving_ix ON jedi_jobs_archived (jeditaskid) WHERE retention IS NOT
    NULL AND purged_at IS NULL;
CREATE INDEX jedi_jobs_archived_retention_ix ON jedi_jobs_archived (retention) WHERE retention IS
    NOT NULL AND purged_at IS NULL;
CREATE INDEX jedi_jobs_archived_unsuccessful_ix ON jedi_jobs_archived (jeditaskid, pandaid) WHERE
    status <> 'finished';
CREATE INDEX jedi_jobs_archived_username_pandaid_ix ON jedi_jobs_archived (username, pandaid);
CREATE INDEX jedi_jobs_archived_users_unsuccessful_ix ON jedi_jobs_archived (username, pandaid)
    WHERE status <> 'finished';

-- every status a job had
CREATE TABLE jedi_jobs_statuslog (
    log_id bigserial,                                       -- order of the rows
    fromstatus text,                                        -- before; NULL at insertion
    status text NOT NULL,                                   -- after
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    agent text,                                             -- who
    reason_code text,                                       -- why
    reason text,                                            -- why, for people
    pandaid bigint NOT NULL,                                -- the job
    jeditaskid bigint NOT NULL,                             -- the task
    CONSTRAINT jedi_jobs_statuslog_pk PRIMARY KEY (pandaid, log_id)
);

-- units of work that consumers share and one job merges
CREATE TABLE jedi_jobsets (
    jobsetid bigint NOT NULL,                              -- the job set: the PandaID of its first merge job
    jeditaskid bigint NOT NULL,                            -- the task
    merge_pandaid bigint NOT NULL,                         -- the job with the inputs and outputs: it waits for the ranges
    mode text NOT NULL,                                    -- es, cloning or fine
    clone text,                                            -- runonce or storeonce; NULL: no cloning
    n_ranges integer NOT NULL,                             -- ranges cut from its inputs
    n_consumers integer NOT NULL,                          -- consumers made so far
    n_merges integer NOT NULL,                             -- merge jobs made so far
    attempts_left integer NOT NULL,                        -- consumers that may still follow those that fail
    jumbo boolean NOT NULL,                                -- jumbo jobs may process its ranges
    priority integer NOT NULL,                             -- priority of its next consumer
    gshare text NOT NULL,                                  -- global share of its consumers
    resource_type text NOT NULL,                           -- shape of its consumers
    cores integer NOT NULL,                                -- cores that a consumer asks
    memory_mb integer NOT NULL,                            -- memory that a consumer asks in MB; 0: no limit
    walltime_s integer NOT NULL,                           -- wall time that a consumer asks in seconds; 0: no limit
    disk_mb integer NOT NULL,                              -- disk that a consumer asks in MB; 0: no limit
    command text NOT NULL,                                 -- the consumers' command; $PANDAID stands for the consumer's number
    texts jsonb,                                           -- files that consumers find, with their text, by name
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of creation
    ended_at timestamptz,                                  -- end of its last merge job
    next_look_at timestamptz,                              -- time of the EventService's next look at a set that nobody serves
    wait_code text,                                        -- code of the reason why its merge can't start
    wait_reason text,                                      -- the same in words
    sites jsonb,                                           -- sites for its consumers, best first; NULL: those where it has some
    CONSTRAINT jedi_jobsets_pk PRIMARY KEY (jobsetid),
    CONSTRAINT jedi_jobsets_clone_ck CHECK (clone = ANY (ARRAY['runonce', 'storeonce'])),
    CONSTRAINT jedi_jobsets_mode_ck CHECK (mode = ANY (ARRAY['es', 'cloning', 'fine']))
);
CREATE INDEX jedi_jobsets_jeditaskid_ix ON jedi_jobsets (jeditaskid);
CREATE INDEX jedi_jobsets_live_ix ON jedi_jobsets (jobsetid) WHERE ended_at IS NULL;
CREATE INDEX jedi_jobsets_look_ix ON jedi_jobsets (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX jedi_jobsets_merge_pandaid_ix ON jedi_jobsets (merge_pandaid);

-- settings that differ from the preset; the preset is knob core.preset
CREATE TABLE jedi_knobs (
    component text NOT NULL,                                -- the part of the system
    key text NOT NULL,                                      -- the knob
    value jsonb NOT NULL,                                   -- the value in force instead of the preset's
    username text,                                          -- the user who set it
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_knobs_pk PRIMARY KEY (component, key)
);

-- changes of knobs
CREATE TABLE jedi_knobs_history (
    change_id bigserial,                                    -- order
    component text NOT NULL,                                -- component
    key text NOT NULL,                                      -- knob
    value jsonb,                                            -- new value; NULL: back to the preset
    username text,                                          -- who
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_knobs_history_pk PRIMARY KEY (change_id)
);

-- lost outputs, which are made again under another name, and lost logs
CREATE TABLE jedi_lost_files (
    jeditaskid bigint NOT NULL,                            -- the task that made it
    fileid bigint NOT NULL,                                -- its contents row
    datasetname text NOT NULL,                             -- the output dataset
    lfn text NOT NULL,                                     -- the logical file name
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record of the loss
    removed_at timestamptz,                                -- time of its removal from data management, if it was there; NULL: not yet
    CONSTRAINT jedi_lost_files_pk PRIMARY KEY (jeditaskid, fileid)
);
CREATE INDEX jedi_lost_files_datasetname_ix ON jedi_lost_files (datasetname);

-- links between places
CREATE TABLE jedi_network_matrix (
    src text NOT NULL,                           -- source
    dst text NOT NULL,                           -- destination
    key text NOT NULL,                           -- closeness, production_queued, express_queued, mbps_1h, mbps_1d, mbps_1w
    value double precision,                      -- value; speeds in MB/s
    ts timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the measurement
    CONSTRAINT jedi_network_matrix_pk PRIMARY KEY (src, dst, key)
);
CREATE INDEX jedi_network_matrix_key_dst_ix ON jedi_network_matrix (key, dst);

-- notifications, written with the change and delivered later
CREATE TABLE jedi_outbox (
    message_id bigserial,                                  -- order
    topic text NOT NULL,                                   -- subject; a user gets one message of each by each channel
    payload jsonb NOT NULL,                                -- the message
    urgent boolean NOT NULL DEFAULT false,                 -- urgent
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    sent_at timestamptz,                                   -- time of delivery
    attempts integer NOT NULL DEFAULT 0,                   -- deliveries tried
    username text,                                         -- the recipient
    channel text,                                          -- mail or webhook
    next_try_at timestamptz,                               -- not tried again before; NULL: not tried yet
    error text,                                            -- error of the last delivery
    CONSTRAINT jedi_outbox_pk PRIMARY KEY (message_id),
    CONSTRAINT jedi_outbox_topic_uq UNIQUE (topic, username, channel)
);
CREATE INDEX jedi_outbox_open_ix ON jedi_outbox (message_id) WHERE sent_at IS NULL;

-- templates of the file names of each output dataset
CREATE TABLE jedi_output_template (
    outtempid bigint NOT NULL DEFAULT nextval('jedi_out_temp_id_seq'),  -- the template's identifier
    jeditaskid bigint NOT NULL,                             -- the task
    datasetid bigint NOT NULL,                              -- the output dataset
    filenametemplate text NOT NULL,                         -- template of output names
    sourcename text,                                        -- the payload's own name of the file, if another
    serialnr integer NOT NULL DEFAULT 0,                    -- the last serial number used
    maxserialnr integer,                                    -- the largest serial number allowed
    streamname text,                                        -- its placeholder in the job parameters
    outtype text,                                           -- output or log
    CONSTRAINT jedi_output_template_pk PRIMARY KEY (outtempid)
);
CREATE INDEX jedi_output_template_jeditaskid_ix ON jedi_output_template (jeditaskid);

-- pilots that the submitter started
CREATE TABLE jedi_pilots (
    pilot_id text NOT NULL,                                -- the pilot
    site text NOT NULL,                                    -- its site
    host text NOT NULL,                                    -- host of the submitter that sent it
    pid integer,                                           -- process id, if it is local
    process_start bigint,                                  -- start time of the process in clock ticks
    token_hash text,                                       -- its token
    status text NOT NULL,                                  -- submitted, running, ended, lost
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    endtime timestamptz,                                   -- end
    engine text NOT NULL DEFAULT 'local',                  -- engine: local, slurm, ...
    batch_id text,                                         -- the batch system's id of it
    resource_type text NOT NULL DEFAULT '',                -- the shape of its slot; empty: a whole slot
    CONSTRAINT jedi_pilots_pk PRIMARY KEY (pilot_id)
);
CREATE INDEX jedi_pilots_live_ix ON jedi_pilots (site) WHERE endtime IS NULL;

-- locks of agents and dogs
CREATE TABLE jedi_process_lock (
    prodsourcelabel text NOT NULL,                       -- the source label
    vo text NOT NULL,                                    -- the virtual organisation
    workqueue_id integer NOT NULL,                       -- the work queue
    cloud text NOT NULL DEFAULT '',                      -- the cloud
    lockedby text NOT NULL,                              -- the process that holds the lock
    lockedtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the lock
    component text NOT NULL DEFAULT '',                  -- object of the lock
    lease_until timestamptz,                             -- the lock ends here, in real time
    CONSTRAINT jedi_process_lock_pk PRIMARY KEY (prodsourcelabel, vo, workqueue_id, cloud,
        component)
);

-- use of shares by work queues, as last computed
CREATE TABLE jedi_queue_shares (
    queue_id integer NOT NULL,                            -- the work queue
    active boolean NOT NULL,                              -- it has tasks or jobs
    entitlement double precision,                         -- cores by its share alone; NULL: outside the shares
    allocation double precision,                          -- cores that it may use now
    usage double precision,                               -- cores of its jobs at sites
    demand double precision,                              -- cores that it could use
    ratio double precision,                               -- usage by allocation; NULL where nothing is allocated
    place integer NOT NULL,                               -- its place when jobs are dispatched
    turn integer NOT NULL,                                -- its place when jobs are made: that of its partition
    computed_at timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_queue_shares_pk PRIMARY KEY (queue_id)
);

-- registries of users' jobs
CREATE TABLE jedi_registries (
    guid text NOT NULL,                                    -- the registry, unique in the world
    username text NOT NULL,                                -- its owner
    name text NOT NULL,                                    -- the owner's name for it
    change bigint NOT NULL DEFAULT 0,                      -- number of changes
    next_job bigint NOT NULL DEFAULT 0,                    -- id of the next job
    next_template bigint NOT NULL DEFAULT 0,               -- id of the next template
    lease text,                                            -- the session that may write; NULL: none
    holder text,                                           -- host and process of that session
    lease_until timestamptz,                               -- time after which another session may take the lease
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_registries_pk PRIMARY KEY (guid)
);
CREATE UNIQUE INDEX jedi_registries_owner_uq ON jedi_registries (username, name);

-- ids of removed jobs and templates
CREATE TABLE jedi_removed_drafts (
    guid text NOT NULL,      -- the registry
    kind text NOT NULL,      -- job or template
    id bigint NOT NULL,      -- its id
    change bigint NOT NULL,  -- the registry's number of the change
    CONSTRAINT jedi_removed_drafts_pk PRIMARY KEY (guid, kind, id)
);
CREATE INDEX jedi_removed_drafts_change_ix ON jedi_removed_drafts (guid, kind, change);

-- answers to requests with an Idempotency-Key
CREATE TABLE jedi_requests (
    request_key text NOT NULL,                             -- the caller and his key
    digest text NOT NULL,                                  -- sha256 of operation and arguments
    answer text,                                           -- the answer in JSON
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_requests_pk PRIMARY KEY (request_key)
);
CREATE INDEX jedi_requests_time_ix ON jedi_requests (creationtime);

-- shapes of jobs; the first that matches wins
CREATE TABLE jedi_resource_types (
    resource_type text NOT NULL,  -- name
    mincore integer,              -- least cores
    maxcore integer,              -- most cores
    minrampercore integer,        -- MB, exclusive
    maxrampercore integer,        -- MB, inclusive
    CONSTRAINT jedi_resource_types_pk PRIMARY KEY (resource_type)
);

-- retry rules that concerned failed jobs
CREATE TABLE jedi_retry_matches (
    pandaid bigint NOT NULL,                               -- the failed job
    rule_id integer NOT NULL,                              -- the rule that concerns it
    jeditaskid bigint NOT NULL,                            -- the task
    effect text NOT NULL,                                  -- the effect, for people
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    settled_at timestamptz,                                -- time of the change of the task, if one was needed; NULL: not yet
    CONSTRAINT jedi_retry_matches_pk PRIMARY KEY (pandaid, rule_id)
);
CREATE INDEX jedi_retry_matches_open_ix ON jedi_retry_matches (jeditaskid) WHERE settled_at IS NULL;

-- effects of jobs' errors besides another attempt
CREATE TABLE jedi_retry_rules (
    rule_id integer NOT NULL,                               -- order and name
    active boolean NOT NULL,                                -- false: matches are only recorded
    error_source text,                                      -- of the jobs that it concerns; NULL, here and below: any
    error_code text,                                        -- theirs
    exit_code integer,                                      -- theirs
    message text,                                           -- regular expression found in their error_diag
    site text,                                              -- theirs
    queue_id integer,                                       -- their work queue
    label text,                                             -- their prodSourceLabel
    architecture text,                                      -- their task's
    release text,                                           -- their task's transUses
    action text NOT NULL,                                   -- no_retry, limit_retry, increase_memory, ...
    attempts integer,                                       -- limit_retry: attempts of an input
    description text,                                       -- for people
    username text,                                          -- the user who wrote the rule
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_retry_rules_pk PRIMARY KEY (rule_id),
    CONSTRAINT jedi_retry_rules_message_ck CHECK (message IS NULL OR length(message) <= 256 AND (''
        ~ message) IS NOT NULL)
);

-- input sandboxes, stored once
CREATE TABLE jedi_sandboxes (
    sha256 text NOT NULL,                                  -- sha256 of the archive
    data bytea NOT NULL,                                   -- a tar.gz whose members were checked
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_sandboxes_pk PRIMARY KEY (sha256)
);

-- storage of each site
CREATE TABLE jedi_site_endpoints (
    site text NOT NULL,                           -- the site
    ddm_endpoint text NOT NULL,                   -- the endpoint
    scope text NOT NULL DEFAULT 'default',        -- production or analysis
    is_local boolean NOT NULL DEFAULT true,       -- on the site's LAN
    roles text NOT NULL DEFAULT 'read,write',     -- read, write
    order_read integer NOT NULL DEFAULT 1,        -- smaller first
    order_write integer NOT NULL DEFAULT 1,       -- smaller first
    default_read boolean NOT NULL DEFAULT true,   -- first choice
    default_write boolean NOT NULL DEFAULT true,  -- first choice
    CONSTRAINT jedi_site_endpoints_pk PRIMARY KEY (site, ddm_endpoint, scope)
);

-- measurements of sites
CREATE TABLE jedi_site_metrics (
    site text NOT NULL,                          -- the site
    gshare text NOT NULL DEFAULT '',             -- global share; empty: all
    metric text NOT NULL,                        -- name
    value jsonb,                                 -- value
    ts timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_site_metrics_pk PRIMARY KEY (site, gshare, metric)
);

-- sites (queues) of the grid
CREATE TABLE jedi_sites (
    site text NOT NULL,                                     -- the site's (queue's) name
    status text NOT NULL DEFAULT 'online',                  -- online, standby, brokeroff, test, offline, paused
    type text NOT NULL DEFAULT 'unified',                   -- production, analysis or unified
    cloud text NOT NULL DEFAULT 'WORLD',                    -- the cloud it belongs to
    tier text,                                              -- T0, T1, T2, ...
    pandasite text,                                         -- the grid site behind the queue
    role text NOT NULL DEFAULT 'nucleus',                   -- nucleus or satellite
    state text NOT NULL DEFAULT 'ACTIVE',                   -- ACTIVE nuclei take tasks
    capability text,                                        -- ucore: unified over resource types
    corecount integer NOT NULL DEFAULT 1,                   -- cores per slot; 0: 1
    corepower double precision NOT NULL DEFAULT 10,         -- HS06 per core
    maxtime bigint NOT NULL DEFAULT 0,                      -- longest wall time in s; 0: no limit
    mintime bigint NOT NULL DEFAULT 0,                      -- shortest wall time in s; 0: no limit
    maxrss bigint NOT NULL DEFAULT 0,                       -- memory of a slot in MB; 0: no limit
    minrss bigint NOT NULL DEFAULT 0,                       -- least memory in MB; 0: no limit
    maxwdir bigint NOT NULL DEFAULT 0,                      -- scratch of a slot in MB; 0: unknown
    maxinputsize bigint NOT NULL DEFAULT 0,                 -- MB; -1: always direct I/O
    nslots integer NOT NULL DEFAULT 0,                      -- pilots the submitter may have at once
    submitter text NOT NULL DEFAULT 'none',                 -- engine of pilots: local, slurm, lsf, pbs, htcondor; none: another system starts them
    fairsharepolicy text,                                   -- zero-share rules
    transferringlimit integer NOT NULL DEFAULT 0,           -- jobs; 0: 2000
    pledgedcpu integer,                                     -- cores; -1: opportunistic
    transtimehi integer NOT NULL DEFAULT 1,                 -- days for transfers of priority >= 800
    transtimelo integer NOT NULL DEFAULT 4,                 -- days for transfers below
    direct_access_lan boolean NOT NULL DEFAULT false,       -- jobs may read inputs over the LAN
    direct_access_wan boolean NOT NULL DEFAULT false,       -- jobs may read inputs over the WAN
    releases text[],                                        -- software; ANY or AUTO
    wnconnectivity text,                                    -- full, http or none, # IPv4 or IPv6
    jobseed text NOT NULL DEFAULT 'std',                    -- std, es, eshigh, all
    max_io_intensity double precision,                      -- kB/s
    maxdiskio double precision,                             -- kB/s per core
    catchall jsonb NOT NULL DEFAULT '{}',                   -- further attributes
    laststart timestamptz,                                  -- last start of a job
    lastpilot timestamptz,                                  -- last sign of a pilot or of its submitter
    comment text,                                           -- the operator's reason for its settings
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the last change
    queue text,                                             -- the batch system's queue or partition
    batch jsonb NOT NULL DEFAULT '{}',                      -- options of the batch system for pilots
    CONSTRAINT jedi_sites_pk PRIMARY KEY (site),
    CONSTRAINT jedi_sites_status_ck CHECK (status = ANY
        ('{online,standby,brokeroff,test,offline,paused}'))
);

-- changes of sites
CREATE TABLE jedi_sites_history (
    change_id bigserial,                                    -- order
    site text NOT NULL,                                     -- the site
    attribute text NOT NULL,                                -- the changed attribute
    oldvalue text,                                          -- before
    newvalue text,                                          -- after
    username text,                                          -- who
    comment text,                                           -- why
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_sites_history_pk PRIMARY KEY (change_id)
);
CREATE INDEX jedi_sites_history_site_ix ON jedi_sites_history (site);

-- snapshots of brokers, shared by decisions
CREATE TABLE jedi_snapshots (
    snapshot_hash text NOT NULL,                           -- sha256 of the data
    data bytea NOT NULL,                                   -- the world as the broker saw it, compressed JSON
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_snapshots_pk PRIMARY KEY (snapshot_hash)
);

-- subjobs, as registries know them
CREATE TABLE jedi_subjobs (
    guid text NOT NULL,                         -- the registry
    job bigint NOT NULL,                        -- the job
    k integer NOT NULL,                         -- number of the subjob, from 0 on
    status text NOT NULL,                       -- its status
    attempt integer,                            -- number of its latest attempt
    panda_id bigint,                            -- PandaID of its latest attempt
    site text,                                  -- site of its latest attempt
    exit_code bigint,                           -- exit code of its latest attempt
    reason text,                                -- reason of its status
    superseded boolean NOT NULL DEFAULT false,  -- its input was cut again: it counts no longer
    override text NOT NULL DEFAULT '{}',        -- its differences from the job as JSON
    CONSTRAINT jedi_subjobs_pk PRIMARY KEY (guid, job, k),
    CONSTRAINT jedi_subjobs_status_ck CHECK (status = ANY
        ('{new,submitting,submitted,running,completing,completed,failed,killed,unknown}'))
);

-- keys under which tasks were submitted, kept for ever
CREATE TABLE jedi_submission_keys (
    username text NOT NULL,                                -- the user who chose it
    submission_key text NOT NULL,                          -- the key
    jeditaskid bigint,                                     -- the task; NULL: the key was asked for before it arrived, and no task will have it
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    attemptnr integer NOT NULL DEFAULT 1,                  -- the attempt of the task that began under it
    CONSTRAINT jedi_submission_keys_pk PRIMARY KEY (username, submission_key)
);

-- finished jobs whose results are given up: their input is processed again
CREATE TABLE jedi_superseded_jobs (
    pandaid bigint NOT NULL,                                -- the job
    jeditaskid bigint NOT NULL,                             -- its task
    superseded_at timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    CONSTRAINT jedi_superseded_jobs_pk PRIMARY KEY (pandaid)
);
CREATE INDEX jedi_superseded_jobs_jeditaskid_ix ON jedi_superseded_jobs (jeditaskid);

-- the parameters of each task
CREATE TABLE jedi_taskparams (
    jeditaskid bigint NOT NULL,  -- the task
    taskparams jsonb,            -- the task's parameters
    source_text text,            -- the submitted text, byte for byte
    source_format text,          -- json or yaml
    sandbox_sha256 text,         -- the task's sandbox
    CONSTRAINT jedi_taskparams_pk PRIMARY KEY (jeditaskid)
);

-- all production and analysis tasks
CREATE TABLE jedi_tasks (
    jeditaskid bigint NOT NULL DEFAULT nextval('jedi_task_id_seq'),  -- the task's identifier, from a sequence
    creationdate timestamptz NOT NULL DEFAULT jedi_now(),   -- time of the record's insertion
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the last update
    starttime timestamptz,                                  -- start of the task
    endtime timestamptz,                                    -- time of the task's final status
    frozentime timestamptz,                                 -- time of the task's first hold
    prodsourcelabel text,                                   -- managed, user, prod_test, ...
    taskname text,                                          -- the task's name
    username text,                                          -- the user who owns the task
    workinggroup text,                                      -- the working group that owns the task
    vo text,                                                -- the virtual organisation that owns the task
    corecount integer,                                      -- cores per job; 0 if it can vary
    tasktype text,                                          -- prod or anal
    processingtype text,                                    -- the type of the process
    taskpriority integer,                                   -- the assigned priority
    currentpriority integer,                                -- the present priority
    status text NOT NULL,                                   -- the task's status
    oldstatus text,                                         -- the status before the present one
    architecture text,                                      -- the architecture on which the task runs
    transuses text,                                         -- the software release
    transhome text,                                         -- the software cache of the transformation
    transpath text,                                         -- the transformation
    lockedby text,                                          -- the process that takes care of the record
    lockedtime timestamptz,                                 -- time of the record's lock
    termcondition text,                                     -- termination condition of the task
    splitrule text,                                         -- rules for splitting as two-letter codes, rendered from rules
    walltime bigint,                                        -- walltime per MB of input, measured by scouts
    walltimeunit text,                                      -- unit of walltime
    outdiskcount bigint,                                    -- output size per MB of input or per event
    outdiskunit text,                                       -- unit of outdiskcount
    workdiskcount bigint,                                   -- size of the work directory
    workdiskunit text,                                      -- unit of workdiskcount
    ramcount bigint,                                        -- memory asked or measured
    ramunit text,                                           -- MB, MBPerCore or MBPerCoreFixed
    iointensity bigint,                                     -- (input+output)/walltime/cores
    iointensityunit text,                                   -- kBPerS
    workqueue_id integer,                                   -- the work queue of the task
    progress smallint,                                      -- completion in percent
    failurerate smallint,                                   -- job failures in percent
    errordialog text,                                       -- the diagnosis for people
    cloud text,                                             -- the cloud where the task is assigned
    site text,                                              -- the site where the task is assigned; NULL: brokerage
    reqid bigint NOT NULL,                                  -- the request's identifier; the task's own if none
    countrygroup text,                                      -- the user's country group
    parent_tid bigint,                                      -- the parent task; the task itself if none
    eventservice smallint,                                  -- 1 if the task uses the event service
    ticketid text,                                          -- ticket to keep track of the task
    ticketsystemtype text,                                  -- the ticket system
    statechangetime timestamptz,                            -- time of the status
    superstatus text,                                       -- the status as the requesting system sees it
    campaign text,                                          -- the campaign
    mergeramcount bigint,                                   -- memory of merge jobs
    mergeramunit text,                                      -- unit of mergeramcount
    mergewalltime bigint,                                   -- walltime of merge jobs
    mergewalltimeunit text,                                 -- unit of mergewalltime
    throttledtime timestamptz,                              -- time of the last throttling
    numthrottled smallint,                                  -- number of times the task was throttled
    mergecorecount integer,                                 -- cores per merge job
    goal smallint,                                          -- goal in percent multiplied by 10
    assessmenttime timestamptz,                             -- time of the last statistics
    cputime bigint,                                         -- HS06 seconds per event
    cputimeunit text,                                       -- HS06sPerEvent or mHS06sPerEvent
    cpuefficiency smallint,                                 -- single core efficiency in percent
    basewalltime integer,                                   -- offset of the walltime in seconds
    amiflag text,                                           -- READY when the task is done or finished
    nucleus text,                                           -- the site that collects the outputs
    baseramcount bigint,                                    -- memory in MB that does not scale with cores
    rescuetime timestamptz,                                 -- time of the last rescue from a dead process by a dog
    requesttype text,                                       -- type of the request
    usejumbo text,                                          -- Y when using jumbo jobs
    diskio bigint,                                          -- (read+written)/walltime of scouts
    diskiounit text,                                        -- kBPerS
    gshare text,                                            -- the global share of the task's jobs
    resource_type text,                                     -- the shape of the task's jobs
    rules jsonb,                                            -- the typed split rules
    attemptnr integer NOT NULL DEFAULT 1,                   -- the task's attempt, raised by retry
    reason_code text,                                       -- code of the reason for the status
    reason_facts jsonb,                                     -- the facts behind reason_code
    next_run_at timestamptz,                                -- time before which no agent takes the task
    lock_seq bigint NOT NULL DEFAULT 0,                     -- raised by each claim; fences the claimant's writes
    lease_until timestamptz,                                -- the claim ends here, in real time
    worker_deaths smallint NOT NULL DEFAULT 0,              -- claims in a row whose worker did not come back
    idempotency_key text,                                   -- the submitter's key: a repeat gives the same task
    split_at timestamptz,                                   -- creation of the first job
    origin_pandaid bigint,                                  -- the id a submitter got at once (DIRAC RFC #15)
    measured_jobs integer NOT NULL DEFAULT 0,               -- finished jobs at the last measurement
    period text,                                            -- interval between jobs of a periodical task
    nextperiod timestamptz,                                 -- time of the next period
    counted_upto bigint NOT NULL DEFAULT 0,                 -- PandaID up to which all jobs have ended and are counted
    counted_jobs bigint NOT NULL DEFAULT 0,                 -- finished and failed jobs up to there
    counted_failed bigint NOT NULL DEFAULT 0,               -- failed jobs up to there
    figures jsonb,                                          -- values of figures, measured and proven
    CONSTRAINT jedi_tasks_pk PRIMARY KEY (jeditaskid),
    CONSTRAINT jedi_tasks_username_uq UNIQUE (username, idempotency_key),
    CONSTRAINT jedi_tasks_parent_ck CHECK (parent_tid <= jeditaskid),
    CONSTRAINT jedi_tasks_status_ck CHECK (status = ANY
        ('{registered,defined,assigning,ready,pending,scouting,scouted,running,prepared,done,failed,finished,aborting,toabort,aborted,finishing,topreprocess,preprocessing,tobroken,broken,toretry,toincexec,rerefine,paused,throttled,exhausted,passed,staging,staged,toreassign,reassigning}'))
) WITH (fillfactor=80);
CREATE INDEX jedi_tasks_children_ix ON jedi_tasks (parent_tid) WHERE parent_tid <> jeditaskid AND
    (status <> ALL (ARRAY['aborted', 'broken', 'done', 'failed', 'finished']));
CREATE INDEX jedi_tasks_locked_ix ON jedi_tasks (lockedtime) WHERE lockedby IS NOT NULL;
CREATE INDEX jedi_tasks_merging_ix ON jedi_tasks (status) WHERE rules @> '{"merge_output": true}';
CREATE INDEX jedi_tasks_owner_ix ON jedi_tasks (gshare, COALESCE(username, ''), (currentpriority +
    (status = 'scouting')::integer) DESC, jeditaskid) WHERE status = ANY (ARRAY['ready', 'scouting',
    'running', 'topreprocess', 'preprocessing']);
CREATE INDEX jedi_tasks_parent_tid_ix ON jedi_tasks (parent_tid);
CREATE INDEX jedi_tasks_period_ix ON jedi_tasks (nextperiod) WHERE period IS NOT NULL AND (status =
    ANY (ARRAY['ready', 'running']));
CREATE INDEX jedi_tasks_reason_ix ON jedi_tasks (status, reason_code, workqueue_id, statechangetime)
    WHERE status <> ALL (ARRAY['aborted', 'broken', 'done', 'failed', 'finished']);
CREATE INDEX jedi_tasks_status_jeditaskid_ix ON jedi_tasks (status, currentpriority DESC,
    jeditaskid);
CREATE INDEX jedi_tasks_taskname_ix ON jedi_tasks (taskname);
CREATE INDEX jedi_tasks_turn_ix ON jedi_tasks (gshare, (currentpriority + (status =
    'scouting')::integer) DESC, jeditaskid) WHERE status = ANY (ARRAY['ready', 'scouting',
    'running', 'topreprocess', 'preprocessing']);
CREATE INDEX jedi_tasks_username_taskname_ix ON jedi_tasks (username, taskname);

-- every status a task had
CREATE TABLE jedi_tasks_statuslog (
    log_id bigserial,                                       -- order of the rows
    fromstatus text,                                        -- before; NULL at insertion
    status text NOT NULL,                                   -- after
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    agent text,                                             -- who
    reason_code text,                                       -- why
    reason text,                                            -- why, for people
    jeditaskid bigint NOT NULL,                             -- the task
    attemptnr integer,                                      -- the task's attempt
    username text,                                          -- the person behind a command
    CONSTRAINT jedi_tasks_statuslog_pk PRIMARY KEY (log_id)
);
CREATE INDEX jedi_tasks_statuslog_jeditaskid_ix ON jedi_tasks_statuslog (jeditaskid);

-- tokens for the service
CREATE TABLE jedi_tokens (
    token_hash text NOT NULL,                              -- sha256 of the token
    kind text NOT NULL,                                    -- pilot, user, or link: it begins one session
    site text,                                             -- the pilot's site
    username text,                                         -- the user
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    expires_at timestamptz,                                -- end of validity; empty: none
    revoked_at timestamptz,                                -- taken back
    name text,                                             -- the user's name for it
    scope text,                                            -- its use: read, submit or all
    used_at timestamptz,                                   -- last use, to the minute
    CONSTRAINT jedi_tokens_pk PRIMARY KEY (token_hash),
    CONSTRAINT jedi_tokens_scope_ck CHECK (scope = ANY ('{read,submit,all}'))
);

-- the children of herds
CREATE TABLE jedi_units (
    jeditaskid bigint NOT NULL,     -- the herd
    unit_nr integer NOT NULL,       -- number of the unit, from 1 on
    originpandaid bigint NOT NULL,  -- the PandaID of its first attempt, reserved by the split
    options jsonb NOT NULL,         -- its own options: those with variables, which are replaced, and those that the strategy set
    files jsonb,                    -- names of its input files, if they came with the submission
    refusal text,                   -- the reason why it was refused at the submission; it never runs
    killed_at timestamptz,          -- time at which somebody killed it; NULL: nobody did, or it was submitted again
    superseded text,                -- its state when its input was cut again for other units; NULL: it counts
    CONSTRAINT jedi_units_pk PRIMARY KEY (jeditaskid, unit_nr),
    CONSTRAINT jedi_units_superseded_ck CHECK (superseded = ANY (ARRAY['completed', 'failed',
        'killed']))
);
CREATE UNIQUE INDEX jedi_units_originpandaid_uq ON jedi_units (originpandaid);

-- users and their permissions
CREATE TABLE jedi_users (
    username text NOT NULL,                                -- the user
    role text NOT NULL DEFAULT 'user',                     -- user, production or operator
    gridpref text NOT NULL DEFAULT '',                     -- letters k, p, s, g
    email text,                                            -- address for mail about tasks
    creationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the record
    cap_running_jobs integer,                              -- most running analysis jobs; NULL: as the knob says, 0: no limit
    webhook text,                                          -- URL for messages about tasks
    webhook_secret text,                                   -- salt of the secret that signs them
    notices text NOT NULL DEFAULT 'tasks',                 -- tasks: notices of tasks; jobs: also of jobs
    CONSTRAINT jedi_users_pk PRIMARY KEY (username),
    CONSTRAINT jedi_users_notices_ck CHECK (notices = ANY ('{tasks,jobs}')),
    CONSTRAINT jedi_users_role_ck CHECK (role = ANY ('{user,production,operator}')),
    CONSTRAINT jedi_users_webhook_secret_ck CHECK (NOT starts_with(webhook_secret, 'whsec_'))
);

-- partitions and shares of the workload
CREATE TABLE jedi_work_queue (
    queue_id integer NOT NULL,  -- unique identifier
    queue_name text NOT NULL,   -- the queue's name
    queue_type text NOT NULL,   -- the prodSourceLabel it serves
    vo text NOT NULL,           -- the virtual organisation it serves
    queue_share integer,        -- its share; NULL: not throttled
    queue_order integer,        -- evaluated before queues of higher order
    criteria text,              -- SQL condition on jedi_tasks
    variables text,             -- values of the condition's variables
    partitionid integer,        -- its partition; -1: it is a partition
    stretchable smallint,       -- 1 if it may use shares of idle queues
    status text,                -- active or inactive
    caps jsonb,                 -- limits of the throttler in jobs, by NQUEUELIMIT, NQUEUECAP or NRUNNINGCAP, with _<resource type> for one alone
    CONSTRAINT jedi_work_queue_pk PRIMARY KEY (queue_id),
    CONSTRAINT jedi_work_queue_queue_name_uq UNIQUE (queue_name),
    CONSTRAINT jedi_work_queue_queue_order_uq UNIQUE (queue_order),
    CONSTRAINT jedi_work_queue_name_ck CHECK (length(queue_name) <= 64)
);

-- number of jobs by place and status; add job_stats_delta for the present value
CREATE TABLE job_stats (
    site text NOT NULL,            -- site
    workqueue integer NOT NULL,    -- work queue
    gshare text NOT NULL,          -- global share
    resource_type text NOT NULL,   -- shape
    status text NOT NULL,          -- job status
    jobs bigint NOT NULL,          -- number of jobs (a change of it, in deltas)
    cores bigint NOT NULL,         -- their cores (a change of them, in deltas)
    modificationtime timestamptz,  -- last change of the number of jobs
    since timestamptz,             -- time since which there are such jobs
    CONSTRAINT job_stats_pk PRIMARY KEY (site, workqueue, gshare, resource_type, status)
);

-- the archived jobs of tasks in groups, so that nobody has to read all of them
CREATE TABLE job_stats_archived (
    jeditaskid bigint NOT NULL,        -- the task
    kind text NOT NULL,                -- the jobs' work
    status text NOT NULL,              -- the jobs' status
    site text NOT NULL,                -- the jobs' site
    is_first boolean NOT NULL,         -- first attempts
    cause jsonb NOT NULL,              -- error code, error source and exit code of failed jobs; empty: of others
    jobs bigint NOT NULL DEFAULT 0,    -- number of jobs
    purged bigint NOT NULL DEFAULT 0,  -- number of jobs whose outputs are purged
    limited boolean NOT NULL,          -- outputs of some of the jobs are purged or have a last day
    walltime_s integer NOT NULL,       -- largest wall time asked in seconds
    memory_mb integer NOT NULL,        -- largest memory asked in MB
    disk_mb integer NOT NULL,          -- largest disk asked in MB
    wall_s double precision,           -- longest payload in wall seconds
    used_memory_kb bigint,             -- largest memory of payloads in kB
    used_disk_kb bigint,               -- largest work directory in kB
    last_job bigint NOT NULL,          -- the largest id of the jobs
    first_seen timestamptz,            -- when the first of them reached its status
    last_seen timestamptz,             -- when the last of them reached its status
    CONSTRAINT job_stats_archived_pk PRIMARY KEY (jeditaskid, kind, status, site, is_first, cause)
);

-- changes not yet folded into job_stats
CREATE TABLE job_stats_delta (
    delta_id bigserial,                                     -- order of the rows
    site text NOT NULL,                                     -- site
    workqueue integer NOT NULL,                             -- work queue
    gshare text NOT NULL,                                   -- global share
    resource_type text NOT NULL,                            -- shape
    status text NOT NULL,                                   -- job status
    jobs bigint NOT NULL,                                   -- number of jobs (a change of it, in deltas)
    cores bigint NOT NULL,                                  -- their cores (a change of them, in deltas)
    modificationtime timestamptz NOT NULL DEFAULT jedi_now(),  -- time of the change
    CONSTRAINT job_stats_delta_pk PRIMARY KEY (delta_id)
);

-- rates by hour
CREATE TABLE job_stats_hourly (
    hour timestamptz NOT NULL DEFAULT jedi_now(),  -- the hour
    site text NOT NULL,                            -- site
    gshare text NOT NULL,                          -- global share
    status text NOT NULL,                          -- the status reached
    jobs bigint NOT NULL,                          -- jobs that reached it in the hour
    CONSTRAINT job_stats_hourly_pk PRIMARY KEY (hour, site, gshare, status)
);
