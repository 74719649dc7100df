"""This room is for mail to a running turn: what people say to the Master Agent while it works, read between rounds."""

from dataclasses import dataclass

from mcc.contracts.journal import AgentStep, ControlApplied, Fact


@dataclass(frozen=True, slots=True)
class Mail:
    """A message. `control_id` names the request that brought it; None: an earlier attempt had read it already."""

    text: str
    control_id: str | None = None

    def read(self) -> Fact:
        """The entry that tells of its reading."""
        if self.control_id is None:
            return AgentStep(name="steered_before", message=self.text)
        return ControlApplied(control_id=self.control_id, control="steer", message=self.text)


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
