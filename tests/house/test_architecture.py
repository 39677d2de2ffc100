"""Imports only go down: the floors and rooms of the house, read from the source."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import jedi_client
import jedi_panda
import pytest

import jedi

PACKAGE = Path(jedi.__file__).parent
DRAWERS = (
    *("db", "schema", "users", "sites", "registries", "scheduling", "tasks", "inputs", "jobs"),
    *("events", "ends", "housekeeping", "reports"),
)
"""The drawers of taskbuffer from the ground up: one imports from those before it."""

ROOMS = {
    *("taskrefiner", "contentsfeeder", "brokerage", "throttler", "jobgenerator", "jobdispatcher"),
    *(
        "mover",
        "submitter",
        "splitter",
        "eventservice",
        "taskcommando",
        "postprocessor",
        "watchdog",
    ),
}
FLOORS = {
    **{"core": 0, "host": 1, "model": 1, "taskbuffer": 2, "ddm": 3, "agent": 4},
    **dict.fromkeys(ROOMS, 5),
    **{"service": 6, "api": 7, "monitor": 7, "cli": 8, "standalone": 8, "demo": 8, "__main__": 8},
    "simulator": 8,
    "server": 8,
}
NOT_IN_THE_WHEEL = {"jedi_panda", "tools", "benchmarks", "tests", "support", "migrations"}
CLIENT = Path(jedi_client.__file__).parent
WIRE = Path(jedi_panda.__file__).parent
WORKER_NODES = {"pilot", "transformations"}
"""Programs that run on worker nodes; the latter are the wire's."""

SEVERAL_DOORS = {"watchdog"}
"""Every dog is a door of its own."""

THIRD_PARTY = {
    "core": {"yaml", "structlog", "jedi_client"},
    "model": {"pydantic", "pydantic_core", "numpy", "sqlglot", "croniter", "lark"},
}
"""What the lowest floors may use besides the standard library."""

DOORS_ONLY = (
    "sqlalchemy",
    "psycopg",
    "structlog",
    "jedi.taskbuffer",
    "jedi.ddm",
    "jedi.core.clock",
)
"""What a room's pure files never touch."""

SQL_TYPES = {"Connection", "Engine", "exc"}
"""What floors above taskbuffer may take from SQLAlchemy: types, and errors to catch."""


@cache
def imports(path: str, source: str, package: str = "jedi") -> tuple[str, ...]:
    """Every imported name in full, wherever in `package`/`path` it is imported."""
    return tuple(_imports(path, source, package))


