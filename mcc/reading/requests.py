"""What a model was asked with: the request of one model call, put together again from entries and stored texts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from mcc.contracts.compaction import CompactedRecord, TranscriptCompacted
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentStarted, AgentStep, ToolStarted
from mcc.contracts.model_calls import AskedMessage, AskedParameters, ModelRequest
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderQueued
from mcc.reading.index import LinesAt, LinesOfOrders
from mcc.reading.openings import opening_of
from mcc.reading.request_pages import RequestBeginning, fitting_messages, short_beginning
from mcc.store.database.errors import UnknownOrder
from mcc.store.store import Offload, Store
from mcc.transcript.asked import parameters_asked, session_key, tools_asked
from mcc.transcript.heard import PlacedMessage, RecordConversation
from mcc.transcript.setup import Setup
from mcc.transcript.summary_asked import SummaryAsked
from mcc.transcript.transcript import NUDGE, messages_of

AT_ONCE = 50
"""How many entries are read at a time."""

MOST_RECORDS = 200
"""Over how many records one conversation is followed back."""

MOST_READS = 20
"""How often a long journal is read on for one request before the caller is asked to come again."""


class NoModelCall(Exception):
    """The entry is not the start of a model call; the message says what to do."""


class RequestLost(Exception):
    """What the model was shown is not stored any more; the message says what is."""


class JournalUnread(Exception):
    """The journal is long and has not been read that far yet."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A record as of a model call: what its model was shown, and the numbers of its entries."""

    conversation: RecordConversation
    started: AgentStarted
    messages: Sequence[PlacedMessage]
    parameters: AskedParameters


