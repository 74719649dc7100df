"""Own commands taken back and made again, where nobody touched since what they changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcc.documents.change import Refused, Step
from mcc.documents.holding import STANDING, answered, standing
from mcc.documents.node import Node, Provenance, Role, Stamp, Verdict
from mcc.documents.state import MAX_NODES
from mcc.documents.structure import enter, put_at, remove
from mcc.documents.work import CONFLICTS, NODE, PROVENANCE, Work

UNDONE = frozenset({"set_value", "set_metadata", "add_child", "remove_child", "move_child", "accept", "release"})
"""Commands that can be taken back."""

Removed = Mapping[int, Sequence[Node]]
"""By version, the nodes that its commands took out, as they were."""


@dataclass(slots=True)
class Stacks:
    """Groups of steps, the last one at the end: what one dispatch did is taken back as one. `undone` has, beside each,
    the version at which it was taken back."""

    done: list[list[Step]] = field(default_factory=list)
    undone: list[tuple[list[Step], int]] = field(default_factory=list)


def stacks(own: Sequence[Step]) -> Stacks:
    """What can be taken back, and made again, after these steps of one principal."""
    found = Stacks()
    seen: set[tuple[int, int]] = set()
    for step in sorted(own, key=lambda step: (step.version, step.index)):
        if step.command in ("undo", "redo"):
            # It made a step for each node that it touched.
            if (step.version, step.index) in seen:
                continue
            seen.add((step.version, step.index))
            if step.command == "undo" and found.done:
                found.undone.append((found.done.pop(), step.version))
            elif step.command == "redo" and found.undone:
                found.done.append(found.undone.pop()[0])
        elif step.command in UNDONE:
            found.undone.clear()
            if found.done and found.done[-1][0].version == step.version:
                found.done[-1].append(step)
            else:
                found.done.append([step])
    return found


def versions_needed(own: Sequence[Step], commands: int = 1) -> frozenset[int]:
    """Of which versions the next undo or redo needs the removed nodes, for `dispatch(removed=…)`."""
    known = stacks(own)
    back = {step.version for group in known.done[-commands:] for step in group if step.removed}
    forth = {since for group, since in known.undone[-commands:] if any(one.command == "add_child" for one in group)}
    return frozenset(back | forth)


def undo(work: Work, removed: Removed) -> None:
    """Take back the principal's last change that stands. Raises `Refused` (409)."""
    known = stacks((*work.own, *work.steps))
    if not known.done:
        raise Refused(409, "there is nothing of yours to take back")
    for step in reversed(known.done[-1]):
        _Again(work, "undo", step, step.version).back(removed)


def redo(work: Work, removed: Removed) -> None:
    """Make the change again that the principal took back last. Raises `Refused` (409)."""
    known = stacks((*work.own, *work.steps))
    if not known.undone:
        raise Refused(409, "there is nothing of yours to make again")
    group, since = known.undone[-1]
    for step in group:
        _Again(work, "redo", step, since).forth(removed)


