"""This room is for mail to a running agent: what people say to it while it works, read between rounds."""

from dataclasses import dataclass

from mcc.contracts.control import Control, SteerMode
from mcc.contracts.journal import ControlApplied


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
