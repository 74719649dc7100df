"""Moving a document to another blueprint: keeps what still has a place, and lists what is dropped."""

from dataclasses import dataclass, replace
from typing import Any

from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, DispatchRefused
from mcc.documents.dispatching import finished
from mcc.documents.functions import Functions
from mcc.documents.kinds import as_stored, check_kind
from mcc.documents.node import ROOT, Node, Provenance
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState
from mcc.documents.structure import default_of
from mcc.documents.work import ALL, DispatchWork


@dataclass(frozen=True, slots=True)
class Succession:
    """`stale`: paths of the nodes that are stale afterwards. `dropped`: nodes ("/lesson-2", including descendants) and
    values ("/lesson-1 props.level") that the new blueprint has no place for."""

    change: Change
    stale: tuple[str, ...]
    dropped: tuple[str, ...]


def succeeded(
    before: Blueprint, after: Blueprint, state: DocumentState, author: Author, functions: Functions | None = None
) -> Succession:
    """Move the document from blueprint `before` to `after`; does nothing where they are the same.

    All rules are judged again, without a model. Changed texts of rules make nodes stale, as prompts contain them.
    Raises `DispatchRefused` (422) where the new blueprint has another root component.
    """
    if after.digest == state.blueprint:
        return Succession(Change(state, state.version), _stale(after, state), ())
    if after.spec.root != state.root.component:
        raise DispatchRefused(422, f"the root of this document is a {state.root.component}, not a {after.spec.root}")
    work = DispatchWork(after, state, author)
    dropped: list[str] = []
    for node in state.walk():
        if node.id in work.draft.before:
            continue
        parent = None if node.parent_id is None else work.draft.node(node.parent_id)
        if parent is not None and node.component not in after.component(parent.component).spec.children:
            dropped.append(state.path(node))
            work.draft.put_all({gone.id: None for gone in reversed(list(state.walk(node)))})
            continue
        kept, lost = _adapted(work, before, node)
        dropped += [f"{state.path(node)} {name}" for name in lost]
        work.draft.put(replace(kept, version=work.version) if lost else kept)
        work.touch(node.id, {ALL})
    work.step("blueprint", ROOT, {"blueprint": (state.blueprint, after.digest)})
    change = finished(work, functions, was=before)
    return Succession(change, _stale(after, change.state), tuple(dropped))


def _adapted(work: DispatchWork, before: Blueprint, node: Node) -> tuple[Node, list[str]]:
    """The node adapted to the new blueprint, and the names of the values that it lost."""
    old = before.component(node.component).fields
    sections: dict[str, dict[str, Any]] = {"metadata": {}, "props": {}}
    provenance: dict[str, Provenance] = {}
    for field in work.component(node).fields.values():
        value, known = node.value(field.name), node.provenance.get(field.name)
        if field.name not in old:
            value, known = default_of(work, field)
        elif (
            field.computation is not None
            or old[field.name].computation is not None
            or check_kind(field.spec, value) is not None
        ):
            value, known = None, None
        sections[field.section][field.key] = as_stored(field.spec, value)
        if known is not None:
            provenance[field.name] = known
    others = {name: known for name, known in node.provenance.items() if "." not in name}
    lost = [
        name
        for name, field in old.items()
        if field.computation is None and node.value(name) is not None and name not in provenance
    ]
    conflicts = {name: conflict for name, conflict in node.conflicts.items() if name in provenance}
    made = replace(node, metadata=sections["metadata"], props=sections["props"], conflicts=conflicts)
    return replace(made, provenance={**provenance, **others}), lost


def _stale(blueprint: Blueprint, state: DocumentState) -> tuple[str, ...]:
    found = assessed(blueprint, state).stale
    return tuple(state.path(node) for node in state.walk() if node.id in found) if found else ()
