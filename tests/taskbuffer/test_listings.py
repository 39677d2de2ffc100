"""Lists of tasks."""

from __future__ import annotations

import json
from itertools import product

from sqlalchemy import Engine, text

from jedi.model.splitting.split_rules import SplitRules
from jedi.taskbuffer.reports.listings import BY_EVENTS


def test_tasks_by_events_are_found_in_sql_as_by_their_rules(engine: Engine) -> None:
    """docs/reference/splitting.md: nEventsPerJob cuts files unless nEventsPerInputFile says that a
    job has whole files; tgtNumEventsPerJob does unless another size of jobs is given."""
    sizes = {
        "n_events_per_job": (None, 4, 10),
        "n_events_per_input": (None, 5),
        "target_events_per_job": (None, 3),
        "n_files_per_job": (None, 2),
        "n_gb_per_job": (None, 1),
    }
    rules = [
        {name: value for name, value in zip(sizes, given, strict=True) if value}
        for given in product(*sizes.values())
    ]
    query = text(f"SELECT {BY_EVENTS} FROM unnest(CAST(:rules AS jsonb[])) t(rules)")
    with engine.begin() as tx:
        found = tx.scalars(query, {"rules": [json.dumps(one) for one in rules]}).all()
    expected = [SplitRules(**one).by_events for one in rules]
    assert found == expected
    assert len(set(expected)) == 2
