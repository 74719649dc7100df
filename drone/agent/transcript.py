"""This room is for a run's transcript: what its model is shown, and how long that is."""

from collections.abc import Iterable

from drone.agent.messages import AssistantMessage, Message, ToolResults, UserMessage
from drone.agent.spoken import spoken
from mcc.contracts.journal import Fact


class Transcript:
    """Only ever grows. `characters` counts its messages, and what is sent beside them with each question."""

    def __init__(self, messages: Iterable[Message], characters_beside: int) -> None:
        self.messages = list(messages)
        self.characters = characters_beside + sum(map(length, self.messages))

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.characters += length(message)

    def hear(self, *facts: Fact) -> None:
        """Add what these entries say to the model, where they say something."""
        for fact in facts:
            if (text := spoken(fact)) is not None:
                self.add(UserMessage(text))


def length(message: Message) -> int:
    """Characters of a message."""
    match message:
        case ToolResults(results):
            return sum(len(result.content) for result in results)
        case AssistantMessage(text, thinking):
            return len(text) + len(thinking)
        case _:
            return len(message.text)
