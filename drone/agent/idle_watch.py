"""Whether a whole tree only waits, and for what: activities that move, stand still, or are blocked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

LONGEST_WAIT = timedelta(hours=24)
"""An order that does not say when it expires is not laid aside for longer."""

MAX_REASONS = 3
"""So many sentences are told of why a tree stands still."""

_FIRST = (
    WaitingReason.RATE_LIMIT,
    WaitingReason.PROVIDER,
    WaitingReason.FUNCTION,
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
        self.activities: dict[str, _Activity] = {}
        """For `_Moving` and `_Still`, as `move` is."""
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

    def moving(self, activity: str, held_by: Callable[[], Block | None] | None = None) -> "_Moving":
        """The activity goes on by itself inside; `held_by` answers the pause of its agent, if there is one."""
        return _Moving(self, activity, held_by)

    def still(self, activity: str | None) -> "_Still":
        """The activity only waits inside, for other activities of the tree. One that is not known does not count."""
        return _Still(self, activity or "")

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
        known = self.activities.get(activity)
        return (known.held_by() if known is not None and known.held_by is not None else None) or block

    def move(self, by: int) -> None:
        self._moving += by
        self._look()

    def _look(self) -> None:
        stands = self._moving == 0 and bool(self._blocks)
        if stands is self.stands:
            return
        self.stands = stands
        for watcher in list(self._watchers):
            watcher(stands)


class _Moving:
    """`IdleWatch.moving`; each tool call and each agent is in one of these, so they are no generators."""

    __slots__ = ("_activity", "_began", "_held_by", "_idle")

    def __init__(self, idle: IdleWatch, activity: str, held_by: Callable[[], Block | None] | None) -> None:
        self._idle = idle
        self._activity = activity
        self._held_by = held_by

    def __enter__(self) -> None:
        self._began = self._activity not in self._idle.activities
        if self._began:
            self._idle.activities[self._activity] = _Activity(self._held_by)
            self._idle.move(1)

    def __exit__(self, *_: object) -> None:
        if self._began and not self._idle.activities.pop(self._activity).stills:
            self._idle.move(-1)


class _Still:
    """`IdleWatch.still`."""

    __slots__ = ("_activity", "_idle", "_known")

    def __init__(self, idle: IdleWatch, activity: str) -> None:
        self._idle = idle
        self._activity = activity

    def __enter__(self) -> None:
        self._known = self._idle.activities.get(self._activity)
        if self._known is not None:
            self._known.stills += 1
            if self._known.stills == 1:
                self._idle.move(-1)

    def __exit__(self, *_: object) -> None:
        known = self._known
        if known is not None:
            known.stills -= 1
            if not known.stills and self._idle.activities.get(self._activity) is known:
                self._idle.move(1)


def together(blocks: Sequence[Block]) -> Block:
    """Why a tree waits whose activities are blocked so, of which there is one at least.

    `until` is the first moment at which something of it can go on.
    """
    by_rank = sorted(blocks, key=lambda block: _FIRST.index(block.reason) if block.reason in _FIRST else len(_FIRST))
    said = list(dict.fromkeys(block.message for block in by_rank))
    more = [f"and {len(said) - MAX_REASONS} more"] if len(said) > MAX_REASONS else []
    until = min((block.until for block in blocks if block.until is not None), default=None)
    return Block(by_rank[0].reason, "; ".join([*said[:MAX_REASONS], *more]), until)
