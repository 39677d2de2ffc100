"""Fields of PanDA's pilots as values. Forms have texts alone, and "NULL", "None" and "" stand for
nothing. A reader collects all mistakes of a call and refuses it by all their names."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeVar

from jedi.core.errors import BadInput, Problem
from jedi_panda.api.pilot_bodies import CallFields, json_of

_NOTHING = ("", "NULL", "None", "null")
_SHOWN = 80
PROBLEMS_MAX = 100

_Value = TypeVar("_Value")


class FieldReader:
    """The fields of a call, read one by one; `done` raises BadInput if any had a mistake."""

    def __init__(self, fields: Mapping[str, Any], before: str = "") -> None:
        self._fields = fields
        self._before = before
        self.problems: list[Problem] = []

    def has(self, name: str) -> bool:
        """Return True if the field says something."""
        value = self._fields.get(name)
        return value is not None and value not in _NOTHING

    def text(self, name: str, most: int = 256, default: str = "") -> str:
        """A text, or a number as text."""
        value = self._fields.get(name)
        if value is None or value in _NOTHING:
            return default
        if isinstance(value, bool | dict | list):
            return self._wrong(name, "must be a text", default)
        if len(found := str(value)) > most:
            return self._wrong(name, f"has more than {most} characters", default)
        return found

    def long_text(self, name: str, most: int) -> str:
        """The beginning of a text of any length."""
        value = self._fields.get(name)
        if value is None or isinstance(value, str | int | float):
            return "" if value is None else str(value)[:most]
        return self._wrong(name, "must be a text", "")

    def needed(self, name: str) -> str:
        """A text that a call must have."""
        if not self.has(name):
            self._wrong(name, "is missing", "")
        return self.text(name)

    def number(self, name: str, *, least: float = 0, below: float = 2**63) -> float | None:
        """A finite number of these bounds; None: the field is not there."""
        if not self.has(name):
            return None
        value = self._fields[name]
        try:
            if isinstance(value, bool):
                raise ValueError
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            return self._wrong(name, "must be a number", None)
        if not isfinite(found) or not least <= found < below:
            return self._wrong(name, f"must be at least {least:g} and less than {below:g}", None)
        return found

    def whole(self, name: str, *, least: int = 0, below: int = 2**31) -> int | None:
        """A whole number of these bounds; None: the field is not there."""
        if not self.has(name):
            return None
        value = self._fields[name]
        try:
            if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
                raise ValueError
            text = str(value).strip()
            if len(text) > 20:
                raise ValueError
            found = int(text)
        except (TypeError, ValueError, OverflowError):
            return self._wrong(name, "must be a whole number", None)
        if not least <= found < below:
            return self._wrong(name, f"must be at least {least} and less than {below}", None)
        return found

    def needed_whole(self, name: str, below: int = 2**63) -> int:
        """A whole number that a call must have."""
        if not self.has(name):
            return self._wrong(name, "is missing", 0)
        return self.whole(name, below=below) or 0

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """One of several texts that a call must have."""
        found = self.needed(name)
        if found and found not in among:
            self._wrong(name, f"must be one of {', '.join(among)}", "")
        return found

    def nested(self, name: str, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
        """An object or a list, itself or as JSON text; an empty one: the field is not there."""
        if not self.has(name):
            return kind()
        value = self._fields[name]
        what = "an object" if kind is dict else "a list"
        if isinstance(value, str):
            try:
                value = json_of(value)
            except ValueError as error:
                return self._wrong(name, f"is no JSON ({error})", kind())
        return value if isinstance(value, kind) else self._wrong(name, f"must be {what}", kind())

    def done(self) -> None:
        """Raise BadInput if there was a mistake."""
        if self.problems:
            raise BadInput(self.problems[:PROBLEMS_MAX])

    def wrong(self, name: str, rule: str) -> None:
        """Note a mistake that the caller found."""
        self._wrong(name, rule, None)

    def _wrong(self, name: str, rule: str, instead: _Value) -> _Value:
        value = self._fields.get(name)
        said = None if value is None else ascii(value)[:_SHOWN]
        self.problems.append(Problem(f"{self._before}{name}", said, rule, "Correct the request"))
        return instead


def epoch(fields: CallFields, name: str) -> float | None:
    """Seconds since 1970 of a field; None: it has none that a clock could show."""
    try:
        found = float(fields.get(name) or "")
    except (TypeError, ValueError):
        return None
    return found if isfinite(found) and 0 < found < 2**36 else None
