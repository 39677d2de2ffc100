"""Folders of jobs: a tree of links over the flat registry, kept with it.

    folders.cd("/2025/zmumu").add(j)
    folders.cd("/2025/zmumu")["Z->mumu, 2025"]

Source: docs/reference/ganga.md#folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from jedi_client.errors import BadInput, NotFound, Problem
from jedi_client.gpi.interfaces import Store
from jedi_client.gpi.kinds import did_you_mean
from jedi_client.gpi.report import JobError

J = TypeVar("J")


class NotInFolder(NotFound, KeyError):
    """A folder has no job or folder of the name, or several jobs."""

    __str__ = Exception.__str__


class Listing(Generic[J]):
    """The content of a folder: names of folders, and jobs."""

    def __init__(self, path: str, folders: list[str], jobs: list[J]) -> None:
        self.path, self.folders, self.jobs = path, folders, jobs

    def __repr__(self) -> str:
        lines = [self.path, *(f"  {name}/" for name in self.folders)]
        lines += [f"  {_short(job)}" for job in self.jobs[:50]]
        return "\n".join(lines + ([f"  and {len(self.jobs) - 50} more"] if self.jobs[50:] else []))


class Folder(Generic[J]):
    """A folder of a registry. `job_of` gives the job of an id. The folder exists from the first
    `add` or `mkdir` on."""

    def __init__(self, store: Store, job_of: Callable[[int], J], path: str = "/") -> None:
        self._store, self._job_of = store, job_of
        self.path = path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2] or "/"

    def cd(self, path: str = "/") -> Folder[J]:
        """The folder at a path, from this folder on; `..` is the one above."""
        return self._at(path)

    def mkdir(self, path: str = ".") -> Folder[J]:
        """Make a folder, with its missing parents."""
        made = self._at(path)
        if made.path != "/":
            self._store.make_folder(made.path)
        return made

    def add(self, *jobs: J | int | Iterable[J]) -> Folder[J]:
        """Put jobs, by themselves, by id or as a slice, into this folder. JobError for subjobs and
        jobs of another registry."""
        self._store.put(self.path, list(self._ids(jobs)))
        return self

    def rm(self, *what: J | int | str | Iterable[J]) -> None:
        """Take jobs out of this folder, or remove folders by path with all that are in them. The
        jobs themselves stay in the registry."""
        names = [one for one in what if isinstance(one, str)]
        jobs = list(self._ids(one for one in what if not isinstance(one, str)))
        for name in names:
            if (path := normal(name, self.path)) in self._store.folders() and path != "/":
                self._store.remove_folder(path)
            else:
                jobs.append(self._named(name))
        if strange := set(jobs) - set(self._inside()):
            raise NotInFolder(f"{self.path} has no job {min(strange)}.", path=self.path)
        if jobs:
            self._store.take_out(self.path, jobs)

    def ls(self, path: str = ".") -> Listing[J]:
        """The folders and jobs in this folder, or at a path. NotFound."""
        at = self._at(path)
        known = self._store.folders()
        begin = at.path.rstrip("/") + "/"
        names = {
            one.removeprefix(begin).partition("/")[0]
            for one in known
            if one != "/" and one.startswith(begin)
        }
        return Listing(at.path, sorted(names), list(map(self._job_of, at._inside())))

    def find(self, job: J | int) -> list[str]:
        """The paths of the folders with a job."""
        [wanted] = self._ids([job])
        return [path for path, ids in self._store.folders().items() if wanted in ids]

    def __getitem__(self, key: str | int) -> J | Folder[J]:
        """The job of this name or id in this folder, or the folder at this path. NotInFolder, also
        if several jobs share the name."""
        if isinstance(key, int):
            if key in self._inside():
                return self._job_of(key)
            raise NotInFolder(f"{self.path} has no job {key}.", path=self.path, id=key)
        if (path := normal(key, self.path)) in self._store.folders():
            return self._at(path)
        return self._job_of(self._named(key))

    def __contains__(self, job: object) -> bool:
        return getattr(job, "id", job) in self._inside()

    def __iter__(self) -> Iterator[J]:
        return map(self._job_of, self._inside())

    def __len__(self) -> int:
        return len(self._inside())

    def __bool__(self) -> bool:
        """True: an empty folder is a folder, too."""
        return True

    def __repr__(self) -> str:
        return f"Folder({self.path!r})"

    def _at(self, path: str) -> Folder[J]:
        return Folder(self._store, self._job_of, normal(path, self.path))

    def _inside(self) -> list[int]:
        known = self._store.folders()
        if self.path not in known:
            remedy = did_you_mean(self.path, known) or "`mkdir` and `add` make it."
            raise NotFound(f"There is no folder {self.path}. {remedy}", path=self.path)
        return list(known[self.path])

    def _named(self, name: str) -> int:
        """The id of the only job of a name in this folder."""
        inside = set(self._inside())
        jobs = [one for one in self._store.list("job") if one.id in inside]
        match [one.id for one in jobs if one.name == name]:
            case [id]:
                return id
            case []:
                remedy = did_you_mean(name, {one.name for one in jobs}) or "See `ls`."
                sentence = f"{self.path} has no job or folder {name!r}. {remedy}"
                raise NotInFolder(sentence, path=self.path, name=name)
            case ids:
                listed = ", ".join(map(str, ids))
                sentence = f"Several jobs in {self.path} are named {name!r}: {listed}. Name an id."
                raise NotInFolder(sentence, path=self.path, name=name, ids=ids)

    def _ids(self, jobs: Iterable[Any]) -> Iterator[int]:
        """Ids of jobs that are given by themselves, by id, or as a slice."""
        for one in jobs:
            id = getattr(one, "id", one)
            if isinstance(one, str) or not isinstance(id, int | Iterable):
                rule, remedy = "is no job", "Give jobs, ids or a slice; folders.cd(path).add(j)"
                raise BadInput([Problem("jobs", one, rule, remedy)])
            if not isinstance(id, int):
                yield from self._ids(one)
            elif getattr(one, "parent", None) is not None:
                raise JobError(f"Folders hold jobs, no subjobs. Add job {one.parent.id}.")
            elif one is not id and self._job_of(id) is not one:
                raise JobError(f"Job {id} is in another registry than this folder.")
            else:
                yield id


class FolderTree(Folder[J]):
    """The folders of a registry, and the present one: `cd` also goes there. Its `path` is that of
    the present folder."""

    def cd(self, path: str = "/") -> Folder[J]:
        """Go to the folder at a path, and give it."""
        there = self._at(path)
        self.path = there.path
        return there

    def pwd(self) -> str:
        """The path of the present folder."""
        return self.path

    def __repr__(self) -> str:
        return f"<folders, now in {self.path}>"


def normal(path: str, at: str = "/") -> str:
    """A path from the root on. A backslash counts as a slash; `..` goes up, from the root to the
    root. BadInput for unprintable characters."""
    given = path.replace("\\", "/")
    if not given.isprintable():
        rule = "has unprintable characters"
        raise BadInput([Problem("path", path, rule, "Write names as in /2025/zmumu")])
    parts = [] if given.startswith("/") else at.split("/")
    found: list[str] = []
    for part in (*parts, *given.split("/")):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return "/" + "/".join(found)


def _short(job: object) -> str:
    id, name = getattr(job, "id", job), getattr(job, "name", "")
    return f"{id} {name}".rstrip() if isinstance(id, int) else repr(job)
