"""An immutable snapshot of a document at one version, and the draft in which the next one is built."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcc.contracts.similar import did_you_mean
from mcc.documents.node import ROOT, Node

MAX_LEVELS = 100
MAX_NODES = 100_000
_KEY = "difference"


class UnknownNode(LookupError):
    """No node of the document has this path or id."""


@dataclass(frozen=True)
class DocumentState:
    """`nodes` by id; `children` has the ordered child ids by parent id. `brief` is the text that the last generation
    gave to all its agents. `blueprint` is the digest of the document's blueprint. Two indexes are derived from the
    nodes: `keys` (ids by parent id and key) and `tallies` (number of children by parent id and component).

    `memory` is a cache shared with the states derived from this one, so that results computed for one can be updated
    for the next. States are immutable otherwise; threads may share them.
    """

    id: str
    blueprint: str
    title: str
    version: int
    nodes: Mapping[str, Node] = field(repr=False)
    children: Mapping[str, Sequence[str]] = field(repr=False)
    root_id: str
    brief: str = field(default="", repr=False)
    keys: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    tallies: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    memory: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, id: str, blueprint: str, title: str, version: int, nodes: Sequence[Node], brief: str = ""
    ) -> "DocumentState":
        """Build a state from nodes in any order. Raises ValueError unless exactly one is a root."""
        roots = [node.id for node in nodes if node.parent_id is None]
        if len(roots) != 1:
            raise ValueError(f"a document has one root, and this has {len(roots)}")
        empty = cls(id, blueprint, title, version, {}, {}, roots[0], brief)
        ordered = sorted(nodes, key=lambda node: (node.rank, node.id))
        return empty.with_nodes(version, {node.id: node for node in ordered})

    @property
    def root(self) -> Node:
        return self.nodes[self.root_id]

    def parent(self, node: Node) -> Node | None:
        return None if node.parent_id is None else self.nodes[node.parent_id]

    def children_of(self, node: Node) -> tuple[Node, ...]:
        return tuple(self.nodes[child] for child in self.children.get(node.id, ()))

    def count(self, node: Node, component: str) -> int:
        """The number of the node's children of this component."""
        return self.tallies.get(node.id, {}).get(component, 0)

    def ancestors(self, node: Node) -> tuple[Node, ...]:
        """The ancestors, from the root down to the parent."""
        above: list[Node] = []
        one = self.parent(node)
        while one is not None:
            above.append(one)
            one = self.parent(one)
        return tuple(reversed(above))

    def path(self, node: Node) -> str:
        """The path, such as "/lesson-2/activity-1"; "/" for the root."""
        keys = [one.key for one in (*self.ancestors(node), node) if one.key]
        return ROOT + "/".join(keys)

    def position(self, node: Node) -> int:
        """The position among its siblings, counted from 1."""
        return 1 if node.parent_id is None else place_of(self.nodes, self.children[node.parent_id], node) + 1

    def find(self, named: str) -> Node:
        """The node of this path or id. Raises `UnknownNode`."""
        if named in self.nodes:
            return self.nodes[named]
        node = self.root
        for key in (part for part in named.split("/") if part) if named.startswith(ROOT) else (named,):
            id = self.keys.get((node.id, key)) if named.startswith(ROOT) else None
            if id is None:
                above = self.path(node).rstrip("/")
                near = did_you_mean(
                    f"{above}/{key}", (f"{above}/{child.key}" for child in self.children_of(node)[:1_000])
                )
                raise UnknownNode(f"there is no node {named[:200]!r} in this document{near}")
            node = self.nodes[id]
        return node

    def walk(self, top: Node | None = None) -> Iterator[Node]:
        """`top` (the root by default) and its descendants, depth first, siblings in order."""
        waiting = [top or self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(self.children_of(node)))

    def with_nodes(
        self, version: int, changed: Mapping[str, Node | None], *, brief: str | None = None, title: str | None = None
    ) -> "DocumentState":
        """A state of `version` with these nodes added or replaced, or removed where None."""
        draft = StateDraft(self)
        draft.put_all(changed)
        made = draft.finished(version)
        return replace(made, brief=made.brief if brief is None else brief, title=made.title if title is None else title)


@dataclass(frozen=True, slots=True)
class StateDifference:
    """The ids of the nodes that differ between two states, which are identified by their `nodes` mappings."""

    before: Mapping[str, Node]
    after: Mapping[str, Node]
    ids: frozenset[str]


def difference(before: Mapping[str, Node], state: DocumentState) -> Iterable[str]:
    """The ids of the nodes added, removed or replaced between `before` (the `nodes` of another state) and `state`.

    Free when `state` is the latest one derived from that other state; otherwise linear in the number of nodes.
    """
    known = state.memory.get(_KEY)
    if isinstance(known, StateDifference) and known.before is before and known.after is state.nodes:
        return known.ids
    nodes = state.nodes
    # By identity: nodes are immutable, and comparing their values would cost as much as reading them.
    return {id for id in before.keys() | nodes.keys() if before.get(id) is not nodes.get(id)}


def place_of(nodes: Mapping[str, Node], siblings: Sequence[str], node: Node) -> int:
    """The index (from 0) of `node` among siblings ordered by rank and id, or where it would be inserted."""
    return bisect_left(siblings, (node.rank, node.id), key=lambda id: (nodes[id].rank, id))


def _place(node: Node | None) -> tuple[object, ...] | None:
    return None if node is None else (node.parent_id, node.key, node.rank, node.component)


