"""Undo and redo of a principal's own commands, refused where somebody else has changed the same since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcc.documents.change import DispatchRefused, Step
from mcc.documents.holding import HOLD_STATE, hold_state, mark_answered
from mcc.documents.node import Node, Provenance, Role, RuleVerdict, Stamp
from mcc.documents.state import MAX_NODES
from mcc.documents.structure import insert, put_at, remove
from mcc.documents.work import CONFLICTS, NODE, PROVENANCE, DispatchWork

UNDONE = frozenset({"set_value", "set_metadata", "add_child", "remove_child", "move_child", "accept", "release"})
"""Commands that can be undone."""

Removed = Mapping[int, Sequence[Node]]
"""By version, the nodes that its commands removed, in their last state."""


@dataclass(slots=True)
class Stacks:
    """Undo and redo stack, the top at the end. An entry is the group of steps of one dispatch, undone as one; `undone`
    also has the version at which each was undone."""

    done: list[list[Step]] = field(default_factory=list)
    undone: list[tuple[list[Step], int]] = field(default_factory=list)


def stacks(own: Sequence[Step]) -> Stacks:
    """The stacks after these steps of one principal."""
    made = Stacks()
    seen: set[tuple[int, int]] = set()
    for step in sorted(own, key=lambda step: (step.version, step.index)):
        if step.command in ("undo", "redo"):
            # One undo or redo has a step for each node that it touched; only the first counts.
            if (step.version, step.index) in seen:
                continue
            seen.add((step.version, step.index))
            if step.command == "undo" and made.done:
                made.undone.append((made.done.pop(), step.version))
            elif step.command == "redo" and made.undone:
                made.done.append(made.undone.pop()[0])
        elif step.command in UNDONE:
            made.undone.clear()
            if made.done and made.done[-1][0].version == step.version:
                made.done[-1].append(step)
            else:
                made.done.append([step])
    return made


def versions_needed(own: Sequence[Step], commands: int = 1) -> frozenset[int]:
    """The versions whose removed nodes the next undo or redo needs, for `dispatch(removed=…)`.

    `commands` is the number of commands of that dispatch, each of which may be an undo or redo.
    """
    known = stacks(own)
    back = {step.version for group in known.done[-commands:] for step in group if step.removed}
    forth = {
        since
        for group, since in known.undone[-commands:]
        if any(undone_step.command == "add_child" for undone_step in group)
    }
    return frozenset(back | forth)


def undo(work: DispatchWork, removed: Removed) -> None:
    """Undo the principal's last change that is not undone yet. Raises `DispatchRefused` (409)."""
    known = stacks((*work.own, *work.steps))
    if not known.done:
        raise DispatchRefused(409, "there is no change of yours to undo")
    for step in reversed(known.done[-1]):
        _Replay(work, "undo", step, step.version).undo(removed)


def redo(work: DispatchWork, removed: Removed) -> None:
    """Redo the change that the principal undid last. Raises `DispatchRefused` (409)."""
    known = stacks((*work.own, *work.steps))
    if not known.undone:
        raise DispatchRefused(409, "there is no change of yours to redo")
    group, since = known.undone[-1]
    for step in group:
        _Replay(work, "redo", step, since).redo(removed)


