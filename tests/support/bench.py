"""A backend of the tests' own, as a plug-in of the client: it runs nothing, refuses what it is told
to, and loses answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jedi_client.errors import NotReached, OutcomeUnknown, Refused
from jedi_client.gpi.backends import BackendSettings
from jedi_client.gpi.interfaces import (
    Accepted,
    Attempt,
    JobState,
    OutputFile,
    Status,
    Submission,
    UnitState,
)
from jedi_client.gpi.schema import prop


class BenchRunner:
    """The backend of some settings, for all jobs."""

    def __init__(self, *, bulk: bool = True) -> None:
        self.bulk = bulk
        self.refuse: dict[int | None, str] = {}
        self.lose = ""
        self.down = self.unsettled = self.unreachable = False
        self.first: Status = "submitted"
        self.calls: list[tuple[str, Any]] = []
        self.keys: dict[str, Accepted] = {}
        self.units: dict[str, dict[int, UnitState]] = {}
        self.moves: dict[str, list[int]] = {}
        self.submissions: list[Submission] = []

    def count(self, verb: str) -> int:
        return sum(name == verb for name, _ in self.calls)

    def submit(self, submission: Submission) -> Accepted:
        self.calls.append(("submit", submission.key))
        if self.lose == "request":
            raise OutcomeUnknown("The request was lost.")
        if None in self.refuse:
            raise Refused(self.refuse[None])
        self.submissions.append(submission)
        accepted = self._accept(submission)
        if self.lose == "answer":
            raise OutcomeUnknown("The answer was lost.")
        return accepted

    def settle(self, submission: Submission) -> Accepted | None:
        self.calls.append(("settle", submission.key))
        if self.down:
            raise OutcomeUnknown("The service is away.")
        if self.unsettled:
            raise Refused("It is not known yet.")
        return self.keys.get(submission.key)

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        self.calls.append(("states", dict(cursors)))
        if self.down:
            raise OutcomeUnknown("The service is away.")
        return [self._state(id, int(cursor or 0)) for id, cursor in cursors.items()]

    def kill(self, backend_id: str, units: Sequence[int] | None) -> dict[int | None, str]:
        self.calls.append(("kill", units))
        if self.unreachable:
            raise NotReached("The service is away.")
        return self._all(backend_id, units, "killed")

    def resubmit(
        self, backend_id: str, units: Sequence[int] | None, options: Mapping[str, Any]
    ) -> dict[int | None, str]:
        self.calls.append(("resubmit", (units, dict(options))))
        return self._all(backend_id, units, "submitted")

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]:
        return [Attempt(1, 100 + k, "finished", "BENCH", 0, None, None)]

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        yield f"{name} of {k}\n".encode()
        yield b"end\n"

    def outputs(self, backend_id: str) -> Sequence[OutputFile]:
        return [OutputFile(k, "out.txt", 2) for k in self.units[backend_id]]

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        self.calls.append(("fetch", len(files)))
        paths = [
            to.joinpath(*(() if f.k is None else (str(f.k),)), "output", f.name) for f in files
        ]
        for path, file in zip(paths, files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{file.k}\n")
        return paths

    def remove(self, backend_id: str) -> None:
        self.calls.append(("remove", backend_id))

    def move(self, backend_id: str, status: Status, ks: Collection[int] | None = None) -> None:
        """Change the status of units."""
        units = self.units[backend_id]
        for k in units if ks is None else ks:
            units[k] = UnitState(k, status)
            self.moves[backend_id].append(k)

    def _accept(self, submission: Submission) -> Accepted:
        tried: list[int] = []
        ks = [one.k for one in submission.units]
        for k in ks:
            tried.append(k)
            if k in self.refuse and not self.bulk and not submission.keep_going:
                break
        refused = {k: self.refuse[k] for k in tried if k in self.refuse}
        id = f"bench-{len(self.units)}"
        found = Accepted(id, refused, [k for k in ks if k not in tried])
        self.keys[submission.key] = found
        done = [k for k in tried if k not in refused]
        self.units[id] = {k: UnitState(k, self.first) for k in done}
        self.moves[id] = [*done]
        return found

    def _all(self, id: str, units: Sequence[int] | None, status: Status) -> dict[int | None, str]:
        refused: dict[int | None, str] = {
            k: self.refuse[k] for k in units or () if k in self.refuse
        }
        live = [k for k in (self.units[id] if units is None else units) if k not in refused]
        self.move(id, status, live)
        return refused

    def _state(self, id: str, cursor: int) -> JobState:
        units, moves = self.units[id], self.moves[id]
        changed = [units[k] for k in dict.fromkeys(moves[cursor:])]
        counts = Counter(one.status for one in units.values())
        return JobState(id, "busy", changed, counts, True, str(len(moves)))


RUNNERS: dict[str, BenchRunner] = {}


class Bench(BackendSettings):
    """A backend of the tests."""

    connection = ("room",)
    cuts_input = True

    room: str = prop("", doc="Name of the runner")
    cores: int = prop(1, doc="An option")

    def connect(self, job: Any = None) -> BenchRunner:
        return RUNNERS[self.room]
