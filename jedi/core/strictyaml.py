"""The one reader of YAML that people write: plain values, each key once, within bounds.

A document is made of mappings with text for keys, lists, text, whole and decimal numbers, true or
false, and null. Tags, anchors, aliases, merge keys, dates and numbers in other forms (octal,
sexagesimal, `1_000`) are refused, each with its line and column: their meaning differs from reader
to reader, and a few lines of aliases unfold to gigabytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from jedi.core.errors import BadInput, Problem

MAX_CHARACTERS = 16_000_000
MAX_BYTES = 4 * MAX_CHARACTERS
"""Size of a file above which JEDI does not read it."""
MAX_DEPTH = 50
MAX_VALUES = 1_000_000
MAX_DIGITS = 40

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml is ten times faster, where it is. Only its events are used: nothing recurs in it."""

_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_TRUE = frozenset(["yes", "true", "on"])
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_UNREADABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_MARK = "\ufeff"
"""A mark of byte order at the beginning, which some editors write. The parsers differ about it."""
_QUOTE = "write it in quotes"


class _YamlMistake(Exception):
    """A mistake and its place."""

    def __init__(self, rule: str, mark: Any) -> None:
        super().__init__(rule)
        self.rule = rule
        self.place = (mark.line + 1, mark.column + 1)


class _Place:
    """The place of a character in a text, as a mark of the parser."""

    def __init__(self, text: str, index: int) -> None:
        self.line = text.count("\n", 0, index)
        self.column = index - text.rfind("\n", 0, index) - 1


def load(text: str | bytes, name: str = "file") -> Any:
    """The document in a text. BadInput about `name` has the line and column of the first
    mistake."""
    try:
        return _document(_decoded(text))
    except _YamlMistake as bad:
        raise _refusal(text, name, bad) from None


def documents_of(text: str) -> list[str] | None:
    """The texts of the documents in a text, or of the items of its only one; None: that is not a
    list. BadInput: it is not well formed."""
    try:
        text = _decoded(text)
        documents, items = _extents(text)
    except _YamlMistake as bad:
        raise _refusal(text, "file", bad) from None
    if len(documents) == 1:
        if items is None:
            return None
        documents = items
    return [_text(text, start, end) for start, end in documents]


def _refusal(text: str | bytes, name: str, bad: _YamlMistake) -> BadInput:
    line, column = bad.place
    shown = text if isinstance(text, str) else text.decode(errors="replace")
    lines = shown.split("\n", line)
    written = lines[line - 1].strip()[:40] if line <= len(lines) else ""
    rule = f"line {line}, column {column}: {bad.rule}"
    return BadInput([Problem(name, written, rule, "Correct it")])


def _decoded(text: str | bytes) -> str:
    """The text, if it is short enough and all of it can be read."""
    if isinstance(text, bytes):
        written = text
        try:
            text = written.decode()
        except UnicodeDecodeError as error:
            before = written[: error.start].decode()
            raise _YamlMistake("this is not UTF-8", _Place(before, len(before))) from None
    text = text.removeprefix(_MARK)
    if len(text) > MAX_CHARACTERS:
        rule = f"a file has at most {MAX_CHARACTERS} characters"
        raise _YamlMistake(rule, _Place(text, MAX_CHARACTERS))
    if bad := _UNREADABLE.search(text):
        rule = f"the character U+{ord(bad[0]):04X} is not allowed"
        raise _YamlMistake(rule, _Place(text, bad.start()))
    return text


def _events(text: str) -> Iterator[tuple[Any, int]]:
    """The events of a text, each with its depth, as long as people may write them."""
    parser = _PARSER(text)
    depth = values = 0
    try:
        while parser.check_event():
            event = parser.get_event()
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.NodeEvent):
                values += 1
                _plain(event)
                if values > MAX_VALUES:
                    raise _YamlMistake(f"there are more than {MAX_VALUES} values", event.start_mark)
            yield event, depth
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise _YamlMistake("it is nested too deeply", event.start_mark)
    except yaml.MarkedYAMLError as error:
        raise _YamlMistake(_said(error), error.problem_mark or error.context_mark) from None
    except (ValueError, OverflowError):  # `\Uffffffff`, in the parser without libyaml
        raise _YamlMistake("this character does not exist", parser.get_mark()) from None
    finally:
        parser.dispose()


_NO_ALIASES = "anchors (&) and aliases (*) are not allowed: write the value out"


