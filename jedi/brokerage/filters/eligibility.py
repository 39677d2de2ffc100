"""Eligible sites: type, cloud, name, and the task's included and excluded sites."""

from __future__ import annotations

from fnmatch import fnmatchcase

from jedi.brokerage.filters import Filter, not_asked, wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


def _type(kind: str) -> Filter:
    other = {"production": "analysis", "analysis": "production"}[kind]
    return wanted(
        f"not_for_{kind}",
        lambda sites, _need, _knobs: ~sites.where("type", other),
        f"the site takes only {other}",
        "Choose another site, or set its type to unified.",
    )


NOT_FOR_PRODUCTION, NOT_FOR_ANALYSIS = _type("production"), _type("analysis")

OTHER_CLOUD = wanted(
    "other_cloud",
    lambda sites, need, _knobs: sites.where("cloud", need.request.cloud),
    "the site is in another cloud",
    "Leave out `cloud` in the task.",
    when=lambda need, _knobs: bool(need.request.cloud),
)


def _no_test(name: str) -> bool:
    return "test" not in name.lower()


def _no_hospital(name: str) -> bool:
    return not name.endswith("_HOSPITAL")


TEST_NAME = wanted(
    "test_queue",
    lambda sites, _need, _knobs: sites.marked("sites", _no_test),
    "its name marks it as a test site",
    "Ask for the site by name.",
    when=lambda need, knobs: not need.sites and knobs.broker.skip_test_names > 0,
)


def _matches(sites: Snapshot, patterns: tuple[str, ...]) -> Bools:
    def one(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return sites.spread("sites", one).astype(bool)


def _included(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    return _matches(sites, need.request.included)


NOT_INCLUDED = wanted(
    "not_included",
    _included,
    "the task names other sites",
    "Extend includedSite of the task.",
    when=lambda need, _knobs: bool(need.request.included) and "AUTO" not in need.request.included,
)
EXCLUDED = wanted(
    "excluded",
    lambda sites, need, _knobs: ~_matches(sites, need.request.excluded),
    "the task excludes the site",
    "Shorten excludedSite of the task.",
    when=lambda need, _knobs: bool(need.request.excluded),
)
HOSPITAL = wanted(
    "hospital",
    lambda sites, _need, _knobs: sites.marked("sites", _no_hospital),
    "hospital queues are for production",
    "Ask for the site by name.",
    when=lambda need, knobs: not_asked(need, knobs) and knobs.analysis.avoid_troubled > 0,
)


def _processing(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    kind = need.request.processing_type

    def allowed(words: str) -> bool:
        return not words or kind in words.split(",")

    def excluded(words: str) -> bool:
        return bool(words) and kind in words.split(",")

    return (sites.spread("allowed", allowed) > 0) & ~(sites.spread("excluded", excluded) > 0)


PROCESSING = wanted(
    "other_processing",
    _processing,
    "the site does not take this processingType",
    "Correct allowed_processing or excluded_processing in catchall of the site.",
)
