"""Software and hardware that a site offers. What it leaves out is taken to be there."""

from __future__ import annotations

from fnmatch import fnmatchcase

from jedi.brokerage.filters import wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot


def _release(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    """ANY takes every release, AUTO the ones that the site publishes."""
    release = need.request.release

    def listed(words: str) -> bool:
        return _listed(words, release)

    automatic = sites.spread("releases", lambda words: "AUTO" in words.split(",")) > 0
    published = sites.spread("software", listed) > 0
    return (sites.spread("releases", listed) > 0) | (automatic & published)


def _listed(words: str, release: str) -> bool:
    return not words or "ANY" in words.split(",") or release in words.split(",")


def offers(releases: str, software: str, release: str) -> bool:
    """Return True if a site with these releases and this published software has a release."""
    automatic = "AUTO" in releases.split(",") and _listed(software, release)
    return not release or _listed(releases, release) or automatic


def _platform(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    """Platforms of a site are patterns; of an architecture counts the part before # and &."""
    platform = need.request.platform.partition("#")[0].partition("&")[0]

    def offered(words: str) -> bool:
        return not words or any(fnmatchcase(platform, one) for one in words.split(","))

    return sites.spread("platforms", offered)


def _wants_gpu(need: Requirements) -> bool:
    return "&" in need.request.platform


RELEASE = wanted(
    "no_release",
    _release,
    "the site does not offer the software release",
    "Ask for a release that the site offers, or correct releases of the site.",
    when=lambda need, _knobs: bool(need.request.release),
)
PLATFORM = wanted(
    "no_platform",
    _platform,
    "the site does not offer the architecture",
    "Ask for another architecture, or correct catchall.platforms of the site.",
    when=lambda need, _knobs: bool(need.request.platform.partition("#")[0].partition("&")[0]),
)
NO_GPU = wanted(
    "no_gpu",
    lambda sites, _need, _knobs: sites.gpu > 0,
    "the site has no GPU",
    "Choose another architecture, or set catchall.gpu of the site.",
    when=lambda need, _knobs: _wants_gpu(need),
)
GPU_ONLY = wanted(
    "gpu_only",
    lambda sites, _need, _knobs: sites.gpu <= 0,
    "the site is for jobs that use a GPU",
    "Nothing is wrong: others need that site more.",
    when=lambda need, _knobs: not _wants_gpu(need) and len(need.sites) != 1,
)


def _connectivity(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    wish = need.request.connectivity

    def good(words: str) -> bool:
        offer = words.partition("#")[0]
        return offer in ("", "full") or (wish == "http" and offer == "http")

    return sites.spread("connectivity", good)


def _ip_stack(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    wish = need.request.ip_stack

    def good(words: str) -> bool:
        stack = words.partition("#")[2]
        return stack in ("", wish)

    return sites.spread("connectivity", good)


CONNECTIVITY = wanted(
    "no_connectivity",
    _connectivity,
    "jobs at the site have no such outside connection",
    "Drop ipConnectivity of the task, or correct wnconnectivity of the site.",
    when=lambda need, _knobs: bool(need.request.connectivity) and len(need.sites) != 1,
)
IP_STACK = wanted(
    "other_ip_stack",
    _ip_stack,
    "the site speaks another version of IP",
    "Drop ipStack of the task, or correct wnconnectivity of the site.",
    when=lambda need, _knobs: bool(need.request.ip_stack) and len(need.sites) != 1,
)
