"""Sites, their storage, the links between them, their shares."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jedi.taskbuffer.schema.columns import col, metadata, number, stamp, words
from jedi.taskbuffer.schema.document_tables import (
    one_of,
)

_SITES = "sites.put_sites"

sites = Table(
    "jedi_sites",
    metadata,
    words("site", "the site's (queue's) name", _SITES, nullable=False),
    words(
        "status",
        "online, standby, brokeroff, test, offline, paused",
        _SITES,
        nullable=False,
        server_default="online",
    ),
    words(
        "type", "production, analysis or unified", _SITES, nullable=False, server_default="unified"
    ),
    words("cloud", "the cloud it belongs to", _SITES, nullable=False, server_default="WORLD"),
    words("tier", "T0, T1, T2, ...", _SITES),
    words("pandasite:panda_site", "the grid site behind the queue", _SITES),
    words("role", "nucleus or satellite", _SITES, nullable=False, server_default="nucleus"),
    words("state", "ACTIVE nuclei take tasks", _SITES, nullable=False, server_default="ACTIVE"),
    words("capability", "ucore: unified over resource types", _SITES),
    col(
        "corecount:core_count",
        Integer,
        "cores per slot; 0: 1",
        _SITES,
        nullable=False,
        server_default=text("1"),
    ),
    col(
        "corepower:core_power",
        Double,
        "HS06 per core",
        _SITES,
        nullable=False,
        server_default=text("10"),
    ),
    col(
        "maxtime:max_time",
        BigInteger,
        "longest wall time in s; 0: no limit",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "mintime:min_time",
        BigInteger,
        "shortest wall time in s; 0: no limit",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "maxrss:max_rss",
        BigInteger,
        "memory of a slot in MB; 0: no limit",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "minrss:min_rss",
        BigInteger,
        "least memory in MB; 0: no limit",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "maxwdir:max_wdir",
        BigInteger,
        "scratch of a slot in MB; 0: unknown",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "maxinputsize:max_input_size",
        BigInteger,
        "MB; -1: always direct I/O",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col(
        "nslots:n_slots",
        Integer,
        "pilots the submitter may have at once",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    words(
        "submitter",
        "engine of pilots: local, slurm, lsf, pbs, htcondor; none: another system starts them",
        _SITES,
        nullable=False,
        server_default="none",
    ),
    words("fairsharepolicy:fair_share_policy", "zero-share rules", _SITES),
    col(
        "transferringlimit:transferring_limit",
        Integer,
        "jobs; 0: 2000",
        _SITES,
        nullable=False,
        server_default=text("0"),
    ),
    col("pledgedcpu:pledged_cpu", Integer, "cores; -1: opportunistic", _SITES),
    col(
        "transtimehi:trans_time_hi",
        Integer,
        "days for transfers of priority >= 800",
        _SITES,
        nullable=False,
        server_default=text("1"),
    ),
    col(
        "transtimelo:trans_time_lo",
        Integer,
        "days for transfers below",
        _SITES,
        nullable=False,
        server_default=text("4"),
    ),
    col(
        "direct_access_lan",
        Boolean,
        "jobs may read inputs over the LAN",
        _SITES,
        nullable=False,
        server_default=text("false"),
    ),
    col(
        "direct_access_wan",
        Boolean,
        "jobs may read inputs over the WAN",
        _SITES,
        nullable=False,
        server_default=text("false"),
    ),
    col("releases", ARRAY(Text), "software; ANY or AUTO", _SITES),
    words("wnconnectivity:wn_connectivity", "full, http or none, # IPv4 or IPv6", _SITES),
    words("jobseed:job_seed", "std, es, eshigh, all", _SITES, nullable=False, server_default="std"),
    number("max_io_intensity", "kB/s", _SITES),
    number("maxdiskio:max_disk_io", "kB/s per core", _SITES),
    col(
        "catchall", JSONB, "further attributes", _SITES, nullable=False, server_default=text("'{}'")
    ),
    stamp("laststart:last_start", "last start of a job", "dispatch.accept_reports"),
    stamp(
        "lastpilot:last_pilot",
        "last sign of a pilot or of its submitter",
        "dispatch.acquire dispatch.accept_reports dispatch.beat pilots.SERVE",
    ),
    words("comment", "the operator's reason for its settings", _SITES),
    stamp("modificationtime:modification_time", "time of the last change", _SITES, now=True),
    words("queue", "the batch system's queue or partition", _SITES),
    col(
        "batch",
        JSONB,
        "options of the batch system for pilots",
        _SITES,
        nullable=False,
        server_default=text("'{}'"),
    ),
    PrimaryKeyConstraint("site"),
    one_of("status", ("online", "standby", "brokeroff", "test", "offline", "paused")),
    comment="sites (queues) of the grid",
)

sites_history = Table(
    "jedi_sites_history",
    metadata,
    col("change_id", BigInteger, "order", _SITES, autoincrement=True, nullable=False),
    words("site", "the site", _SITES, nullable=False),
    words("attribute", "the changed attribute", _SITES, nullable=False),
    words("oldvalue:old_value", "before", _SITES),
    words("newvalue:new_value", "after", _SITES),
    words("username:user_name", "who", _SITES),
    words("comment", "why", _SITES),
    stamp("modificationtime:modification_time", "time of the record", _SITES, now=True),
    PrimaryKeyConstraint("change_id"),
    Index(None, "site"),
    comment="changes of sites",
)

_ENDPOINTS = "sites.put_endpoints"

ddm_endpoints = Table(
    "jedi_ddm_endpoints",
    metadata,
    words("ddm_endpoint:endpoint", "the endpoint's name", _ENDPOINTS, nullable=False),
    words("site", "the grid site it belongs to", _ENDPOINTS),
    words("token", "space token", _ENDPOINTS),
    words("type", "DATADISK, DATATAPE, ...", _ENDPOINTS, nullable=False, server_default="DATADISK"),
    words("path", "root directory, for file-system endpoints", _ENDPOINTS),
    col("is_tape", Boolean, "tape", _ENDPOINTS, nullable=False, server_default=text("false")),
    number("space_total", "GB", f"{_ENDPOINTS} sites.note_space"),
    number("space_free", "GB", f"{_ENDPOINTS} sites.note_space"),
    number("space_used", "GB", f"{_ENDPOINTS} sites.note_space"),
    number("space_expired", "GB", _ENDPOINTS),
    number("space_min_free", "GB", _ENDPOINTS),
    number("space_unavailable", "GB", _ENDPOINTS),
    stamp("space_timestamp", "time of the measurement of space", f"{_ENDPOINTS} sites.note_space"),
    col(
        "detailed_status",
        JSONB,
        "read_lan, write_lan, read_wan, write_wan: ON, OFF, TEST",
        _ENDPOINTS,
        nullable=False,
        server_default=text("'{}'"),
    ),
    PrimaryKeyConstraint("endpoint"),
    comment="storage",
)

site_endpoints = Table(
    "jedi_site_endpoints",
    metadata,
    words("site", "the site", _ENDPOINTS, nullable=False),
    words("ddm_endpoint:endpoint", "the endpoint", _ENDPOINTS, nullable=False),
    words("scope", "production or analysis", _ENDPOINTS, nullable=False, server_default="default"),
    col(
        "is_local",
        Boolean,
        "on the site's LAN",
        _ENDPOINTS,
        nullable=False,
        server_default=text("true"),
    ),
    words("roles", "read, write", _ENDPOINTS, nullable=False, server_default="read,write"),
    col(
        "order_read", Integer, "smaller first", _ENDPOINTS, nullable=False, server_default=text("1")
    ),
    col(
        "order_write",
        Integer,
        "smaller first",
        _ENDPOINTS,
        nullable=False,
        server_default=text("1"),
    ),
    col(
        "default_read",
        Boolean,
        "first choice",
        _ENDPOINTS,
        nullable=False,
        server_default=text("true"),
    ),
    col(
        "default_write",
        Boolean,
        "first choice",
        _ENDPOINTS,
        nullable=False,
        server_default=text("true"),
    ),
    PrimaryKeyConstraint("site", "endpoint", "scope"),
    comment="storage of each site",
)

_NETWORK = "sites.put_links"

network_matrix = Table(
    "jedi_network_matrix",
    metadata,
    words("src", "source", _NETWORK, nullable=False),
    words("dst", "destination", _NETWORK, nullable=False),
    words(
        "key",
        "closeness, production_queued, express_queued, mbps_1h, mbps_1d, mbps_1w",
        _NETWORK,
        nullable=False,
    ),
    number("value", "value; speeds in MB/s", _NETWORK),
    stamp("ts", "time of the measurement", _NETWORK, now=True),
    PrimaryKeyConstraint("src", "dst", "key"),
    Index(None, "key", "dst"),
    comment="links between places",
)

_METRICS = "pilots.note_trouble statistics.NOTE_DISK_IO"

site_metrics = Table(
    "jedi_site_metrics",
    metadata,
    words("site", "the site", _METRICS, nullable=False),
    words("gshare", "global share; empty: all", _METRICS, nullable=False, server_default=""),
    words("metric", "name", _METRICS, nullable=False),
    col("value", JSONB, "value", _METRICS),
    stamp("ts", "time of the record", _METRICS, now=True),
    PrimaryKeyConstraint("site", "gshare", "metric"),
    comment="measurements of sites",
)

resource_types = Table(
    "jedi_resource_types",
    metadata,
    words("resource_type", "name", "migration", nullable=False),
    col("mincore:min_core", Integer, "least cores", "migration"),
    col("maxcore:max_core", Integer, "most cores", "migration"),
    col("minrampercore:min_ram_per_core", Integer, "MB, exclusive", "migration"),
    col("maxrampercore:max_ram_per_core", Integer, "MB, inclusive", "migration"),
    PrimaryKeyConstraint("resource_type"),
    comment="shapes of jobs; the first that matches wins",
)

_SHARES = "shares.put"

queue_shares = Table(
    "jedi_queue_shares",
    metadata,
    col("queue_id", Integer, "the work queue", _SHARES, nullable=False, autoincrement=False),
    col("active", Boolean, "it has tasks or jobs", _SHARES, nullable=False),
    number("entitlement", "cores by its share alone; NULL: outside the shares", _SHARES),
    number("allocation", "cores that it may use now", _SHARES),
    number("usage", "cores of its jobs at sites", _SHARES),
    number("demand", "cores that it could use", _SHARES),
    number("ratio", "usage by allocation; NULL where nothing is allocated", _SHARES),
    col("place", Integer, "its place when jobs are dispatched", _SHARES, nullable=False),
    col(
        "turn",
        Integer,
        "its place when jobs are made: that of its partition",
        _SHARES,
        nullable=False,
    ),
    stamp("computed_at", "time of the record", _SHARES, now=True),
    PrimaryKeyConstraint("queue_id"),
    comment="use of shares by work queues, as last computed",
)
