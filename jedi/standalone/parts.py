"""The parts of a running system at work: its agents and its service."""

from __future__ import annotations

from jedi.agent import child, registry
from jedi.agent.loop import Loop
from jedi.agent.world import make_world
from jedi.standalone.installation import Installation
from jedi.taskbuffer.db.engine import reachable
from jedi.taskbuffer.schema.release import this_release


def run_agent(name: str, *, once: bool = False, leashed: bool = False, rests: bool = False) -> None:
    """Run an agent until SIGTERM, or until all work is done (`once`), or none came for a while
    (`rests`). If it is leashed, it ends with the process that holds its standard input."""
    if leashed:
        child.follow()
    agent = registry.load(name)(make_world(Installation.current().settings, name))
    if once:
        with reachable(agent.world.engine):
            this_release().must_fit_database(agent.world.engine)
            while agent.run_once():
                pass
        return
    loop = Loop(agent, child.announce, rests=rests)
    loop.install_signals()
    loop.run()


def run_service(*, leashed: bool = False) -> None:
    """Run the service until SIGTERM; leashed as an agent."""
    if leashed:
        child.follow()
    from jedi.server.serving import serve  # in its own process alone: it takes 0.3 s and 30 MB

    serve(Installation.current().settings, child.announce)
