"""Splitter: defined -> defined; a herd gets its units, all in one transaction, or none.

Source: docs/reference/herds.md; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from jedi.agent.base import TaskAgent
from jedi.core.errors import BadInput
from jedi.model.splitting.units import GivenUnit, SplitFile, Unit
from jedi.splitter import explicit, strategies
from jedi.splitter.explicit import EXPLICIT
from jedi.splitter.plan import logical_name, render_units
from jedi.splitter.plug_in import Limits, SplitterFailed
from jedi.splitter.variables import OutOfRoomError
from jedi.taskbuffer.tasks import herds, tasks, units
from jedi.taskbuffer.tasks.herds import FilePart, HerdFiles, HerdManifest, NewUnits
from jedi.taskbuffer.tasks.tasks import Move


@dataclass(frozen=True, slots=True)
class Herd:
    """A claimed herd, the files of its input, a value for each master dataset, and its units, if
    they came with the submission."""

    jedi_task_id: int
    lock_seq: int
    manifest: HerdManifest
    inputs: Sequence[HerdFiles]
    given: Sequence[GivenUnit] = ()


@dataclass(frozen=True, slots=True)
class Divided:
    """The units as they are written."""

    new: NewUnits


@dataclass(frozen=True, slots=True)
class NotDivided:
    """The herd can't be divided; it goes to broken."""

    code: str
    reason: str


SplitOutcome = Divided | NotDivided


class Splitter(TaskAgent[Herd, SplitOutcome]):
    """Lets the strategy of a herd plan its units, without a transaction, and writes them."""

    name = "Splitter"
    serves = ("defined",)
    wakes = frozenset({"task:defined", "task:to_split"})

    @property
    def batch(self) -> int:
        """Herds that are split in one transaction."""
        return int(self.world.knobs.split.batch)

    def waiting(self, tx: Connection) -> bool:
        """Return True if there may be a herd to split."""
        return herds.ANY_TO_SPLIT.value(tx)

    def claim(self, tx: Connection, limit: int) -> list[Herd]:
        """Herds whose parameters, or input files, are known."""
        rows = herds.claim(tx, self.world.me, self.lease_s, limit)
        ids = [row.jedi_task_id for row in rows]
        if not ids:
            return []
        manifests = {one.jedi_task_id: one for one in herds.MANIFESTS.rows(tx, ids=ids)}
        files = herds.FILES.rows(tx, ids=ids)
        given = units.given(tx, [i for i, one in manifests.items() if one.splitter == EXPLICIT])
        return [
            Herd(
                row.jedi_task_id,
                row.lock_seq,
                manifests[row.jedi_task_id],
                [one for one in files if one.jedi_task_id == row.jedi_task_id],
                given.get(row.jedi_task_id, ()),
            )
            for row in rows
        ]

    def work(self, item: Herd) -> SplitOutcome:
        """Plan the units of one herd."""
        knobs = self.world.knobs.split
        most = knobs.max_units
        try:
            found = self._units(item, Limits(most, knobs.timeout_s, knobs.memory_mb))
        except BadInput as error:
            return NotDivided("split_refused", error.sentence)
        except SplitterFailed as error:
            return NotDivided(error.code, str(error))
        if len(found) > most:
            reason = f"Splitter {item.manifest.splitter} makes more than {most} units "
            return NotDivided("too_many_units", f"{reason}(knob split.max_units).")
        if left := _left_out(item, found):
            reason = f"Splitter {item.manifest.splitter} left out {len(left)} files, such as "
            return NotDivided("split_refused", f"{reason}{left[0]}.")
        if not found:
            reason = f"Splitter {item.manifest.splitter} made no unit of the input."
            return NotDivided("split_made_no_units", reason)
        if item.given:
            return Divided(NewUnits(item.jedi_task_id, len(found), (), (), _parts(item, found)))
        with self.world.engine.begin() as tx:
            ids = herds.reserve(tx, len(found) - 1)
        try:
            return Divided(_new_units(item, found, ids, knobs.max_mb))
        except BadInput as error:
            return NotDivided("split_refused", error.sentence)
        except OutOfRoomError:
            reason = f"The options of its units have more than {knobs.max_mb} MB "
            return NotDivided("too_large_units", f"{reason}(knob split.max_mb).")

    def plug_ins(self, item: Herd) -> str:
        return item.manifest.splitter if strategies.is_plug_in(item.manifest.splitter) else ""

    @property
    def plugin_s(self) -> float:
        """No limit: a strategy has its own (knob split.timeout_s)."""
        return math.inf

    def apply(self, tx: Connection, results: Sequence[tuple[Herd, SplitOutcome]]) -> None:
        """Write the units of the whole batch; none of herds with a command."""
        held = tasks.fence(tx, [(h.jedi_task_id, h.lock_seq) for h, _ in results], self.serves)
        free = set(herds.LOCK_UNSPLIT.rows(tx, ids=list(held)))
        ours = [(herd, out) for herd, out in results if herd.jedi_task_id in free]
        herds.finish(tx, [out.new for _, out in ours if isinstance(out, Divided)])
        tasks.move_tasks(tx, [_move(herd, out) for herd, out in ours], self.name)
        left = held - free
        tasks.put_off(
            tx, [(h.jedi_task_id, h.lock_seq) for h, _ in results if h.jedi_task_id in left]
        )

    def trouble(self, tx: Connection, item: Herd, error: Exception) -> None:
        """Data management or the database had a problem: the task is held."""
        reason = f"The herd could not be split: {error}"[:4000]
        move = Move(item.jedi_task_id, item.lock_seq, "pending", "splitting_failed", reason)
        tasks.move_tasks(tx, [move], self.name)

    def _units(self, item: Herd, limits: Limits) -> list[Unit]:
        """The units, at most one more than a herd may have; none has files of two datasets, because
        no job has."""
        if item.given:
            names = [lfn for one in item.inputs for lfn in one.lfns]
            return explicit.divide(item.given, names)
        manifest = {**item.manifest.values, **item.manifest.options}
        name = item.manifest.splitter
        if not item.inputs:
            return list(strategies.plan(name, manifest, [], limits))
        planned: list[Unit] = []
        first = 0
        for one in item.inputs:
            left = replace(limits, max_units=limits.max_units - len(planned))
            found = strategies.plan(name, manifest, self._files(one), left)
            planned += [_moved(unit, first) for unit in found]
            if len(planned) > limits.max_units:
                break
            first += len(one.file_ids)
        return planned

    def _files(self, one: HerdFiles) -> list[SplitFile]:
        """The files of a dataset, with the endpoints that hold them."""
        where = self.world.ddm.locate(one.dataset_name, one.lfns)
        columns = zip(one.lfns, one.sizes, one.events, one.boundaries, strict=True)
        return [
            SplitFile(lfn, size, events, boundary, tuple(sorted(where.get(lfn, ()))))
            for lfn, size, events, boundary in columns
        ]


