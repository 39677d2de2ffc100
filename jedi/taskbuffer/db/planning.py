"""Ways in which PostgreSQL plans a statement.

Each time it is sent, which is the rule: the planner then sees the sizes of tables and of lists, and
how skewed a column is. A plan that knows neither may never end. Or once a session, by keys: for
statements so short that planning takes longer than their execution, and whose work is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Planning:
    """A way to plan, in a word, and the settings of the planner for it."""

    word: str
    settings: Mapping[str, str]

    @property
    def sql(self) -> bytes:
        """The statement that makes a session plan so from now on."""
        wanted = (f"SET {name} TO {self.settings.get(name, 'DEFAULT')}" for name in _NAMES)
        return "; ".join(wanted).encode()


EACH_TIME = Planning("each time", {})
"""For its values, with the server's own settings. psycopg prepares statements with binds that come
again and again: they are read once a session, but planned each time."""
BY_KEY = Planning(
    "once, by key",
    {
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "max_parallel_workers_per_gather": "0",
    },
)
"""Once a session. A plan made while tables were empty must serve full ones: it may scan none. A
parallel plan would start two workers, which takes 7 ms, also where it finds nothing."""
IN_ORDER = Planning("once, in order", {**BY_KEY.settings, "enable_bitmapscan": "off"})
"""The same for statements that hand out jobs: a bitmap reads and sorts all waiting jobs of a share
to return the first. Those that end many jobs at once take a third longer without bitmaps."""
EITHER_WAY = Planning("either way", {})
"""As the statements around it: it has but one plan."""

_NAMES = IN_ORDER.settings.keys()
