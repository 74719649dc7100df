"""One dispatch under way: the draft, who changes it, what was touched, and what is to be told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from mcc.contracts.documents import By
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Refused, Step
from mcc.documents.commands import Judged
from mcc.documents.component import CompiledComponent, CompiledField
from mcc.documents.node import Accepted, Conflict, Node, Provenance, Role
from mcc.documents.state import Draft, State, UnknownNode
from mcc.rules.errors import nearest

ALL = "*"
"""Among touched fields: each of them, and the place in the tree too."""

POSITION = "position"

GENERATORS: frozenset[By] = frozenset({"agent", "metadata_agent", "outline"})
"""Who leaves alone what people hold."""

PROVENANCE: TypeAdapter[Provenance | None] = TypeAdapter(Provenance | None)
CONFLICTS: TypeAdapter[Mapping[str, Conflict]] = TypeAdapter(Mapping[str, Conflict])
NODE: TypeAdapter[Node] = TypeAdapter(Node)
"""Between a node and plain JSON, everything that it holds."""


class Work:
    """`version` is the one that is being made. `touched`: fields by node of which computed ones may follow; `made`: new
    nodes; `said`: what rules said, by node, that dispatch does not judge; `answered`: the nodes, and which of their
    agents, whose question somebody answered in an agent's place, and whether an older stamp is replaced; `brief`: the
    new one, if there is one."""

    def __init__(self, blueprint: Blueprint, state: State, author: Author, own: Sequence[Step] = ()) -> None:
        self.blueprint = blueprint
        self.base = state
        self.draft = Draft(state)
        self.author = author
        self.own = own
        self.version = state.version + 1
        self.index = 0
        self.touched: dict[str, set[str]] = {}
        self.made: dict[str, None] = {}
        self.said: dict[str, dict[str, Judged]] = {}
        self.answered: dict[tuple[str, Role], bool] = {}
        self.brief: str | None = None
        self.steps: list[Step] = []

    @property
    def state(self) -> State:
        return self.draft.state

    def find(self, named: str) -> Node:
        """Raises `Refused` (404)."""
        try:
            return self.state.find(named)
        except UnknownNode as error:
            raise Refused(404, str(error)) from None

    def component(self, node: Node) -> CompiledComponent:
        return self.blueprint.component(node.component)

    def field(self, node: Node, name: str) -> CompiledField:
        """The field of this full name that somebody may set. Raises `Refused` (422)."""
        fields = self.component(node).fields
        if name not in fields:
            section, _, key = name.partition(".")
            other, command = ("props", "set_value") if section == "metadata" else ("metadata", "set_metadata")
            elsewhere = f"; {other}.{key} is set by {command}" if f"{other}.{key}" in fields else ""
            raise Refused(422, f"a {node.component} has no {name[:100]}{elsewhere or nearest(name, fields)}")
        if fields[name].computation is not None:
            how = "formula" if fields[name].spec.formula is not None else "binding"
            raise Refused(422, f"{name} of a {node.component} is made by its {how}; nobody sets it")
        return fields[name]

    def change(self, node: Node, touched: set[str], **fields: Any) -> Node:
        """The node changed by a command; returns it as it is now."""
        changed = replace(node, version=self.version, **fields)
        self.draft.put(changed)
        self.touch(node.id, touched)
        return changed

    def touch(self, id: str, fields: set[str]) -> None:
        self.touched.setdefault(id, set()).update(fields)

    def say(self, node: Node, verdicts: Sequence[Judged]) -> None:
        self.said.setdefault(node.id, {}).update({one.rule: one for one in verdicts})

    def provenance(self, node: Node, before: Provenance | None, value: Any) -> Provenance:
        """Of a value that the author sets."""
        author = self.author
        accepted = before.accepted if before is not None and author.by == "chat" and value is not None else None
        if author.by == "person" and value is not None:
            accepted = Accepted(self.version, author.principal or author.by)
        return Provenance(
            by=author.by,
            version=self.version,
            at=author.at,
            order_id=author.order_id,
            record_id=author.record_id,
            principal=author.principal,
            asked=author.asked,
            rules=author.rules or self.component(node).rules_digest,
            accepted=accepted,
        )

    def step(
        self,
        command: str,
        node: str,
        fields: Mapping[str, tuple[Any, Any]] | None = None,
        undo: Mapping[str, Any] | None = None,
        *,
        removed: bool = False,
    ) -> None:
        """Keep in the history what the command did to the node of this path."""
        author = self.author
        self.steps.append(
            Step(
                version=self.version,
                index=self.index,
                at=author.at,
                by=author.by,
                command=command,
                node=node,
                fields=fields or {},
                principal=author.principal,
                order_id=author.order_id,
                record_id=author.record_id,
                removed=removed,
                undo={**(undo or {}), "blueprint": self.base.blueprint},
            )
        )
