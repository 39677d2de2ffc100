"""Data management on directories: what people lay down, and what is remembered of it."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.ddm_steps import COUNTER, adler, endpoint_roots, put, refused, stage, swap

from jedi.core import strictyaml
from jedi.core.errors import BadInput
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import FileInfo, Replica


@pytest.fixture
def fs(tmp_path: Path) -> FileSystemDDM:
    return FileSystemDDM(endpoint_roots(tmp_path))


def lay(root: Path, name: str, files: dict[str, str]) -> Path:
    """What a person does: a directory with files, `.dataset.yaml` among them."""
    home = root.joinpath(*name.split(":"))
    home.mkdir(parents=True, exist_ok=True)
    for lfn, text in files.items():
        (home / lfn).write_text(text)
    return home


def test_a_directory_of_files_is_a_closed_dataset(fs: FileSystemDDM, tmp_path: Path) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "abc", ".hidden": "x"})
    (home / "subdirectory").mkdir()
    assert fs.dataset("s:d").state == "closed"
    (file,) = fs.list_files("s:d")
    assert (file.lfn, file.size, file.adler32, file.nevents) == ("f", 3, adler(b"abc"), None)


def test_people_describe_their_files(fs: FileSystemDDM, tmp_path: Path) -> None:
    said = "{state: open, files: {f: {guid: G, adler32: 'ABCDEF01', nevents: 0}, absent: {}}}"
    lay(tmp_path / "a", "s:d", {"f": "abc"})
    lay(tmp_path / "b", "s:d", {".dataset.yaml": said})
    assert fs.dataset("s:d").state == "open"
    assert fs.list_files("s:d") == [FileInfo("f", 3, "abcdef01", "G", 0)]


@pytest.mark.parametrize("error", [BadInput, OSError])
def test_a_dataset_that_cannot_be_looked_up_keeps_no_copies_of_others(
    fs: FileSystemDDM, tmp_path: Path, error: type[Exception]
) -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    names = ("s:c", "s:d", "s:e")
    homes = [lay(tmp_path / "a", name, {"f": "abc"}) for name in names]
    fs.transfer([(name, "f") for name in names], "A", "B", "test", until)
    described = homes[1] / ".dataset.yaml"
    if error is BadInput:
        described.write_text("state: [")
    else:
        described.mkdir()
    dropped, [problem] = fs.drop_copies(fs.copies())
    assert (dropped, isinstance(problem, error)) == (2, True)
    assert [copy.dataset for copy in fs.copies()] == ["s:d"]


def test_people_make_containers(fs: FileSystemDDM, tmp_path: Path) -> None:
    lay(tmp_path / "a", "s:d", {"f": "abc"})
    lay(tmp_path / "a", "s:box", {".dataset.yaml": "members: [s:d, s:loop/]"})
    loop = lay(tmp_path / "a", "s:loop", {".dataset.yaml": "members: []"})
    assert fs.constituents("s:box/") == ["s:d"]
    refused("not_our_container", fs.add_members, "s:box", ["s:d"])
    (loop / ".dataset.yaml").write_text("members: ['s:box']")
    assert "s:box > s:loop > s:box" in refused("container_cycle", fs.list_files, "s:box").sentence


def test_all_mistakes_of_a_side_file_are_named(fs: FileSystemDDM, tmp_path: Path) -> None:
    said = """
state: ajar
sate: open
members: [s:d, "no sense"]
files:
  ../x: {}
  f: {adler32: 12345678, nevents: -1, size: 3, guid: ''}
  g: {nevents: '7'}
