"""The schema: all of the JEDI document is there, the migrations build what tables.py declares."""

# Raw UPDATEs: a schema of the future is the point.

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError
from support.helpers import MANDATORY, insert_states

import jedi
from jedi.core import states
from jedi.core.errors import Refused
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import ddl, migrate, picture
from jedi.taskbuffer.schema.release import (
    LAST_OF_SINGLE_STEPS,
    VERSION_TABLE,
    SchemaDiffers,
    scripts,
    this_release,
)
from jedi.taskbuffer.schema.tables import metadata
from tools import docs

# The definition lists of the JEDI document, typed from it: n = NUMBER, d = DATE, t = VARCHAR2, CHAR
# or CLOB; ! = NOT NULL.
SEED = {
    "jedi_tasks": """
        JEDITASKID:n! CREATIONDATE:d! MODIFICATIONTIME:d! STARTTIME:d ENDTIME:d FROZENTIME:d
        PRODSOURCELABEL:t TASKNAME:t USERNAME:t WORKINGGROUP:t VO:t CORECOUNT:n TASKTYPE:t
        PROCESSINGTYPE:t TASKPRIORITY:n CURRENTPRIORITY:n STATUS:t! OLDSTATUS:t
        ARCHITECTURE:t TRANSUSES:t TRANSHOME:t TRANSPATH:t LOCKEDBY:t LOCKEDTIME:d
        TERMCONDITION:t SPLITRULE:t WALLTIME:n WALLTIMEUNIT:t OUTDISKCOUNT:n OUTDISKUNIT:t
        WORKDISKCOUNT:n WORKDISKUNIT:t RAMCOUNT:n RAMUNIT:t IOINTENSITY:n IOINTENSITYUNIT:t
        WORKQUEUE_ID:n PROGRESS:n FAILURERATE:n ERRORDIALOG:t CLOUD:t SITE:t REQID:n
        COUNTRYGROUP:t PARENT_TID:n EVENTSERVICE:n TICKETID:t TICKETSYSTEMTYPE:t
        STATECHANGETIME:d SUPERSTATUS:t CAMPAIGN:t MERGERAMCOUNT:n MERGERAMUNIT:t
        MERGEWALLTIME:n MERGEWALLTIMEUNIT:t THROTTLEDTIME:d NUMTHROTTLED:n MERGECORECOUNT:n
        GOAL:n ASSESSMENTTIME:d CPUTIME:n CPUTIMEUNIT:t CPUEFFICIENCY:n BASEWALLTIME:n
        AMIFLAG:t NUCLEUS:t BASERAMCOUNT:n RESCUETIME:d REQUESTTYPE:t USEJUMBO:t DISKIO:n
        DISKIOUNIT:t
    """,
    "jedi_taskparams": """
        JEDITASKID:n! TASKPARAMS:t
    """,
    "jedi_jobparams_template": """
        TASKID:n! JOBPARAMSTEMPLATE:t
    """,
    "jedi_datasets": """
        DATASETID:n! DATASETNAME:t! CONTAINERNAME:t JEDITASKID:n! MASTERID:n PROVENANCEID:n
        STATE:t STATECEHCKTIME:d STATECHECKEXPIRATION:d NFILES:n NFILESTOBEUSED:n
        NFILESUSED:n NFILESFINISHED:n NFILESFAILED:n NFILESONHOLD:n NEVENTS:n
        NEVENTSTOBEUSED:n NEVENTSUSED:n STATUS:t CREATIONTIME:d! MODIFICATIONTIME:d!
        FROZENTIME:d TYPE:t! VO:t CLOUD:t SITE:t LOCKEDBY:t LOCKEDTIME:d ATTRIBUTES:t
        STREAMNAME:t STORAGETOKEN:t DESTINATION:t TEMPLATEID:n NFILESWAITING:n
    """,
    "jedi_dataset_contents": """
        FILEID:n! DATASETID:n! JEDITASKID:n! CREATIONDATE:d! LASTATTEMPTTIME:d LFN:t! GUID:t
        TYPE:t! FSIZE:n CHECKSUM:t SCOPE:t STATUS:t! ATTEMPTNR:n MAXATTEMPT:n NEVENTS:n
        KEEPTRACK:n STARTEVENT:n ENDEVENT:n FIRSTEVENT:n BOUNDARYID:n PANDAID:n
        FAILEDATTEMPT:n LUMIBLOCKNR:n OUTPANDAID:n MAXFAILURE:n IS_WAITING:t JOBSETID:n
        PROC_STATUS:t
    """,
    "jedi_output_template": """
        OUTTEMPID:n! JEDITASKID:n! DATASETID:n! FILENAMETEMPLATE:t! SOURCENAME:t SERIALNR:n
        MAXSERIALNR:n STREAMNAME:t OUTTYPE:t
    """,
    "jedi_work_queue": """
        QUEUE_ID:n! QUEUE_NAME:t! QUEUE_TYPE:t! VO:t! QUEUE_SHARE:n QUEUE_ORDER:n CRITERIA:t
        VARIABLES:t PARTITIONID:n STRETCHABLE:n STATUS:t
    """,
    "jedi_events": """
        JEDITASKID:n! DATASETID:n! FILEID:n! STATUS:n! PANDAID:n! JOB_PROCESSID:n!
        DEF_MIN_EVENTID:n DEF_MAX_EVENTID:n PROCESSED_UPTO_EVENTID:n ATTEMPTNR:n
        OBJSTORE_ID:n EVENT_OFFSET:n IS_JUMBO:n ZIPROW_ID:n FILE_NOT_DELETED:t ERROR_CODE:n
        PATH_CONVENTION:n
    """,
    "jedi_job_retry_history": """
        JEDITASKID:n! OLDPANDAID:n! NEWPANDAID:n! RELATIONTYPE:t ORIGINPANDAID:n
    """,
    "jedi_process_lock": """
        PRODSOURCELABEL:t! VO:t! WORKQUEUE_ID:n! CLOUD:t LOCKEDBY:t! LOCKEDTIME:d!
    """,
}
RENAMED = {
    ("jedi_datasets", "statecehcktime"): "statechecktime",
    ("jedi_jobparams_template", "taskid"): "jeditaskid",
}
KINDS: dict[str, set[str]] = {
    "n": {"bigint", "integer", "smallint"},
    "d": {"timestamp with time zone"},
    "t": {"text", "jsonb"},
}


