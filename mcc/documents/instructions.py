"""System prompts of node agents: the component, its fields and rules in words, and how to finish."""

from collections.abc import Iterator, Mapping

from mcc.contracts.blueprints import (
    BlueprintRule,
    BooleanField,
    ChildCount,
    ChoiceField,
    Component,
    DateField,
    FieldSpec,
    ListField,
    NumberField,
    ReferenceField,
    TextField,
)
from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent
from mcc.documents.node import Role
from mcc.documents.templates import as_text

DEFAULT = (
    "You fill in one part of a document that follows a blueprint; other agents fill in the other parts. Set values "
    "with your tools: text that you write beside them is not kept. Write in the language of the task, and keep to what "
    "it says."
)
"""Opens the system prompt where the component has no `system` text of its own."""


def system_prompt(blueprint: Blueprint, component: CompiledComponent, role: Role) -> str:
    """The same text for every node of the component, so that providers can cache it: it depends on the blueprint only.

    Guidelines are included only where the component is validated.
    """
    spec = component.spec
    fields = spec.metadata if role == "metadata" else spec.properties
    parts = [
        component.settings.system or DEFAULT,
        "\n".join(_introduction(blueprint, component, role)),
        "\n".join(_settable(fields, "set_metadata" if role == "metadata" else "set_value")),
        "\n".join(_computed(fields)),
        "" if role == "metadata" else "\n".join(_component_rules(spec)),
        "" if role == "metadata" else "\n".join(_children(blueprint, spec)),
        "\n".join(guidelines(component, role)) if component.validates else "",
        _finish(component.validates),
    ]
    return "\n\n".join(part for part in parts if part)


def guidelines(component: CompiledComponent, role: Role) -> Iterator[str]:
    """The section of guidelines, which no rule checks: those of the fields in order, then the component's."""
    lines = [
        f"- {rule.guideline}{f' ({rule.field})' if rule.field else ''}"
        for rule in component.guidelines
        if (role == "metadata") == (rule.field is not None and rule.field.startswith("metadata."))
    ]
    if lines:
        yield "## Guidelines"
        yield from lines


def task_end(component: CompiledComponent, role: Role) -> str:
    """The end of a task: what to set, and which children to make, how many of each."""
    if role == "metadata":
        return f"# To do\nSet the metadata of this {component.name}."
    children = [f"- {name}: {_how_many(count)}" for name, count in component.spec.children.items()]
    below = [f"Make the children of this {component.name}:", *children] if children else []
    settable = any(not spec.computed for spec in component.spec.properties.values())
    return "\n".join(["# To do", *([f"Set the properties of this {component.name}."] if settable else []), *below])


def component_described(blueprint: Blueprint, component: CompiledComponent) -> str:
    """A component for a chat agent: what its own agents are told, without how to finish."""
    spec = component.spec
    parts = [
        "\n".join(_introduction(blueprint, component, "node")),
        "\n".join(_settable(spec.metadata, "set_metadata")),
        "\n".join(_settable(spec.properties, "set_value")),
        "\n".join(_computed({**spec.metadata, **spec.properties})),
        "\n".join(_component_rules(spec)),
        "\n".join(_children(blueprint, spec)),
        *("\n".join(guidelines(component, role)) for role in ("metadata", "node")),
    ]
    return "\n\n".join(part for part in parts if part)


def field_described(name: str, spec: FieldSpec) -> str:
    """A field in words, such as "minutes (required): whole number, 20 to 90. How long it takes. Use steps of five."."""
    sentences = [", ".join([_kind(spec), *_constraints(spec)]) + "."]
    sentences += [spec.description, *(_in_words(rule) for rule in spec.rules)]
    if isinstance(spec, ListField):
        sentences += [f"Of each item: {words}" for rule in spec.items.rules if (words := _in_words(rule))]
    return f"{name}{' (required)' if spec.required else ''}: {' '.join(one for one in sentences if one)}"


