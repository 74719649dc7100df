"""Orders that compact a session: what they are shown of it, and the base that they leave to it."""

from drone.worker.loop import AsyncStore
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.store.rows.stored_turns import NewBase
from mcc.transcript.messages import UserMessage
from mcc.transcript.opening import SessionOpening
from mcc.transcript.own_messages import OwnMessages
from mcc.transcript.shown import ShownMessage, canonical


async def next_turn(store: AsyncStore, order: WorkOrder, session_id: str, *, begun: bool) -> WorkOrder | OrderOutcome:
    """The next turn of the session that this order compacts, as far as it says what that turn would be shown; the
    outcome where the order ends instead, because a turn runs. `begun`: the order has begun under another drone."""
    number, running = await store.patiently(lambda store: store.compactions.next_turn(session_id))
    if running is not None and not begun:
        detail = f"turn {running} of the session runs: ask again when it has ended"
        return OrderOutcome(status=OrderStatus.CANCELLED, detail=detail)
    place = {"kind": OrderKind.CHAT, "session_id": session_id, "session_seq": number, "origin": None}
    return order.model_copy(update=place)


def compacted_base(session_id: str, outcome: OrderOutcome, own: OwnMessages, opening: SessionOpening) -> NewBase | None:
    """What the session is shown from now on, through the last turn of `opening`; None where nothing was shortened."""
    if outcome.status is not OrderStatus.SUCCEEDED or not opening.shown:
        return None
    through, shown = opening.shown[-1].turn, own.shown_before(opening.shown)
    if own.summarised:
        summary, *kept = own.with_summaries(shown, (), through)
        assert isinstance(summary.message, UserMessage)
        # The number of its entry is that of another journal than the turn's.
        context = (ShownMessage.of(summary.message, "", through, 0), *kept)
    elif shown != opening.shown:
        context = shown
    else:
        return None
    turns = dict.fromkeys(message.order_id for message in opening.shown if message.order_id)
    reason = "summary" if own.summarised else "results"
    return NewBase(canonical(context).decode(), reason, tuple(turns), session_id=session_id, through_seq=through)
