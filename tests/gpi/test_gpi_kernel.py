"""Notebooks and completion in a real kernel, in an environment of its own.

IPython brings a library whose import name is the server's: the environment has the client alone.
Source: docs/reference/ganga.md#notebooks.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import work_off

from jedi.agent.base import World

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "support" / "kernel.py"
NOTEBOOKS = ROOT / "examples" / "notebooks"
THREADS = 'print("new threads:", len(set(threading.enumerate()) - before))'


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The interpreter of the environment that `make kernel` installs."""
    if not (ROOT / ".venv-kernel" / ".installed").exists():
        pytest.skip("no kernel of notebooks is here: make kernel")
    return ROOT / ".venv-kernel" / "bin" / "python"


def asked(kernel: Path, home: Path, *words: str) -> Any:
    """The answer of the script in the environment."""
    environment = {**os.environ, "JEDI_CLIENT_HOME": str(home), "JEDI_HELPER_IDLE_S": "0.3"}
    done = subprocess.run(
        [str(kernel), str(SCRIPT), *words],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def texts(cell: dict[str, Any]) -> str:
    """All that a cell shows."""
    shown: list[Any] = []
    for out in cell["outputs"]:
        shown += [out["text"]] if "text" in out else out.get("data", {}).values()
    return "".join("".join(one) for one in shown)


def run(kernel: Path, home: Path, name: str) -> dict[str, str]:
    """What each cell of a notebook shows, by the last line of its code."""
    book = asked(kernel, home, "run", str(NOTEBOOKS / f"{name}.ipynb"), str(home))
    return {
        "".join(cell["source"]).splitlines()[-1]: texts(cell)
        for cell in book["cells"]
        if cell["cell_type"] == "code"
    }


def test_all_notebooks_have_a_test() -> None:
    """Expected: `runs examples/notebooks/*.ipynb`."""
    found = {one.stem for one in NOTEBOOKS.glob("*.ipynb")}
    assert found == {"dice", "dice_in_jedi"}


def test_dice_run_on_this_machine(kernel: Path, tmp_path: Path) -> None:
    """Expected: `a table as repr`, `errors (grouped)`, `plot() of progress and times`, no thread.
    Ten subjobs, of which number 7 has no luck. The page shows the end although all cells ran at
    once."""
    shown = run(kernel, tmp_path, "dice")
    assert " dice " in shown["j.show()"] and "9 completed, 1 failed" in shown["j.show()"]
    assert "<table>" in shown["jobs"] and "dice" in shown["jobs"]
    assert shown['j.subjobs.select(status="failed")'].count("<tr>") == 2
    assert "exit code is 1" in shown["j.errors"] and "(subjobs 7)" in shown["j.errors"]
    assert "<svg" in shown["j.plot()"] and "10 ended attempts" in shown["j.plot()"]
    assert shown[THREADS] == "new threads: 0\n"


def test_dice_run_in_jedi(kernel: Path, tmp_path: Path, world: World, service: None) -> None:
    """Expected: the same in JEDI, by the unix socket of JEDI_HOME: four subjobs at a site, the
    service's page of their task at its end, without links and actions, which a socket does not
    serve, and a plot."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, kernel, tmp_path, "dice_in_jedi")
        while not running.done():
            with world.engine.begin() as tx:
                tasks = tx.scalars(text("SELECT jeditaskid FROM jedi_tasks")).all()
            if tasks:
                work_off(world, tasks[0])
                break
            time.sleep(0.1)
        shown = running.result()
    for said in ("4 of 4 input files were processed.", "SITE_A: 4 finished", "user.root:job.1.log"):
        assert said in shown["j.show()"]
    for said in ("href", "Remove outputs", "Parameters"):
        assert said not in shown["j.show()"]
    assert shown["j.wait(600)"] == "'completed'"
    assert shown["j.subjobs"].count("<td style='text-align:left'>completed</td>") == 4
    assert shown["j.subjobs"].count("SITE_A") == 4
    assert "<desc>4 completed</desc>" in shown["j.plot()"]
    assert shown[THREADS] == "new threads: 0\n"


def test_a_page_follows_its_job(kernel: Path, tmp_path: Path) -> None:
    """Expected: `a job's page that updates in place without threads and stops when it is done`."""
    *pages, threads = asked(kernel, tmp_path, "follow", str(tmp_path))
    assert "Job 0 is completed" in pages[-1] and "Job 0 is completed" not in pages[0]
    assert threads == "new threads: 0\n"


def test_names_are_completed_anywhere(kernel: Path, tmp_path: Path) -> None:
    """Expected: `completion of j.su…, in a real kernel, in the checkout's root and elsewhere`."""
    for place in (ROOT, tmp_path):
        found = asked(
            kernel, tmp_path, "complete", str(place), "jedi_client.jo", "j.su", "jobs.sel"
        )
        names = {code: {name.rpartition(".")[2] for name in found[code]} for code in found}
        assert {"subjobs", "submit"} <= names.pop("j.su"), place
        assert names == {"jedi_client.jo": {"jobs"}, "jobs.sel": {"select"}}, place
