"""What people asked of one running agent, for itself and all agents below it, and the mail that it has not read."""

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from drone.agent.controls.idle_watch import Block
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
