"""The shape that all contracts share: closed, frozen, and able to carry any text a provider sends."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, TypeVar

import pydantic_core
from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from mcc.contracts.ids import IDENTIFIER

MAX_NESTING = 300
"""Levels of lists and objects in JSON that we write."""

_REPLACEMENT = "\ufffd".encode()
_KEY_SHOWN = 80

_set = object.__setattr__
_set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[f"__pydantic_{slot}__"].__set__ for slot in ("fields_set", "extra", "private")
)


class Closed(BaseModel):
    """A frozen model that refuses keys it does not know."""

    model_config = ConfigDict(
        defer_build=True,
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="null",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        protected_namespaces=(),
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Give all fields their places in the class: what Python keeps of an object beside it are its values then, and
        no dictionary of its own (80 bytes instead of 270). It forgets free places with every object that is made."""
        if not cls.__abstractmethods__:
            first = cls.__new__(cls)
            for name in cls.model_fields:
                _set(first, name, None)


def _any_text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


Text = Annotated[str, PlainValidator(_any_text), WithJsonSchema({"type": "string"})]
"""A string kept exactly, lone surrogates and NUL included (a plain pydantic `str` refuses lone surrogates)."""


NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
"""A short name: letters, digits and `_ . : -`, at most 64 characters."""

Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER)]


def _any_json(value: object) -> Any:
    return value


def _any_object(value: object) -> Any:
    if not isinstance(value, Mapping):
        raise PydanticCustomError("dict_type", "Input should be an object")
    return value


JsonObject = Annotated[
    Mapping[str, Any], PlainValidator(_any_object), WithJsonSchema({"type": "object", "additionalProperties": True})
]
"""A JSON object as the model or a schema author wrote it; narrowed where it is used."""

JsonAny = Annotated[Any, PlainValidator(_any_json), WithJsonSchema({})]


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise PydanticCustomError("timezone_aware", "a time needs its zone, for example 2026-01-31T12:00:00Z")
    try:
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError("datetime_range", "a time must lie between the years 1 and 9999 in UTC") from error


Moment = Annotated[datetime, AfterValidator(_aware)]
"""An aware time; written as ISO 8601 in UTC."""


def now() -> datetime:
    return datetime.now(UTC)


M = TypeVar("M", bound=BaseModel)


def unchecked(model: type[M], /, **fields: object) -> M:
    """A model from values that are known to be right; every field must be given. A tenth of the cost of checking, and
    a third of the memory."""
    made = model.__new__(model)
    for name, value in fields.items():
        _set(made, name, value)
    _set_fields(made, _all_fields(model))
    _set_extra(made, None)
    _set_private(made, None)
    return made


def lean(made: M) -> M:
    """The same as if it had been made `unchecked`: for models that were checked and are kept in numbers."""
    return unchecked(type(made), **made.__dict__)


def shares_its_fields(made: BaseModel) -> None:
    """Let go of the set of the fields that were given, which each instance has for itself (216 bytes and more): for
    models that are kept in numbers, and of which nobody asks what was given."""
    _set_fields(made, _all_fields(type(made)))


@cache
def _all_fields(model: type[BaseModel]) -> set[str]:
    """One set for all instances: they are frozen, so nobody adds to it."""
    return set(model.model_fields)


def to_json(value: object) -> bytes:
    """`value` (models included) as UTF-8 JSON; what UTF-8 cannot carry (lone surrogates) is written as an escape.

    The answer never holds a raw NUL, so PostgreSQL's text takes it. Numbers that JSON has not (infinity) become null.
    Raises ValueError when `value` is nested deeper than any reader of ours would follow.
    """
    try:
        made = pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, UnicodeEncodeError, ValueError):
        return _escaped(value)
    # Lone surrogates in keys are replaced there without a word; only the slow way can tell.
    return _escaped(value) if _REPLACEMENT in made else made


def _escaped(value: object) -> bytes:
    # What a provider said is kept even where no database could: docs/decisions/05.
    return json.dumps(_bounded(value, MAX_NESTING), ensure_ascii=True, separators=(",", ":"), default=_plain).encode()


def _bounded(value: object, levels: int) -> object:
    if levels == 0:
        raise ValueError(f"this is nested deeper than {MAX_NESTING} levels")
    if isinstance(value, BaseModel):
        return _bounded(value.model_dump(by_alias=True), levels)
    if isinstance(value, Mapping):
        return {key: _bounded(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_bounded(item, levels - 1) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


class RepeatedKey(ValueError):
    """An object in a JSON text has a key twice; `key` is its beginning."""

    def __init__(self, key: str) -> None:
        self.key = key if len(key) <= _KEY_SHOWN else f"{key[:_KEY_SHOWN]}…"
        super().__init__(f"the key {self.key!r} stands twice in one object: which of its values counts is not known")


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ, for `json.loads(text, object_pairs_hook=distinct)`. Raises `RepeatedKey`.

    Readers of JSON do not agree on which value of a repeated key counts, so that what one of them checked need not be
    what another one does.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise RepeatedKey(next(key for key, count in counts.items() if count > 1))
    return made


def repeated_key(text: str | bytes) -> RepeatedKey | None:
    """The first repeated key of a JSON text; None when there is none, and when the text is no JSON."""
    try:
        json.loads(text, object_pairs_hook=distinct)
    except RepeatedKey as found:
        return found
    except (ValueError, RecursionError):
        return None
    return None


def digest(value: object) -> str:
    """SHA-256 in hex of the canonical JSON of `value` (sorted keys, no spaces, ASCII)."""
    plain = value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value
    text = json.dumps(plain, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()
