"""Reading of JDL: the attributes in their order, all mistakes at once.

Source: docs/reference/jdl.md#text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput

from jedi.core.errors import BadInput, Problem
from jedi.spec.jdl.statements import JdlStatement, Lines, Mistake, divide

JdlValue = Any
"""A string in quotes (Quoted), a word (str), a list of values, or the attributes in brackets
(dict)."""

JdlAttributes = dict[str, JdlValue]


class Quoted(str):
    """A string that stood in quotes, without them."""

    __slots__ = ()


_GRAMMAR = r"""
statement: NAME "=" _value
_value: _item | implicit
implicit: _item ("," _item)+
listed: "{" [_item ("," _item)* [","]] "}"
brackets: "[" [statement] (";" [statement])* "]"
_item: STRING | WORD | listed | brackets
NAME: /[A-Za-z_][\w.]*/
STRING: /"[^"\\]*(?:\\.[^"\\]*)*"/s
WORD: /(?:\$\{[\w.]+\}|%\(\w+\)s|[\w.\/:@%+*~^$-])+/
%ignore /\s+/
"""
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


class _Build(Transformer[Token, Any]):
    """Values in place of a tree, made while the parser reads."""

    def STRING(self, token: Token) -> Quoted:
        """Return the string; a backslash protects quotes and backslashes only."""
        inner = token[1:-1]
        return Quoted(_ESCAPED.sub(r"\1", inner) if "\\" in inner else inner)

    def WORD(self, token: Token) -> str:
        return str(token)

    def listed(self, items: list[JdlValue]) -> list[JdlValue]:
        return items

    implicit = listed

    def brackets(self, statements: list[tuple[Token, JdlValue]]) -> _Brackets:
        return _Brackets(statements)

    def statement(self, parts: list[Any]) -> tuple[Token, JdlValue]:
        return parts[0], parts[1]


class _Brackets(list[tuple[Token, JdlValue]]):
    """The statements inside brackets, before their names were compared."""


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="statement", parser="lalr", maybe_placeholders=False,
                transformer=_Build())  # fmt: skip


def parse(text: str) -> JdlAttributes:
    """Return the attributes of a JDL text. Their names are significant in case, as DIRAC's are.

    Raises BadInput with every mistake: its line and column, the expected tokens, the remedy.
    """
    statements, mistakes = divide(text)
    found: list[tuple[Token, JdlValue]] = []
    for one in statements:
        try:
            found.append(_moved(_parser().parse(one.text), one))
        except UnexpectedInput as error:
            mistakes.append(_mistake(one, error))
    attributes = _unique(found, mistakes)
    if not (found or mistakes):
        mistakes.append(Mistake(0, "", "the manifest has no attribute", 'Give Executable = "…";'))
    if mistakes:
        lines = Lines(text)
        raise BadInput([_problem(one, lines) for one in sorted(mistakes, key=lambda m: m.offset)])
    return attributes


def _moved(read: Any, statement: JdlStatement) -> tuple[Token, JdlValue]:
    """Return name and value, the name with its offset in the whole text."""
    name, value = read
    return Token(name.type, name.value, start_pos=statement.offset + name.start_pos), value


def _unique(found: Sequence[tuple[Token, JdlValue]], mistakes: list[Mistake]) -> JdlAttributes:
    """Return the attributes; names that occur twice, in any case, are mistakes."""
    spelled: dict[str, str] = {}
    attributes: JdlAttributes = {}
    for name, value in found:
        if (first := spelled.setdefault(name.lower(), str(name))) in attributes:
            same = "the attribute is given twice"
            rule = same if first == name else f"{first} differs in case only"
            mistakes.append(Mistake(name.start_pos or 0, str(name), rule, "Keep one"))
        attributes[str(name)] = _plain(value, mistakes)
    return attributes


def _plain(value: JdlValue, mistakes: list[Mistake]) -> JdlValue:
    if isinstance(value, _Brackets):
        return _unique(value, mistakes)
    if type(value) is list:
        return [_plain(one, mistakes) for one in value]
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


def _remedy(text: str, at: int, shown: str) -> str:
    before = text[:at].rstrip()[-1:]
    if shown[:1] in ("=", ""):
        return "Write Name = value; with a semicolon after each"
    if before == '"' or shown[:1] == '"':
        return 'Put \\ before each " inside a string, and a comma or semicolon after it'
    return "Put the value in quotes: expressions are not evaluated"


def _problem(one: Mistake, lines: Lines) -> Problem:
    line, column = lines.place(one.offset)
    return Problem(f"line {line}, column {column}", one.shown, one.rule, one.remedy)
