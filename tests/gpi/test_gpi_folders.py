"""Folders of jobs. Source: docs/reference/ganga.md#folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jedi_client.errors import BadInput, NotFound
from jedi_client.gpi.folders import Folder, FolderTree, NotInFolder, normal
from jedi_client.gpi.report import JobError
from jedi_client.gpi.store.sqlite_store import SqliteStore


@dataclass(eq=False)
class Held:
    """A job as folders see one."""

    id: int
    name: str
    parent: Held | None = None


JOBS = {id: Held(id, name) for id, name in enumerate(["large job", "twin", "twin", ""])}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "registry.db")
    made.create("job", [{}] * len(JOBS), [one.name for one in JOBS.values()])
    yield made
    made.close()


@pytest.fixture
def folders(store: SqliteStore) -> FolderTree[Held]:
    return FolderTree(store, JOBS.__getitem__)


def test_the_session_of_the_interface(folders: FolderTree[Held], store: SqliteStore) -> None:
    """The session of the interface: `folders.cd("/2025/zmumu").add(j)` makes the missing parents;
    row 112: "`folders.cd('/myjobs')['large job']` is the job"; row 111: persistent."""
    folders.cd("/2025/zmumu").add(JOBS[0])
    again = FolderTree(store, JOBS.__getitem__)
    assert again.cd("/2025/zmumu")["large job"] is JOBS[0]
    assert again.cd("\\2025\\zmumu")["large job"] is JOBS[0]
    assert again.find(JOBS[0]) == ["/2025/zmumu"]
    assert again.ls("/").folders == ["2025"]


def test_cd_goes_to_a_folder_and_gives_it(folders: FolderTree[Held]) -> None:
    """Check 19: mkdir, cd, add, find, rm."""
    made = folders.mkdir("a/b")
    assert (made.path, folders.pwd()) == ("/a/b", "/")
    assert folders.cd("a").path == folders.pwd() == "/a"
    folders.add(JOBS[1])
    folders.mkdir("c")
    listing = folders.ls()
    assert (listing.folders, listing.jobs) == (["b", "c"], [JOBS[1]])
    assert str(listing) == "/a\n  b/\n  c/\n  1 twin"
    inner = folders["b"]
    assert isinstance(inner, Folder)
    assert inner.name == "b"
    assert (inner.cd("..").path, folders.pwd()) == ("/a", "/a")
    assert folders.cd().path == "/"


def test_a_folder_holds_jobs_by_name_id_and_slice(folders: FolderTree[Held]) -> None:
    """Row 71: "lookup by a shared name is an error"; row 113: a job may sit in several folders."""
    mine = folders.cd("/mine").add([JOBS[0], JOBS[1]], JOBS[2], 3)
    folders.cd("/other").add(JOBS[0])
    assert [*mine] == [*JOBS.values()]
    assert (len(mine), JOBS[3] in mine, mine[3]) == (4, True, JOBS[3])
    assert folders.find(JOBS[0]) == folders.find(0) == ["/mine", "/other"]
    with pytest.raises(NotInFolder, match="Several jobs in /mine are named 'twin': 1, 2"):
        mine["twin"]
    with pytest.raises(KeyError, match="Did you mean large job"):
        mine["large jop"]
    with pytest.raises(KeyError, match="has no job 7"):
        mine[7]


def test_rm_takes_links_away_and_no_jobs(folders: FolderTree[Held], store: SqliteStore) -> None:
    """Row 110: "folder links vanish" with a job."""
    mine = folders.cd("/mine").add(*JOBS.values())
    mine.mkdir("inner").add(JOBS[1])
    mine.rm(JOBS[1], "large job")
    assert [*mine] == [JOBS[2], JOBS[3]]
    with pytest.raises(NotInFolder, match="/mine has no job 1"):
        mine.rm(JOBS[1])
    store.remove("job", [2])
    assert [*mine] == [JOBS[3]]
    folders.cd("/").rm("mine")
    assert folders.ls().folders == []
    assert len(store.list("job")) == 3
    with pytest.raises(KeyError):
        folders.rm("mine")


def test_mistakes_name_the_remedy(folders: FolderTree[Held]) -> None:
    folders.mkdir("/zmumu")
    with pytest.raises(NotFound, match=r"There is no folder /zmunu. Did you mean /zmumu\?"):
        folders.ls("/zmunu")
    with pytest.raises(JobError, match=r"Folders hold jobs, no subjobs\. Add job 0"):
        folders.add(Held(1, "", JOBS[0]))
    with pytest.raises(JobError, match="another registry"):
        folders.add(Held(1, ""))
    with pytest.raises(BadInput, match="unprintable"):
        folders.mkdir("a\nb")


@pytest.mark.parametrize(
    ("path", "at", "expected"),
    [
        ("/a//b/", "/x", "/a/b"),
        ("a\\b", "/x", "/x/a/b"),
        ("..", "/a/b", "/a"),
        ("../..", "/a", "/"),
        (".", "/a", "/a"),
        ("", "/a", "/a"),
        ("/", "/a", "/"),
        ("é ü", "/", "/é ü"),
    ],
)
def test_paths(path: str, at: str, expected: str) -> None:
    """Row 112: "accept `/`, tolerate `\\`"."""
    assert normal(path, at) == expected
