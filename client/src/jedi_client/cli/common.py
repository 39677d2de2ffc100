"""Common parts of the commands: output for people and for programs, errors, exit codes.

Exit codes: 0 yes, 1 no, 2 wrong use or wrong input, 3 a service does not answer, 4 time-out,
5 the database or the service is of another release.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from jedi_client.cli import layout
from jedi_client.cli.arguments import Commands
from jedi_client.errors import BadInput, JediError, Problem, Unreachable
from jedi_client.profiles import chosen
from jedi_client.terminal import harmless
from jedi_client.times import written

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from jedi_client.models import TaskSummary
    from jedi_client.operations import Client

NO, USAGE, UNREACHABLE, TIMEOUT, OTHER_RELEASE = 1, 2, 3, 4, 5
WIDTH = 100
"""The width of help texts, and of folded tables in a pipe."""
ENDLESS = 1_000_000
"""The width of a pipe."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only check and show what would happen; change nothing.")
]


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
    """A command, or a group of commands, with JEDI's options of help."""
    return typer.Typer(
        cls=Commands,
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        import jedi_client

        typer.echo(f"JEDI {jedi_client.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


def run(app: typer.Typer, name: str) -> NoReturn:
    """Run the command line of program `name`."""
    atexit.register(gc.freeze)  # at the end Python seeks garbage among all modules, for 60 ms
    reported(partial(app, prog_name=name))


def reported(main: Callable[[], object]) -> NoReturn:
    """Run a program: errors become sentences on stderr and exit codes."""
    try:
        main()
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
        case JediError(code="schema_differs" | "other_release"):
            return OTHER_RELEASE
        case Unreachable():
            return UNREACHABLE
        case JediError(code="timeout"):
            return TIMEOUT
        case _:
            return NO


@contextmanager
def service() -> Iterator[Client]:
    """The service that this command asks: of --server or --profile, else as `profiles.chosen`."""
    from jedi_client.operations import Client

    with Client(chosen(_CHOICE.server, _CHOICE.profile)) as client:
        yield client


@dataclass
class _Choice:
    server: str | None = None
    profile: str | None = None


_CHOICE = _Choice()


def _choose_server(url: str | None) -> str | None:
    _CHOICE.server = url
    return url


def _choose_profile(name: str | None) -> str | None:
    _CHOICE.profile = name
    return name


def names_a_service() -> tuple[str, str] | None:
    """The option --server or --profile with its value, if one was given."""
    given = (("--server", _CHOICE.server), ("--profile", _CHOICE.profile))
    return next(((option, value) for option, value in given if value), None)


Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        callback=_choose_server,
        help="The service: https://HOST, http://HOST:PORT or unix:PATH. Default: JEDI_URL, or the "
        "service of JEDI_HOME on this machine.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", callback=_choose_profile, help="A profile of `jedi-task login`."),
]


def read_file(file: Path) -> str:
    """The text byte for byte: line ends are not translated."""
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        remedy = "Save the file in UTF-8"
        raise BadInput([Problem("file", str(file), f"is not UTF-8: {error}", remedy)]) from error


def show(value: Any, as_json: bool, people: Callable[[], None], *, dry_run: bool = False) -> None:
    """Print a value: as JSON, or as `people()` prints it; after a dry run, with a note of that."""
    if as_json:
        typer.echo(json.dumps(plain(value), indent=2, default=str))
        return
    people()
    if dry_run:
        typer.echo("Dry run: nothing changed.", err=True)


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
    *,
    spare: Sequence[str] = (),
    short: Sequence[str] = (),
    colours: Mapping[str, str] = layout.WORK,
    folded: bool = False,
    stderr: bool = False,
) -> None:
    """Print rows under headers; numbers stand on the right, statuses have their colours.

    In a pipe each row is one line. A terminal shows as much as fits: first the columns of `short`
    get shorter, then `spare` ones go, the least important first; other text is folded. `folded`:
    the cells are sentences for people, folded in a pipe, too.
    """
    rows = list(rows)
    cells = [[cell(value) for value in row] for row in rows]
    right = {i for i in range(len(headers)) if cells and all(_numeric(row[i]) for row in cells)}
    screen = console(stderr=stderr)
    times = {i for i in range(len(headers)) if _is_times(row[i] for row in rows)}
    if screen.is_terminal:
        drawn = _drawn(headers, cells, screen.width, right, times, (spare, short), colours)
        screen.print(drawn, "")
        return
    lines: Iterable[str] = layout.lines(headers, cells, right)
    if folded:
        with screen.capture() as page:
            screen.print(_drawn(headers, cells, WIDTH, right, times, ((), ()), colours))
        lines = (line.rstrip() for line in page.get().splitlines())
    for line in (*lines, ""):
        typer.echo(line, err=stderr)


