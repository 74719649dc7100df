"""Retries and forks: orders derived from other orders, with the first part of their journals under new ids."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import assert_never

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.control import SteerMode
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import ORDER, Draft, Entry
from mcc.contracts.fold import Fold
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.ids import delivery_record_id, fresh_id, root_record_id
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    JOURNAL_VERSION,
    READABLE_VERSIONS,
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    AnyFact,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.open_calls import OpenCall, OpenCallTracker
from mcc.contracts.order import NewFork, NewOrder, OrderKind, OrderOrigin, WhenBusy, WorkOrder
from mcc.contracts.order_facts import (
    Forked,
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.questions import SessionWords
from mcc.contracts.shape import JsonObject, Text
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.errors import CannotFork, CannotRepeat, OrderIsUnfinished
from mcc.store.rows.fork_ids import NewIds
from mcc.store.rows.transitions import title_of


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a journal is cut: entries 1 to `after` may be copied."""

    requested: int
    """The number that the caller asked for."""
    after: int
    within: str | None = None
    """The call that was open at `requested`, for people; None when none was."""
    root: str | None = None
    """The master's record, None before it began."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The copied start of a new order's journal: `drafts` follow its first entry, which contains `forked`."""

    order_id: str
    forked: Forked
    drafts: tuple[Draft, ...]

    @property
    def began(self) -> bool:
        """Whether the copied part contains the start of the master."""
        return any(isinstance(draft.data, AgentStarted) for draft in self.drafts)


def cut(entries: Sequence[Entry], requested: int) -> Cut:
    """The last place at or before entry `requested` at which no model call or tool call is open.

    `entries`: the first `requested` + 1 entries of the journal.
    """
    calls, root, place, within = OpenCallTracker(), None, Cut(requested, 0), None
    for entry, following in zip_longest(entries[:requested], entries[1 : requested + 1]):
        if isinstance(entry.data, AgentStarted) and entry.parent_id is None:
            root = entry.record_id
        # The master's end is not copied, so a model call that was closed by it would be open in the copy.
        if not (isinstance(entry.data, AgentFinished) and entry.record_id == root):
            calls.add(entry)
        within = _outermost(calls.calls)
        if within is None and _is_starting(entry, following):
            within = "the beginning of its master"
        if within is None:
            place = Cut(requested, entry.seq, root=root)
    return Cut(requested, place.after, within, place.root)


def _outermost(calls: Sequence[OpenCall]) -> str | None:
    """The open call that contains the others, for people: a tool call if there is one, since its agents call models."""
    for call in sorted(calls, key=lambda call: call.kind == "model"):
        return f"the call of {call.name}" if call.kind == "tool" else f"a model call of {call.agent or 'an agent'}"
    return None


def _is_starting(entry: Entry, following: Entry | None) -> bool:
    """Whether an agent's start is not complete at `entry`: the steps that were written together with it follow."""
    if following is None or not isinstance(entry.data, AgentStarted | AgentStep):
        return False
    return isinstance(following.data, AgentStep) and (entry.record_id, entry.at) == (following.record_id, following.at)


def forked(source: Sequence[Entry], place: Cut, order_id: str, at: datetime, prompt: str | None = None) -> Beginning:
    """The start of a fork that copies the entries of `source` up to this cut; `prompt` is the next message to its
    master."""
    copied = list(_copied(source[: place.after], place.root))
    ids = NewIds(order_id)
    for number, entry in enumerate(copied, start=2):
        ids.learn(entry, number)
    drafts = [ids.renamed(entry) for entry in copied]
    made = Forked(order_id=source[0].order_id, after=place.after, until=1 + len(drafts))
    drafts += _opening(order_id, drafts, at, prompt)
    return Beginning(order_id, made, tuple(drafts))


def begun_with(entries: Sequence[Entry]) -> Cut | None:
    """The cut after the copied start of a fork; None for another order. `entries`: at least that start and one more."""
    first = entries[0].data
    if not isinstance(first, OrderQueued) or first.forked is None:
        return None
    root, after = root_record_id(entries[0].order_id), first.forked.until
    while after < len(entries) and _is_opening(entries[after]):
        after += 1
    return Cut(after, after, root=root)


def _is_opening(entry: Entry) -> bool:
    """Whether this entry may be a control that the fork opens with: a resume or a steer, but not a later cancel."""
    return isinstance(entry.data, ControlApplied) and entry.data.control in ("resume", "steer")


