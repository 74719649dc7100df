"""What a turn is shown of its session, read from stored turns; those that are not stored are computed from journals."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import structlog

from drone.agent.state.tree import Tree
from drone.worker.loop import AsyncStore
from drone.worker.sessions.compacting import compacted_base
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.questions import with_words
from mcc.contracts.turn_context import MOST_AFTER_BASE, ContextMode, TurnContext
from mcc.redaction import Redactor
from mcc.store.database.errors import JournalPruned
from mcc.store.rows.stored_turns import NewBase, StoredTurn
from mcc.store.rows.texts import parsed
from mcc.store.work.transcripts import EndedTurn, SessionPast, TurnRow
from mcc.transcript.clipping import CHARACTERS_PER_TOKEN
from mcc.transcript.opening import SessionOpening
from mcc.transcript.own_messages import OwnMessages, TurnEnd, prompt_and_answer
from mcc.transcript.shown import ShownMessage, canonical, digest_of, read_all
from mcc.transcript.transcript import length

log = structlog.get_logger("drone.opening")

PAGE = 200
MOST_READ = 200
"""Most turns that are computed from their journals for one opening, the newest; of older ones only prompt and answer
are shown."""

BASE_CHARACTERS = 1_000_000
"""A context that is larger than this behind its base becomes a new base."""


class OpeningLost(Exception):
    """What a turn was shown cannot be put together again."""


class Openings:
    """Puts together what turns are shown, and what they leave to later turns. `mode` is that of new turns where their
    session has none."""

    def __init__(self, store: AsyncStore, mode: ContextMode = "full") -> None:
        self._store = store
        self._mode = mode

    async def of(self, order: WorkOrder, tree: Tree, redactor: Redactor) -> SessionOpening:
        """What the turn is shown: one that has begun, as `tree` says, exactly what it was shown before.
        `redactor`: applied to what is computed now, as a journal was when it was written.

        Raises `OpeningLost` where that cannot be had any more.
        """
        if order.kind is not OrderKind.CHAT:
            return SessionOpening(mode=self._mode)
        if (root := tree.begun(tree.root)) is not None:
            context = None if root.started is None else root.started.session
            if context is None:
                return SessionOpening(mode=self._mode)
            opening = await self._again(order, context, redactor)
            if root.rounds == 0:  # Its first request is compared with the last one of the turn before.
                past = await self._store.patiently(lambda store: store.transcripts.past(order))
                return replace(opening, before=past.before, repeats=order.origin is not None)
            return opening
        past = await self._store.patiently(lambda store: store.transcripts.past(order))
        mode = past.mode or self._mode
        try:
            shown = await self._earlier(past, mode, redactor)
        except OpeningLost:
            # Bases are made of turns, which say the same.
            past = await self._store.patiently(lambda store: store.transcripts.past(order, based=False))
            shown = await self._earlier(past, mode, redactor)
        if any(turn.messages is None for turn in past.turns):  # They are stored by now.
            again = await self._store.patiently(lambda store: store.transcripts.past(order))
            past = replace(past, before=again.before)
        turns = tuple(turn.order_id for turn in past.turns)
        opening = SessionOpening(tuple(shown), past.base, turns, mode, tainted=past.tainted)
        return replace(opening, before=past.before, repeats=order.origin is not None)

    async def _earlier(self, past: SessionPast, mode: ContextMode, redactor: Redactor) -> list[ShownMessage]:
        """The messages of the turns before one that begins. Raises `OpeningLost`."""
        base = [] if past.base is None else await self._base(past.base)
        shown = [message for message in base if message.order_id not in past.left_out]
        return await self._shown(shown, past.turns, mode, redactor)

    async def _again(self, order: WorkOrder, context: TurnContext, redactor: Redactor) -> SessionOpening:
        """What a turn was shown: from what is stored, else its turns computed from their journals, else all of it."""
        turns = await self._store.patiently(lambda store: store.transcripts.named(context.turns))
        if (opening := await self._put_together(context, turns, redactor)) is not None:
            return opening
        turns = [replace(turn, messages=None) for turn in turns]
        if (opening := await self._put_together(context, turns, redactor)) is not None:
            return opening
        past = await self._store.patiently(lambda store: store.transcripts.past(order, based=False))
        turns = [replace(turn, messages=None) for turn in past.turns]
        baseless = context.model_copy(update={"base": None})
        if context.base is not None and (opening := await self._put_together(baseless, turns, redactor)) is not None:
            return replace(opening, base=context.base, turns=context.turns)
        raise OpeningLost("what this turn was shown of its session cannot be put together again")

    async def _put_together(
        self, context: TurnContext, turns: Sequence[EndedTurn], redactor: Redactor
    ) -> SessionOpening | None:
        """What these turns behind this base show; None where it is not what the context says."""
        try:
            base = [] if context.base is None else await self._base(context.base)
            left_out = {turn.retries for turn in turns}
            shown = [message for message in base if message.order_id not in left_out]
            shown = await self._shown(shown, turns, context.mode, redactor)
        except (OpeningLost, ValueError) as problem:
            log.warning("what a turn was shown cannot be read", problem=str(problem))
            return None
        if digest_of(shown) != context.digest:
            log.warning("what a turn was shown differs from what is stored", turns=len(turns))
            return None
        return SessionOpening(tuple(shown), context.base, context.turns, context.mode)

    async def _base(self, digest: str) -> list[ShownMessage]:
        try:
            text = await self._store.patiently(lambda store: store.texts.kept(digest))
        except KeyError:
            raise OpeningLost("a stored context of this session is gone") from None
        return [*read_all(parsed(text))]

    async def _shown(
        self, before: Sequence[ShownMessage], turns: Sequence[EndedTurn], mode: ContextMode, redactor: Redactor
    ) -> list[ShownMessage]:
        """What is shown `before` these turns, and then the turns. What one that is computed from its journal had
        shortened of earlier ones is short again: the base that said so was lost, too."""
        missing = [turn.order_id for turn in turns if turn.messages is None]
        computed = await self._computed(missing, mode, redactor) if missing else {}
        shown = [*before]
        for turn in turns:
            if turn.messages is not None:
                shown += read_all(parsed(turn.messages))
                continue
            messages, journaled = computed[turn.order_id]
            if journaled is not None and turn.retries is None:  # A repetition was not shown what is shown now.
                shown = [*journaled.shown_before(tuple(shown))]
            shown += messages
        return shown

    async def _computed(
        self, missing: Sequence[str], mode: ContextMode, redactor: Redactor
    ) -> "dict[str, tuple[tuple[ShownMessage, ...], OwnMessages | None]]":
        """The messages of turns that are not stored, by order, and the fold of the journal that they were computed from
        and are stored of now; None where it was not read."""
        rows = await self._store.patiently(lambda store: store.transcripts.ends(missing))
        ends = {row.order_id: row for row in rows}
        shown: dict[str, tuple[tuple[ShownMessage, ...], OwnMessages | None]] = {}
        stored: list[StoredTurn] = []
        for number, order_id in enumerate(reversed(missing)):
            row = ends[order_id]
            end = end_of(row, redactor)
            journaled = None if row.pruned or number >= MOST_READ else await self._read(order_id)
            if journaled is None:
                messages = prompt_and_answer(end, map(redactor.text, row.steers), row.last_seq)
            else:
                messages = journaled.at_end(end, mode)
                stored.append(stored_turn(row.session_id, messages, journaled))
            shown[order_id] = (messages, journaled)
        await self._store.patiently(lambda store: store.transcripts.keep(stored))
        return shown

    async def _read(self, order_id: str) -> OwnMessages | None:
        """The fold of an ended order's journal; None where it was pruned meanwhile."""
        messages = OwnMessages()
        try:
            while page := await self._store.page(order_id, after=messages.last_seq, limit=PAGE):
                for entry in page:
                    messages.add(entry)
        except JournalPruned:
            return None
        return messages

    async def left_by(
        self, order: WorkOrder, outcome: OrderOutcome, own: OwnMessages, opening: SessionOpening, redactor: Redactor
    ) -> "TurnLeaves":
        """What a turn that ends leaves to its session. `own` holds all its entries.

        Raises `OpeningLost`, ValueError where what it was shown cannot be read any more.
        """
        if order.compacts is not None:
            return TurnLeaves(None, compacted_base(order.compacts, outcome, own, opening))
        context = None if own.started is None else own.started.session
        mode = opening.mode if context is None else context.mode
        prompt = redactor.text(with_words(order.words, order.prompt))
        end = TurnEnd(order.id, order.session_seq, prompt, outcome.status, outcome.answer)
        added = own.at_end(end, mode)
        turn = stored_turn(order.session_id, added, own)
        handles = False
        if context is None:
            opening = SessionOpening(mode=mode)
        elif context.base is not None and not context.turns:
            # Only its own journal knows a base that was made for this turn.
            base = context.base
            handles = not await self._store.patiently(lambda store: store.transcripts.is_base(order, base))
        if context is not None and context.base != opening.base:
            opening = await self._again(order, context, redactor)
        leaves = _leaves(turn, _base_of(order, opening, added, own, handles=handles), mode)
        return leaves._replace(begun_with=await self._begun_with(order, opening, redactor, handles=handles))

    async def _begun_with(
        self, order: WorkOrder, opening: SessionOpening, redactor: Redactor, *, handles: bool
    ) -> NewBase | None:
        """What a session that was forked began with, where no turn has left it yet: its source may go then. None:
        it was no fork, or this turn does not know."""
        if not opening.shown and order.session_seq == 1 and order.origin is None:
            return None  # what most orders are: nothing is asked
        if not await self._store.patiently(lambda store: store.transcripts.rests_on_source(order.session_id)):
            return None
        past = await self._store.patiently(lambda store: store.transcripts.past(order))
        if not opening.shown and (past.base is not None or past.turns):
            return None  # It never began, and was shown nothing either.
        # What was reduced to lines for this turn need not be for another one.
        before = await self._earlier(past, opening.mode, redactor) if handles else opening.shown
        turns = await self._store.patiently(lambda store: store.transcripts.named(opening.turns))
        later = {turn.order_id for turn in (*turns, *past.turns) if turn.session_id == order.session_id}
        shown = [message for message in before if message.order_id not in later]
        return NewBase(canonical(shown).decode(), "fork", (), session_id=order.session_id)


