"""Blueprints for tests: the course of the reference, and short ones, with helpers that build nodes and states."""

import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcc.documents import Blueprint, BlueprintError
from mcc.documents.component import CompiledComponent, computed
from mcc.documents.formulas import NodeContext
from mcc.documents.judging import judge
from mcc.documents.node import Node, RuleVerdict
from mcc.documents.state import DocumentState

COURSE = Path(__file__).with_name("course.yaml").read_text("utf-8")


def course() -> Blueprint:
    return Blueprint.parse(COURSE, "course.yaml")


def changed(*pairs: tuple[str, str]) -> str:
    """The course with texts replaced by others; line numbers stay the same."""
    text = COURSE
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    return text


def problems(text: str) -> dict[str, str]:
    """The problems of a blueprint's text: messages by "line place", where each pair must be unique."""
    try:
        Blueprint.parse(text, "course.yaml")
    except BlueprintError as error:
        found = {f"{one.line} {one.place}": one.message for one in error.problems}
        assert len(found) == len(error.problems)
        return found
    return {}


AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def blueprint(component: str, more: str = "") -> Blueprint:
    """A blueprint whose root component has this YAML body, with `more` components."""
    body = textwrap.indent(textwrap.dedent(component), "    ")
    rest = textwrap.indent(textwrap.dedent(more), "  ")
    return Blueprint.parse(f"blueprint: x\nroot: a\ncomponents:\n  a:\n{body}\n{rest}")


def node(made: Blueprint, component: str, id: str = "root", parent: str | None = None, **values: Any) -> Node:
    """A node with these values and all other fields unset; `metadata__topic` names a metadata field."""
    fields = made.component(component).fields.values()
    metadata = {one.key: values.pop(f"metadata__{one.key}", None) for one in fields if one.section == "metadata"}
    props = {one.key: values.pop(one.key, None) for one in fields if one.section == "props"}
    assert not values, values
    key = "" if parent is None else f"{component}-{id}"
    return Node(id, parent, key, component, float(len(id)), 1, metadata, props)


def state(made: Blueprint, *nodes: Node, version: int = 1) -> DocumentState:
    return DocumentState.of("document", made.digest, "A document", version, nodes)


def verdicts(made: Blueprint, *nodes: Node, id: str = "root", **more: Any) -> dict[str, RuleVerdict]:
    """The verdicts on one of the nodes, by rule id."""
    return {one.rule: one for one in judge(made, state(made, *nodes), id, version=7, **more)}


def broken(made: Blueprint, **values: Any) -> dict[str, str]:
    """The messages of broken rules on a root with these values."""
    found = verdicts(made, node(made, made.spec.root, **values))
    return {rule: one.message for rule, one in found.items() if one.ok is False}


def recomputed(component: CompiledComponent, context: NodeContext) -> NodeContext:
    """The context with all formulas and bindings recomputed, in evaluation order."""
    metadata, props = dict(context.metadata), dict(context.props)
    made = NodeContext(metadata, props, context.parent, context.position)
    for field in component.computed:
        (metadata if field.section == "metadata" else props)[field.key] = computed(field, made).value
    return made
