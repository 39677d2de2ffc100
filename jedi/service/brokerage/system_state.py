"""The data of a plan: from the database and data management, or from a snapshot file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import Field
from sqlalchemy import Connection

from jedi.core import clock
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs import KNOBS, Knobs
from jedi.ddm.interface import DatasetInfo, FileInfo, Growth, Replica, Space, flatten
from jedi.model.scheduling.resource_types import ResourceType
from jedi.model.sites.decision import Pledge
from jedi.model.sites.snapshot import KINDS, Snapshot
from jedi.service.operations.arguments import NameText, Seed
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.sites import decisions, sites, snapshot
from jedi.taskbuffer.tasks import new_tasks

FORMAT = "jedi-world-1"
_KEYS = {
    "format",
    "time",
    "seed",
    "knobs",
    "sites",
    "datasets",
    "space",
    "resource_types",
    "queues",
    "pledges",
}
_GRIDS = ("jobs", "links", "slots")
_SITES = {*KINDS, *_GRIDS, "queued", "tapes", "unreadable", "readers"}


class PlanCatalogue(Protocol):
    """The questions that a plan asks data management."""

    def dataset(self, name: str) -> DatasetInfo: ...
    def growth(self, name: str) -> Growth: ...
    def constituents(self, name: str) -> list[str]: ...
    def list_files(self, name: str) -> list[FileInfo]: ...
    def left_out(self, name: str) -> Mapping[str, str]: ...
    def replicas(self, name: str) -> list[Replica]: ...
    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]: ...
    def space(self, endpoint: str) -> Space: ...
    def may_create(self, name: str, endpoint: str, *, container: bool = False) -> bool: ...


@dataclass(frozen=True, slots=True)
class KnownQueue:
    """A work queue that tasks may belong to."""

    queue_id: int
    queue_name: str
    vo: str
    label: str
    criteria: str | None = None


@dataclass(frozen=True, eq=False)
class SystemState:
    """The world at one moment. `queues` stand in the order in which they are tried; `pledges` is
    the work that is left at nuclei; `seed` that of lotteries."""

    time: datetime
    seed: int
    knobs: Knobs
    sites: Snapshot
    data: PlanCatalogue
    resource_types: tuple[ResourceType, ...]
    queues: tuple[KnownQueue, ...]
    pledges: tuple[Pledge, ...]


def from_database(tx: Connection, ddm: PlanCatalogue, seed: int = 0) -> SystemState:
    """The world as it is now, with the links to all nuclei."""
    nuclei = [row["site"] for row in sites.ALL_SITES.rows(tx) if row["role"] == "nucleus"]
    return SystemState(
        time=clock.now(),
        seed=seed,
        knobs=knobs.load(tx),
        sites=snapshot.load(tx, nuclei),
        data=ddm,
        resource_types=tuple(new_tasks.RESOURCE_TYPES.rows(tx)),
        queues=tuple(
            KnownQueue(row.queue_id, row.queue_name, row.vo, row.queue_type, row.criteria)
            for row in queues.matchable(queues.ALL_QUEUES.rows(tx))
        ),
        pledges=tuple(decisions.WORK_AT_NUCLEI.rows(tx)),
    )


def write(known: SystemState, datasets: Sequence[str]) -> str:
    """The world as a file, as `plain` gives it."""
    return json.dumps(plain(known, datasets), indent=1, allow_nan=False) + "\n"


@operation("snapshot.export", "GET", "/v1/snapshot", ANYBODY, heavy=True)
def export(
    call: Call,
    dataset: Annotated[list[NameText], Field(max_length=1_000)] | None = None,
    seed: Seed = 0,
) -> dict[str, Any]:
    """Show the world that brokers see, as a file for plans, with the files of these datasets."""
    return plain(from_database(call.tx, call.ddm, seed), dataset or ())


def plain(known: SystemState, datasets: Sequence[str]) -> dict[str, Any]:
    """The world in JSON's own types, with these datasets or containers and all that is below them.
    NotFound: data management does not know one."""
    measured = {
        name: asdict(known.data.space(name))
        for name, usable in zip(known.sites.endpoint, known.sites.usable_gb.tolist(), strict=True)
        if name and usable == float("inf")
    }
    names: dict[str, None] = {}
    for name in datasets:
        names |= dict.fromkeys([name, *known.data.constituents(name)])
    return {
        "format": FORMAT,
        "time": known.time.isoformat(),
        "seed": known.seed,
        "knobs": dict(known.knobs),
        "sites": known.sites.plain(),
        "datasets": {name: _dataset(known.data, name) for name in names},
        "space": measured,
        "resource_types": [asdict(one) for one in known.resource_types],
        "queues": [asdict(one) for one in known.queues],
        "pledges": [asdict(one) for one in known.pledges],
    }


def _dataset(data: PlanCatalogue, name: str) -> dict[str, Any]:
    info = data.dataset(name)
    if info.is_container:
        return {"state": info.state, "members": list(info.members)}
    files = data.list_files(name)
    places = data.locate(name, [one.lfn for one in files])
    return {
        "state": info.state,
        "files": [{k: v for k, v in asdict(one).items() if v is not None} for one in files],
        "left_out": {**data.left_out(name)},
        "endpoints": {
            endpoint: [one.lfn for one in files if endpoint in places[one.lfn]]
            for endpoint in sorted({place for some in places.values() for place in some})
        },
    }


def read(text: str) -> SystemState:
    """The reverse of `write`; BadInput lists the mistakes of a file. Missing keys have neutral
    values."""
    try:
        content = json.loads(text, parse_constant=_refuse)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        if unknown := sorted(set(content) - _KEYS):
            raise ValueError(f"unknown: {', '.join(unknown)}")
        return SystemState(
            time=datetime.fromisoformat(content["time"]) if "time" in content else clock.now(),
            seed=int(content.get("seed", 0)),
            knobs=Knobs({n: KNOBS[n].check(v) for n, v in content.get("knobs", {}).items()}),
            sites=_sites(content["sites"]),
            data=Recorded(content.get("datasets", {}), content.get("space", {})),
            resource_types=tuple(ResourceType(**one) for one in content.get("resource_types", ())),
            queues=tuple(KnownQueue(**one) for one in content.get("queues", ())),
            pledges=tuple(Pledge(**one) for one in content.get("pledges", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        rule = f"it is not a snapshot: {_fault(error)}"
        remedy = "Write one with: jedi snapshot export"
        raise BadInput([Problem("--snapshot", text[:40], rule, remedy)]) from error


def _fault(error: Exception) -> str:
    match error:
        case KeyError():
            return f"{error} is missing or unknown"
        case RecursionError():
            return "its lists are nested too deeply"
        case ValueError():
            return str(error)
    return "a part of it has another form"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid number; write null for no limit")


def _sites(content: Mapping[str, Any]) -> Snapshot:
    """The sites of a file; ValueError: a column is unknown or not as long as the others."""
    if unknown := sorted(set(content) - _SITES):
        raise ValueError(f"sites: unknown: {', '.join(unknown)}")
    columns = [(name, content[name]) for name in KINDS if name in content]
    columns += [(str(key), column) for name in _GRIDS for key, column in content.get(name, ())]
    n = len(content["sites"])
    if odd := [name for name, column in columns if len(column) != n]:
        raise ValueError(f"sites: {', '.join(odd)}: the column needs {n} values, one for each site")
    return Snapshot.read({"queued": {}, **content})


class Recorded:
    """Data management as a file describes it."""

    def __init__(
        self, datasets: Mapping[str, Mapping[str, Any]], space: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._space = {name: Space(**room) for name, room in space.items()}
        self._infos = {
            name: DatasetInfo(
                name, one.get("state", "closed"), tuple(one.get("members", ())), "members" in one
            )
            for name, one in datasets.items()
        }
        self._files = {
            name: [FileInfo(**file) for file in one.get("files", ())]
            for name, one in datasets.items()
        }
        self._left_out: dict[str, dict[str, str]] = {
            name: one.get("left_out", {}) for name, one in datasets.items()
        }
        self._at: dict[str, dict[str, frozenset[str]]] = {
            name: {place: frozenset(lfns) for place, lfns in one.get("endpoints", {}).items()}
            for name, one in datasets.items()
        }

    def dataset(self, name: str) -> DatasetInfo:
        """The state of a dataset; NotFound: the file does not describe it."""
        if name not in self._infos:
            raise NotFound(f"The snapshot has no dataset {name}.", dataset=name)
        return self._infos[name]

    def growth(self, name: str) -> Growth:
        """The state of a dataset, with those below it."""
        names = [name, *self.constituents(name)]
        is_open = any(self.dataset(one).state == "open" for one in names)
        return Growth("open" if is_open else "closed")

    def constituents(self, name: str) -> list[str]:
        """The plain datasets below a container."""
        return flatten(name, self.dataset)

    def list_files(self, name: str) -> list[FileInfo]:
        """The files of a dataset, or of all that are below a container."""
        found = [file for one in self.constituents(name) for file in self._files[one]]
        return sorted(found, key=lambda file: file.lfn)

    def left_out(self, name: str) -> Mapping[str, str]:
        """The entries of a dataset's directories that are no files of it, with reasons."""
        return self._left_out.get(name, {})

    def replicas(self, name: str) -> list[Replica]:
        """The part of a dataset that each endpoint holds."""
        found: dict[str, list[FileInfo]] = {}
        for one in self.constituents(name):
            for endpoint, lfns in self._at[one].items():
                found.setdefault(endpoint, []).extend(
                    file for file in self._files[one] if file.lfn in lfns
                )
        return [Replica(e, len(some), sum(f.size for f in some)) for e, some in found.items()]

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        """The endpoints that hold each of these files."""
        places = self._at[self.dataset(name).name]
        return {lfn: [e for e, here in places.items() if lfn in here] for lfn in lfns}

    def may_create(self, name: str, endpoint: str, *, container: bool = False) -> bool:
        """The file does not say if storage can be reached."""
        return True

    def space(self, endpoint: str) -> Space:
        """The room that was measured."""
        if endpoint not in self._space:
            raise NotFound(f"The snapshot does not have the free space at {endpoint}.")
        return self._space[endpoint]