def _imports(path: str, source: str, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = [package, *path.split("/")][: -node.level] if node.level else []
            module = ".".join([*here, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def violations(path: str, source: str, package: str = "jedi") -> list[str]:
    """The imports of `package`/`path` that the house does not allow, with the rule."""
    parts = path.removesuffix(".py").split("/")
    drawer = parts[1] if parts[0] == "taskbuffer" and len(parts) > 2 else ""
    return [
        f"{package}/{path}: {name}: {rule}"
        for name in imports(path, source, package)
        for rule in broken_rules(parts[0], parts[-1], name, package, drawer)
    ]


def broken_rules(place: str, file: str, name: str, package: str, drawer: str) -> Iterator[str]:
    """The fault of `name` in a file of `place`, or of this drawer of taskbuffer."""
    top, used, *rest = [*name.split("."), ""]
    ours = used if top == package else ""
    other = top not in {package, *sys.stdlib_module_names}
    if place in WORKER_NODES:
        if other or ours not in ("", place):
            yield f"the {place} uses only the standard library"
        return
    if top in NOT_IN_THE_WHEEL:
        yield f"{top} is not in the wheel"
    if ours == "pilot":
        yield "nobody imports the pilot"
    elif ours and ours not in FLOORS:
        yield f"{ours} is no floor of the house"
    elif FLOORS.get(ours, 0) > FLOORS[place]:
        yield f"{place} is below {ours}"
    if drawer and ours == "taskbuffer" and rest[0] not in DRAWERS[: DRAWERS.index(drawer) + 1]:
        yield f"{drawer} is below {rest[0]}"
    if other and top not in THIRD_PARTY.get(place, {top}):
        yield f"{place} uses only {', '.join(sorted(THIRD_PARTY[place]))}"
    if place in ROOMS - SEVERAL_DOORS and not is_door(file) and within(name, DOORS_ONLY):
        yield "only the door (agent.py, agent_*.py) touches this"
    if (
        ours in ROOMS
        and any(map(is_door, rest))
        and (place in ROOMS - {ours} or place == "service")
    ):
        yield "nobody uses another room's door"
    above = FLOORS[place] > FLOORS["taskbuffer"] and place != "standalone"
    if top == "sqlalchemy" and above and used not in SQL_TYPES:
        yield "SQL belongs in taskbuffer"


def is_door(file: str) -> bool:
    """A large door has parts: agent_claiming.py beside agent.py."""
    return file == "agent" or file.startswith("agent_")


def within(full: str, names: tuple[str, ...]) -> bool:
    return any(full == name or full.startswith(f"{name}.") for name in names)


def test_imports_go_down() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name != "__init__.py":
            found += violations(name, path.read_text())
    assert found == []


def test_a_wire_stands_above_the_service() -> None:
    """It imports what lies below the commands; what worker nodes fetch imports nothing."""
    used = {
        (path.relative_to(WIRE).parts[0], name.split(".")[1])
        for path in WIRE.rglob("*.py")
        for name in imports(str(path.relative_to(WIRE)), path.read_text(), "jedi_panda")
        if name.startswith("jedi.")
    }
    assert [one for one in sorted(used) if FLOORS[one[1]] > FLOORS["api"]] == []
    assert [one for one in used if one[0] == "model" and FLOORS[one[1]] > FLOORS["model"]] == []
    found = []
    for path in WIRE.joinpath("transformations").rglob("*.py"):
        found += violations(str(path.relative_to(WIRE)), path.read_text(), "jedi_panda")
    assert found == []


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        ("core/names.py", "from jedi.model.tasks import refined", "core is below model"),
        ("core/names.py", "import numpy", "core uses only"),
        ("model/tasks/refined.py", "import sqlalchemy", "model uses only"),
        ("taskbuffer/tasks/tasks.py", "from jedi.ddm.interface import DDM", "below ddm"),
        ("taskbuffer/tasks/tasks.py", "from jedi.taskbuffer.jobs import orders", "below jobs"),
        ("taskbuffer/jobs/orders.py", "from jedi.taskbuffer.tasks import tasks", None),
        ("agent/loop.py", "def f():\n    import jedi.mover.agent", "agent is below mover"),
        ("mover/plan.py", "from sqlalchemy import Connection", "only the door"),
        ("mover/plan.py", "from jedi.core import clock", "only the door"),
        ("mover/plan.py", "from jedi.taskbuffer import jobs", "only the door"),
        ("mover/plan.py", "from jedi.mover.agent import Mover", None),
        ("mover/agent.py", "from jedi.taskbuffer import jobs", None),
        ("mover/agent.py", "from sqlalchemy import text", "SQL belongs in taskbuffer"),
        ("mover/agent.py", "from sqlalchemy.exc import DBAPIError", None),
        ("mover/agent.py", "from jedi.throttler import decide", None),
        ("mover/agent.py", "from jedi.watchdog import agent", "another room's door"),
        ("brokerage/filters/cores.py", "import structlog", "only the door"),
        (
            "service/tasks/task_details.py",
            "from jedi.mover.agent import Mover",
            "another room's door",
        ),
        ("service/tasks/task_details.py", "from jedi.api import app", "service is below api"),
        ("cli/jedi.py", "import jedi.agent.supervisor", None),
        ("pilot/main.py", "from jedi.core import clock", "only the standard library"),
        ("pilot/main.py", "import httpx2", "only the standard library"),
        ("pilot/main.py", "from .. import core", "only the standard library"),
        ("pilot/main.py", "import json, jedi.pilot.wire", None),
        ("pilot/main.py", "from . import wire; from .wire import Job", None),
        ("transformations/jedi_run/main.py", "import numpy", "only the standard library"),
        ("transformations/jedi_run/main.py", "from jedi.core import clock", "only the standard"),
        ("transformations/jedi_run/main.py", "import ast; from .base import say", None),
        ("service/tasks/why.py", "from jedi_panda import transformations", "jedi_panda is not in"),
        ("server/app.py", "from jedi.pilot import wire", "nobody imports the pilot"),
        ("standalone/up.py", "from tools import docs", "tools is not in the wheel"),
        ("server/app.py", "from jedi.cellar import wine", "no floor of the house"),
    ],
)
def test_the_rules_bite(path: str, source: str, rule: str | None) -> None:
    found = violations(path, source)
    assert rule in found[0] if rule else found == []


def test_knobs_are_read_as_attributes() -> None:
    """`knobs.jobgen.retry_s`: a mistyped name is an error of the type checker, not of a task."""
    by_name = re.compile(r"\w*(?:knobs|settings)\[f?[\"'][a-z]+\.[a-z0-9_]+[\"']\]")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text().splitlines()
        if by_name.search(line)
    ]
    assert found == []


