"""The broker of a task: the plug-in for its vo and prodSourceLabel."""

from __future__ import annotations

from jedi.agent import plugins
from jedi.brokerage.generic import GenericBroker
from jedi.core.knobs import Knobs

LOCAL = "local"


def broker_of(vo: str, label: str, knobs: Knobs) -> GenericBroker:
    """The broker. A machine of one's own needs no grid: vo local has the generic one, unless knob
    broker.local gives it the ones of other vos."""
    broker: GenericBroker = plugins.make("broker", _vo(vo, knobs), label)
    return broker


def foreign_broker(vo: str, label: str, knobs: Knobs) -> str:
    """The name of the broker, if it is other people's; else nothing."""
    return plugins.foreign("broker", _vo(vo, knobs), label)


def own_broker(vo: str, label: str, knobs: Knobs) -> GenericBroker | None:
    """The broker. None: it is other people's, whose code an agent runs in `work` alone."""
    return None if foreign_broker(vo, label, knobs) else broker_of(vo, label, knobs)


def own_or_generic(vo: str, label: str, knobs: Knobs) -> GenericBroker:
    """The broker, or the generic one in place of other people's: for choices in a transaction,
    which their code could hold for ever."""
    return own_broker(vo, label, knobs) or GenericBroker()


def _vo(vo: str, knobs: Knobs) -> str:
    return "" if vo == LOCAL and knobs.broker.local == "full" else vo