@pytest.mark.parametrize("table", SEED)
def test_the_seeds_columns(engine: Engine, table: str) -> None:
    with engine.connect() as tx:
        found = {
            name: (kind, mandatory)
            for name, kind, mandatory in tx.execute(
                text(
                    "SELECT attname, format_type(atttypid, NULL), attnotnull FROM pg_attribute "
                    "WHERE attrelid = CAST(:table AS regclass) AND attnum > 0"
                ),
                {"table": table},
            )
        }
    for name, kind, mandatory in re.findall(r"(\w+):(\w)(!?)", SEED[table]):
        column = RENAMED.get((table, name.lower()), name.lower())
        assert column in found
        assert found[column][0] in KINDS[kind], column
        assert found[column][1] or not mandatory, f"{column} is mandatory"


def test_lists_typed_from_the_seed_are_complete() -> None:
    assert [len(SEED[table].split()) for table in SEED] == [72, 2, 2, 34, 28, 9, 11, 17, 5, 6]


BEYOND = {
    "jedi_tasks": "reason_code reason_facts next_run_at lock_seq lease_until idempotency_key "
    "split_at origin_pandaid",
    "jedi_taskparams": "source_text source_format",
    "jedi_jobs": "pandaid jeditaskid taskid originpandaid unit_nr attemptnr status substatus site "
    "workqueue_id gshare resource_type priority cores memory_mb walltime_s disk_mb error_source "
    "error_code error_diag hold_kind hold_reason hold_since hold_deadline delegation_kind "
    "delegation_queue delegation_id postprocessed_at purged_at retention lock_seq",
    "job_stats_delta": "site workqueue gshare resource_type status jobs cores",
}


def test_columns_beyond_the_seed() -> None:
    for table, names in BEYOND.items():
        declared = {column.name for column in metadata.tables[table].columns}
        assert set(names.split()) <= declared


def test_keys_allow_partitions_by_task() -> None:
    for table in ("jedi_datasets", "jedi_dataset_contents", "jedi_job_files", "jedi_events"):
        assert "jeditaskid" in {column.name for column in metadata.tables[table].primary_key}


