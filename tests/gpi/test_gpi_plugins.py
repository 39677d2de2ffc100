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
from jedi_client.gpi.schema import PluginUnusable, from_document

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
    with pytest.raises(PluginUnusable, match=said):
        from_document({"type": name})
    with pytest.warns(UserWarning, match=said):
        assert {"Executable", "Script"} <= set(plugins.list_applications())


PROGRAM = """
import json, sys
from pathlib import Path
from jedi_client import (Job, list_applications, list_backends, list_choices, list_datasets,
                         list_defaults, list_mergers, list_splitters)

at = Path(sys.argv[1])
print(json.dumps([list_applications(), list_backends(), list_splitters(), list_mergers(),
                  list_datasets(), list_choices("Gaudi", "version"), list_defaults("Gaudi")]))
from jedi_client_sample import Gaudi, InSession, ListFile, SeedSplitter, SumMerger

job = Job(Gaudi("v2", at / "fit.opts"), ListFile(at / "list.txt"), outputsandbox="n.json",
          splitter=SeedSplitter(3, first=7), merger=SumMerger(["n.json"]), backend=InSession)
print(job.preview())
try:
    job.application.version = "v3"
except Exception as error:
    print(error)
job.submit()
print(job.wait(), [one.status for one in job.subjobs])
print(job.output("n.json").read_text())
refused = job.subjobs(0).resubmit(keep_going=True)
print(bool(refused), refused.failed)
"""
AGAIN = """
from jedi_client import jobs
print(jobs(0).application, jobs(0).subjobs(2).application.seed)
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
    paths = [str(site), f"{CHECKOUT}/client/src", sysconfig.get_path("purelib")]
    ours = {k: v for k, v in os.environ.items() if not k.startswith("JEDI_")}
    home = {"JEDI_CLIENT_HOME": str(tmp_path / "home"), "GAUDI_RELEASES": str(release.parent)}

    def said(program: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path],
            capture_output=True,
            text=True,
            check=False,
            env={**ours, **home, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    lists, *lines = said(PROGRAM)
    *names, versions, defaults = json.loads(lists)
    missing = [set(mine) - set(found) for mine, found in zip(_expected(), names, strict=True)]
    assert missing == [set()] * 5
    assert versions == ["v1", "v2"]
    assert defaults == {
        "version": None,
        "optsfile": "",
        "platform": "x86_64-el9-gcc13-opt",
        "seed": 1,
    }
    assert lines[:4] == [
        "2 inputs -> 3 subjobs",
        "Gaudi.version: 'v3': is not among the choices. Choices: v1, v2.",
        "completed ['completed', 'completed', 'completed']",
        '{"seed": 24}',
    ]
    assert "InSession runs subjobs while it submits them" in lines[4] and lines[4][:5] == "False"
    assert said(AGAIN) == [f"Gaudi(version='v2', optsfile='{tmp_path}/fit.opts') 9"]


def _expected() -> list[Any]:
    return [
        ["Executable", "Gaudi", "Script"],
        ["InSession", "JEDI", "Local"],
        ["ArgSplitter", "SeedSplitter"],
        ["SumMerger", "TextMerger"],
        ["Dataset", "ListFile"],
    ]
