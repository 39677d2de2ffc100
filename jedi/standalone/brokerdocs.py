"""docs/brokerage.md, from the filters themselves."""

from __future__ import annotations

import re

from jedi.brokerage import nucleus, nucleus_filters
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.capability import CAPABLE
from jedi.brokerage.filters import Filter
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.production import ProductionBroker
from jedi.standalone.dogdocs import TableWriter

_INTRODUCTION = """
A *broker* decides which sites may get the jobs of a task. All its filters judge all sites: every
reason against a site is known, not only the first; each has a code that can be counted. Of the
sites that pass, the best by weight become candidates, and batches of jobs are drawn among them in
proportion to the weights, with a seed that is kept: any decision can be explained and repeated.

The broker is the plug-in (entry point `jedi.broker`) for the task's vo and prodSourceLabel.
`managed` and `test` have the production broker, `user` and `panda` the analysis broker. Tasks of
vo `local` have the generic one; knob `broker.local` = `full` gives them what other vos get.

Jobs of analysis go to their data: each dataset of the input is brokered by itself, with a decision
of its own, and one that has no site keeps no other waiting.

A *nucleus* has to be good for the outputs, and a queue of its grid site has to be able to run the
jobs. Where none is, each is refused for reasons of its own, those of production.

A reason is *lasting* if a person has to change something, else it passes with time: a task that
is refused everywhere for lasting reasons waits longer before it is tried again
(`watchdog.pending_retry_s`, `jobgen.retry_s`). The numbers in the sentences are knobs:
[knobs](knobs.md), components `broker`, `network`, `analysis` and `taskbroker`.
""".strip()

_WEIGHTS = """
## Weights

Every weight is a product of named factors, kept with the choice.

* **production**: `queue` (running + 1) / (activated + starting + defined + 10), where input has
  to move with the assigned ones below the line and divided by (assigned + 1) / (activated + 1),
  between 1 and 2; `data` (total + local) / total / (missing files / 100 + 1); `t1` the T1 weight
  in the nucleus (for other tasks: at T1s of the cloud); `network` half what waits on the link to
  the nucleus, half its speed, or its closeness where no speed is known. Where fewer than
  `broker.bootstrap_jobs` run, as many pilots as there are count as running jobs. Preset `current`:
  only at unified sites whose pilots come before there are jobs (`catchall.workflow: pull_ups`, or
  none) and were seen; slots that a site declares (`catchall.num_slots_map`) count as running jobs;
  and sites where nothing of the share runs or waits weigh 0 (`first`): each gets a batch of jobs
  before others do.
* **analysis**: (running + 1) / (activated + assigned + defined + starting + 1); disk counts a
  thousand times as much as tape; where data move, what is there already counts.
* **generic**: (running + 1) / (activated + defined + 1) / (defined + 1), of `broker.max_sites`
  sites. Who runs much gets more: an idle site weighs 1, and where others keep up with their queues
  it may stay idle. For many sites that are alike the knob `broker.local` = `full` is better.
* **nucleus**: the part of the input that is there / the work ahead (below 50 core-days: 1), a
  thousandth where it is on tape only; preset `current`: free space, too, and where the input lies
  only as long as it must lie there.

Counts are those of the task's global share. Figures of links are believed for an hour (speeds:
those of the last hour, else day, else week).

## The world

    jedi site import sites.yaml         # or a schedconfig dump of CRIC (JSON)
    jedi endpoint import endpoints.yaml # or a dump of its DDM endpoints
    jedi network import links.yaml      # or a dump of network metrics
    jedi site set NAME status=offline --comment "cooling"

`jedi site attributes` lists what may stand in a site file; free keys of `catchall` that brokers
read: `gpu`, `platforms`, `software`, `allowed_processing`, `excluded_processing`,
`allow_no_pilot`, `use_only_local_data`, `useJumboJobs`, `minEventsForJumbo`, `bareNucleus`,
`num_slots_map`, `workflow`.
""".strip()


def brokerage_page(grid: TableWriter) -> list[str]:
    """The parts of the page; `grid` draws a table."""
    brokers = {
        "nucleus, vo local": nucleus.FILTERS,
        "nucleus": (*nucleus_filters.FILTERS, *CAPABLE),
        **{b.name: b.filters for b in (ProductionBroker, AnalysisBroker, GenericBroker)},
    }
    users: dict[str, list[str]] = {}
    first: dict[str, Filter] = {}
    for name, filters in brokers.items():
        for one in filters:
            users.setdefault(one.code, []).append(name)
            first.setdefault(one.code, one)
    rows = [
        (f"`{code}`", _words(one.say), "lasting" if one.lasting else "passes", one.remedy,
         ", ".join(dict.fromkeys(users[code])))
        for code, one in sorted(first.items())
    ]  # fmt: skip
    head = ("Code", "Why a site is refused", "Kind", "What can be done", "Asked by")
    return ["# Brokerage", _INTRODUCTION, "## Reasons", grid(head, rows), _WEIGHTS]


def _words(say: str) -> str:
    return re.sub(
        r"\{(observed|limit)[^}]*\}", lambda m: {"observed": "x", "limit": "y"}[m[1]], say
    )
