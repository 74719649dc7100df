"""A key that a model does not know: the error names the field that was probably meant, in every closed model."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest
from pydantic import ValidationError

import mcc.contracts
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Entry
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import Closed
from mcc.rules.mistakes import mistakes


def below(model: type[Closed]) -> Iterator[type[Closed]]:
    for one in model.__subclasses__():
        yield one
        yield from below(one)


MODULES = {import_module(f"mcc.contracts.{one.name}").__name__ for one in iter_modules(mcc.contracts.__path__)}

SHIPPED = sorted(
    {model for model in below(Closed) if model.__module__ in MODULES and model.model_fields and model is not Entry},
    key=lambda model: f"{model.__module__}.{model.__name__}",
)
"""All but the entry, which is taken apart by its kind before its keys are looked at."""


def hinted(make: Callable[[], object], where: tuple[str | int, ...], field: str) -> None:
    with pytest.raises(ValidationError) as raised:
        make()
    known = {one["loc"]: one for one in raised.value.errors()}
    assert known[where]["type"] == "extra_forbidden"
    assert known[where]["msg"] == f'Nothing of this name is known here (did you mean "{field}"?)'
    assert f'did you mean "{field}"' in str(raised.value)


@pytest.mark.parametrize("model", SHIPPED, ids=lambda model: model.__name__)
def test_every_model_names_the_field_for_a_key_with_a_letter_too_many(model: type[Closed]) -> None:
    field = max((one.alias or name for name, one in model.model_fields.items()), key=len)
    hinted(lambda: model(**{f"{field}x": None}), (f"{field}x",), field)


@pytest.mark.parametrize(
    "make, where, field",
    [
        (lambda: AgentDefinition.model_validate({"name": "x", "promt": ""}), ("promt",), "prompt"),
        (lambda: AgentDefinition.model_validate({"name": "x", "limits": {"round": 3}}), ("limits", "round"), "rounds"),
        (lambda: NewOrder.model_validate_json('{"limits": {"round": 2}}'), ("limits", "round"), "rounds"),
        (lambda: NewOrder.model_validate({"rules": [{"cell": "true"}]}), ("rules", 0, "cell"), "cel"),
    ],
)
def test_a_key_of_a_part_is_compared_with_the_fields_of_that_part(
    make: Callable[[], object], where: tuple[str | int, ...], field: str
) -> None:
    hinted(make, where, field)


def test_a_key_like_no_field_stays_as_pydantic_refuses_it() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Limits.model_validate({"zzz": 1})


def test_the_other_errors_of_a_model_keep_type_place_and_words() -> None:
    given = {"name": "{x", "limits": {"rounds": 0, "depht": 1}, "permission": {"*": "alow"}}
    with pytest.raises(ValidationError) as raised:
        AgentDefinition.model_validate(given)
    errors = {one["loc"]: one for one in raised.value.errors()}
    assert errors["name",]["type"] == "string_pattern_mismatch" and "'^[A-Za-z0-9]" in errors["name",]["msg"]
    assert errors["limits", "rounds"]["msg"] == "Input should be greater than or equal to 1"
    assert errors["permission", "*"]["type"] == "permission"
    name = next(one for one in mistakes(raised.value.errors()) if one.field == "name")
    assert name.message.startswith("Input should be a name: at most 64 letters")
