"""Setting of values: checks them, and builds the changed node."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from mcc.documents.change import DispatchRefused
from mcc.documents.component import CompiledField, field_of_rule
from mcc.documents.kinds import as_stored, check_kind
from mcc.documents.node import Node, Role
from mcc.documents.state import UnknownNode
from mcc.documents.work import CONFLICTS, GENERATORS, PROVENANCE, DispatchWork

_ANSWERING = ("person", "chat", "import")
"""Authors whose values replace a run of the node's agent: they count as its answer to the present prompt."""


def set_fields(work: DispatchWork, command: str, node: Node, values: Mapping[str, Any]) -> None:
    """Apply a command that sets values, by full field name. Raises `DispatchRefused` (422) with all problems."""
    changed, fields, undo = with_values(work, node, values)
    changed = work.change(changed, set(values))
    work.step(command, work.state.path(changed), fields, undo)


def with_values(
    work: DispatchWork, node: Node, values: Mapping[str, Any]
) -> tuple[Node, dict[str, tuple[Any, Any]], dict[str, Any]]:
    """The node with these values set, the values before and after by field, and the data for undo.

    Raises `DispatchRefused` (422) with all problems.
    """
    kept = _checked(work, node, values)
    sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
    provenance = dict(node.provenance)
    fields: dict[str, tuple[Any, Any]] = {}
    changed_provenance: dict[str, Any] = {}
    for field, value in kept:
        before = node.provenance.get(field.name)
        fields[field.name] = (sections[field.section].get(field.key), value)
        sections[field.section][field.key] = value
        provenance[field.name] = work.provenance(node, before, value)
        changed_provenance[field.name] = [
            PROVENANCE.dump_python(known, mode="json") for known in (before, provenance[field.name])
        ]
    evidence = {
        verdict.rule: [verdict.ok, verdict.message]
        for verdict in node.verdicts
        if verdict.kind == "evidence" and verdict.ok is not None and field_of_rule(verdict.rule) in fields
    }
    undo = {
        "node": node.id,
        "provenance": changed_provenance,
        "evidence": evidence,
        **_mark_answered(work, node, fields),
    }
    ended = set(fields) if work.author.by in ("person", "chat") else set()
    changed = replace(
        node,
        metadata=sections["metadata"],
        props=sections["props"],
        provenance=provenance,
        conflicts={name: conflict for name, conflict in node.conflicts.items() if name not in ended},
    )
    return changed, fields, undo


def _mark_answered(work: DispatchWork, node: Node, fields: Collection[str]) -> dict[str, Any]:
    """Mark the roles whose agent these values replace. Answers what undo needs of it: the conflicts that end, and the
    role without a stamp, if there is just one."""
    conflicts = {name: conflict for name, conflict in node.conflicts.items() if name in fields}
    roles: set[Role] = {"metadata" if name.startswith("metadata.") else "node" for name in fields}
    for role in roles if work.author.by in _ANSWERING else ():
        work.to_stamp.setdefault((node.id, role), False)
    unanswered = next(iter(roles - node.stamps.keys()), None) if len(roles) == 1 else None
    return {"conflicts": CONFLICTS.dump_python(conflicts, mode="json"), "stamps": unanswered}


def _checked(work: DispatchWork, node: Node, values: Mapping[str, Any]) -> list[tuple[CompiledField, Any]]:
    wrong: list[str] = []
    checked: list[tuple[CompiledField, Any]] = []
    for name, value in values.items():
        try:
            field = work.field(node, name)
        except DispatchRefused as refused:
            wrong.extend(refused.sentences)
            continue
        value = _as_path(work, field, value)
        why = _held(work, node, name) or check_kind(field.spec, value)
        if why:
            wrong.append(f"{name} of {work.state.path(node)}: {why}")
        checked.append((field, as_stored(field.spec, value)))
    if wrong:
        raise DispatchRefused(422, *wrong)
    return checked


def _held(work: DispatchWork, node: Node, name: str) -> str | None:
    known = node.provenance.get(name)
    if work.author.by in GENERATORS and known is not None and known.held:
        return "A person holds this value; leave it as it is, and build on it."
    return None


def _as_path(work: DispatchWork, field: CompiledField, value: Any) -> Any:
    """A reference in its stored form, the node's path; given may be its id or a path with extra slashes."""
    if isinstance(value, list) and field.spec.type == "list" and field.spec.items.type == "reference":
        return [_path(work, item) for item in value]
    return _path(work, value) if field.spec.type == "reference" else value


def _path(work: DispatchWork, value: Any) -> Any:
    try:
        return work.state.path(work.state.find(value)) if isinstance(value, str) else value
    except UnknownNode:
        return value
