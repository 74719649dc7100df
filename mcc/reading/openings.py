"""What a turn was shown of its session: the stored context and the stored turns that its first entry names."""

from collections.abc import Sequence

from mcc.contracts.turn_context import TurnContext
from mcc.store.database.errors import JournalPruned
from mcc.store.rows.texts import parsed
from mcc.store.store import Store
from mcc.store.work.transcripts import EndedTurn
from mcc.transcript.own_messages import OwnMessages, TurnEnd
from mcc.transcript.shown import ShownMessage, digest_of, read_all

PAGE = 200


def opening_of(store: Store, context: TurnContext) -> Sequence[ShownMessage] | None:
    """The messages, which have the digest that the context names; None where they cannot be had any more. Blocks."""
    turns = store.transcripts.named(context.turns)
    for from_journals in (False, True):
        try:
            shown = _put_together(store, context, turns, from_journals)
        except (KeyError, ValueError, JournalPruned):
            continue
        if digest_of(shown) == context.digest:
            return shown
    return None


def _put_together(
    store: Store, context: TurnContext, turns: Sequence[EndedTurn], from_journals: bool
) -> Sequence[ShownMessage]:
    """The turns behind the base, as they are stored; those that are not, or all `from_journals`, computed again."""
    base = () if context.base is None else read_all(parsed(store.texts.kept(context.base)))
    left_out = {turn.retries for turn in turns}
    shown = [message for message in base if message.order_id not in left_out]
    for turn in turns:
        if turn.messages is not None and not from_journals:
            shown += read_all(parsed(turn.messages))
            continue
        folded = OwnMessages()
        while page := store.journal.read(turn.order_id, after=folded.last_seq, limit=PAGE):
            for entry in page:
                folded.add(entry)
        (row,) = store.transcripts.ends([turn.order_id])
        end = TurnEnd(row.order_id, row.session_seq, row.prompt, row.status, row.answer)
        if turn.retries is None:  # A repetition was not shown what is shown now.
            shown = [*folded.shown_before(tuple(shown))]
        shown += folded.at_end(end, context.mode)
    return shown
