"""Ranges of events as PanDA's pilots ask for them and report them.
Source: docs/reference/panda.md#events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from jedi.core.errors import Problem
from jedi.model.jobs.event_wire import RANGES_MAX, ConsumerReports, RangeAsks
from jedi.model.jobs.events import RangeId
from jedi.model.jobs.wire import BATCH_MAX
from jedi_panda.api.pilot_bodies import CallFields
from jedi_panda.api.pilot_fields import FieldReader

STATUSES = {
    "finished": "finished",
    "failed": "failed",
    "fatal": "fatal",
    "running": "running",
    "starting": "running",
    "transferring": "running",
    "sent": "running",
}
"""JEDI's status of a range by the pilot's."""

_ADLER_DIGITS = 8


@dataclass(frozen=True, slots=True)
class EventAsk:
    """A consumer's ask for ranges."""

    panda_id: int
    n: int


def ask_of(fields: CallFields, job: str = "pandaID", n: str = "nRanges") -> EventAsk:
    """Return the ask behind getEventRanges. BadInput names all mistakes."""
    read = FieldReader(fields)
    panda_id = read.needed_whole(job)
    number = read.whole(n, least=1, below=RANGES_MAX + 1)
    read.done()
    return EventAsk(panda_id, number or 1)


def asks(ask: EventAsk, lock_seq: int) -> RangeAsks:
    """The ask in JEDI's form, for an attempt."""
    one = {"panda_id": ask.panda_id, "lock_seq": lock_seq, "n": ask.n}
    return RangeAsks.model_validate({"request_id": uuid4().hex, "asks": [one]})


def given(answer: Mapping[str, Any]) -> list[CallFields]:
    """The ranges of JEDI's answer in PanDA's form. A consumer that must end gets none."""
    [one] = answer["answers"]
    return [
        {
            "eventRangeID": found["id"],
            "LFN": found["lfn"],
            "GUID": found["guid"] or "NULL",
            "scope": found["scope"] or "NULL",
            "startEvent": found["start"],
            "lastEvent": found["end"],
        }
        for found in one["ranges"]
    ]


@dataclass(frozen=True, slots=True)
class RangeGroup:
    """Ranges of one report that share a zip file, or have none, of one consumer."""

    panda_id: int
    zip_file: CallFields | None
    ranges: list[CallFields]


@dataclass(frozen=True, slots=True)
class RangeUpdate:
    """All entries of updateEventRanges: in groups, and their ids in order."""

    groups: list[RangeGroup]
    ids: list[str]

    @property
    def panda_ids(self) -> list[int]:
        """The consumers that it speaks of, in order."""
        return list(dict.fromkeys(group.panda_id for group in self.groups))

    def reports(self, lock_seqs: Mapping[int, int]) -> ConsumerReports:
        """JEDI's form; `lock_seqs`: the attempts of the consumers, 0 for unknown ones."""
        found = [
            {
                "panda_id": panda_id,
                "lock_seq": lock_seqs.get(panda_id, 0),
                "zips": [
                    {**group.zip_file, "ranges": group.ranges}
                    for group in self.groups
                    if group.panda_id == panda_id and group.zip_file
                ],
                "ranges": [
                    one
                    for group in self.groups
                    if group.panda_id == panda_id and not group.zip_file
                    for one in group.ranges
                ],
            }
            for panda_id in self.panda_ids
        ]
        return ConsumerReports.model_validate({"reports": found})

    def answer(self, answers: Sequence[Mapping[str, Any]]) -> CallFields:
        """PanDA's answer: for each range whether it was taken, and commands by job."""
        refused = {one["id"] for answer in answers for one in answer["refused"]}
        lost = {
            entry["id"]
            for group in self.groups
            if group.zip_file and group.zip_file["lfn"] in refused
            for entry in group.ranges
        }
        stale = [answer["panda_id"] for answer in answers if answer["status"] == "stale"]
        return {
            "StatusCode": 0,
            "Returns": [one not in refused and one not in lost for one in self.ids],
            "Command": {str(panda_id): "tobekilled" for panda_id in stale},
        }


def update_of(fields: CallFields, endpoints: Sequence[str] = ()) -> RangeUpdate:
    """Return the entries behind updateEventRanges, in the forms of versions 0 and 1. `endpoints`:
    those where the site writes, the usual one first; a number of an object store stands for it.
    BadInput names all mistakes."""
    read = FieldReader(fields)
    found: list[Any] = read.nested("eventRanges", list)
    groups: list[RangeGroup] = []
    ids: list[str] = []
    n = 0
    for number, item in enumerate(found):
        part = FieldReader(item if isinstance(item, dict) else {}, f"eventRanges.{number}.")
        if not isinstance(item, dict):
            read.wrong("eventRanges", f"has something else than an object at place {number}")
            continue
        entries = item.get("eventRanges", [item])
        if not isinstance(entries, list):
            part.wrong("eventRanges", "must be a list")
            entries = []
        n += len(entries)
        if n > RANGES_MAX or len(groups) > BATCH_MAX:
            read.wrong("eventRanges", f"has more than {RANGES_MAX} ranges")
            break
        zip_file = _zip_file(item, part, endpoints)
        by_job: dict[int, list[CallFields]] = {}
        for panda_id, entry in _entries(entries, part):
            by_job.setdefault(panda_id, []).append(entry)
            ids.append(entry["id"])
        groups += [RangeGroup(job, zip_file, some) for job, some in by_job.items()]
        read.problems += part.problems
        if len(read.problems) > BATCH_MAX:
            break
    read.done()
    return RangeUpdate(groups, ids)


def _entries(entries: Sequence[Any], of: FieldReader) -> Iterator[tuple[int, CallFields]]:
    for entry in entries:
        if not isinstance(entry, dict):
            of.wrong("eventRanges", "has something else than an object")
            return
        read = FieldReader(entry)
        name = read.needed("eventRangeID")
        status = read.choice("eventStatus", tuple(STATUSES))
        code = read.whole("errorCode", least=-(2**31) + 1)
        diag = read.long_text("errorDiag", 1_000)
        try:
            key = RangeId.parse(name)
        except ValueError as error:
            of.problems.append(Problem("eventRangeID", ascii(name)[:80], str(error), "Correct it"))
            continue
        of.problems += read.problems
        if not read.problems:
            found = {"id": name, "status": STATUSES[status]}
            more = {"error_code": code, "error_diag": diag or None}
            yield key.panda_id, found | {k: v for k, v in more.items() if v is not None}


def _zip_file(item: CallFields, of: FieldReader, endpoints: Sequence[str]) -> CallFields | None:
    """The zip file of an item, or its one output file, which other programs name so."""
    name = "zipFile" if of.has("zipFile") else "esOutput"
    told: dict[str, Any] = of.nested(name, dict)
    if not told:
        return None
    read = FieldReader(told, f"{name}.")
    lfn = read.needed("lfn")
    size = read.needed_whole("fsize", below=2**60)
    adler = read.needed("adler32").removeprefix("ad:").lower().zfill(_ADLER_DIGITS)
    endpoint = read.text("objstoreID")
    convention = read.whole("pathConvention", below=100)
    events = read.whole("numEvents")
    of.problems += read.problems
    usual = next(iter(endpoints), "")
    found = {
        "lfn": lfn,
        "fsize": size,
        "adler32": adler,
        "endpoint": endpoint if endpoint in endpoints else usual,
        "n_events": events or 0,
    }
    return found if convention is None else {**found, "path_convention": convention}
