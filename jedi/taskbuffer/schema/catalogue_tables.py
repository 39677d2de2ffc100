"""The catalogue of data management."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from jedi.taskbuffer.schema.columns import col, key, metadata, stamp, words
from jedi.taskbuffer.schema.document_tables import (
    one_of,
)

# Foreign keys, unlike elsewhere: rows go with what they belong to, whoever races with whom. They
# cost 17 microseconds a file, little beside what is done with its bytes.

_PUBLISH = "catalogue.put_files"

ddm_datasets = Table(
    "ddm_datasets",
    metadata,
    col(
        "dataset_id",
        BigInteger,
        "order",
        "catalogue.put_dataset",
        autoincrement=True,
        nullable=False,
    ),
    words("name", "scope:name", "catalogue.put_dataset", nullable=False),
    words(
        "state",
        "open: more files may come; closed",
        "catalogue.put_dataset catalogue.close",
        nullable=False,
    ),
    col(
        "is_container",
        Boolean,
        "it holds datasets, not files",
        "catalogue.put_dataset",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "time of creation", "catalogue.put_dataset", now=True),
    PrimaryKeyConstraint("dataset_id"),
    UniqueConstraint("name"),
    one_of("state", ("open", "closed"), "state"),
    comment="datasets and containers of the SQL catalogue",
)

ddm_members = Table(
    "ddm_members",
    metadata,
    key("container_id", "the container", "catalogue.ADD_MEMBERS"),
    words("member", "scope:name of a dataset in it", "catalogue.ADD_MEMBERS", nullable=False),
    col("position", Integer, "order", "catalogue.ADD_MEMBERS", nullable=False),
    PrimaryKeyConstraint("container_id", "member"),
    ForeignKeyConstraint(["container_id"], ["ddm_datasets.dataset_id"], ondelete="CASCADE"),
    comment="members of containers",
)

ddm_files = Table(
    "ddm_files",
    metadata,
    col("file_id", BigInteger, "order", _PUBLISH, autoincrement=True, nullable=False),
    key("dataset_id", "its dataset", _PUBLISH),
    words("lfn", "its name, which its dataset has once", _PUBLISH, nullable=False),
    col("size", BigInteger, "bytes", _PUBLISH, nullable=False),
    words("adler32", "8 lower-case hex digits", _PUBLISH, nullable=False),
    words("guid", "globally unique identifier", _PUBLISH, nullable=False),
    col("nevents", BigInteger, "events in it, if known", f"{_PUBLISH} catalogue.NOTE_EVENTS"),
    col("boundary", BigInteger, "files with the same one belong together", _PUBLISH),
    col("lumiblock", Integer, "the lumi block of its events", _PUBLISH),
    PrimaryKeyConstraint("file_id"),
    UniqueConstraint("dataset_id", "lfn"),
    ForeignKeyConstraint(["dataset_id"], ["ddm_datasets.dataset_id"], ondelete="CASCADE"),
    comment="files of datasets",
)

ddm_replicas = Table(
    "ddm_replicas",
    metadata,
    key("file_id", "the file", _PUBLISH),
    words("endpoint", "endpoint of the replica", _PUBLISH, nullable=False),
    stamp("expires_at", "end of the copy's pin; empty: it stays for good", _PUBLISH),
    PrimaryKeyConstraint("file_id", "endpoint"),
    ForeignKeyConstraint(["file_id"], ["ddm_files.file_id"], ondelete="CASCADE"),
    Index(None, "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    comment="replicas of files",
)
