"""Pilots of the model process ranges of events, and truths hold for these in the end: see
life.py."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from sqlalchemy import Engine

from jedi.core import states
from jedi.model.jobs.event_wire import ConsumerReport, RangeAsks
from jedi.service.pilots import event_ranges
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

PER_FILE, PER_RANGE = 6, 2
_EVENTS = {
    "skipScout": True,
    "nEventsPerInputFile": PER_FILE,
    "nEventsPerWorker": PER_RANGE,
    "nEsConsumers": 2,
    "allowPartialFinish": True,
    "esmergeSpec": {"transPath": "cat", "jobParameters": "pieces/*/* > ${OUTPUT0}"},
}
TASKS: dict[str, dict[str, Any]] = {
    "events": _EVENTS,
    "fine": {**_EVENTS, "fineGrainedProc": True},
    "jumbo": {**_EVENTS, "nJumboJobs": 1, "inFilePosEvtNum": True},
    "runonce": {"skipScout": True, "useJobCloning": "runonce", "nEsConsumers": 2},
    "storeonce": {"skipScout": True, "useJobCloning": "storeonce", "nEsConsumers": 2},
}
RESULTS = ("finished", "finished", "finished", "failed", "failed", "fatal", "running")

_CODE = states.EVENT_CODES
LOST_EVENTS = f"""
SELECT s.jobsetid, c.fileid, sum(e.def_max_eventid - e.def_min_eventid + 1) AS events
FROM jedi_dataset_contents c JOIN jedi_jobsets s ON s.merge_pandaid = c.pandaid
  JOIN jedi_events e ON e.jobsetid = s.jobsetid AND e.fileid = c.fileid
    AND e.status IN ({_CODE["merged"]}, {_CODE["fatal"]})
WHERE c.status = 'finished' AND c.type = 'input' AND s.mode IN ('es', 'fine')
GROUP BY s.jobsetid, c.fileid HAVING sum(e.def_max_eventid - e.def_min_eventid + 1) <> {PER_FILE}
"""
"""Finished inputs whose events are not each in one range that was merged or given up."""
_NAMES = " ".join(f"WHEN {code} THEN '{name}'" for name, code in _CODE.items())
HAPPENED = {
    "range": f"SELECT CASE status {_NAMES} END, count(*) FROM jedi_events "
    "WHERE jobsetid IS NOT NULL GROUP BY status",
    "substatus": "SELECT substatus, count(*) FROM jedi_jobs WHERE substatus IS NOT NULL "
    "GROUP BY substatus",
}
EXPECTED = {
    *(f"kind {kind}" for kind in ("consumer", "es_merge", "clone", "fine", "co_jumbo", "jumbo")),
    *(f"range {status}" for status in ("merged", "discarded", "failed", "fatal", "cancelled")),
    *(f"substatus {name}" for name in ("es_merge", "es_unused", "es_heartbeat", "jc_unlock")),
}


class RangePilots:
    """Pilots ask for ranges and report results, some of them wrongly or again."""

    def __init__(self, engine: Engine, tally: Counter[str]) -> None:
        self.engine, self.tally = engine, tally
        self.memory = ConsumerMemory()
        self.said: list[tuple[Identity, dict[str, Any]]] = []
        self.n = 0

    def work(self, order: dict[str, Any], dice: Random, *, wholly: bool) -> None:
        """A consumer processes all ranges that it can get, or a few of them."""
        given = order.get("events")
        if given is None or given.get("clone"):
            return
        who = Identity("pilot", order["site"], None)
        last = False
        while not last:
            ids, last = self.ask(who, order, dice.randint(1, 3))
            last |= not wholly
            done = ids if wholly else dice.sample(ids, dice.randint(0, len(ids)))
            for status in {*RESULTS}:
                some = [one for one in done if wholly or dice.choice(RESULTS) == status]
                if some:
                    self.report(who, order, some, "finished" if wholly else status)
                if wholly:
                    break

    def ask(self, who: Identity, order: dict[str, Any], n: int) -> tuple[list[str], bool]:
        """Get up to `n` ranges; whether these are the last."""
        self.n += 1
        one = {"panda_id": order["pandaid"], "lock_seq": order["lock_seq"], "n": n}
        asked = RangeAsks.model_validate({"request_id": f"{self.n}", "asks": [one]})
        with self.engine.begin() as tx:
            [answer] = event_ranges.acquire(tx, who, asked, self.memory)["answers"]
        return [found["id"] for found in answer["ranges"]], bool(answer["last"])

    def report(self, who: Identity, order: dict[str, Any], ids: list[str], status: str) -> None:
        """Report ranges; finished ones lie in a zip file of theirs."""
        self.n += 1
        said: dict[str, Any] = {"panda_id": order["pandaid"], "lock_seq": order["lock_seq"]}
        results = [{"id": one, "status": status} for one in ids]
        if status == "finished":
            lfn = f"{order['events']['jobset_id']}.{order['pandaid']}.{self.n}.zip"
            said["zips"] = [
                {
                    "lfn": lfn,
                    "endpoint": order["events"]["endpoint"],
                    "fsize": 10,
                    "adler32": "00000001",
                    "n_events": PER_RANGE * len(ids),
                    "ranges": results,
                }
            ]
        else:
            said["ranges"] = results
        self.said.append((who, said))
        self.say(who, said)

    def say(self, who: Identity, said: dict[str, Any]) -> None:
        report = ConsumerReport.model_validate(said)
        with self.engine.begin() as tx:
            [answer] = event_ranges.report(tx, who, [report], self.memory)["answers"]
        self.tally[f"{answer['status']} report of ranges"] += 1

    def say_it_again(self, dice: Random) -> None:
        """A report is repeated, however old it is."""
        if self.said:
            self.say(*dice.choice(self.said))
