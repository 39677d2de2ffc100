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
