"""The checkpoints of an order at work: taken before each call that may change the workspace, closed after it."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock

from drone.agent.toolset import Call
from drone.agent.turn import Turn
from drone.checkpoints.ledger import Summary, summary
from drone.checkpoints.scan import Look, Scan
from drone.checkpoints.store import CheckpointStore, Move, StoreBroken
from drone.checkpoints.tree import Node, at, differences, parents
from drone.sandbox.host_lock import workspace_key
from drone.sandbox.paths import Workspace
from drone.sandbox.workspace_writer import WorkspaceWriter
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStep, WorkspaceCheckpointed

CHECKPOINT = "checkpoint"
"""The step that says what a checkpoint does not hold."""


@dataclass(frozen=True, slots=True)
class Begun:
    """`move` of a call as it is in the store; `whole`: all of the workspace was looked at, and what `look` found."""

    move: Move
    whole: bool
    look: Look


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """What a checkpoint holds of single paths."""

    store: CheckpointStore
    root: bytes

    def node(self, path: str) -> Node | None:
        return at(self.store.tree, self.root, os.fsencode(path))

    def content(self, node: Node, most: int) -> bytes | None:
        """None where it has more than `most` bytes, or is not kept."""
        return self.store.content(node.digest, most)


class OrderCheckpoints:
    """One order in one workspace; the stores of all workspaces are in `directory`. Methods block; for many threads."""

    def __init__(self, workspace: Workspace, directory: Path, order_id: str) -> None:
        self.workspace = workspace
        self.order_id = order_id
        self.directory = directory
        self._running: set[str] = set()
        self._last: bytes | None = None
        self._one_at_a_time = Lock()
        self.writing = asyncio.Lock()
        """Held by a tool from before it looks at files until it has changed them."""

    @cached_property
    def path(self) -> Path:
        """The file of the workspace's store. Raises OSError."""
        return store_of(self.directory, self.workspace)

    def of(self, call: Call, turn: Turn, stop: Event) -> "Checkpoints":
        """As this call takes them."""
        return Checkpoints(self, call, turn, stop)

    def begin(self, call_id: str, paths: Sequence[bytes] | None, stop: Event) -> Begun:
        """Keep what the call may change: `paths`, None = anything. The same for a call that had begun already.

        Raises `StoreBroken`, OSError, `Stopped`.
        """
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            moves = store.moves(self.order_id)
            self._running.add(call_id)
            # A call may make the directories of what it writes.
            wanted = None if paths is None else tuple(dict.fromkeys((*paths, *sorted(parents(paths)))))
            if (known := _of(moves, call_id)) is not None:
                return Begun(known, known.paths is None or known == moves[0], Look())
            scan = Scan(self.workspace, store, stop)
            self._close_lost(moves, store, scan)
            base = self._base(store.moves(self.order_id))
            whole = wanted is None or base is None
            root = scan.whole() if wanted is None or base is None else scan.only(base, wanted)
            store.begin(Move(0, fresh_id(), self.order_id, call_id, root, None, None, wanted, None))
            self._last = root
            begun = _of(store.moves(self.order_id), call_id)
            assert begun is not None
            return Begun(begun, whole, scan.look)

    def close(self, call_id: str, stop: Event) -> list[bytes]:
        """The call is over: keep what it left; the paths that it changed. Empty for a call that never began.

        Raises `StoreBroken`, OSError, `Stopped`.
        """
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            move = _of(store.moves(self.order_id), call_id)
            if move is None:
                return []
            scan = Scan(self.workspace, store, stop)
            after = scan.whole() if move.paths is None else scan.only(move.before, move.paths)
            store.close_call(move.id, after)
            self._running.discard(call_id)
            self._last = after if move.paths is None else self._last
            return [one.path for one in differences(store.tree, move.before, after)]

    def _close_lost(self, moves: Sequence[Move], store: CheckpointStore, scan: Scan) -> None:
        """Calls that were cut off may have done anything that they were allowed to."""
        for move in moves:
            if move.after is None and move.call_id not in self._running:
                for above in {path.rpartition(b"/")[0] for path in move.paths or ()}:
                    WorkspaceWriter(self.workspace).sweep(os.fsdecode(above))
                after = scan.whole() if move.paths is None else scan.only(move.before, move.paths)
                store.close_call(move.id, after)

    def known(self) -> list[Move]:
        """The calls of the order that began here; the workspace stays unmarked. Raises `StoreBroken`, OSError."""
        path = store_of(self.directory, self.workspace, mark=False)
        if not path.exists():
            return []
        with CheckpointStore.opened(path) as store:
            return store.moves(self.order_id)

    def begun(self, call_id: str) -> bool:
        """Whether the call had begun here before. Raises `StoreBroken`, OSError."""
        return _of(self.known(), call_id) is not None

    def summary(self, stop: Event) -> Summary | None:
        """What the order changed, None for nothing; its calls are over. Raises `StoreBroken`, OSError, `Stopped`."""
        if not self.known():
            return None
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            self._running.clear()
            self._close_lost(store.moves(self.order_id), store, Scan(self.workspace, store, stop))
            return summary(store, store.moves(self.order_id))

    @contextmanager
    def kept(self, call_id: str) -> Iterator[CheckpointView]:
        """What was kept before a call that has begun. Raises `StoreBroken`, OSError."""
        with CheckpointStore.opened(self.path) as store:
            move = _of(store.moves(self.order_id), call_id)
            if move is None:
                raise StoreBroken("The checkpoint of this call is missing.")
            yield CheckpointView(store, move.before)

    def told(self, checkpoint_id: str, seq: int) -> None:
        """The journal entry of a checkpoint. Raises `StoreBroken`."""
        with self._one_at_a_time, CheckpointStore.opened(self.path) as store, store.changing():
            store.tell(checkpoint_id, seq)

    def _base(self, moves: Sequence[Move]) -> bytes | None:
        """A tree in which all is as it was, as far as this order knows, but for what is looked at anew."""
        if self._last is not None or not moves:
            return self._last
        return moves[-1].after or moves[-1].before


