"""What a dispatch takes and gives beside the commands: who does it, what came of it, or why it was refused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from mcc.contracts.documents import By
from mcc.contracts.journal import DocumentChanged
from mcc.documents.node import Node
from mcc.documents.state import State

Status: TypeAlias = Literal[404, 409, 422]


class Refused(Exception):
    """Nothing was done. 404: a node that is not there; 409: the document has moved on; 422: it cannot be done so.

    `sentences` say why, each on its own. With 409 for an `expected_version`: the document's `version`, and the paths of
    the addressed nodes that changed.
    """

    def __init__(
        self, status: Status, *sentences: str, version: int | None = None, changed: tuple[str, ...] = ()
    ) -> None:
        # Whoever tells them ends them.
        self.sentences = tuple(sentence.removesuffix(".") for sentence in sentences)
        super().__init__("; ".join(self.sentences))
        self.status = status
        self.version = version
        self.changed = changed


@dataclass(frozen=True, slots=True)
class Author:
    """Who sends commands, and when. `node` (path or id) binds an agent to its node: it sets that node's values and
    moves that node's children, and nothing else. `asked` and `rules` are the digests of what an agent was asked with
    and of its component's rules, kept with the values that it sets. `principal`: the person, or whom a chat works for.
    """

    by: By
    at: datetime
    principal: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    node: str | None = None
    asked: str | None = None
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A command in the history, as done to one node. An undo or a redo makes a step for each node that it touches.

    `index`: which command of its dispatch. `node` is a path, of a removed node the one that it had. `fields`: values
    before and after. `undo` is what taking it back needs, plain JSON that is nobody else's business: keep it with the
    step. `removed`: whether the command took out nodes, which undo must be given then (`dispatch(removed=…)`).
    """

    version: int
    index: int
    at: datetime
    by: By
    command: str
    node: str
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    principal: str | None = None
    order_id: str | None = None
    record_id: str | None = None
    command_id: str | None = None
    removed: bool = False
    undo: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What a dispatch made: the state after it, the rows to write and the steps for the history.

    `version` is the document's afterwards, the one before when nothing changed (`steps` is empty then). `changed` and
    `made` are paths as they are afterwards: nodes whose values, children or place changed, by a command or as what
    follows from it; a node that was made stands in `made` alone. `nodes` has every node of
    which anything changed (verdicts, conflicts and ranks too), None for one that was taken out: a row each *at this
    version*, which need not be the node's own `version`.
    """

    state: State
    version: int
    changed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    nodes: Mapping[str, Node | None] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


AgentBy: TypeAlias = Literal["agent", "metadata_agent", "outline", "chat"]
_AGENTS: Mapping[str, AgentBy] = {by: by for by in get_args(AgentBy)}


def facts_of(document_id: str, change: Change) -> Iterator[DocumentChanged]:
    """What the journal of an order tells of a change that one of its agents made."""
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
