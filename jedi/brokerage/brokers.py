"""The broker of a task: the plug-in for its vo and prodSourceLabel."""

from __future__ import annotations

from jedi.agent import plugins
from jedi.brokerage.generic import GenericBroker
from jedi.core.knobs import Knobs

LOCAL = "local"


def broker_of(vo: str, label: str, knobs: Knobs) -> GenericBroker:
    """The broker. A machine of one's own needs no grid: vo local has the generic one, unless knob
    broker.local says that it gets what other vos get."""
    as_others = vo == LOCAL and knobs.broker.local == "full"
    broker: GenericBroker = plugins.make("broker", "" if as_others else vo, label)
    return broker


def broker_or_none(vo: str, label: str, knobs: Knobs) -> GenericBroker | None:
    """The broker. None: its plug-in fails, and shall not keep an agent from claiming other tasks;
    `work` reports it."""
    try:
        return broker_of(vo, label, knobs)
    except plugins.PluginFailed:
        return None
