"""No file of the current directory takes the place of a module when JEDI starts itself: an
`http.py` there stopped agents, and was executed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jedi.host import questions

CHECKOUT = Path(__file__).parents[2]
MODULES = ("http", "typer", "json", "selectors", "psycopg", "argparse", "jedi_client")
STARTED = re.compile(r'sys\.executable,\s*"-[mc]"')


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with modules that leave a mark when somebody imports them."""
    place = tmp_path / "here"
    place.mkdir()
    for name in MODULES:
        (place / f"{name}.py").write_text(f"open({str(place / 'mark')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(place)
    return place / "mark"


@pytest.mark.parametrize("module", ["jedi", "jedi.pilot"])
def test_programs_take_no_module_from_the_current_directory(trap: Path, module: str) -> None:
    words = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not trap.exists(), trap.read_text()
    assert done.returncode == 0 and "usage" in done.stdout.lower(), done.stderr


def test_the_process_of_a_question_takes_none_either(trap: Path) -> None:
    questions.ask("jedi.splitter.child", b"{}", 20)
    assert not trap.exists(), trap.read_text()


def test_jedi_starts_python_with_a_safe_path_alone() -> None:
    """Expected: -P or -I, wherever it starts itself."""
    found = [
        str(path.relative_to(CHECKOUT))
        for folder in ("jedi", "client/src", "panda/src")
        for path in (CHECKOUT / folder).rglob("*.py")
        if STARTED.search(path.read_text())
    ]
    assert found == []
