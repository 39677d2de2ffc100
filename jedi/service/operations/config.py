"""Operations on knobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from jedi.service import config
from jedi.service.operations.arguments import NameText, SettingText
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation


@dataclass(frozen=True, slots=True)
class KnobValue:
    """A knob with its new value, and warnings about it."""

    name: str
    value: Any
    warnings: list[str]


Value = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | float | SettingText


@operation("config.list", "GET", "/v1/config", ANYBODY)
def find(call: Call) -> list[config.Setting]:
    """List every knob with the value in force."""
    return config.settings(call.tx)


@operation("config.show", "GET", "/v1/config/{name}", ANYBODY)
def show(call: Call, name: NameText) -> config.Setting:
    """Show a knob with its meaning and the value in force."""
    return config.get(call.tx, name)[0]


@operation("config.history", "GET", "/v1/config/{name}/history", ANYBODY)
def history(call: Call, name: NameText) -> list[config.KnobChange]:
    """List the changes of a knob, the newest first."""
    return config.get(call.tx, name)[1]


@operation("config.set", "PUT", "/v1/config/{name}", OPERATOR, dry_run=True)
def put(call: Call, name: NameText, value: Value) -> KnobValue:
    """Set a knob, `core.preset` too. Agents use it from their next cycle."""
    call.subject = f"knob {name}"
    now = config.put(call.tx, call.who, name, value)
    return KnobValue(name, now, config.warnings(call.tx, name))


@operation("config.unset", "DELETE", "/v1/config/{name}", OPERATOR, dry_run=True)
def unset(call: Call, name: NameText) -> KnobValue:
    """Unset a knob: the preset's value holds again."""
    call.subject = f"knob {name}"
    return KnobValue(name, config.unset(call.tx, call.who, name), [])
