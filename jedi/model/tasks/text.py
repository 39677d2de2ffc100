"""Conversion of a task's text to typed parameters, with all mistakes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, get_args

from pydantic import ValidationError

from jedi.core import strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.core.nesting import is_deeper
from jedi.model.tasks.contradictions import contradictions, item_contradictions
from jedi.model.tasks.faulty_items import STAND_IN, problems_beside
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.placeholders import stream_of
from jedi.model.tasks.preprocessing import with_stand_ins
from jedi.model.tasks.problems import explain

Format = Literal["yaml", "json"]
MAX_CHARACTERS = 4_000_000
_BOM = "\ufeff"
_BETWEEN = re.compile(r"[\s,]*(\]\s*\Z)?")
"""The text between the items of a list in JSON, with its end."""

DATASETS_FOR = "dsFor"


def parse_text(text: str, format: str) -> Any:
    """The document in a text; BadInput if it is not well formed."""
    if format not in get_args(Format):
        raise _malformed(format, "the format must be yaml or json", "Give the format")
    if len(text) > MAX_CHARACTERS:
        raise _malformed(text[:40], f"a task has at most {MAX_CHARACTERS} characters", "Shorten it")
    if format == "yaml":
        return strictyaml.load(text, "task")
    try:
        document = json.loads(
            text.removeprefix(_BOM), object_pairs_hook=_unique_keys, parse_constant=_no_such_number
        )
        if is_deeper(document, strictyaml.MAX_DEPTH):
            raise RecursionError
        if bad := next(_unprintable(document), None):
            raise ValueError(f"{bad[:20]!r} holds a character that can't be stored")
    except ValueError as error:
        sentence = " ".join(str(error).split())
        raise _malformed(text.strip()[:40], sentence, "Correct it") from error
    except RecursionError as error:
        raise _malformed(text.strip()[:40], "it is nested too deeply", "Flatten it") from error
    return document


def split(text: str, format: str) -> list[str] | None:
    """The texts of the tasks in a collection: a list, or several documents of YAML; None: the text
    is that of one task, or not well formed."""
    try:
        texts = _items(text) if format == "json" else strictyaml.documents_of(text)
    except (BadInput, ValueError, RecursionError):
        return None  # whoever reads it as one task tells what is wrong with it
    return texts or None


def _items(text: str) -> list[str]:
    """The texts of the items of a list in JSON; none: it is something else."""
    if not isinstance(json.loads(text.removeprefix(_BOM)), list):
        return []
    texts, decoder = [], json.JSONDecoder()
    place = text.index("[") + 1
    while (begin := _BETWEEN.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        place = decoder.raw_decode(text, begin)[1]
        texts.append(text[begin:place])
    return texts


def examine(document: Any) -> tuple[TaskParams | None, list[Problem]]:
    """The typed task and all its problems. With problems, the task holds the well-formed part, so
    that the caller can go on looking; None if there is nothing to look at."""
    document, unfed = with_datasets(with_stand_ins(document))
    try:
        params = TaskParams.model_validate(document)
    except ValidationError as error:
        problems = [*explain(error), *unfed]
        if not isinstance(document, dict):
            return None, problems
        broken = {str(details["loc"][0]) for details in error.errors()}
        sound = _sound(document, error)
        params = TaskParams.model_validate(sound)
        problems += contradictions(params)
        if not broken & {"noInput", "pfnList", "log"}:
            problems += problems_beside(sound, document, error)
        return params, problems
    return params, [*unfed, *contradictions(params), *item_contradictions(params)]


def with_datasets(document: Any) -> tuple[Any, list[Problem]]:
    """The document with the datasets of its keys dsFor<STREAM> in the items that feed these
    streams, and the ones that feed nothing."""
    items = document.get("jobParameters") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return document, []
    more = {k: v for k, v in document.items() if str(k).startswith(DATASETS_FOR)}
    inputs = [i for i, item in enumerate(items) if _reads(item)]
    first = 1 if document.get("pfnList") else 0
    fed = {i: stream_of(items[i]["value"], position) for position, i in enumerate(inputs, first)}
    problems = [
        Problem(
            key, value, "names datasets, but an input item already feeds this stream", "Correct it"
        )
        for key, value in more.items()
        if not isinstance(value, str) or key.removeprefix(DATASETS_FOR) not in fed.values()
    ]
    items = list(items)
    for i, stream in fed.items():
        if isinstance(added := more.get(DATASETS_FOR + stream), str):
            items[i] = {**items[i], "dataset": f"{items[i]['dataset']},{added}"}
    kept = {key: value for key, value in document.items() if key not in more}
    return kept | {"jobParameters": items}, problems


def _reads(item: Any) -> bool:
    """Return True if it is an input item that may get more datasets."""
    return (
        isinstance(item, dict)
        and item.get("param_type") == "input"
        and isinstance(item.get("value"), str)
        and isinstance(item.get("dataset"), str)
    )


def validate(document: Any) -> TaskParams:
    """The typed task; BadInput with every problem of the document."""
    params, problems = examine(document)
    if params is None or problems:
        raise BadInput(problems)
    return params


def _sound(document: dict[Any, Any], error: ValidationError) -> dict[str, Any]:
    """The keys and items of a document without errors; an empty constant for each broken item."""
    places = {details["loc"][:2] for details in error.errors()}
    broken = {place[0] for place in places}
    sound = {k: v for k, v in document.items() if k not in broken}
    items = document.get("jobParameters")
    if isinstance(items, list):
        kept = [STAND_IN if ("jobParameters", i) in places else it for i, it in enumerate(items)]
        sound["jobParameters"] = kept
    return {"taskName": "unnamed", "jobParameters": [], **sound}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {twice!r} is repeated")
    return mapping


def _no_such_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _unprintable(value: Any) -> Iterator[str]:
    """Texts that a database can't hold: with a NUL, or with half a surrogate pair."""
    match value:
        case str():
            if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
                yield value
        case dict():
            for key, inner in value.items():
                yield from _unprintable(key)
                yield from _unprintable(inner)
        case list():
            for inner in value:
                yield from _unprintable(inner)


def _malformed(value: Any, rule: str, remedy: str) -> BadInput:
    return BadInput([Problem("task", value, rule, remedy)])
