"""The controls in effect for a running agent and its descendants: pause, removed tools, cancellation, unread mail."""

import asyncio
from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drone.agent.control.idle_watch import Block
from drone.agent.ports.journal import JournalError
from drone.agent.ports.report import RunEnded
from drone.agent.state.restraints import Restraints
from mcc.contracts.control import Control, SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.journal import ControlApplied
from mcc.contracts.status import WaitingReason
from mcc.definitions.rights import expanded

MOST_CHARACTERS = 50_000
"""How many characters of mail an agent reads at most before one request; the rest comes with the next one."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A message to an agent, from a person or (`by`) from the agent above it. `control_id`, `number`: the control that
    carries it, requested `at` this time, or just the call; `tools_removed`: tools that the same control removes."""

    text: str
    control_id: str
    number: int = 0
    at: datetime | None = None
    mode: SteerMode = SteerMode.INJECT
    reason: str | None = None
    tools_removed: tuple[str, ...] = ()
    by: str | None = None
    door: str | None = None

    @classmethod
    def of(cls, control: Control) -> "Mail":
        """The mail of a steer control, which must have a message."""
        assert control.message is not None
        mode, at = control.mode or SteerMode.INJECT, control.requested_at
        return cls(
            control.message,
            control.id,
            control.number,
            at,
            mode,
            control.reason,
            control.remove_tools,
            control.principal,
            control.door,
        )

    def entry(self) -> ControlApplied:
        """The journal entry that records its delivery to the agent."""
        return ControlApplied(
            control_id=self.control_id,
            control="steer",
            mode=self.mode.value,
            message=self.text,
            reason=self.reason,
            tools_removed=self.tools_removed,
            by=self.by,
            door=self.door,
            at=self.at,
        )


class Mailbox:
    """Unread mail by its number. Use on one event loop only."""

    def __init__(self) -> None:
        self._waiting: list[Mail] = []
        self._told: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, mail: Mail) -> None:
        insort(self._waiting, mail, key=lambda waiting: waiting.number)
        if self._told is not None:
            self._told()

    @contextmanager
    def announced(self, tell: Callable[[], None]) -> Iterator[None]:
        """Context in which `tell` is called whenever mail has come."""
        before, self._told = self._told, tell
        try:
            yield
        finally:
            self._told = before

    def fits(self, room: int) -> bool:
        """Whether there is mail of which the first may be read where there is `room` for so many characters. Where
        nothing was read yet (`MOST_CHARACTERS`), it may be of any length."""
        return bool(self._waiting) and (room >= MOST_CHARACTERS or len(self._waiting[0].text) <= room)

    def take(self, room: int) -> tuple[Mail, ...]:
        """Remove and return the unread mail that fits, oldest first."""
        taken: list[Mail] = []
        while self.fits(room):
            taken.append(self._waiting.pop(0))
            room -= len(taken[-1].text)
        return tuple(taken)

    def empty(self) -> tuple[Mail, ...]:
        """Remove and return all unread mail."""
        waiting, self._waiting = self._waiting, []
        return tuple(waiting)