class StateDraft:
    """A mutable copy of a state. `state` shows its current content; `before` has the original of each changed node,
    None for an added one.

    The node table is copied once, however many nodes change; the tree indexes only when the tree changes.
    """

    def __init__(self, state: DocumentState) -> None:
        self.before: dict[str, Node | None] = {}
        self._base = state.nodes
        # A copy once for all commands of a dispatch: threads may be reading the state that it is made from.
        self._nodes = dict(state.nodes)
        self._children: dict[str, Sequence[str]] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._tallies: dict[str, Mapping[str, int]] = {}
        self._lists: dict[str, list[str]] = {}
        self._tree = False
        self.state = replace(state, nodes=self._nodes)

    def node(self, id: str) -> Node | None:
        return self._nodes.get(id)

    def put(self, node: Node) -> None:
        """Add or replace one node."""
        self.put_all({node.id: node})

    def put_all(self, changed: Mapping[str, Node | None]) -> None:
        """Add or replace these nodes; remove those that are None, but not their descendants."""
        moved = {id: node for id, node in changed.items() if _place(self._nodes.get(id)) != _place(node)}
        if moved:
            self._copy_tree_indexes()
        # All are unlinked before any is linked: the binary search needs siblings sorted by their current ranks.
        for id in moved:
            self._unlink(id)
        for id, node in changed.items():
            self.before.setdefault(id, self._nodes.get(id))
            if node is None:
                self._nodes.pop(id, None)
            else:
                self._nodes[id] = node
        for node in moved.values():
            if node is not None:
                self._link(node)

    def rank_at(self, parent_id: str, index: int) -> float:
        """A rank for this index (from 0) among the children; re-ranks neighbours where no number is left between."""
        siblings = self.state.children.get(parent_id, ())
        index = min(index, len(siblings))
        rank = _between(self._rank(siblings, index - 1), self._rank(siblings, index))
        if rank is None:
            self._make_room(siblings, index)
            siblings = self.state.children[parent_id]
            rank = _between(self._rank(siblings, index - 1), self._rank(siblings, index))
        assert rank is not None
        return rank

    def rank_near(self, parent_id: str, rank: float) -> float:
        """This rank, or one right before the child that already has it."""
        siblings = self.state.children.get(parent_id, ())
        index = bisect_left(siblings, rank, key=lambda id: self._nodes[id].rank)
        return self.rank_at(parent_id, index) if self._rank(siblings, index) == rank else rank

    def finished(self, version: int) -> DocumentState:
        """The state of `version`, which takes over the tables of the draft; do not use the draft after this."""
        for parent, siblings in self._lists.items():
            if siblings:
                self._children[parent] = tuple(siblings)
            else:
                self._children.pop(parent, None)
                self._tallies.pop(parent, None)
        self._lists.clear()
        self.state.memory[_KEY] = StateDifference(self._base, self._nodes, frozenset(self.before))
        return replace(self.state, version=version)

    def _copy_tree_indexes(self) -> None:
        if not self._tree:
            self._tree = True
            self._children = dict(self.state.children)
            self._keys = dict(self.state.keys)
            self._tallies = dict(self.state.tallies)
            self.state = replace(self.state, children=self._children, keys=self._keys, tallies=self._tallies)

    def _siblings(self, parent_id: str) -> list[str]:
        if parent_id not in self._lists:
            self._lists[parent_id] = list(self._children.get(parent_id, ()))
            self._children[parent_id] = self._lists[parent_id]
        return self._lists[parent_id]

    def _unlink(self, id: str) -> None:
        node = self._nodes.get(id)
        if node is None or node.parent_id is None:
            return
        siblings = self._siblings(node.parent_id)
        del siblings[place_of(self._nodes, siblings, node)]
        del self._keys[node.parent_id, node.key]
        self._tally(node, -1)

    def _link(self, node: Node) -> None:
        if node.parent_id is None:
            return
        siblings = self._siblings(node.parent_id)
        siblings.insert(place_of(self._nodes, siblings, node), node.id)
        self._keys[node.parent_id, node.key] = node.id
        self._tally(node, 1)

    def _tally(self, node: Node, more: int) -> None:
        assert node.parent_id is not None
        counts = dict(self._tallies.get(node.parent_id, {}))
        counts[node.component] = counts.get(node.component, 0) + more
        self._tallies[node.parent_id] = {component: count for component, count in counts.items() if count}

    def _rank(self, siblings: Sequence[str], index: int) -> float | None:
        return self._nodes[siblings[index]].rank if 0 <= index < len(siblings) else None

    def _make_room(self, siblings: Sequence[str], index: int) -> None:
        """Spread the ranks around this index over as few siblings as possible: each is a row to write."""
        wide = 16
        while True:
            low, high = max(0, index - wide), min(len(siblings), index + wide)
            first, last = self._rank(siblings, low - 1), self._rank(siblings, high)
            start = first if first is not None else (last if last is not None else 0.0) - (high - low + 1)
            end = last if last is not None else start + (high - low + 1)
            gap = (end - start) / (high - low + 1)
            is_whole = low == 0 and high == len(siblings)
            if is_whole or (start + gap / 1024 > start and end - gap / 1024 < end):
                break
            wide *= 4
        ids = siblings[low:high]
        self.put_all({id: replace(self._nodes[id], rank=start + gap * (at + 1)) for at, id in enumerate(ids)})


def _between(before: float | None, after: float | None) -> float | None:
    """A number between two bounds, where None is open; None when no float lies between them."""
    if before is None:
        return 1.0 if after is None else after - 1.0
    if after is None:
        return before + 1.0
    middle = before + (after - before) / 2
    return middle if before < middle < after else None
