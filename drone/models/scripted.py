"""The scripted model: replies exactly as a test or a script file lists them."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, ValidationError

from drone.agent.ports.model import (
    Ask,
    Listener,
    ModelError,
    Reply,
    ReplyBlock,
    WantedCall,
    spoken_blocks,
)
from drone.models.prices import FREE, Spent
from mcc.contracts.shape import Closed, JsonObject, Text, to_json
from mcc.contracts.usage import Usage
from mcc.rules.patterns import Pattern, PatternError
from mcc.transcript.messages import AssistantMessage, ToolResults, UserMessage

_PIECE = Pattern(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Line:
    """One reply. `pieces` None: the text is streamed word by word. `error` is raised after the pieces.

    If `blocks` are given, they are the reply; text, calls and thinking are then only what is streamed.

    `gate`: nothing is sent before the event is set. `usage` None: estimated from the sizes of ask and reply. `billed`:
    the cost if the call fails.
    """

    text: str = ""
    calls: tuple[WantedCall, ...] = ()
    thinking: str = ""
    blocks: tuple[ReplyBlock, ...] = ()
    finish_reason: str = ""
    pieces: tuple[str, ...] | None = None
    error: ModelError | None = None
    gate: asyncio.Event | None = None
    delay_seconds: float = 0.0
    usage: Usage | None = None
    billed: Usage | None = None


Said: TypeAlias = Line | str | ModelError
"""Text alone is a reply that ends the turn; an error alone is raised."""

Author: TypeAlias = Callable[[Ask], Said | Awaitable[Said]]
"""Writes the reply to an ask."""


def call(name: str, **arguments: object) -> WantedCall:
    """A tool call for a `Line`."""
    return WantedCall(name, arguments)


def by_prompt(write: Callable[[str, int], Said]) -> Author:
    """An author that sees (the agent's first user message, number of its replies so far), and so does not depend on the
    order in which children run."""

    def author(ask: Ask) -> Said:
        prompts = (message.text for message in ask.messages if isinstance(message, UserMessage))
        return write(next(prompts, ""), sum(isinstance(message, AssistantMessage) for message in ask.messages))

    return author


class ScriptedModel:
    """Replies with the lines of its script in the order of the asks, or with what an `Author` writes. Records all
    asks."""

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
                return await self._said(line, ask, listener)
        except TimeoutError as late:
            raise ModelError(f"{self.name} did not finish within {ask.seconds:g} seconds.", retryable=True) from late

    async def _said(self, line: Line, ask: Ask, listener: Listener) -> Reply:
        try:
            return await self._say(line, ask, listener)
        except BaseException:
            if line.billed is not None:
                listener.billed(line.billed)
            raise

    async def _say(self, line: Line, ask: Ask, listener: Listener) -> Reply:
        if line.delay_seconds:
            await asyncio.sleep(line.delay_seconds)
        if line.gate is not None:
            await line.gate.wait()
        if line.thinking:
            listener.delta("thinking.delta", line.thinking)
        words = (match.group() for match in _PIECE.finditer(line.text))
        for piece in words if line.pieces is None else line.pieces:
            listener.delta("model.delta", piece)
        if line.error is not None:
            raise line.error
        return Reply(
            blocks=line.blocks or spoken_blocks(line.text, line.calls, line.thinking),
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
        return sum(len(result.content) for result in message.as_shown)
    return len(message.text)


class ScriptProblem(ValueError):
    """The script cannot be used; the message says where and why."""


class ScriptedCall(Closed):
    """`arguments` is the object, or the raw text that a model might send instead."""

    name: Text
    arguments: JsonObject | Text = Field(default_factory=dict)


class ScriptedFailure(Closed):
    message: Text
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None


class Response(Closed):
    """One reply. An `error` given as plain text is not retryable."""

    text: Text = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    thinking: Text = ""
    delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    error: ScriptedFailure | Text | None = None

    def line(self) -> Line:
        calls = tuple(WantedCall(wanted.name, wanted.arguments) for wanted in self.tool_calls)
        return Line(self.text, calls, self.thinking, delay_seconds=self.delay_seconds, error=self._error())

    def _error(self) -> ModelError | None:
        if self.error is None:
            return None
        failure = self.error if isinstance(self.error, ScriptedFailure) else ScriptedFailure(message=self.error)
        return ModelError(
            failure.message, retryable=failure.retryable, retry_after=failure.retry_after, status=failure.status
        )


class ScriptedRule(Closed):
    """Replies to a prompt (or system prompt) that contains `match` as plain text or matches it as a regular expression
    (RE2)."""

    match: str
    replies: Annotated[tuple[Response, ...], Field(min_length=1)]

    def matches(self, text: str) -> bool:
        if self.match in text:
            return True
        try:
            return Pattern(self.match).search(text) is not None
        except PatternError:
            return False


class Script(Closed):
    """Rules in order; the first that matches replies. The number of replies since the prompt selects which of its
    replies.

    The prompt is the latest user message that any rule matches, else the system prompt. Nothing is remembered between
    asks, so every process gives the same replies. A last reply without tool calls is repeated.
    """

    rules: Annotated[tuple[ScriptedRule, ...], Field(min_length=1)]

    def __call__(self, ask: Ask) -> Line:
        rule, rounds = self._applying(ask)
        if rule is None:
            return Line(error=ModelError("No rule of the script matches this ask; add one whose match is empty."))
        return _of(rule.replies, rounds)

    def _applying(self, ask: Ask) -> tuple[ScriptedRule | None, int]:
        rounds = 0
        for message in reversed(ask.messages):
            if isinstance(message, AssistantMessage):
                rounds += 1
            elif isinstance(message, UserMessage) and (rule := self._first(message.text)):
                return rule, rounds
        return self._first(ask.system), rounds

    def _first(self, text: str) -> ScriptedRule | None:
        return next((rule for rule in self.rules if rule.matches(text)), None)


def _of(replies: Sequence[Response], rounds: int) -> Line:
    if rounds < len(replies):
        return replies[rounds].line()
    if replies[-1].tool_calls:
        return Line(error=ModelError(f"The script has ended: its rule has {len(replies)} replies, this is one more."))
    return replies[-1].line()


def load(path: Path) -> Author:
    """The script in a JSON file, `{"rules": [{"match": …, "replies": […]}]}`. Raises `ScriptProblem`."""
    try:
        return Script.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise ScriptProblem(f"The script {path} cannot be read: {error.strerror}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ScriptProblem(f"The script {path} is not usable, for it is not JSON: {error}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ScriptProblem(f"The script {path} is not usable{where and f' at {where}'}: {first['msg']}.") from error