def note_of(place: Cut, source_id: str, *, began: bool, workspace: bool) -> Text:
    """A note for people: where the fork begins, and what that means for agents and files."""
    sentences = [f"Begins with entries 1 to {place.after} of order {source_id}."]
    if place.within is not None:
        sentences.append(f"Entry {place.requested} lies within {place.within}, so it was cut before that.")
    if not began:
        sentences.append("No agent had begun by then, so everything is done anew.")
    elif workspace:
        sentences.append("The files of the workspace are as they are now; they were not taken back.")
    return " ".join(sentences)


def _copied(entries: Sequence[Entry], root: str | None) -> Iterator[Entry]:
    """The entries that a fork copies: those of agents from the master's start on, and applied controls.

    Left out are entries about the order itself and its delivery, questions to people and their answers, and the end or
    cancel of the master.
    """
    begun, delivery = False, delivery_record_id(entries[0].order_id) if entries else None
    for entry in entries:
        if entry.record_id == delivery:
            continue
        begun = begun or (entry.record_id == root and isinstance(entry.data, AgentStarted))
        if _is_copied(entry.fact, begun, whole=entry.record_id in (None, root)):
            yield entry


def _is_copied(fact: AnyFact, begun: bool, *, whole: bool) -> bool:
    """`begun`: the master has started; `whole`: the fact concerns the master, or the order as a whole."""
    match fact:
        case OrderQueued() | OrderClaimed() | OrderRequeued() | OrderHandedBack() | OrderWaiting() | OrderResumed():
            return False
        case OrderFinished() | DeliveryStarted() | DeliveryFinished():
            return False
        case ControlApplied():
            return fact.control != "cancel" if whole else begun
        case ApprovalRequested() | ApprovalDecided() | QuestionAsked() | QuestionAnswered():
            return False
        case AgentFinished():
            return begun and not whole
        case AgentStarted() | AgentStep() | AgentReused() | AgentDelivered():
            return begun
        case ModelStarted() | ModelReplied() | ModelRetried():
            return begun
        case ModelFellBack() | ToolStarted() | ToolFinished() | GateChecked() | VerifyChecked() | BudgetWarned():
            return begun
        case TranscriptCompacted() | DocumentChanged() | WorkspaceCheckpointed() | WorkspaceCommitted():
            return begun
        case WorktreeMade() | WorktreeEnded() | WorkspaceHeld():
            return begun
        case _:
            assert_never(fact)


def _opening(order_id: str, drafts: Sequence[Draft], at: datetime, prompt: str | None) -> Sequence[Draft]:
    """Controls that a fork opens with: a resume if its source was paused, a steer with the prompt if a master began."""
    fold = Fold.of(order_id, (draft.numbered(order_id, seq) for seq, draft in enumerate(drafts, start=1)))
    master = next((draft.origin for draft in drafts if isinstance(draft.data, AgentStarted)), None)
    opening: list[Draft] = []
    if fold.paused:
        resumed = ControlApplied(control_id=fresh_id(), control="resume", reason="a fork goes on by itself")
        opening.append(Draft(at=at, origin=master or ORDER, data=resumed))
    if prompt is not None and master is not None:
        steer = ControlApplied(control_id=fresh_id(), control="steer", mode=SteerMode.INJECT.value, message=prompt)
        opening.append(Draft(at=at, origin=master, data=steer))
    return opening


FirstEntries = Callable[[int], Sequence[Entry]]
"""Answers the given number of a journal's first entries."""

OPENING_ENTRIES = 2
"""The most controls that follow the copied entries of a fork before any drone claims it: a resume and a steer."""

ROLLED_BACK = "order.rolled_back"
"""Kind of the audit note about a turn that was left out of its session's context."""

LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DerivedOrder:
    """A new order that is derived from another one.

    `request`: the request body whose digest is stored with the idempotency key. `title`: the title of the session that
    the order opens.
    """

    new: NewOrder
    origin: OrderOrigin
    request: JsonObject
    beginning: Beginning | None = None
    title: str | None = None
    words: tuple[SessionWords, ...] = ()
    """What the other order shows above its prompt."""

    @property
    def retry_of(self) -> str | None:
        return self.origin.order_id if self.origin.kind == "retry" else None

    @property
    def forked(self) -> Forked | None:
        return self.beginning.forked if self.beginning else None


def _check_repeatable(source: WorkOrder) -> None:
    """Raises `CannotRepeat`."""
    if source.kind is OrderKind.COMPACT:
        raise CannotRepeat(
            f"order {source.id} compacts session {source.compacts}: ask for that anew, it begins from what is there"
        )


