"""Commands as tool schemas for the models of node agents, metadata agents and chat agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from mcc.contracts.blueprints import ChoiceField, Component, FieldSpec, ListField, NumberField, ReferenceField
from mcc.documents.blueprint import Blueprint
from mcc.documents.commands import AddChild, MoveChild, RemoveChild, SetMetadata, SetValue
from mcc.documents.component import CompiledComponent
from mcc.documents.instructions import with_article

Schema: TypeAlias = dict[str, Any]
Schemas: TypeAlias = Mapping[str, Schema]

READING = ("read_document", "describe_component")
"""Read-only tools of chat agents (group `document_read`); the others are commands (`document_write`)."""

_PARAMETERS: Schema = {"type": "object", "additionalProperties": False}
_POSITION: Schema = {"type": "integer", "minimum": 1}
_NODE = "Path of a node, such as /lesson-2, or its id."


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def node_tools(blueprint: Blueprint, component: CompiledComponent) -> tuple[ToolSchema, ...]:
    """The tools of the agent of a node of `component`, bound to that node.

    They depend on the blueprint only, so that prompts can be cached: a field that is held at present is still listed.
    """
    made: list[ToolSchema] = []
    here = f"this {component.name}"
    if values := settable(component.spec.properties):
        made.append(_tool(SetValue, {"values": _object(values, at_least=1)}, here))
    if children := {name: blueprint.spec.components[name] for name in component.spec.children}:
        below = {"node": {"type": "string", "description": f"Path of a child of {here}."}}
        made.append(_tool(AddChild, _child(children), here))
        made.append(_tool(RemoveChild, below, here))
        made.append(_tool(MoveChild, {**below, "position": _POSITION}, here))
    return tuple(made)


def metadata_tools(component: CompiledComponent) -> tuple[ToolSchema, ...]:
    """The tool `set_metadata`; none where all metadata is computed."""
    values = settable(component.spec.metadata)
    schemas = {"values": _object(values, at_least=1)}
    return (_tool(SetMetadata, schemas, f"this {component.name}"),) if values else ()


def chat_tools(blueprint: Blueprint) -> tuple[ToolSchema, ...]:
    """The tools of a chat agent: all visible commands, and two that read."""
    components = blueprint.spec.components
    node: Schema = {"type": "string", "description": _NODE}
    values: Schema = {"type": "object", "description": "By name; describe_component tells which there are."}
    some: Schema = {**values, "minProperties": 1}
    whose: Schema = {"enum": list(components)}
    below: Schema = {
        "enum": [name for name in components if any(name in component.children for component in components.values())]
    }
    tools = [
        _tool(SetValue, {"node": node, "values": some}),
        _tool(SetMetadata, {"node": node, "values": some}),
        _tool(RemoveChild, {"node": node}),
        _tool(MoveChild, {"node": node, "position": _POSITION, "parent": {**node, "type": ["string", "null"]}}),
        ToolSchema(
            "read_document",
            "Read the document, or a node and what is below it.",
            {**_PARAMETERS, "required": [], "properties": {"node": node, "depth": {"type": "integer", "minimum": 0}}},
        ),
        ToolSchema(
            "describe_component",
            "Read what a component is: its fields, their rules, its children.",
            {**_PARAMETERS, "required": ["component"], "properties": {"component": whose}},
        ),
    ]
    if below["enum"]:
        schemas = {"node": node, "component": below, "metadata": values, "values": values, "position": _POSITION}
        tools.insert(2, _tool(AddChild, schemas))
    return tuple(tools)


def settable(fields: Mapping[str, FieldSpec]) -> Schemas:
    """By name, the schema of each field that is not computed; null unsets the value."""
    return {
        name: _with_description(spec, _kind(spec, or_null=True)) for name, spec in fields.items() if not spec.computed
    }


def _tool(command: type[BaseModel], schemas: Schemas, here: str = "") -> ToolSchema:
    """A command as a tool: `schemas` has the fields that the model gives; `here` names the node it is bound to."""
    fields = {name: field for name, field in command.model_fields.items() if name in schemas}
    required = [name for name, field in fields.items() if field.is_required()]
    description = (command.__doc__ or "").partition("\n\n")[0].replace("this node", here or "a node")
    return ToolSchema(
        command.model_fields["command"].default,
        description,
        {**_PARAMETERS, "required": required, "properties": {name: schemas[name] for name in fields}},
    )


def _object(values: Schemas, at_least: int = 0) -> Schema:
    least = {"minProperties": at_least} if at_least else {}
    return {"type": "object", "additionalProperties": False, **least, "properties": dict(values)}


def _child(children: Mapping[str, Component]) -> Schemas:
    """What a parent's agent gives for a new child; the child's own agent sets everything but the metadata."""
    schemas: dict[str, Schema] = {"component": {"enum": list(children)}, "position": _POSITION}
    metadata = [
        {"description": f"Of {with_article(name)}.", **_object(values)}
        for name, component in children.items()
        if (values := settable(component.metadata))
    ]
    if metadata:
        schemas["metadata"] = metadata[0] if len(metadata) == 1 else {"anyOf": metadata}
    return schemas


def _with_description(spec: FieldSpec, schema: Schema) -> Schema:
    sentences = [spec.description]
    about = spec.items if isinstance(spec, ListField) else spec
    if isinstance(about, ReferenceField):
        sentences.append(
            f"Path of {with_article(about.to)}." if about is spec else f"Each item: path of {with_article(about.to)}."
        )
    if about.type == "date":
        sentences.append(f"{'A date' if about is spec else 'Each item: a date'} such as 2026-01-31.")
    text = " ".join(sentence for sentence in sentences if sentence)
    return {**schema, "description": text} if text else schema


def _kind(spec: FieldSpec, or_null: bool = False) -> Schema:
    """The JSON type of a field. Rules are left out of it: they are described in words, and judged."""
    match spec:
        case ListField():
            return {"type": _type("array", or_null), "items": _kind(spec.items)}
        case ChoiceField():
            return {"type": _type("string", or_null), "enum": [*spec.options, *([None] if or_null else [])]}
        case NumberField():
            return {"type": _type("integer" if spec.integer else "number", or_null)}
    return {"type": _type("boolean" if spec.type == "boolean" else "string", or_null)}


def _type(name: str, or_null: bool) -> Any:
    return [name, "null"] if or_null else name
