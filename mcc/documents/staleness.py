"""The status of each node (failed, pending, stale, done), updated incrementally from one state to the next."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from mcc.contracts.documents import By, Counts, NodeStatus
from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent, field_of_rule
from mcc.documents.inputs import changes_since
from mcc.documents.node import FieldConflict, Node, Role, RuleVerdict, Stamp
from mcc.documents.prompts import TaskPrefix, describe, frame_of, own_part, task_opening
from mcc.documents.state import DocumentState, difference

WORST_FIRST: tuple[NodeStatus, ...] = ("failed", "pending", "stale", "done")

_KEY = "assessment"

_SETS: Mapping[Role, tuple[By, str]] = {"metadata": ("metadata_agent", "metadata."), "node": ("agent", "props.")}
"""By agent: the author of its values, and the section of the node that they are in."""

_ASKED: frozenset[By] = frozenset({"agent", "metadata_agent", "outline", "chat"})
"""Authors whose values need evidence."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The status of all nodes of one state; get it from `assessed`.

    `stale` are the ids of all nodes whose agents would get another prompt today, even where their status is worse.
    `descriptions` (by node) and `prefixes` (by parent) are caches of prompt parts, filled on demand; the rest is fixed.
    """

    blueprint: Blueprint
    state: DocumentState
    statuses: dict[str, NodeStatus] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str | None, TaskPrefix] = field(default_factory=dict)

    @property
    def status(self) -> NodeStatus:
        """The document's: the worst of its nodes'."""
        return next((status for status in WORST_FIRST if self.counted[status]), "done")

    @property
    def counts(self) -> Counts:
        return Counts(**{name: self.counted[name] for name in Counts.model_fields})

    def prompt_digest(self, node: Node, role: Role) -> str:
        """The digest of the prompt that this agent of the node would get today."""
        frame = frame_of(self.blueprint, node.component, role)
        return self._prefix(node.parent_id).digest(own_part(frame, node), frame)

    def outdated(self, node: Node) -> Iterator[tuple[Role, Stamp]]:
        """The stamps of the node whose agent would get another prompt today."""
        for role, stamp in chain(node.stamps.items(), _interrupted_stamps(node)):
            # Without tools the agent has nothing to do any more, and never runs.
            if frame_of(self.blueprint, node.component, role).tools and stamp.asked != self.prompt_digest(node, role):
                yield role, stamp

    def _prefix(self, parent_id: str | None) -> TaskPrefix:
        found = self.prefixes.get(parent_id)
        if found is None:
            parent = None if parent_id is None else self.state.nodes[parent_id]
            above = () if parent is None else (*self.state.ancestors(parent), parent)
            opening = task_opening(self.state.brief, [self._description(one) for one in above])
            found = self.prefixes[parent_id] = TaskPrefix(opening)
        return found

    def _description(self, node: Node) -> str:
        found = self.descriptions.get(node.id)
        if found is None:
            found = self.descriptions[node.id] = describe(self.blueprint, self.state, node)
        return found


def assessed(blueprint: Blueprint, state: DocumentState) -> Assessment:
    """The statuses of the nodes of a state, which must be a finished one, not a draft's.

    The cost depends on what differs from the state last assessed among those it was derived from.
    """
    known = state.memory.get(_KEY)
    if not isinstance(known, Assessment) or known.blueprint != blueprint or known.state.brief != state.brief:
        made = Assessment(blueprint, state)
        _judge(made, state.nodes, None)
    elif known.state is state:
        return known
    else:
        made = _updated(known, state)
    state.memory[_KEY] = made
    return made


def pending_of(blueprint: Blueprint, state: DocumentState, node: Node, *, own: bool = False) -> tuple[str, ...]:
    """What keeps a node pending: fields ("props.title"), children ("children.lesson"), rules of it ("rules[0]").

    `own`: without the rules that agents of nodes below it are to mend.
    """
    if own and any(verdict.below for verdict in node.verdicts):
        node = replace(node, verdicts=tuple(verdict for verdict in node.verdicts if not verdict.below))
    return tuple(dict.fromkeys(_pending(blueprint.component(node.component), state, node)))


def stale_because(blueprint: Blueprint, state: DocumentState, node: Node) -> tuple[str, ...]:
    """What changed since the node's agents ran, such as "/ metadata.grade, 7 → 8 at version 42"; empty for a node that
    is not stale."""
    assessment = assessed(blueprint, state)
    if node.id not in assessment.stale:
        return ()
    reasons = (
        reason
        for role, stamp in assessment.outdated(node)
        for reason in changes_since(blueprint, state, node, role, stamp)
    )
    return tuple(dict.fromkeys(reasons)) or ("what its agent would be asked today",)


def new_conflicts(
    blueprint: Blueprint, before: DocumentState, after: DocumentState, was: Blueprint | None = None
) -> Mapping[str, Mapping[str, FieldConflict]]:
    """By node id and field, the conflicts that a change causes: held fields of nodes that it made stale.

    `was` is the blueprint of `before`, where that was another one. Fields that the change itself set get no conflict.
    """
    stale, now = assessed(was or blueprint, before).stale, assessed(blueprint, after)
    new: dict[str, Mapping[str, FieldConflict]] = {}
    for id in now.stale - stale:
        node = after.nodes[id]
        held = [
            name
            for name, known in node.provenance.items()
            if known.held and known.version != after.version and name not in node.conflicts
        ]
        if held and id in before.nodes:
            reasons = stale_because(blueprint, after, node)
            new[id] = {name: FieldConflict(after.version, reasons) for name in held}
    return new


def _updated(known: Assessment, state: DocumentState) -> Assessment:
    """The assessment of `state`, made from that of an earlier state."""
    nodes, before = state.nodes, known.state
    differing = difference(before.nodes, state)
    changed = {id for id in differing if id in nodes}
    removed = {id for id in differing if id not in nodes}
    moved, emptied = set[str](), set[str]()
    if before.children is not state.children:
        moved = {id for id, below in state.children.items() if before.children.get(id) is not below}
        emptied = before.children.keys() - state.children.keys() - removed
    made = Assessment(
        known.blueprint,
        state,
        # Copies: `known` stays the assessment of its own state, which other threads may hold.
        dict(known.statuses),
        set(known.stale),
        known.counted.copy(),
        dict(known.descriptions),
        dict(known.prefixes),
    )
    again = changed | moved | emptied | _with_changed_prompt(known, made, changed, moved)
    for id in removed & before.nodes.keys():
        made.descriptions.pop(id, None)
        made.prefixes.pop(id, None)
        _forget(made, before.nodes[id])
    _judge(made, again, known)
    return made


def _with_changed_prompt(known: Assessment, made: Assessment, changed: set[str], moved: set[str]) -> set[str]:
    """The descendants of nodes whose description changed, or that moved: their prompts differ. `moved` are the parents
    whose list of children changed."""
    ids: set[str] = set()
    nodes = made.state.nodes
    # A node without a cached description has no descendant with a stamp, as comparing one would have cached it.
    suspects = [id for id in changed if id in known.descriptions]
    if moved:
        # A copy, because other threads may add descriptions to `known` at the same time.
        others = [id for id in tuple(known.descriptions) if id in nodes and id not in changed]
        suspects += [id for id in others if nodes[id].parent_id in moved]
    for id in suspects:
        if id in ids:
            continue
        node = nodes[id]
        same_place = known.state.nodes[id].parent_id == node.parent_id
        if same_place and describe(made.blueprint, made.state, node) == known.descriptions[id]:
            continue
        for below in made.state.walk(node):
            ids.add(below.id)
            made.descriptions.pop(below.id, None)
            made.prefixes.pop(below.id, None)
    return ids


def _judge(made: Assessment, ids: Iterable[str], known: Assessment | None) -> None:
    for id in ids:
        node = made.state.nodes[id]
        if known is not None and id in known.state.nodes:
            _forget(made, known.state.nodes[id])
        stale = any(True for _ in made.outdated(node))
        if stale:
            made.stale.add(id)
        status = made.statuses[id] = _status(made, node, stale)
        made.counted[status] += 1
        made.counted["conflicts"] += len(node.conflicts)


def _forget(made: Assessment, before: Node) -> None:
    made.stale.discard(before.id)
    made.counted[made.statuses.pop(before.id)] -= 1
    made.counted["conflicts"] -= len(before.conflicts)


def _status(made: Assessment, node: Node, stale: bool) -> NodeStatus:
    if node.failure is not None:
        return "failed"
    if any(True for _ in _pending(made.blueprint.component(node.component), made.state, node)):
        return "pending"
    return "stale" if stale else "done"


def missing(component: CompiledComponent, state: DocumentState, node: Node) -> Iterator[str]:
    """The required fields and children that are missing, also where the component is not validated."""
    for name, one in component.fields.items():
        if one.spec.required and node.value(name) is None:
            yield name
    for child, count in component.spec.children.items():
        if count.min and state.count(node, child) < count.min:
            yield f"children.{child}"


def _pending(component: CompiledComponent, state: DocumentState, node: Node) -> Iterator[str]:
    yield from missing(component, state, node)
    if component.validates:
        for verdict in node.verdicts:
            # A function rule without a verdict (function unknown or not run yet) is never a pass.
            unjudged = verdict.ok is None and (verdict.kind == "function" or _is_unproved(node, verdict))
            if verdict.ok is False or unjudged:
                yield field_of_rule(verdict.rule) or verdict.rule


def _is_unproved(node: Node, verdict: RuleVerdict) -> bool:
    """Whether the verdict is about a value whose agent was interrupted before its evidence was checked."""
    name = field_of_rule(verdict.rule)
    if verdict.kind != "evidence" or name is None:
        return False
    known = node.provenance.get(name)
    return known is not None and known.by in _ASKED and not known.held and node.value(name) is not None


def _interrupted_stamps(node: Node) -> Iterator[tuple[Role, Stamp]]:
    """Stamps of agents that set values but were interrupted before their run was settled."""
    for role, (by, section) in _SETS.items():
        since = node.stamps[role].version if role in node.stamps else 0
        for name, one in node.provenance.items():
            if one.by == by and one.asked is not None and one.given > since and name.startswith(section):
                yield role, Stamp(one.asked, {}, one.version, one.rules, one.order_id, one.record_id)
