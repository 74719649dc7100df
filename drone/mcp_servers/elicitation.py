"""Elicitation: a server's questions to people, asked one form field at a time and answered as its schema demands."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from drone.tools.frame.display_text import shortened

MOST_FIELDS = 20
MOST_CHOICES = 50
_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person."""

    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None


Ask = Callable[[Question], Awaitable[str | None]]
"""Asks a person; returns None if nobody answered in time."""


class NotAnswered(Exception):
    """The server needs an answer that it cannot get here; the message is the end of a sentence."""


async def answered(requests: Mapping[str, Any], people: "Elicitor | None") -> types.InputResponses:
    """The answers of people to a server's requests, by key. Raises `NotAnswered` for what people cannot be asked."""
    answers: types.InputResponses = {}
    for key, request in requests.items():
        if not isinstance(request, types.ElicitRequest):
            raise NotAnswered(f"the server asks for {getattr(request, 'method', 'something')}, which is not given here")
        if people is None:
            message = getattr(request.params, "message", "")
            raise NotAnswered(f"the server asks a person, and nobody can be asked here: {message[:500]}")
        answer = await people.elicited(request.params)
        if isinstance(answer, types.ErrorData):
            raise NotAnswered(f"what the server asks a person cannot be asked here: {answer.message}")
        answers[key] = answer
    return answers


class Elicitor:
    """Asks people on behalf of a server, which each question names."""

    def __init__(self, server: str, ask: Ask) -> None:
        self._server = server
        self._ask = ask

    async def elicited(self, request: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """The answers to a form. Requests that a person open an address are refused."""
        if not isinstance(request, types.ElicitRequestFormParams):
            return types.ErrorData(code=types.INVALID_PARAMS, message="Only forms are shown to people here.")
        schema = request.requested_schema
        fields = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(fields, Mapping) or len(fields) > MOST_FIELDS:
            message = f"A form has a schema with up to {MOST_FIELDS} properties."
            return types.ErrorData(code=types.INVALID_PARAMS, message=message)
        heading = f"The MCP server {self._server} asks: {shortened(request.message, _SHOWN)}"
        if not fields:
            answer = await self._ask(Question(heading, ("yes", "no")))
            if answer is None:
                return types.ElicitResult(action="cancel")
            is_yes = answer.strip().lower() in ("yes", "y", "ok", "true")
            return types.ElicitResult(action="accept" if is_yes else "decline")
        named = schema.get("required")
        required = {str(name) for name in named} if isinstance(named, list | tuple) else set[str]()
        content: dict[str, Any] = {}
        for name, field in fields.items():
            schema_of_field = field if isinstance(field, Mapping) else {}
            answer = await self._ask(question(heading, str(name), schema_of_field))
            if answer is None:
                return types.ElicitResult(action="cancel")
            try:
                value = value_of(answer, schema_of_field)
            except ValueError:
                return types.ElicitResult(action="decline")
            if value is not None or str(name) in required:
                content[str(name)] = value
        return types.ElicitResult(action="accept", content=content)


def question(heading: str, name: str, field: Mapping[str, Any]) -> Question:
    """The question for one field of a form."""
    label = shortened(str(field.get("title") or field.get("description") or name), 500)
    default = field.get("default")
    if default is not None and not isinstance(default, str):
        default = json.dumps(default)
    return Question(f"{heading}\n{label}", _choices(field), default)


def value_of(answer: str, field: Mapping[str, Any]) -> Any:
    """The answer converted to the field's type. Raises ValueError if that is impossible."""
    kind, text = field.get("type"), answer.strip()
    choices = _choices(field)
    if choices and kind != "array" and text not in choices:
        raise ValueError(f"{text!r} is none of the choices")
    match kind:
        case "boolean":
            if text.lower() in ("true", "yes", "y", "1"):
                return True
            if text.lower() in ("false", "no", "n", "0"):
                return False
            raise ValueError(f"{text!r} is neither yes nor no")
        case "integer":
            return int(text)
        case "number":
            return float(text)
        case "array":
            return _list_of(text)
        case _:
            return answer


def _list_of(text: str) -> list[str]:
    """The items of a JSON list or of a comma-separated text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = [part.strip() for part in text.split(",") if part.strip()]
    return [str(item) for item in found] if isinstance(found, list) else [text]


def _choices(field: Mapping[str, Any]) -> tuple[str, ...]:
    if field.get("type") == "boolean":
        return ("true", "false")
    named: object = field.get("enum")
    titled = field.get("oneOf") or field.get("anyOf")
    if not isinstance(named, Sequence) and isinstance(titled, Sequence):
        named = [option.get("const") for option in titled if isinstance(option, Mapping)]
    if not isinstance(named, Sequence) or isinstance(named, str):
        return ()
    return tuple(str(choice) for choice in named[:MOST_CHOICES])
