"""Mergers of outputs. Source: docs/reference/ganga.md#mergers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jedi_client import ArgSplitter, Job, JobError, Script
from jedi_client.gpi.local.backend import LocalBackend
from jedi_client.gpi.mergers import (
    CustomMerger,
    OutputMerger,
    RootMerger,
    TextMerger,
    merge_outputs,
)
from jedi_client.gpi.report import MergeFailed
from support.embedded import wait_for


def folders(tmp_path: Path, *texts: str | None, name: str = "out") -> list[Path]:
    """Output folders of subjobs; None: the subjob made no file."""
    made = []
    for k, text in enumerate(texts):
        folder = tmp_path / str(k) / "output"
        folder.mkdir(parents=True)
        if text is not None:
            (folder / name).write_text(text)
        made.append(folder)
    return made


def merged(merger: OutputMerger, at: list[Path], to: Path) -> str:
    (result,) = merge_outputs(merger, at, to)
    return result.read_text()


def test_texts_follow_in_the_order_of_subjobs(tmp_path: Path) -> None:
    """Check 24: text, order."""
    at = folders(tmp_path, "a\n", "b", "", "c\nd")
    assert merged(TextMerger(["out"]), at, tmp_path / "to") == "a\nb\nc\nd\n"
    again = TextMerger(["out"], headers=True, overwrite=True)
    expected = "".join(
        f"# {folder / 'out'}\n{text}"
        for folder, text in zip(at, ("a\n", "b\n", "", "c\nd\n"), strict=True)
    )
    assert merged(again, at, tmp_path / "to") == expected


def test_a_missing_file_fails_the_merge(tmp_path: Path) -> None:
    """Check 24: missing file; nothing is written then."""
    at = folders(tmp_path, "a", None, "c")
    with pytest.raises(MergeFailed, match=r"1 of 3 files .* missing.*/1/output/out"):
        merge_outputs(TextMerger(["out"]), at, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []
    assert merged(TextMerger(["out"], ignore_missing=True), at, tmp_path / "to") == "a\nc\n"
    with pytest.raises(MergeFailed, match="2 of 2 files"):
        merge_outputs(TextMerger(["no"], ignore_missing=True), at[:2], tmp_path / "to")


def test_an_earlier_result_stays(tmp_path: Path) -> None:
    at = folders(tmp_path, "a", "b")
    to = tmp_path / "to"
    assert merged(TextMerger(["out"]), at, to) == "a\nb\n"
    (at[0] / "out").write_text("new")
    with pytest.raises(MergeFailed, match=r"exists. Remove it, or set overwrite=True"):
        merge_outputs(TextMerger(["out"]), at, to)
    assert (to / "out").read_text() == "a\nb\n"
    assert merged(TextMerger(["out"], overwrite=True), at, to) == "new\nb\n"


def test_all_files_are_merged_or_none(tmp_path: Path) -> None:
    at = folders(tmp_path, "a", "b")
    (at[0] / "second").write_text("")
    with pytest.raises(MergeFailed, match="second"):
        merge_outputs(TextMerger(["out", "second"]), at, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


SUM = """
import sys
from collections.abc import Sequence
from pathlib import Path
target, *files = sys.argv[1:]
Path(target).write_text(str(sum(int(Path(one).read_text()) for one in files)))
"""


def test_a_program_of_the_user_merges(tmp_path: Path) -> None:
    """Check 24: custom. A process gets the target and the files; nothing is evaluated here."""
    program = tmp_path / "add.py"
    program.write_text(SUM)
    at = folders(tmp_path, "1", "2", "30")
    assert merged(CustomMerger(["out"], program=program), at, tmp_path / "to") == "33"
    shell = tmp_path / "cat.sh"
    shell.write_text(
        '#!/bin/sh\nsep=$1; to=$2; shift 2; for f in "$@"; do cat $f; printf "$sep"; done > $to\n'
    )
    shell.chmod(0o755)
    other = CustomMerger(["out"], program=shell, args=["; "])
    assert merged(other, at, tmp_path / "other") == "1; 2; 30; "


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('no such bin')", "exit code 1: no such bin"),
        ("import sys; sys.exit(3)", "exit code 3 and printed nothing$"),
        ("pass", "CustomMerger wrote no out"),
        ("import sys; open(sys.argv[1], 'w').write('half'); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_failing_program_fails_the_merge(tmp_path: Path, program: str, said: str) -> None:
    """Check 24: failing merge; the target is as it was."""
    (tmp_path / "bad.py").write_text(program)
    at = folders(tmp_path, "1", "2")
    with pytest.raises(MergeFailed, match=said):
        merge_outputs(CustomMerger(["out"], program=tmp_path / "bad.py"), at, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []
    with pytest.raises(MergeFailed, match="can't be run"):
        CustomMerger(["out"], program=str(tmp_path)).merge([], tmp_path / "x")


def test_jobs_merge_at_their_end_later_or_not(home: Path, tmp_path: Path) -> None:
    """Row 77 (A 3.2.2.9): a new job merges at its end, a finished one now; `merge(None)` disables;
    the result is in the output of the job itself. Check 24: a failing merge is an error."""
    (tmp_path / "say.sh").write_text("echo $1 > out\n")
    (tmp_path / "bad.py").write_text("raise SystemExit('no sum')")
    first = Job(Script(tmp_path / "say.sh"), splitter=ArgSplitter(["a", "b"]), outputsandbox="out")
    first.merge(TextMerger(["out"]))
    second = Job(first)
    second.merge(None)
    third = Job(first, merger=CustomMerger(["out"], program=tmp_path / "bad.py"))
    for job in (first, second, third):
        job.submit()
    # `wait` asks every 5 s: ask it when all have ended
    runs = LocalBackend(home=home)
    wait_for(
        lambda: all(
            runs.states({str(job.backend.id): None})[0].status == "ended"
            for job in (first, second, third)
        )
    )
    assert first.wait(60) == "completed" and first.output("out").read_text() == "a\nb\n"
    assert second.wait(60) == "completed"
    with pytest.raises(JobError, match="has no merged file 'out'"):
        second.output("out")
    [path] = second.merge(TextMerger(["out"]))
    assert path == second.output("out") and path.parent == home / "jobs" / "1" / "output"
    with pytest.raises(MergeFailed, match="no sum"):
        third.wait(60)


class DividingMerger(OutputMerger):
    """A plug-in with a mistake."""

    def merge(self, files: Sequence[Path], to: Path) -> None:
        to.write_text(str(1 / 0))


def test_a_failing_plugin_fails_the_merge(tmp_path: Path) -> None:
    with pytest.raises(MergeFailed, match="DividingMerger failed: ZeroDivisionError"):
        merge_outputs(DividingMerger(["out"]), folders(tmp_path, "1"), tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_programs_are_checked_before_submission(tmp_path: Path) -> None:
    class Job:
        outputsandbox = ("out",)

    def rules(program: str) -> list[str]:
        return [one.rule for one in CustomMerger(["out"], program=program).check(Job())]

    assert rules("sh") == [] and rules(sys.executable) == []
    assert rules("") == ["names no program"]
    assert rules("no-such-command") == ["is no command on this machine"]
    assert rules("/no/such.py") == ["does not exist"]


def test_without_uproot_the_remedy_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RootMerger is an extra: a clear error with remedy if uproot is not installed."""
    monkeypatch.setitem(sys.modules, "uproot", None)
    monkeypatch.delitem(sys.modules, "jedi_client.gpi.root_files", raising=False)
    at = folders(tmp_path, "1", "2")
    with pytest.raises(MergeFailed, match=r"needs uproot .* pip install 'jedi-client\[root\]'"):
        merge_outputs(RootMerger(["out"]), at, tmp_path / "to")


