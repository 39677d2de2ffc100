"""Reading of JDL: the attributes in their order, all mistakes at once.

Source: docs/reference/jdl.md#text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput

from jedi.core.errors import BadInput, Problem
from jedi.model.jdl.statements import JdlStatement, Lines, Mistake, divide

JdlValue = Any
"""A string in quotes (Quoted), a word (str), a list of values, or the attributes in brackets
(dict)."""

JdlAttributes = dict[str, JdlValue]


class Quoted(str):
    """A string that stood in quotes, without them."""

    __slots__ = ()


_NAME = r"[A-Za-z_][\w.]*"
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WORD = r"(?:\$\{[\w.]+\}|%\(\w+\)s|[\w.\/:@%+*~^$-])++"
_GRAMMAR = rf"""
statement: NAME "=" _value
_value: _item | implicit
implicit: _item ("," _item)+
listed: "{{" [_item ("," _item)* [","]] "}}"
brackets: "[" [statement] (";" [statement])* "]"
_item: STRING | WORD | listed | brackets
NAME: /{_NAME}/
STRING: /{_STRING}/s
WORD: /{_WORD}/
%ignore /\s+/
"""


def _listed(item: str) -> str:
    """Return the pattern of a list, which agrees with the rule of the grammar."""
    return rf"\{{\s*+(?:(?:{item})(?:\s*+,\s*+(?:{item}))*+\s*+,?\s*+)?+\}}"


_FLAT = _listed(f"{_STRING}|{_WORD}")
_DEEP = _listed(f"{_STRING}|{_WORD}|{_FLAT}")
_ITEMS = re.compile(f"({_STRING})|({_WORD})|{_FLAT}", re.DOTALL)
_SIMPLE = re.compile(rf"\s*+({_NAME})\s*+=\s*+(?:({_STRING})|({_WORD})|({_DEEP}))\s*+", re.DOTALL)
"""A statement of one string, word, list or list of lists, as most are: read without the parser."""

_MOST_MISTAKES = 100
_EXPECTED = {
    "NAME": "the name of an attribute",
    "EQUAL": "=",
    "STRING": "a string",
    "WORD": "a word or number",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "SEMICOLON": ";",
    "$END": ";",
}
_ESCAPED = re.compile(r'\\(["\\])')


_Statement = tuple[str, int, JdlValue]
"""A name, its offset and its value."""


class _Brackets(list[_Statement]):
    """The statements inside brackets, before their names were compared."""


class _Build(Transformer[Token, Any]):
    """Values in place of a tree, made while the parser reads."""

    def STRING(self, token: Token) -> Quoted:
        return _string(token)

    def WORD(self, token: Token) -> str:
        return str(token)

    def listed(self, items: list[JdlValue]) -> list[JdlValue]:
        return items

    implicit = listed

    def brackets(self, statements: list[_Statement]) -> _Brackets:
        return _Brackets(statements)

    def statement(self, parts: list[Any]) -> _Statement:
        return str(parts[0]), parts[0].start_pos, parts[1]


@cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR, start="statement", parser="lalr", maybe_placeholders=False, transformer=_Build()
    )


def parse(text: str) -> JdlAttributes:
    """Return the attributes of a JDL text. Their names are significant in case, as DIRAC's are.

    Raises BadInput with its mistakes, at most 100: line and column, the expected tokens, the
    remedy.
    """
    statements, mistakes = divide(text)
    found: list[_Statement] = []
    for number, one in enumerate(statements):
        try:
            name, at, value = _read(one.text)
        except UnexpectedInput as error:
            mistakes.append(_mistake(one, error))
        else:
            found.append((name, one.offset + at, _plain(value, one.offset, mistakes)))
        if len(mistakes) >= _MOST_MISTAKES:
            mistakes += _unread(statements[number + 1 :])
            break
    attributes = _unique(found, mistakes)
    if not (found or mistakes):
        mistakes.append(Mistake(0, "", "the manifest has no attribute", 'Give Executable = "…";'))
    if mistakes:
        lines = Lines(text)
        raise BadInput([_problem(one, lines) for one in sorted(mistakes, key=lambda m: m.offset)])
    return attributes


def places(text: str) -> dict[str, tuple[int, int]]:
    """Return line and column of each attribute of a text that `parse` accepted."""
    lines, found = Lines(text), {}
    for one in divide(text)[0]:
        name, at, _ = _read(one.text)
        found[name] = lines.place(one.offset + at)
    return found


def _read(text: str) -> _Statement:
    """Return a statement; offsets count in `text`."""
    if simple := _SIMPLE.fullmatch(text):
        name, string, word, items = simple.groups()
        value = word or (_string(string) if string else _list(items))
        return name, simple.start(1), value
    statement: _Statement = _parser().parse(text)  # type: ignore[assignment]
    return statement


def _string(text: str) -> Quoted:
    """Return a string; a backslash protects quotes and backslashes only."""
    inner = text[1:-1]
    return Quoted(_ESCAPED.sub(r"\1", inner) if "\\" in inner else inner)


def _list(text: str) -> list[JdlValue]:
    """Return the elements of a list: strings, words and lists of them."""
    return [
        one[2] or (_string(one[1]) if one[1] else _list(one[0])) for one in _ITEMS.finditer(text, 1)
    ]


def _unread(statements: Sequence[JdlStatement]) -> Iterator[Mistake]:
    """Yield the mistake that names how much is unread."""
    if statements:
        rule = f"after {_MOST_MISTAKES} mistakes the other {len(statements)} attributes are unread"
        first = statements[0]
        at = first.offset + len(first.text) - len(first.text.lstrip())
        yield Mistake(at, "", rule, "Correct the mistakes above")


def _unique(found: Sequence[_Statement], mistakes: list[Mistake]) -> JdlAttributes:
    """Return the attributes; names that occur twice, in any case, are mistakes."""
    spelled: dict[str, str] = {}
    attributes: JdlAttributes = {}
    for name, at, value in found:
        if (first := spelled.setdefault(name.lower(), name)) in attributes:
            same = "the attribute is given twice"
            rule = same if first == name else f"{first} differs in case only"
            if len(mistakes) < _MOST_MISTAKES:
                mistakes.append(Mistake(at, name, rule, "Keep one"))
        attributes[name] = value
    return attributes


def _plain(value: JdlValue, offset: int, mistakes: list[Mistake]) -> JdlValue:
    """Return a value whose brackets are attributes; their offsets count from `offset`."""
    if isinstance(value, _Brackets):
        inner = [(name, offset + at, _plain(one, offset, mistakes)) for name, at, one in value]
        return _unique(inner, mistakes)
    if type(value) is list:
        return [_plain(one, offset, mistakes) for one in value]
    return value


def _mistake(statement: JdlStatement, error: UnexpectedInput) -> Mistake:
    """Return an error of the grammar in words."""
    text, at = statement.text, error.pos_in_stream or 0
    token = getattr(error, "token", None)
    ended = token is not None and token.type == "$END"
    at = len(text.rstrip()) if ended or at < 0 else at
    wanted = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
    names = sorted({_EXPECTED[name] for name in wanted if name in _EXPECTED})
    shown = "" if ended else str(token or text[at : at + 20])
    rule = f"expected {' or '.join(names)}" if names else "no JDL"
    return Mistake(statement.offset + at, shown, rule, _remedy(text, at, shown))


_NEXT = re.compile(r"[A-Za-z_][\w.]*\s*=(?!=)")


def _remedy(text: str, at: int, shown: str) -> str:
    before = text[:at].rstrip()[-1:]
    if shown[:1] in ("=", ""):
        return "Write Name = value; with a semicolon after each"
    if before and _NEXT.match(text, at):
        return "Put a semicolon at the end of the attribute before it"
    if before == '"' or shown[:1] == '"':
        return 'Put \\ before each " inside a string, and a comma or semicolon after it'
    return "Put the value in quotes: expressions are not evaluated"


def _problem(one: Mistake, lines: Lines) -> Problem:
    line, column = lines.place(one.offset)
    return Problem(f"line {line}, column {column}", one.shown, one.rule, one.remedy)
