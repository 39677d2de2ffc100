"""Zero share: work for which a site's fair-share policy leaves nothing. Source:
docs/reference/brokerage.md#zero-share.

A policy is a list like `type=evgensimul:100%,type=any:0,group=higgs:20%`: the first rule that
applies decides; the value 0 refuses. A preset of old has one more rule: who is named by no rule of
a kind that the policy has, has no share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from jedi.brokerage.filters import wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.request import Request
from jedi.model.sites.snapshot import Snapshot

_PRIORITY = re.compile(r"priority\s*(<=|>=|==|<|>|=)\s*(-?\d{1,9})$")
_RULE = re.compile(r"(type|group|gshare)\s*=\s*(.+)$")
_COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
}
_GROUPS = {"evgensimul": ("evgen", "simul"), "mctest": ("mcvalidation", "rcmmc"), "all": ("any",)}


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """`kind` is type, group, gshare or priority; `test` is a name, a pattern or a comparison."""

    kind: str
    test: str
    number: int
    zero: bool

    def applies(self, asked: Request) -> bool:
        """Is it about this task?"""
        if self.kind == "priority":
            return not asked.merging and _COMPARE[self.test](asked.priority, self.number)
        words = {
            "type": asked.processing_type,
            "group": asked.working_group,
            "gshare": asked.gshare,
        }
        names = _GROUPS.get(self.test, (self.test,))
        return any(_like(name, words[self.kind]) for name in names)


@cache
def parse(policy: str) -> tuple[PolicyRule, ...]:
    """The rules of a policy; other texts have no effect."""
    return tuple(rule for part in policy.split(",") if (rule := _rule(part.strip())))


def _rule(text: str) -> PolicyRule | None:
    what, _, value = text.rpartition(":")
    zero = bool(re.fullmatch(r"0+(\.0*)?%?", value.strip()))
    if match := _PRIORITY.match(what.strip()):
        return PolicyRule("priority", match[1], int(match[2]), zero)
    if match := _RULE.match(what.strip()):
        return PolicyRule(match[1], match[2].strip(), 0, zero)
    return None


def accepts(policy: str, asked: Request, closed: bool) -> bool:
    """Return True if a policy leaves something for a task. `closed`: a kind of rules that has none
    for the task leaves nothing."""
    rules = parse(policy)
    for rule in rules:
        if rule.applies(asked):
            return not rule.zero
    return not closed or not any(rule.kind != "priority" for rule in rules)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.replace(".*", "*").replace("*", ".*"), re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)


def _like(pattern: str, word: str) -> bool:
    return pattern == "any" or bool(_pattern(pattern).fullmatch(word))


def _has_share(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    closed = bool(knobs.broker.zero_share_unnamed)
    return sites.spread("policy", lambda policy: accepts(policy, need.request, closed))


ZERO_SHARE = wanted(
    "zero_share",
    _has_share,
    "the fair-share policy of the site leaves nothing for such tasks",
    "Choose another site, or change fairsharepolicy of the site.",
    when=lambda need, _knobs: need.request.processing_type != "test",
)
