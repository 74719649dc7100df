"""A document in memory that keeps all its changes, for tests of generation."""

import sys
from collections.abc import Mapping
from copy import copy
from typing import Any

from drone.generation.jobs import functions_of
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import now
from mcc.documents.beginning import new_state
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Step
from mcc.documents.dispatching import dispatch
from mcc.documents.functions import Functions, functions_in
from mcc.documents.node import Node
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState


class Document:
    def __init__(self, blueprint: Blueprint, metadata: Mapping[str, Any] | None = None) -> None:
        self.blueprint = blueprint
        self.changes: list[Change] = []
        author = Author(by="person", at=now(), principal="someone")
        self.take(new_state(blueprint, id=fresh_id(), metadata=metadata, author=author))

    @property
    def functions(self) -> Functions:
        return functions_in(tuple(sys.modules.values()), functions_of(self.blueprint))

    @property
    def state(self) -> DocumentState:
        return self.changes[-1].state

    @property
    def history(self) -> list[Step]:
        return [step for change in self.changes for step in change.steps]

    def take(self, change: Change) -> None:
        self.changes.append(change)

    def at(self, version: int) -> "Document":
        """A copy of the document at an earlier version."""
        other = copy(self)
        other.changes = [change for change in self.changes if change.version <= version]
        return other

    def dispatch(self, *commands: Mapping[str, Any]) -> Change:
        author = Author(by="person", at=now(), principal="someone")
        change = dispatch(self.blueprint, self.state, list(commands), author)
        self.take(change)
        return change

    def node(self, path: str) -> Node:
        return self.state.find(path)

    def status(self, path: str) -> str:
        return assessed(self.blueprint, self.state).statuses[self.node(path).id]

    @property
    def statuses(self) -> dict[str, str]:
        return {self.state.path(node): self.status(node.id) for node in self.state.walk()}
