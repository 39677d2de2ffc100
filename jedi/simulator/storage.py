"""Data management of a simulation: the real catalogue, but there are no bytes, and files take
their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine

from jedi.core import clock
from jedi.ddm.interface import FileInfo, Space, Staged, TransferResult
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.ddm.storage import Storage, valid_dataset
from jedi.simulator.random_streams import RandomStreams, around
from jedi.simulator.scenario import Transfers
from jedi.taskbuffer.housekeeping import simulation
from jedi.taskbuffer.housekeeping.simulation import Arrival

ADLER32 = "00000001"
"""The checksum of every file: nobody reads them."""
NEVER = datetime.max.replace(tzinfo=UTC)
_ROOM = Space(free_gb=1e6, total_gb=1e6)


class SimulatedDDM(SqlCatalogueDDM):
    """Datasets and replicas are rows. Transfers take their time.

    `links` says how files come to each endpoint; endpoints in `down` neither give nor take files,
    and outputs of the jobs in `unstorable` are taken by none.
    """

    def __init__(
        self, engine: Engine, links: Mapping[str, Transfers], streams: RandomStreams
    ) -> None:
        super().__init__(engine, {endpoint: Path("/simulated", endpoint) for endpoint in links})
        self._links = links
        self._streams = streams
        self._coming: dict[tuple[str, str, str], tuple[datetime, str, Arrival]] = {}
        """Files on their way, when they come, and from where."""
        self.down: set[str] = set()
        self.unstorable: set[int] = set()

    def put(self, endpoints: Sequence[str], dataset: str, numbers: range, size: int) -> None:
        """Numbered files of a new dataset lie at these endpoints."""
        with self._engine.begin() as tx:
            simulation.put(tx, valid_dataset(dataset), endpoints, numbers, size, ADLER32)

    def next_arrival(self) -> datetime:
        """When the next transfer ends."""
        return min((due for due, _, _ in self._coming.values()), default=NEVER)

    def space(self, endpoint: str) -> Space:
        return _ROOM

    def publish(self, endpoint: str, files: Sequence[Staged]) -> None:
        jobs = {int(Path(staged).parent.name.partition(".")[0]) for staged, _, _ in files}
        if endpoint in self.down or jobs & self.unstorable:
            raise OSError(f"{endpoint} does not answer.")
        self._arrived(self._storage(endpoint), _by_dataset(files))

    def _arrived(
        self,
        storage: Storage,
        files: Mapping[str, Sequence[FileInfo]],
        until: datetime | None = None,
    ) -> None:
        arrived = [(valid_dataset(name), file) for name, some in files.items() for file in some]
        self._note(storage.endpoint, arrived, until)

    def transfer(
        self,
        files: Sequence[tuple[str, str]],
        source: str,
        target: str,
        activity: str,
        until: datetime | None = None,
    ) -> list[TransferResult]:
        for name, lfn in files:
            if (name, lfn, target) not in self._coming:
                arrival = Arrival(name, lfn, target, until)
                self._coming[name, lfn, target] = (self._due(arrival), source, arrival)
        return [TransferResult(*file, "requested", "On its way.") for file in files]

    def deliver(self) -> int:
        """Let files arrive whose time has come, where both ends work; how many."""
        now = clock.now()
        come = [
            arrival
            for due, source, arrival in self._coming.values()
            if due <= now and not {source, arrival.endpoint} & self.down
        ]
        if come:
            with self._engine.begin() as tx:
                simulation.arrive(tx, come)
        for name, lfn, target, _ in come:
            del self._coming[name, lfn, target]
        return len(come)

    def _due(self, arrival: Arrival) -> datetime:
        """When a transfer that begins now ends."""
        generator, link = (
            self._streams.stream("transfer", *arrival[:3]),
            self._links[arrival.endpoint],
        )
        stuck = generator.random() < link.stuck
        took = timedelta(seconds=around(generator, link.mean_s, link.spread))
        return NEVER if stuck else clock.now() + took


def _by_dataset(files: Sequence[Staged]) -> dict[str, list[FileInfo]]:
    found: dict[str, list[FileInfo]] = {}
    for _, name, file in files:
        found.setdefault(name, []).append(file)
    return found
