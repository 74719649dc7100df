"""What people asked of a running agent and all below it, and its unread mail."""

import asyncio
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from drone.agent.idle_watch import Block
from drone.agent.journal import JournalError
from drone.agent.record import Restraints
from drone.agent.report import Ended
from mcc.contracts.control import Control, SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.journal import ControlApplied
from mcc.contracts.status import WaitingReason
from mcc.definitions.rights import expanded


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
        self._removed: frozenset[str] = frozenset()
        self._changed: asyncio.Event | None = None
        """What those wait for who are paused here; none while nobody waits."""
        self._put_off: frozenset[asyncio.Event] = frozenset()
        self._ended: str | None = None
        self._scope: asyncio.Timeout | None = None

    def _upwards(self) -> "list[AgentControl]":
        """This one and all above it. A list, and loops over it: it is asked for some twenty times a model call."""
        found, agent_control = [self], self._above
        while agent_control is not None:
            found.append(agent_control)
            agent_control = agent_control._above
        return found

    @property
    def held(self) -> bool:
        """Whether this very agent is paused."""
        return self._restraints.paused

    @property
    def paused(self) -> bool:
        """Whether this agent or one above it is paused."""
        return self._held_by() is not None

    def _held_by(self) -> "AgentControl | None":
        for agent_control in self._upwards():
            if agent_control._restraints.paused:
                return agent_control
        return None

    def block(self) -> Block | None:
        """What a paused agent waits for; None when neither it nor one above it is paused."""
        held = self._held_by()
        if held is None:
            return None
        whole = held.origin.parent_id is None
        what = "the order" if whole else f"{held.origin.agent} (record {held.origin.record_id})"
        return Block(WaitingReason.PAUSED, f"{what} is paused until someone resumes it")

    def changed(self) -> None:
        """Whoever waits looks at the restraints again."""
        waited_for, self._changed = self._changed, None
        if waited_for is not None:
            waited_for.set()

    def resume(self) -> None:
        """The pause is over, and so is every wait for a provider here and below."""
        self.changed()
        for again in self._put_off:
            again.set()

    async def passes(self) -> None:
        """Wait until neither this agent nor one above it is paused. Raises `Ended`."""
        self.check()
        while held := self._held_by():
            held._changed = held._changed or asyncio.Event()
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
            agent_control._put_off |= {again}
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await again.wait()
        finally:
            for agent_control in self._upwards():
                agent_control._put_off -= {again}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was set of this very agent."""
        return self._restraints.metadata

    def remove(self, tools: tuple[str, ...]) -> None:
        """Take tools (names, and groups with all that is in them) away; they never come back."""
        if tools:
            self._removed = self._removed.union(tools)

    @property
    def removed(self) -> tuple[str, ...]:
        """What was taken from this very agent."""
        return tuple(sorted(self._taken))

    @property
    def _taken(self) -> AbstractSet[str]:
        return self._removed | self._restraints.tools_removed

    @property
    def narrowed(self) -> bool:
        for agent_control in self._upwards():
            if agent_control._removed or agent_control._restraints.tools_removed:
                return True
        return False

    def allows(self, name: str, group: str) -> bool:
        """Whether nobody took the tool of this name and group away."""
        if not self.narrowed:
            return True
        removed = frozenset[str]().union(*(agent_control._taken for agent_control in self._upwards()))
        return removed.isdisjoint((name, group)) and name not in expanded(removed)

    @property
    def at_work(self) -> bool:
        """Whether the agent is in its rounds, so that something can be asked of it."""
        return self._scope is not None

    @property
    def ending(self) -> bool:
        """Whether this agent or one above it was cancelled."""
        return self._why_ended() is not None

    def _why_ended(self) -> str | None:
        for agent_control in self._upwards():
            if agent_control._ended is not None:
                return agent_control._ended
        return None

    def end(self, why: str) -> None:
        """Cancel the agent with everything that it waits for; the first reason counts."""
        if self._ended is None:
            self._ended = why
        # A time limit that has struck already is ending the rounds just now, and they find the reason afterwards.
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raises `Ended` when this agent or one above it was cancelled."""
        if (why := self._why_ended()) is not None:
            raise Ended(why)

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
