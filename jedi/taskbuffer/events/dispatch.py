"""Ranges of events for consumers that ask: ready → sent.

A call locks the jobs of its consumers, so that none ends meanwhile, and the ranges that it hands
out. It locks no task, no job set and no file, and waits for nobody's ranges.
Source: docs/reference/event-service.md#dispatch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE
from jedi.taskbuffer.db.statement import answers
from jedi.taskbuffer.events.consumers import ConsumerMemory, KnownConsumer

_CODE = states.EVENT_CODES
_TOP = 2**62


class GivenRange(NamedTuple):
    """A range of a consumer: its file, its number and attempt, its first and last event."""

    panda_id: int
    file_id: int
    process_id: int
    attempt_nr: int
    start: int | None
    end: int | None


class SiteAsk(NamedTuple):
    """A consumer's ask for up to `n` ranges, in a request of a pilot of its site."""

    site: str
    request_id: str
    panda_id: int
    lock_seq: int
    n: int


class RangeFile(NamedTuple):
    """The file of ranges."""

    file_id: int
    lfn: str
    guid: str | None
    scope: str | None


class RangesGiven(NamedTuple):
    """The answer to an ask. `last`: no other range is ready for the consumer."""

    panda_id: int
    jedi_task_id: int
    status: Literal["ok", "stale", "killed"]
    ranges: list[GivenRange]
    last: bool


LIVE_CONSUMERS = f"""
LATERAL (SELECT j.pandaid, j.kill_code IS NOT NULL AS killed FROM jedi_jobs j
  WHERE j.pandaid = a.pandaid AND j.lock_seq = a.lock_seq AND j.site = a.site
    AND j.status IN ({JOB_AT_SITE}) FOR NO KEY UPDATE) k
"""
"""SQL: the jobs of consumers `a`, in their order, that a pilot of the site has; they are locked, so
that their ends, which look for their ranges, wait."""

# The ready ranges of a pool in a ring: from its place on, then those before.
_RING = """
  SELECT e.ctid AS tid, s.turn, e.jobsetid, e.fileid, e.job_processid FROM jedi_events e
  WHERE e.ready AND e.attemptnr > 0 AND e.jeditaskid = p.task
    AND (e.jobsetid, e.fileid, e.job_processid) > (s.jobset, s.file, s.process)
    AND (e.jobsetid, e.fileid, e.job_processid) <= (s.jobset2, s.file2, s.process2)
  ORDER BY e.jobsetid, e.fileid, e.job_processid
"""

_RANGES = """
json_agg(json_build_array(r.pandaid, r.fileid, r.job_processid, r.attemptnr, r.def_min_eventid,
  r.def_max_eventid) ORDER BY r.jobsetid, r.fileid, r.job_processid)
"""
_FILES = """
(SELECT json_agg(json_build_array(f.fileid, c.lfn, c.guid, c.scope))
 FROM (SELECT DISTINCT fileid FROM {ranges}) f,
   LATERAL (SELECT lfn, guid, scope FROM jedi_dataset_contents c WHERE c.fileid = f.fileid
            OFFSET 0) c)
"""

