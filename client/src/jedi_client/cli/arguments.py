"""Wrong use of commands, in the words of all other mistakes."""

from __future__ import annotations

import ast
import re
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from jedi_client.errors import BadInput, Problem

_WRONG = re.compile(r"(.*) is not (?:a valid (?:int|float)|in the range|one of|'.*'\.$)", re.DOTALL)
_WRONG_USE: type[Any] = typer.BadParameter.__mro__[1]  # UsageError of the click that typer uses
_ENDLESS = 2**63 - 1
"""The upper bound of ids, which nobody reaches."""


class Commands(TyperGroup):
    """A group of commands. A wrong number or choice in an argument is BadInput, with field, value,
    rule and remedy; with --json, so is all other wrong use."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command of the group. BadInput."""
        try:
            return super().invoke(ctx)
        except _WRONG_USE as error:
            problem = _problem(error) if isinstance(error, typer.BadParameter) else None
            if problem is None and "--json" in sys.argv:
                problem = _wrong_use(error)
            if problem is None:
                raise
            raise BadInput([problem]) from error


def _problem(error: typer.BadParameter) -> Problem | None:
    """The mistake behind an error of a number or a choice; None: it is another one."""
    found, param = _WRONG.match(error.message), error.param
    if found is None or param is None:
        return None
    try:
        value = ast.literal_eval(found[1])
    except (SyntaxError, ValueError):  # a sentence that only looks like one of these
        return None
    is_option = param.param_type_name == "option"
    field = max(param.opts, key=len) if is_option else param.human_readable_name.rstrip(".")
    choices = getattr(param.type, "choices", None)
    if choices is not None:
        remedy = f"Choices: {', '.join(map(str, choices))}"
        return Problem(field, value, "is not among the choices", remedy)
    kind = "number" if "float" in param.type.name else "integer"
    least = getattr(param.type, "min", None)
    rule = f"is no {kind}{_bounds(value, least, getattr(param.type, 'max', None))}"
    return Problem(field, value, rule, f"Write one, such as {least or 1}")


def _wrong_use(error: Any) -> Problem:
    """Wrong use that typer names: unknown options and commands, missing arguments, absent files."""
    command = error.ctx.command_path
    param = getattr(error, "param", None)
    field = getattr(error, "option_name", None) or (param and param.human_readable_name) or command
    is_value = isinstance(error, typer.BadParameter)
    message = str((is_value and error.message) or error.format_message()).rstrip(".")
    near = getattr(error, "possibilities", None)
    remedy = f"Did you mean {near[0]}?" if near else f"Look at the output of: {command} --help"
    return Problem(field, None, message[:1].lower() + message[1:], remedy)


def _bounds(value: Any, least: Any, most: Any) -> str:
    """The bounds of a number, for its rule. That of ids stands there only if the value is above."""
    if least is None:
        return ""
    is_above = not isinstance(value, str) and most is not None and value > most
    if most is None or (most == _ENDLESS and not is_above):
        return f" of {least} or more"
    return f" from {least} to {most}"
