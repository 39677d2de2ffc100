"""Builders that several tests share with tests of world."""

from __future__ import annotations

EMPTY = {
    "demand": {
        "cores": 1,
        "ram_mb": 0,
        "ram_per_core": False,
        "base_ram_mb": 0,
        "hs06_s_per_event": None,
        "efficiency": 0.9,
        "base_walltime_s": 600,
        "max_walltime_s": None,
        "out_bytes": 0,
        "out_per_event": False,
        "work_mb": 0,
    },
    "atom": {"bytes": 0, "events": 0},
}
