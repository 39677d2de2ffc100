"""The parts of a job that its pilot needs for ranges of events: the channel of a consumer, and
whether there are pieces to merge."""

from __future__ import annotations

import json
from typing import Any

from jedi.core.knobs import Knobs
from jedi.ddm.interface import DDM
from jedi.model.jobs.attempt import HeldJob
from jedi.model.jobs.event_texts import EVENTS, PIECES

WirePart = dict[str, Any]


def parts(job: HeldJob, ddm: DDM, knobs: Knobs) -> WirePart:
    """Return the parts `events` and `pieces` (true: the pilot asks for them) of a job in the wire's
    form; an ordinary job has neither."""
    texts = job.texts or {}
    found: WirePart = {}
    if given := texts.get(EVENTS):
        found["events"] = _channel(job, json.loads(given), ddm, knobs)
    if PIECES in texts:
        found["pieces"] = True
    return found


def payload_texts(job: HeldJob) -> dict[str, str]:
    """Return the files that were made for the payload, by name."""
    texts = job.texts or {}
    return {name: text for name, text in texts.items() if name not in (EVENTS, PIECES)}


def _channel(job: HeldJob, given: WirePart, ddm: DDM, knobs: Knobs) -> WirePart:
    place = ddm.pieces_where(job.site_endpoint, job.jedi_task_id, given["jobset_id"])
    return {
        **given,
        "n_ranges": knobs.pilot.n_ranges,
        "zip_ranges": knobs.pilot.zip_ranges,
        "zip_s": knobs.pilot.zip_s,
        "endpoint": job.site_endpoint,
        "store": place,
    }
