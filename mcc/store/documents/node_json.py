"""Conversion of a document's nodes to the JSON of their rows, and back."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any

from mcc.contracts.shape import to_json
from mcc.documents.node import Accepted, FieldConflict, Node, NodeFailure, Provenance, RuleVerdict, Stamp
from mcc.store.rows.texts import parsed


def node_json(node: Node) -> str:
    """The node as JSON, without fields that have their default value: most nodes have no failure and no conflicts."""
    held = _own(node)
    held["provenance"] = {name: _of_provenance(part) for name, part in node.provenance.items()}
    held["verdicts"] = [
        [part.rule, part.kind, part.ok, part.message, part.version, *([part.below] if part.below else [])]
        for part in node.verdicts
    ]
    held["conflicts"] = {name: _own(part) for name, part in node.conflicts.items()}
    held["stamps"] = {role: _own(part) for role, part in node.stamps.items()}
    if node.failure is not None:
        held["failure"] = {**_own(node.failure), "at": node.failure.at.isoformat()}
    return to_json({name: value for name, value in held.items() if value or name not in _OFTEN_EMPTY}).decode()


_OFTEN_EMPTY = frozenset({"provenance", "verdicts", "conflicts", "stamps", "next_numbers"})


def _of_provenance(provenance: Provenance) -> dict[str, Any]:
    held = _own(provenance)
    held["at"] = provenance.at.isoformat()
    if provenance.accepted is not None:
        held["accepted"] = _own(provenance.accepted)
    return held


def _own(value: Any) -> dict[str, Any]:
    return {name: held for name, default in _FIELDS[type(value)] if (held := getattr(value, name)) is not default}


_FIELDS: Mapping[type, Sequence[tuple[str, Any]]] = {
    kind: [(one.name, one.default) for one in fields(kind)]
    for kind in (Node, Provenance, Accepted, FieldConflict, Stamp, NodeFailure)
}
"""Names and defaults of the fields, looked up once: `dataclasses.fields` takes longer than the whole conversion."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend garbage collection. Reading a document makes no garbage, and the collector would go through all nodes
    again and again, which takes longer than reading them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class NodeReader:
    """Reads nodes that `node_json` wrote. All nodes read by one reader share equal verdicts, which otherwise take most
    of a document's memory, and of the time to read it.
    """

    def __init__(self) -> None:
        self._verdicts: dict[tuple[Any, ...], RuleVerdict] = {}

    def node(self, text: str) -> Node:
        held = parsed(text)
        held["provenance"] = {name: _provenance(part) for name, part in held.get("provenance", {}).items()}
        held["verdicts"] = tuple([self._verdict(part) for part in held.get("verdicts", ())])
        conflicts = held.get("conflicts", {})
        held["conflicts"] = {
            n: FieldConflict(**{**part, "because": tuple(part["because"])}) for n, part in conflicts.items()
        }
        held["stamps"] = {role: Stamp(**part) for role, part in held.get("stamps", {}).items()}
        if (failure := held.get("failure")) is not None:
            at = datetime.fromisoformat(failure["at"])
            held["failure"] = NodeFailure(**{**failure, "errors": tuple(failure["errors"]), "at": at})
        return Node(**held)

    def _verdict(self, part: list[Any]) -> RuleVerdict:
        held = tuple(part) if len(part) < 6 else (*part[:5], tuple(map(tuple, part[5])))
        found = self._verdicts.get(held)
        if found is None:
            found = self._verdicts[held] = RuleVerdict(*held)
        return found


def _provenance(held: dict[str, Any]) -> Provenance:
    held["at"] = datetime.fromisoformat(held["at"])
    if "accepted" in held:
        held["accepted"] = Accepted(**held["accepted"])
    if "sources" in held:
        held["sources"] = tuple(held["sources"])
    return Provenance(**held)