def test_identifiers_never_draw_from_a_sequence_by_accident() -> None:
    """Only tables whose rows nobody else numbers have a sequence of their own."""
    for table in metadata.tables.values():
        numbered = table.autoincrement_column
        assert numbered is None or numbered.autoincrement is True, f"{table}.{numbered}"


@pytest.mark.parametrize(
    ("table", "column", "longest"),
    [("jedi_dataset_contents", "lfn", 256), ("jedi_work_queue", "queue_name", 64)],
)
def test_lengths_that_matter(engine: Engine, table: str, column: str, longest: int) -> None:
    queue: dict[str, object] = {"queue_id": 1, "queue_type": "user", "vo": "local"}
    row = MANDATORY[table] | {"type": "input", "status": "ready"} if table in MANDATORY else queue

    def insert(tx: Connection, length: int) -> None:
        full = row | {column: "x" * length}
        names = ", ".join(full)
        tx.execute(
            text(f"INSERT INTO {table} ({names}) VALUES (:{names.replace(', ', ', :')})"), full
        )

    with engine.begin() as tx:
        insert(tx, longest)
    with pytest.raises(IntegrityError, match="_ck"), engine.begin() as tx:
        insert(tx, longest + 1)


def test_queue_orders_are_unique(engine: Engine) -> None:
    insert = text(
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order) "
        "VALUES (1, 'a', 'user', 'v', 1), (2, 'b', 'user', 'v', 1)"
    )
    with pytest.raises(IntegrityError, match="queue_order"), engine.begin() as tx:
        tx.execute(insert)


def test_ranges_fold_into_files(engine: Engine) -> None:
    ranges = {
        "all": ["finished", "finished"],
        "some": ["finished", "ready", "failed"],
        "none": ["ready", "failed"],
        "whole": ["partial"],
    }
    with engine.begin() as tx:
        for lfn, statuses in ranges.items():
            for status in statuses:
                tx.execute(
                    text(
                        "INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, lfn, type, "
                        "status) VALUES (1, 1, :lfn, 'input', :status)"
                    ),
                    {"lfn": lfn, "status": status},
                )
        found = tx.execute(text("SELECT lfn, status, ranges FROM jedi_files"))
        assert {row.lfn: (row.status, row.ranges) for row in found} == {
            "all": ("finished", 2),
            "some": ("partial", 3),
            "none": ("ready", 2),
            "whole": ("partial", 1),
        }


# --------------------------------------------------------------------------------- migrations


@pytest.fixture
def empty(empty_url: str) -> Iterator[Engine]:
    engine = connect(empty_url)
    yield engine
    engine.dispose()


def drawn(engine: Engine) -> dict[str, str]:
    with engine.connect() as tx:
        return picture.draw(tx)


def plain(engine: Engine) -> dict[str, str]:
    """The picture without comments, which only the newest revision has."""
    return {name: without_remarks(sql) for name, sql in drawn(engine).items()}


def test_migrations_build_what_is_declared(engine: Engine, empty: Engine) -> None:
    assert migrate.differences(engine) == []
    with empty.begin() as tx:
        for statement in ddl.functions():
            tx.execute(text(statement))
        metadata.create_all(tx)
        for statement in ddl.guards():
            tx.execute(text(statement))
    assert drawn(engine) == drawn(empty)


def counted(engine: Engine) -> dict[str, int]:
    with engine.connect() as tx:
        return {name: tx.scalar(text(f"SELECT count(*) FROM {name}")) for name in metadata.tables}


def test_down_and_up_with_a_row_in_each_status(engine: Engine, empty: Engine) -> None:
    with engine.begin() as tx:
        for machine in states.MACHINES:
            insert_states(tx, machine)
    before, rows = drawn(engine), counted(engine)
    migrate.downgrade(engine, "0008")
    migrate.upgrade(empty, "0008")
    assert migrate.current(engine) == migrate.current(empty) == "0008"
    assert plain(engine) == plain(empty)
    migrate.upgrade(engine)
    assert migrate.current(engine) == migrate.head()
    assert drawn(engine) == before
    rows["jedi_dataset_contents"] -= 1  # earlier releases have no rows of files that are left out
    assert counted(engine) == rows


