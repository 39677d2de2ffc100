"""One endpoint's directory: where things lie in it, and that nothing leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jedi.core import names
from jedi.core.errors import BadInput, Problem, Refused

FileStats = dict[str, os.stat_result]
_ENDS_NOWHERE = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EACCES)


def canonical(dataset: str) -> str:
    """`scope:name` without the '/' that some people put behind containers; else ValueError."""
    return ":".join(names.dataset(dataset))


def valid_dataset(text: str) -> str:
    """The canonical name of a dataset; else BadInput."""
    return _valid("dataset", canonical, text)


def valid_lfn(text: str) -> str:
    """A file name that is one path component; else BadInput."""
    return _valid("lfn", names.lfn, text)


def _valid(what: str, rule: Callable[[str], str], text: str) -> str:
    try:
        return rule(text)
    except ValueError as error:
        raise BadInput([Problem(what, text, str(error), "Correct the name")]) from error


def _directories(place: Path) -> list[Path]:
    try:
        return [one for one in place.iterdir() if one.name[0] != "." and one.is_dir()]
    except OSError:  # a storage may be away, and what is another's be closed
        return []


@dataclass(frozen=True)
class Storage:
    """The storage of an endpoint; `root` is a real path (no symlinks), which is missing while the
    storage is not mounted."""

    endpoint: str
    root: Path

    @cached_property
    def staging(self) -> Path:
        """The directory of unpublished files: hidden, on the same file system."""
        return self.root / ".staging"

    @cached_property
    def exchange(self) -> Path:
        """The directory of pilots of PanDA (jedi/ddm/exchange.py)."""
        return self.root / ".panda"

    @cached_property
    def pieces(self) -> Path:
        """The directory of zip files with processed events, which belong to no dataset."""
        return self.root / ".eventservice"

    def make(self, directory: Path) -> None:
        """Make a directory below the root, and missing parents, for no more accounts than the one
        above it: who owns a storage says by its mode who reads the datasets in it.
        FileNotFoundError: the root is missing. Only an import of the endpoint makes it."""
        if directory.is_dir():
            return
        if directory == self.root and not os.path.lexists(directory):
            raise self.missing()
        if directory != self.root:
            self.make(directory.parent)
        directory.mkdir(exist_ok=True)
        mode, above = directory.stat().st_mode, directory.parent.stat().st_mode
        if mode & 0o077 & ~above:
            directory.chmod(stat.S_IMODE(mode) & (above | 0o7700))

    def missing(self) -> FileNotFoundError:
        """The error of a storage whose root is missing."""
        return FileNotFoundError(
            f"{self.endpoint} has no directory {self.root}: mount its storage, or make the "
            "directory if the storage is new"
        )

    def datasets(self) -> Iterator[str]:
        """The names of all datasets that have a directory here."""
        for scope in _directories(self.root):
            for home in _directories(scope):
                with suppress(ValueError):
                    yield canonical(f"{scope.name}:{home.name}")

    def home(self, dataset: str) -> Path:
        """The directory of a dataset, there or not."""
        return Path(self._named(dataset))

    def file(self, dataset: str, lfn: str) -> Path:
        """The place of a file, there or not."""
        return Path(self.where(dataset, lfn))

    def where(self, dataset: str, lfn: str) -> str:
        """The same as text: a job is handed out with the places of all its inputs, and pathlib
        and realpath() would take twice as long."""
        return self._named(dataset, valid_lfn(lfn))

    def finder(self) -> Callable[[str, str], str]:
        """Return `where` for the files of one request, of a link its end, since pilots follow
        none: it looks for symlinks above the files of a dataset once, which is most of its time."""
        homes: dict[str, str | None] = {}

        def where(dataset: str, lfn: str) -> str:
            if dataset not in homes:
                home, links = self._placed(dataset)
                homes[dataset] = None if links else home
            if (above := homes[dataset]) is None:
                return self.where(dataset, lfn)
            return f"{above}/{valid_lfn(lfn)}"

        def followed(dataset: str, lfn: str) -> str:
            place = where(dataset, lfn)
            if not os.path.islink(place):  # noqa: PTH114
                return place
            return os.path.realpath(self.inside(Path(place)))

        return followed

    def _named(self, dataset: str, *lfn: str) -> str:
        place, links = self._placed(dataset, *lfn)
        return str(self.inside(Path(place))) if links else place

    def _placed(self, dataset: str, *lfn: str) -> tuple[str, bool]:
        """The path, and True if there are symlinks in it below the root."""
        place, links = str(self.root).rstrip("/"), False
        for name in (*valid_dataset(dataset).split(":"), *lfn):
            place = f"{place}/{name}"
            links = links or os.path.islink(place)  # noqa: PTH114
        return place, links

    def inside(self, path: Path) -> Path:
        """The same path; Refused if symlinks lead it out of the root."""
        root = f"{self.root}/".replace("//", "/")
        if not f"{os.path.realpath(path)}/".startswith(root):  # is_relative_to() would take 10 us
            raise Refused(
                f"{path} leads out of the storage of {self.endpoint}, {self.root}. "
                "Put a copy in its place.",
                code="outside_root",
                path=str(path),
            )
        return path

    def stat(self, path: Path) -> os.stat_result | None:
        """The stat of a regular file; None where there is none."""
        try:
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                found = self.inside(path).stat()
        except FileNotFoundError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def found(self, path: Path) -> os.stat_result | None:
        """The stat of an entry that is a file of its dataset, else None."""
        judged = self._judged(str(path), path.name)
        return None if isinstance(judged, str) else judged

    def scan(self, home: Path) -> FileStats:
        """The files of a dataset's directory."""
        with os.scandir(home) as entries:
            judged = {entry.name: self._judged(entry.path, entry.name) for entry in entries}
        return {lfn: found for lfn, found in judged.items() if isinstance(found, os.stat_result)}

    def left_out(self, home: Path) -> dict[str, str]:
        """The entries of a dataset's directory that are no files of it, each with a reason code."""
        with os.scandir(home) as entries:
            judged = {
                entry.name: self._judged(entry.path, entry.name)
                for entry in entries
                if not (names.is_lfn(entry.name) and entry.is_file(follow_symlinks=False))
            }
        return {name: code for name, code in judged.items() if isinstance(code, str)}

    def _judged(self, path: str, name: str) -> os.stat_result | str | None:
        """The stat of a regular file, or of one in this storage at which a link ends; else the
        reason why the entry is not a file of a dataset. None: it does not exist."""
        if not names.is_lfn(name):
            return "bad_file_name"
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            real = os.path.realpath(path)
            below = os.path.relpath(real, self.root).split("/")
            if any(part.startswith(".") for part in below):  # `..`, or what JEDI keeps to itself
                return "link_outside"
            try:
                found = Path(real).stat()
            except OSError as error:
                if error.errno in _ENDS_NOWHERE:
                    return "link_broken"
                raise
        return found if stat.S_ISREG(found.st_mode) else "not_a_file"