# Rows of one xmin are those of one statement: a repeated request finds its ranges by that of the
# consumer's row, which nothing else writes while its job is at the site. That row is locked, so
# that a request that waited for the first one knows that it repeats it. The row of a pool after
# the last one that is handed out is only locked: it says that there are more. A commit that is
# lost with the database's host leaves ranges ready, and reports on them are refused: that is worth
# no wait for the disk.
_HAND_OUT = answers()(
    " ".join(
        f"""
WITH a AS (
  SELECT * FROM unnest(CAST(:sites AS text[]), CAST(:requests AS text[]), CAST(:ids AS bigint[]),
    CAST(:seqs AS bigint[]), CAST(:ns AS int[]), CAST(:in_pools AS int[]))
    a(site, request, pandaid, lock_seq, n, pool) ORDER BY pandaid
), j AS MATERIALIZED (
  SELECT a.pandaid, a.request, a.n, a.pool, k.killed, c.again
  FROM a, {LIVE_CONSUMERS},
    LATERAL (SELECT (request_id = a.request) IS TRUE AS again FROM jedi_consumers
             WHERE pandaid = a.pandaid OFFSET 0 FOR NO KEY UPDATE) c
), d AS (
  SELECT pandaid, request, pool, n, sum(n) OVER (PARTITION BY pool ORDER BY pandaid) AS upto
  FROM j WHERE NOT killed AND NOT again
), p AS (
  SELECT b.*, d.n FROM (SELECT pool, max(upto) AS n FROM d GROUP BY pool) d
    JOIN unnest(CAST(:pools AS int[]), CAST(:tasks AS bigint[]), CAST(:lows AS bigint[]),
      CAST(:highs AS bigint[]), CAST(:jobsets AS bigint[]), CAST(:files AS bigint[]),
      CAST(:processes AS bigint[])) b(pool, task, low, high, jobset, file, process) USING (pool)
), x AS MATERIALIZED (
  SELECT p.pool, p.n, q.*, row_number() OVER w AS nr, count(*) OVER (PARTITION BY p.pool) AS got
  FROM p, LATERAL (
    SELECT q.* FROM (VALUES (1, p.jobset, p.file, p.process, p.high, {_TOP}, {_TOP}),
        (2, p.low, 0, 0, p.jobset, p.file, p.process))
        s(turn, jobset, file, process, jobset2, file2, process2),
      LATERAL ({_RING} LIMIT p.n + 1 FOR UPDATE SKIP LOCKED) q
    LIMIT p.n + 1) q
  WINDOW w AS (PARTITION BY p.pool ORDER BY q.turn, q.jobsetid, q.fileid, q.job_processid
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), r AS (
  UPDATE jedi_events e SET status = {_CODE["sent"]}, pandaid = d.pandaid,
    is_jumbo = CASE WHEN :jumbo THEN 1 END
  FROM x JOIN d ON d.pool = x.pool AND x.nr <= d.upto AND x.nr > d.upto - d.n
  WHERE e.ctid = x.tid
  RETURNING e.pandaid, e.jobsetid, e.fileid, e.job_processid, e.attemptnr, e.def_min_eventid,
    e.def_max_eventid
), noted AS (
  UPDATE jedi_consumers c SET request_id = d.request FROM d WHERE c.pandaid = d.pandaid
)
SELECT json_build_array(
  (SELECT json_agg(json_build_array(pandaid, killed, again, pool)) FROM j),
  (SELECT {_RANGES} FROM r), {_FILES.format(ranges="r")},
  (SELECT json_agg(json_build_array(pool, nr > n, jobsetid, fileid, job_processid) ORDER BY nr)
   FROM x WHERE nr >= least(n, got)))
FROM set_config('synchronous_commit', 'off', true)
""".split()
    )
)
_HAND_OUT_FREE = answers()(
    _HAND_OUT.sql.replace("FOR NO KEY UPDATE", "FOR NO KEY UPDATE SKIP LOCKED")
)
_MORE = answers()("""
SELECT json_agg(p.pool) FROM unnest(CAST(:pools AS int[]), CAST(:tasks AS bigint[]),
  CAST(:lows AS bigint[]), CAST(:highs AS bigint[])) p(pool, task, low, high)
WHERE EXISTS (
  SELECT FROM jedi_events e WHERE e.ready AND e.attemptnr > 0 AND e.jeditaskid = p.task
    AND e.jobsetid BETWEEN p.low AND p.high OFFSET 0)
""")

_AGAIN = answers()(f"""
WITH r AS (
  SELECT e.* FROM jedi_consumers c JOIN jedi_events e USING (jeditaskid, pandaid)
  WHERE c.pandaid = ANY(CAST(:ids AS bigint[])) AND e.status = {_CODE["sent"]} AND e.xmin = c.xmin
)
SELECT json_build_array((SELECT {_RANGES} FROM r), {_FILES.format(ranges="r")})
""")


def acquire_ranges(
    tx: Connection, asks: Sequence[SiteAsk], memory: ConsumerMemory, *, wait: bool = True
) -> tuple[list[RangesGiven], dict[int, RangeFile]]:
    """Hand ready ranges to different consumers, up to as many as each asks; one answer an ask, and
    the files of all ranges by their ids. The commit does not wait for the disk.

    A consumer gets ranges of its job set, a jumbo job those of all job sets before it, in the order
    of files and events, beginning behind the last ones. Those that came back ready are handed out
    after the others. A repeated request gets the ranges that the first one got and that are not
    reported. Without `wait`, a consumer whose job somebody else has locked is answered as if it
    were stale.
    """
    known = memory.consumers(tx, (ask.panda_id for ask in asks))
    found = _Found()
    jumbos = [
        ask for ask in asks if ask.panda_id in known and known[ask.panda_id].jobset_id is None
    ]
    others = [ask for ask in asks if ask.panda_id in known and ask not in jumbos]
    for some in (others, *([ask] for ask in jumbos)):  # no range is in two pools of a statement
        if some:
            _hand_out(tx, some, known, memory, found, some is not others, wait)
    if found.again:
        found.add(*_AGAIN.value(tx, ids=_array(found.again)))
    return [found.answer(ask, known.get(ask.panda_id)) for ask in asks], found.files


