"""Recording checkpoints: one is taken before each call that may change the workspace, and closed after the call."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock

from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Turn
from drone.checkpoints.scan import MOST_NAMES, Scan, ScanReport
from drone.checkpoints.store import Checkpoint, CheckpointStore, StoreBroken
from drone.checkpoints.summary import Summary, summary
from drone.checkpoints.tree import EMPTY, TreeEntry, at, differences, parents
from drone.checkpoints.unfinished import UnfinishedWorkspaces
from drone.sandbox.places.paths import PathError, Workspace
from drone.sandbox.places.workspace_key import workspace_key
from drone.sandbox.places.workspace_writer import WorkspaceWriter
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStep, WorkspaceCheckpointed

CHECKPOINT = "checkpoint"
"""The name of the journal step that says which files a checkpoint left out."""


@dataclass(frozen=True, slots=True)
class BegunCheckpoint:
    """The `checkpoint` of a call as the store has it. `whole`: the whole workspace was scanned, with this `report`."""

    checkpoint: Checkpoint
    whole: bool
    report: ScanReport


@dataclass(frozen=True, slots=True)
class CallChanges:
    """What a call changed: `paths`, and those of them `not_kept`, whose former content is lost. `unwatched`: a sentence
    about directories whose changes are not among them."""

    paths: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()
    unwatched: str = ""


NOTHING_CHANGED = CallChanges()


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """Read access to the paths that a checkpoint holds."""

    store: CheckpointStore
    root: bytes

    def node(self, path: str) -> TreeEntry | None:
        return at(self.store.tree, self.root, os.fsencode(path))

    def content(self, node: TreeEntry, most: int) -> bytes | None:
        """The content of a node; None where it has more than `most` bytes, or is not kept."""
        return self.store.content(node.digest, most)


class OrderCheckpoints:
    """The checkpoints of one order in one workspace; `directory` holds the stores of all workspaces. Methods block.
    Safe for many threads."""

    def __init__(self, workspace: Workspace, directory: Path, order_id: str, *, most_names: int = MOST_NAMES) -> None:
        self.workspace = workspace
        self._most_names = most_names
        self.order_id = order_id
        self.directory = directory
        self._running: set[str] = set()
        self._writes = False
        self._last: bytes | None = None
        self._one_at_a_time = Lock()
        self.writing = asyncio.Lock()
        """Held by a tool from its first look at the files until it has changed them."""

    @cached_property
    def path(self) -> Path:
        """The file of the workspace's store. Raises OSError."""
        return store_of(self.directory, self.workspace)

    def follow(self, tree: bytes) -> None:
        """Watch the paths that this tree of another order watches."""
        self._last = self._last or tree

    def of(self, call: StartedCall, turn: Turn, stop: Event) -> "CallCheckpoints":
        """The checkpoints for one tool call; `stop` ends a scan."""
        return CallCheckpoints(self, call, turn, stop)

    def begin(self, call_id: str, paths: Sequence[bytes] | None, stop: Event) -> BegunCheckpoint:
        """Take a checkpoint of the paths that the call may change, None = anything; for a call that began before,
        answer its first checkpoint. Raises `StoreBroken`, OSError, `ScanStopped`.

        The first one also closes those of other orders' calls that were cut off, here and in workspaces above and
        below: whatever differs there was left by these calls, since nobody else writes there meanwhile."""
        with self._one_at_a_time:
            if not self._writes:
                self._close_lost_of_others(stop)
                self._writes = True
            return self._begin(call_id, paths, stop)

    def _begin(self, call_id: str, paths: Sequence[bytes] | None, stop: Event) -> BegunCheckpoint:
        with CheckpointStore.opened(self.path) as store, store.changing():
            checkpoints = store.checkpoints(self.order_id)
            # A checkpoint without an end counts as one of a call that was cut off, unless its call is among these.
            self._running.add(call_id)
            # The directories above count too: a call may create them for the files that it writes.
            wanted = None if paths is None else tuple(dict.fromkeys((*paths, *sorted(parents(paths)))))
            if (known := _of(checkpoints, call_id)) is not None:
                return BegunCheckpoint(known, known.paths is None or known == checkpoints[0], ScanReport())
            scan = self._scan(store, stop)
            self._close_lost(checkpoints, store, scan)
            base = self._base(store.checkpoints(self.order_id))
            everything = wanted is None or base is None
            root = scan.whole(base or EMPTY) if wanted is None or base is None else scan.only(base, wanted)
            store.begin(Checkpoint(0, fresh_id(), self.order_id, call_id, root, None, None, wanted, None))
            self._last = root
            begun = _of(store.checkpoints(self.order_id), call_id)
            assert begun is not None
            return BegunCheckpoint(begun, everything, scan.report)

    def close(self, call_id: str, stop: Event) -> CallChanges:
        """Close the checkpoint of a call that is over, and answer what the call changed; nothing for a call that never
        began. Raises `StoreBroken`, OSError, `ScanStopped`."""
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            checkpoint = _of(store.checkpoints(self.order_id), call_id)
            if checkpoint is None:
                return NOTHING_CHANGED
            scan = self._scan(store, stop)
            after = _after(checkpoint, scan)
            store.close_call(checkpoint.id, after)
            self._running.discard(call_id)
            # A tree in which only these paths are new lacks what other calls have changed meanwhile.
            self._last = after if checkpoint.paths is None else self._last
            changed = list(differences(store.tree, checkpoint.before, after))
            lost = (each.path for each in changed if each.before is not None and each.before.kind == "left_out")
            paths = tuple(os.fsdecode(each.path) for each in changed)
            return CallChanges(paths, tuple(map(os.fsdecode, lost)), scan.report.unwatched)

    def _scan(self, store: CheckpointStore, stop: Event) -> Scan:
        return Scan(self.workspace, store, stop, self._most_names)

    def _close_lost(self, checkpoints: Sequence[Checkpoint], store: CheckpointStore, scan: Scan) -> None:
        """Close the checkpoints of calls that were cut off, with whatever those calls left behind."""
        lost = [one for one in checkpoints if one.after is None and one.call_id not in self._running]
        _close(lost, self.workspace, store, scan)

    def _close_lost_of_others(self, stop: Event) -> None:
        unfinished = UnfinishedWorkspaces(self.directory)
        for key, root in unfinished.around(self.workspace.root):
            # Of one that cannot be opened any more nothing can be brought back either.
            with suppress(PathError):
                self._close_others(Workspace(root, private=self.workspace.private), f"{key}.db", stop)
            unfinished.forget(key)
        unfinished.note(self.path.stem, self.workspace.root)
        self._close_others(self.workspace, self.path.name, stop)

    def _close_others(self, workspace: Workspace, store_name: str, stop: Event) -> None:
        """Close what other orders' calls have left open in a workspace."""
        with CheckpointStore.opened(self.directory / store_name) as store, store.changing():
            if lost := [checkpoint for checkpoint in store.unfinished() if checkpoint.order_id != self.order_id]:
                _close(lost, workspace, store, Scan(workspace, store, stop, self._most_names))

    def known(self) -> list[Checkpoint]:
        """The checkpoints of the order on this host. Does not write the workspace's marker. Raises `StoreBroken`,
        OSError."""
        path = store_of(self.directory, self.workspace, mark=False)
        if not path.exists():
            return []
        with CheckpointStore.opened(path) as store:
            return store.checkpoints(self.order_id)

    def begun(self, call_id: str) -> bool:
        """Whether this call has a checkpoint on this host. Raises `StoreBroken`, OSError."""
        return _of(self.known(), call_id) is not None

    def summary(self, stop: Event) -> Summary | None:
        """The changes of the order, None for none; its calls must be over.

        Raises `StoreBroken`, OSError, `ScanStopped`."""
        if not self.known():
            return None
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            self._running.clear()
            self._close_lost(store.checkpoints(self.order_id), store, self._scan(store, stop))
            if not store.unfinished():
                UnfinishedWorkspaces(self.directory).forget(self.path.stem)
            return summary(store, store.checkpoints(self.order_id))

    @contextmanager
    def view(self, call_id: str) -> Iterator[CheckpointView]:
        """A view of the checkpoint of a call that has begun. Raises `StoreBroken`, OSError."""
        with CheckpointStore.opened(self.path) as store:
            checkpoint = _of(store.checkpoints(self.order_id), call_id)
            if checkpoint is None:
                raise StoreBroken("The checkpoint of this call is missing.")
            yield CheckpointView(store, checkpoint.before)

    def note_entry(self, checkpoint_id: str, seq: int) -> None:
        """Record the number of the journal entry that tells of a checkpoint. Raises `StoreBroken`."""
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            store.note_entry(checkpoint_id, seq)

    def _base(self, checkpoints: Sequence[Checkpoint]) -> bytes | None:
        """The latest tree of the workspace that this order knows; a new checkpoint updates the scanned paths in it."""
        if self._last is not None or not checkpoints:
            return self._last
        return checkpoints[-1].after or checkpoints[-1].before