class AgentControl:
    """The controls of one agent. A pause, removed tools and a cancellation also apply to all its descendants, including
    those hired later. Use on one event loop only.
    """

    def __init__(
        self, origin: Origin, above: "AgentControl | None" = None, restraints: Restraints | None = None
    ) -> None:
        """`restraints`: the journaled part (pause, removed tools, metadata); call `changed` after each change of it."""
        self.origin = origin
        self._restraints = restraints or Restraints()
        self.mail = Mailbox()
        self._parent = above
        self._removed: frozenset[str] = frozenset()
        self._changed: asyncio.Event | None = None
        """Set when the pause of this agent may have ended; None while nobody waits for that."""
        self._provider_waits: frozenset[asyncio.Event] = frozenset()
        self._held_up: Block | None = None
        self._cancelled_because: str | None = None
        self._broken: BaseException | None = None
        self._scope: asyncio.Timeout | None = None

    def _lineage(self) -> "list[AgentControl]":
        """This one and its ancestors, nearest first."""
        # A list and plain loops, not a generator and any(): called about twenty times per model call.
        found, agent_control = [self], self._parent
        while agent_control is not None:
            found.append(agent_control)
            agent_control = agent_control._parent
        return found

    @property
    def is_paused_itself(self) -> bool:
        """Whether this agent itself is paused."""
        return self._restraints.paused

    @property
    def paused(self) -> bool:
        """Whether this agent or an ancestor is paused."""
        return self._paused_at() is not None

    def _paused_at(self) -> "AgentControl | None":
        for agent_control in self._lineage():
            if agent_control._restraints.paused or agent_control._held_up is not None:
                return agent_control
        return None

    def hold_up(self, block: Block) -> None:
        """Pause this agent and its descendants until the order is parked: under this drone they do not go on."""
        self._held_up = block

    @property
    def held_up(self) -> Block | None:
        """Why this agent does not go on under this drone; None where it may."""
        return next((one._held_up for one in self._lineage() if one._held_up is not None), None)

    def block(self) -> Block | None:
        """What a paused agent waits for; None when neither it nor an ancestor is paused."""
        paused = self._paused_at()
        if paused is None:
            return None
        if paused._held_up is not None:
            return paused._held_up
        stops_order = paused.origin.parent_id is None
        what = "the order" if stops_order else f"{paused.origin.agent} (record {paused.origin.record_id})"
        return Block(WaitingReason.PAUSED, f"{what} is paused until someone resumes it")

    def changed(self) -> None:
        """Make everyone who waits in `passes` check the restraints again."""
        waited_for, self._changed = self._changed, None
        if waited_for is not None:
            waited_for.set()

    def resume(self) -> None:
        """End this pause's waits, and every wait for a provider of this agent and its descendants."""
        self.changed()
        for again in self._provider_waits:
            again.set()

    async def until_resumed(self) -> None:
        """Wait until neither this agent nor an ancestor is paused. Raises `RunEnded`."""
        self.check()
        while paused := self._paused_at():
            paused._changed = paused._changed or asyncio.Event()
            await paused._changed.wait()
            self.check()

    @property
    def waits_for_provider(self) -> bool:
        """Whether this agent or a descendant waits for the time at which its provider accepts requests again."""
        return any(not again.is_set() for again in self._provider_waits)

    async def wait_for_provider(self, seconds: float) -> None:
        """Wait for so long before the next request to the provider, or until this agent or an ancestor is resumed."""
        again = asyncio.Event()
        for agent_control in self._lineage():
            # At the ancestors as well, since a resume of any of them ends the wait.
            agent_control._provider_waits |= {again}
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await again.wait()
        finally:
            for agent_control in self._lineage():
                agent_control._provider_waits -= {again}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata set on this agent itself."""
        return self._restraints.metadata

    def remove(self, tools: tuple[str, ...]) -> None:
        """Remove tools for good, by tool name or group name (the whole group)."""
        if tools:
            self._removed = self._removed.union(tools)

    @property
    def removed(self) -> tuple[str, ...]:
        """The tools and groups removed from this agent itself, sorted."""
        return tuple(sorted(self._all_removed))

    @property
    def _all_removed(self) -> AbstractSet[str]:
        return self._removed | self._restraints.tools_removed

    @property
    def has_removed_tools(self) -> bool:
        """Whether any tool was removed from this agent or an ancestor."""
        for agent_control in self._lineage():
            if agent_control._removed or agent_control._restraints.tools_removed:
                return True
        return False

    def allows(self, name: str, group: str) -> bool:
        """Whether the tool of this name and group has not been removed, here or above."""
        if not self.has_removed_tools:
            return True
        removed = frozenset[str]().union(*(agent_control._all_removed for agent_control in self._lineage()))
        return removed.isdisjoint((name, group)) and name not in expanded(removed)

    @property
    def at_work(self) -> bool:
        """Whether the agent is in its rounds, so that it can take controls."""
        return self._scope is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether this agent or an ancestor was cancelled."""
        return self._cancel_reason() is not None

    def _cancel_reason(self) -> str | None:
        for agent_control in self._lineage():
            if agent_control._cancelled_because is not None:
                return agent_control._cancelled_because
        return None

    def cancel(self, why: str) -> None:
        """Cancel the agent and everything it waits for; later calls do not change the reason."""
        if self._cancelled_because is None:
            self._cancelled_because = why
        # An expired time limit cannot be rescheduled. It ends the rounds anyway, and `check` then finds the reason.
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def break_off(self, error: BaseException) -> None:
        """End the agent's rounds with this error, which concerns the whole tree."""
        self._broken = self._broken or error
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raises `RunEnded` when this agent or an ancestor was cancelled, and the error of `break_off`."""
        if self._broken is not None:
            raise self._broken
        if (why := self._cancel_reason()) is not None:
            raise RunEnded(why)

    @contextmanager
    def in_rounds(self, scope: asyncio.Timeout) -> Iterator[None]:
        """Wraps the agent's rounds; `scope` is the time limit around them, which `end` expires.

        Raises `RunEnded` even when the rounds end otherwise at the moment the agent is cancelled.
        """
        self._scope = scope
        try:
            self.check()
            yield
            self.check()
        # Whoever may write nothing more ends so, cancelled or not.
        except JournalError:
            raise
        except Exception:
            self.check()
            raise
        finally:
            self._scope = None
