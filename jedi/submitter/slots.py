"""Slots that pilots are started for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jedi.core.knobs import Knobs
from jedi.host.home import Home
from jedi.submitter import engines
from jedi.submitter.interface import Slot
from jedi.submitter.shapes import Shape

OVERTIME_S = 60
"""A slot is open so much longer than the longest job takes: it begins to be used later."""


def slot_of(site: Any, shape: Shape, knobs: Knobs, home: Home) -> Slot:
    """A slot of this shape at a site (a row of `pilots.serve`), with its pilot's needs."""
    batch = site.batch
    url, certificate = f"unix:{home.api_socket}", None
    if listen := knobs.api.listen:
        certificate = home.certificate if home.certificate.exists() else None
        url = f"{'https' if certificate else 'http'}://{listen}"
    most = min(knobs.pilot.max_jobs, knobs.submitter.part_jobs)
    walltime_s = site.max_time + OVERTIME_S if site.max_time else knobs.submitter.walltime_s
    return Slot(
        site=site.site,
        shape=shape,
        max_jobs=most if shape.name else knobs.pilot.max_jobs,
        idle_s=knobs.pilot.idle_s,
        heartbeat_s=knobs.pilot.heartbeat_s,
        share=tuple(knobs.pilot.share.split()),
        work=Path(batch.get("work") or home.work),
        url=batch.get("url") or url,
        python=batch.get("python") or sys.executable,
        walltime_s=None if site.submitter == engines.LOCAL else walltime_s,
        queue=site.queue,
        path=batch.get("path"),
        attributes=batch.get("attributes", {}),
        certificate=certificate,
    )
