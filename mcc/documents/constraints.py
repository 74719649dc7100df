"""Rules derived from a field's declaration (lengths, bounds, options, sizes) and from the declared child counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcc.contracts.blueprints import (
    ChildCount,
    ChoiceField,
    DateField,
    FieldSpec,
    ListField,
    NumberField,
    ReferenceField,
    TextField,
)
from mcc.documents.node import Node
from mcc.documents.state import DocumentState
from mcc.documents.templates import as_text
from mcc.rules.errors import Fault
from mcc.rules.functions import searcher

_SHOWN = 60
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """What a constraint checks: a value, not null except for child counts, and the node that has it."""

    state: DocumentState
    node: Node
    value: Any


Constraint: TypeAlias = Callable[[Subject], str | None]
"""Answers a sentence that says what is wrong; None where the constraint holds."""

Constraints: TypeAlias = Iterator[tuple[str, Constraint]]
"""Each with the last part of its rule id."""


def constraints(spec: FieldSpec) -> Constraints:
    """The constraints of a field's value where it is set; `required` is not among them."""
    match spec:
        case TextField():
            yield from _of_text(spec)
        case NumberField():
            yield from _of_number(spec)
        case ChoiceField(options=options):
            yield "options", _plain(lambda value: None if value in options else _no_option(value, options))
        case DateField():
            yield from _of_date(spec)
        case ReferenceField(to=component):
            yield "to", lambda at: _leads_to(at, component)
        case ListField():
            yield from _of_list(spec)


def counts(component: str, count: ChildCount) -> Constraints:
    """The bounds on a node's number of children of one component."""

    def number(at: Subject) -> int:
        return at.state.count(at.node, component)

    def too_few(at: Subject) -> str | None:
        found = number(at)
        if found >= count.min:
            return None
        are = "is" if count.min == 1 else "are"
        return f"At least {_children(count.min, component)} {are} needed; there {_are(found)}."

    def too_many(at: Subject) -> str | None:
        found = number(at)
        if count.max is None or found <= count.max:
            return None
        return f"At most {_children(count.max, component)} may be here; there {_are(found)}."

    if count.min:
        yield "min", too_few
    if count.max is not None:
        yield "max", too_many


def for_each(check: Constraint) -> Constraint:
    """The constraint applied to each item of a list; its sentence names the first item that breaks it."""

    def run(at: Subject) -> str | None:
        for place, item in enumerate(at.value):
            if why := check(Subject(at.state, at.node, item)):
                return f"Item {place + 1}: {why}"
        return None

    return run


def _plain(check: Callable[[Any], str | None]) -> Constraint:
    return lambda at: check(at.value)


def _size(least: int | None, most: int | None, of: str, names: tuple[str, str]) -> Constraints:
    if least is not None:
        yield (
            names[0],
            _plain(lambda value: None if len(value) >= least else f"At least {least} {of} are needed; {_has(value)}."),
        )
    if most is not None:
        yield (
            names[1],
            _plain(lambda value: None if len(value) <= most else f"At most {most} {of} may be here; {_has(value)}."),
        )


def _of_text(spec: TextField) -> Constraints:
    yield from _size(spec.min_length, spec.max_length, "characters", ("min_length", "max_length"))
    if (pattern := spec.pattern) is not None:
        yield "pattern", _plain(lambda value: _matched(value, pattern))


def _matched(value: str, pattern: str) -> str | None:
    try:
        found = searcher(pattern).search(value.encode("utf-8", "replace"))
    except Fault as fault:
        return f"The pattern {fault}."
    return None if found is not None else f"{_short(value)} does not match the pattern {pattern[:100]}."


def _of_number(spec: NumberField) -> Constraints:
    least, most = spec.min, spec.max
    if spec.integer:
        yield (
            "integer",
            _plain(
                lambda value: (
                    None if float(value).is_integer() else f"A whole number is needed, and {value} is not one."
                )
            ),
        )
    if least is not None:
        yield "min", _plain(lambda value: None if value >= least else f"At least {least} is needed; this is {value}.")
    if most is not None:
        yield "max", _plain(lambda value: None if value <= most else f"At most {most} is allowed; this is {value}.")


def _of_date(spec: DateField) -> Constraints:
    """ISO dates compare correctly as text."""
    after, before = spec.after, spec.before
    if after is not None:
        yield (
            "after",
            _plain(lambda value: None if value > after else f"A day after {after} is needed; this is {value}."),
        )
    if before is not None:
        yield (
            "before",
            _plain(lambda value: None if value < before else f"A day before {before} is needed; this is {value}."),
        )


def _of_list(spec: ListField) -> Constraints:
    yield from _size(spec.min_items, spec.max_items, "items", ("min_items", "max_items"))
    if spec.unique:
        yield "unique", _plain(_repeated)
    for name, check in constraints(spec.items):
        yield f"items.{name}", for_each(check)


def _repeated(value: Sequence[Any]) -> str | None:
    first: dict[Any, int] = {}
    for place, item in enumerate(value):
        if (seen := first.setdefault(item, place)) != place:
            return f"Items {seen + 1} and {place + 1} are the same, and each may stand there once."
    return None


def _leads_to(at: Subject, component: str) -> str | None:
    reached: Node | None = at.state.root
    for key in (part for part in at.value.split("/") if part):
        # Not `DocumentState.find`, which spends time on suggestions; a broken rule is judged again and again.
        id = None if reached is None else at.state.keys.get((reached.id, key))
        reached = None if id is None else at.state.nodes[id]
    if reached is None:
        return f"There is no node {_short(at.value)}; a {component} of this document is needed."
    if reached.component == component:
        return None
    return f"{_short(at.value)} is of the component {reached.component}, and one of {component} is needed."


def _no_option(value: str, options: Sequence[str]) -> str:
    listed = ", ".join(one[:_SHOWN] for one in options[:_LISTED]) + (", …" if len(options) > _LISTED else "")
    return f"{_short(value)} is none of the options: {listed}."


def _short(value: object) -> str:
    text = as_text(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _has(value: Sequence[Any]) -> str:
    return f"this has {len(value)}"


def _children(number: int, component: str) -> str:
    return f"{number} {'child' if number == 1 else 'children'} of the component {component}"


def _are(number: int) -> str:
    return "is none" if not number else "is 1" if number == 1 else f"are {number}"
