"""Checks of the sound items beside faulty ones: a problem counts if it does not depend on these."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from jedi.core.errors import Problem
from jedi.model.tasks.contradictions import UNFILLED, item_contradictions
from jedi.model.tasks.params import ITEM_MODELS, TaskParams, item_kind

_ITEMS = "jobParameters"
_FILL = {
    "splitter": "UNIT",
    "buildSpec": "LIB",
    "addNthFieldToLFN": "MIDDLENAME",
    "sourceURL": "SURL",
}
"""Keys that fill placeholders: while a key is faulty, these are not reported as unfilled."""

_ALLOW = {
    **dict.fromkeys(
        ("nEventsPerWorker", "useJobCloning", "fineGrainedProc", "esFraction", "esConvertible"),
        "esmergeSpec",
    ),
    "mergeSpec": "mergeOutput",
}
"""Keys that another key needs: while a key is faulty, the other one is not reported."""

STAND_IN = {"type": "constant", "value": ""}


def problems_beside(
    sound: Mapping[str, Any], document: Mapping[str, Any], error: ValidationError
) -> Iterator[Problem]:
    """Yield problems of the sound items of a document: the ones that are there without the faulty
    items as well as with these mended. `sound`: the document with stand-ins for faulty items."""
    faulty = {str(one["loc"][0]) for one in error.errors()}
    wrong: dict[int, set[str]] = {}
    for one in error.errors():
        match one["loc"]:
            case (key,) if key == _ITEMS:
                return
            case (key, int(n), *rest) if key == _ITEMS:
                wrong.setdefault(n, set()).update(map(str, rest[1:2] or [""]))
    try:
        found = [
            [*item_contradictions(TaskParams.model_validate({**sound, _ITEMS: items}))]
            for items in _variants(document.get(_ITEMS), wrong)
        ]
    except ValidationError:  # what is left can't be mended
        return
    everywhere = [{*map(_sentence, others)} for others in found[1:]]
    lost = any(map(_may_feed, (document[_ITEMS][n] for n in wrong)))
    for problem in found[0]:
        independent = all(_sentence(problem) in others for others in everywhere)
        if lost and problem.rule == UNFILLED:
            continue
        if independent and not _follows(problem, faulty):
            yield problem


def has_input(document: Any) -> bool:
    """Return True if a document has an item of input, faulty or not, or no list of items."""
    items = document.get(_ITEMS, []) if isinstance(document, Mapping) else None
    return not isinstance(items, list) or any(_kind(one) == "input" for one in items)


def _variants(items: Any, wrong: Mapping[int, Collection[str]]) -> list[list[Any]]:
    """The items with the faulty ones mended, and without them. Items of an unknown kind are inputs
    in one variant, and outputs in another one."""
    if not wrong:
        return [items or []]
    kinds = [_kind(items[n]) for n in wrong]
    guesses = ("input", "output") if None in kinds else ("input",)
    mended = [
        [_mended(n, one, wrong[n], guess) if n in wrong else one for n, one in enumerate(items)]
        for guess in guesses
    ]
    return [*mended, [STAND_IN if n in wrong else one for n, one in enumerate(items)]]


def _kind(item: Any) -> str | None:
    kind = item_kind(item)
    return kind if kind in ITEM_MODELS else None


def _may_feed(item: Any) -> bool:
    """Return True if an item without a text may be meant to feed any placeholder."""
    text = isinstance(item, dict) and isinstance(item.get("value"), str)
    return not text and _kind(item) in (None, "input")


def _mended(position: int, item: Any, wrong: Collection[str], guess: str) -> dict[str, Any]:
    """An item without its wrong keys, and with stand-ins for the ones that it needs. Of one of an
    unknown kind, the value alone is kept."""
    kind = _kind(item)
    given = item if isinstance(item, dict) else {}
    kept = {key: value for key, value in given.items() if kind and key not in wrong}
    name, written = f"unnamed{position}", given.get("value")
    value = written[:1000] if isinstance(written, str) and written.strip() else name
    if (kind or guess) == "output":
        value = f"{name}.${{SN}}"
    needed: dict[str, Any] = {"type": "constant", "value": value}
    if kind != "constant":
        needed |= {"type": "template", "param_type": kind or guess}
    if (kind or guess) in ("input", "output"):
        needed["dataset"] = f"unnamed:{name}"
    return needed | kept


def _sentence(problem: Problem) -> tuple[str, str, str]:
    """A problem without its remedy, which names other values."""
    return problem.path, str(problem.value), problem.rule


def _follows(problem: Problem, faulty: Collection[str]) -> bool:
    """Return True if a problem only says that something faulty lacks."""
    text = str(problem.value)
    unfilled = any(key in faulty and text.startswith(f"${{{_FILL[key]}") for key in _FILL)
    return unfilled or any(key in faulty and problem.path == _ALLOW[key] for key in _ALLOW)
