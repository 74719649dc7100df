"""A driver in place of the agent loop: asks the model and answers its calls until a reply needs no tools."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drone.agent.ports.journal import DeltaKind
from drone.agent.ports.messages import AssistantMessage, Message, ToolResult, ToolResults, ToolSpec, UserMessage
from drone.agent.ports.model import Ask, Reply, WantedCall
from drone.agent.ports.transcript import WOULD_BE_ACCEPTED
from drone.models.offline import OfflineModel
from mcc.contracts.blocks import ToolCall
from mcc.contracts.usage import Usage

Answerer = Callable[[str, Mapping[str, object]], Awaitable[str] | str]


def spec(name: str, *arguments: str, **schemas: Mapping[str, object]) -> ToolSpec:
    properties: dict[str, object] = {argument: {"type": "string"} for argument in arguments} | dict(schemas)
    return ToolSpec(name, f"{name}.", {"type": "object", "properties": properties})


READING = (
    spec("list_files", "path", "depth"),
    spec("find_files", "pattern", "path"),
    spec("search_text", "pattern", "path", "glob", "literal", "case_sensitive", "limit"),
    spec("read_file", "path", "start_line", "end_line"),
    spec("environment_detect"),
)
REPORT: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["completed", "blocked", "failed"]},
        "summary": {"type": "string", "maxLength": 4000},
        "steps": {"type": "array", "items": {"type": "string"}},
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "severity": {"type": "string", "enum": ["info", "warning", "error"]},
                    "title": {"type": "string"},
                    "evidence": {"type": "string"},
                    "paths": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        },
        "recommended_next_actions": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["status", "summary"],
    "additionalProperties": False,
}


def finishing(schema: Mapping[str, Any] = REPORT) -> tuple[ToolSpec, ...]:
    asking = {**schema, "properties": {**schema.get("properties", {}), "check_only": {"type": "boolean"}}}
    return (ToolSpec("submit_result", "Hand in.", asking),)


SUBAGENT = spec("subagent", "prompt", "title", agent_type={"type": "string", "enum": ["general", "explore"]})


@dataclass
class Recorded:
    """A listener that records what it is told."""

    deltas: list[tuple[DeltaKind, str]] = field(default_factory=list)

    def delta(self, kind: DeltaKind, text: str, call: object = None) -> None:
        self.deltas.append((kind, text))

    async def retried(self, error: str, wait_seconds: float) -> None:
        raise AssertionError("the offline model never retries")

    async def fell_back(self, source: str, target: str, error: str) -> None:
        raise AssertionError("the offline model never falls back")

    async def not_sent(self, what: str) -> None:
        raise AssertionError("the offline model takes every question as it is")

    def billed(self, usage: Usage) -> None:
        pass

    async def go_ahead(self) -> None:
        pass

    def text(self, kind: DeltaKind) -> str:
        return "".join(text for told, text in self.deltas if told == kind)


class Failure(Exception):
    """Raised by an answerer for a result that is an error."""


@dataclass
class Game:
    """One run: its messages, its replies, and every call with its result."""

    messages: list[Message]
    replies: list[Reply] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    @property
    def answer(self) -> str:
        return self.replies[-1].text

    def called(self, name: str) -> list[Mapping[str, object]]:
        return [arguments for called, arguments in self.calls if called == name]

    @property
    def names(self) -> list[str]:
        return [called for called, _ in self.calls]


async def one(prompt: str, tools: Sequence[ToolSpec] = (), **more: object) -> Reply:
    return await OfflineModel().ask(Ask("", [UserMessage(prompt)], tuple(tools), **more), Recorded())  # type: ignore[arg-type]


async def play(
    prompt: str | list[Message],
    answerer: Answerer,
    tools: Sequence[ToolSpec] = READING,
    rounds: int = 12,
    system: str = "You work.",
) -> Game:
    game = Game([UserMessage(prompt)] if isinstance(prompt, str) else list(prompt))
    model = OfflineModel()
    for number in range(rounds):
        reply = await model.ask(Ask(system, game.messages, tuple(tools)), Recorded())
        game.replies.append(reply)
        if not reply.tool_calls:
            return game
        calls = tuple(_call(number, index, wanted) for index, wanted in enumerate(reply.tool_calls))
        results = [await _result(call, answerer, game) for call in calls]
        game.messages += [AssistantMessage.of(reply.text, calls, thinking=reply.thinking), ToolResults(tuple(results))]
        if any(_ends(result) for result in results):
            return game
    raise AssertionError(f"no end after {rounds} rounds")


def _ends(result: ToolResult) -> bool:
    return result.name == "submit_result" and not result.is_error and WOULD_BE_ACCEPTED not in result.content


def _call(number: int, index: int, wanted: WantedCall) -> ToolCall:
    assert isinstance(wanted.arguments, Mapping)
    return ToolCall(call_id=f"{number}.{index}", name=wanted.name, arguments=dict(wanted.arguments))


async def _result(call: ToolCall, answerer: Answerer, game: Game) -> ToolResult:
    assert isinstance(call.arguments, Mapping)
    game.calls.append((call.name, call.arguments))
    try:
        answer = answerer(call.name, call.arguments)
        content = answer if isinstance(answer, str) else await answer
    except Failure as failure:
        return ToolResult(call.call_id, call.name, str(failure), True)
    return ToolResult(call.call_id, call.name, content, False)