"""
    home = lay(tmp_path / "a", "s:d", {".dataset.yaml": said})
    error = refused("bad_input", fs.list_files, "s:d")
    assert isinstance(error, BadInput)
    at = {
        problem.path.removeprefix(f"{home}/.dataset.yaml:"): problem for problem in error.problems
    }
    assert sorted(at) == [
        "files:../x",
        "files:f:adler32",
        "files:f:guid",
        "files:f:nevents",
        "files:f:size",
        "files:g:nevents",
        "members:1",
        "sate",
        "state",
    ]
    assert at["state"].remedy == "Write open or closed"
    assert at["sate"].remedy == "Remove it; the keys here are state, members, files"
    keys = "guid, adler32, nevents, boundary, lumiblock"
    assert at["files:f:size"].remedy == f"Remove it; the keys here are {keys}"
    assert at["files:f:adler32"].remedy == "Write the 8 hexadecimal digits in quotes"
    assert at["members:1"].rule.startswith("a scope starts with a letter")


@pytest.mark.parametrize("text", ["{", "- a", "just words", "files: []", "\x00"])
def test_a_side_file_that_is_no_mapping(fs: FileSystemDDM, tmp_path: Path, text: str) -> None:
    lay(tmp_path / "a", "s:d", {".dataset.yaml": text})
    error = refused("bad_input", fs.dataset, "s:d")
    assert str(tmp_path / "a/s/d/.dataset.yaml") in str(error)


def test_an_empty_side_file_says_nothing(fs: FileSystemDDM, tmp_path: Path) -> None:
    lay(tmp_path / "a", "s:d", {".dataset.yaml": "# to be written\n"})
    assert fs.dataset("s:d").state == "closed"


def test_jedi_leaves_people_their_datasets(fs: FileSystemDDM, tmp_path: Path) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "abc"})
    refused("dataset_exists", fs.create, "s:d", "A")
    refused("dataset_exists", fs.create, "s:d", "B")
    assert [entry.name for entry in home.iterdir()] == ["f"]
    (home / ".dataset.yaml").write_text("state: open")
    fs.create("s:d", "B")  # asks for what there is
    refused("declared_otherwise", fs.close, "s:d")
    fs.publish("B", [(stage(fs, "B", "g", b"g"), "s:d", FileInfo("g", 1, adler(b"g")))])
    (home / ".dataset.yaml").write_text("{state: closed}")
    fs.close("s:d")
    refused("dataset_exists", fs.create, "s:d", "A")
    assert (home / ".dataset.yaml").read_text() == "{state: closed}"


def test_people_close_what_jedi_made(fs: FileSystemDDM, tmp_path: Path) -> None:
    fs.create("s:d", "A")
    lay(tmp_path / "a", "s:d", {".dataset.yaml": "state: closed"})
    assert fs.dataset("s:d").state == "closed"
    refused("declared_otherwise", fs.create, "s:d", "A")


def test_an_empty_directory_is_free(fs: FileSystemDDM, tmp_path: Path) -> None:
    """What a crash between making the directory and the first word leaves."""
    lay(tmp_path / "a", "s:d", {})
    fs.create("s:d", "A")
    assert fs.dataset("s:d").state == "open"


def test_checksums_are_computed_once(fs: FileSystemDDM, tmp_path: Path) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "abc", "g": "def"})
    first = fs.list_files("s:d")
    assert [file.adler32 for file in first] == [adler(b"abc"), adler(b"def")]
    swap(home / "f", "xyz")
    assert fs.list_files("s:d") == first
    os.utime(home / "f", ns=(1, 1))
    assert [file.adler32 for file in fs.list_files("s:d")] == [adler(b"xyz"), adler(b"def")]


def test_published_files_are_not_read_again(fs: FileSystemDDM) -> None:
    put(fs, "A", "s:d", {"f": b"abc"})
    fs.transfer([("s:d", "f")], "A", "B", "test")
    for endpoint in "AB":
        swap(fs.path(endpoint, "s:d", "f"), "xyz")
    assert fs.list_files("s:d") == [FileInfo("f", 3, adler(b"abc"), "guid-f")]
    shutil.rmtree(fs.path("A", "s:d", "f").parent)
    assert fs.list_files("s:d") == [FileInfo("f", 3, adler(b"abc"), "guid-f")]


def test_a_journal_torn_anywhere_costs_only_the_torn_line(
    fs: FileSystemDDM, tmp_path: Path
) -> None:
    put(fs, "A", "s:d", {"f": b"abc", "g": b"def"})
    files = fs.list_files("s:d")
    journal = tmp_path / "a/s/d/.files.jsonl"
    whole = journal.read_bytes()
    for length in range(len(whole)):
        journal.write_bytes(whole[:length])
        for _ in range(2):  # the first listing writes behind the torn line
            assert [(f.lfn, f.adler32) for f in fs.list_files("s:d")] == [
                (f.lfn, f.adler32) for f in files
            ]
        swap(journal.with_name("f"), "xyz")
        assert [file.adler32 for file in fs.list_files("s:d")] == [adler(b"abc"), adler(b"def")]
        swap(journal.with_name("f"), "abc")


def test_a_journal_that_no_room_is_left_for_says_so(fs: FileSystemDDM, tmp_path: Path) -> None:
    """A write that is cut off is no success, and nobody has to guess which disk is full."""
    fs.create("s:d", "A")
    journal, limits = tmp_path / "a/s/d/.dataset.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (5, 0):  # some bytes are written, or none
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size + room, limits[1]))
        try:
            with pytest.raises(OSError, match=re.escape(str(journal))):
                fs.close("s:d")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert fs.dataset("s:d").state == "open"
    fs.close("s:d")
    assert fs.dataset("s:d").state == "closed"


def test_a_directory_that_cannot_be_written_is_listed() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        home = lay(root, "s:d", {"f": "abc"})
        root.chmod(0o755)
        home.chmod(0o555)
        fs = FileSystemDDM({"A": root})
        me = os.geteuid()
        try:
            if me == 0:
                os.seteuid(65534)  # root may write anywhere
            assert [file.adler32 for file in fs.list_files("s:d")] == [adler(b"abc")]
        finally:
            os.seteuid(me)
            home.chmod(0o755)
        assert [entry.name for entry in home.iterdir()] == ["f"]


@pytest.mark.parametrize("given, file", [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_datasets_are_no_more_readable_than_their_storage(
    fs: FileSystemDDM, tmp_path: Path, given: int, file: int
) -> None:
    """Copied and created ones: the mode of the endpoint's directory is its owner's wish."""
    lay(tmp_path / "a", "s:d", {"f": "abc"})
    (tmp_path / "b").chmod(given)
    fs.create("s:new", "B")
    (end,) = fs.transfer([("s:d", "f")], "A", "B", "test")
    assert end.code == "done"
    below = [path for path in (tmp_path / "b").rglob("*") if path.name[0] != "."]
    directories = {path.stat().st_mode & 0o777 for path in below if path.is_dir()}
    assert directories == {given}
    assert (tmp_path / "b/s/d/f").stat().st_mode & 0o777 == file


def test_what_is_said_of_a_dataset_is_read_only_from_a_file_of_some_size(
    fs: FileSystemDDM, tmp_path: Path
) -> None:
    """A pipe would be waited for, and a device or a huge file would fill the memory."""
    home = lay(tmp_path / "a", "s:d", {"f": "abc"})
    said = home / ".dataset.yaml"
    os.mkfifo(said)
    with pytest.raises(BadInput, match="no file of at most"):
        fs.dataset("s:d")
    said.unlink()
    said.touch()
    os.truncate(said, strictyaml.MAX_BYTES + 1)
    with pytest.raises(BadInput, match="no file of at most"):
        fs.dataset("s:d")


def test_a_copy_of_another_size_is_no_replica(fs: FileSystemDDM, tmp_path: Path) -> None:
    lay(tmp_path / "a", "s:d", {"f": "abc", "g": "g"})
    lay(tmp_path / "b", "s:d", {"f": "ab", "g": "g"})
    assert fs.locate("s:d", ["f", "g"]) == {"f": ["A"], "g": ["A", "B"]}
    assert {r.endpoint: r.n_files for r in fs.replicas("s:d")} == {"A": 2, "B": 1}
    assert [file.size for file in fs.list_files("s:d")] == [3, 1]
    (end,) = fs.transfer([("s:d", "f")], "A", "B", "test")
    assert end.code == "target_differs" and str(tmp_path / "b/s/d/f") in end.sentence


def test_a_spoilt_source_is_not_copied(fs: FileSystemDDM, tmp_path: Path) -> None:
    said = "files: {f: {adler32: '00000002'}}"
    lay(tmp_path / "a", "s:d", {"f": "abc", "g": "g", ".dataset.yaml": said})
    ends = fs.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test")
    assert [end.code for end in ends] == ["checksum_differs", "done"]
    assert fs.locate("s:d", "fg") == {"f": ["A"], "g": ["A", "B"]}
    assert list((tmp_path / "b/.staging").iterdir()) == []


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s3cret")
    return outside / "secret"


def test_a_file_that_leads_outside_is_left_out(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    """contracts 17: links that end at regular files inside the endpoint are files; "all other
    entries are left out, each with a reason; none holds or breaks the whole task"."""
    home = lay(tmp_path / "a", "s:d", {"f": "f"})
    (home / "link").symlink_to(secret)
    assert [file.lfn for file in fs.list_files("s:d")] == ["f"]
    assert fs.left_out("s:d") == {"link": "link_outside"}
    assert fs.replicas("s:d") == [Replica("A", 1, 1)]
    refused("outside_root", fs.path, "A", "s:d", "link")
    assert fs.locate("s:d", ["f", "link"]) == {"f": ["A"], "link": []}
    ends = fs.transfer([("s:d", "link"), ("s:d", "f")], "A", "B", "test")
    assert [end.code for end in ends] == ["source_missing", "done"]
    fs.remove_files("s:d", ["link"])
    assert secret.read_text() == "s3cret"
    (home / "inner").symlink_to(home / "f")
    assert [file.lfn for file in fs.list_files("s:d")] == ["f", "inner"]


