"""Plug-ins of the client: the lists, and the sample distribution as pip installs it.

Source: docs/reference/ganga.md#plug-ins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from jedi_client.errors import BadInput
from jedi_client.gpi import plugins
from jedi_client.gpi.applications import Script
from jedi_client.gpi.schema import from_document

CHECKOUT = Path(__file__).parents[2]
SAMPLE = CHECKOUT / "examples" / "client_plugin"


def test_lists_of_the_client_itself() -> None:
    """A 4.4.2 and 4.4.3: list_applications, list_defaults, list_choices, list_backends."""
    assert {"Executable", "Script"} <= set(plugins.list_applications())
    assert {"JEDI", "Local"} <= set(plugins.list_backends())
    assert {
        "ArgSplitter",
        "EventSplitter",
        "FileSplitter",
        "GenericSplitter",
        "SizeSplitter",
    } <= set(plugins.list_splitters())
    assert {"CustomMerger", "RootMerger", "TextMerger"} <= set(plugins.list_mergers())
    assert "Dataset" in plugins.list_datasets()
    expected = {"file": "", "args": [], "environment": {}, "interpreter": ""}
    for part in ("Script", Script, Script("x")):
        assert plugins.list_defaults(part) == expected
    assert plugins.list_choices("Script", "args") is None
    with pytest.raises(BadInput, match=r"'Scrpt': is no known class. Did you mean Script\?"):
        plugins.list_defaults("Scrpt")
    with pytest.raises(BadInput, match=r"Script has no such one. Did you mean args\?"):
        plugins.list_choices("Script", "arg")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Broken", "no_such_module:Broken", "can't be loaded: ModuleNotFoundError"),
        ("MergeFailed", "jedi_client.gpi.mergers:MergeFailed", "is no subclass of Application"),
        ("Odd", "jedi_client.gpi.applications:Script", "has the name Script as a class"),
    ],
)
def test_a_broken_plugin_harms_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    """One plug-in that can't be loaded is left out with a warning; its documents are refused."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[jedi_client.applications]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(plugins.PluginUnusable, match=said):
        from_document({"type": name})
    with pytest.warns(UserWarning, match=said):
        assert {"Executable", "Script"} <= set(plugins.list_applications())


PROGRAM = """
import json, sys
from pathlib import Path
from jedi_client.gpi import plugins
from jedi_client.gpi.checks import problems_of
from jedi_client.gpi.interfaces import Submission, UnitPlan
from jedi_client.gpi.mergers import merge_outputs
from jedi_client.gpi.overrides import overridden
from jedi_client.gpi.schema import Described, from_document, prop, to_document

class Simulation(Described):
    "A job as parts see it."
    application: plugins.base("applications") = prop(doc="Program")
    backend: plugins.base("backends") = prop(doc="Backend")
    splitter: plugins.base("splitters") = prop(doc="Splitter")
    merger: plugins.base("mergers") = prop(doc="Merger")
    inputdata: plugins.base("datasets") = prop(doc="Input")
    inputsandbox: list[str] = prop([], doc="Sandbox")
    outputsandbox: list[str] = prop(["n.json"], doc="Outputs")

at = Path(sys.argv[1])
print(json.dumps([plugins.list_applications(), plugins.list_backends(), plugins.list_splitters(),
                  plugins.list_mergers(), plugins.list_datasets(),
                  plugins.list_choices("Gaudi", "version"), plugins.list_defaults("Gaudi")]))
job = from_document({
    "type": "Simulation", "backend": {"type": "InSession"},
    "application": {"type": "Gaudi", "version": "v2", "optsfile": str(at / "fit.opts")},
    "splitter": {"type": "SeedSplitter", "subjobs": 3, "first": 7},
    "merger": {"type": "SumMerger", "files": ["n.json"]},
    "inputdata": {"type": "ListFile", "path": str(at / "list.txt")},
})
assert from_document(json.loads(json.dumps(to_document(job)))) == job
assert problems_of(job) == [], problems_of(job)
assert job.inputdata.files_of(job) == ["/data/a", "/data/b"]
views = [overridden(job, one.values) for one in job.splitter.split(job)]
units = [UnitPlan(k, one.application.program(one)) for k, one in enumerate(views)]
backend = job.backend.connect(job)
accepted = backend.submit(Submission("key", "job", to_document(job), units[0].program, (), (),
                                     ("n.json",), units, None, True, at / "job"))
[state] = backend.states({accepted.backend_id: None})
print(json.dumps([[one.status for one in state.changed], backend.kill(accepted.backend_id, [0])]))
folders = [path.parent for path in backend.fetch(
    accepted.backend_id, [one for one in backend.outputs(accepted.backend_id)
                          if one.name == "n.json"], at / "job")]
print(merge_outputs(job.merger, folders, at / "job" / "output")[0].read_text())
try:
    job.application.version = "v3"
except Exception as error:
    print(json.dumps(str(error)))
"""


def test_every_kind_of_plugin_has_a_sample(tmp_path: Path) -> None:
    """A 3.7, 4.11.1: an entry point is discovered on install; a schema and two functions suffice.
    By hand: seeds 7, 8 and 9 sum up to 24."""
    site, release = tmp_path / "site", tmp_path / "releases" / "v2"
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--no-compile")
    subprocess.run(
        [sys.executable, "-m", "pip", "-q", "install", *options, "--target", site, SAMPLE],
        check=True,
    )
    release.mkdir(parents=True)
    (release.parent / "v1").mkdir()
    (release / "run").write_text('#!/bin/sh\necho "{\\"seed\\": $SEED}" > n.json\n')
    (release / "run").chmod(0o755)
    (tmp_path / "fit.opts").write_text("")
    (tmp_path / "list.txt").write_text("# two\n/data/a\n\n/data/b\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = [str(site), f"{CHECKOUT}/client/src", sysconfig.get_path("purelib")]
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", tmp_path], capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths),
                          "GAUDI_RELEASES": str(release.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lists, states, merged, refusal = (json.loads(line) for line in done.stdout.splitlines())
    missing = [set(mine) - set(found) for mine, found in zip(_expected(), lists, strict=False)]
    assert missing == [set()] * 5
    assert lists[5] == ["v1", "v2"]
    assert lists[6] == {"version": None, "optsfile": "", "platform": "x86_64-el9-gcc13-opt",
                        "seed": 1}  # fmt: skip
    assert states == [["completed"] * 3, {"0": states[1]["0"]}] and "InSession" in states[1]["0"]
    assert merged == {"seed": 24}
    assert refusal == "Gaudi.version: 'v3': is not among the choices. Choices: v1, v2."


def _expected() -> list[Any]:
    return [["Executable", "Gaudi", "Script"], ["InSession", "JEDI", "Local"],
            ["ArgSplitter", "SeedSplitter"], ["SumMerger", "TextMerger"],
            ["Dataset", "ListFile"]]  # fmt: skip
