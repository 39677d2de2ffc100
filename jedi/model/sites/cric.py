"""Dumps of CRIC, as PanDA reads them: schedconfig (queues), DDM endpoints, network metrics.

Here the sentinels of these dumps end: absent, null, empty, not numeric, infinite or (where it has
no meaning) negative values count as unset, so that the defaults of our tables hold. Invalid names
and unknown statuses are mistakes; unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from jedi.core.errors import BadInput, Problem
from jedi.model.list_file import read_entry
from jedi.model.sites.link_file import LinkMetric
from jedi.model.sites.site_file import SiteEntry, StorageEntry

_Entry = TypeVar("_Entry")
_MBIT = 8.0
"""Network metrics count Mbit/s, we MB/s."""
_ACTIVITIES = {"Production Output": "production_queued", "Express": "express_queued"}


def _figure(value: Any) -> float | None:
    """A number that says something."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and abs(number) < 2**53 else None


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        number = _figure(value)
        return None if number is None or not least <= number <= most else int(number)

    return read


def _positive(value: Any) -> float | None:
    number = _figure(value)
    return number if number is not None and number > 0 else None


def _word(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return known.get(str(value).lower())


def _words(value: Any) -> list[str] | None:
    parts = value if isinstance(value, list) else str(value or "").replace("|", ",").split(",")
    return [str(part).strip() for part in parts if str(part).strip()] or None


def _free_keys(value: Any) -> dict[str, Any] | None:
    """catchall: `gpu,useJumboJobs=only`."""
    if isinstance(value, Mapping):
        return dict(value)
    keys: dict[str, Any] = {}
    for part in _words(value) or ():
        key, equals, raw = part.partition("=")
        keys[key] = raw if equals else True
    return keys or None


_QUEUE: dict[str, Callable[[Any], Any]] = {
    "status": _word,
    "type": _word,
    "cloud": _word,
    "tier": _word,
    "state": _word,
    "role": _word,
    "capability": _word,
    "corecount": _whole(0),
    "corepower": _positive,
    "maxtime": _whole(0),
    "mintime": _whole(0),
    "maxrss": _whole(0),
    "minrss": _whole(0),
    "maxwdir": _whole(0),
    "maxinputsize": _whole(-1),
    "fairsharepolicy": _word,
    "transferringlimit": _whole(0),
    "pledgedcpu": _whole(-1),
    "transtimehi": _whole(0),
    "transtimelo": _whole(0),
    "direct_access_lan": _flag,
    "direct_access_wan": _flag,
    "releases": _words,
    "wnconnectivity": _word,
    "jobseed": _word,
    "max_io_intensity": _positive,
    "maxdiskio": _positive,
    "catchall": _free_keys,
}
_ROLES = ("nucleus", "satellite")


def read_queues(text: str) -> list[SiteEntry]:
    """The queues of a schedconfig dump: a mapping of names to attributes."""
    return _each(text, lambda name, raw: read_entry(_queue(name, raw), SiteEntry, name))


def _queue(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"site": name}
    place = _word(raw.get("atlas_site")) or _word(raw.get("site"))
    if place:
        entry["pandasite"] = place
    for key, read in _QUEUE.items():
        value = read(raw.get(key, raw.get("maxDiskIO") if key == "maxdiskio" else None))
        if value is not None:
            entry[key] = value
    if (role := str(entry.get("role", "satellite")).lower()) in _ROLES:
        entry["role"] = role
    if endpoints := _relations(raw):
        entry["endpoints"] = endpoints
    return entry


def _relations(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """astorages: by activity the endpoints that serve it, first choice first; else `ddm`."""
    stores = raw.get("astorages")
    if not isinstance(stores, Mapping):
        reads = writes = _words(raw.get("ddm")) or []
    else:
        reads, writes = (
            [name for key in keys for name in stores.get(key) or ()]
            for keys in (("read_lan", "pr"), ("write_lan", "pw"))
        )
    entries = []
    for name in dict.fromkeys([*reads, *writes]):
        roles = [role for role, some in (("read", reads), ("write", writes)) if name in some]
        entry: dict[str, Any] = {"ddm_endpoint": name, "roles": ",".join(roles)}
        for role, some in (("read", reads), ("write", writes)):
            if name in some:
                entry |= {
                    f"order_{role}": some.index(name) + 1,
                    f"default_{role}": some.index(name) == 0,
                }
        entries.append(entry)
    return entries


_SPACES = (
    "space_total",
    "space_free",
    "space_used",
    "space_expired",
    "space_min_free",
    "space_unavailable",
)


def read_endpoints(text: str) -> list[StorageEntry]:
    """The endpoints of a dump of DDM endpoints; space in GB."""
    return _each(text, lambda name, raw: read_entry(_endpoint(name, raw), StorageEntry, name))


def _endpoint(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"ddm_endpoint": name}
    for key in ("site", "token", "type"):
        if value := _word(raw.get(key)):
            entry[key] = value
    if (tape := _flag(raw.get("is_tape"))) is not None:
        entry["is_tape"] = tape
    for key in _SPACES:
        number = _figure(raw.get(key))
        if number is not None and number >= 0:
            entry[key] = number
    status = raw.get("detailed_status")
    if isinstance(status, Mapping):
        known = ("read_lan", "write_lan", "read_wan", "write_wan")
        entry["detailed_status"] = {
            way: value if value in ("ON", "TEST") else "OFF"
            for way in known
            if (value := _status(status.get(way)))
        }
    return entry


def _status(value: Any) -> str | None:
    raw = value.get("status") if isinstance(value, Mapping) else value
    return raw.get("value") if isinstance(raw, Mapping) else _word(raw)


def read_metrics(text: str) -> list[LinkMetric]:
    """The figures of a dump of network metrics: `SRC:DST` to closeness, files queued by activity,
    and Mbit/s over the last hour, day and week."""
    figures = _each(text, lambda name, raw: list(_metrics(name, raw)))
    return [figure for some in figures for figure in some]


def _metrics(name: str, raw: Mapping[str, Any]) -> Iterator[LinkMetric]:
    src, colon, dst = name.partition(":")
    if not (src and colon and dst):
        raise BadInput([Problem(name, name, "a link is SRC:DST", "Correct the name")])
    close = _figure(_inside(raw, "closeness", "latest"))
    if close is not None and -1 <= close <= 11:
        yield LinkMetric(src, dst, "closeness", close)
    for activity, key in _ACTIVITIES.items():
        files = _figure(_inside(raw, "files", "queued", activity))
        if files is not None and files >= 0:
            yield LinkMetric(src, dst, key, files)
    for period in ("1h", "1d", "1w"):
        speed = _figure(_inside(raw, "mbps", "fts", period))
        if speed is not None and speed >= 0:
            yield LinkMetric(src, dst, f"mbps_{period}", speed / _MBIT)


def _inside(raw: Any, *keys: str) -> Any:
    for key in keys:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def _each(text: str, read: Callable[[str, Mapping[str, Any]], _Entry]) -> list[_Entry]:
    """Every entry of a mapping of mappings; BadInput holds every mistake."""
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput([Problem("file", text[:40], str(error), "Correct it")]) from error
    entries: list[_Entry] = []
    problems: list[Problem] = []
    for name, raw in written.items() if isinstance(written, dict) else ():
        if not isinstance(raw, dict):
            problems.append(Problem(name, raw, "it is a mapping", "Correct it"))
            continue
        try:
            entries.append(read(name, raw))
        except BadInput as error:
            problems += error.problems
    if problems or not isinstance(written, dict):
        rule = Problem("file", None, "the file is a mapping of names", "Write {NAME: {...}, ...}")
        raise BadInput(problems or [rule])
    return entries