class ModelRequests:
    """Raises `UnknownOrder`, `JournalPruned`, `StoreUnavailable`, and the errors above."""

    def __init__(self, store: Store, texts: Offload, lines: LinesOfOrders) -> None:
        """`texts` runs reads of the database that may take long."""
        self._store = store
        self._texts = texts
        self._lines = lines

    async def of(self, order_id: str, seq: int, skip: int = 0) -> ModelRequest:
        """The request that began with entry `seq`; its messages from number `skip` on, as many as an answer takes."""
        order = await self._texts(self._store.orders.get, order_id)
        entries: Sequence[Entry] = await self._texts(self._store.parts.entries, order_id, [seq])
        if not entries or not isinstance(call := entries[0].data, ModelStarted):
            is_there = f"is no model call but {entries[0].kind}" if entries else "is not there"
            raise NoModelCall(
                f"Entry {seq} of this order {is_there}: name one that GET /api/v1/orders/{order_id}/journal?"
                f"kind={ModelStarted.kind} lists."
            )
        record_id = entries[0].record_id or ""
        asked = await self._asked(order, record_id, entries[0], call)
        setup = await self._setup(asked.started)
        tools = tools_asked(setup, asked.started, asked.conversation.found)
        beginning = RequestBeginning("", ())
        if skip == 0:
            beginning = await self._texts(short_beginning, setup.system, tools)
        messages: Sequence[AskedMessage] = await self._texts(fitting_messages, asked.messages[skip:])
        reply = await self._reply(order_id, record_id, seq)
        until = skip + len(messages)
        usage = None if reply is None else reply[1].usage
        return ModelRequest(
            system=beginning.system,
            tools=beginning.tools,
            cut=beginning.cut,
            messages=tuple(messages),
            first=skip,
            of=len(asked.messages),
            next_cursor=str(until) if until < len(asked.messages) else None,
            parameters=asked.parameters,
            usage=usage,
            cached_share=None if usage is None else usage.cached_share,
            reply_seq=reply and reply[0],
        )

    async def _asked(self, order: WorkOrder, record_id: str, at: Entry, call: ModelStarted) -> _Asked:
        conversation = await self._conversation(order, record_id, at.seq)
        started = conversation.started
        if started is None:
            raise RequestLost("The entry with which this agent began is not in the journal.")
        if isinstance(started.context, CompactedRecord):
            return await self._summary(order, record_id, at, started.context)
        key = _cache_key(order, conversation)
        return _Asked(conversation, started, conversation.messages, parameters_asked(call, conversation, key))

    async def _summary(self, order: WorkOrder, record_id: str, at: Entry, context: CompactedRecord) -> _Asked:
        """The request for a summary: that of the agent when a drone last began to ask for it, and a question."""
        lines = await self._numbers(order.id, record_id, at.seq)
        claimed = max((seq for seq, kind in lines if kind == OrderClaimed.kind), default=0)
        begun = next(seq for seq, kind in lines if seq > claimed and kind != OrderClaimed.kind)
        of = await self._conversation(order, context.of, begun)
        numbers = [seq for seq, _ in lines]
        facts = [entry async for entry in self._entries(order.id, numbers)]
        first = next(entry for entry in facts if isinstance(entry.data, AgentStarted))
        started, question = first.data, RecordConversation(order.id)
        assert isinstance(started, AgentStarted) and isinstance(at.data, ModelStarted) and of.started is not None
        question.add(first)
        summary = SummaryAsked(record_id, started, of, await self._windows(order.id, record_id, context.of))
        for entry in facts:
            summary.add(entry.fact)
        before = [seq for seq, kind in await self._numbers(order.id, context.of, begun) if kind == ModelStarted.kind]
        last = [entry.data async for entry in self._entries(order.id, before[-1:])]
        mine = parameters_asked(at.data, question, _cache_key(order, of))
        asked_before = last[0] if last and isinstance(last[0], ModelStarted) else None
        messages = [*of.messages, PlacedMessage(summary.question, order.id, first.seq)]
        return _Asked(of, of.started, messages, summary.parameters(mine, asked_before))

    async def _windows(self, order_id: str, record_id: str, of: str) -> Sequence[int]:
        """Sizes of the context that the entry tells of with which this summary took its place, and others after it."""
        numbers = [seq for seq, kind in await self._numbers(order_id, of) if kind == TranscriptCompacted.kind]
        facts = [entry.data async for entry in self._entries(order_id, numbers)]
        told = [fact for fact in facts if isinstance(fact, TranscriptCompacted)]
        told.sort(key=lambda fact: fact.record_id != record_id)
        return [fact.window_tokens for fact in told if fact.window_tokens]

    async def _conversation(
        self, order: WorkOrder, record_id: str, until: int | None = None, most: int = MOST_RECORDS
    ) -> RecordConversation:
        """What the model of this record was shown as of entry `until`, None = the last one."""
        if not most:
            raise RequestLost("This conversation was continued too often to be put together again.")
        lines = await self._numbers(order.id, record_id, until)
        numbers = [seq for seq, kind in lines if kind not in (OrderClaimed.kind, ToolStarted.kind)]
        conversation = RecordConversation(order.id)
        async for entry in self._entries(order.id, numbers):
            if isinstance(started := entry.data, AgentStarted):
                before, first_record = await self._before(order, entry, started, most)
                conversation = RecordConversation(
                    order.id,
                    before,
                    copied_until=await self._copied_until(order),
                    has_prompt=order.compacts is None or entry.parent_id is not None,
                    first_record=first_record,
                )
            conversation.add(entry)
        return conversation

    async def _copied_until(self, order: WorkOrder) -> int:
        if order.origin is None:
            return 0
        (queued,) = [entry.data async for entry in self._entries(order.id, [1])]
        return queued.forked.until if isinstance(queued, OrderQueued) and queued.forked is not None else 0

    async def _before(
        self, order: WorkOrder, entry: Entry, started: AgentStarted, most: int
    ) -> tuple[Sequence[PlacedMessage], str]:
        """What a record's model was shown before its first message: the session, and the records that it continues; and
        the first of these in this order, or that of the earlier turn."""
        shown, first_record = list[PlacedMessage](), entry.record_id or ""
        if started.session is not None:
            opening = await self._texts(opening_of, self._store, started.session)
            if opening is None:
                raise RequestLost("What this turn was shown of its session is not stored any more; its journal is.")
            shown += (
                PlacedMessage(shown_before.message, shown_before.order_id, shown_before.form["seq"], shown_before.turn)
                for shown_before in opening
            )
        elif entry.parent_id is None and started.model is not None and order.session_seq > 1:
            # Versions before kept prompts and answers of earlier turns in the set-up.
            setup = await self._setup(started)
            shown += (PlacedMessage(message, "", 0) for message in messages_of(setup.session))
        if started.continues is not None:
            elsewhere = started.continues_order
            try:
                source = order if elsewhere is None else await self._texts(self._store.orders.get, elsewhere)
            except UnknownOrder as gone:
                raise RequestLost("The earlier turn that this agent went on from was deleted.") from gone
            until = entry.seq - 1 if elsewhere is None else None
            continued = await self._conversation(source, started.continues, until, most - 1)
            first_record = started.continues if elsewhere is not None else continued.first_record
            shown += continued.messages
        return shown, first_record

    async def _setup(self, started: AgentStarted) -> Setup:
        try:
            return Setup.read(await self._texts(self._store.texts.kept, started.setup_digest), ())
        except (KeyError, ValueError):
            raise RequestLost("The system prompt and the tools of this agent are not stored any more.") from None

    async def _reply(self, order_id: str, record_id: str, seq: int) -> tuple[int, ModelReplied] | None:
        """The reply to the request, if it had one, and the number of its entry."""

        def next_of(read: LinesAt) -> int | None:
            later = (line for line in read.lines[seq:] if line.record == record_id)
            ends = (line for line in later if line.kind in (ModelReplied.kind, ModelStarted.kind))
            end = next(ends, None)
            return end.seq if end is not None and end.kind == ModelReplied.kind else None

        number = await self._lines.of(order_id, next_of)
        replies = [entry.data async for entry in self._entries(order_id, [] if number is None else [number])]
        return (number, replies[0]) if number and replies and isinstance(replies[0], ModelReplied) else None

    async def _numbers(self, order_id: str, record_id: str, until: int | None = None) -> Sequence[tuple[int, str]]:
        """Number and kind of a record's entries, and of the order's claims, up to entry `until` (None: the last).
        Steps that say nothing to a model are left out, as there may be many."""

        def picked(read: LinesAt) -> Sequence[tuple[int, str]] | None:
            if read.read < min(read.of, until or read.of):
                return None
            lines = (line for line in read.lines[:until] if line.record == record_id or line.kind == OrderClaimed.kind)
            return [(line.seq, line.kind) for line in lines if line.kind != AgentStep.kind or line.name == NUDGE]

        for _ in range(MOST_READS):
            if (numbers := await self._lines.of(order_id, picked)) is not None:
                return numbers
        raise JournalUnread("The journal of this order is long and is being read; ask again in a moment.")

    async def _entries(self, order_id: str, numbers: Sequence[int]) -> AsyncIterator[Entry]:
        for start in range(0, len(numbers), AT_ONCE):
            some: Sequence[Entry] = await self._texts(
                self._store.parts.entries, order_id, numbers[start : start + AT_ONCE]
            )
            for entry in some:
                yield entry


def _cache_key(order: WorkOrder, conversation: RecordConversation) -> str:
    """That of the session's agent; of any other conversation, its first record."""
    if conversation.origin.parent_id is None:
        return session_key(order.compacts or order.session_id, conversation.origin.agent or "")
    return conversation.first_record
