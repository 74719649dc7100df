"""What all contracts share: the closed, frozen base model, types for any text and JSON, and JSON in and out."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Self, TypeVar

import pydantic_core
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from mcc.contracts.ids import IDENTIFIER
from mcc.contracts.unknown_keys import with_hints

MAX_NESTING = 300
"""Most levels of lists and objects within one another in JSON that `to_json` writes."""

_REPLACEMENT = "\ufffd".encode()
_KEY_SHOWN = 80

_set = object.__setattr__
_set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[f"__pydantic_{slot}__"].__set__ for slot in ("fields_set", "extra", "private")
)


class Closed(BaseModel):
    """A frozen model that refuses unknown keys; the error names the field that was probably meant."""

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
        """Teach CPython the attribute names of the class, so that instances store only values, without a dictionary of
        their own (80 bytes instead of 270). This must come first: every instance made lowers the number of names that
        the class can still take up."""
        if not cls.__abstractmethods__:
            sample = cls.__new__(cls)
            for name in cls.model_fields:
                _set(sample, name, None)

    def __init__(self, /, **fields: Any) -> None:
        __tracebackhide__ = True
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise with_hints(error, type(self)) from None

    # Without it, pydantic takes a model within another one apart in Python, in order to call its `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise with_hints(error, cls) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise with_hints(error, cls) from None


def _any_text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


Text = Annotated[str, PlainValidator(_any_text), WithJsonSchema({"type": "string"})]
"""A string stored exactly as given, lone surrogates and NUL included (pydantic's `str` refuses lone surrogates)."""


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
"""A JSON object as a model or a schema author wrote it; the code that uses it checks its content."""

JsonAny = Annotated[Any, PlainValidator(_any_json), WithJsonSchema({})]


def _list_to_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


LIST_AS_TUPLE = BeforeValidator(_list_to_tuple)
"""For tuple fields that files fill: these are validated strictly, and strict mode would refuse a list."""


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise PydanticCustomError("timezone_aware", "a time needs its zone, for example 2026-01-31T12:00:00Z")
    try:
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError("datetime_range", "a time must lie between the years 1 and 9999 in UTC") from error


Moment = Annotated[datetime, AfterValidator(_aware)]
"""A time with its zone, converted to UTC; written as ISO 8601."""


def now() -> datetime:
    return datetime.now(UTC)


M = TypeVar("M", bound=BaseModel)


def unchecked(model: type[M], /, **fields: object) -> M:
    """A model made without validation, from values known to be valid; every field must be given. Takes a tenth of the
    time and a third of the memory of a validated one."""
    instance = model.__new__(model)
    for name, value in fields.items():
        _set(instance, name, value)
    _set_fields(instance, _all_fields(model))
    _set_extra(instance, None)
    _set_private(instance, None)
    return instance


def adopted(model: type[M], values: dict[str, Any], fields_set: set[str] | None = None) -> M:
    """As `unchecked`, with the mapping itself as the model's dictionary: a quarter of the time for a model of many
    fields, and more memory, so for models that are not kept. `fields_set` None: all fields."""
    instance = model.__new__(model)
    _set(instance, "__dict__", values)
    _set_fields(instance, _all_fields(model) if fields_set is None else fields_set)
    _set_extra(instance, None)
    _set_private(instance, None)
    return instance


def lean_copy(instance: M) -> M:
    """The same model as `unchecked` would make it, with less memory: for validated models held in large numbers."""
    return unchecked(type(instance), **instance.__dict__)


def without(instance: BaseModel, model: type[M], field: str) -> M:
    """The same as the model that it extends by this field, made as `adopted` does; `model_fields_set` stays."""
    values = {**instance.__dict__}
    del values[field]
    return adopted(model, values, instance.model_fields_set - {field})


def share_fields_set(instance: BaseModel) -> None:
    """Replace the model's own `model_fields_set` (216 bytes and more) by one that all instances share. For models held
    in large numbers whose `model_fields_set` nobody reads."""
    _set_fields(instance, _all_fields(type(instance)))


@cache
def _all_fields(model: type[BaseModel]) -> set[str]:
    """One set for all instances; safe to share because frozen models never add to it."""
    return set(model.model_fields)


def to_json(value: object) -> bytes:
    """`value`, models included, as UTF-8 JSON. Lone surrogates, which UTF-8 cannot encode, are written as escapes.

    The result holds no raw NUL, so a PostgreSQL text column accepts it. Infinity and NaN, which JSON lacks, become
    null. Raises ValueError when `value` is nested deeper than `MAX_NESTING` levels.
    """
    try:
        encoded = pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, UnicodeEncodeError, ValueError):
        return _escaped(value)
    # pydantic silently writes U+FFFD for lone surrogates in keys; the slow path keeps them.
    return _escaped(value) if _REPLACEMENT in encoded else encoded


