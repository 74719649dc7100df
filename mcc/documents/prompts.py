"""The prompts of node agents: a part fixed by the component, descriptions of the ancestors, the node's own values."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from mcc.contracts.fence import fenced
from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent
from mcc.documents.instructions import system_prompt, task_end
from mcc.documents.node import Node, Role
from mcc.documents.state import DocumentState
from mcc.documents.templates import TooLong
from mcc.documents.tools import ToolSchema, metadata_tools, node_tools

VALUE_CHARACTERS = 8_000
"""Most characters of one value, and of one node's description, in a prompt."""

VALUES_CHARACTERS = 60_000
"""Most characters of all values of a node together, and of all ancestor descriptions; each gets an equal share."""

_LEAST = 200

FRAMES = 512
"""Size of the cache of frames."""

_SEED = "document"


@dataclass(frozen=True, slots=True)
class PromptFrame:
    """The parts of a prompt that are the same for all nodes of a component. `known` are the node's own fields shown in
    the task, `end` is the end of the task. `digest` covers all parts but `known`, and the names of the other tool
    groups that the agent may use."""

    system: str
    tools: tuple[ToolSchema, ...]
    end: str
    known: tuple[str, ...]
    digest: bytes


@lru_cache(maxsize=FRAMES)
def frame_of(blueprint: Blueprint, component: str, role: Role) -> PromptFrame:
    compiled = blueprint.component(component)
    system = system_prompt(blueprint, compiled, role)
    tools = metadata_tools(compiled) if role == "metadata" else node_tools(blueprint, compiled)
    end = task_end(compiled, role)
    schemas = [[tool.name, tool.description, tool.parameters] for tool in tools]
    whole = json.dumps([system, schemas, compiled.settings.tools, end])
    return PromptFrame(system, tools, end, _known(compiled, role), sha256(whole.encode()).digest())


def task_opening(brief: str, ancestors: Sequence[str]) -> str:
    """The first part of the task, the same for all children of one node: the brief, and the ancestors' descriptions.

    `ancestors` are the results of `describe`, from the root down; empty for the root's own task.
    """
    parts = [f"# The brief\n{brief}\n\n"] if brief else []
    if ancestors:
        share = _share(len(ancestors))
        chain = fenced("\n".join(_cut(ancestor, share) for ancestor in ancestors), _SEED)
        parts.append(f"# What it is part of, from the whole down\n{chain}\n\n")
    return "".join(parts)


class TaskPrefix:
    """The partly computed prompt digest of tasks that share their first part, which is hashed only once."""

    __slots__ = ("_digested",)

    def __init__(self, text: str) -> None:
        self._digested = sha256(_bytes(text))

    def digest(self, own: str, frame: PromptFrame) -> str:
        """The digest of the prompt whose task continues with `own` and the end of the frame."""
        whole = self._digested.copy()
        whole.update(_bytes(own))
        whole.update(frame.digest)
        return f"sha256:{whole.hexdigest()}"


def describe(blueprint: Blueprint, state: DocumentState, node: Node) -> str:
    """The description of a node by its component's template, shown to the agents of all its descendants."""
    component = blueprint.component(node.component)
    try:
        return _cut(component.describe.text(_lookup(state, node)))
    except TooLong:
        return f"{component.name} (its own description is too long to be shown)"


def own_part(frame: PromptFrame, node: Node) -> str:
    """The node's own part of a task: those of its fields that are settled before its agent runs."""
    lines = "\n".join(value_lines(node, frame.known))
    return f"# What is settled about it\n{fenced(lines, _SEED)}\n\n" if lines else ""


def value_lines(node: Node, names: Collection[str]) -> Iterator[str]:
    """One line for each of these fields that has a value, shortened to its share of `VALUES_CHARACTERS`."""
    values = [(name, value) for name in names if (value := node.value(name)) is not None]
    share = _share(len(values))
    for name, value in values:
        yield f"- {name}: {_cut(json.dumps(value, ensure_ascii=False), share)}"


def _share(count: int) -> int:
    return max(_LEAST, min(VALUE_CHARACTERS, VALUES_CHARACTERS // max(count, 1)))


def _cut(text: str, most: int = VALUE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}… (cut here: {len(text):,} characters)"


def _lookup(state: DocumentState, node: Node) -> Callable[[str], Any]:
    def named(name: str) -> Any:
        value = state.position(node) if name == "position" else node.value(name)
        return _cut(value) if isinstance(value, str) else value

    return named


def _known(component: CompiledComponent, role: Role) -> tuple[str, ...]:
    """The fields that are settled before the agent runs. For the node agent: metadata, and fields computed from it,
    from the parent and from the position; for the metadata agent: fields computed from parent and position only.
    Fields that the agent itself sets, and fields computed from those, are left out."""
    made = {field.name for field in component.fields.values() if role == "node" and field.section == "metadata"} - {
        field.name for field in component.computed
    }
    for field in component.computed:
        assert field.computation is not None
        reads = (name for name in field.computation.reads if not name.startswith("parent.") and name != "position")
        if made.issuperset(reads):
            made.add(field.name)
    return tuple(name for name in component.fields if name in made)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