def test_each_entry_that_is_no_file_has_its_reason(fs: FileSystemDDM, tmp_path: Path) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "abc", "my file": "x", ".hidden": "x", "a..b": "x"})
    lay(tmp_path / "a", "s:d", {".dataset.yaml": "{}"})
    lay(tmp_path / "a", "s:other", {"target": "abcde"})
    lay(tmp_path / "a/.staging", "1.2:x", {"theirs": "y"})
    (home / "directory").mkdir()
    os.mkfifo(home / "fifo")
    for link, end in {
        "chain": "good",
        "good": "../other/target",
        "dangling": "nowhere",
        "loop": "loop",
        "to_directory": "directory",
        "through_file": "f/x",
        "staged": "../../.staging/1.2/x/theirs",
    }.items():
        (home / link).symlink_to(end)
    os.close(os.open(os.fsencode(home) + b"/\xff\n", os.O_CREAT | os.O_WRONLY))
    assert {file.lfn: file.size for file in fs.list_files("s:d")} == {
        "f": 3,
        "good": 5,
        "chain": 5,
    }
    assert fs.left_out("s:d") == {
        "my file": "bad_file_name",
        ".hidden": "bad_file_name",
        "a..b": "bad_file_name",
        "\udcff\n": "bad_file_name",
        "directory": "not_a_file",
        "fifo": "not_a_file",
        "dangling": "link_broken",
        "loop": "link_broken",
        "through_file": "link_broken",
        "to_directory": "not_a_file",
        "staged": "link_outside",
    }


