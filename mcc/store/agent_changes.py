"""What agents change in documents, each change in one transaction with the entries of its order that tell of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Draft, Entry, Origin
from mcc.documents.change import Author, Refused, facts_of
from mcc.documents.commands import Command
from mcc.store.document_changes import Done, OpenChanges
from mcc.store.documents import Documents
from mcc.store.engine import Database
from mcc.store.errors import StoreUnavailable, UnknownDocument
from mcc.store.journal import Journal
from mcc.store.rows import is_held, lock
from mcc.store.values import Appended, Batch

log = structlog.get_logger("mcc.store")


@dataclass(frozen=True, slots=True)
class AgentCommands:
    """Commands of an agent. `command_id` is derived from its tool call, so that the same call changes nothing twice."""

    document_id: str
    commands: Sequence[Command]
    author: Author
    origin: Origin
    command_id: str


@dataclass(frozen=True, slots=True)
class Part:
    """Entries to write, and what is to be done after them, if anything is."""

    drafts: Sequence[Draft]
    asked: AgentCommands | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What is to be committed of an order that is held under this epoch, numbered from `last_seq` + 1 on; `texts` by
    digest."""

    order_id: str
    epoch: int
    last_seq: int
    parts: Sequence[Part]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a part: its entries with their numbers, and what its commands came to, or why they were refused.
    The entries of a part whose commands were refused are written all the same.
    """

    entries: Sequence[Entry]
    done: Done | None = None
    refused: Refused | UnknownDocument | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The answers to each order's parts. Nothing was written of an order that is `fenced`, or named in `culprits` with
    why its data is refused."""

    answers: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    fenced: frozenset[str] = frozenset()
    culprits: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """Parts of some orders that are committed together. Ask with the same group again after an answer got lost: it
    knows what it tried."""

    orders: Sequence[Held]
    tried: dict[str, Sequence[Answer]] = field(default_factory=dict)

    @property
    def asks(self) -> bool:
        """Whether a document is to be changed; else `batches` are all that there is to it."""
        return any(part.asked for held in self.orders for part in held.parts)

    def batches(self) -> Sequence[Batch]:
        """The entries of each order."""
        for held in self.orders:
            seq, answers = held.last_seq, []
            for part in held.parts:
                answers.append(Answer(_numbered(held, seq, part.drafts)))
                seq += len(part.drafts)
            self.tried[held.order_id] = answers
        return [_batch(held, self.tried[held.order_id]) for held in self.orders]

    def answered(self, appended: Appended) -> Committed:
        """What became of the parts when `batches` were appended."""
        missed = {*appended.fenced, *appended.culprits}
        answers = {order_id: some for order_id, some in self.tried.items() if order_id not in missed}
        return Committed(answers, appended.fenced, appended.culprits)


class AgentChanges:
    def __init__(self, database: Database, journal: Journal, documents: Documents) -> None:
        self._database = database
        self._journal = journal
        self._documents = documents

    def commit(self, group: Group) -> Committed:
        """All in one transaction, each order fenced by its row. Of commands that are refused nothing is done, and what
        was done before under the same id is answered again. Unknown outcomes are settled by rereading.

        An order whose data the database refuses costs only itself. Raises `StoreUnavailable`.
        """
        orders = sorted(group.orders, key=lambda held: held.order_id)
        self._documents.warm_up({part.asked.document_id for held in orders for part in held.parts if part.asked})
        if len(orders) == 1:
            return self._alone(group, orders[0])
        try:
            return self._together(group, orders)
        except StoreUnavailable:
            raise
        except Exception:
            return _joined([self._alone(group, held) for held in orders])

    def _alone(self, group: Group, held: Held) -> Committed:
        try:
            return self._together(group, [held])
        except StoreUnavailable:
            raise
        except Exception as problem:
            log.warning("an order asks for what cannot be kept", order_id=held.order_id, problem=repr(problem))
            return Committed(culprits={held.order_id: str(problem) or repr(problem)})

    def _together(self, group: Group, orders: Sequence[Held]) -> Committed:
        opened: list[OpenChanges] = []

        def work(connection: Connection) -> Committed:
            opened[:] = [self._documents.opened(connection)]
            return self._written(connection, opened[0], group, orders)

        committed = self._database.write(work, repeatable=True)
        opened[0].committed()
        return committed

    def _written(self, connection: Connection, changes: OpenChanges, group: Group, orders: Sequence[Held]) -> Committed:
        """Locks as all others do: the orders, then the documents."""
        committed = {held.order_id: _committed_before(connection, held, group) for held in orders}
        fenced = frozenset(order_id for order_id, answers in committed.items() if answers is None)
        batches = []
        for held in orders:
            if committed[held.order_id] == ():
                answers = committed[held.order_id] = group.tried[held.order_id] = [*_answers(changes, held)]
                batches.append(_batch(held, answers))
        self._journal.within(connection, [batch for batch in batches if batch.entries])
        return Committed({order_id: answers for order_id, answers in committed.items() if answers is not None}, fenced)


def _committed_before(connection: Connection, held: Held, group: Group) -> Sequence[Answer] | None:
    """Nothing for an order that is held as it should be; what was tried where that had been committed after all; None
    for an order that another epoch holds. Its row is locked."""
    state = lock(connection, held.order_id)
    if state is None or not is_held(state, held.epoch):
        return None
    if state.last_seq == held.last_seq:
        return ()
    tried = group.tried.get(held.order_id, ())
    written = sum(len(answer.entries) for answer in tried)
    return tried if state.last_seq == held.last_seq + written else None


def _answers(changes: OpenChanges, held: Held) -> Iterator[Answer]:
    """Each part done and numbered in turn."""
    seq = held.last_seq
    for part in held.parts:
        done, refused = None, None
        drafts = list(part.drafts)
        if part.asked is not None:
            try:
                done = _apply(changes, part.asked)
            except (Refused, UnknownDocument) as problem:
                refused = problem
            else:
                drafts += _drafts(part.asked, done)
        entries = _numbered(held, seq, drafts)
        seq += len(entries)
        yield Answer(entries, done, refused)


def _numbered(held: Held, seq: int, drafts: Sequence[Draft]) -> Sequence[Entry]:
    return [draft.numbered(held.order_id, seq + place) for place, draft in enumerate(drafts, start=1)]


def _apply(changes: OpenChanges, asked: AgentCommands) -> Done:
    return changes.apply(asked.document_id, asked.commands, asked.author, command_id=asked.command_id)


def _drafts(asked: AgentCommands, done: Done) -> Iterator[Draft]:
    if not done.repeated:
        for fact in facts_of(asked.document_id, done.change):
            yield Draft(at=asked.author.at, origin=asked.origin, data=fact)


def _batch(held: Held, answers: Sequence[Answer]) -> Batch:
    entries = [entry for answer in answers for entry in answer.entries]
    return Batch(held.order_id, held.epoch, held.last_seq, entries, held.texts)


def _joined(some: Sequence[Committed]) -> Committed:
    return Committed(
        {order_id: answers for one in some for order_id, answers in one.answers.items()},
        frozenset(order_id for one in some for order_id in one.fenced),
        {order_id: why for one in some for order_id, why in one.culprits.items()},
    )
