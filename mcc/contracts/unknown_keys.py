"""What stands in an error about a key that a model does not know: the field that was probably meant."""

from collections.abc import Iterable
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from mcc.contracts.similar import close_matches

UNKNOWN = "Nothing of this name is known here"
EXTRA = "extra_forbidden"
"""Pydantic's type of such an error."""


def unknown_key(model: object, where: Iterable[str]) -> str | None:
    """The message on the key at the location `where` within a model; None where no field there is similar to it."""
    *above, key = where
    near = close_matches(key, _field_names(model, above))
    return f'{UNKNOWN} (did you mean "{near[0]}"?)' if near else None


def with_hints(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """The same error; its messages on unknown keys name the field that was probably meant."""
    details = error.errors(include_url=False)
    if all(detail["type"] != EXTRA for detail in details):
        return error
    hinted: list[InitErrorDetails] = []
    for detail in details:
        hint = unknown_key(model, map(str, detail["loc"])) if detail["type"] == EXTRA else None
        # The type stays, for whoever reads it; a message of its own is only possible in a custom error.
        kind = PydanticCustomError(detail["type"], "{said}", {**detail.get("ctx", {}), "said": hint or detail["msg"]})
        hinted.append(InitErrorDetails(type=kind, loc=detail["loc"], input=detail["input"]))
    return ValidationError.from_exception_data(error.title, hinted)


def _field_names(model: object, where: Iterable[str]) -> list[str]:
    """The names of the fields at the location `where` within a model."""
    models = _models(model)
    for step in where:
        annotations = [one.model_fields[step].annotation for one in models if step in one.model_fields]
        models = [below for annotation in annotations for below in _models(annotation)] or models
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


def _models(annotation: object) -> list[type[BaseModel]]:
    """The pydantic models in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [below for one in get_args(annotation) for below in _models(one)]