def write_root(path: Path, shift: int, weights: Any = None) -> None:
    import awkward
    import numpy as np
    import uproot

    x = np.arange(10.0) + shift
    with uproot.recreate(path) as file:
        file["mass"] = np.histogram(x, bins=5, range=(0, 10), weights=weights)
        file["deep/plane"] = np.histogram2d(x, x, bins=4, range=[(0, 20), (0, 20)])
        file.mkrntuple("points", {"z": awkward.Array([[1.5], [shift, 2]])})
        file.mktree("empty", {"e": "float64"})
        file.mktree("hits", {"e": "float64", "v": "var * int64"}).extend(
            {"e": x[:2], "v": awkward.Array([[shift], []])}
        )


def test_histograms_are_added_and_trees_follow(tmp_path: Path) -> None:
    """Check 24 and row 77: hadd's sums. Values 0-9, 1-10 and 2-11 in bins of 2 up to 10: the first
    bin has 2 + 1 + 0 entries, the last 2 each; 10, 10 and 11 overflow (10 is the upper edge, which
    numpy counts in)."""
    uproot = pytest.importorskip("uproot")
    at = folders(tmp_path, None, None, None)
    for shift, folder in enumerate(at):
        write_root(folder / "h.root", shift)
    (result,) = merge_outputs(RootMerger(["h.root"]), at, tmp_path / "to")
    with uproot.open(result) as file:
        assert file["mass"].values().tolist() == [3, 6, 6, 6, 8]
        assert file["mass"].variances().tolist() == [3, 6, 6, 6, 8]
        assert file["mass"].member("fEntries") == 29
        assert file["deep/plane"].values().sum() == 30
        assert file["hits"]["e"].array().tolist() == [0, 1, 1, 2, 2, 3]
        assert file["hits"]["v"].array().tolist() == [[0], [], [1], [], [2], []]
        assert file["points"]["z"].array().tolist() == [[1.5], [0, 2], [1.5], [1, 2], [1.5], [2, 2]]
        assert file["empty"].num_entries == 0


