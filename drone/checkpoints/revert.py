"""Orders of kind revert: no model, alone in the workspace, and a checkpoint of their own before any change."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event

from drone.agent.ports.artifacts import NOT_RECORDED
from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Turn
from drone.checkpoints.git_states import unsafe_targets
from drone.checkpoints.recording import CallCheckpoints, OrderCheckpoints
from drone.checkpoints.restore import RestorePlan, plan_restore, restore
from drone.checkpoints.scan import ScanStopped, unwatched
from drone.checkpoints.store import Checkpoint, CheckpointStore, StoreBroken
from drone.checkpoints.summary import path_changes
from drone.checkpoints.tree import SHUT, Trees, at, cached, shut_directories
from drone.sandbox.places.paths import PathError, shown
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.order import OrderOrigin, OrderOutcome, WorkOrder
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.status import FailureReason, OrderStatus

REVERT = "revert"
_NAMED = 20
_UNSAFE = "with it, git would take a directory for a repository whose configuration or hooks were none before"


@dataclass(frozen=True, slots=True)
class RevertResult:
    """What a revert did: its `plan`, and sentences about what makes it a `partial` one."""

    plan: RestorePlan
    partial: tuple[str, ...] = ()


class CannotRevert(Exception):
    """The revert did nothing; the message says why. `paths`: those that somebody else changed, or that were not
    kept."""

    def __init__(self, sentence: str, paths: Sequence[bytes] = ()) -> None:
        super().__init__(sentence)
        self.paths = tuple(map(os.fsdecode, paths))


@dataclass(frozen=True, slots=True)
class Revert:
    """Reverts another order. `finished`: its calls that were over at the entry to revert to, whose changes stay."""

    order: WorkOrder
    origin: OrderOrigin
    checkpoints: OrderCheckpoints
    turn: Turn
    finished: Collection[str]

    @property
    def _who(self) -> Origin:
        return Origin(record_id=root_record_id(self.order.id), agent=REVERT)

    async def run(self) -> OrderOutcome:
        """Run the order to its outcome; after a kill, running it again continues. Raises `JournalError`."""
        await self._begin()
        try:
            done = await self._revert()
        except CannotRevert as problem:
            return await self._failed(str(problem), FailureReason.INVALID, problem.paths)
        except (StoreBroken, PathError, OSError, ScanStopped) as problem:
            detail = (
                f"Not all could be brought back: {problem} What was there before is kept: revert order {self.order.id}."
            )
            return await self._failed(detail, FailureReason.INTERNAL)
        partial = " ".join(done.partial)
        sentence = f"Partial: {self._in_words(done.plan)} {partial}" if partial else self._in_words(done.plan)
        restored = sorted(map(os.fsdecode, done.plan.targets))
        result = {"order_id": self.origin.order_id, "restored": restored, "partial": bool(partial)}
        await self._end(RecordStatus.COMPLETED, sentence, None)
        return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=sentence, result=result)

    async def _revert(self) -> "RevertResult":
        """Raises `CannotRevert`, `StoreBroken`, `PathError`, OSError, `ScanStopped`, `JournalError`."""
        threads, stop = self.turn.threads, Event()
        source = await threads.claim(self._source)
        if source:
            self.checkpoints.follow(source[-1].after or source[-1].before)
        call_id = self.order.id
        call = StartedCall(call_id, REVERT, {}, self._who, self.turn)
        taken = CallCheckpoints(self.checkpoints, call, self.turn, stop)
        await taken.before(call_id)
        # Those of calls that were cut off have an end only now.
        source = await threads.claim(self._source)
        # Right before the effect: scanning may have taken longer than the lease lasts.
        await self.turn.journal.confirm_held()
        done = await threads.claim(self._restore, source, call_id)
        try:
            await taken.changed()
        except (StoreBroken, OSError, ScanStopped) as problem:
            # What had to be done is done: the workspace could only not be looked at once more.
            said = f"The state that it left was {NOT_RECORDED}: {problem}"
            return replace(done, partial=(*done.partial, said))
        await threads.claim(self._check, done.plan)
        return done

    def _source(self) -> list[Checkpoint]:
        """The checkpoints to revert. Blocks. Raises `CannotRevert`."""
        of = self.origin.order_id
        taken = OrderCheckpoints(self.checkpoints.workspace, self.checkpoints.directory, of).known()
        if not taken:
            raise CannotRevert(
                f"There is no checkpoint of order {of} on this host ({os.uname().nodename}): it changed nothing, or "
                "what it changed was kept on another host, or is not kept any more."
            )
        return [checkpoint for checkpoint in taken if checkpoint.call_id not in self.finished]

    def _restore(self, source: Sequence[Checkpoint], call_id: str) -> "RevertResult":
        """Plan and restore; answers what was done. Blocks. Raises `CannotRevert` where somebody else changed a path."""
        with CheckpointStore.opened(self.checkpoints.path) as store:
            latest = next(
                checkpoint for checkpoint in store.checkpoints(self.order.id) if checkpoint.call_id == call_id
            )
            wanted = path_changes(store.tree, source)
            plan = plan_restore(store.tree, wanted, latest.before, overwrite=self.origin.overwrite)
            states = [checkpoint.before for checkpoint in source if checkpoint.paths is None]
            plan = plan.without(unsafe_targets(store.tree, plan.targets, latest.before, states))
            if not self.origin.overwrite and (plan.others or plan.lost or plan.unsafe):
                raise CannotRevert(_refusal(plan), (*plan.others, *plan.lost, *plan.unsafe))
            restore(self.checkpoints.workspace, store, plan.targets)
            shut = _shut(store.tree, source)
            sentence = unwatched(len(shut), [shown(os.fsdecode(path)) for path in shut[:_NAMED]])
            return RevertResult(plan, tuple(filter(None, (sentence, _not_brought_back(plan)))))

    def _check(self, done: RestorePlan) -> None:
        """Raises `PathError` where a path is not in the wanted state afterwards. Blocks."""
        with CheckpointStore.opened(self.checkpoints.path) as store:
            own = store.checkpoints(self.order.id)[-1]
            wrong = next(_wrong(store.tree, own.after or own.before, done), None)
        if wrong is not None:
            raise PathError(f"{shown(os.fsdecode(wrong))} was changed by somebody else meanwhile.")

    def _in_words(self, done: RestorePlan) -> str:
        to = f"after its entry {self.origin.after}" if self.origin.after is not None else "before its first write"
        files = [path for path, node in done.targets.items() if node is None or node.kind != "directory"]
        many = f"{len(files):,} file{'' if len(files) == 1 else 's'}"
        text = f"{many} of order {self.origin.order_id} {'is' if len(files) == 1 else 'are'} as {to}."
        something = files or done.lost or done.unsafe
        return text if something else f"Nothing had to be brought back: all is as {to} of order {self.origin.order_id}."

    async def _begin(self) -> None:
        if self.turn.tree.begun(self._who.record_id) is not None:
            return
        setup = {"system": "", "tools": (), "model": {}, "definition": {"name": REVERT}, "session": ()}
        started = AgentStarted(
            title=f"Revert {self.origin.order_id}",
            prompt=f"Take back what order {self.origin.order_id} changed.",
            model=None,
            tools=(),
            definition_digest="",
            setup_digest=await self.turn.journal.keep(to_json(setup).decode()),
        )
        await self.turn.journal.write(self._who, started)

    async def _end(self, status: AgentEnd, answer: str | None, error: str | None) -> None:
        record = self.turn.tree.begun(self._who.record_id)
        if record is not None and record.finished is None:
            await self.turn.journal.write(self._who, AgentFinished(status=status, answer=answer, error=error))

    async def _failed(self, detail: str, reason: FailureReason, paths: Sequence[str] = ()) -> OrderOutcome:
        await self._end(RecordStatus.FAILED, None, detail)
        result = {"order_id": self.origin.order_id, "changed": list(paths)} if paths else None
        return OrderOutcome(status=OrderStatus.FAILED, reason=reason, detail=detail, result=result)


def _shut(trees: Trees, source: Sequence[Checkpoint]) -> list[bytes]:
    """The directories of the workspace that no checkpoint of these looked into."""
    roots = {root for one in source if one.paths is None for root in (one.before, one.after) if root is not None}
    return sorted({path for root in roots for path in shut_directories(cached(trees), root)})


def _not_brought_back(done: RestorePlan) -> str:
    lost = f"{_listed(done.lost)} could not be brought back: the content was not kept." if done.lost else ""
    unsafe = f"{_listed(done.unsafe)} was left as it is: {_UNSAFE}." if done.unsafe else ""
    return " ".join(filter(None, (lost, unsafe)))


def _wrong(trees: Trees, left: bytes, done: RestorePlan) -> Iterator[bytes]:
    """The paths that differ from the plan in the tree that the revert left. A directory that should be gone may remain,
    as it may hold files of somebody else."""
    trees = cached(trees)
    for path, node in done.targets.items():
        present = at(trees, left, path)
        remains = present is not None and present.kind != "directory" and present.digest != SHUT
        if remains if node is None else not node.is_like(present):
            yield path


def _refusal(found: RestorePlan) -> str:
    reasons = []
    if found.others:
        reasons.append(f"changed since by somebody else: {_listed(found.others)}")
    if found.lost:
        reasons.append(f"not kept, and so lost: {_listed(found.lost)}")
    if found.unsafe:
        reasons.append(f"{_UNSAFE}: {_listed(found.unsafe)}")
    over = "these are brought back as well"
    if found.lost or found.unsafe:
        over = "all else is brought back"
    return f"Nothing was done; {'; '.join(reasons)}. With --overwrite {over}."


def _listed(paths: Sequence[bytes]) -> str:
    named = ", ".join(shown(os.fsdecode(path)) for path in paths[:_NAMED])
    return f"{named} and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else named