def test_each_step_down_is_undone_by_a_step_up(engine: Engine) -> None:
    whole, pictures = drawn(engine), []
    while above := migrate.current(engine):
        pictures.append((above, plain(engine)))
        migrate.downgrade(engine, "-1")
    for revision, picture_before in reversed(pictures):
        migrate.upgrade(engine, revision)
        assert plain(engine) == picture_before, revision
    assert drawn(engine) == whole


def test_down_to_nothing_and_up_again(engine: Engine) -> None:
    before = drawn(engine)
    migrate.downgrade(engine, "base")
    assert migrate.current(engine) is None
    assert not any(re.search(r"^CREATE", sql, re.MULTILINE) for sql in drawn(engine).values())
    migrate.upgrade(engine)
    assert drawn(engine) == before


def test_revisions_that_this_release_does_not_have_are_refused(empty: Engine) -> None:
    migrate.upgrade(empty)
    with pytest.raises(Refused, match="'nonsense'"):
        migrate.downgrade(empty, "nonsense")
    with empty.begin() as tx:
        tx.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(Refused, match=f"jedi db downgrade {migrate.head()}"):
        migrate.upgrade(empty)
    assert migrate.current(empty) == "9999"


def test_a_revision_between_two_releases_is_told_its_way(empty: Engine) -> None:
    """By hand: the commit whose `jedi db upgrade` takes it to the head of today."""
    migrate.upgrade(empty)
    with empty.begin() as tx:
        tx.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0023'"))
    way = f"Sources of commit {LAST_OF_SINGLE_STEPS} have: run `jedi db upgrade` with them first"
    for refused in (migrate.upgrade, this_release().must_fit_database):
        with pytest.raises((Refused, SchemaDiffers), match=way):
            refused(empty)


def test_upgrades_that_race_wait_for_each_other(empty: Engine) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(migrate.upgrade, [empty] * 3))
    assert migrate.current(empty) == migrate.head()


def test_names_of_migrations_are_their_revisions() -> None:
    """So a process knows the schema of its release without Alembic."""
    release = this_release()
    assert release.head == migrate.head()
    assert all(migrate.known(one) for one in release.revisions)


def test_migrations_do_not_import_what_goes_on_changing() -> None:
    for path in (scripts() / "versions").glob("*.py"):
        assert "jedi." not in re.sub(r"'jedi\.now'", "", path.read_text()), path.name


# -------------------------------------------------------------------------- what is said of them


def _names(node: ast.AST) -> Iterator[str]:
    """The name of a function, or of a statement that its readers run themselves."""
    match node:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            yield name


def test_every_column_says_what_it_is_and_who_writes_it() -> None:
    taskbuffer = Path(jedi.__file__).parent / "taskbuffer"
    writers = {
        f"{path.stem}.{name}"
        for path in taskbuffer.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names(node)
    }
    for table in metadata.tables.values():
        assert table.comment
        for column in table.columns:
            assert column.comment, f"{table}.{column.name}"
            by = column.info["by"]
            if by not in ("migration", "not yet written"):
                assert by, f"{table}.{column.name}: nobody writes it"
                assert set(by.split()) <= writers, f"{table}.{column.name}: {by}"


def test_pages_are_made_alike_each_time(engine: Engine) -> None:
    with engine.connect() as tx:
        made = docs.pages(tx)
        assert docs.pages(tx) == made
    lives = docs.ROOT / "docs/how-a-task-lives.md"
    assert docs.with_parts(made[lives]) == made[lives]
    columns = made[docs.ROOT / "docs/columns.md"]
    assert all(f"| `{c.name}` |" in columns for t in metadata.tables.values() for c in t.columns)


def test_the_picture_is_sql(engine: Engine, empty: Engine) -> None:
    """A DBA can load it; what then is there is drawn alike, but for the remarks."""
    schema = drawn(engine)
    with empty.begin() as tx:
        cursor = tx.connection.cursor()
        for sql in (schema[f"{name}.sql"] for name in ("functions", "tables", "guards", "views")):
            cursor.execute(sql)
    loaded = drawn(empty)
    for name, sql in schema.items():
        assert without_remarks(loaded[name]) == without_remarks(sql)


def without_remarks(sql: str) -> str:
    return re.sub(r" *-- .*", "", sql)