def _drawn(
    headers: Sequence[str],
    cells: Sequence[Sequence[str]],
    room: int,
    right: Collection[int],
    times: Collection[int],
    manners: tuple[Sequence[str], Sequence[str]],
    colours: Mapping[str, str],
) -> Table:
    from rich.table import Table
    from rich.text import Text

    spare, short = manners
    natural = [
        max(len(line) for row in (headers, *cells) for line in row[i].split("\n") or [""])
        for i in range(len(headers))
    ]
    rigid = {*right, *times, *(i for i, name in enumerate(headers) if name == "status")}
    least = [
        wide if i in rigid else min(wide, layout.NARROW if i or headers[0] in short else room // 3)
        for i, wide in enumerate(natural)
    ]
    shown = layout.fitting(least, [headers.index(name) for name in spare], room)
    wide = layout.widths([natural[i] for i in shown], [least[i] for i in shown], room)
    drawn = Table(box=None, pad_edge=False, padding=(0, layout.GAP, 0, 0), header_style="bold")
    for i, width in zip(shown, wide, strict=True):
        one_line = i in rigid or headers[i] in short
        drawn.add_column(
            headers[i],
            justify="right" if i in right else "left",
            width=width,
            no_wrap=one_line,
            overflow="ellipsis" if one_line else "fold",
        )
    for row in cells:
        drawn.add_row(
            *(
                Text(row[i], colours.get(row[i], "") if headers[i] == "status" else "")
                for i in shown
            )
        )
    return drawn


def percent(task: TaskSummary) -> int | None:
    """The finished part of a task's input; None: there is none yet."""
    return 100 * task.n_files_finished // task.n_files if task.n_files else None


def counted(task: TaskSummary) -> int | str:
    """The number of a task's input files, or `40 ranges` if these are counted."""
    return task.n_files if task.unit == "files" else f"{task.n_files} {task.unit}"


def status(name: str, colours: Mapping[str, str] = layout.TASKS) -> Text:
    """A status in its colour, for a line that a console prints."""
    from rich.text import Text

    return Text(name, colours.get(name, ""))


def cell(value: Any) -> str:
    """A value as people read it; nothing for None."""
    match value:
        case None:
            return ""
        case datetime():
            return written(value, None)
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
        case list() | tuple():
            return ", ".join(cell(item) for item in value)
        case dict():
            return ", ".join(f"{k} {cell(v)}" for k, v in value.items())
        case _:
            return harmless(str(value))


def console(*, stderr: bool = False) -> Console:
    """Return a console for people. It uses colours only on a terminal and without NO_COLOR. It does
    not read markup: names and errors may hold brackets. It shows control characters and does not
    obey them: a reason may quote the output of a payload. In a pipe it folds no line."""
    from rich.console import Console

    class Harmless(Console):
        def print(self, *objects: Any, **manner: Any) -> None:
            shown = (harmless(one) if isinstance(one, str) else one for one in objects)
            super().print(*shown, **manner)

    found = Harmless(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = ENDLESS
    return found


def _numeric(text: str) -> bool:
    return text == "" or text.replace(".", "", 1).replace("-", "", 1).isdigit()


def _is_times(values: Iterable[Any]) -> bool:
    return all(isinstance(value, datetime | None) for value in values)


def _report(error: JediError) -> None:
    if "--json" in sys.argv:
        facts = plain(error.facts)
        typer.echo(
            json.dumps(
                {"error": error.code, "sentence": error.sentence, "facts": facts},
                indent=2,
                default=str,
            ),
            err=True,
        )
    elif isinstance(error, BadInput):
        rows = [
            [p.path, None if p.value is None else shorten(repr(p.value), 60), p.rule, p.remedy]
            for p in error.problems
        ]
        table(["where", "value", "rule", "remedy"], rows, folded=True, stderr=True)
    else:
        console(stderr=True).print(error.sentence, style="red", soft_wrap=True)  # can be searched
