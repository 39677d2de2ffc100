"""Only online sites take work."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter


def _refuse(status: str) -> Filter:
    return Filter(
        code=f"status_{status}",
        observed=lambda sites, _need, _knobs: sites.where("status", status).astype(float),
        keep=np.less,
        limit=lambda _sites, _need, _knobs: 1.0,
        say=f"the site is {status}",
        lasting=False,
    )


STATUS = tuple(_refuse(s) for s in ("offline", "brokeroff", "paused", "test", "standby"))