class TurnLeaves(NamedTuple):
    """What a turn leaves to its session: its own messages, and a base that takes the place of everything before. An
    order that compacts a session leaves it the base alone. `mode`: what of its messages later turns are shown.
    `begun_with`: a base of what was before the session's first turn, which a fork has from its source."""

    turn: StoredTurn | None
    base: NewBase | None
    mode: ContextMode = "full"
    begun_with: NewBase | None = None


def _leaves(turn: StoredTurn, base: "tuple[NewBase, int] | None", mode: ContextMode) -> TurnLeaves:
    """What a turn leaves; where that is a base, of so many tokens, the next turn is shown it instead of what this one
    was shown."""
    if base is None:
        return TurnLeaves(turn, None, mode)
    new, tokens = base
    last = turn.last and turn.last.model_copy(update={"opening_tokens": tokens - turn.tokens})
    return TurnLeaves(replace(turn, last=last), new, mode)


def _base_of(
    order: WorkOrder, opening: SessionOpening, added: Sequence[ShownMessage], own: OwnMessages, *, handles: bool
) -> tuple[NewBase, int] | None:
    """The base that the session is shown from now on, where its turns should not be put together one by one, and its
    tokens. `handles`: turns were reduced to lines for this one."""
    # Turns after the one that it repeats are shown to later turns, and were not to it.
    # A summary of a turn of which later ones are shown prompt and answer alone is not shown to them either.
    summarised = own.summarised and opening.mode == "full"
    is_retry = order.origin is not None and order.origin.kind == "retry"
    if is_retry or not (opening.shown or summarised):
        return None
    clipped = own.shown_before(opening.shown)
    if summarised:
        reason = "summary"
    elif handles:
        reason = "handles"
    elif clipped != opening.shown:
        reason = "clip"
    elif len(opening.turns) + 1 >= MOST_AFTER_BASE or _behind_base(opening, added) > BASE_CHARACTERS:
        reason = "rollup"
    else:
        return None
    turns = dict.fromkeys(message.order_id for message in (*opening.shown, *added) if message.order_id)
    context = own.with_summaries(clipped, added, order.session_seq) if summarised else (*clipped, *added)
    tokens = sum(length(message.message) for message in context) // CHARACTERS_PER_TOKEN
    return NewBase(canonical(context).decode(), reason, tuple(turns), over=opening.base), tokens


def _behind_base(opening: SessionOpening, added: Sequence[ShownMessage]) -> int:
    turns = set(opening.turns)
    behind = [one for one in opening.shown if one.order_id in turns]
    return sum(length(one.message) for one in (*behind, *added))


def stored_turn(session_id: str, shown: Sequence[ShownMessage], own: OwnMessages) -> StoredTurn:
    """What a turn adds to its session, as its row."""
    return StoredTurn(
        order_id=shown[0].order_id,
        session_id=session_id,
        session_seq=shown[0].turn,
        messages=canonical(shown),
        tokens=sum(length(one.message) for one in shown) // CHARACTERS_PER_TOKEN,
        setup_digest="" if own.started is None else own.started.setup_digest,
        setup_key="" if own.started is None else own.started.setup_key,
        found=tuple(own.found),
        last=own.last,
    )


def end_of(row: TurnRow, redactor: Redactor) -> TurnEnd:
    """How a turn ended, without secrets."""
    answer = None if row.answer is None else redactor.text(row.answer)
    return TurnEnd(row.order_id, row.session_seq, redactor.text(row.prompt), row.status, answer)
