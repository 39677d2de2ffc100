"""docs/brokerage.md, from the filters themselves."""

from __future__ import annotations

import re

from jedi.brokerage import nucleus, nucleus_filters
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.capability import CAPABLE
from jedi.brokerage.filters import Filter
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.production import ProductionBroker
from tools.dogdocs import TableWriter

_INTRODUCTION = """
A *broker* decides which sites may get the jobs of a task. All its filters judge all sites, so
each refused site has all its reasons, not only the first. Each reason has a code that programs
can count. Among the sites that pass, the best by weight become candidates. The broker draws a
candidate for each batch of jobs, in proportion to the weights. It keeps the seed of the draw, so
`jedi replay` can repeat the decision.

The broker is the plug-in (entry point `jedi.broker`) for the task's vo and prodSourceLabel.
`managed` and `test` have the production broker, `user` and `panda` the analysis broker. Tasks of
vo `local` have the generic one; knob `broker.local` = `full` gives them what other vos get.
A plug-in of other people runs in a process of its own, for `jedi-task plan` and `jedi replay`, too;
after `agent.plugin_s` it is ended, and its task waits.

Analysis jobs go to their data. The broker decides for each dataset of the input by itself; a
dataset without a site delays no other.

A *nucleus* must suit the outputs, and a queue of its grid site must be able to run the jobs. A
nucleus without such a queue is refused, with the reasons of its queues (those of production).

A *lasting* reason needs a person's change; other reasons pass with time. If all sites have
lasting reasons, the task waits longer before the next try (`watchdog.pending_retry_s`,
`jobgen.retry_s`). The numbers in the sentences are knobs: [knobs](knobs.md), components `broker`,
`network`, `analysis` and `taskbroker`.
""".strip()

_WEIGHTS = """
## Weights

Every weight is a product of named factors, kept with the choice.

* **production**: `queue` (running + 1) / (activated + starting + defined + 10); if input has to
  move, assigned jobs count in the denominator, and the factor is divided by (assigned + 1) /
  (activated + 1), limited to 1 … 2; `data` (total + local) / total / (missing files / 100 + 1);
  `t1` the T1 weight in the nucleus (for other tasks: at T1s of the cloud); `network` half the
  files that wait on the link to the nucleus, half its speed, or its closeness if the speed is
  unknown. If fewer than `broker.bootstrap_jobs` run, pilots count as running jobs. Preset
  `current`: they count only at unified sites whose pilots come before there are jobs
  (`catchall.workflow: pull_ups`, or none) and were seen. Slots that a site declares
  (`catchall.num_slots_map`) count as running jobs. Sites without a running or waiting job of the
  share weigh 0 (`first`): each gets a batch of jobs first.
* **analysis**: (running + 1) / (activated + assigned + defined + starting + 1); input on disk
  counts a thousand times as much as input on tape; if input has to move, the local part counts.
* **generic**: (running + 1) / (activated + defined + 1) / (defined + 1), of `broker.max_sites`
  sites. A site with many running jobs gets more: an idle site weighs 1, and may stay idle while
  other sites keep up with their queues. For many equal sites the knob `broker.local` = `full` is
  better.
* **nucleus**: the local part of the input / the work ahead (below 50 core-days: 1), a thousandth
  of that if the input is on tape only. Preset `current` also counts free space, and counts the
  local input only while locality is required.

Counts are those of the task's global share. Figures of links count for an hour (speeds:
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
        (
            f"`{code}`",
            _words(one.say),
            "lasting" if one.lasting else "passes",
            one.remedy,
            ", ".join(dict.fromkeys(users[code])),
        )
        for code, one in sorted(first.items())
    ]
    head = ("Code", "Reason against a site", "Kind", "Remedy", "Asked by")
    return ["# Brokerage", _INTRODUCTION, "## Reasons", grid(head, rows), _WEIGHTS]


def _words(say: str) -> str:
    return re.sub(
        r"\{(observed|limit)[^}]*\}", lambda m: {"observed": "x", "limit": "y"}[m[1]], say
    )
