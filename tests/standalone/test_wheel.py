"""The distributions as people install them: wheels, far from any checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from jedi import __version__
from jedi.demo.__main__ import still_running
from jedi.host.home import Home

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).parents[2]


class Installed:
    """The wheels in a virtual environment of its own, with a home beside it.

    What they depend on is not downloaded again: a .pth file names a directory with links to all
    but JEDI that our own environment has.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.home = scratch, Home(scratch / "home")
        self._bin = scratch / "venv" / "bin"
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("JEDI_", "PYTHON"))}
        self._environment = {**ours, "JEDI_HOME": str(self.home.path)}

    def install(self) -> None:
        """Build the wheels of the client and the server and install them."""
        self.run(sys.executable, "-m", "venv", "--without-pip", str(self._bin.parent))
        self.add(CHECKOUT / "client", CHECKOUT)
        python = str(self._bin / "python")
        site = self.run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        dependencies = self.scratch / "dependencies"
        dependencies.mkdir()
        for one in Path(sysconfig.get_path("purelib")).iterdir():
            if "jedi" not in one.name:
                (dependencies / one.name).symlink_to(one)
        (Path(site.strip()) / "dependencies.pth").write_text(f"{dependencies}\n")

    def add(self, *sources: Path) -> None:
        """Build wheels and install them."""
        python, pip = str(self._bin / "python"), [sys.executable, "-m", "pip", "--quiet"]
        wheels = self.scratch / f"wheels-{sources[-1].name}"
        self.run(
            *pip,
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(wheels),
            *map(str, sources),
        )
        self.run(
            *pip,
            "--python",
            python,
            "install",
            "--no-deps",
            "--no-index",
            *map(str, wheels.iterdir()),
        )

    def run(self, *command: str) -> str:
        """What a command prints; it must succeed."""
        done = subprocess.run(
            command,
            cwd=self.scratch,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def call(self, program: str, *words: str) -> str:
        """Run one of the programs of the environment."""
        return self.run(str(self._bin / program), *words)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installed = Installed(tmp_path_factory.mktemp("wheel"))
    installed.install()
    yield installed
    installed.call("jedi", "down", "--drain", "0")
    assert not still_running(installed.home)
    installed.home.discard()


def test_each_program_knows_its_version(installed: Installed) -> None:
    """The server needs the client of its own version."""
    for program in ("jedi", "jedi-task", "jedi-job"):
        assert installed.call(program, "--version") == f"JEDI {__version__}\n"
    names = "import jedi, jedi_client; print(*jedi.__path__, *jedi_client.__path__, sep='\\n')"
    for place in installed.call("python", "-c", names).split():
        assert Path(place).is_relative_to(installed.scratch)


def test_the_first_task(installed: Installed) -> None:
    package = Path(installed.call("python", "-c", "import jedi; print(*jedi.__path__)").strip())
    assert package.is_relative_to(installed.scratch)
    installed.call("jedi", "up", "--detach")
    task = package / "_examples" / "hello.yaml"
    submitted = json.loads(installed.call("jedi-task", "submit", str(task), "--json"))
    number = str(submitted["jedi_task_id"])
    installed.call("jedi-task", "wait", number, "--timeout", "120")
    installed.call("jedi-task", "get", number, "results")
    results = (installed.scratch / "results").rglob("hello.*.txt")
    assert sorted(file.read_text() for file in results) == [
        f"Hello from job 00000{number}\n" for number in (1, 2, 3)
    ]
    installed.call("jedi", "check", "--files")


def test_panda_speaks_once_it_is_installed(installed: Installed) -> None:
    """The server runs without the wire; it serves it after the next start."""
    assert json.loads(installed.call("jedi", "status", "--json"))["wires"] == {}
    installed.add(CHECKOUT / "panda")
    assert "wires       jedi-panda " in installed.call("jedi", "status")
    found = "from jedi.core.extensions import extensions as e; print(e('jedi.wires')[0].trouble)"
    assert installed.call("python", "-c", found) == "\n"
    installed.call("jedi", "down", "--drain", "0")
    installed.call("jedi", "up", "--detach")
    assert installed.call("jedi-task", "list")
