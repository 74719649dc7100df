"""Validation errors of requests in plain words: the field, and a value that would be accepted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mcc.contracts.generation import BLUEPRINT_REF
from mcc.contracts.ids import IDENTIFIER
from mcc.contracts.order import GIT_REF, HOST_ENTRY, LABEL, MODEL_NAME
from mcc.contracts.permission import PERMISSION_KEY
from mcc.contracts.shape import NAME
from mcc.contracts.unknown_keys import EXTRA, UNKNOWN, unknown_key

OBJECT = "should be a JSON object, in braces"
WHOLE = "Input should be a whole number, such as 5"
NUMBER = "Input should be a number, such as 2.5"
TIME = "Input should be a time with its zone, such as 2026-01-31T12:00:00Z"

_MESSAGES: Mapping[str, str] = {
    "datetime_from_date_parsing": TIME,
    "datetime_parsing": TIME,
    "datetime_type": TIME,
    EXTRA: f"{UNKNOWN}; look at its spelling, or leave it out",
    "float_parsing": NUMBER,
    "float_type": f"{NUMBER}: no text, not true or false",
    "int_from_float": f"{WHOLE}: no fraction",
    "int_parsing": WHOLE,
    "int_type": f"{WHOLE}: no text, no fraction, not true or false",
    "missing": "Nothing is given here, and it is needed; add it",
    "model_attributes_type": f"Input {OBJECT}",
    "model_type": f"Input {OBJECT}",
    "string_type": "Input should be text, in quotation marks",
    "string_unicode": "Input holds half of a surrogate pair, which is no character; leave it out",
    "tuple_type": "Input should be a list",
}
"""Messages by pydantic's error type, where pydantic's own message uses Python's terms."""

_PATTERNS: Mapping[str, str] = {
    BLUEPRINT_REF: "Input should be the name of a blueprint, or name:DIGEST12 with twelve hexadecimal digits",
    GIT_REF: "Input should be at most 200 letters, digits and _ . / -, the first one a letter or digit",
    IDENTIFIER: "Input should be an id, such as 0190c9a2-0000-7000-8000-000000000000",
    LABEL: "Input should be 1 to 100 characters on one line",
    HOST_ENTRY: "Input should be a host, such as docs.python.org, docs.python.org:443, *.python.org, or * for all",
    PERMISSION_KEY: "Input should be a tool, a group, a glob such as git_*, or *: at most 100 characters",
    MODEL_NAME: "Input should be at most 200 letters, digits and _ . : / @ + -, the first one a letter or digit",
    NAME: "Input should be a name: at most 64 letters, digits and _ . : -, the first one a letter or digit",
}
"""Messages by pattern, in place of the regular expression."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """`field` is the dotted path of the faulty field; "" for the whole request."""

    field: str
    message: str

    @property
    def sentence(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def mistakes(errors: Iterable[Mapping[str, Any]], model: object = None) -> list[Mistake]:
    """Convert errors as pydantic and FastAPI list them. The messages never repeat what was sent.

    `model` is the type that was validated; the message on an unknown field names the most similar one there.
    """
    return [_mistake(error, model) for error in errors]


def _mistake(error: Mapping[str, Any], model: object) -> Mistake:
    where = [str(part) for part in error["loc"] if part != "body"]
    if error["type"] == EXTRA and (hint := unknown_key(model, where)):
        return Mistake(".".join(where), hint)
    if error["type"] == "json_invalid":
        return Mistake("", f"The body is not JSON from character {where[-1]} on; correct it there")
    if not where and error["type"] in ("missing", "model_attributes_type", "model_type"):
        return Mistake("", f"The body {OBJECT}")
    return Mistake(".".join(where), _message(error))


def _message(error: Mapping[str, Any]) -> str:
    pattern = error.get("ctx", {}).get("pattern", "")
    message: str = _MESSAGES.get(error["type"]) or _PATTERNS.get(pattern, error["msg"])
    message = message.removeprefix("Value error, ").replace(" after validation", "")
    return message.replace("Tuple should", "List should").replace("String should", "Text should")
