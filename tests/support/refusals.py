"""What each broker refuses a site for: by code, the fault of a site that is refused for nothing
else, and the task that asks for what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOME = "SITE_A"
"""A site without a fault, the nucleus where one is wanted."""
HIDDEN = "HIDDEN"
"""Its endpoint has the input demo:hidden and gives nothing to other sites."""
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a site: columns of its row and of its endpoint's (None: it has none),
    live jobs of the task's share by status, files queued and closeness on its link to the nucleus,
    files on their way to it, jobs of the task that were there by status, what these read (bytes in
    10 s); `holds`: it has the input. `also` are reasons that come with the one meant."""

    site: Columns = field(default_factory=dict)
    store: Columns | None = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    link: Mapping[str, float] = field(default_factory=dict)
    backlog: int = 0
    past: Mapping[str, int] = field(default_factory=dict)
    read_bytes: int = 0
    holds: bool = True
    also: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Ask:
    """A task: what its document says besides, what it reads, what others write into its row later
    (scouts, brokers, the event service), the sites that are refused to it, by code, and other sites
    that have a job of it."""

    document: Mapping[str, Any]
    cases: Mapping[str, Fault]
    reads: str = "demo:in"
    row: Columns = field(default_factory=dict)
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broker:
    """A broker with tasks whose label makes it theirs; `others` are sites that are no cases."""

    label: str
    asks: tuple[Ask, ...]
    knobs: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Fault] = field(default_factory=dict)

    @property
    def codes(self) -> set[str]:
        """All reasons that its cases are meant to produce."""
        return {code for ask in self.asks for code in ask.cases}


def sites(**columns: Columns) -> dict[str, Fault]:
    """Faults of rows of sites."""
    return {code: Fault(row) for code, row in columns.items()}


def free(**keys: Any) -> dict[str, Any]:
    """Free keys of a site."""
    return {"catchall": keys}


def stores(**columns: Columns) -> dict[str, Fault]:
    """Faults of rows of endpoints."""
    return {code: Fault(store=row) for code, row in columns.items()}


def off(way: str) -> dict[str, Any]:
    """An endpoint that is closed in one way."""
    return {"detailed_status": {way: "OFF"}}


AWAY = Fault(holds=False)

# ------------------------------------------------------------------------- what all look at

PLAIN = {
    "coreCount": 1,
    "ramCount": 2000,
    "cpuTime": 1000,
    "workDiskCount": 50_000,
    "excludedSite": "CASE_excluded",
}
MACHINES = {
    **sites(
        status_offline={"status": "offline"},
        status_brokeroff={"status": "brokeroff"},
        status_paused={"status": "paused"},
        status_standby={"status": "standby"},
        many_cores={"corecount": 8},
        little_scratch={"maxwdir": 10},
        little_time={"maxtime": 100},
        much_time={"mintime": 1_000_000},
        little_memory={"maxrss": 1999},
        much_memory={"minrss": 3000},
        other_processing=free(allowed_processing=["simul"]),
        no_pilots={"lastpilot": "2020-01-01"},
        excluded={},
    ),
    **stores(little_storage={"space_free": 1}),
}
SEVERAL_CORES = Ask({**PLAIN, "coreCount": 8}, sites(few_cores={}))
ELSEWHERE = Ask({**PLAIN, "includedSite": HOME}, sites(not_included={}))
GENERIC = Broker(
    "user",
    (
        Ask(
            PLAIN,
            {
                **MACHINES,
                **sites(jumbo_only=free(useJumboJobs="only")),
                "status_test": Fault({"status": "test"}),
                "no_endpoint": Fault(store=None),
            },
        ),
        SEVERAL_CORES,
        ELSEWHERE,
    ),
)

# ------------------------------------------------------------------------ what a grid looks at

