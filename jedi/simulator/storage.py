"""Data management of a simulation: the real catalogue, but there are no bytes, and files take
their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine

from jedi.core import clock
from jedi.ddm.directories import guid
from jedi.ddm.interface import FileInfo, Space, TransferResult
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.ddm.storage import Storage, valid_dataset
from jedi.simulator.dice import Dice, around
from jedi.simulator.scenario import Transfers
from jedi.taskbuffer import simulation

ADLER32 = "00000001"
"""Of every file: nobody reads them."""
NEVER = datetime.max.replace(tzinfo=UTC)
_ROOM = Space(free_gb=1e6, total_gb=1e6)


class SimulatedDDM(SqlCatalogueDDM):
    """Datasets and replicas are rows. A transfer is asked for again until its time has come.

    `links` says how files come to each endpoint; endpoints in `down` neither give nor take files,
    and outputs of the jobs in `unstorable` are taken by none.
    """

    def __init__(self, engine: Engine, links: Mapping[str, Transfers], dice: Dice) -> None:
        super().__init__(engine, {endpoint: Path("/simulated", endpoint) for endpoint in links})
        self._links = links
        self._dice = dice
        self._due: dict[tuple[str, str, str], datetime] = {}
        self.down: set[str] = set()
        self.unstorable: set[int] = set()

    def put(self, endpoint: str, dataset: str, files: Sequence[FileInfo]) -> None:
        """Files of a dataset lie at an endpoint."""
        name = valid_dataset(dataset)
        known = [replace(f, adler32=ADLER32, guid=f.guid or guid(name, f.lfn)) for f in files]
        self._note(endpoint, [(name, file) for file in known])

    def next_arrival(self) -> datetime:
        """When the next transfer ends."""
        return min(self._due.values(), default=NEVER)

    def space(self, endpoint: str) -> Space:
        return _ROOM

    def publish(self, endpoint: str, files: Sequence[tuple[Path, str, FileInfo]]) -> None:
        jobs = {int(staged.parent.name.partition(".")[0]) for staged, _, _ in files}
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
        works = not {source, target} & self.down
        come = [f for f in files if works and self._arrival(*f, target) <= clock.now()]
        if come:
            with self._engine.begin() as tx:
                simulation.arrive(tx, target, come, until)
        for name, lfn in come:
            del self._due[name, lfn, target]
        return [
            TransferResult(*file, "done" if file in come else "requested", "On its way.")
            for file in files
        ]

    def _arrival(self, name: str, lfn: str, target: str) -> datetime:
        """When a transfer ends; one that nobody knew begins now."""
        key = (name, lfn, target)
        if key not in self._due:
            dice, link = self._dice.stream("transfer", *key), self._links[target]
            stuck = dice.random() < link.stuck
            took = timedelta(seconds=around(dice, link.mean_s, link.spread))
            self._due[key] = NEVER if stuck else clock.now() + took
        return self._due[key]


def _by_dataset(files: Sequence[tuple[Path, str, FileInfo]]) -> dict[str, list[FileInfo]]:
    found: dict[str, list[FileInfo]] = {}
    for _, name, file in files:
        found.setdefault(name, []).append(file)
    return found
