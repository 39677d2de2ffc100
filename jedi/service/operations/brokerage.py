"""Operations on brokers' decisions, and on the world that brokers see."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from jedi.model.queries import MostRows
from jedi.service import decisions, foreign, replay, system_state, why
from jedi.service.operations.arguments import NameText, Seed, SettingText, TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.sites.decisions import DecisionSummary

Assumptions = Annotated[list[SettingText], Field(max_length=1_000)] | None


@operation("decision.list", "GET", "/v1/decisions", ANYBODY)
def find(
    call: Call,
    jedi_task_id: TaskId | None = None,
    before: TaskId | None = None,
    limit: MostRows = 100,
) -> list[DecisionSummary]:
    """List brokers' decisions, the newest first; `before`: only older ones than this number."""
    return decisions.newest(call.tx, jedi_task_id, before, limit)


@operation("decision.show", "GET", "/v1/decisions/{decision_id}", ANYBODY)
def show(call: Call, decision_id: TaskId) -> why.BrokerOutcome:
    """Show a decision: chosen sites, refusals by criterion, near misses."""
    return decisions.explain(call.tx, decision_id)


@operation("decision.replay", "GET", "/v1/decisions/{decision_id}/replay", ANYBODY, heavy=True)
def repeat(
    call: Call, decision_id: TaskId, knobs: Assumptions = None, sites: Assumptions = None
) -> replay.Replay:
    """Repeat a decision from its snapshot, and once more under other `knobs` (KNOB=VALUE) and
    `sites` (NAME.ATTRIBUTE=VALUE)."""
    if theirs := foreign.of_decision(call, decision_id):
        given = {"decision_id": decision_id, "knobs": knobs, "sites": sites}
        again: replay.Replay = foreign.answer(call, theirs, "decision.replay", **given)
        return again
    return replay.replay(call.tx, decision_id, knobs or (), sites or ())


@operation("snapshot.export", "GET", "/v1/snapshot", ANYBODY, heavy=True)
def export(
    call: Call,
    dataset: Annotated[list[NameText], Field(max_length=1_000)] | None = None,
    seed: Seed = 0,
) -> dict[str, Any]:
    """Show the world that brokers see, as a file for plans, with the files of these datasets."""
    known = system_state.from_database(call.tx, call.ddm, seed)
    return system_state.plain(known, dataset or ())