def _left_out(item: Herd, planned: Sequence[Unit]) -> list[str]:
    """The names of files that no unit has."""
    used = {use.position for unit in planned for use in unit.files}
    names = [lfn for one in item.inputs for lfn in one.lfns]
    return [lfn for position, lfn in enumerate(names) if position not in used]


def _moved(unit: Unit, by: int) -> Unit:
    """A unit whose files count on from another number."""
    if not by:
        return unit
    return Unit(unit.options, [replace(use, position=use.position + by) for use in unit.files])


def _new_units(herd: Herd, planned: Sequence[Unit], ids: Sequence[int], max_mb: int) -> NewUnits:
    """The units as they are written: the originator is the first one, the others get `ids`."""
    manifest = herd.manifest
    origins = [manifest.origin, *ids]
    names = [logical_name(one.dataset_name, lfn) for one in herd.inputs for lfn in one.lfns]
    return NewUnits(
        jedi_task_id=herd.jedi_task_id,
        n_units=len(planned),
        origins=origins,
        options=render_units(planned, origins, manifest.values, int(max_mb * 1e6), names),
        parts=_parts(herd, planned),
    )


def _parts(herd: Herd, planned: Sequence[Unit]) -> list[FilePart]:
    """The files of the units, as they are written."""
    file_ids = [file_id for one in herd.inputs for file_id in one.file_ids]
    return [
        FilePart(file_ids[use.position], number, use.start, use.stop)
        for number, unit in enumerate(planned, 1)
        for use in unit.files
    ]


def _move(herd: Herd, outcome: SplitOutcome) -> Move:
    held = herd.jedi_task_id, herd.lock_seq
    match outcome:
        case NotDivided(code, reason):
            return Move(*held, "tobroken", code, reason)
        case Divided(new):
            reason = f"The herd has {new.n_units} units."
            return Move(*held, "defined", "split", reason, {"units": new.n_units})
