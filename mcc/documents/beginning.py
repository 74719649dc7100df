"""The first version of a document: the root, given nodes and metadata, defaults and computed values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcc.contracts.documents import NewNode
from mcc.contracts.ids import derived_id
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, DispatchRefused
from mcc.documents.dispatching import finished
from mcc.documents.functions import Functions
from mcc.documents.node import ROOT, Node
from mcc.documents.setting import with_values
from mcc.documents.state import DocumentState
from mcc.documents.structure import check_child_component, check_size, insert, new_child, set_values, with_defaults
from mcc.documents.work import DispatchWork

TITLE_CHARACTERS = 200
MAX_DIGITS = 9
_TITLES = ("metadata", "text")


def new_state(
    blueprint: Blueprint,
    *,
    id: str,
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
    nodes: Sequence[NewNode] = (),
    author: Author,
    functions: Functions | None = None,
) -> Change:
    """Version 1 of the document `id`. Raises `DispatchRefused` (422).

    `metadata` is the root's, set by the author. `nodes` are initial nodes, parents before their children; their values
    count as imported and are not held. The default title is the first text in the root's metadata that is no field
    default, or the blueprint's name.
    """
    root = Node(
        id=derived_id(id, "root"),
        parent_id=None,
        key="",
        component=blueprint.spec.root,
        rank=0.0,
        version=1,
        metadata={},
        props={},
        made_by=author.by,
    )
    work = DispatchWork(blueprint, DocumentState(id, blueprint.digest, title, 0, {}, {}, root.id), author)
    insert(work, with_defaults(work, root))
    work.author = replace(author, by="import")
    for place, node in enumerate(nodes):
        try:
            _add_initial(work, node)
        except DispatchRefused as refused:
            raise DispatchRefused(422, *(f"nodes.{place}: {sentence}" for sentence in refused.sentences)) from None
    work.author = author
    _set_values(work, work.state.root, {f"metadata.{key}": value for key, value in (metadata or {}).items()})
    work.step("create", ROOT, {name: (None, value) for name, value in set_values(work.state.root).items()})
    change = finished(work, functions)
    named = title.strip() or _title(blueprint, change.state)
    return replace(change, state=replace(change.state, title=named[:TITLE_CHARACTERS]))


def _add_initial(work: DispatchWork, given: NewNode) -> None:
    """Create one of the initial nodes, or set values of the root. Raises `DispatchRefused`."""
    above, _, key = given.path.rstrip("/").rpartition("/")
    node = work.state.root if not key else _new_node(work, work.find(above or ROOT), key, given)
    fields = work.component(node).fields
    values = {f"metadata.{name}": value for name, value in given.metadata.items()}
    values |= {f"props.{name}": value for name, value in given.props.items()}
    # Computed values are recomputed, and unset ones may have a default in this blueprint.
    settable = {
        name: value
        for name, value in values.items()
        if value is not None and (name not in fields or fields[name].computation is None)
    }
    _set_values(work, node, settable, summary=given.summary)


def _new_node(work: DispatchWork, parent: Node, key: str, given: NewNode) -> Node:
    component, _, digits = key.rpartition("-")
    if given.component not in (None, component) or not digits.isascii() or not digits.isdigit() or digits[0] == "0":
        named = given.component or component or "lesson"
        raise DispatchRefused(
            422, f"{key[:100]!r} is no key of a node: it is its component and a number, such as {named}-1"
        )
    if len(digits) > MAX_DIGITS:
        raise DispatchRefused(422, f"the number of {key[:100]!r} has more than {MAX_DIGITS} digits")
    check_child_component(work, parent, component)
    check_size(work, parent, 1)
    if (parent.id, key) in work.state.keys:
        raise DispatchRefused(422, f"{given.path[:200]!r} is there twice")
    number = max(parent.next_numbers.get(component, 1), int(digits) + 1)
    node = new_child(work, parent, component, key)
    work.change(parent, set(), next_numbers={**parent.next_numbers, component: number})
    insert(work, node)
    return node


def _set_values(work: DispatchWork, node: Node, values: Mapping[str, Any], **more: Any) -> None:
    changed, _, _ = with_values(work, node, values)
    work.draft.put(replace(changed, **more))


def _title(blueprint: Blueprint, state: DocumentState) -> str:
    texts = (field.key for field in blueprint.root.fields.values() if (field.section, field.spec.type) == _TITLES)
    set_by = {name: known.by for name, known in state.root.provenance.items()}
    given = (state.root.metadata[key] for key in texts if set_by.get(f"metadata.{key}") != "default")
    found = next((value for value in given if value is not None), blueprint.name)
    return " ".join(str(found).split())
