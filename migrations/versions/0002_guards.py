"""The guards of the status changes, and the view that folds event ranges into files."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

REFUSE = """
CREATE OR REPLACE FUNCTION jedi_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'forbidden move of % in %: % -> %',
    TG_ARGV[0], TG_TABLE_NAME, OLD.status, NEW.status
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$
"""

FILES_VIEW = """
CREATE VIEW jedi_files AS
SELECT jeditaskid, datasetid, min(fileid) AS fileid, lfn, min(type) AS type, count(*) AS ranges,
       CASE WHEN count(*) = 1 THEN min(status)
            WHEN bool_and(status = 'finished') THEN 'finished'
            WHEN bool_or(status = 'finished') THEN 'partial'
            WHEN bool_or(status = 'running') THEN 'running'
            WHEN bool_or(status = 'ready') THEN 'ready'
            ELSE min(status) END AS status,
       max(attemptnr) AS attemptnr, max(failedattempt) AS failedattempt
FROM jedi_dataset_contents GROUP BY jeditaskid, datasetid, lfn
"""

INPUT_TYPES = (
    "'input', 'pseudo_input', 'random_seed', 'pp_input', "
    "'in_constituent', 'trn_log', 'trn_output', 'lib'"
)

# What a guard lets pass: from a status to any of these.

TASK = """
aborted > toincexec
aborting > toabort
assigning > aborting exhausted finishing paused ready registered toabort toreassign
defined > aborting assigning exhausted finishing paused pending ready registered toabort
defined > tobroken toreassign
done > registered toincexec
exhausted > aborting finishing paused registered running scouting toabort toincexec
exhausted > toreassign toretry
failed > toincexec toretry
finished > registered toincexec toretry
finishing > aborting passed toabort
passed > aborting done failed finished paused
paused > aborting assigning defined done exhausted failed finished finishing pending
paused > prepared preprocessing ready registered rerefine running scouted scouting staged
paused > staging throttled toabort topreprocess
pending > aborting defined exhausted finishing paused prepared preprocessing ready
pending > registered rerefine running scouting toabort topreprocess toreassign
prepared > done exhausted failed finished paused pending
preprocessing > aborting finishing paused pending prepared registered toabort
ready > aborting defined exhausted finishing paused pending prepared preprocessing
ready > registered running scouting throttled toabort toreassign
reassigning > aborting assigning defined exhausted finishing pending ready running scouted
reassigning > scouting toabort
registered > aborting defined exhausted finishing paused pending staging toabort tobroken
registered > topreprocess
rerefine > aborting defined finishing paused pending prepared ready toabort tobroken
running > aborting defined exhausted finishing paused pending prepared throttled toabort
running > toreassign
scouted > aborting finishing paused running toabort toreassign
scouting > aborting defined exhausted finishing paused pending prepared scouted throttled
scouting > toabort tobroken toreassign
staged > aborting defined finishing paused toabort tobroken topreprocess
staging > aborting finishing paused staged toabort
throttled > aborting finishing paused prepared ready running scouting toabort
toabort > aborted
tobroken > aborting broken
toincexec > aborted aborting done exhausted failed finished finishing rerefine toabort
topreprocess > aborting finishing paused pending preprocessing toabort
toreassign > aborting assigning defined exhausted finishing pending ready reassigning running
toreassign > scouted scouting toabort
toretry > aborting defined exhausted failed finished finishing ready registered toabort
"""

INPUT_DATASET = """
broken > defined toupdate
defined > broken done failed finished pending ready removed running toupdate
done > defined ready removed running toupdate
failed > defined ready removed running toupdate
finished > defined ready removed running toupdate
pending > broken defined done ready running toupdate
ready > broken defined done failed finished pending removed running toupdate
removed > toupdate
running > broken defined done failed finished pending ready removed toupdate
toupdate > broken done failed finished pending ready removed running
"""

OUTPUT_DATASET = """
defined > prepared ready
done > ready running
failed > ready running
finished > ready running
prepared > done failed finished ready running
ready > prepared running
running > prepared
"""

INPUT_FILE = """
broken > pending ready
failed > ready
finished > ready
lost > pending ready
missing > pending ready
partial > failed finished ready running
pending > failed lost missing ready staging
picked > failed ready running
ready > broken failed lost missing picked running waiting
running > broken failed finished lost missing partial ready
staging > failed lost missing pending ready
waiting > failed lost ready
"""

OUTPUT_FILE = """
defined > failed finished prepared running
finished > failed
merging > failed finished prepared
prepared > failed finished merging
running > failed finished prepared
"""

EVENT_RANGE = """
10 > 0
6 > 10 5 9
7 > 4 8 0
3 > 5 6
0 > 4 6 7 8 3 1
2 > 4 7 3 0
1 > 4 7 3 0 2
"""

JOB = """
activated > cancelled closed failed sent throttled
assigned > activated cancelled closed failed
defined > activated assigned cancelled closed failed
holding > cancelled closed failed finished merging transferring
merging > cancelled closed failed finished
pending > activated assigned cancelled closed defined failed
running > cancelled closed failed holding
sent > cancelled closed failed holding running starting
starting > cancelled closed failed holding running
throttled > activated cancelled closed failed
transferring > cancelled closed failed finished merging
waiting > cancelled closed defined failed finished
"""

GUARDS = (
    ("task", "jedi_tasks", TASK, ""),
    ("input dataset", "jedi_datasets", INPUT_DATASET, f" AND OLD.type IN ({INPUT_TYPES})"),
    ("output dataset", "jedi_datasets", OUTPUT_DATASET, f" AND OLD.type NOT IN ({INPUT_TYPES})"),
    ("input file", "jedi_dataset_contents", INPUT_FILE, f" AND OLD.type IN ({INPUT_TYPES})"),
    ("output file", "jedi_dataset_contents", OUTPUT_FILE, f" AND OLD.type NOT IN ({INPUT_TYPES})"),
    ("event range", "jedi_events", EVENT_RANGE, ""),
    ("job", "jedi_jobs", JOB, ""),
)
"""Machine, table, moves, which rows."""


def upgrade() -> None:
    op.execute(REFUSE)
    for name, table, moves, rows in GUARDS:
        op.execute(
            f"CREATE TRIGGER {trigger(name)} BEFORE UPDATE OF status ON {table} "
            f"FOR EACH ROW WHEN (OLD.status <> NEW.status{rows} "
            f"AND OLD.status || '>' || NEW.status NOT IN ({allowed(moves)})) "
            f"EXECUTE FUNCTION jedi_refuse_move('{name}')"
        )
    op.execute(FILES_VIEW)


def downgrade() -> None:
    op.execute("DROP VIEW jedi_files")
    for name, table, _moves, _rows in GUARDS:
        op.execute(f"DROP TRIGGER {trigger(name)} ON {table}")
    op.execute("DROP FUNCTION jedi_refuse_move()")


def trigger(machine: str) -> str:
    return f"guard_{machine.replace(' ', '_')}"


def allowed(moves: str) -> str:
    lines = [line.split(" > ") for line in moves.strip().splitlines()]
    return ", ".join(f"'{a}>{b}'" for a, targets in lines for b in targets.split())
