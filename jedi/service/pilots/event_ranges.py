"""Requests of consumers: ranges of events, and reports on them. `who` is the user and site of the
pilot's token. Answers have the form of the wire. Source: docs/reference/event-service.md#wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from jedi.model.jobs.event_refusals import RefusedEntry, refusal_of
from jedi.model.jobs.event_wire import (
    ASK_MAX,
    BadEntry,
    ConsumerReport,
    RangeAsks,
    RangeResult,
    ReportedZip,
)
from jedi.model.jobs.events import RangeId
from jedi.service.pilots.pilot_requests import Answer, pilot_site
from jedi.taskbuffer.events import dispatch, reports
from jedi.taskbuffer.events.consumers import ConsumerMemory, KnownConsumer
from jedi.taskbuffer.events.dispatch import GivenRange, RangeFile, RangesGiven, SiteAsk
from jedi.taskbuffer.events.reports import Detail, RangeEntry
from jedi.taskbuffer.users.users import Identity


def acquire(tx: Connection, who: Identity, request: RangeAsks, memory: ConsumerMemory) -> Answer:
    """Return ranges for consumers. `last`: there are no others for the consumer now. A consumer
    whose attempt has ended is `stale`; one that must end is `killed`. Neither gets any."""
    return answer(*dispatch.acquire_ranges(tx, asks_of(who, request), memory))


def asks_of(who: Identity, request: RangeAsks) -> list[SiteAsk]:
    """The asks of a request of a pilot, each for not more than ASK_MAX ranges."""
    site = pilot_site(who)
    return [
        SiteAsk(site, request.request_id, one.panda_id, one.lock_seq, min(one.n, ASK_MAX))
        for one in request.asks
    ]


def answer(given: Iterable[RangesGiven], files: Mapping[int, RangeFile]) -> Answer:
    """The answer to a request whose consumers got these ranges, of these files."""
    return {"answers": [_given(one, files) for one in given]}


def _given(one: RangesGiven, files: Mapping[int, RangeFile]) -> Answer:
    ranges = [_range(one.jedi_task_id, given, files[given.file_id]) for given in one.ranges]
    return {"panda_id": one.panda_id, "status": one.status, "ranges": ranges, "last": one.last}


def _range(jedi_task_id: int, given: GivenRange, file: RangeFile) -> Answer:
    *key, start, end = given
    return {
        "id": str(RangeId(jedi_task_id, *key)),
        "lfn": file.lfn,
        "guid": file.guid,
        "scope": file.scope,
        "start": start,
        "end": end,
    }


def report(
    tx: Connection, who: Identity, given: Sequence[ConsumerReport], memory: ConsumerMemory
) -> Answer:
    """Record results of ranges. Each answer has the number of accepted entries, and each refused
    entry by its name. A repeated report is accepted as the first one was."""
    known = memory.consumers(tx, (one.panda_id for one in given))
    live = reports.live_consumers(tx, pilot_site(who), given)
    consumers = {panda_id: one for panda_id, one in known.items() if panda_id in live}
    book = _Book(consumers, {one.panda_id: one.endpoints for one in live.values()})
    for one in given:
        book.read(one)
    book.write(tx)
    return {"answers": [book.answer(one) for one in given]}


class _Book:
    """The entries of a call: those that are sound by themselves, and the refused ones."""

    def __init__(
        self, consumers: Mapping[int, KnownConsumer], endpoints: Mapping[int, Sequence[str]]
    ) -> None:
        self._consumers, self._endpoints = consumers, endpoints
        self._zips: list[tuple[KnownConsumer, ReportedZip]] = []
        self._details: dict[Detail, int] = {}
        self._entries: dict[tuple[int, RangeId], RangeEntry] = {}
        self._running: set[tuple[int, RangeId]] = set()
        self._times: Counter[tuple[int, RangeId]] = Counter()
        self._refused: dict[int, list[RefusedEntry]] = {}
        self._n: dict[int, int] = {}

    def read(self, report: ConsumerReport) -> None:
        """Sort the entries of a report."""
        refused = self._refused[report.panda_id] = []
        consumer = self._consumers.get(report.panda_id)
        numbers: dict[int, int] = {}
        n = 0
        for zip_file, entry in report.parts():
            n += 1
            if isinstance(entry, BadEntry):
                refused.append(RefusedEntry(entry.id, "bad_entry", entry.mistake))
            elif consumer is None:
                refused.append(RefusedEntry(entry.id, "stale_consumer"))
            elif (at := self._place(report, zip_file or entry)) and at not in self._endpoints[
                report.panda_id
            ]:
                refused.append(RefusedEntry(entry.id, "bad_endpoint", f"It is {at}."))
            else:
                number = None
                if zip_file is not None:
                    number = numbers.setdefault(id(zip_file), len(self._zips))
                    if number == len(self._zips):
                        self._zips.append((consumer, zip_file))
                self._note(consumer, entry, number, zip_file, at)
        self._n[report.panda_id] = n

    def _place(self, report: ConsumerReport, of: ReportedZip | RangeResult) -> str | None:
        """The endpoint of a zip file or an output: by default where the site writes."""
        if of.endpoint or isinstance(of, ReportedZip) or of.status != "finished":
            return of.endpoint
        return next(iter(self._endpoints[report.panda_id]), "no endpoint")

    def _note(
        self,
        consumer: KnownConsumer,
        entry: RangeResult,
        number: int | None,
        zip_file: ReportedZip | None,
        endpoint: str | None,
    ) -> None:
        key = RangeId.parse(entry.id)
        refused = self._refused[consumer.panda_id]
        if key.jedi_task_id != consumer.jedi_task_id:
            refused.append(RefusedEntry(entry.id, "other_task"))
        elif key.panda_id not in (consumer.panda_id, consumer.jobset_id or key.panda_id):
            refused.append(RefusedEntry(entry.id, "not_yours"))
        else:
            detail = _detail(entry, number, zip_file, endpoint)
            number = self._details.setdefault(detail, len(self._details))
            self._enter(RangeEntry(consumer.panda_id, key, number), entry)

    def _enter(self, given: RangeEntry, entry: RangeResult) -> None:
        """Note an entry, unless an earlier one has a result of the range: the first one counts."""
        place = (given.panda_id, given.key)
        first = self._entries.get(place)
        if first is None or place in self._running:
            self._entries[place] = given
            (self._running.add if entry.status == "running" else self._running.discard)(place)
        elif entry.status != "running" and first.detail != given.detail:
            self._refused[given.panda_id].append(RefusedEntry(entry.id, "contradiction"))
            return
        self._times[place] += 1

    def write(self, tx: Connection) -> None:
        """Write the sound entries; refuse those that the database does not know so."""
        ziprows = reports.store_zips(tx, self._zips)
        details, entries = [*self._details], []
        for entry in self._entries.values():
            number = details[entry.detail].zip
            if number is not None and number not in ziprows:
                self._refuse(entry, "other_zip")
            else:
                entries.append(entry)
        loose = [entry for entry in entries if entry.key.panda_id != entry.panda_id]
        jumbos = [one.panda_id for one in self._consumers.values() if one.jobset_id is None]
        reports.take_ranges(tx, loose, jumbos)
        for place, stands in reports.report_ranges(tx, entries, details, ziprows).items():
            entry = entries[place]
            undispatched = entry.key.panda_id != entry.panda_id
            if code := refusal_of(details[entry.detail].status, stands, undispatched):
                self._refuse(entry, code, f"It is {stands}." if stands else "")

    def _refuse(self, entry: RangeEntry, code: str, detail: str = "") -> None:
        refusal = RefusedEntry(str(entry.key), code, detail)
        times = self._times[entry.panda_id, entry.key]
        self._refused[entry.panda_id].extend([refusal] * times)

    def answer(self, report: ConsumerReport) -> Answer:
        """The answer to a report."""
        refused = self._refused[report.panda_id]
        live = report.panda_id in self._consumers
        return {
            "panda_id": report.panda_id,
            "status": "partly" if live and refused else "ok" if live else "stale",
            "accepted": self._n[report.panda_id] - len(refused),
            "refused": [_shown(one) for one in refused],
        }


def _detail(
    entry: RangeResult, number: int | None, zip_file: ReportedZip | None, endpoint: str | None
) -> Detail:
    """The facts of an entry at an endpoint; a word as error code goes into its text."""
    finished = entry.status == "finished"
    code, diag = entry.error_code, entry.error_diag
    if isinstance(code, str):
        code, diag = None, f"{code}: {diag}" if diag else code
    convention = entry.path_convention
    if convention is None and zip_file is not None:
        convention = zip_file.path_convention
    zipped = number if finished else None
    at = endpoint if zip_file is None else entry.endpoint
    return Detail(entry.status, zipped, at, convention, code, diag)


def _shown(one: RefusedEntry) -> dict[str, Any]:
    return {"id": one.id, "code": one.code, "sentence": one.sentence}
