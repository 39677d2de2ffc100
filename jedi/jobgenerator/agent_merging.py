"""The part of the JobGenerator that makes merge jobs at sites of the broker's choice."""

from __future__ import annotations

from jedi.brokerage.brokers import broker_of
from jedi.brokerage.record import lottery_seed, record
from jedi.jobgenerator.agent_making import JobMaking
from jedi.jobgenerator.locating import data_of, once
from jedi.jobgenerator.merge import MergeItem, chunk_of, plan_merges, with_demand
from jedi.jobgenerator.merge_places import MergeChoice, place
from jedi.jobgenerator.naming import jobs_allowed
from jedi.jobgenerator.outcome import Merges


class MergeMaking(JobMaking):
    """Makes merge jobs, too."""

    def merges(self, item: MergeItem) -> Merges:
        """Merge jobs of one task, with the decisions about their sites."""
        knobs, sites, locate = self.world.knobs, item.snapshot, once(self.world.ddm.locate)
        task, broker = with_demand(item.found, knobs), broker_of(*item.served, knobs)
        seed, placed = lottery_seed(item.jedi_task_id, item.lock_seq), dict[str, MergeChoice]()
        for site, streams in item.found.sites.items():
            data = data_of(task, [chunk_of(streams)], sites, locate)
            placed[site] = place(
                task, streams, data, lambda need: broker.choose(sites, need, knobs, (), seed)
            )
        places = {site: one.site for site, one in placed.items() if one.site}
        allowed = jobs_allowed(task.outputs, knobs.jobgen.n_files)
        cuts = plan_merges(item.found, task.demand, sites, places, knobs, allowed)
        decided = [
            record(item.jedi_task_id, broker.name, sites, one.need, knobs, one.choice)
            for one in placed.values()
        ]
        jobs = self.make(task, sites, cuts, locate) if cuts else None
        return Merges(task, jobs, decided, waits=len(places) < len(placed))