class _Again:
    """One step taken back, or made again: `since` is the version at which what it touches was last left as it is."""

    def __init__(self, work: Work, command: str, step: Step, since: int) -> None:
        self._work = work
        self._command = command
        self._step = step
        self._mine = {one.version for one in (*work.own, *work.steps)}
        self._since = since
        if step.undo.get("blueprint") != work.base.blueprint:
            raise self._refused("the document has another blueprint since")

    def back(self, removed: Removed) -> None:
        match self._step.command:
            case "add_child":
                self._gone(self._is_somebodys)
            case "remove_child":
                self._returned(removed)
            case "move_child":
                self._moved("after", "before")
            case "accept" | "release":
                self._stood(1, 0)
            case _:
                self._valued(1, 0)

    def forth(self, removed: Removed) -> None:
        match self._step.command:
            case "add_child":
                self._added(removed)
            case "remove_child":
                self._gone(self._touched)
            case "move_child":
                self._moved("before", "after")
            case "accept" | "release":
                self._stood(0, 1)
            case _:
                self._valued(0, 1)

    def _node(self) -> Node:
        node = self._work.draft.node(self._step.undo["node"])
        if node is None:
            raise self._refused(f"{self._step.node} is not there any more")
        return node

    def _refused(self, why: str) -> Refused:
        return Refused(409, f"{self._step.command} of version {self._step.version} stays as it is: {why}")

    def _touched(self, node: Node) -> bool:
        """Whether somebody else changed the node since."""
        versions = [node.version, *(stamp.version for stamp in node.stamps.values())]
        versions += [one.version for one in node.provenance.values() if one.by not in ("formula", "binding")]
        return any(version > self._since and version not in self._mine for version in versions)

    def _valued(self, now: int, then: int) -> None:
        work, node, step = self._work, self._node(), self._step
        sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
        provenance = dict(node.provenance)
        fields: dict[str, tuple[Any, Any]] = {}
        for name, steps in step.undo["provenance"].items():
            is_set = work.field(node, name)
            expected, wanted = (PROVENANCE.validate_python(steps[at]) for at in (now, then))
            if not _stands(provenance.get(name), expected):
                raise self._refused(f"{name} of {work.state.path(node)} was changed since")
            value = step.fields[name][then]
            fields[name] = (sections[is_set.section].get(is_set.key), value)
            sections[is_set.section][is_set.key] = value
            provenance[name] = self._restored(wanted)
        evidence = step.undo.get("evidence", {}) if then == 0 else {}
        restored = [Verdict(rule, "evidence", ok, said, work.version) for rule, (ok, said) in evidence.items()]
        verdicts = (*(one for one in node.verdicts if one.rule not in evidence), *restored)
        conflicts, stamps = dict(node.conflicts), dict(node.stamps)
        if then == 0:
            conflicts.update(CONFLICTS.validate_python(step.undo["conflicts"]))
            self._unanswered(stamps)
        elif step.undo["stamps"] is not None:
            work.answered.setdefault((node.id, step.undo["stamps"]), False)
        changed = replace(node, conflicts=conflicts, stamps=stamps, verdicts=verdicts, provenance=provenance)
        work.change(changed, set(fields), metadata=sections["metadata"], props=sections["props"])
        work.step(self._command, work.state.path(node), fields)

    def _unanswered(self, stamps: dict[Role, Stamp]) -> None:
        """Where nobody had answered before the step, and no agent has since, nobody has."""
        role: Role | None = self._step.undo["stamps"]
        if role is not None and role in stamps and stamps[role].record_id is None:
            del stamps[role]

    def _restored(self, known: Provenance | None) -> Provenance:
        """As it was, but of this version; what nobody had ever set is known to have been taken back."""
        work = self._work
        if known is None:
            by, at = work.author.by, work.author.at
            return Provenance(by, work.version, at, principal=work.author.principal, restores=0)
        return replace(known, version=work.version, restores=known.given)

    def _is_somebodys(self, node: Node) -> bool:
        """Whether somebody else changed the node since, beside the generator: what that made of it comes back with it
        when this is made again."""
        if not any(stamp.record_id is not None and stamp.version > self._since for stamp in node.stamps.values()):
            return self._touched(node)
        theirs = [one.version for one in node.provenance.values() if one.by in ("person", "chat", "import")]
        theirs += [one.accepted.version for one in node.provenance.values() if one.accepted is not None]
        return any(version > self._since and version not in self._mine for version in theirs)

    def _gone(self, is_touched: Callable[[Node], bool]) -> None:
        work, node = self._work, self._node()
        for one in work.state.walk(node):
            if is_touched(one):
                raise self._refused(f"{work.state.path(one)} was changed since")
        remove(work, node, self._command)

    def _added(self, removed: Removed) -> None:
        """The node as it was when it was taken back, with all that was below it by then."""
        made = NODE.validate_python(self._step.undo["made"])
        taken = (one for one in (*self._work.own, *self._work.steps) if one.version == self._since and one.removed)
        undone = next((one for one in taken if one.undo.get("node") == made.id), None)
        self._back_in_place((undone and _taken_out(undone, removed)) or [made])

    def _returned(self, removed: Removed) -> None:
        found = _taken_out(self._step, removed)
        if not found:
            raise self._refused("what it took out is not known any more")
        self._back_in_place(found)

    def _back_in_place(self, nodes: Sequence[Node]) -> None:
        """Nodes that were there before, the topmost first."""
        work, top = self._work, nodes[0]
        parent = work.draft.node(top.parent_id or "")
        if parent is None:
            raise self._refused(f"the parent of {self._step.node} is not there any more")
        if len(work.state.nodes) + len(nodes) > MAX_NODES:
            raise self._refused(f"a document has at most {MAX_NODES:,} nodes")
        for node in nodes:
            rank = work.draft.rank_near(node.parent_id or "", node.rank) if node is top else node.rank
            given = {
                name: replace(one, version=work.version, restores=one.given) for name, one in node.provenance.items()
            }
            enter(work, replace(node, version=work.version, rank=rank, provenance=given))
        work.change(work.state.nodes[parent.id], set())
        work.step(self._command, work.state.path(work.state.nodes[top.id]))

    def _moved(self, now: str, then: str) -> None:
        work, node = self._work, self._node()
        expected, (parent_id, key, rank) = self._step.undo[now], self._step.undo[then]
        if [node.parent_id, node.key, node.rank] != expected:
            raise self._refused(f"{work.state.path(node)} was moved since")
        if work.draft.node(parent_id) is None:
            raise self._refused("its parent is not there any more")
        moved = put_at(work, node, parent_id, key, lambda: work.draft.rank_near(parent_id, rank))
        work.step(self._command, work.state.path(moved))

    def _stood(self, now: int, then: int) -> None:
        work, node, step = self._work, self._node(), self._step
        names = tuple(step.undo["names"])
        expected, wanted = (STANDING.validate_python(step.undo["standing"][at]) for at in (now, then))
        present = standing(node, names)
        if not all(_stands(present.provenance[name], expected.provenance[name]) for name in names):
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
        others = {name: one for name, one in node.conflicts.items() if name not in names}
        conflicts = {**others, **{name: one for name, one in wanted.conflicts.items() if name in names}}
        changed = replace(node, provenance=provenance, stamps=stamps, failure=failure, conflicts=conflicts)
        if then and step.command == "accept":
            answered(work, changed)
        work.draft.put(replace(changed, version=work.version))
        work.step(self._command, work.state.path(node), {name: step.fields[name] for name in step.fields})


def _taken_out(step: Step, removed: Removed) -> list[Node]:
    """The nodes that a step took out, the topmost first; none where they are not known any more."""
    own = [NODE.validate_python(one) for one in step.undo["nodes"]]
    changed = {node.id for node in own}
    known = [*own, *(node for node in removed.get(step.version, ()) if node.id not in changed)]
    below: dict[str | None, list[Node]] = {}
    for node in known:
        below.setdefault(node.parent_id, []).append(node)
    found = [node for node in known if node.id == step.undo["node"]]
    for node in found:
        found.extend(below.get(node.id, ()))
    return found


def _stands(present: Provenance | None, expected: Provenance | None) -> bool:
    """Whether nobody has given another value since, nor accepted or released this one."""
    one, other = ((0, None) if known is None else (known.given, known.accepted) for known in (present, expected))
    return one == other
