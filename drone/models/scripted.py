"""This room is for the scripted model: replies that a test wrote beforehand, given exactly as written."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from drone.agent.messages import AssistantMessage, ToolResults, UserMessage
from drone.agent.ports import Ask, Listener, ModelError, Reply, WantedCall
from drone.models.prices import FREE
from drone.models.spending import Spent
from mcc.contracts.journal import Thought
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage
from mcc.rules.patterns import Pattern

_PIECE = Pattern(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Line:
    """One reply. `pieces` None: the text is streamed word by word. With `error` it is raised after the pieces.

    `gate`: nothing is said before the event is set. `usage` None: counted from the sizes of ask and reply.
    """

    text: str = ""
    calls: tuple[WantedCall, ...] = ()
    thinking: str = ""
    thoughts: tuple[Thought, ...] = ()
    finish_reason: str = ""
    pieces: tuple[str, ...] | None = None
    error: ModelError | None = None
    gate: asyncio.Event | None = None
    delay_seconds: float = 0.0
    usage: Usage | None = None


Said: TypeAlias = Line | str | ModelError
"""A bare text is a reply that ends the turn, a bare error is raised."""

Author: TypeAlias = Callable[[Ask], Said | Awaitable[Said]]
"""Writes the reply to an ask."""


def call(name: str, **arguments: object) -> WantedCall:
    """A tool call for a `Line`."""
    return WantedCall(name, arguments)


def by_prompt(write: Callable[[str, int], Said]) -> Author:
    """Replies from (the agent's first user message, replies it had so far): the same in every order of children."""

    def author(ask: Ask) -> Said:
        prompts = (message.text for message in ask.messages if isinstance(message, UserMessage))
        return write(next(prompts, ""), sum(isinstance(message, AssistantMessage) for message in ask.messages))

    return author


class ScriptedModel:
    """Says what its script says: lines in the order of the asks, or what an `Author` writes. Keeps the asks it saw."""

    def __init__(
        self, script: Iterable[Said] | Author, *, name: str = "scripted/model", keep_asks: bool = True
    ) -> None:
        self._author = script if callable(script) else _in_order(iter(script))
        self._name = name
        self._keep_asks = keep_asks
        self.asks: list[Ask] = []

    @property
    def name(self) -> str:
        return self._name

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        if self._keep_asks:
            self.asks.append(ask)
        said = self._author(ask)
        line = _line(await said if inspect.isawaitable(said) else said)
        try:
            async with asyncio.timeout(ask.seconds):
                return await self._say(line, ask, listener)
        except TimeoutError as late:
            raise ModelError(f"{self.name} did not finish within {ask.seconds:g} seconds.", retryable=True) from late

    async def _say(self, line: Line, ask: Ask, listener: Listener) -> Reply:
        if line.delay_seconds:
            await asyncio.sleep(line.delay_seconds)
        if line.gate is not None:
            await line.gate.wait()
        if line.thinking:
            listener.delta("thinking.delta", line.thinking)
        for piece in _pieces(line.text) if line.pieces is None else line.pieces:
            listener.delta("model.delta", piece)
        if line.error is not None:
            raise line.error
        return Reply(
            text=line.text,
            tool_calls=line.calls,
            thinking=line.thinking,
            thoughts=line.thoughts or ((Thought(text=line.thinking),) if line.thinking else ()),
            finish_reason=line.finish_reason or ("tool_calls" if line.calls else "stop"),
            usage=line.usage or _usage(ask, line),
            first_token_ms=0.0,
            model=self.name,
        )


def _in_order(lines: Iterator[Said]) -> Author:
    def author(_: Ask) -> Said:
        return next(lines, ModelError("The script has ended: it has no line for this ask."))

    return author


def _line(said: Said) -> Line:
    match said:
        case Line():
            return said
        case str():
            return Line(text=said)
        case ModelError():
            return Line(error=said)


def _usage(ask: Ask, line: Line) -> Usage:
    given = len(line.text) + len(line.thinking) + sum(len(to_json(wanted.arguments)) for wanted in line.calls)
    return Spent().usage(FREE, len(ask.system) + sum(map(_size, ask.messages)), given)


def _size(message: UserMessage | AssistantMessage | ToolResults) -> int:
    if isinstance(message, ToolResults):
        return sum(len(result.content) for result in message.results)
    return len(message.text)


def _pieces(text: str) -> Iterator[str]:
    return (text[found.start() : found.end()] for found in _PIECE.finditer(text))
