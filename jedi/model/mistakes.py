"""JEDI's words for the mistakes that pydantic finds: the rule and the remedy of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from jedi.core.errors import BadInput, Problem

_WHOLE = ("must be a whole number", "Write digits alone")
_NUMBER = ("must be a number", "Write digits, with a decimal point if need be")
_TRUTH = ("must be true or false", "Write one of the two")
_KEYS = ("must be a mapping of keys to values", "Write keys with values")
_TIME = ("must be a time, such as 2026-11-26T12:00", "Correct the time")
_WORDS: Mapping[str, tuple[str, str]] = {
    "missing": ("is mandatory", "Add it"),
    "extra_forbidden": ("no such name here", "Leave it out"),
    "string_type": ("must be text", "Write a text"),
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": ("is too large a number", "Write a smaller one"),
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": ("must be a finite number", "Correct the value"),
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "list_type": ("must be a list", "Write a list"),
    "dict_type": _KEYS,
    "model_type": _KEYS,
    "model_attributes_type": _KEYS,
    "invalid_key": ("a key must be text", "Write the key in quotes"),
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "literal_error": ("must be {expected}", "Choose one of them"),
    "greater_than_equal": ("must be at least {ge}", "Correct the value"),
    "greater_than": ("must be more than {gt}", "Correct the value"),
    "less_than_equal": ("must be at most {le}", "Correct the value"),
    "less_than": ("must be less than {lt}", "Correct the value"),
    "string_too_short": ("must have {min_length} or more characters", "Write more"),
    "string_too_long": ("must have {max_length} or fewer characters", "Shorten it"),
    "too_short": ("must have {min_length} or more values", "Add some"),
    "too_long": ("must have {max_length} or fewer values", "Give fewer at once"),
}


_CHECK = "jedi_check"


def checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """An annotation of a type: the mistakes that `check` raises as BadInput come together with
    pydantic's in other values."""

    def passed(value: Any) -> Any:
        try:
            check(value)
        except BadInput as error:
            facts = {"problems": error.problems}
            raise PydanticCustomError(_CHECK, "the value has mistakes", facts) from None
        return value

    return AfterValidator(passed)


def found_by_check(error: Mapping[str, Any]) -> list[Problem]:
    """The mistakes in an error of pydantic that come from `checked_by`; none if it has others."""
    problems: list[Problem] = error["ctx"]["problems"] if error["type"] == _CHECK else []
    return problems


_PATTERNS: Mapping[str, tuple[str, str]] = {
    "^[0-9a-f]{64}$": ("must be a SHA-256: 64 digits 0-9 and a-f", "Write all digits"),
    "^[0-9a-f]{8}$": ("must be an adler32: 8 digits 0-9 and a-f", "Write all digits"),
    "^[0-9a-f-]{36}$": ("must be a GUID: 36 digits 0-9 and a-f with hyphens", "Write all of it"),
    "^(job|template)$": ("must be job or template", "Choose one of them"),
    r"^/[^\x00]*$": ("must begin with /", "Write the path of a page, such as /tasks"),
}
"""Words for patterns that people meet."""


def rule_and_remedy(error: Mapping[str, Any]) -> tuple[str, str]:
    """The rule that an error of pydantic names, and the remedy. Our own validators bring the rule
    with them."""
    kind = error["type"]
    if kind in ("too_short", "too_long") and isinstance(error.get("input"), str):
        kind = f"string_{kind}"  # of a type that pydantic knows only by its validator
    if kind == "string_pattern_mismatch":
        pattern = str(error["ctx"]["pattern"])
        return _PATTERNS.get(pattern, (f"must match the pattern {pattern}", "Correct the value"))
    if kind == "literal_error" and " or " not in (expected := error["ctx"]["expected"]):
        return f"must be {expected}", f"Write {expected}"
    if words := _WORDS.get(kind):
        return words[0].format_map(error.get("ctx", {})), words[1]
    rule = str(error["msg"]).removeprefix("Value error, ").replace("Input should", "must", 1)
    return rule[:1].lower() + rule[1:], "Correct the value"
