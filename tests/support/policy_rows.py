"""Each operation with its rule, and arguments that are in order."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from jedi.service.operations.all_operations import OPERATIONS

TASK, JOB = "{task}", "{job}"
"""A task or job of anna's stands in their place."""


@dataclass(frozen=True)
class Row:
    """The rule of an operation, the least scope of a token, and arguments that are in order;
    `done`: statuses of an answer to someone who may."""

    rule: str
    scope: str
    arguments: dict[str, Any]
    done: frozenset[int] = frozenset({200})


def reads(rule: str = "anybody", *done: int, **arguments: Any) -> Row:
    return Row(rule, "read", arguments, frozenset(done or (200,)))


def changes(rule: str, *done: int, scope: str = "all", **arguments: Any) -> Row:
    return Row(rule, scope, arguments, frozenset(done or (200,)))


SITES = "- {site: SITE_A, nslots: 5}"
ENDPOINTS = "- {ddm_endpoint: SITE_A_DATADISK, space_min_free: 1}"
LINKS = "- {src: SITE_A, dst: SITE_B, closeness: 3}"
QUEUES = "- {queue_id: 7, queue_name: seventh, queue_type: user, vo: other, queue_order: 7}"
RULES = "- {rule_id: 1, error_code: memory_limit, action: increase_memory}"
SHA256 = "0" * 64
MADE = "user.anna:made"
"""An output of a task of anna's, in her own scope."""

GUID = "00000000-0000-4000-8000-000000000000"
"""A registry of anna's."""
REGISTRY: dict[str, Any] = {"guid": GUID, "lease": "lost"}
KIND: dict[str, Any] = {"guid": GUID, "kind": "job"}
STATE = {"id": 0, "status": "done", "cursor": "1", "complete": True}

NEW = {"lfn": "new", "size": 1, "adler32": "00790079", "sha256": sha256(b"x").hexdigest()}
"""A file for it, which has the content x."""

