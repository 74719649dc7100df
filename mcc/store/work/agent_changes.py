"""Changes of documents by agents, each committed together with the journal entries that report it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Draft, Entry, Origin
from mcc.documents.change import Author, DispatchRefused, facts_of
from mcc.documents.commands import Command
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable, UnknownDocument
from mcc.store.documents.changes import AppliedCommands, OpenChanges
from mcc.store.rows.order_rows import is_held, lock
from mcc.store.rows.values import Appended, Batch
from mcc.store.work.documents import DocumentStore
from mcc.store.work.journal import JournalStore

log = structlog.get_logger("mcc.store")


@dataclass(frozen=True, slots=True)
class AgentCommands:
    """Commands of an agent. `command_id` is derived from its tool call, so a repeated call changes nothing again."""

    document_id: str
    commands: Sequence[Command]
    author: Author
    origin: Origin
    command_id: str


@dataclass(frozen=True, slots=True)
class OrderPart:
    """Entries to write, and commands to carry out after them, if any."""

    drafts: Sequence[Draft]
    commands: AgentCommands | None = None


@dataclass(frozen=True, slots=True)
class OrderParts:
    """The parts to commit for an order that is held under this epoch; entries are numbered from `last_seq` + 1 on.
    `texts`: texts to store with them, by digest."""

    order_id: str
    epoch: int
    last_seq: int
    parts: Sequence[OrderPart]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of a part: its numbered entries, and the result of its commands or their refusal. The part's own
    entries are written even if its commands are refused.
    """

    entries: Sequence[Entry]
    done: AppliedCommands | None = None
    refused: DispatchRefused | UnknownDocument | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The results of each order's parts, by order id. Nothing was written for orders that are `fenced`, and for those
    in `culprits`, which gives the reason why their data was refused."""

    answers: Mapping[str, Sequence[PartResult]] = field(default_factory=dict)
    fenced: frozenset[str] = frozenset()
    culprits: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CommitGroup:
    """Parts of several orders that are committed together. To repeat a commit whose answer was lost, pass the same
    group again: it remembers what was tried."""

    orders: Sequence[OrderParts]
    tried: dict[str, Sequence[PartResult]] = field(default_factory=dict)

    @property
    def has_commands(self) -> bool:
        """Whether any part changes a document; if not, appending `batches` is enough."""
        return any(part.commands for held in self.orders for part in held.parts)

    def batches(self) -> Sequence[Batch]:
        """The entries of each order."""
        for held in self.orders:
            seq, answers = held.last_seq, []
            for part in held.parts:
                answers.append(PartResult(_numbered(held, seq, part.drafts)))
                seq += len(part.drafts)
            self.tried[held.order_id] = answers
        return [_batch(held, self.tried[held.order_id]) for held in self.orders]

    def answered(self, appended: Appended) -> Committed:
        """The results of the parts, from the result of appending `batches`."""
        missed = {*appended.fenced, *appended.culprits}
        answers = {order_id: some for order_id, some in self.tried.items() if order_id not in missed}
        return Committed(answers, appended.fenced, appended.culprits)


class AgentChanges:
    def __init__(self, database: Database, journal: JournalStore, documents: DocumentStore) -> None:
        self._database = database
        self._journal = journal
        self._documents = documents

    def commit(self, group: CommitGroup) -> Committed:
        """Commit all parts in one transaction, each order fenced by its row.

        Refused commands change nothing; commands that were carried out before under the same id are answered again.
        After a commit with an unknown outcome the rows are read again. An order whose data the database refuses does
        not affect the others. Raises `StoreUnavailable`.
        """
        orders = sorted(group.orders, key=lambda held: held.order_id)
        # Outside the transaction: to read a large document under the locks would hold up every other order in it.
        self._documents.warm_up({part.commands.document_id for held in orders for part in held.parts if part.commands})
        if len(orders) == 1:
            return self._alone(group, orders[0])
        try:
            return self._together(group, orders)
        except StoreUnavailable:
            raise
        except Exception:
            # Whose data was refused is found by writing each by itself.
            return _joined([self._alone(group, held) for held in orders])

    def _alone(self, group: CommitGroup, held: OrderParts) -> Committed:
        try:
            return self._together(group, [held])
        except StoreUnavailable:
            raise
        except Exception as problem:
            log.warning("the data of an order cannot be stored", order_id=held.order_id, problem=repr(problem))
            return Committed(culprits={held.order_id: str(problem) or repr(problem)})

    def _together(self, group: CommitGroup, orders: Sequence[OrderParts]) -> Committed:
        opened: list[OpenChanges] = []

        def work(connection: Connection) -> Committed:
            opened[:] = [self._documents.opened(connection)]
            return self._written(connection, opened[0], group, orders)

        committed = self._database.write(work, repeatable=True)
        opened[0].committed()
        return committed

    def _written(
        self, connection: Connection, changes: OpenChanges, group: CommitGroup, orders: Sequence[OrderParts]
    ) -> Committed:
        """Locks in the order that all transactions keep: the orders, then the documents."""
        committed = {held.order_id: _committed_before(connection, held, group) for held in orders}
        fenced = frozenset(order_id for order_id, answers in committed.items() if answers is None)
        batches = []
        for held in orders:
            if committed[held.order_id] == ():
                answers = committed[held.order_id] = group.tried[held.order_id] = [*_answers(changes, held)]
                batches.append(_batch(held, answers))
        self._journal.within(connection, [batch for batch in batches if batch.entries])
        return Committed({order_id: answers for order_id, answers in committed.items() if answers is not None}, fenced)


def _committed_before(connection: Connection, held: OrderParts, group: CommitGroup) -> Sequence[PartResult] | None:
    """Lock the order's row and compare it with what its holder expects.

    Answers an empty sequence if it is as expected; the results of the earlier attempt if that was committed after all;
    None if the order is fenced.
    """
    state = lock(connection, held.order_id)
    if state is None or not is_held(state, held.epoch):
        return None
    if state.last_seq == held.last_seq:
        return ()
    tried = group.tried.get(held.order_id, ())
    written = sum(len(answer.entries) for answer in tried)
    return tried if state.last_seq == held.last_seq + written else None


def _answers(changes: OpenChanges, held: OrderParts) -> Iterator[PartResult]:
    """Carry out each part in turn, and number its entries."""
    seq = held.last_seq
    for part in held.parts:
        done, refused = None, None
        drafts = list(part.drafts)
        if (commands := part.commands) is not None:
            try:
                done = changes.apply(
                    commands.document_id, commands.commands, commands.author, command_id=commands.command_id
                )
            except (DispatchRefused, UnknownDocument) as problem:
                refused = problem
            else:
                facts = () if done.repeated else facts_of(commands.document_id, done.change)
                drafts += [Draft(at=commands.author.at, origin=commands.origin, data=fact) for fact in facts]
        entries = _numbered(held, seq, drafts)
        seq += len(entries)
        yield PartResult(entries, done, refused)


def _numbered(held: OrderParts, seq: int, drafts: Sequence[Draft]) -> Sequence[Entry]:
    return [draft.numbered(held.order_id, seq + place) for place, draft in enumerate(drafts, start=1)]


def _batch(held: OrderParts, answers: Sequence[PartResult]) -> Batch:
    entries = [entry for answer in answers for entry in answer.entries]
    return Batch(held.order_id, held.epoch, held.last_seq, entries, held.texts)


def _joined(some: Sequence[Committed]) -> Committed:
    return Committed(
        {order_id: answers for one in some for order_id, answers in one.answers.items()},
        frozenset(order_id for one in some for order_id in one.fenced),
        {order_id: why for one in some for order_id, why in one.culprits.items()},
    )
