"""Data management: what every implementation must do.

An implementation joins by a line in MAKERS.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from support.ddm_steps import COUNTER, adler, endpoint_roots, publish, put, refused, stage, swap

from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import DDM, FileInfo, TemporaryCopy
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM

Make = Callable[..., DDM]
"""Over these roots; `event_count_command` and `tapes` may follow. Two made alike share what they
know."""

MAKERS: dict[str, Callable[[pytest.FixtureRequest], Make]] = {
    "filesystem": lambda _request: FileSystemDDM,
    "sql": lambda request: partial(SqlCatalogueDDM, request.getfixturevalue("engine")),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param](request)


Roots = dict[str, Path]


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return endpoint_roots(tmp_path)


@pytest.fixture
def ddm(make: Make, roots: Roots) -> DDM:
    return make(roots)


class TestConformance:
    """The same for every implementation; two empty endpoints, A and B."""

    def test_datasets_are_found_by_name(self, ddm: DDM) -> None:
        """`*` alone is special: not the `%` and `_` of SQL, nor the `.` of other patterns."""
        assert ddm.find("*") == []
        ddm.create("s:a_b", "A")
        put(ddm, "B", "s:a.b", {"f": b"1"})
        put(ddm, "A", "t:axb", {"f": b"1"})
        ddm.create("s:c", "A", container=True)
        ddm.add_members("s:c", ["s:a.b"])
        assert ddm.find("*") == [
            ("s:a.b", "closed"),
            ("s:a_b", "open"),
            ("s:c", ddm.dataset("s:c").state),
            ("t:axb", "closed"),
        ]
        assert [name for name, _ in ddm.find("s:a*")] == ["s:a.b", "s:a_b"]
        assert [name for name, _ in ddm.find("*:a_b")] == ["s:a_b"]
        assert [name for name, _ in ddm.find("s:a.b")] == ["s:a.b"]
        assert ddm.find("*", "s:a.b", 2) == ddm.find("*")[1:3]
        assert ddm.find("%") == ddm.find("s:a") == []

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

    def test_a_dataset_may_be_born_closed_and_be_at_several_places(self, ddm: DDM) -> None:
        ddm.create("s:d", "A", "closed")
        assert ddm.dataset("s:d").state == "closed"
        for endpoint, lfn in (("A", "f"), ("B", "g")):
            ddm.create("s:d", endpoint)
            publish(ddm, endpoint, "s:d", {lfn: b"x"})
        ddm.close("s:d")
        assert ddm.dataset("s:d").state == "closed"
        assert ddm.locate("s:d", "fg") == {"f": ["A"], "g": ["B"]}

    def test_what_is_removed_leaves_no_bytes(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"f", "g": b"g"})
        ddm.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test")
        places = {lfn: [ddm.path(endpoint, "s:d", lfn) for endpoint in "AB"] for lfn in "fg"}
        ddm.remove_files("s:d", ["f"])
        assert [path.exists() for path in places["f"] + places["g"]] == [False] * 2 + [True] * 2
        ddm.create("s:d", "A")
        publish(ddm, "A", "s:d", {"f": b"another"})
        ddm.delete("s:d")
        assert not any(path.parent.exists() for path in places["f"])
        put(ddm, "A", "s:d", {"g": b"anew"})
        assert [(file.lfn, file.size) for file in ddm.list_files("s:d")] == [("g", 4)]

    def test_what_one_knows_all_know(self, make: Make, roots: Roots) -> None:
        put(make(roots), "A", "s:d", {"f": b"f"})
        assert [file.lfn for file in make(roots).list_files("s:d")] == ["f"]
        make(roots).delete("s:d")
        refused("dataset_missing", make(roots).dataset, "s:d")

    def test_events_are_counted_once(self, make: Make, roots: Roots) -> None:
        put(make(roots), "A", "s:d", {"f": b"a b c", "g": b"a b"})
        put(make(roots), "B", "s:e", {"f": b"a"})
        assert {file.nevents for file in make(roots).list_files("s:d")} == {None}
        box = make(roots)
        box.create("s:box", "A", container=True)
        box.add_members("s:box", ["s:d", "s:e"])
        counting = make(roots, f"{sys.executable} -c '{COUNTER}'")
        files = counting.list_files("s:box")
        assert sorted((f.lfn, f.nevents) for f in files) == [("f", 1), ("f", 3), ("g", 2)]
        assert make(roots, "/nonexistent/counter").list_files("s:box") == files

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
        again = stage(ddm, "A", "f", b"abc", panda_id=2)
        ddm.publish("A", [(again, "s:d", file)])
        ddm.close("s:d")
        ddm.publish("A", [(staged, "s:d", file)])
        assert ddm.list_files("s:d") == [file]
        for panda_id in (1, 2, 2):
            ddm.drop_staging("A", panda_id, 1)
            assert not ddm.staging_dir("A", panda_id, 1).exists()

    def test_a_storage_that_vanished_is_no_fault_of_the_dataset(
        self, ddm: DDM, roots: Roots, tmp_path: Path
    ) -> None:
        ddm.create("s:d", "A")
        wanted = [(stage(ddm, "A", "f", b"x"), "s:d", FileInfo("f", 1, adler(b"x")))]
        roots["A"].rename(tmp_path / "away")
        for _ in ("missing", "an empty mount point"):
            with pytest.raises(FileNotFoundError, match="storage of A is not there") as told:
                ddm.publish("A", wanted)
            assert str(roots["A"]) in str(told.value)
            ddm.publish("A", [])
            roots["A"].mkdir(exist_ok=True)
        roots["A"].rmdir()
        (tmp_path / "away").rename(roots["A"])
        ddm.publish("A", wanted)
        assert len(ddm.list_files("s:d")) == 1

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

    def test_only_staged_files_are_published(self, ddm: DDM, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("s3cret")
        ddm.create("s:d", "A")
        file = FileInfo("f", 6, adler(b"s3cret"))
        staged = stage(ddm, "A", "f", b"s3cret")
        elsewhere = stage(ddm, "B", "f", b"s3cret")
        up = staged.parent / ".." / "1.1" / "f"
        link = staged.with_name("link")
        link.symlink_to(secret)
        for path in (secret, elsewhere, up, link):
            refused("not_staged", ddm.publish, "A", [(path, "s:d", file)])
        assert secret.exists() and ddm.list_files("s:d") == []

    def test_what_lies_there_already_needs_no_staged_file(self, ddm: DDM) -> None:
        """A publisher that died after its first move leaves this."""
        ddm.create("s:d", "A")
        there, staged = ddm.path("A", "s:d", "f"), stage(ddm, "A", "g", b"g")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(b"abc")
        wanted = [
            (staged.with_name("f"), "s:d", FileInfo("f", 3, adler(b"abc"))),
            (staged, "s:d", FileInfo("g", 1, adler(b"g"))),
        ]
        ddm.publish("A", wanted)
        assert [(file.lfn, file.adler32) for file in ddm.list_files("s:d")] == [
            ("f", adler(b"abc")),
            ("g", adler(b"g")),
        ]
        assert ddm.locate("s:d", "fg") == {"f": ["A"], "g": ["A"]}

    def test_what_came_unseen_with_other_content_is_not_replaced(self, ddm: DDM) -> None:
        ddm.create("s:d", "A")
        there = ddm.path("A", "s:d", "f")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(b"other")
        refused("target_differs", publish, ddm, "A", "s:d", {"f": b"abc", "g": b"g"})
        assert there.read_bytes() == b"other"

    def test_a_file_that_comes_twice_at_once(self, ddm: DDM) -> None:
        ddm.create("s:d", "A")
        same, file = stage(ddm, "A", "f", b"abc"), FileInfo("f", 3, adler(b"abc"))
        twin = stage(ddm, "A", "f", b"abc", panda_id=2)
        other = stage(ddm, "A", "f", b"abd", panda_id=3)
        twice = [(same, "s:d", file), (other, "s:d", FileInfo("f", 3, adler(b"abd")))]
        refused("target_differs", ddm.publish, "A", twice)
        assert ddm.list_files("s:d") == []
        ddm.publish("A", [(same, "s:d", file), (twin, "s:d", file), (same, "s:d/", file)])
        assert [found.adler32 for found in ddm.list_files("s:d")] == [adler(b"abc")]

    def test_several_datasets_are_published_at_once(self, ddm: DDM) -> None:
        staged = []
        for name in ("s:one", "s:two"):
            ddm.create(name, "A")
            path = stage(ddm, "A", name[2:], b"x")
            staged.append((path, name, FileInfo("f", 1, adler(b"x"))))
        ddm.publish("A", staged)
        ddm.publish("A", [])
        for name in ("s:one", "s:two"):
            assert [file.lfn for file in ddm.list_files(name)] == ["f"]

    def test_publishers_at_the_same_time_harm_nobody(self, make: Make, roots: Roots) -> None:
        """Each has staged its own copy of the same files, and publishes them in its own order."""
        files = {f"f{i:03}": f"{i}".encode() for i in range(100)}
        make(roots).create("s:d", "A")

        def work(panda_id: int) -> None:
            order = sorted(files, reverse=panda_id % 2 == 0)
            publish(make(roots), "A", "s:d", {lfn: files[lfn] for lfn in order}, panda_id)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert {f.lfn: f.adler32 for f in make(roots).list_files("s:d")} == {
            lfn: adler(data) for lfn, data in files.items()
        }

    def test_attempts_are_staged_and_dropped_one_by_one(self, ddm: DDM) -> None:
        assert ddm.staged("A") == []
        for panda_id in (1, 12):
            stage(ddm, "A", "f", b"x", panda_id)
        (ddm.staging_dir("A", 1, 1).parent / "no.attempt").mkdir()
        assert sorted(ddm.staged("A")) == [(1, 1), (12, 1)]
        assert ddm.staged("B") == []
        ddm.drop_staging("A", 1, 1)
        assert ddm.staged("A") == [(12, 1)]

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

    def test_a_container_misses_its_deleted_member_until_it_is_made_again(self, ddm: DDM) -> None:
        put(ddm, "A", "s:one", {"f": b"f"})
        ddm.create("s:box", "A", container=True)
        ddm.add_members("s:box", ["s:one"])
        ddm.delete("s:one")
        for call in (ddm.constituents, ddm.list_files, ddm.replicas):
            assert "s:one" in refused("dataset_missing", call, "s:box").sentence
        assert ddm.dataset("s:box").members == ("s:one",)
        put(ddm, "A", "s:one", {"g": b"g"})
        assert [file.lfn for file in ddm.list_files("s:box")] == ["g"]

    def test_a_container_holds_no_files(self, ddm: DDM) -> None:
        put(ddm, "A", "s:one", {"f": b"f"})
        ddm.create("s:box", "A", container=True)
        ddm.add_members("s:box", ["s:one"])
        refused("is_container", ddm.locate, "s:box", ["f"])
        refused("is_container", ddm.remove_files, "s:box", ["f"])
        (end,) = ddm.transfer([("s:box", "f")], "A", "B", "test")
        assert end.code == "source_missing"
        refused("dataset_exists", ddm.create, "s:box", "A")
        ddm.close("s:box")
        assert ddm.dataset("s:box").state == "closed"

    def test_what_nobody_knows(self, ddm: DDM) -> None:
        for call in (ddm.dataset, ddm.constituents, ddm.list_files, ddm.replicas, ddm.close):
            refused("dataset_missing", call, "s:no")
        for verb in (ddm.locate, ddm.remove_files, ddm.add_members):
            refused("dataset_missing", verb, "s:no", ["f" if verb != ddm.add_members else "s:d"])

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

    def test_a_transferred_file_stays_what_it_is(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"abc"})
        before = ddm.list_files("s:d")
        ddm.transfer([("s:d", "f")], "A", "B", "test")
        assert ddm.list_files("s:d") == before
        ddm.path("A", "s:d", "f").unlink()  # a lost replica
        assert ddm.list_files("s:d") == before
        (end,) = ddm.transfer([("s:d", "f")], "A", "B", "test")
        assert end.code == "source_missing"

    def test_copies_are_verified(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"abc", "g": b"g", "h": b"h"})
        swap(ddm.path("A", "s:d", "f"), "xyz")
        other = ddm.path("B", "s:d", "h")
        other.parent.mkdir(parents=True)
        other.write_bytes(b"other")
        ends = ddm.transfer([("s:d", lfn) for lfn in "fgh"], "A", "B", "test")
        assert [end.code for end in ends] == ["checksum_differs", "done", "target_differs"]
        assert str(other) in ends[2].sentence and other.read_bytes() == b"other"
        assert ddm.locate("s:d", "fgh") == {"f": ["A"], "g": ["A", "B"], "h": ["A"]}
        assert not list(other.parents[2].glob(".staging/part-*"))

    def test_one_file_that_cannot_be_copied_harms_no_other(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"f", "g": b"g"})
        obstacle = ddm.path("B", "s:d", "f")
        obstacle.mkdir(parents=True)
        for _ in range(2):
            broken, fine = ddm.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test")
            assert fine.done and broken.code == "io_error" and "Is a directory" in broken.sentence
        obstacle.rmdir()
        assert all(end.done for end in ddm.transfer([("s:d", "f"), ("s:d", "g")], "A", "B", "test"))

    def test_what_a_killed_copy_left_is_swept(self, ddm: DDM) -> None:
        attempt = ddm.staging_dir("B", 1, 1)
        attempt.mkdir(parents=True)
        parts = attempt.parent
        (parts / "part-dead").write_text("half")
        (parts / "part-live").write_text("half")
        put(ddm, "A", "s:d", {"f": b"f"})
        with (parts / "part-live").open() as writer:
            fcntl.flock(writer, fcntl.LOCK_EX)
            ddm.transfer([("s:d", "f")], "A", "B", "test")
        assert sorted(entry.name for entry in parts.iterdir()) == ["1.1", "part-live"]

    def test_locate(self, ddm: DDM) -> None:
        put(ddm, "A", "s:d", {"f": b"f", "g": b"g"})
        ddm.transfer([("s:d", "f")], "A", "B", "test")
        assert ddm.locate("s:d", ["g", "f", "h"]) == {"g": ["A"], "f": ["A", "B"], "h": []}
        put(ddm, "B", "s:e", {"f": b"e"})
        ddm.create("s:c", "A", container=True)
        ddm.add_members("s:c", ["s:d"])
        wanted = {"s:d/": ["g", "f", "h"], "s:e": ["f"], "s:c": ["f"], "s:missing": ["f"]}
        assert ddm.holders(wanted) == {
            ("s:d/", "g"): ["A"],
            ("s:d/", "f"): ["A", "B"],
            ("s:e", "f"): ["B"],
        }
        ddm.remove_files("s:d", ["g", "h"])
        ddm.remove_files("s:d", ["g"])
        assert ddm.locate("s:d", ["g"]) == {"g": []}
        assert [file.lfn for file in ddm.list_files("s:d")] == ["f"]

    def test_what_may_be_created_is_not_made(self, ddm: DDM) -> None:
        assert ddm.may_create("s:d", "A")
        refused("dataset_missing", ddm.dataset, "s:d")
        ddm.create("s:d", "A")
        publish(ddm, "A", "s:d", {"f": b"x"})
        assert ddm.may_create("s:d", "B")
        refused("dataset_exists", lambda: ddm.may_create("s:d", "A", container=True))

    def test_names_and_endpoints_are_checked(self, ddm: DDM) -> None:
        for name in ("pl ain", "s:../x", "s:a/b", ":x", "s:", "../s:x", "s:.hidden"):
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
        refused("endpoint_missing", ddm.may_create, "s:e", "C")
        refused("endpoint_missing", ddm.path, "C", "s:d", "f")
        refused("endpoint_missing", ddm.publish, "C", [])
        refused("endpoint_missing", ddm.transfer, [], "A", "C", "test")
        refused("endpoint_missing", ddm.transfer, [], "C", "A", "test")
        refused("endpoint_missing", ddm.staging_dir, "C", 1, 1)
        refused("endpoint_missing", ddm.drop_staging, "C", 1, 1)
        refused("endpoint_missing", ddm.space, "C")
        refused("endpoint_missing", ddm.staged, "C")

    def test_a_slash_behind_a_name_says_nothing(self, ddm: DDM) -> None:
        ddm.create("s:d/", "A")
        publish(ddm, "A", "s:d/", {"f": b"f"})
        (end,) = ddm.transfer([("s:d/", "f")], "A", "B", "test")
        assert (end.dataset, end.code) == ("s:d/", "done")
        ddm.close("s:d/")
        assert ddm.dataset("s:d/") == ddm.dataset("s:d")
        assert ddm.locate("s:d/", ["f"]) == ddm.locate("s:d", ["f"]) == {"f": ["A", "B"]}
        ddm.remove_files("s:d/", ["f"])
        assert ddm.list_files("s:d") == []
        ddm.delete("s:d/")
        refused("dataset_missing", ddm.dataset, "s:d")

    def test_what_is_on_tape_is_staged(self, make: Make, roots: Roots) -> None:
        ddm = make(roots, tapes={"A": "B"})
        put(ddm, "A", "s:d", {"f": b"f", "g": b"g", "h": b"h"})
        assert make(roots).on_tape("s:d") == []
        assert ddm.on_tape("s:d") == ["f", "g", "h"]
        for _ in range(2):
            ends = ddm.stage("s:d", ["g", "f", "no"], "Staging")
            assert [(end.lfn, end.code) for end in ends] == [
                ("g", "done"),
                ("f", "done"),
                ("no", "source_missing"),
            ]
        assert ddm.on_tape("s:d") == ["h"]
        assert ddm.locate("s:d", "fgh") == {"f": ["B", "A"], "g": ["B", "A"], "h": ["A"]}
        assert ddm.copies() == []
        swap(ddm.path("A", "s:d", "h"), "x")
        (end,) = ddm.stage("s:d", ["h"], "Staging")
        assert end.code == "checksum_differs" and ddm.on_tape("s:d") == ["h"]
        for verb in (ddm.on_tape, lambda name: ddm.stage(name, ["f"], "Staging")):
            refused("dataset_missing", verb, "s:no")

    def test_copies_may_have_an_end(self, make: Make, roots: Roots) -> None:
        ddm, until = make(roots), datetime(2030, 1, 1, tzinfo=UTC)
        put(ddm, "A", "s:d", {lfn: lfn.encode() for lfn in "fghi"})
        ddm.transfer([("s:d", "i")], "A", "B", "test")
        ddm.transfer([("s:d", lfn) for lfn in "fgi"], "A", "B", "test", until)
        ddm.transfer([("s:d", "h")], "A", "B", "test", until)
        ddm.transfer([("s:d", "h")], "A", "B", "test")
        copies = sorted(make(roots).copies(), key=lambda copy: copy.lfn)
        assert copies == [TemporaryCopy("B", "s:d", lfn, until) for lfn in "fgh"]
        later = TemporaryCopy("B", "s:d", "f", until + timedelta(days=1))
        assert ddm.drop_copies([later, TemporaryCopy("A", "s:d", "i", until)]) == (0, [])
        assert ddm.drop_copies(copies[:1]) == (1, [])
        assert ddm.drop_copies(copies[:1]) == (0, [])
        assert ddm.locate("s:d", "fghi") == {
            "f": ["A"],
            "g": ["A", "B"],
            "h": ["A", "B"],
            "i": ["A", "B"],
        }
        assert not ddm.path("B", "s:d", "f").exists()

    def test_a_copy_may_lose_its_end(self, make: Make, roots: Roots) -> None:
        ddm, until = make(roots), datetime(2030, 1, 1, tzinfo=UTC)
        put(ddm, "A", "s:d", {lfn: lfn.encode() for lfn in "fg"})
        ddm.transfer([("s:d", lfn) for lfn in "fg"], "A", "B", "test", until)
        kept = TemporaryCopy("B", "s:d", "f", until)
        assert ddm.keep_copies([kept, TemporaryCopy("A", "s:d", "g", until)]) == 1
        assert ddm.keep_copies([kept]) == 0
        assert make(roots).copies() == [TemporaryCopy("B", "s:d", "g", until)]
        assert ddm.drop_copies([kept]) == (0, [])
        assert ddm.locate("s:d", "f") == {"f": ["A", "B"]}

    def test_a_copy_that_cannot_be_removed_keeps_no_other(self, make: Make, roots: Roots) -> None:
        ddm, until = make(roots), datetime(2030, 1, 1, tzinfo=UTC)
        put(ddm, "A", "s:d", {lfn: lfn.encode() for lfn in "fgh"})
        ddm.transfer([("s:d", lfn) for lfn in "fgh"], "A", "B", "test", until)
        stuck = ddm.path("B", "s:d", "g")
        was = stuck.stat()
        stuck.unlink()
        stuck.mkdir()  # not even root can unlink it
        os.utime(stuck, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert len(ddm.copies()) == 3
        dropped, [problem] = ddm.drop_copies(ddm.copies())
        assert dropped == 2 and str(stuck) in str(problem)
        assert [copy.lfn for copy in ddm.copies()] == ["g"]

    def test_the_last_replica_is_no_copy_any_more(self, make: Make, roots: Roots) -> None:
        ddm, until = make(roots), datetime(2030, 1, 1, tzinfo=UTC)
        put(ddm, "A", "s:d", {"f": b"f"})
        ddm.transfer([("s:d", "f")], "A", "B", "test", until)
        only = make({"B": roots["B"]})
        assert only.drop_copies(only.copies()) == (0, [])
        assert make(roots).copies() == []
        assert ddm.path("B", "s:d", "f").read_bytes() == b"f"

    def test_space(self, ddm: DDM) -> None:
        space = ddm.space("A")
        assert 0 <= space.free_gb <= space.total_gb