ROWS: dict[str, Row] = {
    "audit.list": reads("operator"),
    "cache.find": changes("anybody", scope="submit", size=10, checksum=1),
    "cache.put": changes(
        "anybody", 200, 422, scope="submit", file_name=f"jobO.{GUID}.tar.gz", data="0123456789"
    ),
    "config.history": reads(name="agent.poll_s"),
    "config.list": reads(),
    "config.set": changes("operator", name="agent.poll_s", value=3),
    "config.show": reads(name="agent.poll_s"),
    "config.unset": changes("operator", name="agent.poll_s"),
    "dataset.close": changes("dataset_owner", scope="submit", name=MADE),
    "dataset.create": changes(
        "dataset_owner", scope="submit", name=MADE, endpoint="SITE_A_DATADISK"
    ),
    "dataset.add": changes(
        "dataset_owner",
        200,
        409,
        scope="submit",
        name=MADE,
        endpoint="SITE_A_DATADISK",
        files=[NEW],
    ),
    "dataset.list": reads(pattern="anna:*"),
    "dataset.offer": changes(
        "dataset_owner", scope="submit", name=MADE, endpoint="SITE_A_DATADISK", files=[NEW]
    ),
    "dataset.put_piece": changes(
        "dataset_owner", scope="submit", name=MADE, endpoint="SITE_A_DATADISK", data="x", **NEW
    ),
    "dataset.put_files": changes(
        "dataset_owner",
        scope="submit",
        name=MADE,
        endpoint="SITE_A_DATADISK",
        files=[{**NEW, "content": "eA=="}],
    ),
    "dataset.show": reads(name=MADE),
    "decision.list": reads(),
    "decision.replay": reads("anybody", 404, decision_id=1),
    "decision.sites": reads("anybody", 404, decision_id=1),
    "decision.show": reads("anybody", 404, decision_id=1),
    "endpoint.import": changes("operator", text=ENDPOINTS),
    "endpoint.list": reads(),
    "job.cancel": changes("owner", panda_ids=[JOB]),
    "job.content": reads("anybody", 404, panda_id=JOB, file_id=1),
    "job.hold": changes("owner", panda_ids=[JOB]),
    "job.list": reads(),
    "job.log": reads("anybody", 404, 409, panda_id=JOB),
    "job.newest": reads(),
    "job.outputs": reads(panda_id=JOB),
    "job.purge": changes("owner", 200, 409, panda_ids=[JOB]),
    "job.release": changes("owner", 200, 409, panda_ids=[JOB], force=True),
    "job.search": reads(where=["site=SITE_A"]),
    "job.show": reads(panda_id=JOB),
    "me.show": reads(),
    "file.content": reads("anybody", 404, jedi_task_id=TASK, file_id=1),
    "link.import": changes("operator", text=LINKS),
    "link.list": reads(),
    "panda.submit": changes("anybody", 422, scope="submit", task_parameters={"taskName": "x"}),
    "queue.import": changes("operator", text=QUEUES),
    "queue.list": reads(),
    "queue.at": reads(at=["2026-11-26T12:00"]),
    "queue.flow": reads(),
    "queue.tasks": reads(),
    "queue.shares": reads(),
    "queue.test": reads(jedi_task_id=TASK),
    "queue.turns": reads(),
    "retry_rule.import": changes("operator", text=RULES),
    "retry_rule.list": reads(),
    "retry_rule.set": changes("operator", rule_id=5, settings=["active=false"]),
    "retry_rule.test": reads(jedi_task_id=TASK),
    "sandbox.known": reads(sha256=SHA256),
    "sandbox.put": changes("anybody", 422, scope="submit", sha256=SHA256, data="x"),
    "session.link": changes("own", scope="read", target="/tasks"),
    "site.attributes": reads(),
    "site.create_token": changes("operator", site="SITE_A", days=1),
    "site.import": changes("operator", text=SITES),
    "site.loads": reads(),
    "site.figures": reads(site="SITE_A"),
    "site.refusals": reads(),
    "site.list": reads(),
    "site.revoke_token": changes("operator", 404, site="SITE_A", token="none"),
    "site.set": changes("operator", site="SITE_A", settings=["nslots=6"]),
    "site.show": reads(site="SITE_A"),
    "snapshot.export": reads(),
    "system.check": reads("operator"),
    "system.figures": reads(),
    "system.rates": reads(),
    "system.status": reads(),
    "system.changes": reads(),
    "task.at": reads(jedi_task_id=TASK, at=["2026-11-26T12:00"]),
    "task.avalanche": changes("owner", jedi_task_ids=[TASK]),
    "task.cautions": changes(
        "anybody", 200, 404, scope="submit", jedi_task_ids=[TASK], sandbox=SHA256
    ),
    "task.clean": changes("owner", 409, jedi_task_id=TASK),
    "job.herd": reads(panda_id=JOB),
    "task.chain": reads(jedi_task_id=TASK),
    "task.groups": reads(by="user"),
    "task.herd": reads(jedi_task_id=TASK),
    "task.jdl": reads("anybody", 404, jedi_task_id=TASK),
    "task.descendants": reads("anybody", 404, jedi_task_id=TASK, panda_id=1),
    "task.document": reads(jedi_task_id=TASK),
    "task.events": reads(jedi_task_id=TASK),
    "task.exec": changes("anybody", 200, 422, scope="submit", command=["true"]),
    "task.datasets": reads(jedi_task_id=TASK),
    "task.family": reads(jedi_task_id=TASK),
    "task.job_counts": reads(jedi_task_id=TASK),
    "task.files": reads(jedi_task_id=TASK),
    "task.finish": changes("owner", jedi_task_ids=[TASK]),
    "task.history": reads(jedi_task_id=TASK),
    "task.incexec": changes("owner", jedi_task_ids=[TASK]),
    "task.increase_attempts": changes("owner", 409, jedi_task_id=TASK),
    "task.jobs": reads(jedi_task_id=TASK),
    "task.kill": changes("owner", jedi_task_ids=[TASK]),
    "task.list": reads(),
    "task.log": reads("anybody", 404, jedi_task_id=TASK, panda_id=1),
    "task.look": reads(jedi_task_ids=[TASK]),
    "task.metadata": reads(jedi_task_id=TASK),
    "task.parameters": reads(),
    "task.schema": reads(),
    "job.look": reads(panda_ids=[JOB]),
    "task.needs": changes("anybody", scope="submit", texts=[{"text": "taskName: x"}]),
    "task.outputs": reads(jedi_task_id=TASK),
    "task.pause": changes("owner", jedi_task_ids=[TASK]),
    "task.plan": changes("anybody", 422, scope="read", text={"text": "taskName: x"}),
    "task.reassign": changes("owner", jedi_task_ids=[TASK], site="SITE_B"),
    "task.recover": changes("owner", 409, 422, jedi_task_ids=[TASK]),
    "task.release": changes("owner", jedi_task_ids=[TASK]),
    "task.resume": changes("owner", jedi_task_ids=[TASK]),
    "task.report": reads(jedi_task_id=TASK),
    "task.retry": changes("owner_or_production", jedi_task_ids=[TASK]),
    "task.set_priority": changes("owner", jedi_task_id=TASK, priority=1000),
    "task.show": reads(jedi_task_id=TASK),
    "task.submit": changes("anybody", 422, scope="submit", texts=[{"text": "taskName: x"}]),
    "task.timeline": reads(jedi_task_id=TASK),
    "task.watch": reads(jedi_task_ids=[TASK]),
    "task.why": reads(jedi_task_id=TASK),
    "token.create": changes("own", scope="read", **{"scope_": "read", "days": 1}),
    "token.list": reads("own"),
    "token.revoke": changes("own", 404, scope="read", token_id="0123456789ab"),
    "unit.attempts": reads("anybody", 404, jedi_task_id=TASK, unit_nr=1),
    "unit.inputs": reads("anybody", 404, jedi_task_id=TASK, unit_nr=1),
    "unit.kill": changes("owner", jedi_task_id=TASK),
    "unit.outputs": reads(jedi_task_id=TASK),
    "unit.resplit": changes("owner", 200, 409, jedi_task_id=TASK, unit_nrs=[1], files=1),
    "unit.resubmit": changes("owner", 200, 409, jedi_task_id=TASK),
    "unit.states": reads(jobs=[{"jedi_task_id": TASK}]),
    "unit.settle": changes("anybody", scope="submit", key="settled"),
    "unit.submit": changes(
        "anybody", 422, scope="submit", document={}, units=[{"options": {}}], key="k"
    ),
    "user.list": reads(),
    "user.notices": reads("owner", user="anna"),
    "user.notify": changes("owner", user="anna", mail="anna@example.org"),
    "user.set": changes("operator", user="carl", role="production"),
    "draft.accept": changes(
        "owner",
        409,
        scope="submit",
        id=0,
        backend_id="17",
        status="submitted",
        units=[],
        **REGISTRY,
    ),
    "draft.annotate": changes("owner", 409, scope="submit", id=0, name="x", lease="lost", **KIND),
    "draft.begin": changes(
        "owner", 409, scope="submit", id=0, version=1, backend="JEDI", **REGISTRY
    ),
    "draft.create": changes("owner", 409, scope="submit", documents=["{}"], lease="lost", **KIND),
    "draft.give_up": changes(
        "owner", 409, scope="submit", id=0, status="new", reason="x", **REGISTRY
    ),
    "draft.list": reads("owner", **KIND),
    "draft.load": reads("owner", ids=[], **KIND),
    "draft.merged": changes("owner", 409, scope="submit", id=0, failure="x", **REGISTRY),
    "draft.note": changes("owner", scope="submit", states=[STATE], **REGISTRY),
    "draft.remove": changes("owner", 409, scope="submit", ids=[0], lease="lost", **KIND),
    "draft.removed": reads("owner", **KIND),
    "draft.take_in": changes(
        "owner", 409, scope="submit", entries=[{"kind": "job", "document": "{}"}], **REGISTRY
    ),
    "draft.units": reads("owner", 404, guid=GUID, id=0),
    "draft.write": changes(
        "owner", 409, scope="submit", id=0, document="{}", version=1, lease="lost", **KIND
    ),
    "folder.list": reads("owner", guid=GUID),
    "folder.put": changes("owner", 409, scope="submit", path="/a", **REGISTRY),
    "folder.remove": changes("owner", 409, scope="submit", path="/a", **REGISTRY),
    "folder.take_out": changes("owner", 409, scope="submit", path="/a", ids=[0], **REGISTRY),
    "registry.lease": changes("owner", scope="submit", guid=GUID, holder="x", take_over=True),
    "registry.list": reads("own"),
    "registry.open": changes("own", scope="submit", name="default"),
    "registry.release": changes("owner", scope="submit", **REGISTRY),
    "registry.renew": changes("owner", 409, scope="submit", **REGISTRY),
    "dog.list": reads(),
    "dog.run": changes("operator", dog="shares"),
}
BY_NAME = {one.name: one for one in OPERATIONS}


def places(row: Row) -> bool:
    """Whether its arguments name a task or a job."""
    return TASK in str(row.arguments) or JOB in str(row.arguments)
