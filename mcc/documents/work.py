"""The unit of work of one dispatch: the draft, its author, and what the commands did so far."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from mcc.contracts.documents import By
from mcc.contracts.similar import did_you_mean
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, DispatchRefused, Step
from mcc.documents.commands import Judge, Judged
from mcc.documents.component import CompiledComponent, CompiledField
from mcc.documents.node import Accepted, FieldConflict, Node, Provenance, Role
from mcc.documents.state import DocumentState, StateDraft, UnknownNode

ALL = "*"
"""As a touched field: all fields of the node, and its place in the tree."""

POSITION = "position"

GENERATORS: frozenset[By] = frozenset({"agent", "metadata_agent", "outline"})
"""Authors that may not change what people hold."""

PROVENANCE: TypeAdapter[Provenance | None] = TypeAdapter(Provenance | None)
CONFLICTS: TypeAdapter[Mapping[str, FieldConflict]] = TypeAdapter(Mapping[str, FieldConflict])
NODE: TypeAdapter[Node] = TypeAdapter(Node)
"""Converts a whole node to plain JSON and back."""


class DispatchWork:
    """`version` is the one that the dispatch makes, `own` the earlier steps of the author's principal.

    By node id: `touched` has the changed fields, which computed fields may depend on; `made` the new nodes in order;
    `given_verdicts` verdicts that came with commands, as dispatch cannot judge those rules itself. `to_stamp`: nodes
    and roles whose values somebody set in the agent's place, with whether an existing stamp is replaced. `brief`: the
    document's new brief, if it gets one."""

    def __init__(self, blueprint: Blueprint, state: DocumentState, author: Author, own: Sequence[Step] = ()) -> None:
        self.blueprint = blueprint
        self.base = state
        self.draft = StateDraft(state)
        self.author = author
        self.own = own
        self.version = state.version + 1
        self.index = 0
        self.touched: dict[str, set[str]] = {}
        self.made: dict[str, None] = {}
        self.given_verdicts: dict[str, dict[str, Judged]] = {}
        self.to_stamp: dict[tuple[str, Role], bool] = {}
        self.brief: str | None = None
        self.steps: list[Step] = []

    @property
    def state(self) -> DocumentState:
        return self.draft.state

    def find(self, named: str) -> Node:
        """The node of this path or id. Raises `DispatchRefused` (404)."""
        try:
            return self.state.find(named)
        except UnknownNode as error:
            raise DispatchRefused(404, str(error)) from None

    def component(self, node: Node) -> CompiledComponent:
        return self.blueprint.component(node.component)

    def field(self, node: Node, name: str) -> CompiledField:
        """The field of this full name. Raises `DispatchRefused` (422) where there is none or it is computed."""
        fields = self.component(node).fields
        if name not in fields:
            section, _, key = name.partition(".")
            other, command = ("props", "set_value") if section == "metadata" else ("metadata", "set_metadata")
            elsewhere = f"; {other}.{key} is set by {command}" if f"{other}.{key}" in fields else ""
            raise DispatchRefused(
                422, f"a {node.component} has no {name[:100]}{elsewhere or did_you_mean(name, fields)}"
            )
        if fields[name].computation is not None:
            how = "formula" if fields[name].spec.formula is not None else "binding"
            raise DispatchRefused(422, f"{name} of a {node.component} is made by its {how}; nobody sets it")
        return fields[name]

    def change(self, node: Node, touched: set[str], **fields: Any) -> Node:
        """Replace fields of the node, as a command does: its version is raised. Answers the new node."""
        changed = replace(node, version=self.version, **fields)
        self.draft.put(changed)
        self.touch(node.id, touched)
        return changed

    def touch(self, id: str, fields: set[str]) -> None:
        self.touched.setdefault(id, set()).update(fields)

    def add_verdicts(self, node: Node, verdicts: Sequence[Judged]) -> None:
        self.given_verdicts.setdefault(node.id, {}).update({one.rule: one for one in verdicts})

    def provenance(self, node: Node, before: Provenance | None, value: Any) -> Provenance:
        """The provenance of a value that the author sets now; `before` is that of the value it replaces."""
        author = self.author
        # A chat agent works for a person: a held value that it replaces stays held.
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
        """Record what the command did to the node of this path."""
        author = self.author
        judged = command == Judge.model_fields["command"].default
        self.steps.append(
            Step(
                version=self.version,
                index=self.index,
                at=author.at,
                # Whoever caused the rules to be judged did not give the verdict.
                by="rule" if judged else author.by,
                command=command,
                node=node,
                fields=fields or {},
                principal=None if judged else author.principal,
                door=None if judged else author.door,
                token_id=None if judged else author.token_id,
                order_id=author.order_id,
                record_id=author.record_id,
                removed=removed,
                undo={**(undo or {}), "blueprint": self.base.blueprint},
            )
        )
