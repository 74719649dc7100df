"""This room is for forks: where a journal may be cut, and its entries again under the ids of another order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any

from mcc.contracts.control import SteerMode
from mcc.contracts.fold import Fold
from mcc.contracts.ids import call_id, child_record_id, derived_id, fresh_id, root_record_id
from mcc.contracts.journal import (
    ORDER,
    AgentFinished,
    AgentStarted,
    AgentStep,
    ApprovalDecided,
    ApprovalRequested,
    ControlApplied,
    Draft,
    Entry,
    Fact,
    Forked,
    ModelReplied,
    ModelStarted,
    OrderQueued,
    Origin,
    ToolFinished,
    ToolStarted,
    TranscriptCompacted,
    fact_of,
)
from mcc.contracts.shape import Text, to_json
from mcc.rules.patterns import Found, Pattern
from mcc.store.large import parsed

CHILDREN = 1_000
"""Places among the children of one call that are tried when the place of a child is looked for."""

_ID = Pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Cut:
    """The entries 1 to `after` may be taken over; `asked` is the number that was wished for.

    `within` says what was under way there, None when nothing was. `root` is the master's record, None before it began.
    """

    asked: int
    after: int
    within: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a new order begins with: `drafts` follow its first entry, which tells `forked`."""

    order_id: str
    forked: Forked
    drafts: tuple[Draft, ...]

    @property
    def began(self) -> bool:
        """Whether its master had begun."""
        return any(isinstance(draft.data, AgentStarted) for draft in self.drafts)


@dataclass(slots=True)
class _Work:
    """What is under way in one journal, entry by entry. What ended with its master counts as under way."""

    root: str | None = None
    models: dict[str, str] = field(default_factory=dict)
    calls: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        record_id, fact = entry.record_id or "", entry.data
        match fact:
            case AgentStarted() if entry.parent_id is None:
                self.root = record_id
                self.models.clear()
                self.calls.clear()
            case ModelStarted():
                self.models[record_id] = f"a model call of {entry.agent or 'an agent'}"
            case ModelReplied():
                self.models.pop(record_id, None)
                self.calls[record_id] = {call.call_id: f"the call of {call.name}" for call in fact.tool_calls}
            case ToolStarted():
                self.calls.setdefault(record_id, {})[fact.call_id] = f"the call of {fact.name}"
            case ToolFinished():
                self.calls.get(record_id, {}).pop(fact.call_id, None)
            case AgentFinished() if record_id != self.root:
                self.models.pop(record_id, None)
                self.calls.pop(record_id, None)

    @property
    def under_way(self) -> str | None:
        """The outermost of it."""
        calls = (what for of_record in self.calls.values() for what in of_record.values())
        return next(calls, None) or next(iter(self.models.values()), None)


def cut(entries: Sequence[Entry], asked: int) -> Cut:
    """The last place at or before entry `asked` where neither a model nor a tool is being called.

    `entries` are the first ones of a journal, that many and the one after them.
    """
    work, found, within = _Work(), Cut(asked, 0), None
    for entry, following in zip_longest(entries[:asked], entries[1 : asked + 1]):
        work.add(entry)
        within = work.under_way
        if within is None and _is_beginning(entry, following):
            within = "the beginning of its master"
        if within is None:
            found = Cut(asked, entry.seq, root=work.root)
    return Cut(asked, found.after, within, found.root)


def _is_beginning(entry: Entry, following: Entry | None) -> bool:
    """Whether an agent was just begun, and notes of that follow."""
    if following is None or not isinstance(entry.data, AgentStarted | AgentStep):
        return False
    return isinstance(following.data, AgentStep) and (entry.record_id, entry.at) == (following.record_id, following.at)


def forked(source: Sequence[Entry], place: Cut, order_id: str, at: datetime, prompt: str | None = None) -> Beginning:
    """What a fork begins with that takes over `source` up to this cut; `prompt` is said to its master next."""
    kept = list(_kept(source[: place.after], place.root))
    ids = _Ids(order_id)
    for number, entry in enumerate(kept, start=2):
        ids.learn(entry, number)
    drafts = [ids.renamed(entry) for entry in kept]
    made = Forked(order_id=source[0].order_id, after=place.after, until=1 + len(drafts))
    drafts += _said(order_id, drafts, at, prompt)
    return Beginning(order_id, made, tuple(drafts))


def begun_with(entries: Sequence[Entry]) -> Cut | None:
    """What an order itself began with, when it is a fork; `entries` are its first ones, at least those and one more."""
    first = entries[0].data
    if not isinstance(first, OrderQueued) or first.forked is None:
        return None
    root, after = root_record_id(entries[0].order_id), first.forked.until
    while after < len(entries) and _is_said(entries[after]):
        after += 1
    return Cut(after, after, root=root)


def _is_said(entry: Entry) -> bool:
    """Whether this is what a fork was told at once, and not what ended it before any drone claimed it."""
    return isinstance(entry.data, ControlApplied) and entry.data.control in ("resume", "steer")


