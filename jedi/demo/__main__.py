"""`make demo`: start everything in a scratch home, run real tasks, check their outputs.

It uses the two command-line programs as a person would. Exit code 1: a result is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from jedi.core import clock
from jedi.demo import truth
from jedi.host.home import Home
from jedi.standalone.installation import packaged

EXAMPLES = packaged("examples")
SURVIVORS = 4
"""Input files of the flaky task that do not fail for ever."""

MANY = 14
"""Files, a job each, of the task that begins with ten scouts."""

SEEDS = 60
"""Events of each file of the tasks of the event service."""

console = Console(highlight=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the summary."""

    task: str
    status: str
    jobs: str
    found: str
    expected: str
    right: bool


class Demo:
    """One run in a scratch directory: `home` is JEDI_HOME, `results` is kept."""

    def __init__(self, scratch: Path) -> None:
        self.home, self.results = Home(scratch / "home"), scratch / "results"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("JEDI_")},
            "JEDI_HOME": str(self.home.path),
        }

    def call(
        self, program: str, *words: str, show: bool = False, ok: tuple[int, ...] = (0,)
    ) -> str:
        """Run `jedi` or `jedi-task`; its output is returned, or shown as it comes."""
        module = {"jedi": "jedi.cli.jedi", "jedi-task": "jedi_client.cli.task"}[program]
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"from {module} import main; main()", *words],
            env=self.environment,
            stdout=None if show else subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode not in ok:
            raise RuntimeError(f"{program} {' '.join(words)} ended with {done.returncode}")
        return done.stdout or ""

    def ask(self, program: str, *words: str) -> Any:
        """The value that a verb gives with --json."""
        return json.loads(self.call(program, *words, "--json"))

    @contextmanager
    def system(self) -> Iterator[None]:
        """The whole system, up; down again whatever happens, and nothing left running."""
        self.call("jedi", "up", "--detach", show=True)
        try:
            yield
        finally:
            self.call("jedi", "down")

    def submit(self, example: str) -> int:
        """Submit one of the example files; the new task's id."""
        return int(self.ask("jedi-task", "submit", str(EXAMPLES / example))["jedi_task_id"])

    def watch(self, *tasks: int) -> None:
        """Follow tasks to their ends (a task that ends `finished` makes `watch` say 1)."""
        self.call("jedi-task", "watch", *map(str, tasks), show=True, ok=(0, 1))

    def outputs(self, task: int, name: str) -> list[Path]:
        """Fetch a task's outputs, checksums verified."""
        directory = self.results / name
        self.call("jedi-task", "get", str(task), str(directory))
        return sorted(file for file in directory.rglob("*") if file.is_file())

    def line(self, task: int, name: str, status: str, found: str, expected: str) -> Line:
        """Compare a task with its expected end."""
        shown = self.ask("jedi-task", "show", str(task))
        jobs = ", ".join(f"{n} {state}" for state, n in shown["jobs"].items())
        reached = shown["task"]["status"]
        right = reached == status and found == expected
        return Line(f"{task} {name}", reached, jobs, found, expected, right)

    def kinds(self, task: int) -> str:
        """The number of jobs of each kind of a task."""
        found = Counter(job["kind"] for job in self.ask("jedi-task", "jobs", str(task)))
        return ", ".join(f"{n} {kind}" for kind, n in sorted(found.items(), reverse=True))

    def prepare(self) -> None:
        """Make the input datasets, and a large queue for jumbo jobs."""
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        subprocess.run(
            ["sh", EXAMPLES / "prepare.sh"], env={**self.environment, "PATH": path}, check=True
        )
        self.call("jedi", "site", "import", str(EXAMPLES / "events" / "large.yaml"))
        self.call("jedi", "config", "set", "watchdog.jumbo_jobs_period_s", "1")

    def run(self) -> list[Line]:
        """Submit, wait, compare."""
        self.prepare()
        names = ("wordcount", "merge", "scouts", "pi", "flaky")
        words, merge, scouts, pi, flaky = (self.submit(f"{name}.yaml") for name in names)
        herd = self.submit("parametric.jdl")
        self.watch(words, merge, scouts, pi, flaky, herd)
        second = ("sum", "eventservice", "jumbo")
        total, simulated, jumbo = (self.submit(f"{name}.yaml") for name in second)
        self.watch(total, simulated, jumbo)
        self.call("jedi-task", "events", str(jumbo), show=True)

        counted = truth.count_words(truth.texts())
        parts = truth.read_counts(self.outputs(words, "wordcount"))
        added = truth.read_counts(self.outputs(total, "sum"))
        merged = self.outputs(merge, "merge")
        lines = truth.sorted_lines(self.outputs(scouts, "scouts"))
        direct = truth.sorted_lines(truth.texts()[:MANY])
        darts = [file.read_text().strip() for file in self.outputs(pi, "pi")]
        thrown = truth.throw_darts(EXAMPLES / "pi.awk", range(1001, 1011))
        same = sorted(darts) == thrown
        found = f"{truth.estimate_pi(darts):.4f}" if same else "other darts were thrown"
        values = " ".join(truth.printed(self.outputs(herd, "parametric")))
        survivors = len(self.outputs(flaky, "flaky"))
        all_events = f"{4 * SEEDS} events, each once, in order"
        return [
            self.line(words, "wordcount", "done", _words(parts), _words(counted)),
            self.line(total, "sum", "done", _words(added), _words(counted)),
            self.line(
                merge,
                "merge",
                "done",
                f"{_words(truth.read_counts(merged))}, in {len(merged)} files",
                f"{_words(counted)}, in {min(len(merged), 2)} files",  # the scouts' is one
            ),
            self.line(
                scouts,
                f"scouts ({self.kinds(scouts)})",
                "done",
                f"{len(lines)} lines sorted" if lines == direct else "other lines",
                f"{len(direct)} lines sorted",
            ),
            self.line(pi, "pi", "done", found, f"{truth.estimate_pi(thrown):.4f}"),
            self.line(
                simulated,
                f"eventservice ({self.kinds(simulated)})",
                "done",
                truth.simulated_events(self.outputs(simulated, "eventservice"), SEEDS),
                all_events,
            ),
            self.line(
                jumbo,
                f"jumbo ({self.kinds(jumbo)})",
                "done",
                truth.simulated_events(self.outputs(jumbo, "jumbo"), SEEDS),
                all_events,
            ),
            self.line(herd, "parametric", "done", values, truth.RFC_VALUES),
            self.line(flaky, "flaky", "finished", f"{survivors} files", f"{SURVIVORS} files"),
        ]


