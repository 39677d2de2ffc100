"""Users' registries of jobs, and the lease of the session that may write to one.

Source: docs/reference/ganga.md#writers.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.taskbuffer.schema.columns import col, count, metadata, stamp, words
from jedi.taskbuffer.schema.document_tables import one_of

_OPEN, _LEASE = "registries.PUT", "registries.LEASE"
_CREATE, _BEGIN, _ACCEPT, _NOTE = "drafts.CREATE", "drafts.begin", "drafts.accept", "drafts.NOTE"
_JUDGE, _UNIT = "drafts.JUDGE", "subjobs.PUT"
STATUSES = (
    "new",
    "submitting",
    "submitted",
    "running",
    "completing",
    "completed",
    "failed",
    "killed",
    "unknown",
)

registries = Table(
    "jedi_registries",
    metadata,
    words("guid", "the registry, unique in the world", _OPEN, nullable=False),
    words("username:user_name", "its owner", _OPEN, nullable=False),
    words("name", "the owner's name for it", _OPEN, nullable=False),
    count("change", "number of changes", "registries.CHANGE"),
    count("next_job", "id of the next job", "registries.DRAW_IDS"),
    count("next_template", "id of the next template", "registries.DRAW_IDS"),
    words("lease", "the session that may write; NULL: none", _LEASE),
    words("holder", "host and process of that session", _LEASE),
    stamp(
        "lease_until",
        "time after which another session may take the lease",
        f"{_LEASE} registries.CHANGE",
    ),
    stamp("creationtime:creation_time", "time of the record", _OPEN, now=True),
    PrimaryKeyConstraint("guid"),
    Index("jedi_registries_owner_uq", "user_name", "name", unique=True),
    comment="registries of users' jobs",
)

drafts = Table(
    "jedi_drafts",
    metadata,
    words("guid", "the registry", _CREATE, nullable=False),
    words("kind", "job or template", _CREATE, nullable=False),
    col("id", BigInteger, "its id, from 0 on", _CREATE, nullable=False, autoincrement=False),
    words(
        "status",
        "status of the job",
        f"{_CREATE} {_BEGIN} {_ACCEPT} {_NOTE} {_JUDGE}",
        nullable=False,
        server_default="new",
    ),
    words("name", "its name", "drafts.CREATE drafts.ANNOTATE", nullable=False),
    words("comment", "the user's comment", "drafts.CREATE drafts.ANNOTATE", nullable=False),
    col(
        "version",
        BigInteger,
        "number of the present document",
        "drafts.write",
        nullable=False,
        server_default=text("1"),
    ),
    col("change", BigInteger, "the registry's number of the last change", _CREATE, nullable=False),
    count("submissions", "submissions so far", _BEGIN),
    words("backend", "its backend: JEDI, Local", _BEGIN),
    words("backend_id", "the backend's id, such as a task", _ACCEPT),
    words("backend_status", "the backend's status", _NOTE),
    words("cursor", "the state after which the backend's next changes come", _NOTE),
    col(
        "complete",
        Boolean,
        "all its input is cut",
        f"{_ACCEPT} {_NOTE}",
        nullable=False,
        server_default=text("true"),
    ),
    words("reason", "reason of its status", f"drafts.give_up {_NOTE} {_JUDGE}"),
    col(
        "counts",
        JSONB,
        "number of subjobs by status",
        f"{_ACCEPT} {_NOTE}",
        nullable=False,
        server_default=text("'{}'"),
    ),
    stamp("created", "time of the record", _CREATE, now=True),
    stamp("submitted", "time of the submission", _ACCEPT),
    stamp("ended", "end", _NOTE),
    words("document", "the job as JSON", "drafts.CREATE drafts.write", nullable=False),
    PrimaryKeyConstraint("guid", "kind", "id"),
    one_of("kind", ("job", "template"), "kind"),
    one_of("status", STATUSES),
    CheckConstraint("kind = 'job' OR status = 'new'", name="template"),
    Index("jedi_drafts_change_ix", "guid", "kind", "change"),
    comment="jobs and templates of registries",
)

removed_drafts = Table(
    "jedi_removed_drafts",
    metadata,
    words("guid", "the registry", "drafts.REMOVE", nullable=False),
    words("kind", "job or template", "drafts.REMOVE", nullable=False),
    col("id", BigInteger, "its id", "drafts.REMOVE", nullable=False, autoincrement=False),
    col(
        "change", BigInteger, "the registry's number of the change", "drafts.REMOVE", nullable=False
    ),
    PrimaryKeyConstraint("guid", "kind", "id"),
    Index("jedi_removed_drafts_change_ix", "guid", "kind", "change"),
    comment="ids of removed jobs and templates",
)

subjobs = Table(
    "jedi_subjobs",
    metadata,
    words("guid", "the registry", _UNIT, nullable=False),
    col("job", BigInteger, "the job", _UNIT, nullable=False, autoincrement=False),
    col(
        "k", Integer, "number of the subjob, from 0 on", _UNIT, nullable=False, autoincrement=False
    ),
    words("status", "its status", _UNIT, nullable=False),
    col("attempt", Integer, "number of its latest attempt", _UNIT),
    col("panda_id", BigInteger, "PandaID of its latest attempt", _UNIT),
    words("site", "site of its latest attempt", _UNIT),
    col("exit_code", BigInteger, "exit code of its latest attempt", _UNIT),
    words("reason", "reason of its status", _UNIT),
    col(
        "superseded",
        Boolean,
        "its input was cut again: it counts no longer",
        _UNIT,
        nullable=False,
        server_default=text("false"),
    ),
    words(
        "override",
        "its differences from the job as JSON",
        _UNIT,
        nullable=False,
        server_default="{}",
    ),
    PrimaryKeyConstraint("guid", "job", "k"),
    one_of("status", STATUSES),
    comment="subjobs, as registries know them",
)

folders = Table(
    "jedi_folders",
    metadata,
    words("guid", "the registry", "folders.MAKE", nullable=False),
    words("path", "its path", "folders.MAKE", nullable=False),
    PrimaryKeyConstraint("guid", "path"),
    comment="folders of registries",
)

folder_jobs = Table(
    "jedi_folder_jobs",
    metadata,
    words("guid", "the registry", "folders.PUT", nullable=False),
    words("path", "the folder", "folders.PUT", nullable=False),
    col("job", BigInteger, "the job", "folders.PUT", nullable=False, autoincrement=False),
    col("change", BigInteger, "the registry's number of the change", "folders.PUT", nullable=False),
    col(
        "place", Integer, "its place among the links of this change", "folders.PUT", nullable=False
    ),
    PrimaryKeyConstraint("guid", "path", "job"),
    Index("jedi_folder_jobs_job_ix", "guid", "job"),
    comment="links from folders to jobs",
)