def same_input(source: WorkOrder, at: datetime) -> NewOrder:
    """An order with the same input. It may begin at once, as one that reads, and its time to expiry is as long as the
    source's was.

    If a document was made for the source, the new order continues that document.
    """
    _check_repeatable(source)
    new = NewOrder.model_construct(**{name: getattr(source, name) for name in NewOrder.model_fields})
    expires_at = None
    if source.expires_at is not None:
        expires_at = at + min(max(source.expires_at - source.created_at, timedelta(seconds=1)), LAST - at)
    again: dict[str, object] = {
        "not_before": None,
        "expires_at": expires_at,
        "when_busy": WhenBusy.ENQUEUE,
        "write": False,
    }
    if source.requested_limits is not None:
        # What the budget of that day left is none of the input.
        again["limits"] = source.requested_limits if source.requested_limits.model_fields_set else None
    if source.kind is OrderKind.GENERATE:
        # The document got this metadata when the source was placed; people may have changed it since.
        generation = source.generation and source.generation.model_copy(update={"metadata": {}})
        again |= {"blueprint": None, "generation": generation}
    return new.model_copy(update=again)


def retry_of(source: WorkOrder, journal_version: int, first: FirstEntries, at: datetime) -> DerivedOrder:
    """The retry of an order, as the next turn of its session. The retry of a fork starts with the same copied entries.

    Raises `OrderIsUnfinished`, `CannotRepeat`, and `CannotFork` for a fork whose journal cannot be read.
    """
    if source.status not in FINAL:
        raise OrderIsUnfinished(
            f"order {source.id} is {source.status.value}: a retry is for an order that has ended; "
            "cancel it first, or fork it"
        )
    if source.kind in (OrderKind.REVERT, OrderKind.DELIVER):
        what = f"{source.kind.value}s what another one did"
        raise CannotFork(f"order {source.id} {what}: ask for that again, it begins from what is there now")
    new = same_input(source, at).model_copy(update={"session_id": source.session_id})
    origin = OrderOrigin(kind="retry", order_id=source.id)
    made = DerivedOrder(new, origin, {"retry": source.id}, words=source.words)
    if source.origin is None:
        return made
    _check_version(source, journal_version)
    begun = first(1)[0].data
    until = getattr(getattr(begun, "forked", None), "until", None)
    entries = first(until + OPENING_ENTRIES + 1) if until is not None else ()
    place = begun_with(entries) if entries else None
    if place is None:
        return made
    return replace(made, beginning=forked(entries, place, fresh_id(), at))


def fork_of(
    source: WorkOrder, journal_version: int, first: FirstEntries, request: NewFork, at: datetime
) -> DerivedOrder:
    """The fork of an order: a new session that starts with a copy of the journal up to entry `request.after`.

    Raises `CannotFork`, `CannotRepeat`.
    """
    _check_repeatable(source)
    _check_version(source, journal_version)
    if source.kind in (OrderKind.REVERT, OrderKind.DELIVER):
        what = f"{source.kind.value}s what another one did"
        raise CannotFork(f"order {source.id} {what}, which has no conversation to go on with")
    if source.kind is OrderKind.GENERATE:
        raise CannotFork(
            f"order {source.id} generates a document, which has one history: generate it again, or retry the order"
        )
    if request.after > source.last_seq:
        so_far = "" if source.status in FINAL else " so far"
        raise CannotFork(
            f"order {source.id} has entries 1 to {source.last_seq}{so_far}: there is no entry {request.after} to fork "
            "after; choose one of those"
        )
    entries = first(request.after + 1)
    place = cut(entries, request.after)
    beginning = forked(entries, place, fresh_id(), at, request.prompt)
    began = beginning.began
    new = same_input(source, at).model_copy(update={"session_id": None})
    if not began and request.prompt is not None:
        new = new.model_copy(update={"prompt": request.prompt})
    note = note_of(place, source.id, began=began, workspace=source.workspace is not None)
    return DerivedOrder(
        new=new,
        origin=OrderOrigin(kind="fork", order_id=source.id, after=place.after, note=note),
        request={"fork": source.id, "after": request.after, "prompt": request.prompt},
        beginning=beginning,
        title=f"Fork: {title_of(request.prompt or source.prompt)}",
        words=source.words,
    )


def unfinished_sentence(order_id: str, status: OrderStatus) -> str:
    """Why a turn cannot be rolled back yet, for people."""
    return f"order {order_id} is {status.value}: only a turn that has ended can be rolled back; cancel it first"


def _check_version(source: WorkOrder, journal_version: int) -> None:
    if journal_version not in READABLE_VERSIONS:
        raise CannotFork(
            f"the journal of order {source.id} has version {journal_version}, and this service reads up to "
            f"{JOURNAL_VERSION}: use the version of the service that wrote it"
        )