def _plain(event: Any) -> None:
    """Refuse anchors, aliases and tags."""
    mark = event.start_mark
    if isinstance(event, yaml.AliasEvent):
        raise _YamlMistake(_NO_ALIASES, mark)
    if event.anchor is not None:
        raise _YamlMistake(_NO_ALIASES, mark)
    if event.tag is not None:
        raise _YamlMistake(f"tags are not allowed ({event.tag[:40]})", mark)


def _said(error: yaml.MarkedYAMLError) -> str:
    """The parser's message, with the place where the trouble began."""
    if not error.context or error.context_mark is None:
        return error.problem or "this is not YAML"
    line = error.context_mark.line + 1
    return f"{error.problem}, {error.context} that begins in line {line}"


def _document(text: str) -> Any:
    """The value of the only document."""
    stack: list[_Mapping | _List] = [_List()]
    resolve = _PARSER("").resolve
    documents = 0
    for event, _ in _events(text):
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].put(_scalar(event, resolve), event)
        elif isinstance(event, yaml.CollectionStartEvent):
            inner = _Mapping() if isinstance(event, yaml.MappingStartEvent) else _List()
            stack[-1].put(inner.value, event)
            stack.append(inner)
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _YamlMistake(
                    "a second document begins here, where one is read", event.start_mark
                )
    found = stack[0].value
    return found[0] if found else None


class _List:
    """A list that is being read."""

    def __init__(self) -> None:
        self.value: Any = []

    def put(self, value: Any, _: Any) -> None:
        self.value.append(value)


class _Mapping:
    """A mapping that is being read: a key, then its value."""

    def __init__(self) -> None:
        self.value: Any = {}
        self.key: str | None = None

    def put(self, value: Any, event: Any) -> None:
        if self.key is not None:
            self.value[self.key] = value
            self.key = None
        elif not isinstance(value, str):
            raise _YamlMistake(f"key {value!r} is not text: {_QUOTE}", event.start_mark)
        elif value in self.value:
            raise _YamlMistake(f"key {value[:40]!r} is repeated", event.start_mark)
        else:
            self.key = value


def _scalar(event: Any, resolve: Any) -> Any:
    """The value of one that is no collection."""
    written, mark = event.value, event.start_mark
    plain = event.implicit[0]
    match resolve(yaml.ScalarNode, written, (plain, not plain)).removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return written.lower() in _TRUE
        case "int" | "float" if not _NOT_FINITE.fullmatch(written):  # these stay text
            return _number(written, mark)
        case "timestamp":
            raise _YamlMistake(f"{written[:40]} is a date, and there are none: {_QUOTE}", mark)
        case "merge":
            raise _YamlMistake("merge keys are not allowed: repeat the entries instead", mark)
    if _UNSTORABLE.search(written):
        raise _YamlMistake(f"{written[:20]!r} holds a character that can't be stored", mark)
    return written


def _number(written: str, mark: Any) -> int | float:
    if len(written) > MAX_DIGITS:
        raise _YamlMistake(f"a number has at most {MAX_DIGITS} digits", mark)
    if _WHOLE.fullmatch(written):
        return int(written)
    if not _DECIMAL.fullmatch(written):
        rule = f"{written} can be read as several numbers: write it as a decimal one, or in quotes"
        raise _YamlMistake(rule, mark)
    if math.isfinite(number := float(written)):
        return number
    raise _YamlMistake(f"{written} is too large", mark)


_Extent = tuple[Any, Any]
"""The beginning and the end of a value."""


def _extents(text: str) -> tuple[list[_Extent], list[_Extent] | None]:
    """The documents that are not empty, and the items of lists; None: one is something else."""
    documents: list[_Extent] = []
    items: list[_Extent] | None = []
    begun: list[Any] = []
    for event, depth in _events(text):
        if isinstance(event, yaml.CollectionStartEvent):
            begun.append(event.start_mark)
            if depth == 0 and not isinstance(event, yaml.SequenceStartEvent):
                items = None
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            start = begun.pop()
        elif isinstance(event, yaml.ScalarEvent):
            start = event.start_mark
            items = items if depth else None
        else:
            continue
        if depth == 0:
            documents.append((start, event.end_mark))
        elif depth == 1 and items is not None:
            items.append((start, event.end_mark))
    return documents, items


def _text(text: str, start: Any, end: Any) -> str:
    """The source of a value, its first line as far from the margin as it was."""
    indent, written = " " * start.column, text[start.index : end.index]
    return f"{indent}{written}"