def store_of(directory: Path, workspace: Workspace, *, mark: bool = True) -> Path:
    """The store file of a workspace; `mark`: write the workspace's marker if it has none. Blocks. Raises OSError."""
    return directory / f"{workspace_key(workspace, mark=mark).text}.db"


def _after(checkpoint: Checkpoint, scan: Scan) -> bytes:
    """The tree after the call of this checkpoint."""
    return scan.whole(checkpoint.before) if checkpoint.paths is None else scan.only(checkpoint.before, checkpoint.paths)


def _of(checkpoints: Iterable[Checkpoint], call_id: str) -> Checkpoint | None:
    return next((checkpoint for checkpoint in checkpoints if checkpoint.call_id == call_id), None)


def _close(lost: Iterable[Checkpoint], workspace: Workspace, store: CheckpointStore, scan: Scan) -> None:
    for checkpoint in lost:
        for above in {path.rpartition(b"/")[0] for path in checkpoint.paths or ()}:
            WorkspaceWriter(workspace).sweep(os.fsdecode(above))
        store.close_call(checkpoint.id, _after(checkpoint, scan))


@dataclass(frozen=True, slots=True)
class CallCheckpoints:
    """The checkpoints of an order, for one tool call."""

    order: OrderCheckpoints
    call: StartedCall
    turn: Turn
    stop: Event

    async def before(self, call_id: str, paths: Sequence[bytes] | None = None) -> str | None:
        """Take a checkpoint before this call changes `paths`, None = anything in the workspace.

        Answers the id of the checkpoint, the same each time for one call. Raises `StoreBroken`, OSError.
        """
        begun = await self.turn.threads.tool(self.order.begin, call_id, paths, self.stop)
        if begun.whole and begun.checkpoint.seq is None:
            await self._write_journal(begun.checkpoint, begun.report)
        return begun.checkpoint.id

    async def begun(self) -> bool:
        """Whether the call began on this host before it was cut off. Raises `StoreBroken`, OSError."""
        return await self.turn.threads.tool(self.order.begun, self.call.call_id)

    async def changed(self) -> CallChanges:
        """Close the checkpoint of this call, and answer what was changed since `before`; nothing where `before` was not
        called. Raises `StoreBroken`, OSError."""
        return await self.turn.threads.tool(self.order.close, self.call.call_id, self.stop)

    async def _write_journal(self, checkpoint: Checkpoint, report: ScanReport) -> None:
        skipped = sum(report.left_out.values())
        facts = [AgentStep(name=CHECKPOINT, message=report.sentence)] if skipped else []
        taken = WorkspaceCheckpointed(
            checkpoint_id=checkpoint.id,
            call_id=checkpoint.call_id,
            files=report.files,
            bytes=report.size,
            skipped=skipped,
        )
        seq = await self.turn.journal.write(self.call.origin, *facts, taken)
        await self.turn.threads.tool(self.order.note_entry, checkpoint.id, seq)
