"""The tool `ask_user`: an agent asks a person and waits for the answer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

from pydantic import Field, StringConstraints

from drone.agent.control.idle_watch import Block
from drone.agent.turns.turn import Turn
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

LONGEST_SECONDS = 2_592_000
"""The longest time that a question waits for its answer: thirty days."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Choice = Annotated[str, StringConstraints(min_length=1, max_length=500)]

NOBODY = "There is nobody to ask here. Decide by yourself, and say what you took for granted."


@tool(idempotent=True, effects="none", untrusted=False, seconds=LONGEST_SECONDS, background_safe=False)
async def ask_user(
    context: ToolContext,
    question: Words,
    choices: Annotated[tuple[Choice, ...], Field(max_length=20)] = (),
    default: Words | None = None,
    wait_seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] | None = None,
) -> str:
    """Ask a person, who may take hours; you wait. Only for what you cannot find out and must not guess.

    Args:
        question: With all that is needed to answer it.
        choices: Answers to choose from.
        default: What counts when nobody answers in time.
        wait_seconds: How long to wait.
    """
    turn = context.turn
    if turn is None or not turn.inbox.people.reaches:
        if default is None:
            raise ToolFailed(NOBODY)
        return default
    reply = await answered(
        turn,
        context.origin,
        QuestionAsked(
            question_id=derived_id(context.call_id, "question"),
            call_id=context.call_id,
            question=question,
            choices=choices,
            default=default,
            expires_at=now() + timedelta(seconds=wait_seconds or turn.inbox.people.expire_seconds),
        ),
    )
    if reply.answer is None:
        raise ToolFailed("Nobody answered in time. Decide by yourself, and say what you took for granted.")
    if reply.expired:
        return f"Nobody answered in time, so your default counts: {reply.answer}"
    return reply.answer


async def answered(turn: Turn, origin: Origin, asked: QuestionAsked) -> QuestionAnswered:
    """Ask the question, unless an earlier drone already wrote it to the journal, and wait for the answer.

    The turn's inbox must reach people.
    """
    items = turn.tree.record(origin).conversation.items
    # A resumed call asks nobody twice: the question stands in the journal under the same derived id.
    if asked.question_id not in items:
        await turn.journal.write(origin, asked)
    item = items[asked.question_id]
    assert isinstance(item.asked, QuestionAsked)
    if item.heard is None:
        who = origin.agent or "an agent"
        block = Block(WaitingReason.QUESTION, f"{who} asks: {item.asked.question[:300]}", item.asked.expires_at)
        async with turn.blocked(asked.call_id, origin.record_id, block):
            await turn.inbox.said(origin, item)
    assert isinstance(item.heard, QuestionAnswered)
    return item.heard


ASKING_TOOLS: tuple[Callable[..., object], ...] = (ask_user,)
"""The tools of the group `coordination` that this module holds."""
