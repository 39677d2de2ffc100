"""jedi_agents: heartbeats, in real time: processes live in it, whatever the clock is turned to."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from jedi.taskbuffer.db.statement import changes, returns

BEAT = changes("""
-- Record that an agent is alive; forget processes that were silent for a day.
WITH old AS (DELETE FROM jedi_agents
WHERE heartbeat_at < clock_timestamp() - interval '1 day')
INSERT INTO jedi_agents (agent, process, heartbeat_at, cycles, items, last_error,
  rss_kb) VALUES (:agent, :process, clock_timestamp(), :cycles, :items, :error, :rss)
ON CONFLICT (agent, process) DO UPDATE SET heartbeat_at = clock_timestamp(),
  cycles = :cycles, items = :items, last_error = :error, rss_kb = :rss
""")


LEAVE = changes("""
-- Forget a process that ends in order.
DELETE FROM jedi_agents WHERE agent = :agent AND process = :process
""")


REST = changes("""
-- Record that these agents have no process and are healthy: `process` looks for their work.
INSERT INTO jedi_agents (agent, process, heartbeat_at, cycles, items)
SELECT a, :process, clock_timestamp(), 0, 0 FROM unnest(CAST(:agents AS text[])) a
ON CONFLICT (agent, process) DO UPDATE SET heartbeat_at = clock_timestamp()
""")


class ConnectedAgent(NamedTuple):
    """An agent with a session in the database now; no address: on its own host."""

    agent: str
    address: str | None


CONNECTED = returns(ConnectedAgent)("""
-- The agents that run: names of their sessions begin with a capital, unlike those of services and
-- commands.
SELECT DISTINCT substr(application_name, 6) AS agent, host(client_addr) AS address
FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^jedi [A-Z]' ORDER BY 2 NULLS FIRST, 1
""")


class AgentBeat(NamedTuple):
    """The last heartbeat of an agent process, its age in seconds. Without memory: the agent rests,
    and this process looks for its work."""

    agent: str
    process: str
    heartbeat_at: datetime | None
    cycles: int
    items: int
    last_error: str | None
    rss_kb: int | None
    age_s: float


ALL_AGENTS = returns(AgentBeat)("""
-- Every agent process with the age of its last heartbeat in seconds.
SELECT agent, process, heartbeat_at, cycles, items, last_error, rss_kb,
  extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 AS age_s
FROM jedi_agents ORDER BY agent, process
""")
