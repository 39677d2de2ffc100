"""Exports of registries: jobs and templates as JSON or YAML, which people can read. Loading an
export never evaluates it.

Source: docs/reference/ganga.md#exports.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from jedi_client.errors import BadInput, JediError, Problem
from jedi_client.gpi.folders import normal
from jedi_client.gpi.interfaces import Document, Entry, Kind, Record, Store
from jedi_client.gpi.report import Report
from jedi_client.gpi.store.rows import TORN, text_of

FORMAT, VERSION = "jedi-client export", 1
KINDS: tuple[Kind, ...] = get_args(Kind)
_YAML = (".yaml", ".yml")


def export(
    store: Store,
    path: str | os.PathLike[str],
    ids: Collection[int] | None = None,
    kind: Kind | None = None,
    *,
    append: bool = False,
) -> Report:
    """Write jobs and templates to a file: JSON, or YAML for .yaml and .yml. Without `ids`, all of
    the registry, or of one kind. `append`: add them to the file. The report names damaged
    records, which are left out. NotFound."""
    to = Path(path).expanduser()
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "registry": store.guid}
    before: list[Any] = []
    if append and to.exists():
        header = _read(to)
        before = header.pop("entries")
    folders: dict[int, list[str]] = defaultdict(list)
    for folder, members in store.folders().items():
        for id in members:
            folders[id].append(folder)
    done: list[int] = []
    failed: dict[int | None, str] = {}
    entries = []
    for one in KINDS if kind is None and ids is None else (kind or "job",):
        for record in store.load(one, _ids(store, one, ids)):
            if record.document is None:
                failed[record.id] = TORN
                continue
            entries.append(_entry_of(record, folders[record.id] if one == "job" else []))
            done.append(record.id)
    _write(to, {**header, "entries": before + entries})
    return Report("export", done, failed)


def load(
    store: Store,
    path: str | os.PathLike[str],
    check: Callable[[Document], object] = lambda document: document,
) -> Mapping[Kind, Sequence[Record]]:
    """Read an export: new jobs and templates with new ids, in their folders. `check` refuses a
    document by BadInput. All mistakes at once; nothing is stored then. One transaction."""
    entries = [
        _entry(index, one) for index, one in enumerate(_read(Path(path).expanduser())["entries"])
    ]
    _must_be_good(entries, check)
    return store.take_in(
        [
            replace(
                one, folders=[normal(path) for path in one.folders] if one.kind == "job" else ()
            )
            for one in entries
        ]
    )


def _ids(store: Store, kind: Kind, ids: Collection[int] | None) -> Sequence[int]:
    return [one.id for one in store.list(kind)] if ids is None else list(ids)


def _entry_of(record: Record, folders: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "id": record.id,
        "name": record.name,
        "comment": record.comment,
        "folders": list(folders),
        "document": record.document,
    }


def _entry(index: int, found: Any) -> Entry:
    """An entry of a file. BadInput."""
    at = f"entries[{index}]"
    if not isinstance(found, dict) or not isinstance(found.get("document"), dict):
        raise _bad(at, found, "is no entry with a document", "Export it again")
    kind, name, comment = found.get("kind"), found.get("name", ""), found.get("comment", "")
    if kind not in KINDS:
        raise _bad(f"{at}.kind", kind, "is no kind of record", "Write job or template")
    folders = found.get("folders", [])
    texts = [name, comment, *(folders if isinstance(folders, list) else [None])]
    if not all(isinstance(one, str) for one in texts):
        raise _bad(at, found, "has a name, comment or folder that is no text", "Write texts")
    return Entry(kind, name, comment, folders, found["document"])


def _must_be_good(entries: Sequence[Entry], check: Callable[[Document], object]) -> None:
    """BadInput names all mistakes of all documents."""
    problems: list[Problem] = []
    for index, entry in enumerate(entries):
        try:
            text_of(entry.document)
            check(entry.document)
            for folder in entry.folders:
                normal(folder)
        except BadInput as error:
            at = f"entries[{index}]"
            problems += [
                Problem(f"{at}.{one.path}", one.value, one.rule, one.remedy)
                for one in error.problems
            ]
    if problems:
        raise BadInput(problems)


def _read(path: Path) -> dict[str, Any]:
    """An export. BadInput for other files."""
    content = path.read_bytes()
    try:
        found = _from_yaml(content) if path.suffix in _YAML else json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _bad(str(path), str(error), "is no export of jedi-client", _REMEDY) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _bad(str(path), found, "is no export of jedi-client", _REMEDY)
    if found.get("version") != VERSION:
        remedy = "Load it with the release that wrote it"
        raise _bad(str(path), found.get("version"), f"version is not {VERSION}", remedy)
    if not isinstance(found.get("entries"), list):
        raise _bad(str(path), found.get("entries"), "has no list of entries", _REMEDY)
    return found


_REMEDY = "Write one with `export`; exports of Ganga are programs, and are not read"


def _write(path: Path, found: Mapping[str, Any]) -> None:
    """Write a file in one step: a reader sees the old content or the new."""
    text = _to_yaml(found) if path.suffix in _YAML else json.dumps(found, indent=1) + "\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise JediError(
            "YAML needs the package pyyaml, which is not installed. Install it, or name a file "
            "that ends in .json.",
            code="no_yaml",
        ) from None
    return yaml


def _to_yaml(found: Mapping[str, Any]) -> str:
    text: str = _yaml().safe_dump(found, sort_keys=False)
    return text


def _from_yaml(content: bytes) -> Any:
    """Plain values of YAML. ValueError also for aliases, which could make a small file huge."""
    yaml = _yaml()
    try:
        if any(isinstance(one, yaml.AliasEvent) for one in yaml.parse(content, yaml.SafeLoader)):
            raise ValueError("it has aliases (*name)")
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _bad(path: str, value: Any, rule: str, remedy: str) -> BadInput:
    return BadInput([Problem(path, value, rule, remedy)])
