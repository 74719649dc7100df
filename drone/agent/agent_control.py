"""What people asked of a running agent and all below it, its unread mail; whether a whole tree waits for somebody."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from drone.agent.journal import JournalError
from drone.agent.record import Restraints
from drone.agent.report import Ended
from mcc.contracts.control import Control, SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.journal import ControlApplied
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.definitions.rights import expanded

LONGEST_WAIT = timedelta(hours=24)
"""An order that does not say when it expires is not laid aside for longer."""

TOLD = 3
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


@dataclass(frozen=True, slots=True)
class Mail:
    """A message. `control_id` names the request that brought it, `tools_removed` what was taken away with it."""

    text: str
    control_id: str
    mode: SteerMode = SteerMode.INJECT
    reason: str | None = None
    tools_removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, control: Control) -> "Mail":
        """What a steer says; it must have a message."""
        assert control.message is not None
        return cls(control.message, control.id, control.mode or SteerMode.INJECT, control.reason, control.remove_tools)

    @property
    def redirects(self) -> bool:
        """Whether the text is the agent's task from now on."""
        return self.mode is SteerMode.REDIRECT

    def read(self) -> ControlApplied:
        """The entry that tells of its reading."""
        return ControlApplied(
            control_id=self.control_id,
            control="steer",
            mode=self.mode.value,
            message=self.text,
            reason=self.reason,
            tools_removed=self.tools_removed,
        )


class Mailbox:
    """Mail in the order of its arrival. Use on one event loop only."""

    def __init__(self) -> None:
        self._waiting: list[Mail] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, mail: Mail) -> None:
        self._waiting.append(mail)

    def take(self) -> tuple[Mail, ...]:
        """All that waits; it waits no more."""
        waiting, self._waiting = self._waiting, []
        return tuple(waiting)


class AgentControl:
    """A pause, tools taken away and an end hold for every agent below as well, those hired later included.

    Use on one event loop only.
    """

    def __init__(
        self, origin: Origin, above: "AgentControl | None" = None, restraints: Restraints | None = None
    ) -> None:
        """`restraints`: those that the journal tells of; with each change of them, `changed` must follow."""
        self.origin = origin
        self._restraints = restraints or Restraints()
        self.mail = Mailbox()
        self._above = above
        self._removed: set[str] = set()
        self._changed = asyncio.Event()
        self._put_off: set[asyncio.Event] = set()
        self._ended: str | None = None
        self._scope: asyncio.Timeout | None = None

    def _upwards(self) -> "Iterator[AgentControl]":
        agent_control: AgentControl | None = self
        while agent_control is not None:
            yield agent_control
            agent_control = agent_control._above

    @property
    def held(self) -> bool:
        """Whether this very agent is paused."""
        return self._restraints.paused

    @property
    def paused(self) -> bool:
        """Whether this agent or one above it is paused."""
        return any(agent_control.held for agent_control in self._upwards())

    def block(self) -> Block | None:
        """What a paused agent waits for; None when neither it nor one above it is paused."""
        held = next((agent_control for agent_control in self._upwards() if agent_control.held), None)
        if held is None:
            return None
        whole = held.origin.parent_id is None
        what = "the order" if whole else f"{held.origin.agent} (record {held.origin.record_id})"
        return Block(WaitingReason.PAUSED, f"{what} is paused until someone resumes it")

    def changed(self) -> None:
        """Whoever waits looks at the restraints again."""
        waited_for, self._changed = self._changed, asyncio.Event()
        waited_for.set()

    def resume(self) -> None:
        """The pause is over, and so is every wait for a provider here and below."""
        self.changed()
        for again in self._put_off:
            again.set()

    async def passes(self) -> None:
        """Wait until neither this agent nor one above it is paused. Raises `Ended`."""
        self.check()
        while held := next((agent_control for agent_control in self._upwards() if agent_control.held), None):
            await held._changed.wait()
            self.check()

    @property
    def put_off(self) -> bool:
        """Whether this agent, or one below it, waits until its provider wants to be asked again."""
        return any(not again.is_set() for again in self._put_off)

    async def wait_out(self, seconds: float) -> None:
        """Let the provider alone for so long, or until this agent or one above it is resumed."""
        again = asyncio.Event()
        for agent_control in self._upwards():
            agent_control._put_off.add(again)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await again.wait()
        finally:
            for agent_control in self._upwards():
                agent_control._put_off.discard(again)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was set of this very agent."""
        return self._restraints.metadata

    def remove(self, tools: tuple[str, ...]) -> None:
        """Take tools (names, and groups with all that is in them) away; they never come back."""
        self._removed.update(tools)

    @property
    def removed(self) -> tuple[str, ...]:
        """What was taken from this very agent."""
        return tuple(sorted(self._taken))

    @property
    def _taken(self) -> AbstractSet[str]:
        return self._removed | self._restraints.tools_removed

    @property
    def narrowed(self) -> bool:
        return any(agent_control._taken for agent_control in self._upwards())

    def allows(self, name: str, group: str) -> bool:
        """Whether nobody took the tool of this name and group away."""
        removed = frozenset[str]().union(*(agent_control._taken for agent_control in self._upwards()))
        return not removed or (removed.isdisjoint((name, group)) and name not in expanded(removed))

    @property
    def at_work(self) -> bool:
        """Whether the agent is in its rounds, so that something can be asked of it."""
        return self._scope is not None

    @property
    def ending(self) -> bool:
        """Whether this agent or one above it was cancelled."""
        return any(agent_control._ended is not None for agent_control in self._upwards())

    def end(self, why: str) -> None:
        """Cancel the agent with everything that it waits for; the first reason counts."""
        if self._ended is None:
            self._ended = why
        # A time limit that has struck already is ending the rounds just now, and they find the reason afterwards.
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raises `Ended` when this agent or one above it was cancelled."""
        for agent_control in self._upwards():
            if agent_control._ended is not None:
                raise Ended(agent_control._ended)

    @contextmanager
    def steering(self, scope: asyncio.Timeout) -> Iterator[None]:
        """Around the agent's rounds, within the time limit by which they can be ended.

        Raises `Ended` also when they come to another end in the very moment in which the agent is cancelled.
        """
        self._scope = scope
        try:
            self.check()
            yield
            self.check()
        except JournalError:
            raise
        except Exception:
            self.check()
            raise
        finally:
            self._scope = None
