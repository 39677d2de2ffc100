"""Data management: what every implementation must do, then what is special to directories.

An implementation joins the first part by a line in MAKERS.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from jedi.core.errors import BadInput, JediError
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import DDM, FileInfo

MAKERS: dict[str, Callable[[Path], DDM]] = {
    "filesystem": lambda tmp: FileSystemDDM({"A": tmp / "a", "B": tmp / "b"}),
}


@pytest.fixture(params=MAKERS)
def ddm(request: pytest.FixtureRequest, tmp_path: Path) -> DDM:
    return MAKERS[request.param](tmp_path)


def adler(data: bytes) -> str:
    return f"{zlib.adler32(data):08x}"


def stage(ddm: DDM, endpoint: str, lfn: str, data: bytes, pandaid: int = 1) -> Path:
    """Do what a pilot does with an output."""
    directory = ddm.staging_dir(endpoint, pandaid, 1)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / lfn).write_bytes(data)
    return directory / lfn


def put(ddm: DDM, endpoint: str, name: str, files: dict[str, bytes]) -> None:
    """A closed dataset with these files."""
    ddm.create(name, endpoint)
    reported = {f: FileInfo(f, len(data), adler(data), f"guid-{f}") for f, data in files.items()}
    staged = [(stage(ddm, endpoint, f, data), name, reported[f]) for f, data in files.items()]
    ddm.publish(endpoint, staged)
    ddm.close(name)


def refused(code: str, call: Callable[..., object], *args: object, **kwargs: object) -> JediError:
    with pytest.raises(JediError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return caught.value


class TestConformance:
    """The same for every implementation; two empty endpoints, A and B."""

    def test_a_dataset_lives(self, ddm: DDM) -> None:
        refused("dataset_missing", ddm.dataset, "s:d")
        ddm.create("s:d", "A")
        ddm.create("s:d", "A")
        info = ddm.dataset("s:d")
        assert (info.name, info.state, info.members, info.is_container) == (
            "s:d",
            "open",
            (),
            False,
        )
        assert ddm.list_files("s:d") == []
        ddm.close("s:d")
        ddm.close("s:d")
        assert ddm.dataset("s:d").state == "closed"
        ddm.create("s:d", "A")  # a retried task opens its outputs again
        assert ddm.dataset("s:d").state == "open"
        ddm.delete("s:d")
        ddm.delete("s:d")
        refused("dataset_missing", ddm.dataset, "s:d")
        refused("dataset_missing", ddm.close, "s:d")
        refused("dataset_missing", ddm.list_files, "s:d")

    def test_published_files_are_listed_by_lfn(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"b.txt": b"bb", "a.txt": b"", "c.txt": b"ccc"})
        assert ddm.list_files("s:d") == [
            FileInfo("a.txt", 0, "00000001", "guid-a.txt"),
            FileInfo("b.txt", 2, adler(b"bb"), "guid-b.txt"),
            FileInfo("c.txt", 3, adler(b"ccc"), "guid-c.txt"),
        ]
        assert ddm.path("A", "s:d", "b.txt").read_bytes() == b"bb"

    def test_a_file_without_guid_gets_a_lasting_one(self, ddm: DDM) -> None:
        ddm.create("s:d", "A")
        ddm.publish("A", [(stage(ddm, "A", "f", b"x"), "s:d", FileInfo("f", 1, adler(b"x")))])
        (first,), (second,) = ddm.list_files("s:d"), ddm.list_files("s:d")
        assert first.guid and first == second

    def test_publishing_may_be_repeated(self, ddm: DDM) -> None:
        ddm.create("s:d", "A")
        file = FileInfo("f", 3, adler(b"abc"), "g", 7)
        staged = stage(ddm, "A", "f", b"abc")
        ddm.publish("A", [(staged, "s:d", file)])
        ddm.publish("A", [(staged, "s:d", file)])
        again = stage(ddm, "A", "f", b"abc", pandaid=2)
        ddm.publish("A", [(again, "s:d", file)])
        ddm.close("s:d")
        ddm.publish("A", [(staged, "s:d", file)])
        assert ddm.list_files("s:d") == [file]
        for pandaid in (1, 2, 2):
            ddm.drop_staging("A", pandaid, 1)
            assert not ddm.staging_dir("A", pandaid, 1).exists()

    def test_a_published_file_is_never_replaced(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"abc"})
        ddm.create("s:d", "A")
        other = stage(ddm, "A", "f", b"abd")
        refused(
            "target_differs", ddm.publish, "A", [(other, "s:d", FileInfo("f", 3, adler(b"abd")))]
        )
        assert ddm.path("A", "s:d", "f").read_bytes() == b"abc"

    def test_publishing_checks_all_before_it_moves_any(self, ddm: DDM) -> None:
        ddm.create("s:d", "A")
        good = (stage(ddm, "A", "f", b"abc"), "s:d", FileInfo("f", 3, adler(b"abc")))
        nowhere = good[0].with_name("g")
        bad = {
            "staged_missing": (nowhere, "s:d", FileInfo("g", 3, adler(b"abc"))),
            "size_differs": (stage(ddm, "A", "h", b"ab"), "s:d", FileInfo("h", 3, adler(b"abc"))),
            "dataset_missing": (stage(ddm, "A", "i", b"i"), "s:no", FileInfo("i", 1, adler(b"i"))),
        }
        for code, file in bad.items():
            refused(code, ddm.publish, "A", [good, file])
        assert ddm.list_files("s:d") == []

    def test_only_open_plain_datasets_take_files(self, ddm: DDM) -> None:
        put(ddm, "A", "s:closed", {})
        ddm.create("s:box", "A", container=True)
        staged = stage(ddm, "A", "f", b"x")
        file = FileInfo("f", 1, adler(b"x"))
        refused("dataset_closed", ddm.publish, "A", [(staged, "s:closed", file)])
        refused("is_container", ddm.publish, "A", [(staged, "s:box", file)])
        assert staged.exists()

    def test_containers(self, ddm: DDM) -> None:
        put(ddm, "A", "s:one", {"1": b"1", "3": b"333"})
        put(ddm, "B", "s:two", {"2": b"22"})
        ddm.create("s:inner", "A", container=True)
        ddm.create("s:outer", "A", container=True)
        assert ddm.dataset("s:outer").is_container and ddm.constituents("s:outer") == []
        ddm.add_members("s:inner", ["s:two", "s:one"])
        ddm.add_members("s:outer", ["s:one"])
        ddm.add_members("s:outer/", ["s:one", "s:inner/"])
        assert ddm.dataset("s:outer").members == ("s:one", "s:inner")
        assert ddm.constituents("s:outer") == ["s:one", "s:two"]
        assert ddm.constituents("s:one") == ["s:one"]
        assert [file.lfn for file in ddm.list_files("s:outer")] == ["1", "2", "3"]
        found = {r.endpoint: (r.n_files, r.size) for r in ddm.replicas("s:outer")}
        assert found == {"A": (2, 4), "B": (1, 2)}
        ddm.delete("s:outer")
        assert ddm.constituents("s:inner") == ["s:two", "s:one"]

    def test_what_can_be_no_member(self, ddm: DDM) -> None:
        put(ddm, "A", "s:one", {})
        for name in ("s:a", "s:b"):
            ddm.create(name, "A", container=True)
        ddm.add_members("s:a", ["s:b"])
        refused("container_cycle", ddm.add_members, "s:b", ["s:a"])
        refused("container_cycle", ddm.add_members, "s:b", ["s:b"])
        refused("dataset_missing", ddm.add_members, "s:b", ["s:one", "s:no"])
        refused("not_our_container", ddm.add_members, "s:one", ["s:a"])
        refused("dataset_exists", ddm.create, "s:one", "A", container=True)
        assert ddm.dataset("s:b").members == ()

    def test_transfer(self, ddm: DDM) -> None:
        files = {f"f{i}": b"x" * i for i in range(20)}
        put(ddm, "A", "s:d", files)
        wanted = [("s:d", lfn) for lfn in [*files, "missing"]] + [("s:no", "f1")]
        for _ in range(2):
            ends = ddm.transfer(wanted, "A", "B", "Production Input")
            assert [(end.dataset, end.lfn) for end in ends] == wanted
            assert [end.code for end in ends] == ["done"] * 20 + ["source_missing"] * 2
            assert all(end.done is not bool(end.sentence) for end in ends)
        found = {r.endpoint: (r.n_files, r.size) for r in ddm.replicas("s:d")}
        assert found == {"A": (20, 190), "B": (20, 190)}
        assert ddm.path("B", "s:d", "f3").read_bytes() == b"xxx"
        assert len(ddm.list_files("s:d")) == 20

    def test_locate(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"f", "g": b"g"})
        ddm.transfer([("s:d", "f")], "A", "B", "test")
        assert ddm.locate("s:d", ["g", "f", "h"]) == {"g": ["A"], "f": ["A", "B"], "h": []}
        ddm.remove_files("s:d", ["g", "h"])
        ddm.remove_files("s:d", ["g"])
        assert ddm.locate("s:d", ["g"]) == {"g": []}
        assert [file.lfn for file in ddm.list_files("s:d")] == ["f"]

    def test_names_and_endpoints_are_checked(self, ddm: DDM) -> None:
        for name in ("plain", "s:../x", "s:a/b", ":x", "s:", "../s:x", "s:.hidden"):
            for call in (ddm.dataset, ddm.list_files, ddm.delete, ddm.close):
                refused("bad_input", call, name)
            refused("bad_input", ddm.create, name, "A")
        ddm.create("s:d", "A")
        for lfn in ("../x", "/etc/passwd", "a/b", ".x", ""):
            refused("bad_input", ddm.path, "A", "s:d", lfn)
            refused("bad_input", ddm.locate, "s:d", [lfn])
            refused("bad_input", ddm.remove_files, "s:d", [lfn])
            refused("bad_input", ddm.transfer, [("s:d", lfn)], "A", "B", "test")
            staged = stage(ddm, "A", "f", b"x")
            refused("bad_input", ddm.publish, "A", [(staged, "s:d", FileInfo(lfn, 1, "x"))])
        refused("endpoint_missing", ddm.create, "s:e", "C")
        refused("endpoint_missing", ddm.space, "C")

    def test_space(self, ddm: DDM) -> None:
        space = ddm.space("A")
        assert 0 <= space.free_gb <= space.total_gb


# Directories


@pytest.fixture
def fs(tmp_path: Path) -> FileSystemDDM:
    return FileSystemDDM({"A": tmp_path / "a", "B": tmp_path / "b"})


def lay(root: Path, name: str, files: dict[str, str]) -> Path:
    """What a person does: a directory with files, `.dataset.yaml` among them."""
    home = root.joinpath(*name.split(":"))
    home.mkdir(parents=True, exist_ok=True)
    for lfn, text in files.items():
        (home / lfn).write_text(text)
    return home


def swap(path: Path, text: str) -> None:
    """Other content of the same size and mtime: who shows the old checksum did not read it."""
    was = path.stat()
    path.write_text(text)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


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
members: [s:d, nonsense]
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
    assert at["files:f:size"].remedy == "Remove it; the keys here are guid, adler32, nevents"
    assert at["files:f:adler32"].remedy == "Write the 8 hexadecimal digits in quotes"


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


def test_one_file_that_cannot_be_copied_harms_no_other(fs: FileSystemDDM, tmp_path: Path) -> None:
    put(fs, "A", "s:d", {"f": b"f", "g": b"g"})
    obstacle = lay(tmp_path / "b", "s:d", {}) / "f"
    obstacle.mkdir()
    for _ in range(2):
        broken, fine = fs.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test")
        assert fine.done and broken.code == "io_error" and "Is a directory" in broken.sentence
    obstacle.rmdir()
    assert all(end.done for end in fs.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test"))


def test_what_a_killed_copy_left_is_swept(fs: FileSystemDDM, tmp_path: Path) -> None:
    parts = lay(tmp_path / "b", ".staging:1.1", {}).parent
    (parts / "part-dead").write_text("half")
    (parts / "part-live").write_text("half")
    put(fs, "A", "s:d", {"f": b"f"})
    with (parts / "part-live").open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        fs.transfer([("s:d", "f")], "A", "B", "test")
    assert sorted(entry.name for entry in parts.iterdir()) == ["1.1", "part-live"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s3cret")
    return outside / "secret"


def test_a_file_that_leads_outside_is_refused(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "f"})
    (home / "link").symlink_to(secret)
    for call in (fs.list_files, fs.replicas):
        assert str(home / "link") in refused("outside_root", call, "s:d").sentence
    refused("outside_root", fs.path, "A", "s:d", "link")
    refused("outside_root", fs.locate, "s:d", ["link"])
    refused("outside_root", fs.transfer, [("s:d", "link")], "A", "B", "test")
    fs.remove_files("s:d", ["link"])
    assert secret.read_text() == "s3cret"
    (home / "inner").symlink_to(home / "f")
    assert [file.lfn for file in fs.list_files("s:d")] == ["f", "inner"]


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


def test_only_staged_files_are_published(fs: FileSystemDDM, tmp_path: Path, secret: Path) -> None:
    fs.create("s:d", "A")
    file = FileInfo("f", 6, adler(b"s3cret"))
    staged = stage(fs, "A", "f", b"s3cret")
    elsewhere = stage(fs, "B", "f", b"s3cret")
    up = staged.parent / ".." / "1.1" / "f"
    link = staged.with_name("link")
    link.symlink_to(secret)
    for path in (secret, elsewhere, up, link):
        refused("not_staged", fs.publish, "A", [(path, "s:d", file)])
    assert secret.exists() and fs.list_files("s:d") == []


def test_sidecars_are_not_written_through_links(
    fs: FileSystemDDM, tmp_path: Path, secret: Path
) -> None:
    home = lay(tmp_path / "a", "s:d", {"f": "f"})
    (home / ".files.jsonl").symlink_to(secret)
    fs.list_files("s:d")
    assert secret.read_text() == "s3cret"


def test_names_that_are_no_lfns_are_all_told(fs: FileSystemDDM, tmp_path: Path) -> None:
    lay(tmp_path / "a", "s:d", {"my file": "x", "über": "x", "fine": "x"})
    error = refused("bad_input", fs.list_files, "s:d")
    assert isinstance(error, BadInput)
    assert sorted(problem.value for problem in error.problems) == ["my file", "über"]


COUNTER = "import sys; print(len(open(sys.argv[1]).read().split()))"


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
