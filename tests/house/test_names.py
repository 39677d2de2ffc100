"""Every name that JEDI says to people exists: verbs, options, knobs and statuses in help, remedies,
reasons and docs. A remedy that names what is not there is worse than none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from jedi_client.cli import job, task
from jedi_panda.transformations.jedi_run import arguments
from support.sources import all_tests, programs

from jedi.cli import jedi
from jedi.core import pgi, states
from jedi.core.knobs import KNOBS
from jedi.model.sites import site_file
from jedi.service.operations.all_operations import TABLE

ROOT = Path(__file__).parents[2]
DOCS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
]
PROGRAMS = {"jedi": jedi.app, "jedi-task": task.app, "jedi-job": job.app}
COMPONENTS = {name.partition(".")[0] for name in KNOBS}


@cache
def commands() -> dict[str, Any]:
    """All programs, groups and verbs, by what people write: `jedi site import`."""
    found: dict[str, Any] = {}

    def add(name: str, command: Any) -> None:
        found[name] = command
        for verb, inner in getattr(command, "commands", {}).items():
            add(f"{name} {verb}", inner)

    for name, app in PROGRAMS.items():
        add(name, typer.main.get_command(app))
    return found


def options(command: str) -> set[str]:
    params = commands()[command].params
    return {"--help", *(o for p in params for o in (*p.opts, *p.secondary_opts))}


@cache
def said() -> list[tuple[str, str]]:
    """Everything that is said to people: (where, text). In code these are the literals; the pieces
    of an f-string stand together, with … where a value comes."""
    found = [(str(p.relative_to(ROOT)), p.read_text()) for p in DOCS]
    for path in programs():
        where = str(path.relative_to(ROOT))
        found += [(where, text) for text in _literals(ast.parse(path.read_text()))]
    return found


def _literals(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.JoinedStr():
            yield "".join(
                str(getattr(v, "value", "")) if isinstance(v, ast.Constant) else "…"
                for v in node.values
            )
        case ast.Constant(value=str(text)):
            yield text
        case _:
            for inner in ast.iter_child_nodes(node):
                yield from _literals(inner)


SPAN = re.compile(r"`([^`]+)`")
CALL = re.compile(
    r"(?<![\w./@:-])(jedi-task|jedi-job|jedi)((?: [a-z][a-z-]*(?![\w./=]))+)([^|#;`]*)"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
KNOB = re.compile(r"(?<![\w./-])([a-z]+)\.([a-z][a-z0-9_]*)(?![\w.(/])")
SUFFIXES = {"py", "md", "csv", "yaml", "log", "sock"}
NO_VERB = {
    "cli",
    "jedi-server",
    "pilots",
    "simulator",
    "backup",
    "restore",
    "docs",
    "supervisor",
    "listener",
    "or",
    "contributors",
}
"""Words behind `jedi` in the names of processes and of clients of the database."""
FOREIGN = {
    "--ignore-failed-read",  # tar
    "--account",
    "--me",
    "--format",
    "--noheader",
    "--states",  # Slurm
    "--cacert",  # curl
    "--system",  # useradd
    "--run",  # of somebody's pre-processing
    "--year",  # of the payload of an example
    "--check",  # sha256sum, and the writer of the docs
    "--db",
    "--exec",
    "--in",
    "--old",
    "--outputs",
    "--persistent",
    "--work",  # prun: `--inDS`, …
    "--bind",
    "--pwd",
    "--rm",
    "--user",
    "--volume",
    "--entrypoint",  # programs for containers
    "--good",
    "--load",
    "--match",
    "--anti",
    "--n",
    "--no",
    "--out",
    "--tar",
    "--vo",
    "--source",
    "--container-image",  # of jedi-run
    "--data-only",
    "--dbname",
    "--exit-on-error",
    "--file",
    "--no-owner",
    "--no-privileges",
    "--single-transaction",
    "--table",
    "--auth-host",
    "--auth-local",
    "--locale",
    "--version",  # PostgreSQL's programs
    "--input-destination-dir",
    "--pilot-user",
    "--queuedata-url",
    "--storagedata-url",
    "--url",
    "--use-rucio-traces",  # PanDA's pilot
}
"""Options of programs that are not ours."""


def written() -> Iterator[tuple[str, str]]:
    """Where commands may stand: what is code in the docs, and all literals of the code."""
    for where, text in said():
        if where.endswith(".md"):
            parts = text.split("```")
            blocks = "\n".join(parts[1::2]).splitlines()
            prose = "".join(parts[::2])
            blocks += [line for line in prose.splitlines() if line.startswith("    ")]
            spans = [" ".join(span.split()) for span in SPAN.findall(prose)]
            yield from ((where, one) for one in (*blocks, *spans))
        else:
            yield where, " ".join(text.split())


def mistakes_of_calls(text: str) -> Iterator[str]:
    """What is wrong with the commands in a text."""
    for program, verbs, rest in CALL.findall(text):
        words = verbs.split()
        if words[0] in NO_VERB:
            continue
        name = program
        while words and f"{name} {words[0]}" in commands():
            name = f"{name} {words.pop(0)}"
        if name == program or (words and getattr(commands()[name], "commands", None)):
            yield f"{name} {words[0]}"
            continue
        known = options(name) | options(program)
        yield from (f"{name} {option}" for option in OPTION.findall(rest) if option not in known)


@cache
def _functions() -> set[str]:
    """`module.name` of all functions: docs name the statements that write a column so."""
    found = set()
    for path in ROOT.glob("jedi/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found.add(f"{path.stem}.{node.name}")
    return found


@cache
def _words() -> set[str]:
    """Every name and every word of a literal in the code: statuses, reasons, columns, keys; and
    words of others."""
    found = {*NOT_OURS}
    ours_files = {*programs()}
    for path in (*ours_files, *all_tests()):
        ours = path in ours_files
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.Constant(value=str(text)) if ours:
                    found.update(re.findall(r"\w+", text))
    return found


STATUSES = {
    *(s for machine in states.MACHINES for e in machine.edges for s in (e.source, e.target)),
    *(s for machine in states.MACHINES for s in machine.initial),
    *get_args(site_file.SiteEntry.model_fields["status"].annotation),
    *pgi.STATES,
}
SHOWN = ("jedi/cli/", "jedi/core/", "jedi/service/")
"""Code whose docstrings and sentences people read."""
STATUS = re.compile(
    r"(?:status(?:es)?(?: of| is| are| in)?|\b(?:task|job|dataset|file|site|tasks|jobs)"
    r" (?:that |which )?(?:is|are|becomes?|stays?|goes to))\s((?:`[a-z]+`(?:, | or | and )?)+)"
)


def test_every_command_that_is_named_exists() -> None:
    """Every remedy names a knob, verb, option and status that exists."""
    wrong = [(where, one) for where, text in written() for one in mistakes_of_calls(text)]
    assert wrong == []


def test_every_option_that_is_named_exists() -> None:
    ours = set().union(*map(options, commands()), _pilot_options(), _jedi_run_options())
    wrong = [
        (where, option)
        for where, text in said()
        for option in OPTION.findall(text)
        if option not in ours | FOREIGN
    ]
    assert wrong == []


def _jedi_run_options() -> set[str]:
    known = (
        arguments.VALUES,
        arguments.FLAGS,
        arguments.IGNORED_VALUES,
        arguments.IGNORED_FLAGS,
        arguments.REFUSED_VALUES,
        arguments.REFUSED_FLAGS,
    )
    return {found for names in known for name in names for found in OPTION.findall(name)}


def _pilot_options() -> set[str]:
    """The options of the programs on worker nodes."""
    paths = [
        ROOT / "jedi/pilot/main.py",
        *(ROOT / "panda/src/jedi_panda/transformations").rglob("*.py"),
    ]
    return {found for path in paths for found in re.findall(r'"(--[a-z-]+)"', path.read_text())}


def test_every_knob_that_is_named_exists() -> None:
    wrong = []
    known = {*KNOBS, *_functions(), *TABLE}
    for where, text in said():
        for found in KNOB.finditer(text):
            component, key = found.groups()
            told = re.search(r"(knobs?|config [gs]et) `?$", text[: found.start()])
            if not told and (component not in COMPONENTS or key in SUFFIXES):
                continue
            family = found[0].endswith("_") and any(name.startswith(found[0]) for name in KNOBS)
            if not family and found[0] not in known:
                wrong.append((where, found[0]))
    assert wrong == []


def test_every_status_that_is_named_exists() -> None:
    wrong = []
    shown = [one for one in said() if one[0].endswith(".md") or one[0].startswith(SHOWN)]
    for where, text in shown:
        for listed in STATUS.findall(text):
            wrong += [(where, one) for one in SPAN.findall(listed) if one not in STATUSES]
    assert wrong == []


def test_every_name_in_the_docs_stands_in_the_code() -> None:
    """A word in backticks is a status, a reason, a column, a parameter: it stands in the code."""
    wrong = []
    for where, text in said():
        if where.endswith(".md"):
            prose = "".join(text.split("```")[::2])
            names = re.findall(r"`([a-z][a-zA-Z0-9]*_?\w*)`", prose)
            wrong += [(where, name) for name in names if not _known(name)]
    assert wrong == []


def _known(name: str) -> bool:
    """The code knows it, by another spelling (parameters: `useExhausted` is `use_exhausted`), or as
    what it puts together (codes: `not_for_…`)."""
    snake = re.sub("([A-Z])", r"_\1", name).lower()
    return not {name, snake}.isdisjoint(_words()) or name.startswith(_stems())


@cache
def _stems() -> tuple[str, ...]:
    """The beginnings of what is put together."""
    return tuple({text[:-1] for _, text in said() if re.fullmatch("[a-z_]+_…", text)})


NOT_OURS = {"curl", "sbatch", "eval", "hadd", "pandaclient", "phpo", "pchain", "pathena", "dsForIN"}
"""Programs and words of others."""


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("look: jedi-task history 7", "jedi-task history"),
        ("jedi site import FILE --coment x", "jedi site import --coment"),
        ("`jedi site imprt FILE`", "jedi site imprt"),
        ("jedi-task retry 1 --new-code", None),
        ("jedi queue", None),
    ],
)
def test_the_check_itself_finds_mistakes(text: str, mistake: str | None) -> None:
    assert list(mistakes_of_calls(text)) == ([mistake] if mistake else [])
