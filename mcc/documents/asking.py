"""What the agents of a node are asked with: the words that are a component's, those of its ancestors, its own."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from mcc.contracts.fence import fenced
from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent
from mcc.documents.instructions import system_prompt, to_do
from mcc.documents.node import Node, Role
from mcc.documents.state import State
from mcc.documents.templates import TooLong
from mcc.documents.tools import ToolSchema, metadata_tools, node_tools

VALUE_CHARACTERS = 8_000
"""So much of one value is told, and of what one node says of itself, at most."""

VALUES_CHARACTERS = 60_000
"""So much of all values of a node together, and of what all its ancestors say: each has its share."""

_LEAST = 200

FRAMES = 512
"""Components of which the unchanging part is kept."""

_SEED = "document"


@dataclass(frozen=True, slots=True)
class Frame:
    """What is the same for all nodes of a component. `known` are its own fields that stand in the task, `end` is the
    task's end; `digest` is that of all but `known`, and of the names of the other tools that the agent may have."""

    system: str
    tools: tuple[ToolSchema, ...]
    end: str
    known: tuple[str, ...]
    digest: bytes


@lru_cache(maxsize=FRAMES)
def frame_of(blueprint: Blueprint, component: str, role: Role) -> Frame:
    compiled = blueprint.component(component)
    system = system_prompt(blueprint, compiled, role)
    tools = metadata_tools(compiled) if role == "metadata" else node_tools(blueprint, compiled)
    end = to_do(compiled, role)
    schemas = [[tool.name, tool.description, tool.parameters] for tool in tools]
    whole = json.dumps([system, schemas, compiled.settings.tools, end])
    return Frame(system, tools, end, _known(compiled, role), sha256(whole.encode()).digest())


def beginning(brief: str, ancestors: Sequence[str]) -> str:
    """How the tasks of all children of one node begin: the document's brief, and what the ancestors say of themselves.

    `ancestors` is what `describe` gave of each, from the root down; there are none above the root.
    """
    parts = [f"# The brief\n{brief}\n\n"] if brief else []
    if ancestors:
        share = _share(len(ancestors))
        chain = fenced("\n".join(_cut(one, share) for one in ancestors), _SEED)
        parts.append(f"# What it is part of, from the whole down\n{chain}\n\n")
    return "".join(parts)


class Begun:
    """The digest of a task, of which this is the beginning."""

    __slots__ = ("_digested",)

    def __init__(self, text: str) -> None:
        self._digested = sha256(_bytes(text))

    def asked(self, own: str, frame: Frame) -> str:
        """The digest of what an agent is asked with whose task goes on with `own`."""
        whole = self._digested.copy()
        whole.update(_bytes(own))
        whole.update(frame.digest)
        return f"sha256:{whole.hexdigest()}"


def describe(blueprint: Blueprint, state: State, node: Node) -> str:
    """What a node says of itself to all agents below it."""
    component = blueprint.component(node.component)
    try:
        return _cut(component.describe.text(_lookup(state, node)))
    except TooLong:
        return f"{component.name} (what it says of itself is too long to be told)"


def settled(frame: Frame, node: Node) -> str:
    """The part of a task that is the node's own: those of its fields that are settled before its agent begins."""
    lines = "\n".join(value_lines(node, frame.known))
    return f"# What is settled of it\n{fenced(lines, _SEED)}\n\n" if lines else ""


def value_lines(node: Node, names: Collection[str]) -> Iterator[str]:
    """A line for each of these fields that has a value."""
    values = [(name, value) for name in names if (value := field_of(node, name)) is not None]
    share = _share(len(values))
    for name, value in values:
        yield f"- {name}: {_cut(json.dumps(value, ensure_ascii=False), share)}"


def field_of(node: Node, name: str) -> Any:
    """The value of "props.title"; None where it is unset."""
    section, _, key = name.partition(".")
    return (node.metadata if section == "metadata" else node.props).get(key)


def _share(count: int) -> int:
    return max(_LEAST, min(VALUE_CHARACTERS, VALUES_CHARACTERS // max(count, 1)))


def _cut(text: str, most: int = VALUE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}… (cut here: {len(text):,} characters)"


def _lookup(state: State, node: Node) -> Callable[[str], Any]:
    def named(name: str) -> Any:
        value = state.position(node) if name == "position" else field_of(node, name)
        return _cut(value) if isinstance(value, str) else value

    return named


def _known(component: CompiledComponent, role: Role) -> tuple[str, ...]:
    """Own metadata, and what follows from it and from the parent; of the metadata's agent what follows from the parent
    alone. What the agent sets, and what follows from that, it is not asked with."""
    made = {field.name for field in component.fields.values() if role == "node" and field.section == "metadata"} - {
        field.name for field in component.computed
    }
    for field in component.computed:
        assert field.computation is not None
        own = (name for name in field.computation.reads if not name.startswith("parent.") and name != "position")
        if made.issuperset(own):
            made.add(field.name)
    return tuple(name for name in component.fields if name in made)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
