"""A node of a document: its values, where each came from, what the rules say of them, and how its last run ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from mcc.contracts.documents import By as By
from mcc.contracts.documents import RuleKind as RuleKind

Role: TypeAlias = Literal["node", "metadata"]
"""Which of the two agents of a node."""

ROOT = "/"


@dataclass(frozen=True, slots=True)
class Accepted:
    version: int
    principal: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who set a value, at which version. `asked` is the digest of what the agent was asked with, `rules` that of the
    component's rules then. `sources` are the fields that a formula or binding was made of, as "/path metadata.name".
    `restores`: the version at which the value was first given, where an undo or redo brought it back.
    """

    by: By
    version: int
    at: datetime
    order_id: str | None = None
    record_id: str | None = None
    principal: str | None = None
    asked: str | None = None
    rules: str | None = None
    accepted: Accepted | None = None
    sources: tuple[str, ...] = ()
    restores: int | None = None

    @property
    def given(self) -> int:
        """The version at which somebody gave this very value."""
        return self.version if self.restores is None else self.restores

    @property
    def held(self) -> bool:
        """Whether generation leaves the value alone: a person set it, or accepted it."""
        return self.accepted is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` None: nobody could judge it, or nobody does (guidelines); `message` says why."""

    rule: str
    kind: RuleKind
    ok: bool | None
    message: str
    version: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """A held field whose node has become stale."""

    since: int
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """How the last run of the node's agents ended without a pass."""

    reason: str
    message: str
    errors: tuple[Mapping[str, Any], ...]
    record_id: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an agent of the node was asked with when it last ran, or what it would have been asked when a person took
    its place. `inputs`: what of the document and the blueprint went into the question, by name ("/ metadata.grade",
    "rules", "brief" …), each with its value or its digest."""

    asked: str
    inputs: Mapping[str, Any]
    version: int
    rules: str | None = None
    order_id: str | None = None
    record_id: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """`key` is its part of the path (component and a number never used again under that parent); "" for the root.

    `version` is that of the document at which a command last changed it: a value, its children's list, its place, how
    its agent's run ended. What only follows (formulas, bindings, verdicts, conflicts) leaves it, so that nobody's edit
    is refused for it; `made_by` says who added the node.

    `rank` orders it among its siblings. `metadata` and `props` have every field of the component, None where unset.
    `provenance` is by field ("props.title", "metadata.focus"). `next_numbers`: by component of its children, the number
    of the next one. `conflicts` is by field.
    """

    id: str
    parent_id: str | None
    key: str
    component: str
    rank: float
    version: int
    metadata: Mapping[str, Any]
    props: Mapping[str, Any]
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    conflicts: Mapping[str, Conflict] = field(default_factory=dict)
    stamps: Mapping[Role, Stamp] = field(default_factory=dict)
    next_numbers: Mapping[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    summary: str = ""
    made_by: By = "agent"
