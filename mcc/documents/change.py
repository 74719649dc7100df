"""Input and output of a dispatch beside the commands: the author, the change with its steps, and the refusal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from mcc.contracts.callers import Actor
from mcc.contracts.documents import By, StepBy
from mcc.contracts.journal import DocumentChanged
from mcc.documents.node import Node
from mcc.documents.state import DocumentState

Status: TypeAlias = Literal[404, 409, 422]


class DispatchRefused(Exception):
    """The dispatch was refused and nothing changed. 404: no such node; 409: the document has changed; 422: not allowed.

    `sentences` are the reasons, one each. A 409 caused by `expected_version` also has the document's `version` and in
    `changed` the paths of the addressed nodes that changed since.
    """

    def __init__(
        self, status: Status, *sentences: str, version: int | None = None, changed: tuple[str, ...] = ()
    ) -> None:
        # Callers join the sentences and add the full stop themselves.
        self.sentences = tuple(sentence.removesuffix(".") for sentence in sentences)
        super().__init__("; ".join(self.sentences))
        self.status = status
        self.version = version
        self.changed = changed


@dataclass(frozen=True, slots=True)
class Author:
    """Who sends commands, and when. `node` (path or id) restricts an agent to setting that node's values and changing
    its list of children. `asked` and `rules`, the digests of the agent's prompt and of its component's rules, become
    part of the provenance of the values it sets. `principal` is the person, also the one for whom a chat agent works;
    `door` and `token_id`: which way a person's commands came (`Actor`).
    """

    by: By
    at: datetime
    principal: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    node: str | None = None
    asked: str | None = None
    rules: str | None = None
    door: str | None = None
    token_id: str | None = None

    @classmethod
    def of(cls, actor: Actor, at: datetime) -> "Author":
        """A person, or a program in a person's place."""
        return cls("person", at, actor.principal, door=actor.door, token_id=actor.token_id)


@dataclass(frozen=True, slots=True)
class Step:
    """The history entry of a command applied to one node; an undo or redo makes one for each node that it touches.

    `index` is the command's index in its dispatch. `node` is the path, for a removed node its last one. `fields` has
    the values before and after. `undo` is opaque plain JSON that undoing the step needs; store it with the step.
    `removed`: the command removed nodes, which undoing it must be given (`dispatch(removed=…)`).
    """

    version: int
    index: int
    at: datetime
    by: StepBy
    command: str
    node: str
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict, repr=False)
    principal: str | None = None
    door: str | None = None
    token_id: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    command_id: str | None = None
    removed: bool = False
    undo: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a dispatch: the new state, the rows to write and the steps of the history.

    `version` is the document's version afterwards, unchanged (and `steps` empty) when nothing changed. `changed` and
    `made` are paths after the change: `made` the new nodes, `changed` the other ones whose values, children or place
    changed, directly or as a consequence. `nodes` has every node with any change (verdicts, conflicts and ranks too),
    None for a removed one; write each as a row *at this version*, which may differ from the node's own `version`.
    """

    state: DocumentState = field(repr=False)
    version: int
    changed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    nodes: Mapping[str, Node | None] = field(default_factory=dict, repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)


AgentBy: TypeAlias = Literal["agent", "metadata_agent", "outline", "chat"]
_AGENTS: Mapping[str, AgentBy] = {by: by for by in get_args(AgentBy)}


def facts_of(document_id: str, change: Change) -> Iterator[DocumentChanged]:
    """The journal facts for a change that an agent of an order made."""
    for step in change.steps:
        by = _AGENTS.get(step.by)
        if by is not None:
            yield DocumentChanged(
                document_id=document_id,
                version=step.version,
                command=step.command,
                node=step.node,
                fields=tuple(step.fields),
                by=by,
                command_id=step.command_id,
            )