def test_a_directory_that_leads_outside_is_refused(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    lay(tmp_path / "a", "s:d", {})
    (tmp_path / "a/s/link").symlink_to(secret.parent)
    (tmp_path / "a/scope").symlink_to(tmp_path)
    for name in ("s:link", "scope:outside"):
        for call in (fs.dataset, fs.list_files, fs.replicas, fs.close, fs.delete):
            refused("outside_root", call, name)
        refused("outside_root", fs.create, name, "A")
        refused("outside_root", fs.remove_files, name, ["secret"])
        refused("outside_root", fs.path, "A", name, "secret")
    assert secret.read_text() == "s3cret"


def test_a_finder_of_a_request_finds_and_refuses_the_same(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "f"})
    (home / "link").symlink_to(secret)
    (home / "inner").symlink_to(home / "f")
    (tmp_path / "a/s/link").symlink_to(secret.parent)
    (tmp_path / "a/s/inner").symlink_to(home)
    find = fs.finder()
    for _ in range(2):  # what it remembers changes nothing
        for name, lfn in (("s:d", "f"), ("s:d", "inner"), ("s:d", "away"), ("s:inner", "f")):
            where = fs.path("A", name, lfn)  # pilots follow no links
            assert find("A", name, lfn) == str(where.resolve() if where.is_symlink() else where)
        for name, lfn in (("s:d", "link"), ("s:link", "secret"), ("s:inner", "link")):
            refused("outside_root", find, "A", name, lfn)
        for name, lfn in (("s:d", "../f"), ("no name", "f")):
            refused("bad_input", find, "A", name, lfn)
        refused("endpoint_missing", find, "C", "s:d", "f")


def test_sidecars_are_not_written_through_links(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "f"})
    (home / ".files.jsonl").symlink_to(secret)
    fs.list_files("s:d")
    assert secret.read_text() == "s3cret"


def test_events_are_counted_by_the_hook_once(tmp_path: Path) -> None:
    said = "files: {g: {nevents: 5}}"
    lay(tmp_path / "a", "s:d", {"f": "a b c", "g": "a b", ".dataset.yaml": said})
    roots = {"A": tmp_path / "a"}
    fs = FileSystemDDM(roots, f"{sys.executable} -c '{COUNTER}'")
    files = fs.list_files("s:d")
    assert [file.nevents for file in files] == [3, 5]
    assert [file.adler32 for file in files] == [adler(b"a b c"), adler(b"a b")]
    assert FileSystemDDM(roots, "/nonexistent/counter").list_files("s:d") == files


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/nonexistent/counter", "No such file"),
        ("false", "non-zero exit status 1"),
        ("echo many", "invalid literal"),
        ("sh -c 'sleep 60'", "timed out"),
        ("echo 3; touch marker;", "invalid literal"),  # no shell sees it
    ],
)
def test_a_hook_that_fails_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lay(tmp_path / "a", "s:d", {"f": "a b c"})
    fs = FileSystemDDM({"A": tmp_path / "a"}, command, hook_timeout_s=0.5)
    error = refused("event_count_failed", fs.list_files, "s:d")
    assert why in error.sentence and "a/s/d/f" in error.sentence
    assert not (tmp_path / "marker").exists()


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fs = FileSystemDDM({"A": tmp_path / "link"})
    put(fs, "A", "s:d", {"f": b"f"})
    assert [file.lfn for file in fs.list_files("s:d")] == ["f"]
