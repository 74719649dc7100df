"""This room is for scripts on file: a scripted model for programs that run in processes of their own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from drone.agent.messages import AssistantMessage, UserMessage
from drone.agent.ports import Ask, ModelError, WantedCall
from drone.models.scripted import Author, Line
from mcc.contracts.shape import Closed, JsonObject, Text
from mcc.rules.patterns import Pattern, PatternError


class ScriptProblem(ValueError):
    """The script cannot be used; the message says where and why."""


class Call(Closed):
    """`arguments` is the object, or the raw text that a model might send instead."""

    name: Text
    arguments: JsonObject | Text = Field(default_factory=dict)


class Failure(Closed):
    message: Text
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None


class Response(Closed):
    """One reply. A bare text as `error` is an error that may not be tried again."""

    text: Text = ""
    tool_calls: tuple[Call, ...] = ()
    thinking: Text = ""
    delay_seconds: Annotated[float, Field(ge=0)] = 0.0
    error: Failure | Text | None = None

    def line(self) -> Line:
        calls = tuple(WantedCall(wanted.name, wanted.arguments) for wanted in self.tool_calls)
        return Line(self.text, calls, self.thinking, delay_seconds=self.delay_seconds, error=self._error())

    def _error(self) -> ModelError | None:
        if self.error is None:
            return None
        failure = self.error if isinstance(self.error, Failure) else Failure(message=self.error)
        return ModelError(
            failure.message, retryable=failure.retryable, retry_after=failure.retry_after, status=failure.status
        )


class Rule(Closed):
    """Replies to a prompt (or system prompt) that contains `match`, as plain text or as a regular expression (RE2)."""

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
    """Rules in order; the first that matches writes. Which of its replies: the number of replies since the prompt.

    The prompt is the latest user message that any rule matches, else the system prompt. Nothing is remembered between
    asks, so any process gives the same replies. A last reply without tool calls is repeated.
    """

    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]

    def __call__(self, ask: Ask) -> Line:
        rule, rounds = self._applying(ask)
        if rule is None:
            return Line(error=ModelError("No rule of the script matches this ask; add one whose match is empty."))
        return _of(rule.replies, rounds)

    def _applying(self, ask: Ask) -> tuple[Rule | None, int]:
        rounds = 0
        for message in reversed(ask.messages):
            if isinstance(message, AssistantMessage):
                rounds += 1
            elif isinstance(message, UserMessage) and (rule := self._first(message.text)):
                return rule, rounds
        return self._first(ask.system), rounds

    def _first(self, text: str) -> Rule | None:
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
