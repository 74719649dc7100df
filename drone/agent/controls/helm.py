"""This room is for the helm of one running agent: what people asked of it, kept for itself and all below it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from drone.agent.controls.mail import Mailbox
from drone.agent.controls.standstill import Block
from drone.agent.ports import JournalError
from drone.agent.report import Ended
from mcc.contracts.journal import Origin
from mcc.contracts.status import WaitingReason
from mcc.definitions.groups import expanded


class Helm:
    """A pause, tools taken away and an end hold for every agent below as well, those hired later included.

    Use on one event loop only.
    """

    def __init__(self, origin: Origin, above: "Helm | None" = None) -> None:
        self.origin = origin
        self.mail = Mailbox()
        self._above = above
        self._removed: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._put_off: set[asyncio.Event] = set()
        self._ended: str | None = None
        self._scope: asyncio.Timeout | None = None

    def _upwards(self) -> "Iterator[Helm]":
        helm: Helm | None = self
        while helm is not None:
            yield helm
            helm = helm._above

    @property
    def held(self) -> bool:
        """Whether this very agent is paused."""
        return not self._open.is_set()

    @property
    def paused(self) -> bool:
        """Whether this agent or one above it is paused."""
        return any(helm.held for helm in self._upwards())

    def block(self) -> Block | None:
        """What a paused agent waits for; None when neither it nor one above it is paused."""
        held = next((helm for helm in self._upwards() if helm.held), None)
        if held is None:
            return None
        whole = held.origin.parent_id is None
        what = "the order" if whole else f"{held.origin.agent} (record {held.origin.record_id})"
        return Block(WaitingReason.PAUSED, f"{what} is paused until someone resumes it")

    def pause(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        """End the pause, and every wait for a provider here and below."""
        self._open.set()
        for again in self._put_off:
            again.set()

    async def passes(self) -> None:
        """Wait until neither this agent nor one above it is paused. Raises `Ended`."""
        self.check()
        while held := next((helm for helm in self._upwards() if helm.held), None):
            await held._open.wait()
            self.check()

    @property
    def put_off(self) -> bool:
        """Whether this agent, or one below it, waits until its provider wants to be asked again."""
        return any(not again.is_set() for again in self._put_off)

    async def wait_out(self, seconds: float) -> None:
        """Let the provider alone for so long, or until this agent or one above it is resumed."""
        again = asyncio.Event()
        for helm in self._upwards():
            helm._put_off.add(again)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await again.wait()
        finally:
            for helm in self._upwards():
                helm._put_off.discard(again)

    def remove(self, tools: tuple[str, ...]) -> None:
        """Take tools (names, and groups with all that is in them) away; they never come back."""
        self._removed.update(tools, expanded(tools))

    @property
    def removed(self) -> tuple[str, ...]:
        """What was taken from this very agent."""
        return tuple(sorted(self._removed))

    @property
    def narrowed(self) -> bool:
        return any(helm._removed for helm in self._upwards())

    def allows(self, name: str, group: str) -> bool:
        """Whether nobody took the tool of this name and group away."""
        return not any(name in helm._removed or group in helm._removed for helm in self._upwards())

    @property
    def at_work(self) -> bool:
        """Whether the agent is in its rounds, so that something can be asked of it."""
        return self._scope is not None

    @property
    def ending(self) -> bool:
        """Whether this agent or one above it was cancelled."""
        return any(helm._ended is not None for helm in self._upwards())

    def end(self, why: str) -> None:
        """Cancel the agent with everything that it waits for; the first reason counts."""
        if self._ended is None:
            self._ended = why
        # A time limit that has struck already is ending the rounds just now, and they find the reason afterwards.
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raises `Ended` when this agent or one above it was cancelled."""
        for helm in self._upwards():
            if helm._ended is not None:
                raise Ended(helm._ended)

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
