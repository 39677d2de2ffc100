"""The site file: where jobs can run and where files can lie, as operators write it.

Attribute names and units: docs/reference/estimates.md#site-attributes. A missing attribute keeps
its present value; a new site begins with the defaults of the table.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from jedi.core import names
from jedi.core.errors import BadInput, Problem
from jedi.model.list_file import Entry, read_entry, read_list

_Name = Annotated[str, AfterValidator(names.site)]
_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Order = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
_Limit = Annotated[int, Field(ge=0, le=2**53)]
_NoLimit = "0 = no limit"
UNIFIED = "ucore"
"""The capability of sites whose slots are divided as their jobs need it."""

_Switch = Literal["ON", "OFF", "TEST"]


def _slots(value: Any) -> Any:
    """One mistake, not one for each thing that it might be."""
    if value != "auto" and (type(value) is not int or not 0 <= value < 2**31):
        raise ValueError("must be a whole number from 0, or auto")
    return value


_Figure = Annotated[float, Field(ge=0, le=1e12)]


class _Storage(Entry):
    ddm_endpoint: _Name = Field(description="the endpoint's name")
    path: str | None = Field(
        None, min_length=1, description="root directory; below JEDI_HOME unless absolute"
    )
    token: str | None = Field(None, description="space token")
    type: str = Field("DATADISK", description="DATADISK, DATATAPE, ...")
    is_tape: bool = Field(False, description="tape")
    space_min_free: _Figure | None = Field(None, description="GB that stay free")
    detailed_status: dict[Literal["read_lan", "write_lan", "read_wan", "write_wan"], _Switch] = (
        Field({}, description="read_lan, write_lan, read_wan, write_wan: ON, OFF or TEST")
    )


class StorageEntry(_Storage):
    """A storage endpoint by itself, with its figures from elsewhere. Only written ones are set."""

    site: _Name | None = Field(None, description="the grid site it belongs to")
    space_total: _Figure | None = Field(None, description="GB in all")
    space_free: _Figure | None = Field(None, description="GB that are free")
    space_used: _Figure | None = Field(None, description="GB in use")
    space_expired: _Figure | None = Field(None, description="GB that may be deleted")
    space_unavailable: _Figure | None = Field(None, description="GB that cannot be used")

    def attributes(self) -> dict[str, Any]:
        """The columns of jedi_ddm_endpoints that the entry sets."""
        return self.model_dump(exclude={"ddm_endpoint"}, exclude_unset=True)


class Endpoint(_Storage):
    """A storage endpoint, and how the site uses it."""

    scope: Literal["default", "production", "analysis"] = Field(
        "default", description="whose files: default, production or analysis"
    )
    is_local: bool = Field(True, description="on the site's LAN")
    roles: Literal["read,write", "read", "write"] = Field(
        "read,write", description="read,write, read or write"
    )
    order_read: _Order = Field(1, description="smaller first")
    order_write: _Order = Field(1, description="smaller first")
    default_read: bool = Field(True, description="first choice for reading")
    default_write: bool = Field(True, description="first choice for writing")

    def relation(self) -> dict[str, Any]:
        """The columns of jedi_site_endpoints, but for the site."""
        return self.model_dump(include={"ddm_endpoint", *_RELATION})

    def storage(self) -> dict[str, Any]:
        """The columns of jedi_ddm_endpoints that the entry sets."""
        return self.model_dump(exclude={"ddm_endpoint", *_RELATION}, exclude_unset=True)


_RELATION = frozenset(
    ["scope", "is_local", "roles", "order_read", "order_write", "default_read", "default_write"]
)


_Word = Annotated[str, Field(pattern=r"^[\w@%+=:,./-]+$", coerce_numbers_to_str=True)]
"""Characters that need no quotes in shells and submit scripts."""


class BatchSettings(Entry):
    """The settings of pilots for a site's batch system; set as a whole."""

    url: Annotated[str, Field(pattern=r"^https?://[\w.-]+:\d+$")] | None = Field(
        None, description="where worker nodes reach the service"
    )
    python: _Word | None = Field(None, description="Python 3.9 or later on worker nodes")
    work: _Word | None = Field(None, description="directory on worker nodes for jobs")
    path: _Word | None = Field(
        None, description="directories, separated by colons, that payloads find first in PATH"
    )
    attributes: dict[_Word, _Word] = Field({}, description="the system's own options")


