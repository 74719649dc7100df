"""This room is for mail to a running agent: what people say to it while it works, read between rounds."""

from dataclasses import dataclass

from drone.agent.spoken import REDIRECTED_BEFORE, STEERED_BEFORE
from mcc.contracts.control import Control, SteerMode
from mcc.contracts.journal import AgentStep, ControlApplied, Fact


@dataclass(frozen=True, slots=True)
class Mail:
    """A message. `control_id` names the request that brought it; None: an earlier attempt had read it already.

    `tools_removed` were taken away when the message came in.
    """

    text: str
    control_id: str | None = None
    mode: SteerMode = SteerMode.INJECT
    reason: str | None = None
    tools_removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, control: Control) -> "Mail":
        """What a steer says; it must have a message."""
        assert control.message is not None
        return cls(control.message, control.id, control.mode or SteerMode.INJECT, control.reason, control.remove_tools)

    @classmethod
    def said_before(cls, steer: ControlApplied) -> "Mail":
        """A message that an earlier attempt had read."""
        assert steer.message is not None
        return cls(steer.message, mode=SteerMode(steer.mode or SteerMode.INJECT))

    @property
    def redirects(self) -> bool:
        """Whether the text is the agent's task from now on."""
        return self.mode is SteerMode.REDIRECT

    def read(self) -> Fact:
        """The entry that tells of its reading."""
        if self.control_id is None:
            return AgentStep(name=REDIRECTED_BEFORE if self.redirects else STEERED_BEFORE, message=self.text)
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
