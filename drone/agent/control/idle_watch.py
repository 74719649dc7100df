"""Detects when a whole agent tree is idle and what for: its activities move, wait for each other, or are blocked."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

LONGEST_WAIT = timedelta(hours=24)
"""The longest time that an order without an expiry is parked."""

MAX_REASONS = 3
"""Most sentences that say why a tree is idle."""

_PRECEDENCE = (
    WaitingReason.RATE_LIMIT,
    WaitingReason.PROVIDER,
    WaitingReason.FUNCTION,
    WaitingReason.PAUSED,
    WaitingReason.WORKSPACE,
    WaitingReason.APPROVAL,
    WaitingReason.QUESTION,
)
"""Precedence among several reasons, highest first: whatever ends a later one also ends those before it."""

Watcher: TypeAlias = Callable[[bool], None]
"""Called with True when the tree becomes idle, with False when it runs again. Neither blocks nor raises."""


@dataclass(frozen=True, slots=True)
class Block:
    """What an activity waits for. `message`: a sentence for people without its full stop; `until`: when a clock ends
    the wait; `tries`: as in `OrderWaiting`."""

    reason: WaitingReason
    message: str
    until: datetime | None = None
    tries: int | None = None


@dataclass(slots=True)
class _Activity:
    pause_of: "Callable[[], Block | None] | None"
    waits: int = 0


class IdleWatch:
    """The activities in the tree of one turn. Use on one event loop only.

    An activity is the run of an agent, named by its record id, or a tool call, named by its call id. It is `moving`
    unless it only waits: for other activities (`still`), or for a person or a clock (`blocked`). The tree is idle while
    no activity is moving and at least one is blocked. `parks`: whether an idle turn is then parked, at most until
    `expires_at` or for `LONGEST_WAIT`.
    """

    def __init__(self, *, parks: bool = False, expires_at: datetime | None = None) -> None:
        self.parks = parks
        self.is_idle = False
        """Whether the tree is idle."""
        self._expires_at = expires_at
        self.activities: dict[str, _Activity] = {}
        """Used by `_Moving` and `_Waiting` only, like `move`."""
        self._moving = 0
        self._blocks: dict[object, tuple[str, Block]] = {}
        self._watchers: list[Watcher] = []

    @property
    def blocks(self) -> Sequence[Block]:
        """What the blocked activities wait for. For a paused one that is the end of its pause."""
        return [self._block_of(activity, block) for activity, block in self._blocks.values()]

    def is_blocked(self, activities: Collection[str]) -> bool:
        """Whether one of these activities waits for a person or a clock."""
        return any(activity in activities for activity, _ in self._blocks.values())

    def expires_before(self, at: datetime) -> bool:
        """Whether the order's own expiry ends a wait before `at`. An order that works beyond its expiry has none."""
        return self._expires_at is not None and now() < self._expires_at < at

    def may_wait(self, seconds: float) -> bool:
        """Whether the turn can be parked for so long."""
        left = timedelta(0) if self._expires_at is None else self._expires_at - now()
        latest = left if left > timedelta(0) else LONGEST_WAIT
        return self.parks and seconds <= latest.total_seconds()

    def moving(self, activity: str, pause_of: Callable[[], Block | None] | None = None) -> "_Moving":
        """Context in which the activity is moving; `pause_of` returns the pause of its agent, if it is paused."""
        return _Moving(self, activity, pause_of)

    def waiting(self, activity: str | None) -> "_Waiting":
        """Context in which the activity only waits for other activities of the tree. Unknown activities are ignored."""
        return _Waiting(self, activity or "")

    @contextmanager
    def blocked(self, activity: str, block: Block) -> Iterator[None]:
        """Context in which the activity only waits for a person or a clock."""
        key = object()
        self._blocks[key] = activity, block
        try:
            with self.waiting(activity):
                self._look()
                yield
        finally:
            del self._blocks[key]
            self._look()

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Context in which `watcher` is called on changes. Watchers are called in the order of registration."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` on changes from now on."""
        self._watchers.append(watcher)

    def _block_of(self, activity: str, block: Block) -> Block:
        known = self.activities.get(activity)
        return (known.pause_of() if known is not None and known.pause_of is not None else None) or block

    def move(self, by: int) -> None:
        self._moving += by
        self._look()

    def _look(self) -> None:
        idle = self._moving == 0 and bool(self._blocks)
        if idle is self.is_idle:
            return
        self.is_idle = idle
        for watcher in list(self._watchers):
            watcher(idle)


class _Moving:
    """`IdleWatch.moving`. A class instead of a generator, which would be slower: every agent and tool call uses one."""

    __slots__ = ("_activity", "_began", "_idle", "_pause_of")

    def __init__(self, idle: IdleWatch, activity: str, pause_of: Callable[[], Block | None] | None) -> None:
        self._idle = idle
        self._activity = activity
        self._pause_of = pause_of

    def __enter__(self) -> None:
        self._began = self._activity not in self._idle.activities
        if self._began:
            self._idle.activities[self._activity] = _Activity(self._pause_of)
            self._idle.move(1)

    def __exit__(self, *_: object) -> None:
        # One that still waits does not count as moving any more.
        if self._began and not self._idle.activities.pop(self._activity).waits:
            self._idle.move(-1)


class _Waiting:
    """`IdleWatch.waiting`."""

    __slots__ = ("_activity", "_idle", "_known")

    def __init__(self, idle: IdleWatch, activity: str) -> None:
        self._idle = idle
        self._activity = activity

    def __enter__(self) -> None:
        self._known = self._idle.activities.get(self._activity)
        if self._known is not None:
            self._known.waits += 1
            if self._known.waits == 1:
                self._idle.move(-1)

    def __exit__(self, *_: object) -> None:
        known = self._known
        if known is not None:
            known.waits -= 1
            # The activity may have ended within, which has counted it out.
            if not known.waits and self._idle.activities.get(self._activity) is known:
                self._idle.move(1)


def combined(blocks: Sequence[Block]) -> Block:
    """The blocks of a tree, at least one, combined into one.

    `until` is the first time at which any activity can continue.
    """
    by_rank = sorted(
        blocks, key=lambda block: _PRECEDENCE.index(block.reason) if block.reason in _PRECEDENCE else len(_PRECEDENCE)
    )
    said = list(dict.fromkeys(block.message for block in by_rank))
    more = [f"and {len(said) - MAX_REASONS} more"] if len(said) > MAX_REASONS else []
    until = min((block.until for block in blocks if block.until is not None), default=None)
    return replace(by_rank[0], message="; ".join([*said[:MAX_REASONS], *more]), until=until)