def with_article(noun: str) -> str:
    """The noun with its article: "a lesson", "an activity"."""
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


def _introduction(blueprint: Blueprint, component: CompiledComponent, role: Role) -> Iterator[str]:
    yield f"# Your part: {'the metadata of ' if role == 'metadata' else ''}{with_article(component.name)}"
    if component.spec.description:
        yield component.spec.description
    if blueprint.spec.description:
        yield f"The whole document: {blueprint.spec.description}"


def _settable(fields: Mapping[str, FieldSpec], tool: str) -> Iterator[str]:
    lines = [f"- {field_described(name, spec)}" for name, spec in fields.items() if not spec.computed]
    if lines:
        yield f"# Fields to set with {tool}"
        yield from lines


def _computed(fields: Mapping[str, FieldSpec]) -> Iterator[str]:
    lines = [f"- {field_described(name, spec)}" for name, spec in fields.items() if spec.computed]
    if lines:
        yield "# Fields that are computed from others and cannot be set"
        yield from lines


def _component_rules(component: Component) -> Iterator[str]:
    lines = [f"- {words}" for rule in component.rules if (words := _in_words(rule))]
    if lines:
        yield "# Rules for the whole"
        yield from lines


def _children(blueprint: Blueprint, component: Component) -> Iterator[str]:
    if not component.children:
        return
    yield "# Children"
    yield (
        "Make them with add_child, in the order in which they belong. Describe what each is about, where it has "
        "metadata; the rest of it is left to an agent of its own."
    )
    for name, count in component.children.items():
        description = blueprint.spec.components[name].description
        yield f"- {name}, {_how_many(count)}{': ' if description else ''}{description}"


def _finish(gated: bool) -> str:
    if not gated:
        return "# To finish\nCall done with a summary of one or two sentences for whoever reads the whole document."
    return (
        "# To finish\nvalidate says at any time which rules do not hold yet. When nothing is left to do, call done "
        "with a summary of one or two sentences for whoever reads the whole document. While a rule does not hold, done "
        "says which, and you go on."
    )


def _kind(spec: FieldSpec) -> str:
    match spec:
        case NumberField():
            return "whole number" if spec.integer else "number"
        case BooleanField():
            return "true or false"
        case ChoiceField():
            return f"one of {', '.join(spec.options)}"
        case ReferenceField():
            return f"path of {with_article(spec.to)}"
        case ListField():
            each = ", ".join([_kind(spec.items), *_constraints(spec.items)])
            return f"list (each item: {each})"
    return spec.type


def _constraints(spec: FieldSpec) -> list[str]:
    match spec:
        case TextField():
            pattern = [] if spec.pattern is None else [f"of the pattern `{spec.pattern}`"]
            return [*_between(spec.min_length, spec.max_length, " characters"), *pattern]
        case NumberField():
            return _between(spec.min, spec.max)
        case ListField():
            return [*_between(spec.min_items, spec.max_items, " items"), *(["no item twice"] if spec.unique else [])]
        case DateField():
            after = [] if spec.after is None else [f"after {spec.after}"]
            return [*after, *([] if spec.before is None else [f"before {spec.before}"])]
    return []


def _between(least: float | None, most: float | None, unit: str = "") -> list[str]:
    if least is not None and most is not None:
        return [f"{as_text(least)} to {as_text(most)}{unit}"]
    if least is not None:
        return [f"at least {as_text(least)}{unit}"]
    return [] if most is None else [f"at most {as_text(most)}{unit}"]


def _how_many(count: ChildCount) -> str:
    return (_between(count.min or None, count.max) or ["any number"])[0]


def _in_words(rule: BlueprintRule) -> str:
    """The text of a rule that is no guideline; empty for a function without a message, which cannot be described."""
    if rule.message:
        return rule.message
    if rule.cel is not None:
        return f"This holds: `{rule.cel}`."
    return "" if rule.evidence is None else f"What your tools really did must show it: `{rule.evidence}`."
