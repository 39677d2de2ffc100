"""Online sites take work, standby sites only from tasks that ask for them."""

from __future__ import annotations

from jedi.brokerage.filters import Filter, not_asked, wanted

_REMEDY = "Wait, or set the site online (`jedi site set SITE status=online --comment ...`)."


def _refuse(status: str) -> Filter:
    return wanted(
        f"status_{status}",
        lambda sites, _need, _knobs: ~sites.where("status", status),
        f"the site is {status}",
        _REMEDY,
        lasting=False,
    )


STATUS = tuple(_refuse(s) for s in ("offline", "brokeroff", "paused", "test"))
STANDBY = wanted(
    "status_standby",
    lambda sites, _need, _knobs: ~sites.where("status", "standby"),
    "the site is standby",
    f"Ask for the site by name. {_REMEDY}",
    lasting=False,
    when=not_asked,
)