class _Replay:
    """Undoes or redoes one step. `since` is the version that made the present content: the step's own, or its undo's.

    Most methods take `now` and `then`, the indexes (0 before, 1 after the step) of the expected and the wanted content.
    """

    def __init__(self, work: DispatchWork, command: str, step: Step, since: int) -> None:
        self._work = work
        self._command = command
        self._step = step
        self._own_versions = {one.version for one in (*work.own, *work.steps)}
        self._since = since
        if step.undo.get("blueprint") != work.base.blueprint:
            raise self._refused("the document has another blueprint since")

    def undo(self, removed: Removed) -> None:
        match self._step.command:
            case "add_child":
                self._remove(self._changed_by_people)
            case "remove_child":
                self._restore_removed(removed)
            case "move_child":
                self._move("after", "before")
            case "accept" | "release":
                self._set_hold(1, 0)
            case _:
                self._set_values(1, 0)

    def redo(self, removed: Removed) -> None:
        match self._step.command:
            case "add_child":
                self._restore_added(removed)
            case "remove_child":
                self._remove(self._changed)
            case "move_child":
                self._move("before", "after")
            case "accept" | "release":
                self._set_hold(0, 1)
            case _:
                self._set_values(0, 1)

    def _node(self) -> Node:
        node = self._work.draft.node(self._step.undo["node"])
        if node is None:
            raise self._refused(f"{self._step.node} is not there any more")
        return node

    def _refused(self, why: str) -> DispatchRefused:
        return DispatchRefused(409, f"{self._step.command} of version {self._step.version} stays as it is: {why}")

    def _changed(self, node: Node) -> bool:
        """Whether anybody else changed the node since."""
        versions = [node.version, *(stamp.version for stamp in node.stamps.values())]
        versions += [one.version for one in node.provenance.values() if one.by not in ("formula", "binding")]
        return any(version > self._since and version not in self._own_versions for version in versions)

    def _set_values(self, now: int, then: int) -> None:
        work, node, step = self._work, self._node(), self._step
        sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
        provenance = dict(node.provenance)
        fields: dict[str, tuple[Any, Any]] = {}
        for name, steps in step.undo["provenance"].items():
            is_set = work.field(node, name)
            expected, wanted = (PROVENANCE.validate_python(steps[at]) for at in (now, then))
            if not _is_unchanged(provenance.get(name), expected):
                raise self._refused(f"{name} of {work.state.path(node)} was changed since")
            value = step.fields[name][then]
            fields[name] = (sections[is_set.section].get(is_set.key), value)
            sections[is_set.section][is_set.key] = value
            provenance[name] = self._restored_provenance(wanted)
        evidence = step.undo.get("evidence", {}) if then == 0 else {}
        restored = [
            RuleVerdict(rule, "evidence", ok, message, work.version) for rule, (ok, message) in evidence.items()
        ]
        verdicts = (*(verdict for verdict in node.verdicts if verdict.rule not in evidence), *restored)
        conflicts, stamps = dict(node.conflicts), dict(node.stamps)
        if then == 0:
            conflicts.update(CONFLICTS.validate_python(step.undo["conflicts"]))
            self._drop_stamp(stamps)
        elif step.undo["stamps"] is not None:
            work.to_stamp.setdefault((node.id, step.undo["stamps"]), False)
        changed = replace(node, conflicts=conflicts, stamps=stamps, verdicts=verdicts, provenance=provenance)
        work.change(changed, set(fields), metadata=sections["metadata"], props=sections["props"])
        work.step(self._command, work.state.path(node), fields)

    def _drop_stamp(self, stamps: dict[Role, Stamp]) -> None:
        """Drop the stamp that the step caused, unless an agent ran since."""
        role: Role | None = self._step.undo["stamps"]
        if role is not None and role in stamps and stamps[role].record_id is None:
            del stamps[role]

    def _restored_provenance(self, known: Provenance | None) -> Provenance:
        """The earlier provenance with the new version; a value that was never set gets one that marks the undo."""
        work = self._work
        if known is None:
            by, at = work.author.by, work.author.at
            return Provenance(by, work.version, at, principal=work.author.principal, restores=0)
        return replace(known, version=work.version, restores=known.given)

    def _changed_by_people(self, node: Node) -> bool:
        """Whether a person, chat or import other than this principal changed the node since.

        What the generator made of it does not count: a redo restores the node with it.
        """
        if not any(stamp.record_id is not None and stamp.version > self._since for stamp in node.stamps.values()):
            return self._changed(node)
        versions = [known.version for known in node.provenance.values() if known.by in ("person", "chat", "import")]
        versions += [known.accepted.version for known in node.provenance.values() if known.accepted is not None]
        return any(version > self._since and version not in self._own_versions for version in versions)

    def _remove(self, is_changed: Callable[[Node], bool]) -> None:
        work, node = self._work, self._node()
        for one in work.state.walk(node):
            if is_changed(one):
                raise self._refused(f"{work.state.path(one)} was changed since")
        remove(work, node, self._command)

    def _restore_added(self, removed: Removed) -> None:
        """Restore the node and its descendants in the state in which the undo removed them."""
        made = NODE.validate_python(self._step.undo["made"])
        taken = (one for one in (*self._work.own, *self._work.steps) if one.version == self._since and one.removed)
        undone = next((one for one in taken if one.undo.get("node") == made.id), None)
        self._insert_again((undone and _removed_nodes(undone, removed)) or [made])

    def _restore_removed(self, removed: Removed) -> None:
        found = _removed_nodes(self._step, removed)
        if not found:
            raise self._refused("what it took out is not known any more")
        self._insert_again(found)

    def _insert_again(self, nodes: Sequence[Node]) -> None:
        """Insert removed nodes again; the topmost comes first."""
        work, top = self._work, nodes[0]
        parent = work.draft.node(top.parent_id or "")
        if parent is None:
            raise self._refused(f"the parent of {self._step.node} is not there any more")
        if len(work.state.nodes) + len(nodes) > MAX_NODES:
            raise self._refused(f"a document has at most {MAX_NODES:,} nodes")
        for node in nodes:
            rank = work.draft.rank_near(node.parent_id or "", node.rank) if node is top else node.rank
            provenance = {
                name: replace(known, version=work.version, restores=known.given)
                for name, known in node.provenance.items()
            }
            insert(work, replace(node, version=work.version, rank=rank, provenance=provenance))
        work.change(work.state.nodes[parent.id], set())
        work.step(self._command, work.state.path(work.state.nodes[top.id]))

    def _move(self, now: str, then: str) -> None:
        work, node = self._work, self._node()
        expected, (parent_id, key, rank) = self._step.undo[now], self._step.undo[then]
        if [node.parent_id, node.key, node.rank] != expected:
            raise self._refused(f"{work.state.path(node)} was moved since")
        if work.draft.node(parent_id) is None:
            raise self._refused("its parent is not there any more")
        moved = put_at(work, node, parent_id, key, lambda: work.draft.rank_near(parent_id, rank))
        work.step(self._command, work.state.path(moved))

    def _set_hold(self, now: int, then: int) -> None:
        work, node, step = self._work, self._node(), self._step
        names = tuple(step.undo["names"])
        expected, wanted = (HOLD_STATE.validate_python(step.undo["standing"][at]) for at in (now, then))
        present = hold_state(node, names)
        if not all(_is_unchanged(present.provenance[name], expected.provenance[name]) for name in names):
            raise self._refused(f"what it held of {work.state.path(node)} was changed since")
        provenance = dict(node.provenance)
        for name, known in wanted.provenance.items():
            if known is not None:
                provenance[name] = replace(provenance.get(name, known), accepted=known.accepted)
            else:
                provenance.pop(name, None)
        ran = any(stamp.version > self._since for stamp in node.stamps.values())
        stamps = node.stamps if ran else wanted.stamps
        failure = node.failure if ran else wanted.failure
        others = {name: conflict for name, conflict in node.conflicts.items() if name not in names}
        conflicts = {**others, **{name: conflict for name, conflict in wanted.conflicts.items() if name in names}}
        changed = replace(node, provenance=provenance, stamps=stamps, failure=failure, conflicts=conflicts)
        if then and step.command == "accept":
            mark_answered(work, changed)
        work.draft.put(replace(changed, version=work.version))
        work.step(self._command, work.state.path(node), {name: step.fields[name] for name in step.fields})


def _removed_nodes(step: Step, removed: Removed) -> list[Node]:
    """The nodes that a step removed, the topmost first; empty where they are no longer known."""
    stored = [NODE.validate_python(document) for document in step.undo["nodes"]]
    changed = {node.id for node in stored}
    known = [*stored, *(node for node in removed.get(step.version, ()) if node.id not in changed)]
    below: dict[str | None, list[Node]] = {}
    for node in known:
        below.setdefault(node.parent_id, []).append(node)
    nodes = [node for node in known if node.id == step.undo["node"]]
    for node in nodes:
        nodes.extend(below.get(node.id, ()))
    return nodes


def _is_unchanged(present: Provenance | None, expected: Provenance | None) -> bool:
    """Whether the value is still the same: nobody has set, accepted or released it since."""
    one, other = ((0, None) if known is None else (known.given, known.accepted) for known in (present, expected))
    return one == other
