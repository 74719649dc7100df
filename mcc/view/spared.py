"""This room is for what delegation spares: the work of children that their parents never had to read."""

from dataclasses import dataclass

from mcc.contracts.record import ChatRecord, ModelStep, ToolStep
from mcc.contracts.shape import to_json

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Spared:
    """Characters: `worked` is what all children said, called and read, `told` what their parents were told of it."""

    worked: int = 0
    told: int = 0

    @property
    def tokens(self) -> int:
        """About how many tokens the parents did not have to carry."""
        return max(0, self.worked - self.told) // CHARACTERS_PER_TOKEN

    @property
    def share(self) -> float:
        """The part of the children's work that was not carried, 0 to 1."""
        return max(0.0, 1 - self.told / self.worked) if self.worked else 0.0

    def plus(self, other: "Spared") -> "Spared":
        return Spared(self.worked + other.worked, self.told + other.told)


def spared(record: ChatRecord) -> Spared:
    """Of the whole tree under a record."""
    told = sum(len(step.content) for step in record.steps if isinstance(step, ToolStep) and step.subagent_ids)
    total = Spared(sum(_worked(child) for child in record.subagent_history), told)
    for child in record.subagent_history:
        total = total.plus(spared(child))
    return total


def _worked(record: ChatRecord) -> int:
    """Characters of a transcript, without the task that the parent wrote itself."""
    said = 0
    for step in record.steps:
        if isinstance(step, ModelStep):
            said += len(step.text) + sum(len(to_json(call.arguments)) for call in step.tool_calls)
        elif isinstance(step, ToolStep):
            said += len(step.content)
    return said
