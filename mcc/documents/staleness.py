"""Which nodes are failed, pending, stale or done: found out for a state, and for the next one where that differs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from mcc.contracts.documents import By, Counts, NodeStatus
from mcc.documents.asking import Begun, beginning, describe, field_of, frame_of, settled
from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent
from mcc.documents.inputs import because
from mcc.documents.node import Conflict, Node, Role, Stamp, Verdict
from mcc.documents.state import State, difference

WORST_FIRST: tuple[NodeStatus, ...] = ("failed", "pending", "stale", "done")

_KEY = "assessment"

_SETS: Mapping[Role, tuple[By, str]] = {"metadata": ("metadata_agent", "metadata."), "node": ("agent", "props.")}
"""What the agents of a node set of it themselves."""

_ASKED: frozenset[By] = frozenset({"agent", "metadata_agent", "outline", "chat"})
"""Whose values evidence is asked of."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the nodes of one state are; ask `assessed` for it.

    `stale` are the nodes whose agents would be asked something else today, whatever else they are. `said` is what nodes
    with children say of themselves and `begun` how their children's tasks begin, as far as anybody had to know: those
    two grow, nothing else changes.
    """

    blueprint: Blueprint
    state: State
    nodes: Mapping[str, Node]
    children: Mapping[str, Sequence[str]]
    statuses: dict[str, NodeStatus] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)
    begun: dict[str | None, Begun] = field(default_factory=dict)

    @property
    def status(self) -> NodeStatus:
        """The document's: the worst of its nodes'."""
        return next((status for status in WORST_FIRST if self.counted[status]), "done")

    @property
    def counts(self) -> Counts:
        return Counts(**{name: self.counted[name] for name in Counts.model_fields})

    def asked(self, node: Node, role: Role) -> str:
        """The digest of what this agent of the node would be asked with today."""
        frame = frame_of(self.blueprint, node.component, role)
        return self._begun(node.parent_id).asked(settled(frame, node), frame)

    def outdated(self, node: Node) -> Iterator[tuple[Role, Stamp]]:
        """The stamps of the node that another question would give today."""
        for role, stamp in chain(node.stamps.items(), _cut_off(node)):
            # Where the blueprint leaves an agent nothing to do any more, none is asked.
            if frame_of(self.blueprint, node.component, role).tools and stamp.asked != self.asked(node, role):
                yield role, stamp

    def _begun(self, parent_id: str | None) -> Begun:
        found = self.begun.get(parent_id)
        if found is None:
            parent = None if parent_id is None else self.state.nodes[parent_id]
            above = () if parent is None else (*self.state.ancestors(parent), parent)
            found = self.begun[parent_id] = Begun(beginning(self.state.brief, [self._said(one) for one in above]))
        return found

    def _said(self, node: Node) -> str:
        found = self.said.get(node.id)
        if found is None:
            found = self.said[node.id] = describe(self.blueprint, self.state, node)
        return found


def assessed(blueprint: Blueprint, state: State) -> Assessment:
    """What the nodes of a state are. `state` is one that does not change any more: no draft of one.

    Costs what differs from the state that was asked about before, which this one was made of.
    """
    known = state.memory.get(_KEY)
    if not isinstance(known, Assessment) or known.blueprint != blueprint or known.state.brief != state.brief:
        made = Assessment(blueprint, state, state.nodes, state.children)
        _judge(made, state.nodes, None)
    elif known.state is state:
        return known
    else:
        made = _next(known, state)
    state.memory[_KEY] = made
    return made


def pending_of(blueprint: Blueprint, state: State, node: Node) -> tuple[str, ...]:
    """What keeps a node pending: fields ("props.title"), children ("children.lesson"), rules of it ("rules[0]")."""
    return tuple(dict.fromkeys(_pending(blueprint.component(node.component), state, node)))


def stale_because(blueprint: Blueprint, state: State, node: Node) -> tuple[str, ...]:
    """What has changed since the node's agents were asked, such as "/ metadata.grade, 7 → 8 at version 42"; nothing
    where nothing has."""
    found = assessed(blueprint, state)
    if node.id not in found.stale:
        return ()
    reasons = (
        reason for role, stamp in found.outdated(node) for reason in because(blueprint, state, node, role, stamp)
    )
    return tuple(dict.fromkeys(reasons)) or ("what its agent would be asked today",)


def begun_conflicts(
    blueprint: Blueprint, before: State, after: State, was: Blueprint | None = None
) -> Mapping[str, Mapping[str, Conflict]]:
    """By node and field, the conflicts that begin with a change: held fields of nodes that have become stale by it.
    `was` is the blueprint that the document had before, where it has another one.

    What the change itself has set is as its author wants it, and in no conflict.
    """
    stale, now = assessed(was or blueprint, before).stale, assessed(blueprint, after)
    begun: dict[str, Mapping[str, Conflict]] = {}
    for id in now.stale - stale:
        node = after.nodes[id]
        held = [
            name
            for name, one in node.provenance.items()
            if one.held and one.version != after.version and name not in node.conflicts
        ]
        if held and id in before.nodes:
            reasons = stale_because(blueprint, after, node)
            begun[id] = {name: Conflict(after.version, reasons) for name in held}
    return begun


def _next(known: Assessment, state: State) -> Assessment:
    """The assessment of `state` from that of another one."""
    nodes = state.nodes
    differing = difference(known.nodes, state)
    changed = {id for id in differing if id in nodes}
    gone = {id for id in differing if id not in nodes}
    moved, emptied = set[str](), set[str]()
    if known.children is not state.children:
        moved = {id for id, below in state.children.items() if known.children.get(id) is not below}
        emptied = known.children.keys() - state.children.keys() - gone
    made = Assessment(
        known.blueprint,
        state,
        nodes,
        state.children,
        dict(known.statuses),
        set(known.stale),
        known.counted.copy(),
        dict(known.said),
        dict(known.begun),
    )
    again = changed | moved | emptied | _brief_differs(known, made, changed, moved)
    for id in gone & known.nodes.keys():
        made.said.pop(id, None)
        made.begun.pop(id, None)
        _forget(made, known.nodes[id])
    _judge(made, again, known)
    return made


def _brief_differs(known: Assessment, made: Assessment, changed: set[str], moved: set[str]) -> set[str]:
    """The nodes below those that say something else of themselves than before, or stand elsewhere: they changed, or
    `moved` has their parents."""
    found: set[str] = set()
    nodes = made.state.nodes
    # Of whom nobody had to know what it says, no descendant has been asked anything.
    suspects = [id for id in changed if id in known.said]
    if moved:
        # A copy, made at once: other threads may ask more of the known one meanwhile.
        others = [id for id in tuple(known.said) if id in nodes and id not in changed]
        suspects += [id for id in others if nodes[id].parent_id in moved]
    for id in suspects:
        if id in found:
            continue
        node = nodes[id]
        same_place = known.nodes[id].parent_id == node.parent_id
        if same_place and describe(made.blueprint, made.state, node) == known.said[id]:
            continue
        for below in made.state.walk(node):
            found.add(below.id)
            made.said.pop(below.id, None)
            made.begun.pop(below.id, None)
    return found


def _judge(made: Assessment, ids: Iterable[str], known: Assessment | None) -> None:
    for id in ids:
        node = made.state.nodes[id]
        if known is not None and id in known.nodes:
            _forget(made, known.nodes[id])
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


def missing(component: CompiledComponent, state: State, node: Node) -> Iterator[str]:
    """The required fields and children that are not there, also where nothing is judged."""
    for name, one in component.fields.items():
        if one.spec.required and field_of(node, name) is None:
            yield name
    for child, count in component.spec.children.items():
        if count.min and state.count(node, child) < count.min:
            yield f"children.{child}"


def _pending(component: CompiledComponent, state: State, node: Node) -> Iterator[str]:
    yield from missing(component, state, node)
    if component.validates:
        for verdict in node.verdicts:
            # A function that nobody here has, or that has not judged yet, is never a pass.
            unjudged = verdict.ok is None and (verdict.kind == "function" or _is_unproved(node, verdict))
            if verdict.ok is False or unjudged:
                yield _about(verdict.rule)


def _is_unproved(node: Node, verdict: Verdict) -> bool:
    """Whether it is about the value of an agent that was cut off before its evidence was looked at."""
    if verdict.kind != "evidence":
        return False
    known = node.provenance.get(_about(verdict.rule))
    by_agent = known is not None and known.by in _ASKED and not known.held
    return by_agent and field_of(node, _about(verdict.rule)) is not None


def _cut_off(node: Node) -> Iterator[tuple[Role, Stamp]]:
    """What agents were asked with that set values and were cut off before anybody stamped their node."""
    for role, (by, section) in _SETS.items():
        since = node.stamps[role].version if role in node.stamps else 0
        for name, one in node.provenance.items():
            if one.by == by and one.asked is not None and one.given > since and name.startswith(section):
                yield role, Stamp(one.asked, {}, one.version, one.rules, one.order_id, one.record_id)


def _about(rule: str) -> str:
    """ "props.minutes" of the rule "props.minutes.rules[0]"; a rule of the component is about itself."""
    return rule if rule.startswith("rules[") else ".".join(rule.split(".")[:2])