def store_of(directory: Path, workspace: Workspace, *, mark: bool = True) -> Path:
    """The file of a workspace's checkpoints; `mark` False: it is not marked on the way. Blocks. Raises OSError."""
    return directory / f"{workspace_key(workspace, mark=mark).text}.db"


def _of(moves: Iterable[Move], call_id: str) -> Move | None:
    return next((move for move in moves if move.call_id == call_id), None)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of an order, as one tool call takes them."""

    order: OrderCheckpoints
    call: Call
    turn: Turn
    stop: Event

    async def before(self, call_id: str, paths: Sequence[bytes] | None = None) -> str | None:
        """Keep what this call may change, before it does: `paths` of it, None = anything in the workspace.

        Answers the id of the checkpoint, the same each time it is asked for this call. Raises `StoreBroken`, OSError.
        """
        begun = await self.turn.threads.tool(self.order.begin, call_id, paths, self.stop)
        if begun.whole and begun.move.seq is None:
            await self._tell(begun.move, begun.look)
        return begun.move.id

    async def begun(self) -> bool:
        """Whether the call had begun on this host before it was cut off. Raises `StoreBroken`, OSError."""
        return await self.turn.threads.tool(self.order.begun, self.call.call_id)

    async def changed(self) -> tuple[str, ...]:
        """The paths that were changed since `before` of this call, which is over then; nothing where it never was.

        Raises `StoreBroken`, OSError.
        """
        found = await self.turn.threads.tool(self.order.close, self.call.call_id, self.stop)
        return tuple(map(os.fsdecode, found))

    async def _tell(self, move: Move, look: Look) -> None:
        skipped = sum(look.left_out.values())
        facts = [AgentStep(name=CHECKPOINT, message=look.told)] if skipped else []
        taken = WorkspaceCheckpointed(
            checkpoint_id=move.id, call_id=move.call_id, files=look.files, bytes=look.size, skipped=skipped
        )
        seq = await self.turn.journal.write(self.call.origin, *facts, taken)
        await self.turn.threads.tool(self.order.told, move.id, seq)
