"""The inputs of an agent's prompt, from document and blueprint, and which of them have changed since."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from mcc.documents.blueprint import Blueprint
from mcc.documents.formulas import Binding
from mcc.documents.node import Node, Role, Stamp
from mcc.documents.prompts import frame_of
from mcc.documents.state import DocumentState

Inputs: TypeAlias = Mapping[str, Any]
"""By name. "brief", "instructions" and "describe lesson" have digests; a node's id with the name of one of its fields
or `position` has the value (a long one: its beginning and a digest). Ids, because paths change when nodes move."""

_KEPT = 200
_SHOWN = 60


def inputs_of(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> Inputs:
    inputs: dict[str, Any] = {
        "brief": _digest(state.brief) if state.brief else "",
        "instructions": frame_of(blueprint, node.component, role).digest.hex(),
    }
    for ancestor in state.ancestors(node):
        template = blueprint.component(ancestor.component).describe
        inputs[f"describe {ancestor.component}"] = _digest(template.source)
        for name in template.names:
            inputs[f"{ancestor.id} {name}"] = _stored(_value(state, ancestor, name))
    for owner, name in _own_fields(blueprint, state, node, role):
        inputs[f"{owner.id} {name}"] = _stored(_value(state, owner, name))
    return inputs


def changes_since(blueprint: Blueprint, state: DocumentState, node: Node, role: Role, stamp: Stamp) -> Iterator[str]:
    """The inputs that changed since the stamp, such as "/ metadata.grade, 7 → 8 at version 42"; none where the stamp
    has no inputs."""
    if not stamp.inputs:
        return
    today = inputs_of(blueprint, state, node, role)
    if {key for key in stamp.inputs if " " in key and not key.startswith("describe ")} - today.keys():
        yield "its place in the document"
    for name, value in today.items():
        before = stamp.inputs.get(name)
        if name in stamp.inputs and before == value:
            continue
        if name == "brief":
            yield "the brief"
        elif name == "instructions":
            yield f"what the blueprint says of {node.component}"
        elif name.startswith("describe "):
            yield f"how the blueprint describes {name.removeprefix('describe ')}"
        elif name in stamp.inputs:
            yield _changed(state, name, f"{_shortened(before)} → {_shortened(value)}")
        else:
            yield _changed(state, name, f"now {_shortened(value)}")


def _own_fields(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> Iterator[tuple[Node, str]]:
    """The fields behind the node's own part of the task, each with the node (itself or its parent) that has it."""
    parent = state.parent(node)
    fields = blueprint.component(node.component).fields
    for name in frame_of(blueprint, node.component, role).known:
        computation = fields[name].computation
        if computation is None:
            yield node, name
        elif isinstance(computation, Binding):
            for read in computation.reads:
                if read == "position":
                    yield node, read
                elif read.startswith("parent.") and parent is not None:
                    yield parent, read.removeprefix("parent.")


def _changed(state: DocumentState, name: str, how: str) -> str:
    id, _, field = name.partition(" ")
    owner = state.nodes[id]
    provenance = owner.provenance.get(field)
    version = owner.version if provenance is None else provenance.version
    return f"{state.path(owner)} {field}, {how} at version {version}"


def _value(state: DocumentState, node: Node, name: str) -> Any:
    return state.position(node) if name == "position" else node.value(name)


def _shortened(value: object) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _stored(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _KEPT else f"{text[:_KEPT]}… {_digest(text)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
