"""A mutable document in memory, with its history, built on immutable states."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mcc.contracts.documents import By, Counts, DocumentDiff, NewNode, NodeStatus, NodeView, StepBy
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import now
from mcc.documents.beginning import new_state
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step
from mcc.documents.commands import Accept
from mcc.documents.difference import diff
from mcc.documents.dispatching import dispatch
from mcc.documents.export import Format, exported
from mcc.documents.functions import Functions, functions_in
from mcc.documents.node import Node
from mcc.documents.staleness import assessed, pending_of, stale_because
from mcc.documents.state import DocumentState
from mcc.documents.succession import Succession, succeeded
from mcc.documents.undoing import versions_needed
from mcc.documents.views import Envelope, node_view
from mcc.rules.mistakes import mistakes

_NODES: TypeAdapter[tuple[NewNode, ...]] = TypeAdapter(tuple[NewNode, ...])
_OF_PEOPLE: frozenset[By] = frozenset({"person", "chat", "import"})


class Document:
    """A document without a database; not thread-safe.

    `metadata` sets fields of the root, held as a person's values are. `functions` are the functions that rules name;
    None = those found in this program's loaded modules. Raises `DispatchRefused` for values that the blueprint does not
    allow.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        metadata: Mapping[str, Any] | None = None,
        title: str = "",
        *,
        nodes: Sequence[NewNode] = (),
        functions: Functions | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.blueprint = blueprint
        self._given = functions
        self._clock = clock
        self._rows: list[tuple[int, Mapping[str, Node | None]]] = []
        self._removed: dict[int, list[Node]] = {}
        self._done: dict[str, Change] = {}
        self._history: list[Step] = []
        self._own: dict[tuple[StepBy, str | None], list[Step]] = {}
        author = self._author("person")
        self._created_at = author.at
        first = new_state(
            blueprint,
            id=fresh_id(),
            title=title,
            metadata=metadata,
            nodes=nodes,
            author=author,
            functions=self.functions,
        )
        self._state = first.state
        self.take(first)

    @classmethod
    def of_export(cls, blueprint: Blueprint, text: str | bytes, functions: Functions | None = None) -> "Document":
        """Rebuild a document from the text of `export("json")`, with its values and which of them were held.

        Raises ValueError for text that is no such export, `DispatchRefused` for values that the blueprint does not
        allow.
        """
        parsed = json.loads(text)
        if not isinstance(parsed, dict) or not isinstance(parsed.get("nodes"), list):
            raise ValueError("this is no export of a document: it has no list `nodes`")
        try:
            nodes = _NODES.validate_python(parsed["nodes"])
        except ValidationError as error:
            wrong = mistakes(error.errors())
            raise ValueError(f"this is no export of a document: nodes.{wrong[0].sentence}") from error
        document = cls(blueprint, title=str(parsed.get("title", "")), nodes=nodes, functions=functions)
        held = [Accept(node=node["path"], fields=fields) for node in parsed["nodes"] if (fields := _held(node))]
        if held:
            document.dispatch(held)
        return document

    @property
    def state(self) -> DocumentState:
        return self._state

    @property
    def history(self) -> Sequence[Step]:
        """All steps, oldest first."""
        return self._history

    @property
    def status(self) -> NodeStatus:
        return assessed(self.blueprint, self._state).status

    @property
    def counts(self) -> Counts:
        return assessed(self.blueprint, self._state).counts

    @property
    def functions(self) -> Functions:
        """The functions that rules of the blueprint name, as far as they can be found."""
        wanted = {
            rule.function
            for component in self.blueprint.components.values()
            for rule in component.rules
            if rule.kind == "function"
        }
        if self._given is None and wanted:
            known = functions_in(tuple(sys.modules.values()), wanted)
            # An incomplete result is not kept: a module with the missing functions may be imported later.
            self._given = known if wanted <= known.keys() else None
            return known
        return self._given or {}

    def dispatch(
        self,
        commands: object,
        by: By = "person",
        *,
        author: Author | None = None,
        expected_version: int | None = None,
        command_id: str | None = None,
    ) -> Change:
        """Apply one or several commands, typed or as JSON: all of them, in order, or none. Raises `DispatchRefused`.

        A `command_id` that was used before changes nothing and answers the earlier change.
        """
        if command_id is not None and command_id in self._done:
            return replace(self._done[command_id], state=self._state, nodes={}, steps=())
        author = author or self._author(by)
        steps = self._own.get((author.by, author.principal), ())
        several = len(commands) if isinstance(commands, list | tuple) else 1
        change = dispatch(
            self.blueprint,
            self._state,
            commands,
            author,
            expected_version=expected_version,
            own=steps,
            removed={version: self._removed.get(version, ()) for version in versions_needed(steps, several)},
            functions=self.functions,
            command_id=command_id,
        )
        self.take(change)
        if command_id is not None:
            self._done[command_id] = change
        return change

    def take(self, change: Change) -> None:
        """Adopt a change that a dispatch made from this document's current state."""
        removed = [self._state.nodes[id] for id, node in change.nodes.items() if node is None]
        if removed:
            self._removed[change.version] = removed
        if change.steps:
            self._rows.append((change.version, change.nodes))
        self._history.extend(change.steps)
        for step in change.steps:
            self._own.setdefault((step.by, step.principal), []).append(step)
        self._state = change.state

    def undo(self) -> Change:
        """Undo the last change by a person. Raises `DispatchRefused` (409) when there is none."""
        return self.dispatch({"command": "undo"})

    def redo(self) -> Change:
        return self.dispatch({"command": "redo"})

    def change_blueprint(self, blueprint: Blueprint) -> Succession:
        """Move to another blueprint; the answer lists the values and nodes it has no place for, which are dropped.

        Raises `DispatchRefused` (422).
        """
        changed = succeeded(self.blueprint, blueprint, self._state, self._author("person"), self.functions)
        self.blueprint = blueprint
        self.take(changed.change)
        return changed

    def node(self, named: str) -> NodeView:
        """The current view of the node with this path or id. Raises `UnknownNode`."""
        return node_view(self.blueprint, self._state, self._state.find(named))

    def pending(self) -> Mapping[str, tuple[str, ...]]:
        """By path, what keeps a node pending: fields, children, rules of the component."""
        found = assessed(self.blueprint, self._state).statuses
        return self._by_path(pending_of, [id for id, status in found.items() if status in ("pending", "failed")])

    def stale(self) -> Mapping[str, tuple[str, ...]]:
        """By path, what changed since the agents of a stale node ran."""
        return self._by_path(stale_because, assessed(self.blueprint, self._state).stale)

    def at(self, version: int) -> DocumentState:
        """The state at an earlier version. Raises ValueError for a version that does not exist."""
        if not 1 <= version <= self._state.version:
            raise ValueError(f"the document has the versions 1 to {self._state.version}")
        nodes: dict[str, Node] = {}
        for made, rows in self._rows:
            for id, node in rows.items() if made <= version else ():
                if node is None:
                    nodes.pop(id, None)
                else:
                    nodes[id] = node
        state = self._state
        return DocumentState.of(state.id, state.blueprint, state.title, version, list(nodes.values()), state.brief)

    def diff(self, before: int, after: int | None = None) -> DocumentDiff:
        """The differences between two versions; `after` None = the current one."""
        return diff(self.at(before), self._state if after is None else self.at(after))

    def export(self, format: Format = "json") -> str:
        """The whole document as `json`, `md`, `html` or `jsonl` (one line per node: the prompt of its agent)."""
        kept = Envelope(self._created_at, self._history[-1].at)
        return b"".join(exported(self.blueprint, self._state, kept, format)).decode()

    def _author(self, by: By) -> Author:
        return Author(by, self._clock(), principal="person" if by in _OF_PEOPLE else None)

    def _by_path(
        self, describe: Callable[[Blueprint, DocumentState, Node], tuple[str, ...]], ids: Sequence[str] | set[str]
    ) -> Mapping[str, tuple[str, ...]]:
        wanted = set(ids)
        nodes = [node for node in self._state.walk() if node.id in wanted] if wanted else []
        return {self._state.path(node): describe(self.blueprint, self._state, node) for node in nodes}


def _held(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The full names of the held fields of an exported node."""
    known = node.get("provenance")
    if not isinstance(known, Mapping):
        return ()
    return tuple(name for name, one in known.items() if isinstance(one, Mapping) and one.get("accepted") is not None)
