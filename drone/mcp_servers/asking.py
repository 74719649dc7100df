"""What a server wants to know of a person, asked one field at a time and given back as its schema says."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mcp_types as types

from drone.mcp_servers.words import one_line, seen

MOST_FIELDS = 20
MOST_CHOICES = 50
_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None


Ask = Callable[[Question], Awaitable[str | None]]
"""Asks a person; None when nobody answered in time."""


class NotAnswered(Exception):
    """The server did not answer the call as it should; a sentence about it."""


class Asks(Protocol):
    """Asks a person what a server wants to know for a call."""

    async def elicited(self, request: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData: ...


async def answered(requests: Mapping[str, Any], asks: Asks | None) -> types.InputResponses:
    """What a person answers to each request. Raises `NotAnswered` for what is not asked of people here."""
    answers: types.InputResponses = {}
    for key, request in requests.items():
        if not isinstance(request, types.ElicitRequest):
            raise NotAnswered(f"the server asks for {getattr(request, 'method', 'something')}, which is not given here")
        if asks is None:
            message = getattr(request.params, "message", "")
            raise NotAnswered(f"the server asks a person, and nobody can be asked here: {message[:500]}")
        answer = await asks.elicited(request.params)
        if isinstance(answer, types.ErrorData):
            raise NotAnswered(f"what the server asks a person cannot be asked here: {answer.message}")
        answers[key] = answer
    return answers


class People:
    """Asks people on behalf of a server, which is named in each question."""

    def __init__(self, server: str, ask: Ask) -> None:
        self._server = server
        self._ask = ask

    async def elicited(self, request: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """The answers of a form; an address that a person should open is not opened for a server."""
        if not isinstance(request, types.ElicitRequestFormParams):
            return types.ErrorData(code=types.INVALID_PARAMS, message="Only forms are shown to people here.")
        schema = request.requested_schema
        fields = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(fields, Mapping) or len(fields) > MOST_FIELDS:
            message = f"A form has a schema with up to {MOST_FIELDS} properties."
            return types.ErrorData(code=types.INVALID_PARAMS, message=message)
        asked = f"The MCP server {self._server} asks: {seen(request.message, _SHOWN)}"
        if not fields:
            answer = await self._ask(Question(asked, ("yes", "no")))
            return types.ElicitResult(action="cancel" if answer is None else _yes_or_no(answer))
        required = {str(name) for name in schema.get("required", ())}
        content: dict[str, Any] = {}
        for name, field in fields.items():
            described = field if isinstance(field, Mapping) else {}
            answer = await self._ask(question(asked, str(name), described))
            if answer is None:
                return types.ElicitResult(action="cancel")
            try:
                value = value_of(answer, described)
            except ValueError:
                return types.ElicitResult(action="decline")
            if value is not None or str(name) in required:
                content[str(name)] = value
        return types.ElicitResult(action="accept", content=content)


def question(asked: str, name: str, field: Mapping[str, Any]) -> Question:
    """What a person is asked for one field of a form."""
    said = one_line(str(field.get("title") or field.get("description") or name), 500)
    choices = _choices(field)
    default = field.get("default")
    return Question(f"{asked}\n{said}", choices, None if default is None else _written(default))


def value_of(answer: str, field: Mapping[str, Any]) -> Any:
    """The answer as the field wants it. Raises ValueError when it cannot be that."""
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
            return _several(text)
        case _:
            return answer


def _several(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = [part.strip() for part in text.split(",") if part.strip()]
    return [str(one) for one in found] if isinstance(found, list) else [text]


def _choices(field: Mapping[str, Any]) -> tuple[str, ...]:
    if field.get("type") == "boolean":
        return ("true", "false")
    named: object = field.get("enum")
    titled = field.get("oneOf") or field.get("anyOf")
    if not isinstance(named, Sequence) and isinstance(titled, Sequence):
        named = [one.get("const") for one in titled if isinstance(one, Mapping)]
    if not isinstance(named, Sequence) or isinstance(named, str):
        return ()
    return tuple(str(one) for one in named[:MOST_CHOICES])


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _yes_or_no(answer: str) -> Any:
    return "accept" if answer.strip().lower() in ("yes", "y", "ok", "true") else "decline"
