"""Conversations of subagents, put together again from journals: of this turn, and of the session's earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from drone.agent.ports.conversations import CannotContinue
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Turn
from mcc.contracts.git_facts import WorktreeEnded, WorktreeState
from mcc.transcript.messages import Message
from mcc.transcript.shown import ShownMessage

MOST_TURNS = 50
"""Most turns over which one conversation is continued."""

_GONE = "What this subagent was told is not stored any more. Start a new one with all that it must know."
_NOTHING_LOST = (WorktreeState.MERGED, WorktreeState.EMPTY)


@dataclass(frozen=True, slots=True)
class PastConversation:
    """The records of one subagent, oldest first, and all `messages`. `first`: the state of the turn of the oldest one;
    `order_id`: the earlier turn of the newest one, None = this turn. `told_first`: what became of its worktree."""

    records: tuple[RecordState, ...]
    messages: tuple[Message, ...]
    first: Tree
    order_id: str | None = None
    told_first: str = ""


async def past_conversation(
    turn: Turn, parent_id: str | None, record_id: str, *, without: str
) -> PastConversation | None:
    """The conversation of the record of an ended subagent that this parent may continue, up to the record `without`: of
    its own, or, where the parent answers for the turn, of the agent that answered for an earlier turn that is shown.
    None where there is none. Raises `CannotContinue` where it is not stored any more, `JournalError`.
    """
    chain = _chain_of(turn.tree, record_id, without=without)
    if chain:
        is_own = chain[0].origin.parent_id == parent_id
        return await _whole(turn, turn.tree, chain, None, MOST_TURNS) if is_own else None
    if parent_id != turn.tree.root or turn.before is None or turn.tree.begun(record_id) is not None:
        return None
    for order_id in await turn.before.naming(record_id):
        if (past := await _in_order(turn, order_id, record_id, MOST_TURNS)) is not None:
            return past
    return None


async def _in_order(turn: Turn, order_id: str, record_id: str, most: int) -> PastConversation | None:
    """The conversation of a direct child of the root of an earlier turn, up to its last record there."""
    assert turn.before is not None
    tree = await turn.before.journals.tree(order_id)
    chain = [] if tree is None else _chain_of(tree, record_id)
    if tree is None or not chain or chain[0].origin.parent_id != tree.root:
        return None
    for digest in tree.artifacts:
        turn.artifacts.register(digest)
    turn.artifacts.register_pictures(*tree.pictures)
    return await _whole(turn, tree, chain, order_id, most)


async def _whole(
    turn: Turn, tree: Tree, chain: Sequence[RecordState], order_id: str | None, most: int
) -> PastConversation:
    """The conversation that ends with these records, with what its first one continues."""
    started, before = chain[0].started, None
    if started is not None and started.continues is not None and started.continues_order is not None:
        if turn.before is not None and most:
            before = await _in_order(turn, started.continues_order, started.continues, most - 1)
        if before is None:
            raise CannotContinue(_GONE)
    messages = tree.conversation(chain[-1].origin.record_id or "", () if before is None else before.messages)
    if order_id is not None:  # What is a secret by now was none when it was written.
        forms = (ShownMessage.of(message, order_id, 0, 0) for message in messages)
        messages = tuple(form.without(turn.redactor).message for form in forms)
    records = (*(() if before is None else before.records), *chain)
    told = "" if order_id is None else _lost_worktree(tree, chain[-1])
    return PastConversation(records, messages, tree if before is None else before.first, order_id, told)


def _lost_worktree(tree: Tree, record: RecordState) -> str:
    """What its agent has to know of the worktree of an earlier turn that nothing was merged from; empty: nothing."""
    above = tree.begun(record.origin.parent_id)
    fact = None if above is None else above.children.worktrees.get(record.origin.record_id or "")
    if fact is None or (isinstance(fact, WorktreeEnded) and fact.state in _NOTHING_LOST):
        return ""
    saved = isinstance(fact, WorktreeEnded) and fact.commit is not None
    where = f"what was saved of it is on {fact.ref}" if saved else "nothing of it is known to be saved"
    return f"The worktree in which you worked in an earlier turn is gone, and was not merged: {where}."


def _chain_of(tree: Tree, record_id: str, *, without: str = "") -> list[RecordState]:
    """The ended records of the conversation that `record_id` belongs to, oldest first, up to the one `without`."""
    first = tree.begun(record_id)
    while first is not None and (before := tree.begun(_continues(first))) is not None:
        first = before
    chain: list[RecordState] = []
    following = {_continues(record): record for record in tree.records.values() if _continues(record)}
    record = first
    while record is not None and record.finished is not None and record.origin.record_id != without:
        chain.append(record)
        record = following.get(record.origin.record_id or "")
    return chain


def _continues(record: RecordState) -> str | None:
    return None if record.started is None else record.started.continues
