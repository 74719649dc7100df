"""Checks of declared fields: bounds that exclude each other, defaults that do not fit, unknown names."""

import math
from collections.abc import Iterator, Set
from typing import TypeAlias

from mcc.contracts.blueprints import (
    BlueprintSpec,
    ChoiceField,
    DateField,
    FieldSpec,
    ListField,
    NumberField,
    ReferenceField,
    TextField,
)
from mcc.definitions.front_matter import Location, suggestion
from mcc.documents.constraints import Subject, constraints
from mcc.documents.kinds import as_date, check_kind
from mcc.rules.errors import Fault
from mcc.rules.functions import searcher

MAX_RULES = 2_000
"""Most rules, formulas and bindings of one blueprint: each costs time to check."""

Problems: TypeAlias = Iterator[tuple[Location, str]]
"""Problems: the location, and a sentence without its full stop."""


def too_many(spec: BlueprintSpec) -> str | None:
    """A sentence where the blueprint has more than `MAX_RULES` rules, else None."""
    fields = [field for one in spec.components.values() for field in (*one.metadata.values(), *one.properties.values())]
    found = sum(len(one.rules) for one in spec.components.values()) + sum(map(_rules_of, fields))
    return None if found <= MAX_RULES else f"A blueprint has {MAX_RULES:,} rules at most; this has {found:,}"


def _rules_of(field: FieldSpec) -> int:
    items = len(field.items.rules) if isinstance(field, ListField) else 0
    return len(field.rules) + items + field.computed


def field_problems(spec: BlueprintSpec) -> Problems:
    """Contradictions and unknown names in the declarations of fields."""
    names = spec.components.keys()
    for component, one in spec.components.items():
        for section, fields in (("metadata", one.metadata), ("properties", one.properties)):
            for key, field in fields.items():
                for location, message in _of_field(field, names):
                    yield ("components", component, section, key, *location), message


def _of_field(field: FieldSpec, components: Set[str]) -> Problems:
    wrong = list(_of_constraints(field, components))
    yield from wrong
    if field.formula is not None and field.bind is not None:
        yield ("bind",), "A field has a formula or a binding, and this has both"
    if field.default is not None and field.computed:
        yield ("default",), "Nobody sets a computed value, so its default would never apply"
    elif field.default is not None and not wrong:
        yield from _of_default(field)


def _of_default(field: FieldSpec) -> Problems:
    why = check_kind(field, field.default)
    for name, check in constraints(field) if why is None else ():
        if name.rpartition(".")[2] != "to":
            # Of all field constraints only `to`, of references, uses the node, which does not exist yet.
            why = why or check(Subject(None, None, field.default))  # type: ignore[arg-type]
    if why is not None:
        yield ("default",), why.rstrip(".")


def _of_constraints(field: FieldSpec, components: Set[str]) -> Problems:
    match field:
        case TextField():
            yield from ordered(field.min_length, field.max_length, "min_length", "max_length")
            yield from _of_pattern(field.pattern)
        case NumberField():
            yield from _of_number(field)
        case ChoiceField():
            yield from _of_options(field)
        case DateField():
            yield from _of_dates(field)
        case ReferenceField() if field.to not in components:
            yield ("to",), f"There is no component {field.to!r}{suggestion(field.to, components)}"
        case ListField():
            yield from _of_list(field, components)


def ordered(least: float | None, most: float | None, first: str, second: str) -> Problems:
    if least is not None and most is not None and least > most:
        yield (first,), f"{first} {least} is more than {second} {most}, so that nothing ever fits"


def _of_pattern(pattern: str | None) -> Problems:
    try:
        if pattern is not None:
            searcher(pattern)
    except Fault as fault:
        yield ("pattern",), f"The pattern {fault}"


def _of_number(field: NumberField) -> Problems:
    wrong = list(ordered(field.min, field.max, "min", "max"))
    yield from wrong
    if not field.integer or wrong or field.min is None or field.max is None:
        return
    if math.ceil(field.min) > math.floor(field.max):
        yield ("integer",), f"There is no whole number from {field.min} to {field.max}"


def _of_options(field: ChoiceField) -> Problems:
    for index, option in enumerate(field.options):
        if not option.strip():
            yield ("options", index), "An option is empty"
        elif option in field.options[:index]:
            yield ("options", index), f"The option {option[:60]!r} stands here a second time"


def _of_dates(field: DateField) -> Problems:
    days = {name: getattr(field, name) for name in ("after", "before")}
    for name, day in days.items():
        if day is not None and as_date(day) is None:
            yield (name,), f"{day[:40]!r} is no date; write it like 2026-01-31, in quotation marks"
            return
    after, before = (None if day is None else as_date(day) for day in days.values())
    if after is not None and before is not None and (before - after).days < 2:
        yield ("after",), f"There is no day after {after} and before {before}"


def _of_list(field: ListField, components: Set[str]) -> Problems:
    yield from ordered(field.min_items, field.max_items, "min_items", "max_items")
    for name in ("default", "formula", "bind"):
        if getattr(field.items, name) is not None:
            yield ("items", name), f"An item has no {name} of its own; set it on the list"
    if field.items.required:
        yield ("items", "required"), "An item is always present; make the list required, or give it min_items"
    for location, message in _of_constraints(field.items, components):
        yield ("items", *location), message
    if field.unique and isinstance(field.items, ChoiceField) and (field.min_items or 0) > len(field.items.options):
        yield ("min_items",), f"There are only {len(field.items.options)} options, and each may stand there once"
