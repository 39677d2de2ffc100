"""Users, tokens, pilots, agents, notices, sandboxes, uploads of PanDA's clients."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.taskbuffer.schema.columns import col, count, metadata, stamp, words
from jedi.taskbuffer.schema.document_tables import (
    one_of,
)

users = Table(
    "jedi_users",
    metadata,
    words("username:user_name", "the user", "users.PUT_USER", nullable=False),
    words(
        "role",
        "user, production or operator",
        "users.PUT_USER",
        nullable=False,
        server_default="user",
    ),
    words("gridpref", "letters k, p, s, g", "users.PUT_USER", nullable=False, server_default=""),
    words("email", "address for mail about tasks", "users.put_notices"),
    stamp("creationtime:creation_time", "time of the record", "users.PUT_USER", now=True),
    col(
        "cap_running_jobs",
        Integer,
        "most running analysis jobs; NULL: as the knob says, 0: no limit",
        "users.PUT_USER",
    ),
    words("webhook", "URL for messages about tasks", "users.put_notices"),
    words("webhook_secret", "salt of the secret that signs them", "users.put_notices"),
    words(
        "notices",
        "tasks: notices of tasks; jobs: also of jobs",
        "users.put_notices",
        nullable=False,
        server_default="tasks",
    ),
    PrimaryKeyConstraint("user_name"),
    one_of("role", ("user", "production", "operator"), "role"),
    one_of("notices", ("tasks", "jobs"), "notices"),
    CheckConstraint("NOT starts_with(webhook_secret, 'whsec_')", name="webhook_secret"),
    comment="users and their permissions",
)

identities = Table(
    "jedi_identities",
    metadata,
    words("username:user_name", "the user", "identities.LINK", nullable=False),
    words("issuer", "the provider's URL", "identities.LINK", nullable=False),
    words("subject", "the provider's id of the person", "identities.LINK", nullable=False),
    stamp("creationtime:creation_time", "time of the record", "identities.LINK", now=True),
    PrimaryKeyConstraint("user_name"),
    comment="users that an identity provider named, whose roles follow their groups",
)

_TOKEN = "users.put_token pilots.insert_pilots access.put_link"

tokens = Table(
    "jedi_tokens",
    metadata,
    words("token_hash", "sha256 of the token", _TOKEN, nullable=False),
    words("kind", "pilot, user, or link: it begins one session", _TOKEN, nullable=False),
    words("site", "the pilot's site", _TOKEN),
    words("username:user_name", "the user", "users.put_token"),
    stamp("creationtime:creation_time", "time of the record", _TOKEN, now=True),
    stamp("expires_at", "end of validity; empty: none", f"{_TOKEN} pilots.RENEW_TOKENS"),
    stamp("revoked_at", "taken back", "users.REVOKE_TOKEN pilots.END_PILOTS"),
    words("name", "the user's name for it", "access.put_user_token"),
    words("scope", "its use: read, submit or all", "access.put_user_token"),
    stamp("used_at", "last use, to the minute", "access.note_use"),
    PrimaryKeyConstraint("token_hash"),
    one_of("scope", ("read", "submit", "all"), "scope"),
    comment="tokens for the service",
)

pilots = Table(
    "jedi_pilots",
    metadata,
    words("pilot_id", "the pilot", "pilots.insert_pilots", nullable=False),
    words("site", "its site", "pilots.insert_pilots", nullable=False),
    words("host", "host of the submitter that sent it", "pilots.insert_pilots", nullable=False),
    col("pid", Integer, "process id, if it is local", "pilots.note_found"),
    col(
        "process_start", BigInteger, "start time of the process in clock ticks", "pilots.note_found"
    ),
    words("token_hash", "its token", "pilots.insert_pilots"),
    words(
        "status",
        "submitted, running, ended, lost",
        "pilots.note_found pilots.END_PILOTS",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "time of the record", "pilots.insert_pilots", now=True),
    stamp("endtime:end_time", "end", "pilots.END_PILOTS"),
    words(
        "engine",
        "engine: local, slurm, ...",
        "pilots.insert_pilots",
        nullable=False,
        server_default="local",
    ),
    words("batch_id", "the batch system's id of it", "pilots.note_found"),
    words(
        "resource_type",
        "the shape of its slot; empty: a whole slot",
        "pilots.insert_pilots",
        nullable=False,
        server_default="",
    ),
    PrimaryKeyConstraint("pilot_id"),
    Index("jedi_pilots_live_ix", "site", postgresql_where=text("endtime IS NULL")),
    comment="pilots that the submitter started",
)

agents = Table(
    "jedi_agents",
    metadata,
    words("agent", "name of the agent", "agents.BEAT", nullable=False),
    words("process", "host, pid and a number", "agents.BEAT", nullable=False),
    stamp("starttime:start_time", "start", "agents.BEAT", now=True),
    stamp("heartbeat_at", "last heartbeat, in real time", "agents.BEAT"),
    count("cycles", "cycles so far", "agents.BEAT"),
    count("items", "items worked on so far", "agents.BEAT"),
    words("last_error", "the last error of its loop", "agents.BEAT"),
    col("rss_kb", BigInteger, "resident memory", "agents.BEAT"),
    PrimaryKeyConstraint("agent", "process"),
    comment="heartbeats of agents",
)

_NOTIFY = "outbox.notify_of_jobs outbox.notify_of_tasks"

outbox = Table(
    "jedi_outbox",
    metadata,
    col("message_id", BigInteger, "order", _NOTIFY, autoincrement=True, nullable=False),
    words(
        "topic", "subject; a user gets one message of each by each channel", _NOTIFY, nullable=False
    ),
    col("payload", JSONB, "the message", _NOTIFY, nullable=False),
    col("urgent", Boolean, "urgent", _NOTIFY, nullable=False, server_default=text("false")),
    stamp("creationtime:creation_time", "time of the record", _NOTIFY, now=True),
    stamp("sent_at", "time of delivery", "outbox.note"),
    col(
        "attempts",
        Integer,
        "deliveries tried",
        "outbox.claim",
        nullable=False,
        server_default=text("0"),
    ),
    words("username:user_name", "the recipient", _NOTIFY),
    words("channel", "mail or webhook", _NOTIFY),
    stamp("next_try_at", "not tried again before; NULL: not tried yet", "outbox.claim"),
    words("error", "error of the last delivery", "outbox.note"),
    PrimaryKeyConstraint("message_id"),
    UniqueConstraint("topic", "user_name", "channel"),
    Index("jedi_outbox_open_ix", "message_id", postgresql_where=text("sent_at IS NULL")),
    comment="notifications, written with the change and delivered later",
)

_CACHE = "cache_files.put cache_files.KEEP"

sandboxes = Table(
    "jedi_sandboxes",
    metadata,
    words("sha256", "sha256 of the archive", "new_tasks.PUT_SANDBOX", nullable=False),
    col(
        "data",
        LargeBinary,
        "a tar.gz whose members were checked",
        "new_tasks.PUT_SANDBOX",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "time of the record", "new_tasks.PUT_SANDBOX", now=True),
    PrimaryKeyConstraint("sha256"),
    comment="input sandboxes, stored once",
)

cache_files = Table(
    "jedi_cache_files",
    metadata,
    words("filename:file_name", "name, which says nothing of the content", _CACHE, nullable=False),
    words("username:user_name", "the user who uploaded it", _CACHE, nullable=False),
    col("fsize", BigInteger, "bytes", _CACHE, nullable=False),
    col(
        "crc32",
        BigInteger,
        "CRC-32 of the unpacked content, as the end of a gzip file has it",
        _CACHE,
        nullable=False,
    ),
    col("data", LargeBinary, "the file, not checked yet", _CACHE, nullable=False),
    stamp("creationtime:creation_time", "time of the upload, or of its last use", _CACHE, now=True),
    PrimaryKeyConstraint("file_name"),
    Index("jedi_cache_files_user_ix", "user_name", "fsize", "crc32"),
    comment="files that PanDA's clients upload before they submit a task",
)

audit = Table(
    "jedi_audit",
    metadata,
    col("audit_id", BigInteger, "order", "audit.NOTE", nullable=False, autoincrement=True),
    stamp("creationtime:creation_time", "time of the record", "audit.NOTE", now=True),
    words("username:user_name", "the caller", "audit.NOTE", nullable=False),
    words("way", "socket, token or oidc", "audit.NOTE", nullable=False),
    words("operation", "the operation's name", "audit.NOTE", nullable=False),
    words("subject", "the object, such as task 17", "audit.NOTE"),
    col("arguments", JSONB, "the arguments, long texts cut", "audit.NOTE", nullable=False),
    words("address", "the caller's address; unix:UID on the unix socket", "audit.NOTE"),
    words("request_id", "the request, as the access log names it", "audit.NOTE"),
    PrimaryKeyConstraint("audit_id"),
    Index("jedi_audit_time_ix", "creation_time"),
    comment="changes that callers of the service made",
)

requests = Table(
    "jedi_requests",
    metadata,
    words("request_key", "the caller and his key", "audit.begin", nullable=False),
    words("digest", "sha256 of operation and arguments", "audit.begin", nullable=False),
    words("answer", "the answer in JSON", "audit.end"),
    stamp("creationtime:creation_time", "time of the record", "audit.begin", now=True),
    PrimaryKeyConstraint("request_key"),
    Index("jedi_requests_time_ix", "creation_time"),
    comment="answers to requests with an Idempotency-Key",
)