class SiteEntry(Entry):
    """A site (queue). Only written attributes are set."""

    site: _Name = Field(description="the site's name")
    status: Literal["online", "standby", "brokeroff", "test", "offline", "paused"] = Field(
        "online", description="only online sites take work"
    )
    type: Literal["production", "analysis", "unified"] = Field(
        "unified", description="whose jobs: production, analysis or unified"
    )
    cloud: str = Field("WORLD", description="the cloud it belongs to")
    tier: str | None = Field(None, description="T0, T1, T2, ...")
    pandasite: _Name | None = Field(None, description="the grid site behind the queue")
    role: Literal["nucleus", "satellite"] = Field(
        "nucleus", description="a nucleus collects the outputs of tasks"
    )
    state: str = Field("ACTIVE", description="ACTIVE nuclei take tasks")
    capability: str | None = Field(
        None, description="ucore: slots are divided among jobs of one and of several cores"
    )
    corecount: _Number = Field(1, description="cores per slot, 0 = 1")
    corepower: float = Field(10.0, gt=0, le=1e12, description="HS06 per core")
    maxtime: _Limit = Field(0, description=f"longest wall time in s, {_NoLimit}")
    mintime: _Limit = Field(0, description=f"shortest wall time in s, {_NoLimit}")
    maxrss: _Limit = Field(0, description=f"memory of a slot in MB, {_NoLimit}")
    minrss: _Limit = Field(0, description=f"least memory of a job in MB, {_NoLimit}")
    maxwdir: _Limit = Field(0, description="scratch of a slot in MB, 0 = unknown")
    maxinputsize: Annotated[int, Field(ge=-1, le=2**53)] = Field(
        0, description="input of a job in MB, -1 = always direct I/O"
    )
    nslots: Annotated[_Number | Literal["auto"], BeforeValidator(_slots)] = Field(
        0, description="slots that the submitter fills; auto = one per core of this machine"
    )
    submitter: Literal["local", "slurm", "lsf", "pbs", "htcondor", "none"] = Field(
        "none",
        description="local = pilots are sent to this machine, slurm, lsf, pbs or htcondor = to "
        "that batch system, none = they come by themselves",
    )
    queue: _Word | None = Field(None, description="the batch system's queue or partition")
    batch: BatchSettings = Field(
        BatchSettings(),
        description="for the batch system: url (where worker nodes reach the service), python, "
        "work (directory on worker nodes), path (first directories of PATH), attributes (its "
        "own options)",
    )
    fairsharepolicy: str | None = Field(None, description="zero-share rules")
    transferringlimit: _Number = Field(0, description="jobs, 0 = 2000")
    pledgedcpu: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = Field(
        None, description="cores, -1 = opportunistic"
    )
    transtimehi: _Number = Field(1, description="days for transfers of priority >= 800")
    transtimelo: _Number = Field(4, description="days for transfers below")
    direct_access_lan: bool = Field(False, description="jobs may read inputs over the LAN")
    direct_access_wan: bool = Field(False, description="jobs may read inputs over the WAN")
    releases: list[str] | None = Field(None, description="software; ANY or AUTO")
    wnconnectivity: str | None = Field(None, description="full, http or none, # IPv4 or IPv6")
    jobseed: Literal["std", "es", "eshigh", "all"] = Field(
        "std", description="jobs it takes: std, es, eshigh, all"
    )
    max_io_intensity: _Figure | None = Field(None, description="kB/s")
    maxdiskio: _Figure | None = Field(None, description="kB/s per core")
    catchall: dict[str, JsonValue] = Field({}, description="further attributes, free keys")
    endpoints: list[Endpoint] | None = Field(
        None, description="all storage endpoints of the site, first choice first"
    )

    def attributes(self) -> dict[str, Any]:
        """The columns of jedi_sites that the entry sets."""
        return self.model_dump(exclude={"site", "endpoints"}, exclude_unset=True)


def read_endpoints(text: str) -> list[StorageEntry]:
    """The endpoints of a file of their own; BadInput holds every mistake."""
    return read_list(text, StorageEntry, "ddm_endpoint")


def read_sites(text: str) -> list[SiteEntry]:
    """The sites of a file; BadInput holds every mistake."""
    sites = read_list(text, SiteEntry, "site")
    if problems := _contradictions(sites):
        raise BadInput(problems)
    return sites


def read_attributes(name: str, written: dict[str, Any]) -> SiteEntry:
    """One site with some of its attributes; BadInput holds every mistake."""
    return read_entry({"site": name, **written}, SiteEntry, name)


def _contradictions(sites: list[SiteEntry]) -> list[Problem]:
    """Endpoints may stand at several sites, but are one storage with one directory."""
    problems: list[Problem] = []
    storages: dict[str, dict[str, Any]] = {}
    directories: dict[str, str] = {}
    for site in sites:
        used: set[tuple[str, str]] = set()
        for number, endpoint in enumerate(site.endpoints or []):
            name, path = endpoint.ddm_endpoint, f"{site.site}.endpoints[{number}]"
            if (name, endpoint.scope) in used:
                problems.append(Problem(path, name, "the file has it twice", "Remove one"))
            used.add((name, endpoint.scope))
            if storages.setdefault(name, endpoint.storage()) != endpoint.storage():
                rule = "an earlier entry describes it differently"
                problems.append(Problem(path, name, rule, "Describe it in the same way"))
            if endpoint.path and directories.setdefault(endpoint.path, name) != name:
                rule = f"this directory is {directories[endpoint.path]}'s"
                problems.append(Problem(f"{path}.path", endpoint.path, rule, "Choose another"))
    return problems
