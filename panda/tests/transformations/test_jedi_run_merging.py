"""Merge jobs of prun. See docs/panda.md#transformation."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from support.jedi_run import contents, run, sandbox

TOOLS = ("env", "python3", "bash", "sh", "cat")


def files(job: Path, **texts: str) -> None:
    job.mkdir(exist_ok=True)
    for name, text in texts.items():
        (job / name).write_text(text)


def path_without_hadd(tmp_path: Path) -> str:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(f"/usr/bin/{name}")
    return str(tools)


def test_text_is_put_end_to_end(tmp_path: Path) -> None:
    """`-r . -a jobO... --sourceURL URL in1,in2:out`; no script: the archive is not needed."""
    files(tmp_path, in1="one\n", in2="two\n", in3="three\n")
    done = run(tmp_path, "merge -r . -a jobO.1.tar.gz --sourceURL http://h:1 in1,in2:out in3:last ")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
    assert (tmp_path / "last").read_text() == "three\n"


def test_logs_become_an_archive_of_archives(tmp_path: Path) -> None:
    sandbox(tmp_path / "1.log.tgz", {"a": "A"})
    sandbox(tmp_path / "2.log.tgz", {"b": "B"})
    before = {name: (tmp_path / name).read_bytes() for name in ("1.log.tgz", "2.log.tgz")}
    done = run(tmp_path, "-r . 1.log.tgz,2.log.tgz:m.log.tgz")
    assert (done.returncode, done.stderr) == (0, "")
    assert archive_bytes(tmp_path / "m.log.tgz") == before


def archive_bytes(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {m.name: f.read() for m in tar if (f := tar.extractfile(m))}


def test_a_script_of_the_sandbox_merges(tmp_path: Path) -> None:
    """`prun --mergeScript "merge.sh %OUT %IN"` gives `-j "merge.sh %OUT %IN"`."""
    script = '#!/bin/sh\nIFS=,; set -- "$1" $2\nout=$1; shift; cat head "$@" > $out\n'
    sandbox(tmp_path / "s.tar.gz", {"d/merge.sh": script, "d/head": "H\n"})
    files(tmp_path, a="A\n", b="B\n", c="C\n")
    done = run(tmp_path, 'merge -r d -j "merge.sh %OUT %IN" -a s.tar.gz a,b:ab c:C')
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ab").read_text() == "H\nA\nB\n"
    assert (tmp_path / "C").read_text() == "C\n"  # one file: a copy
    assert not (tmp_path / "jedi_work").exists()


def test_a_script_may_merge_a_single_file(tmp_path: Path) -> None:
    files(tmp_path, a="A\n")
    done = run(tmp_path, "-r . --mergeSingleFile -j 'cat %IN %IN > %OUT' a:out")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "A\nA\n"


def test_a_failed_script_returns_its_code(tmp_path: Path) -> None:
    files(tmp_path, a="", b="")
    assert run(tmp_path, "-r . -j 'exit 9; %IN %OUT' a,b:out").returncode == 9
    done = run(tmp_path, "-r . -j 'true %IN %OUT' a,b:out")
    assert done.returncode == 85
    assert "merge 'out': the merge script made no such file; let it write %OUT." in done.stderr


def test_root_files_are_merged_by_hadd(tmp_path: Path) -> None:
    """Stand-in: a program `hadd TARGET SOURCES` that puts text end to end."""
    path = path_without_hadd(tmp_path)
    hadd = Path(path) / "hadd"
    hadd.write_text("#!/bin/sh\nout=$1; shift; cat $@ > $out\n")
    hadd.chmod(0o755)
    job = tmp_path / "job"
    files(job, **{"a.root": "A", "b.root": "B"})
    done = run(job, "-r . a.root,b.root:m.root.1", PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (job / "m.root.1").read_text() == "AB"


def test_root_files_need_hadd(tmp_path: Path) -> None:
    path = path_without_hadd(tmp_path)
    job = tmp_path / "job"
    files(job, a="A", b="B")
    done = run(job, "-r . a,b:m.root", PATH=path)
    assert done.returncode == 86
    rule = "hadd is not on PATH; use a site with ROOT, or give --mergeScript."
    assert done.stderr == f"jedi-run: merge 'm.root': {rule}\n"
    assert run(job, "-r . a:m.root", PATH=path).returncode == 0  # one file needs no hadd


@pytest.mark.parametrize("kind", ["pickle", "pkl", "zip", "h5", "parquet", "npz.1"])
def test_pickles_and_their_like_need_a_script(tmp_path: Path, kind: str) -> None:
    files(tmp_path, a="A", b="B")
    done = run(tmp_path, f"-r . a,b:m.{kind}")
    assert done.returncode == 86
    assert "can't be put end to end; give --mergeScript." in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "jedi-run"]


def test_missing_inputs_of_merges(tmp_path: Path) -> None:
    files(tmp_path, a="A")
    done = run(tmp_path, "-r . a,b,c:m")
    assert done.returncode == 84
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" merge 'b'", " merge 'c'"]


def test_an_output_is_no_input(tmp_path: Path) -> None:
    files(tmp_path, a="A", b="B")
    done = run(tmp_path, "-r . a,b:b")
    assert done.returncode == 86
    assert (tmp_path / "b").read_text() == "B"


def test_logs_of_prun_wildcards_merge(tmp_path: Path) -> None:
    sandbox(tmp_path / "1.tgz", {"a": "A"})
    (tmp_path / "2.tgz").symlink_to("1.tgz")  # pilots may link what lies on a local disk
    assert run(tmp_path, "-r . 1.tgz,2.tgz:m.tgz").returncode == 0
    (tmp_path / "m.tgz").rename(tmp_path / "x")
    assert sorted(archive_bytes(tmp_path / "x")) == ["1.tgz", "2.tgz"]
    assert contents(tmp_path / "1.tgz") == {"a": "A"}
