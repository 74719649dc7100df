"""The idle of a tree: every agent that has not ended waits for a person or a clock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

LONGEST_WAIT = timedelta(hours=24)
"""An order that does not say when it expires is not laid aside for longer."""

TOLD = 3
"""So many sentences are told of why a tree stands still."""

_FIRST = (
    WaitingReason.RATE_LIMIT,
    WaitingReason.PROVIDER,
    WaitingReason.PAUSED,
    WaitingReason.APPROVAL,
    WaitingReason.QUESTION,
)
"""The reason that counts where there are several: whatever ends a later one ends those before it as well."""

Watcher: TypeAlias = Callable[[bool], None]
"""Is told True when the tree begins to stand still, False when it moves again. Neither waits nor raises."""


@dataclass(frozen=True, slots=True)
class Block:
    """What is waited for: a sentence for people, without its full stop; `until` when a clock ends it."""

    reason: WaitingReason
    message: str
    until: datetime | None = None


@dataclass(slots=True)
class _Activity:
    held_by: "Callable[[], Block | None] | None"
    stills: int = 0


class IdleWatch:
    """What moves in the tree of one turn. Use on one event loop only.

    An activity is what goes on by itself: the run of an agent, called by its record's id, or a tool call, called by
    its own. It is `moving` unless it only waits: for other ones (`still`), or for a person or a clock (`blocked`). The
    tree stands still while no activity moves and one at least is blocked. `parks`: whoever runs the turn lays it aside
    then, at most until `expires_at` or for `LONGEST_WAIT`.
    """

    def __init__(self, *, parks: bool = False, expires_at: datetime | None = None) -> None:
        self.parks = parks
        self.stands = False
        """Whether the tree stands still."""
        self._expires_at = expires_at
        self._activities: dict[str, _Activity] = {}
        self._moving = 0
        self._blocks: dict[object, tuple[str, Block]] = {}
        self._watchers: list[Watcher] = []

    @property
    def blocks(self) -> Sequence[Block]:
        """What the blocked activities wait for. A paused one waits for its pause first of all."""
        return [self._block_of(activity, block) for activity, block in self._blocks.values()]

    def may_wait(self, seconds: float) -> bool:
        """Whether the turn can be laid aside for so long."""
        left = timedelta(0) if self._expires_at is None else self._expires_at - now()
        latest = left if left > timedelta(0) else LONGEST_WAIT
        return self.parks and seconds <= latest.total_seconds()

    @contextmanager
    def moving(self, activity: str, held_by: Callable[[], Block | None] | None = None) -> Iterator[None]:
        """The activity goes on by itself inside; `held_by` answers the pause of its agent, if there is one."""
        if activity in self._activities:
            yield
            return
        self._activities[activity] = _Activity(held_by)
        self._move(1)
        try:
            yield
        finally:
            if not self._activities.pop(activity).stills:
                self._move(-1)

    @contextmanager
    def still(self, activity: str | None) -> Iterator[None]:
        """The activity only waits inside, for other activities of the tree. One that is not known does not count."""
        known = self._activities.get(activity or "")
        if known is None:
            yield
            return
        known.stills += 1
        if known.stills == 1:
            self._move(-1)
        try:
            yield
        finally:
            known.stills -= 1
            if not known.stills and self._activities.get(activity or "") is known:
                self._move(1)

    @contextmanager
    def blocked(self, activity: str, block: Block) -> Iterator[None]:
        """The activity only waits inside, for a person or a clock."""
        key = object()
        self._blocks[key] = activity, block
        try:
            with self.still(activity):
                self._look()
                yield
        finally:
            del self._blocks[key]
            self._look()

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Tell `watcher` inside. Those that came first are told first."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` from here on."""
        self._watchers.append(watcher)

    def _block_of(self, activity: str, block: Block) -> Block:
        known = self._activities.get(activity)
        return (known.held_by() if known is not None and known.held_by is not None else None) or block

    def _move(self, by: int) -> None:
        self._moving += by
        self._look()

    def _look(self) -> None:
        stands = self._moving == 0 and bool(self._blocks)
        if stands is self.stands:
            return
        self.stands = stands
        for watcher in list(self._watchers):
            watcher(stands)


def together(blocks: Sequence[Block]) -> Block:
    """Why a tree waits whose activities are blocked so, of which there is one at least.

    `until` is the first moment at which something of it can go on.
    """
    by_rank = sorted(blocks, key=lambda block: _FIRST.index(block.reason) if block.reason in _FIRST else len(_FIRST))
    said = list(dict.fromkeys(block.message for block in by_rank))
    more = [f"and {len(said) - TOLD} more"] if len(said) > TOLD else []
    until = min((block.until for block in blocks if block.until is not None), default=None)
    return Block(by_rank[0].reason, "; ".join([*said[:TOLD], *more]), until)
