"""The TaskCommando: carries out people's commands to tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import Agent
from jedi.core import states
from jedi.core.errors import JediError, NotFound, NotWritten
from jedi.model.tasks.costs import Spent
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import recovery, staging
from jedi.taskbuffer.jobs import capping, jobs, one_job
from jedi.taskbuffer.tasks import (
    commands,
    dataset_rows,
    ending,
    family,
    incremental,
    reassigning,
    retrying,
    scouting,
    tasks,
)
from jedi.taskbuffer.tasks.commands import TaskCommand
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.tasks.unit_verbs import UNITS
from jedi.taskcommando.commands import COMMANDS, LIKE
from jedi.taskcommando.ends import KILLED, REASSIGNED, CommandedEnd
from jedi.taskcommando.limits import exceeded, limited
from jedi.taskcommando.order import NOTHING, CommandedTask
from jedi.taskcommando.reassign import target
from jedi.taskcommando.retry import RetriedDataset, plan, reopen

_WINDING_UP = {"aborting": "toabort", "finishing": "passed"}
_DOING = (*_WINDING_UP, "toretry", "toincexec", "paused", "toreassign", "reassigning", "scouted")


class TaskCommando(Agent[CommandedTask, str | None]):
    """Takes commands up (… → aborting, finishing, toretry, toincexec, toreassign, paused, or a
    refusal) and carries them out: aborting → toabort, finishing → passed, toretry → ready,
    toincexec → rerefine; toreassign → reassigning → as before, elsewhere; scouted → running; paused
    → as before, on resume.

    A task stays in the "doing" status until all is done, so a lost worker is replaced. One set of
    statements writes the work for all tasks: `work` only judges commands.
    """

    name = "TaskCommando"
    wakes = frozenset({"command", *(f"task:{status}" for status in _DOING)})

    def waiting(self, tx: Connection) -> bool:
        return commands.ANY_OPEN.value(tx, doing=_DOING)

    def claim(self, tx: Connection, limit: int) -> list[CommandedTask]:
        commanded = commands.claim_commanded(tx, self.world.me, self.lease_s, limit)
        found = commands.next_commands(tx, [row.jedi_task_id for row in commanded])
        doing = []
        if len(commanded) < limit:
            left = limit - len(commanded)
            doing = commands.claim_doing(tx, _DOING, self.world.me, self.lease_s, left)
        rows = [*commanded, *doing]
        if not rows:
            return []
        before = dict(commands.BEFORE_HOLD.rows(tx, ids=[row.jedi_task_id for row in rows]))
        lost = recovery.to_remove(tx, [r.jedi_task_id for r in rows if r.status == "toretry"])
        return [
            CommandedTask.of(
                row,
                before.get(row.jedi_task_id),
                found.get(row.jedi_task_id),
                lost.get(row.jedi_task_id, NOTHING),
            )
            for row in rows
        ]

    def work(self, order: CommandedTask) -> str | None:
        """The reason to refuse the command; None: it is not refused, or there is none. Lost files
        are removed."""
        if order.command is None:
            for name, lfns in order.lost.items():
                with suppress(NotFound):
                    self.world.ddm.remove_files(name, lfns)
            return None
        return order.refusal()

    def apply(self, tx: Connection, results: Sequence[tuple[CommandedTask, str | None]]) -> None:
        ours = tasks.fence(tx, [order.held for order, _ in results])
        held = [(order, refusal) for order, refusal in results if order.jedi_task_id in ours]
        self._answer(tx, [(o, o.command, why) for o, why in held if o.command is not None])
        going_on = [order for order, _ in held if order.command is None]
        self._wind_up(tx, [order for order in going_on if order.status in _WINDING_UP])
        retried = self._retry(tx, [order for order in going_on if order.status == "toretry"])
        retried += self._incexec(tx, [o for o in going_on if o.status == "toincexec"])
        self._throttle(tx, [order for order in going_on if order.status == "paused"])
        self._reassign(tx, [order for order in going_on if order.status == "toreassign"])
        self._settle(tx, [order for order in going_on if order.status == "reassigning"])
        self._avalanche(tx, [order for order in going_on if order.status == "scouted"])
        self._lead(tx, retried)
        # a command that somebody else answered just before the claim
        tasks.put_off(tx, [order.held for order in going_on if order.status not in _DOING])
        resumed = [
            order.jedi_task_id
            for order, refusal in held
            if order.command and order.command.command == "resume" and not refusal
        ]
        capping.keep_back(tx, self.world.knobs, resumed, self.name)

    def trouble(self, tx: Connection, order: CommandedTask, error: Exception) -> None:
        if order.command is not None and tasks.fence(tx, [order.held]):
            command, most_s = order.command.command_id, self.world.knobs.taskcommando.give_up_s
            passing = isinstance(error, NotWritten) and error.passing
            if not (passing and commands.try_later(tx, command, self.poll_s, most_s)):
                answer = f"It can't be carried out: {error}"[:4000]
                commands.acknowledge(tx, [(command, "refused", answer)])
            tasks.put_off(tx, [order.held])
            return
        code = error.code if isinstance(error, JediError) else "internal_error"
        wait_s = float(self.world.knobs.taskcommando.retry_s)
        move = Move(*order.held, order.status, code, str(error), wait_s=wait_s)
        tasks.move_tasks(tx, [move], self.name)

    def _answer(
        self, tx: Connection, answers: Sequence[tuple[CommandedTask, TaskCommand, str | None]]
    ) -> None:
        """Accept or refuse commands, and move their tasks."""
        if not answers:
            return
        moves = []
        for order, command, refusal in answers:
            if refusal is None:
                rule = COMMANDS[command.command]
                reason = f"{rule.participle.capitalize()} by {command.user_name}"
                reason += f": {command.comment}" if command.comment else "."
                moves.append(
                    Move(
                        *order.held,
                        order.goes_to(rule),
                        rule.name,
                        reason,
                        user_name=command.user_name,
                    )
                )
        tasks.move_tasks(tx, moves, self.name)
        code = {o.jedi_task_id: c.arguments.get("sandbox") for o, c, why in answers if not why}
        retrying.use_code(tx, {task: sha for task, sha in code.items() if sha})
        by_command = {
            name: [o.jedi_task_id for o, c, why in answers if not why and c.command == name]
            for name in ("resume", "release")
        }
        staging.end_workflow_hold(tx, by_command["release"])
        staging.release(tx, by_command["release"])
        going = by_command["resume"]
        self._move_jobs(tx, going, "throttled", "activated", "task_resumed", "Task resumed.")
        tasks.put_off(tx, [order.held for order, _, refusal in answers if refusal])
        commands.acknowledge(
            tx,
            [
                (command.command_id, "refused" if refusal else "accepted", refusal or "Accepted.")
                for _, command, refusal in answers
            ],
        )

    def _wind_up(self, tx: Connection, orders: Sequence[CommandedTask]) -> None:
        """End the jobs of tasks that are killed or forced to finish; then the tasks go on."""
        if not orders:
            return
        because = ending.reasons(tx, [order.jedi_task_id for order in orders])
        through = self._end_jobs(tx, orders, because, KILLED)
        finishing = [o.jedi_task_id for o in through if o.status == "finishing"]
        scouting.release(tx, finishing)  # what scouts were to decide about is given up, too
        commands.give_up_unused(tx, finishing)
        moves = [Move(*o.held, _WINDING_UP[o.status], *because[o.jedi_task_id]) for o in through]
        tasks.move_tasks(tx, moves, self.name)

    def _reassign(self, tx: Connection, orders: Sequence[CommandedTask]) -> None:
        """End the jobs of reassigned tasks, as far as the command asks."""
        if not orders:
            return
        because = ending.reasons(tx, [order.jedi_task_id for order in orders])
        through = self._end_jobs(tx, orders, because, REASSIGNED)
        moves = [Move(*o.held, "reassigning", *because[o.jedi_task_id]) for o in through]
        tasks.move_tasks(tx, moves, self.name)

    def _settle(self, tx: Connection, orders: Sequence[CommandedTask]) -> None:
        """Note the new place of tasks; they go on there."""
        if not orders:
            return
        ids = [order.jedi_task_id for order in orders]
        because = ending.reasons(tx, ids)
        options = {i: c.arguments for i, c in commands.last_accepted(tx, ids).items()}
        reassigning.set_destination(
            tx, [(i, options[i].get("site"), options[i].get("nucleus")) for i in ids]
        )
        masters = [d for d in ending.DATASETS.rows(tx, ids=ids) if d.master_id is None]
        refined = {d.jedi_task_id for d in masters}
        fed = {
            d.jedi_task_id
            for d in masters
            if d.type in states.MASTER_TYPES and d.n_files_to_be_used
        }
        moves = []
        for order in orders:
            i = order.jedi_task_id
            to = target(
                order.before or order.old_status,
                refined=i in refined,
                fed=i in fed,
                nucleus="nucleus" in options[i],
            )
            moves.append(Move(*order.held, to, *because[i]))
        tasks.move_tasks(tx, moves, self.name)

    def _end_jobs(
        self,
        tx: Connection,
        orders: Sequence[CommandedTask],
        because: Mapping[int, tuple[str, str]],
        end: CommandedEnd,
    ) -> list[CommandedTask]:
        """End the jobs of tasks; the tasks that wait for none any more.

        Queued jobs end at once (a batch a cycle). Pilots end their jobs on request. The others are
        about to end by themselves. A soft command kills neither jobs in pilots nor merges of
        finished outputs. A task that moves to another site keeps the outputs that await a merge.
        """
        options = self._arguments(tx, orders)
        mild = {i for i, arguments in options.items() if arguments.get("soft")}
        live = commands.live_jobs(tx, [i for i in options if not options[i].get("nokill")])
        queued = [job for job in live if end.at_once(job, mild=job.jedi_task_id in mild)]
        batch = queued[: int(self.world.knobs.taskcommando.kill_batch)]
        to_kill = [
            job.panda_id
            for job in live
            if job.status in states.JOB_AT_SITE and job.jedi_task_id not in mild
        ]
        ids = [*(job.panda_id for job in batch), *to_kill]
        running = (*states.JOB_AT_SITE, *one_job.STORED)
        after = [job.panda_id for job in live if job.status in running]
        job_ends.lock(tx, [*ids, *after])
        one_job.let_end(tx, after, self.name)
        jobs.ASK_TO_KILL.run(tx, code=end.code, ids=to_kill)
        ends = [
            JobEnd(
                job.panda_id,
                end.target,
                end.code,
                because[job.jedi_task_id][1],
                job.lock_seq,
                end.source,
            )
            for job in batch
        ]
        ended = {job.panda_id for job in job_ends.end_jobs(tx, ends, self.name)}
        busy = {
            job.jedi_task_id
            for job in live
            if job.panda_id not in ended and end.awaits(job, mild=job.jedi_task_id in mild)
        }
        wait_s = 0.0 if len(batch) < len(queued) else self.poll_s
        most_s = float(self.world.knobs.taskcommando.longest_wait_s)
        tasks.put_off(tx, [o.held for o in orders if o.jedi_task_id in busy], wait_s, most_s)
        return [order for order in orders if order.jedi_task_id not in busy]

    def _arguments(
        self, tx: Connection, orders: Sequence[CommandedTask]
    ) -> dict[int, Mapping[str, Any]]:
        """The arguments of the command that each task carries out; none if an agent asked."""
        accepted = commands.last_accepted(tx, [order.jedi_task_id for order in orders])
        arguments: dict[int, Mapping[str, Any]] = {}
        for order in orders:
            command = accepted.get(order.jedi_task_id)
            asked = command is not None and COMMANDS[command.command].doing == order.status
            arguments[order.jedi_task_id] = command.arguments if command and asked else {}
        return arguments

    def _avalanche(self, tx: Connection, orders: Sequence[CommandedTask]) -> None:
        """Let all other jobs follow, whatever the scouts are going to say."""
        if not orders:
            return
        ids = [order.jedi_task_id for order in orders]
        because = ending.reasons(tx, ids)
        scouting.release(tx, ids)
        moves = [Move(*order.held, "running", *because[order.jedi_task_id]) for order in orders]
        tasks.move_tasks(tx, moves, self.name)

    def _throttle(self, tx: Connection, orders: Sequence[CommandedTask]) -> None:
        """Keep jobs of paused tasks from pilots, a batch a cycle; later ones, too, whose inputs
        were on their way."""
        if not orders:
            return
        batch = int(self.world.knobs.taskcommando.kill_batch)
        ids = [order.jedi_task_id for order in orders]
        self._move_jobs(tx, ids, "activated", "throttled", "task_paused", "Task paused.", batch)
        tasks.put_off(tx, [order.held for order in orders])

    def _move_jobs(
        self,
        tx: Connection,
        ids: Sequence[int],
        source: str,
        target: str,
        code: str,
        reason: str,
        limit: int | None = None,
    ) -> None:
        live = commands.live_jobs(tx, ids, [source])[:limit] if ids else []
        moves = [jobs.JobMove(job.panda_id, target, code, reason) for job in live]
        jobs.move_jobs(tx, moves, self.name, [source])

    def _retry(self, tx: Connection, orders: Sequence[CommandedTask]) -> list[int]:
        """Give failed inputs new attempts and let the tasks go on; without any, back they go. The
        tasks that go on, and whose children follow."""
        options = self._arguments(tx, orders)
        orders = self._within_limits(tx, self._undo(tx, orders, options), options)
        if not orders:
            return []
        ids = [order.jedi_task_id for order in orders]
        revived = self._revive(tx, options, [task for task in ids if UNITS not in options[task]])
        staging.release(tx, [task for task in ids if options[task].get("staged")])
        found: dict[int, list[RetriedDataset]] = defaultdict(list)
        for d in ending.DATASETS.rows(tx, ids=ids):
            one = RetriedDataset.of(
                d, revived.get(d.dataset_id, 0), stale="files" in options[d.jedi_task_id]
            )
            found[d.jedi_task_id].append(one)
        plans = {order: plan(found[order.jedi_task_id]) for order in orders}
        reopened = [move for p in plans.values() for move in p.datasets]
        dataset_rows.move_datasets(tx, reopened, self.name, "retry")
        going = [order.jedi_task_id for order, p in plans.items() if p.target]
        commands.begin_attempt(tx, going, [task for task in going if options[task].get("keep")])
        tasks.move_tasks(tx, [_retried(order, p.target) for order, p in plans.items()], self.name)
        return [task for task in going if not options[task].get("sole")]

    def _revive(
        self, tx: Connection, options: Mapping[int, Mapping[str, Any]], ids: Sequence[int]
    ) -> dict[int, int]:
        """Give failed inputs new attempts, as far as the commands ask; their number by dataset."""
        groups: dict[int | None, list[int]] = defaultdict(list)
        for task in ids:
            groups[options[task].get(LIKE)].append(task)
        adds = int(self.world.knobs.attempts.retry_adds)
        revived: dict[int, int] = {}
        for like, tasks_alike in groups.items():
            revived |= commands.revive(tx, tasks_alike, adds, like)
        return revived

    def _undo(
        self,
        tx: Connection,
        orders: Sequence[CommandedTask],
        options: Mapping[int, Mapping[str, Any]],
    ) -> list[CommandedTask]:
        """Give up outputs that are lost, or that are not wanted; the tasks that gave up none now:
        the others go on when data management has forgotten them."""
        recovery.NOTE_REMOVED.run(tx, ids=[order.jedi_task_id for order in orders if order.lost])
        lost = {task: given["files"] for task, given in options.items() if "files" in given}
        unwanted = [task for task, given in options.items() if given.get("discard")]
        adds = int(self.world.knobs.attempts.retry_adds)
        changed = recovery.give_up(tx, lost, unwanted, adds)
        tasks.put_off(tx, [order.held for order in orders if order.jedi_task_id in changed])
        return [order for order in orders if order.jedi_task_id not in changed]

    def _within_limits(
        self,
        tx: Connection,
        orders: Sequence[CommandedTask],
        options: Mapping[int, Mapping[str, Any]],
    ) -> list[CommandedTask]:
        """The tasks that may be tried once more; the others are exhausted."""
        if not limited(self.world.knobs):
            return list(orders)
        asked = [o.jedi_task_id for o in orders if not options[o.jedi_task_id].get("transcend")]
        cost = retrying.spent(tx, asked)
        why = {o: exceeded(cost.get(o.jedi_task_id, Spent()), self.world.knobs) for o in orders}
        moves = [Move(*o.held, "exhausted", "retry_limit", w) for o, w in why.items() if w]
        tasks.move_tasks(tx, moves, self.name)
        return [order for order in orders if not why[order]]

    def _lead(self, tx: Connection, retried: Sequence[int]) -> None:
        """Children follow a task that is retried. One that has ended, or is about to, is refined
        anew, which waits for the parent where it did before, and looks at all its inputs again; a
        paused one on resume."""
        anew = family.follow_retry(tx, retried, self.name) if retried else {}
        if anew:
            self._look_again(tx, list(anew), "parent_retried")
            commands.begin_attempt(tx, list(anew))
            reason = "The task it follows was retried."
            moves = [Move(i, None, "registered", "parent_retried", reason) for i in anew]
            tasks.move_tasks(tx, moves, self.name)
            reason += " It stays paused."
            paused = [i for i, status in anew.items() if status == "paused"]
            moves = [Move(i, None, "paused", "parent_retried", reason) for i in paused]
            tasks.move_tasks(tx, moves, self.name)

    def _look_again(self, tx: Connection, ids: Sequence[int], code: str) -> None:
        """Give failed files new attempts, and look at all inputs again."""
        scouting.release(tx, ids)
        commands.revive(tx, ids, int(self.world.knobs.attempts.retry_adds))
        reopened = [
            (d.dataset_id, status)
            for d in ending.DATASETS.rows(tx, ids=ids)
            if (status := reopen(d.type, d.status))
        ]
        dataset_rows.move_datasets(tx, reopened, self.name, code)

    def _incexec(self, tx: Connection, orders: Sequence[CommandedTask]) -> list[int]:
        """Let tasks go on with changed parameters and new files. The tasks whose children
        follow."""
        if not orders:
            return []
        ids = [order.jedi_task_id for order in orders]
        self._look_again(tx, ids, "incexec")
        options = self._arguments(tx, orders)
        incremental.merge_parameters(tx, {i: options[i].get("parameters", {}) for i in ids})
        commands.begin_attempt(tx, ids)
        moves = [
            Move(
                *order.held,
                "rerefine",
                "parameters_merged",
                f"Attempt {order.attempt_nr + 1} begins.",
            )
            for order in orders
        ]
        tasks.move_tasks(tx, moves, self.name)
        return ids


def _retried(order: CommandedTask, target: str | None) -> Move:
    if target is None:
        reason = "No input failed and none is left: there is nothing to retry."
        return Move(*order.held, order.old_status, "nothing_to_retry", reason)
    return Move(*order.held, target, "retried", f"Attempt {order.attempt_nr + 1} begins.")
