"""Files that operators write: a YAML list of mappings, each checked against a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from jedi.core import strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.core.suggest import suggest
from jedi.model.mistakes import rule_and_remedy


class Entry(BaseModel):
    """A mapping in a list file. Unknown keys and values of another type are mistakes; the
    description of a field is shown as the remedy."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        """PostgreSQL takes neither NUL nor half a surrogate pair."""
        if any("\0" in one or one.encode(errors="ignore").decode() != one for one in _texts(value)):
            raise ValueError("it has characters that JEDI can't store")
        return value


def _texts(value: Any) -> Iterator[str]:
    """All text in a value."""
    match value:
        case str():
            yield value
        case dict():
            yield from chain.from_iterable(map(_texts, (*value, *value.values())))
        case list():
            yield from chain.from_iterable(map(_texts, value))


_Entry = TypeVar("_Entry", bound=Entry)


def read_list(text: str, model: type[_Entry], key: str) -> list[_Entry]:
    """The entries of a file; `key` identifies each. BadInput holds every mistake."""
    written = strictyaml.load(text)
    if not isinstance(written, list):
        remedy = f"Begin each entry with `- {key}: `"
        raise BadInput([Problem("file", written, "the file is a list of mappings", remedy)])
    entries: list[_Entry] = []
    problems: list[Problem] = []
    seen: set[Any] = set()
    for number, entry in enumerate(written, 1):
        if not isinstance(entry, dict):
            problems.append(no_mapping(number, entry, key))
            continue
        try:
            entries.append(read_entry(entry, model, str(entry.get(key, f"entry {number}"))))
        except BadInput as error:
            problems += error.problems
        name = str(entry.get(key))
        if key in entry and name in seen:
            problems.append(
                Problem(name, entry[key], f"another entry has this {key}, too", "Remove one")
            )
        seen.add(name)
    if problems:
        raise BadInput(problems)
    return entries


def no_mapping(number: int, entry: Any, key: str) -> Problem:
    """The mistake of an entry that has no keys."""
    return Problem(
        f"entry {number}",
        entry,
        "must be a mapping of keys to values",
        f"Begin it with `- {key}: `",
    )


def read_entry(written: Mapping[str, Any], model: type[_Entry], name: str) -> _Entry:
    """One entry; BadInput holds every mistake, its path beginning with `name`."""
    try:
        return model.model_validate(written)
    except ValidationError as error:
        raise BadInput([_problem(name, model, one) for one in error.errors()]) from error


def _problem(name: str, model: type[BaseModel], error: Any) -> Problem:
    steps = error["loc"]
    path = name + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    keys = [step for step in steps if isinstance(step, str)]
    last = keys[-1] if keys else name
    fields = _inside(model, keys[:-1]).model_fields
    match error["type"]:
        case "extra_forbidden":
            known = f"The keys here are {', '.join(fields)}"
            return Problem(path, error["input"], "no such key", suggest(last, fields, known))
        case "missing":
            return Problem(path, None, "is mandatory", "Add it")
        case "string_type":
            return Problem(path, error["input"], "must be text", "Write it in quotes")
        case _:
            rule, remedy = rule_and_remedy(error)
            if last in fields and (meaning := fields[last].description):
                remedy = f"It means: {meaning}"
            return Problem(path, error["input"], rule, remedy)


def _inside(model: type[BaseModel], keys: list[str]) -> type[BaseModel]:
    """The model of a nested mapping."""
    for key in keys:
        if key in model.model_fields:  # else it is a free one
            for part in _parts(model.model_fields[key].annotation):
                model = part
    return model


def _parts(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [part for inner in getattr(annotation, "__args__", ()) for part in _parts(inner)]