def _escaped(value: object) -> bytes:
    # A provider's text is kept even when a database could not store it as it is: docs/decisions/05.
    plain = _plain_json(value, MAX_NESTING)
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":"), default=_plain).encode()


def _plain_json(value: object, levels: int) -> object:
    """`value` with models as dicts and non-finite numbers as null. Raises ValueError below `levels` levels."""
    if levels == 0:
        raise ValueError(f"this is nested deeper than {MAX_NESTING} levels")
    if isinstance(value, BaseModel):
        return _plain_json(value.model_dump(by_alias=True), levels)
    if isinstance(value, Mapping):
        return {key: _plain_json(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_json(item, levels - 1) for item in value]
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
    """An object in a JSON text has the same key twice; `key` is that key, cut to 80 characters."""

    def __init__(self, key: str) -> None:
        self.key = key if len(key) <= _KEY_SHOWN else f"{key[:_KEY_SHOWN]}…"
        super().__init__(f"the key {self.key!r} stands twice in one object: which of its values counts is not known")


def refuse_repeated_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A hook for `json.loads(text, object_pairs_hook=refuse_repeated_keys)`. Raises `RepeatedKey`.

    JSON parsers disagree on which value of a repeated key counts, so one program could check a value and another act
    on a different one.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise RepeatedKey(next(key for key, count in counts.items() if count > 1))
    return members


def repeated_key(text: str | bytes) -> RepeatedKey | None:
    """The first repeated key in a JSON text; None when there is none, or when the text is not JSON."""
    try:
        json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RepeatedKey as found:
        return found
    except (ValueError, RecursionError):
        return None
    return None


class NotFinite(ValueError):
    """A number in a JSON text is NaN, infinite, or too large for one."""

    def __init__(self) -> None:
        super().__init__("a number is NaN, Infinity or beyond what a number can be: JSON has no such numbers")


def finite_number(text: str) -> float:
    """A hook for `json.loads(text, parse_float=finite_number, parse_constant=finite_number)`. Raises `NotFinite`."""
    number = float(text)
    if not math.isfinite(number):
        raise NotFinite
    return number


def unclear_json(text: str | bytes) -> RepeatedKey | NotFinite | None:
    """What makes the meaning of a JSON text unclear; None where nothing does, or where the text is not JSON."""
    try:
        json.loads(
            text,
            object_pairs_hook=refuse_repeated_keys,
            parse_float=finite_number,
            parse_constant=finite_number,
        )
    except (RepeatedKey, NotFinite) as found:
        return found
    except (ValueError, RecursionError):
        return None
    return None


def finite_json(value: object) -> bytes:
    """As `to_json`, for what somebody else is to read. Raises `NotFinite` instead of writing null for a number that
    JSON lacks."""
    made = to_json(value)
    if b"null" in made:
        try:
            json.dumps(value, allow_nan=False, default=_plain)
        except ValueError as error:
            raise NotFinite from error
    return made


def digest(value: object) -> str:
    """SHA-256 in hex of the canonical JSON of `value` (sorted keys, no spaces, ASCII)."""
    plain = value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value
    return hashlib.sha256(_CANONICAL.encode(plain).encode()).hexdigest()


_CANONICAL = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_plain)