class _Found:
    """Answers of several statements."""

    def __init__(self) -> None:
        self.killed: dict[int, bool] = {}
        self.more: dict[int, bool] = {}
        self.again: list[int] = []
        self.files: dict[int, RangeFile] = {}
        self._ranges: dict[int, list[GivenRange]] = defaultdict(list)

    def add(self, ranges: list[Any] | None, files: list[Any] | None) -> None:
        for one in map(GivenRange._make, ranges or ()):
            self._ranges[one.panda_id].append(one)
        self.files.update((one[0], RangeFile._make(one)) for one in files or ())

    def answer(self, ask: SiteAsk, consumer: KnownConsumer | None) -> RangesGiven:
        panda_id = ask.panda_id
        if consumer is None or panda_id not in self.killed:
            return RangesGiven(panda_id, 0, "stale", [], True)
        if self.killed[panda_id]:
            return RangesGiven(panda_id, consumer.jedi_task_id, "killed", [], True)
        ranges, last = self._ranges[panda_id], not self.more[panda_id]
        return RangesGiven(panda_id, consumer.jedi_task_id, "ok", ranges, last)


def _hand_out(
    tx: Connection,
    asks: Sequence[SiteAsk],
    known: dict[int, KnownConsumer],
    memory: ConsumerMemory,
    found: _Found,
    jumbo: bool,
    wait: bool,
) -> None:
    """Hand ranges to consumers whose pools have no range in common, but where they are the same."""
    pools = list(dict.fromkeys(known[ask.panda_id].pool for ask in asks))
    number = {pool: n for n, pool in enumerate(pools)}
    places = [memory.place(pool) for pool in pools]
    arrays = {
        "ids": (ask.panda_id for ask in asks),
        "seqs": (ask.lock_seq for ask in asks),
        "ns": (ask.n for ask in asks),
        "in_pools": (number[known[ask.panda_id].pool] for ask in asks),
        "pools": range(len(pools)),
        "tasks": (task for task, _ in pools),
        "lows": (jobset for _, jobset in pools),
        "highs": (abs(jobset) for _, jobset in pools),
        "jobsets": (place[0] for place in places),
        "files": (place[1] for place in places),
        "processes": (place[2] for place in places),
    }
    values = {name: _array(numbers) for name, numbers in arrays.items()}
    names = {"sites": [ask.site for ask in asks], "requests": [ask.request_id for ask in asks]}
    statement = _HAND_OUT if wait else _HAND_OUT_FREE
    asked, ranges, files, ends = statement.value(tx, **values, **names, jumbo=jumbo)
    found.add(ranges, files)
    more = _note_places(pools, ends, memory)
    left = {pool for _, _, again, pool in asked or () if not again} - more
    if left:  # nothing else is ready, unless somebody has it locked
        more |= {*(_MORE.value(tx, **({name: values[name] for name in _POOL})) or ())}
    for panda_id, killed, again, pool in asked or ():
        found.killed[panda_id] = killed
        found.more[panda_id] = again or pool in more
        if again and not killed:
            found.again.append(panda_id)


_POOL = ("pools", "tasks", "lows", "highs")


def _note_places(
    pools: Sequence[tuple[int, int]], ends: Sequence[Any] | None, memory: ConsumerMemory
) -> set[int]:
    """Remember the last places that were handed out; the numbers of pools that have more."""
    more = set()
    for pool, extra, jobset, file, process in ends or ():
        if extra:
            more.add(pool)
        else:
            memory.note(pools[pool], (jobset, file, process))
    return more


def _array(numbers: Iterable[int]) -> str:
    """Numbers as PostgreSQL writes an array: lists take ten times as long."""
    return f"{{{','.join(map(str, numbers))}}}"
