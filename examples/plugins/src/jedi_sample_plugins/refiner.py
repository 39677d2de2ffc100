"""From task parameters to a task."""

from __future__ import annotations

from dataclasses import replace

from jedi.taskrefiner.refine import Refined, Refiner, RefinerOutcome, Submission


class Campaigns(Refiner):
    """A task without a campaign gets the beginning of its name: `mc25.evgen` belongs to
    `mc25`."""

    def refine(self, submission: Submission) -> RefinerOutcome:
        outcome = super().refine(submission)
        if not isinstance(outcome, Refined) or outcome.task.columns.campaign:
            return outcome
        campaign = submission.params.task_name.partition(".")[0]
        columns = replace(outcome.task.columns, campaign=campaign)
        return Refined(replace(outcome.task, columns=columns))