def _words(counts: dict[str, int]) -> str:
    return f"{sum(counts.values())} words, {len(counts)} different"


def summary(lines: list[Line], results: Path) -> None:
    """The table at the end."""
    table = Table(title="What the tasks found")
    for head in ("task", "status", "jobs", "found", "computed directly", ""):
        table.add_column(head, overflow="fold")
    for line in lines:
        mark = "[green]right[/]" if line.right else "[red]WRONG[/]"
        table.add_row(line.task, line.status, line.jobs, line.found, line.expected, mark)
    console.print(table)
    console.print(f"The outputs lie in {results}")


def still_running(home: Home) -> dict[int, str]:
    """The processes that belong to the home, with their command lines (empty without /proc)."""
    marks = [f"JEDI_HOME={home.path}".encode(), str(home.root).encode()]
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            spoken = command + (process / "environ").read_bytes()
        except OSError:
            continue
        if any(mark in spoken for mark in marks):
            found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def main() -> int:
    """Run the demo; 0 if every result is right, every invariant holds and nothing is left."""
    begin = clock.monotonic()
    demo = Demo(Path(tempfile.mkdtemp(prefix="jedi-demo-")))
    console.print(f"JEDI runs in a scratch home, {demo.home.path}")
    with demo.system():
        lines = demo.run()
        summary(lines, demo.results)
        demo.call("jedi", "check", show=True)
    left = still_running(demo.home)
    right = all(line.right for line in lines) and not left
    if right:
        demo.home.discard()
    else:
        console.print(f"[red]Something went wrong.[/] Logs are in {demo.home.logs}; left: {left}")
    console.print(
        f"{'All is well' if right else 'Not well'} after {clock.monotonic() - begin:.0f} s"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
