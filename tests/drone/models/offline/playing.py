"""A driver in place of the agent loop: asks the model and answers its calls until a reply needs no tools."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drone.agent.ports.model import Ask, Reply
from drone.models.offline import OfflineModel
from mcc.contracts.blocks import ToolCall
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage
from tests.drone.models.conftest import RecordingListener

Answerer = Callable[[str, Mapping[str, Any]], str]


def spec(name: str, *arguments: str, **schemas: Mapping[str, object]) -> ToolSpec:
    properties: dict[str, object] = {argument: {"type": "string"} for argument in arguments} | dict(schemas)
    return ToolSpec(name, f"{name}.", {"type": "object", "properties": properties})


def delegating(*roles: str) -> ToolSpec:
    text = {"type": "string"}
    agent = {"id": text, "role": {**text, "enum": list(roles)}, "title": text, "task": text}
    agent["success_criteria"] = {"type": "array", "items": text}
    return spec("subagents_run", "mode", agents={"type": "array", "items": {"type": "object", "properties": agent}})


READING = (
    spec("list_files", "path", "depth"),
    spec("find_files", "pattern", "path"),
    spec("search_text", "pattern", "path", "glob", "literal", "case_sensitive", "limit"),
    spec("read_file", "path", "start_line", "end_line"),
)
ALL = (*READING, delegating("explore", "general", "scout", "review", "security_analyst"))


class Failure(Exception):
    """Raised by an answerer for a result that is an error."""


@dataclass
class Game:
    """One run: its messages, its replies, and every call."""

    messages: list[Message]
    replies: list[Reply] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def called(self, name: str) -> list[Any]:
        return [arguments for called, arguments in self.calls if called == name]


async def one(prompt: str, tools: Sequence[ToolSpec] = (), **more: Any) -> Reply:
    return await OfflineModel().ask(Ask("", [UserMessage(prompt)], tuple(tools), **more), RecordingListener())


async def play(prompt: str | list[Message], answer: Answerer, tools: Sequence[ToolSpec] = READING) -> Game:
    game = Game([UserMessage(prompt)] if isinstance(prompt, str) else list(prompt))
    for number in range(12):
        reply = await OfflineModel().ask(Ask("", game.messages, tuple(tools)), RecordingListener())
        game.replies.append(reply)
        calls = [
            ToolCall(call_id=f"{number}.{index}", name=wanted.name, arguments=wanted.arguments)
            for index, wanted in enumerate(reply.tool_calls)
        ]
        results = [_result(call, answer) for call in calls]
        game.calls += [(call.name, call.arguments) for call in calls]
        game.messages += [AssistantMessage.of(reply.text, calls), ToolResults(tuple(results))]
        if not calls or any(result.name == "submit_result" and not result.is_error for result in results):
            return game
    raise AssertionError("no end after 12 rounds")


def _result(call: ToolCall, answer: Answerer) -> ToolResult:
    assert isinstance(call.arguments, Mapping)
    try:
        return ToolResult(call.call_id, call.name, answer(call.name, call.arguments), False)
    except Failure as failure:
        return ToolResult(call.call_id, call.name, str(failure), True)