def test_weights_profiles_and_axes(tmp_path: Path) -> None:
    """Sums of squared weights add up, also when one file has none (then they are its contents);
    histograms with other axes have no sum."""
    uproot = pytest.importorskip("uproot")
    import numpy as np
    from jedi_client.gpi.root_files import add_up

    def histogram(name: str, contents: list[float], squares: list[float], high: float = 2) -> Path:
        make = uproot.writing.identify
        axis = make.to_TAxis("x", "", 2, 0.0, high)
        data, counts, none = (np.array(one, ">f8") for one in ([0, *contents, 0], [0, 1, 1, 0], []))
        path = tmp_path / name
        with uproot.recreate(path) as file:
            file["h"] = make.to_TH1x(
                "h", "", data, len(contents), sum(contents), 0, 0, 0, np.array(squares, ">f8"), axis
            )
            file["p"] = make.to_TProfile(
                "p", "", data, 2, 2, 2, 0, 0, sum(contents), 0, data, counts, none, axis
            )
        return path

    files = [histogram("a", [1, 2], []), histogram("b", [3, 4], [0, 9, 16, 0])]
    for order in (files, files[::-1]):
        add_up(order, tmp_path / "sum")
        with uproot.open(tmp_path / "sum") as file:
            assert file["h"].values().tolist() == [4, 6]
            assert file["h"].variances().tolist() == [10, 18]
            assert file["p"].values().tolist() == [2, 3]
    with pytest.raises(MergeFailed, match="histogram h has other axes than before"):
        add_up([files[0], histogram("c", [1, 2], [], high=3)], tmp_path / "sum")
    (tmp_path / "broken").write_text("no ROOT file")
    with pytest.raises(MergeFailed, match="broken"):
        add_up([files[0], tmp_path / "broken"], tmp_path / "sum")
    (tmp_path / "torn").write_bytes(files[0].read_bytes()[:700])
    with pytest.raises(MergeFailed, match="torn"):
        add_up([files[0], tmp_path / "torn"], tmp_path / "sum")
    for name, branch in (("one", "a"), ("other", "b")):
        with uproot.recreate(tmp_path / name) as file:
            file.mktree("t", {branch: "int32"})
    with pytest.raises(
        MergeFailed, match=r"tree t has the branches \['b'\], before it had \['a'\]"
    ):
        add_up([tmp_path / "one", tmp_path / "other"], tmp_path / "sum")
    with uproot.recreate(tmp_path / "text") as file:
        file["note"] = "words"
    with pytest.raises(MergeFailed, match="note is a TObjString, which has no sum"):
        add_up([tmp_path / "text"], tmp_path / "sum")
