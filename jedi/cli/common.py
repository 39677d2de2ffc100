"""What `jedi` and `jedi-task` share: output for people and for programs, errors, exit codes.

Exit codes: 0 yes, 1 no, 2 wrong use or wrong input, 3 something does not answer, 4 time is up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from jedi.core.errors import BadInput, JediError, Problem, Unreachable

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Connection, Engine

    from jedi.ddm.interface import DDM

NO, USAGE, UNREACHABLE, TIMEOUT = 1, 2, 3, 4
WIDTH = 100

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def cleaning_up() -> Iterator[None]:
    """A signal that would end us at once raises SystemExit, which cleans up; further ones do not
    disturb that."""

    def end(number: int, _: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in ends}
    before = {each: handler for each, handler in before.items() if handler != signal.SIG_IGN}
    for each in before:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is end:
                signal.signal(each, handler)


def application(about: str) -> typer.Typer:
    """A command, or a group of commands, with our manners."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    )


def run(app: typer.Typer, name: str) -> NoReturn:
    """Run the command line of program `name`; errors become sentences on stderr and exit codes."""
    try:
        app(prog_name=name)
    except JediError as error:
        _report(error)
        sys.exit(exit_code(error))
    except BrokenPipeError:  # the reader has seen enough, `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        if error.filename is None:
            raise
        _report(JediError(f"{error.filename}: {error.strerror}.", code="file_error"))
        sys.exit(NO)
    sys.exit(0)


def exit_code(error: JediError) -> int:
    """The exit code that stands for an error."""
    match error:
        case BadInput():
            return USAGE
        case Unreachable():
            return UNREACHABLE
        case JediError(code="timeout"):
            return TIMEOUT
        case _:
            return NO


@contextmanager
def database() -> Iterator[Engine]:
    """The database of the present home; Unreachable if it does not answer."""
    from jedi.standalone.place import Place
    from jedi.taskbuffer import engine

    connections = engine.connect(Place.current().url, "jedi cli", pool_size=1)
    try:
        with engine.reachable(connections):
            yield connections
    finally:
        connections.dispose()


@contextmanager
def transaction() -> Iterator[Connection]:
    """One transaction in the database of the present home; Unreachable if it does not answer."""
    with database() as engine, engine.begin() as tx:
        yield tx


@contextmanager
def reading() -> Iterator[tuple[Connection, DDM]]:
    """A transaction that can't write anything, and data management as it is now."""
    from jedi.ddm import factory
    from jedi.taskbuffer import knobs

    with database() as engine, engine.connect() as connection:
        tx = connection.execution_options(postgresql_readonly=True)
        yield tx, factory.load(tx, knobs.load(tx))


def read_file(file: Path) -> str:
    """The text byte for byte: line ends are not translated."""
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        remedy = "Save the file in UTF-8"
        raise BadInput([Problem("file", str(file), f"is no UTF-8: {error}", remedy)]) from error


def show(value: Any, as_json: bool, people: Callable[[], None]) -> None:
    """Print a value: as JSON, or as `people()` prints it."""
    if as_json:
        typer.echo(json.dumps(plain(value), indent=2, default=str))
    else:
        people()


def plain(value: Any) -> Any:
    """The value in JSON's own types; an instant in ISO 8601."""
    match value:
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(asdict(value))
        case _:
            return value


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    title: str | None = None,
    *,
    stderr: bool = False,
) -> None:
    """Print rows under headers, at most 100 columns wide; numbers stand on the right."""
    from rich import box
    from rich.table import Table

    rows = list(rows)
    lines = [[cell(value) for value in row] for row in rows]
    drawn = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for i, header in enumerate(headers):
        numeric = bool(lines) and all(line[i] == "" or _numeric(line[i]) for line in lines)
        times = all(isinstance(row[i], datetime | None) for row in rows)
        drawn.add_column(header, justify="right" if numeric else "left", overflow="fold",
                         no_wrap=times)  # fmt: skip
    for line in lines:
        drawn.add_row(*line)
    console(stderr=stderr).print(drawn)


def cell(value: Any) -> str:
    """A value as people read it; nothing for None."""
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
        case list() | tuple():
            return ", ".join(cell(item) for item in value)
        case dict():
            return ", ".join(f"{k} {cell(v)}" for k, v in value.items())
        case _:
            return str(value)


def console(*, stderr: bool = False) -> Console:
    """Where people read: colours only on a terminal and without NO_COLOR; markup is not read,
    since names and errors may hold brackets."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    found.width = min(WIDTH, found.width) if found.is_terminal else WIDTH
    return found


def _numeric(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit()


def _report(error: JediError) -> None:
    if "--json" in sys.argv:
        facts = plain(error.facts)
        typer.echo(
            json.dumps({"error": error.code, "sentence": error.sentence, "facts": facts},
                       indent=2, default=str),
            err=True,
        )  # fmt: skip
    elif isinstance(error, BadInput):
        rows = [
            [p.path, None if p.value is None else shorten(repr(p.value), 60), p.rule, p.remedy]
            for p in error.problems
        ]
        table(["where", "value", "rule", "remedy"], rows, stderr=True)
    else:
        console(stderr=True).print(error.sentence, style="red", soft_wrap=True)  # can be searched