GRID = {
    **PLAIN,
    "transHome": "mine",
    "transUses": "mine",
    "architecture": "x86_64-el9",
    "ioIntensity": 100,
    "cloud": "US",
}
FAULTS = {
    **MACHINES,
    **sites(
        gpu_only=free(gpu=True),
        no_release={"releases": ["other"]},
        no_platform=free(platforms=["aarch64-*"]),
        zero_share={"fairsharepolicy": "type=any:0"},
        io_intensive={"max_io_intensity": 10},
        other_cloud={"cloud": "ND"},
    ),
    **stores(output_unwritable=off("write_lan"), input_unreadable=off("read_lan")),
    "disk_io": Fault({"maxdiskio": 50}, past={"running": 1}, read_bytes=600_000),
}
SCOUTED = {"diskio": 60}
"""kB/s, as scouts measured them."""
MACHINE_ASKS = (
    SEVERAL_CORES,
    ELSEWHERE,
    Ask({**PLAIN, "coreCount": 0, "maxCoreCount": 4}, sites(above_max_cores={"corecount": 8})),
    Ask({**PLAIN, "architecture": "x86_64-el9&nvidia"}, sites(no_gpu={})),
    Ask({**PLAIN, "allowInputLAN": "only"}, sites(no_direct_input={})),
    Ask({"coreCount": 1}, sites(short_slots={"maxtime": 3600})),
)

ANALYSIS = Broker(
    "user",
    (
        Ask(
            GRID,
            {
                **FAULTS,
                **sites(not_for_analysis={"type": "production"}),
                "status_test": Fault({"status": "test"}),
                "no_endpoint": Fault(store=None, also=("no_data",)),
                "hospital": Fault(name="CASE_HOSPITAL"),
                "no_data": Fault(holds=False),
                "local_data_only": Fault(
                    free(use_only_local_data=True), holds=False, also=("no_data",)
                ),
                "input_unwelcome": Fault(store=off("write_wan"), holds=False, also=("no_data",)),
                "waiting_cap": Fault(jobs={"assigned": 21}),
                "overloaded": Fault(jobs={"running": 20, "activated": 30}),
                "closed_jobs": Fault(past={"closed": 1}),
                "bad_jobs": Fault(past={"failed": 6}),
            },
            row=SCOUTED,
        ),
        *MACHINE_ASKS,
        Ask(PLAIN, stores(output_stuck=off("read_wan")), row={"nucleus": HOME}),
        Ask(PLAIN, {"no_source": Fault(holds=False, also=("no_data",))}, "demo:hidden"),
        Ask(PLAIN, sites(many_sites={}), at=(HOME, "BUSY")),
    ),
    {
        "broker.local": "full",
        "broker.site_io_limits": 1,
        "broker.unknown_time_h": 24,
        "analysis.max_sites": 2,
        "analysis.avoid_troubled": 1,
    },
    {"BUSY": Fault(jobs={"running": 1000})},
)