def graph(place: Path = PACKAGE) -> dict[str, set[str]]:
    """Every module of a package, and those that it imports, wherever in its file it does."""
    files = {
        ".".join((place.name, *p.relative_to(place).with_suffix("").parts)): p
        for p in place.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        names = imports(str(path.relative_to(place)), path.read_text(), place.name)
        used = (name if name in files else name.rpartition(".")[0] for name in names)
        found[module] = {name for name in used if name in files} - {module}
    return found


def rooms(uses: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The folders of the modules, and those that they use."""
    found: dict[str, set[str]] = {}
    for module, names in uses.items():
        room, *_ = module.split(".")[1:] or [module]
        used = {name.split(".")[1] for name in names if "." in name}
        found.setdefault(room, set()).update(used - {room})
    return found


def circular(uses: Mapping[str, set[str]]) -> list[str]:
    """The modules that import themselves by way of others, or lead to some that do."""
    left = dict(uses)
    while leaves := [name for name, used in left.items() if not used & left.keys()]:
        for name in leaves:
            del left[name]
    return sorted(left)


@pytest.mark.parametrize("place", [PACKAGE, CLIENT, WIRE], ids=lambda place: place.name)
def test_no_import_leads_back(place: Path) -> None:
    """No circle of imports between files, also not by imports inside functions or for types."""
    assert circular(graph(place)) == []


@pytest.mark.parametrize("place", [PACKAGE, CLIENT, WIRE], ids=lambda place: place.name)
def test_no_room_leads_back(place: Path) -> None:
    """No circle between the folders: api and monitor used each other, though no two files did."""
    assert circular(rooms(graph(place))) == []


def test_a_circle_is_found() -> None:
    uses = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"d"}}
    assert circular(uses) == ["a", "b", "c"]
    assert circular(rooms({"j.a.x": {"j.b.y"}, "j.b.y": set(), "j.b.z": {"j.a.w"}, "j.a.w": set()}))
    assert "jedi.service.submission.resubmission" in graph()["jedi.service.submission.storing"]


def test_no_door_imports_from_more_than_25_places() -> None:
    """A door with more than 25 imports is divided."""
    many = {}
    for path in PACKAGE.rglob("agent*.py"):
        tree = ast.parse(path.read_text())
        n = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))
        if n > 25:
            many[path.relative_to(PACKAGE)] = n
    assert many == {}


def test_rooms_share_no_constants() -> None:
    """A fact that two rooms need is in model: `PRODUCTION_LABELS` was borrowed from the feeder."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        names = imports(str(path.relative_to(PACKAGE)), path.read_text())
        for name in names:
            owner, constant = name.split(".")[1:2], name.rpartition(".")[2]
            if room in ROOMS and constant.isupper() and {*owner} & (ROOMS - {room}):
                found.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert found == []
