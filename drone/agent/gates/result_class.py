"""A pydantic class as the form of a result: its schema, its errors in sentences, and objects of it for programs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from pydantic import BaseModel, PydanticUserError, ValidationError

from drone.agent.ports.report import Report
from mcc.contracts.shape import to_json
from mcc.rules.errors import SchemaError
from mcc.rules.mistakes import mistakes

MOST = 10
"""Most errors of one result that are told."""


def is_result_class(result: object) -> TypeGuard[type[BaseModel]]:
    """Whether `result` of a definition is a pydantic class."""
    return isinstance(result, type) and issubclass(result, BaseModel)


def schema_of_class(kind: type[BaseModel]) -> Mapping[str, Any]:
    """Its JSON Schema. Raises `SchemaError` for a class whose values are not all JSON."""
    try:
        return kind.model_json_schema()
    except PydanticUserError as error:
        raise SchemaError(f"{kind.__name__} is no form of a result: {error.message}") from error


def read_as_class(kind: type[BaseModel], value: object) -> BaseModel:
    """The object that a result (JSON) stands for. Raises `ValidationError`, and whatever validators of the class do."""
    return kind.model_validate_json(to_json(value))


def errors_of_class(kind: type[BaseModel], value: object) -> tuple[str, ...]:
    """What the class refuses in a result that fits its schema, such as `dates[0]: …`; empty when it accepts it."""
    try:
        read_as_class(kind, value)
    except ValidationError as error:
        listed = error.errors(include_url=False, include_input=False)
        return tuple(_sentence(one["loc"], mistakes([one], kind)[0].message) for one in listed[:MOST])
    return ()


def _sentence(where: tuple[int | str, ...], message: str) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")
    return f"{place}: {message}" if place else message


def typed(report: Report, gate: object) -> Report:
    """The report as a program receives it: an accepted result is an object of the gate's class, if it has one."""
    kind = getattr(gate, "result_class", None)
    if kind is None or report.cause is not None or report.result is None:
        return report
    return replace(report, result=read_as_class(kind, report.result))
