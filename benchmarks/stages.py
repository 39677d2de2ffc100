"""The stages of a job's life as the real doors do them: the service's functions and the agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from benchmarks.common import Work, make_world
from benchmarks.jobs_world import Held
from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.jobdispatcher.agent import Adder
from jedi.jobgenerator.agent import JobGenerator
from jedi.model.jobs.wire import AcquireRequest, Beat, Measures, Report, Resources
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.db.engine import at_once, connect
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.users.users import Identity

Order = dict[str, Any]
Message = dict[str, Any]
_REPORTS, _BEATS = TypeAdapter(list[Report]), TypeAdapter(list[Beat])
_MEASURES = Measures(cpu_s=60.0, wall_s=61.0, max_rss_kb=1_000_000, max_pss_kb=900_000)
_SLOT = Resources(cores=1)
IDLE_S = 0.02
GIVE_UP_S = 30.0


class Kept(Held):
    """Data management that has done everything as soon as it is asked."""

    def where(self, endpoint: str, name: str, lfn: str) -> str:
        """Where a file would lie."""
        return f"/{endpoint}/{name}/{lfn}"

    def finder(self) -> Callable[[str, str, str], str]:
        """The same."""
        return self.where

    def path(self, endpoint: str, name: str, lfn: str) -> Path:
        """The same; there is nothing."""
        return Path(self.where(endpoint, name, lfn))

    def staging_where(self, endpoint: str, panda_id: int, lock_seq: int) -> str:
        """Where outputs would lie."""
        return f"/{endpoint}/.staging/{panda_id}.{lock_seq}"

    def publish(self, _endpoint: str, _files: object) -> None:
        """They are there."""

    def drop_staging(self, _endpoint: str, _pandaid: int, _lock_seq: int) -> None:
        """There is nothing."""


def world_of(url: str, files: int = 0) -> World:
    """The world of an agent's process; data management has one dataset of so many files."""
    ddm: Any = Kept(files)
    return make_world(connect(url, "jedi benchmark"), ddm)


def adder_of(url: str) -> Adder:
    """The Adder of a process of its own."""
    return Adder(world_of(url))


def add(adder: Adder, jobs: int) -> None:
    """Add whatever was reported, until so many jobs are added, as an agent's loop does."""
    idle_since = clock.monotonic()
    while jobs > 0:
        began = clock.monotonic()
        found = adder.run_once()
        jobs -= found
        if found:
            idle_since = clock.monotonic()
            if found < adder.batch:
                sleep(max(0.0, began + adder.breath_s - clock.monotonic()))
        elif clock.monotonic() > idle_since + GIVE_UP_S:
            raise JediError(f"{jobs} jobs did not come.", code="benchmark_failed")
        else:
            sleep(IDLE_S)


def process_of(
    number: int,
    url: str,
    jobs: int,
    generate: Callable[[JobGenerator], object],
    serve: Callable[[Service], Work],
) -> Work:
    """The work of a process of the system: the JobGenerator, an Adder of so many jobs, or the
    service."""
    if number == 0:
        generator = JobGenerator(world_of(url))
        return lambda: generate(generator)
    if number == 1:
        adder = adder_of(url)
        return lambda: add(adder, jobs)
    return serve(Service(url))


class Service:
    """The service in a process, and the pilots of a site that it answers."""

    def __init__(self, url: str) -> None:
        engine = connect(url, "jedi benchmark")
        ddm: Any = Kept(0)
        self.world = make_world(engine, ddm)
        self._heads, self._numbers, self._name = DispatchCache(), count(), uuid4().hex

    def acquire(self, site: str, n: int) -> list[Order]:
        """Jobs for a pilot."""
        request = AcquireRequest(
            request_id=f"{self._name}.{next(self._numbers)}",
            pilot_id=self._name,
            site=site,
            n=n,
            resources=_SLOT,
        )
        world = self.world
        orders: list[Order] = pilot_requests.acquire(
            world.engine, world.ddm, world.knobs, _pilot(site), request, first_waiting=self._heads
        )["jobs"]
        return orders

    def start(self, orders: Sequence[Order]) -> None:
        """The payloads run."""
        now = clock.now()
        messages = [{**_who(o), "status": "running", "started_at": now} for o in orders]
        self._report([(orders[0]["site"], messages)])

    def beat(self, orders: Sequence[Order]) -> None:
        """They still do."""
        beats = _BEATS.validate_python([{**_who(o), "measures": _MEASURES} for o in orders])
        with at_once(self.world.engine) as tx:
            pilot_requests.heartbeat(tx, _pilot(orders[0]["site"]), beats)

    def finish(self, orders: Sequence[Order], failing: int = 0) -> None:
        """They have ended, and their outputs are staged; with `failing`, one of so many jobs (by
        its number) has failed and staged only its log."""
        self._report([(orders[0]["site"], _ends(orders, failing))])

    def finish_each(self, orders: Sequence[Order], failing: int) -> None:
        """The same, each job reported by a pilot of its own, at the same moment."""
        self._report([(order["site"], _ends([order], failing)) for order in orders])

    def _report(self, calls: Sequence[tuple[str, Sequence[Message]]]) -> None:
        """Each call is a request of a pilot at that site; they are answered together."""
        read = [(site, _REPORTS.validate_python(messages)) for site, messages in calls]
        with self.world.engine.begin() as tx:
            answers = pilot_requests.report_all(tx, read)
        if any(one["verdict"] != "accepted" for answer in answers for one in answer["results"]):
            raise JediError("A report was not accepted.", code="benchmark_failed")


def _pilot(site: str) -> Identity:
    return Identity("pilot", site, None)


def _who(order: Order) -> Message:
    return {"pandaid": order["pandaid"], "lock_seq": order["lock_seq"]}


def _lfns(order: Order) -> list[str]:
    return [order["log_lfn"], *(output["lfn"] for output in order["outputs"])]


def _ends(orders: Sequence[Order], failing: int) -> list[Message]:
    now = clock.now()
    return [_end(o, now, bool(failing) and o["pandaid"] % failing == 0) for o in orders]


def _end(order: Order, ended_at: datetime, failed: bool) -> Message:
    lfns = [order["log_lfn"]] if failed else _lfns(order)
    return {
        **_who(order),
        "status": "failed" if failed else "finished",
        "ended_at": ended_at,
        "exit_code": int(failed),
        "error_code": "payload_exit" if failed else None,
        "error_diag": "Exit code 1." if failed else None,
        "measures": _MEASURES,
        "outputs": [_output(order, lfn) for lfn in lfns],
    }


def _output(order: Order, lfn: str) -> Message:
    guid = f"00000000-0000-4000-8000-{order['pandaid']:012x}"
    return {"lfn": lfn, "size": 1_000_000, "adler32": "0badcafe", "guid": guid}