def note_of(place: Cut, source_id: str, *, began: bool, workspace: bool) -> Text:
    """What people are told of a fork."""
    said = [f"Begins with entries 1 to {place.after} of order {source_id}."]
    if place.within is not None:
        said.append(f"Entry {place.asked} lies within {place.within}, so it was cut before that.")
    if not began:
        said.append("No agent had begun by then, so everything is done anew.")
    elif workspace:
        said.append("The files of the workspace are as they are now; they were not taken back.")
    return " ".join(said)


def _kept(entries: Sequence[Entry], root: str | None) -> Iterator[Entry]:
    """Those that are taken over: what the agents did from the master's beginning on, and what was asked of the order.

    Left out are what happened to the order itself, approvals, and how the master ended or was told to.
    """
    begun = False
    for entry in entries:
        begun = begun or (entry.record_id == root and isinstance(entry.data, AgentStarted))
        if _is_taken_over(entry.data, begun, whole=entry.record_id in (None, root)):
            yield entry


def _is_taken_over(fact: Fact, begun: bool, *, whole: bool) -> bool:
    """`whole`: it is about the master, or about the order as a whole."""
    match fact:
        case ControlApplied() if whole:
            return fact.control != "cancel"
        case ApprovalRequested() | ApprovalDecided():
            return False
        case AgentFinished() if whole:
            return False
        case _:
            return begun and not fact.kind.startswith("order.")


def _said(order_id: str, drafts: Sequence[Draft], at: datetime, prompt: str | None) -> Sequence[Draft]:
    """A fork goes on, also when its source was paused; and once its master has begun, that hears the new prompt."""
    fold = Fold.of(order_id, (draft.numbered(order_id, seq) for seq, draft in enumerate(drafts, start=1)))
    master = next((draft.origin for draft in drafts if isinstance(draft.data, AgentStarted)), None)
    said: list[Draft] = []
    if fold.paused:
        resumed = ControlApplied(control_id=fresh_id(), control="resume", reason="a fork goes on by itself")
        said.append(Draft(at=at, origin=master or ORDER, data=resumed))
    if prompt is not None and master is not None:
        steer = ControlApplied(control_id=fresh_id(), control="steer", mode=SteerMode.INJECT.value, message=prompt)
        said.append(Draft(at=at, origin=master, data=steer))
    return said


class _Ids:
    """The ids of one order's records and calls, derived again for another order, and the numbers of its entries."""

    def __init__(self, order_id: str) -> None:
        self._order_id = order_id
        self._new: dict[str, str] = {}
        self._numbers: dict[int, int] = {}

    def learn(self, entry: Entry, number: int) -> None:
        """`number` is the one that the entry has from now on."""
        self._numbers[entry.seq] = number
        fact, record_id = entry.data, entry.record_id or ""
        match fact:
            case AgentStarted():
                self._new[record_id] = self._record(entry, fact)
            case ModelReplied():
                for index, call in enumerate(fact.tool_calls):
                    self._new[call.call_id] = call_id(self._new[record_id], fact.round, index)
            case ToolStarted():
                self._new.setdefault(fact.call_id, call_id(self._new[record_id], fact.round, fact.index))

    def _record(self, entry: Entry, fact: AgentStarted) -> str:
        if entry.parent_id is None:
            return root_record_id(self._order_id)
        old = fact.call_id or ""
        new = self._new.get(old, derived_id(self._order_id, old))
        places = (index for index in range(CHILDREN) if child_record_id(old, index) == entry.record_id)
        index = next(places, None)
        return derived_id(new, entry.record_id or "") if index is None else child_record_id(new, index)

    def renamed(self, entry: Entry) -> Draft:
        origin = Origin(
            record_id=self._new.get(entry.record_id or ""),
            parent_id=self._new.get(entry.parent_id or ""),
            agent=entry.agent,
            depth=entry.depth,
        )
        return Draft(at=entry.at, origin=origin, data=self._fact(entry, entry.data))

    def _fact(self, entry: Entry, fact: Fact) -> Fact:
        """Ids are exchanged wherever they stand, in the texts that models read too.

        What a provider signed stays as it was.
        """
        document: Mapping[str, Any] = parsed(to_json(fact))
        changed = {name: value if name == "thoughts" else self._exchanged(value) for name, value in document.items()}
        if isinstance(fact, AgentStarted):
            changed["forked_from"] = entry.record_id
        if isinstance(fact, TranscriptCompacted):
            taken = (new for old, new in self._numbers.items() if old <= fact.through_seq)
            changed["through_seq"] = max(taken, default=1)
        return fact_of(fact.kind, changed)

    def _exchanged(self, value: Any) -> Any:
        match value:
            case str():
                return self._new[value] if value in self._new else _ID.sub(self._id, value)
            case dict():
                return {key: self._exchanged(item) for key, item in value.items()}
            case list():
                return [self._exchanged(item) for item in value]
            case _:
                return value

    def _id(self, found: Found) -> str:
        return self._new.get(found.group(), found.group())
