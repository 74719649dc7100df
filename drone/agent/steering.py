"""Steering a turn from the program that runs it, in words: no service, no store."""

from drone.agent.turn import Turn
from mcc.contracts.control import Control, ControlKind, SteerMode
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import now


class Steering:
    """Speaks to the agents of one turn. `record_id` names one of them, with all below it; None: the whole turn.

    Every call answers what was asked, as it stands then: applied at entry `applied_seq`, refused with why, or open: a
    message is open until its agent reads it. `asked` says what became of each. Use it on the loop that runs the turn.
    Raises `JournalError`.
    """

    def __init__(self, turn: Turn) -> None:
        self._router = turn.router
        self._router.receipts = self
        self._asked: dict[str, Control] = {}

    @property
    def asked(self) -> tuple[Control, ...]:
        """Everything that was asked, in its order."""
        return tuple(self._asked.values())

    async def steer(
        self,
        message: str,
        *,
        record_id: str | None = None,
        redirect: bool = False,
        remove_tools: tuple[str, ...] = (),
        reason: str | None = None,
    ) -> Control:
        """Say something before the agent's next model call; `redirect`: it is its task from now on."""
        mode = SteerMode.REDIRECT if redirect else SteerMode.INJECT
        return await self._ask(
            ControlKind.STEER, record_id, reason, message=message, mode=mode, remove_tools=remove_tools
        )

    async def remove_tools(self, *names: str, record_id: str | None = None, reason: str | None = None) -> Control:
        """Take tools (by their names, or those of groups) away, for good."""
        return await self._ask(ControlKind.STEER, record_id, reason, remove_tools=names)

    async def pause(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Begin no further model or tool call."""
        return await self._ask(ControlKind.PAUSE, record_id, reason)

    async def resume(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Go on after a pause; who waits until a provider wants to be asked again asks it now."""
        return await self._ask(ControlKind.RESUME, record_id, reason)

    async def cancel(self, *, record_id: str | None = None, reason: str | None = None) -> Control:
        """Stop an agent; those beside it go on, and its parent is told."""
        return await self._ask(ControlKind.CANCEL, record_id, reason)

    async def _ask(
        self,
        kind: ControlKind,
        record_id: str | None,
        reason: str | None,
        *,
        message: str | None = None,
        mode: SteerMode = SteerMode.INJECT,
        remove_tools: tuple[str, ...] = (),
    ) -> Control:
        control = Control(
            id=fresh_id(),
            order_id="",
            number=len(self._asked) + 1,
            kind=kind,
            record_id=record_id,
            message=message,
            reason=reason,
            mode=mode,
            remove_tools=remove_tools,
            requested_at=now(),
        )
        self._asked[control.id] = control
        if why := await self._router.take(control):
            self._settle(control.id, refused=why)
        return self._asked[control.id]

    def applied(self, control_id: str, seq: int) -> None:
        """For the router."""
        self._settle(control_id, applied_seq=seq, applied_at=now())

    def refused(self, whose: Origin, control_id: str, why: str) -> None:
        """For the router."""
        self._settle(control_id, refused=why)

    def _settle(self, control_id: str, **how: object) -> None:
        if control_id in self._asked:
            self._asked[control_id] = self._asked[control_id].model_copy(update=how)
