"""`jedi up`: database, service and agents, each a process, kept alive until the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from jedi_client.cli.common import reported
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jedi.agent import child, registry
from jedi.agent.base import World
from jedi.agent.supervisor import LONGEST_PAUSE_S, Program, Sleeper, Supervised, Supervisor
from jedi.core import clock, loading, log
from jedi.core.backoff import Backoff
from jedi.core.errors import NotYet, Unreachable
from jedi.core.settings import caller
from jedi.ddm import factory
from jedi.host import logfiles, processes
from jedi.host.home import writable
from jedi.host.processes import Process
from jedi.service.sites.changes import make_roots
from jedi.service.users import operators
from jedi.standalone import parts
from jedi.standalone.beginning import LOOK_S, Beginning, Requests
from jedi.standalone.down import DRAIN_S, end_pilots, part, remaining_work
from jedi.standalone.embedded import Embedded
from jedi.standalone.installation import DATABASE, Installation
from jedi.standalone.serving import Serving
from jedi.standalone.waking import Waking
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect, reachable
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.schema.release import revision, this_release
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.sites.sites import AttributeChange

Notes = Sequence[str]
"""Sentences about the start."""

SERVICE = "api"
SENDER = "Submitter"
POLL_S = 0.1
PATIENCE_S = 30.0
"""Seconds after which the system counts as up although parts are not ready; `jedi status` shows
them."""


class Database(Supervised):
    """The embedded PostgreSQL."""

    def __init__(self, embedded: Embedded) -> None:
        super().__init__(DATABASE)
        self._embedded = embedded

    def launch(self) -> None:
        self._embedded.start(LOOK_S)
        self.ready = True

    def dead(self) -> str | None:
        if self._embedded.stopping():
            self._embedded.stop()
            return "it got SIGTERM, and its sessions would have delayed its end"
        if not self._embedded.running():
            return self._embedded.how_it_ended()
        logfiles.rotate(self._embedded.log)
        return None

    def ask_to_end(self) -> None:
        pass

    def end(self) -> None:
        self._embedded.stop()

    def process(self) -> Process | None:
        pid = self._embedded.pid()
        return processes.note(pid) if pid else None


def up(
    installation: Installation,
    beginning: Beginning,
    when_up: Callable[[Notes], None],
    *,
    site_file: str | None = None,
    copies: int = 1,
) -> None:
    """Run the system that has begun until it is asked to end; `when_up` is called once, when all
    are ready, with warnings about the start.

    `site_file` is the text of a site file to import, `copies` the number of processes of each
    agent. Refused if another home serves its database; BadInput if the site file has mistakes.
    """
    requests, logger = beginning.requests, log.setup("supervisor")
    engine = connect(installation.url, "jedi supervisor", pool_size=1)
    serving = Serving(engine, installation.home, logger)
    try:
        beginning.wait()
        notes = _prepared(installation, engine, serving, site_file, requests, logger)
        if notes is not None:
            serving.go_on()
            with _supervisor(installation, copies, logger) as supervisor:
                supervisor.tend()  # parts load their own modules while this process loads others
                waking = _waking(
                    World(engine, installation.settings, knobs.load, factory.load, logger),
                    supervisor,
                )
                waking.go_on()
                _run(
                    installation,
                    supervisor,
                    waking,
                    engine,
                    requests,
                    partial(when_up, notes),
                    notes,
                    logger,
                )
                waking.end()
            serving.end()
    finally:
        engine.dispose()
        if installation.embedded:
            installation.embedded.stop()
    installation.clear_record()
    installation.settings.draining.unlink(missing_ok=True)


def _prepared(
    installation: Installation,
    engine: Engine,
    serving: Serving,
    site_file: str | None,
    requests: Requests,
    logger: Any,
) -> Notes | None:
    """Prepare the database as soon as it answers; return warnings about it. None if a person ends
    the start before.

    It waits for one that starts, recovers or goes down, with growing pauses, and for an embedded
    one that dies meanwhile. A server of others that is not there is an error.
    """
    backoff = Backoff(LONGEST_PAUSE_S)
    while not requests.any():
        try:
            if installation.embedded:
                installation.embedded.start(LOOK_S)
            with reachable(engine):
                serving.begin()
                notes = _prepare(engine, installation, site_file)
                serving.begin()  # it may have had no schema
                return notes
        except Unreachable as error:
            died = installation.embedded is not None and not installation.embedded.running()
            if not (died or isinstance(error, NotYet)):
                raise
            backoff.failed(clock.monotonic())
            child.wait_for(error.sentence)
            logger.warning(
                "waiting for the database", why=error.sentence, again_in_s=backoff.wait_s
            )
        while not requests.any() and clock.monotonic() < backoff.until:
            time.sleep(POLL_S)
    return None


def _run(
    installation: Installation,
    supervisor: Supervisor,
    waking: Waking,
    engine: Engine,
    requests: Requests,
    when_up: Callable[[], None],
    notes: Notes,
    logger: Any,
) -> None:
    def over() -> bool:
        return requests.any() or not installation.ours()

    def settled() -> bool:
        return supervisor.ready() and waking.ready

    patience = clock.monotonic() + PATIENCE_S
    supervisor.run(lambda: over() or settled() or clock.monotonic() > patience)
    if not over():
        installation.note_release(up=True)
        child.announce(*notes)
        when_up()
    supervisor.run(over)
    if installation.ours():
        _drain(installation, supervisor, engine, requests, logger)
        part(installation, engine, logger.warning)
    else:  # `jedi down` would not find us; a database whose data were in there ends by itself
        logger.error("the home no longer exists: everything ends", home=str(installation.home.path))
        with suppress(DBAPIError):
            end_pilots(engine, installation.home)


def _drain(
    installation: Installation,
    supervisor: Supervisor,
    engine: Engine,
    requests: Requests,
    logger: Any,
) -> None:
    """Wait for running jobs and their results, as long as `jedi down` asked."""
    drain_s = DRAIN_S
    with suppress(FileNotFoundError, ValueError):  # `jedi down` writes it, if there is room
        drain_s = float(installation.settings.draining.read_text())
    with suppress(OSError):
        installation.settings.draining.write_text(str(drain_s))
    logger.info("waiting for running jobs", at_most_s=drain_s, hint="a second signal ends the wait")
    supervisor.halt(*(c.name for c in supervisor.children if c.name.startswith(SENDER)))
    deadline = clock.monotonic() + drain_s
    supervisor.run(
        lambda: requests.impatient() or clock.monotonic() > deadline or not remaining_work(engine)
    )


def _supervisor(installation: Installation, copies: int, logger: Any) -> Supervisor:
    environment = {
        **os.environ,
        "JEDI_HOME": str(installation.home.path),
        "NOTIFY_SOCKET": str(installation.notify_socket),
    }

    def program(
        name: str, main: Callable[..., None], *arguments: str, kind: type[Program] = Program
    ) -> Program:
        command = [sys.executable, "-P", "-m", "jedi", *arguments, "--leashed"]
        return kind(
            name,
            command,
            installation.home.logs / f"{name}.log",
            environment,
            partial(reported, partial(main, leashed=True)),
        )

    children: list[Supervised] = [Database(installation.embedded)] if installation.embedded else []
    children.append(program(SERVICE, parts.run_service, "api"))
    children += [
        program(
            name if copy == 1 else f"{name}-{copy}",
            partial(parts.run_agent, name, rests=name not in registry.AWAKE),
            "agent",
            "run",
            name,
            kind=Program if name in registry.AWAKE else Sleeper,
        )
        for name in registry.AGENTS
        for copy in range(1, copies + 1)
    ]

    def record(children: Sequence[Supervised]) -> None:
        installation.write_record(children)
        logfiles.rotate(installation.home.supervisor_log)  # it says something when this happens

    return Supervisor(children, installation.notify_socket, record, logger)


def _waking(world: World, supervisor: Supervisor) -> Waking:
    """The look for work of agents that rest. Their modules are loaded here, once for all."""
    agents = {
        name: registry.load(name)(world) for name in registry.AGENTS if name not in registry.AWAKE
    }
    sleepers = {
        one: agents[one.name.partition("-")[0]]
        for one in supervisor.children
        if isinstance(one, Sleeper)
    }
    loading.end()
    return Waking(world, sleepers, supervisor.wake)


def _prepare(engine: Engine, installation: Installation, site_file: str | None) -> Notes:
    """The present schema; in an empty database our own sites, queues and knobs. What was not as
    it should be."""
    notes = _migrated(engine, installation)
    changes: list[AttributeChange] = []
    with engine.begin() as tx:
        operators.make_first_operator(tx, installation.creator)
        if site_file is not None or not (sites.ALL_SITES.rows(tx) and queues.ALL_QUEUES.rows(tx)):
            changes = import_module("jedi.standalone.defaults").fill(tx, installation, site_file)
        roots = dict(sites.ROOTS.rows(tx))
    with suppress(OSError):  # the last note names those that can't be written
        make_roots(changes)
    return [*notes, *_unwritable(roots)]


def _migrated(engine: Engine, installation: Installation) -> Notes:
    """Migrate the schema, unless it is this release's. Alembic takes 0.1 s to load."""
    present = revision(engine)
    if present == this_release().head:
        return []
    if present is not None:
        with engine.begin() as tx:
            operators.must_run_no_agents(tx)
    migrate = import_module("jedi.taskbuffer.schema.migrate")
    before, after = migrate.upgrade(engine, seal=installation.seal)
    changed = before not in (None, after)
    return [f"JEDI migrated the schema from {before} to {after}."] if changed else []


def _unwritable(roots: Mapping[str, str]) -> list[str]:
    """Sentences about endpoints of this machine that this account can't write to."""
    return [
        f"The storage of {endpoint}, {root}, can't be written by {caller()}: results for it wait."
        for endpoint, root in roots.items()
        if Path(root).is_dir() and not writable(Path(root))
    ]