INTENSE = {**PLAIN, "cpuTime": 1, "baseWalltime": 1}
PRODUCTION = Broker(
    "managed",
    (
        Ask(
            {**GRID, "ipConnectivity": "full", "ipStack": "IPv6"},
            {
                **FAULTS,
                **sites(
                    not_for_production={"type": "analysis"},
                    event_service_only={"jobseed": "es"},
                    jumbo_only=free(useJumboJobs="only"),
                    full_chain_only=free(bareNucleus="only"),
                    no_connectivity={"wnconnectivity": "none"},
                    other_ip_stack={"wnconnectivity": "full#IPv4"},
                ),
                "status_test": Fault({"status": "test"}, also=("test_queue",)),
                "test_queue": Fault(),
                "no_endpoint": Fault(store=None),
                "output_stuck": Fault(store=off("read_wan")),
                "input_unwelcome": Fault(store=off("write_wan"), holds=False),
                "local_data_only": Fault(free(use_only_local_data=True), holds=False),
                "much_transferring": Fault(jobs={"transferring": 2001}),
                "over_pledge": Fault({"pledgedcpu": 4}, jobs={"running": 5}),
                "queue_cap": Fault(jobs={"activated": 501}, also=("waiting_cap",)),
                "waiting_cap": Fault(jobs={"assigned": 501}),
                "link_closed": Fault(link={"closeness": -1}),
                "link_busy": Fault(link={"production_queued": 301}),
            },
            row={**SCOUTED, "nucleus": HOME},
        ),
        *MACHINE_ASKS,
        Ask(
            PLAIN,
            {
                **sites(not_t1={"role": "satellite"}),
                "inactive": Fault({"laststart": "2020-01-01"}, jobs={"activated": 1}),
                "opportunistic": Fault({"pledgedcpu": -1}, also=("over_pledge",)),
            },
            row={"currentpriority": 901},
        ),
        Ask(
            PLAIN,
            {"slow_link": Fault(link={"mbps_1h": 0.5})},
            row={"nucleus": HOME, "currentpriority": 1000},
        ),
        Ask({**PLAIN, "t1Weight": -1}, sites(outside_nucleus={}), row={"nucleus": HOME}),
        Ask({**PLAIN, "fullChain": "only"}, sites(full_chain_outside={}), row={"nucleus": HOME}),
        Ask(PLAIN, sites(link_off={}), row={"nucleus": "NUC_OFF"}),
        Ask(PLAIN, sites(nucleus_busy={}), row={"nucleus": "NUC_BUSY"}),
        Ask(INTENSE, {"much_to_move": AWAY}, "demo:large"),
        Ask(INTENSE, {"many_to_move": AWAY}, "demo:many"),
        Ask(PLAIN, {"no_source": AWAY}, "demo:hidden"),
        Ask(PLAIN, sites(no_event_service={"jobseed": "std"}), row={"eventservice": 1}),
        Ask(PLAIN, sites(few_jumbo_events=free(minEventsForJumbo=1000)), row={"usejumbo": "Y"}),
    ),
    {
        "broker.local": "full",
        "broker.pledged_from": 800,
        "core.work_shortage": 1,
        "broker.cap_jobs": 500,
        "broker.site_io_limits": 1,
        "broker.unknown_time_h": 24,
        "broker.nucleus_cap": 10_000,
    },
    {"NUC_OFF": Fault(store=off("write_wan")), "NUC_BUSY": Fault(backlog=10_000)},
)

# -------------------------------------------------------------------------------- nuclei

NUCLEUS = Broker(
    "managed",
    (
        Ask(
            PLAIN,
            {
                **sites(
                    nucleus_inactive={"state": "DOWN"},
                    full_chain_only=free(bareNucleus="only"),
                ),
                **stores(
                    endpoint_off=off("write_wan"),
                    little_room={"space_free": 1024},
                ),
                "no_endpoint": Fault(store=None),
                "nucleus_backlog": Fault(backlog=2000),
            },
        ),
        Ask(PLAIN, {"input_elsewhere": AWAY}, "demo:large"),
        Ask(PLAIN, {"input_files_elsewhere": AWAY}, "demo:many"),
        Ask(PLAIN, {"no_source": AWAY}, "demo:hidden"),
        Ask({**PLAIN, "fullChain": "only"}, sites(no_full_chain={})),
    ),
    {"broker.local": "full", "taskbroker.endpoint_status": 1},
)
LOCAL_NUCLEUS = Broker(
    "managed",
    (
        Ask(
            PLAIN,
            {
                **sites(nucleus_inactive={"state": "DOWN"}),
                **stores(little_space={"space_free": 1, "space_min_free": 2}),
                "no_endpoint": Fault(store=None),
            },
        ),
    ),
)
BROKERS: Mapping[str, Broker] = {
    "generic": GENERIC,
    "analysis": ANALYSIS,
    "production": PRODUCTION,
    "nucleus": NUCLEUS,
    "local nucleus": LOCAL_NUCLEUS,
}
