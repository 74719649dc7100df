"""This room is for what the offline model knows: the request, its tools, and what they brought so far."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drone.agent.messages import AssistantMessage, Message, ToolResults, ToolSpec, UserMessage
from drone.agent.ports import Ask, WantedCall

_STOPPED = re.compile(r"\bthe limit \w+.{0,40} is reached\b|\bno tool runs any more\b", re.IGNORECASE)
_WRAP_UP = re.compile(r"\b(?:wrap up|finish now|answer now|stop here|with what you have)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Done:
    """A tool call of this turn with its result."""

    name: str
    arguments: Mapping[str, Any]
    content: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """One turn, as the model sees it: `request` is what was asked last, `steers` what was said after the work began."""

    request: str
    steers: tuple[str, ...]
    done: tuple[Done, ...]
    rounds: int
    tools: Mapping[str, ToolSpec]

    def results(self, name: str) -> tuple[Done, ...]:
        """What the tool called `name` brought, errors left out, in the order of the calls."""
        return tuple(done for done in self.done if done.name == name and not done.is_error)

    @property
    def must_finish(self) -> bool:
        """A limit was reached, or somebody asked to come to an end."""
        stopped = any(done.is_error and _STOPPED.search(done.content[:300]) for done in self.done)
        return stopped or any(_WRAP_UP.search(steer) for steer in self.steers)

    @property
    def agent_types(self) -> tuple[str, ...]:
        """Whom the tool `subagent` may be asked for, as its schema says; empty without that tool."""
        kind = self._properties("subagent").get("agent_type")
        listed = kind.get("enum") if isinstance(kind, Mapping) else None
        return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list | tuple) else ()

    def call(self, name: str, **arguments: object) -> WantedCall | None:
        """A call of a tool that is there, with those of `arguments` that its schema has; None if it was made before."""
        if name not in self.tools:
            return None
        known = self._properties(name)
        sent = {key: value for key, value in arguments.items() if key in known and value is not None}
        if any(done.name == name and dict(done.arguments) == sent for done in self.done):
            return None
        return WantedCall(name, sent)

    def _properties(self, name: str) -> Mapping[str, Any]:
        spec = self.tools.get(name)
        properties = spec.parameters.get("properties") if spec else None
        return properties if isinstance(properties, Mapping) else {}


def read(ask: Ask) -> Conversation:
    """The present turn of `ask`. Earlier turns of the session count as said, not as to be done again."""
    start = _start_of_turn(ask.messages)
    turn = ask.messages[start:]
    opening = _opening(turn)
    return Conversation(
        request="\n".join(message.text for message in turn[:opening] if isinstance(message, UserMessage)),
        steers=tuple(message.text for message in turn[opening:] if isinstance(message, UserMessage)),
        done=_done(turn),
        rounds=sum(isinstance(message, AssistantMessage) for message in turn),
        tools={spec.name: spec for spec in ask.tools},
    )


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Where the present turn begins: after the last reply that needed no tools."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and not message.tool_calls:
            return index + 1
    return 0


def _opening(turn: Sequence[Message]) -> int:
    """How many messages of the turn came before its first reply."""
    return next((index for index, message in enumerate(turn) if not isinstance(message, UserMessage)), len(turn))


def _done(turn: Sequence[Message]) -> tuple[Done, ...]:
    arguments: dict[str, Mapping[str, Any]] = {}
    done: list[Done] = []
    for message in turn:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                arguments[call.call_id] = call.arguments if isinstance(call.arguments, Mapping) else {}
        elif isinstance(message, ToolResults):
            for result in message.results:
                done.append(Done(result.name, arguments.get(result.call_id, {}), result.content, result.is_error))
    return tuple(done)
