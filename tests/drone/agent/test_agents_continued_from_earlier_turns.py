"""What an agent of an earlier turn is told of the worktree that it had there, before it goes on."""

from dataclasses import replace

import pytest

from drone.agent.ports.conversations import Conversation
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.subagents.children import continued
from drone.agent.subagents.past import past_conversation
from drone.agent.turns.earlier import EarlierTurns
from drone.agent.turns.turn import Task, Turn
from mcc.contracts.entry import Origin
from mcc.contracts.git_facts import WorktreeEnded, WorktreeMade, WorktreeState
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import UserMessage
from mcc.transcript.shown import ShownMessage

ROOT = Origin(record_id="root", parent_id=None, agent="master", depth=0)
CHILD = Origin(record_id="child", parent_id="root", agent="writer", depth=1)
NOW = Origin(record_id="now", parent_id=None, agent="master", depth=0)


def started(prompt: str) -> AgentStarted:
    return AgentStarted(title="", prompt=prompt, model=None, tools=(), definition_digest="", setup_digest="")


def made() -> WorktreeMade:
    return WorktreeMade(child_id="child", child="writer", ref="refs/mcc/o/child", base="b")


def ended(state: WorktreeState, commit: str | None = None) -> WorktreeEnded:
    return WorktreeEnded(child_id="child", child="writer", ref="refs/mcc/o/child", state=state, commit=commit)


class Journals:
    """One earlier turn, in which a child worked in a worktree that ended like this."""

    def __init__(self, *facts: WorktreeMade | WorktreeEnded) -> None:
        self.facts = facts

    async def tree(self, order_id: str) -> Tree | None:
        tree = Tree()
        tree.apply(ROOT, started("Hire."))
        tree.apply(CHILD, started("Write."), AgentFinished(status=RecordStatus.COMPLETED, answer="Written."))
        tree.apply(ROOT, *self.facts, AgentFinished(status=RecordStatus.COMPLETED, answer="Done."))
        return tree

    async def order_of(self, record_id: str) -> str | None:
        return "order" if record_id == CHILD.record_id else None


async def told_first(*facts: WorktreeMade | WorktreeEnded) -> str:
    shown = (ShownMessage.of(UserMessage("record_id: child"), "order", 1, 2),)
    turn = replace(
        Turn.begun(MemoryJournal(fresh_id()), Budget(Limits())), before=EarlierTurns(shown, Journals(*facts))
    )
    turn.tree.apply(NOW, started("Go on."))
    past = await past_conversation(turn, "now", "child", without="new")
    assert past is not None and [one.origin.record_id for one in past.records] == ["child"]
    return past.told_first


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ((made(),), "nothing of it is known to be saved"),
        ((made(), ended(WorktreeState.LOST)), "nothing of it is known to be saved"),
        ((made(), ended(WorktreeState.KEPT, "c")), "what was saved of it is on refs/mcc/o/child"),
        ((made(), ended(WorktreeState.CONFLICT, "c")), "what was saved of it is on refs/mcc/o/child"),
    ],
)
async def test_a_worktree_that_was_not_merged_is_said(
    facts: tuple[WorktreeMade | WorktreeEnded, ...], words: str
) -> None:
    assert words in await told_first(*facts)


async def test_of_one_that_was_merged_and_of_none_nothing_is_said() -> None:
    assert [await told_first(), await told_first(made(), ended(WorktreeState.MERGED, "c"))] == ["", ""]


def test_it_stands_above_the_message_as_the_runtime_s_words() -> None:
    conversation = Conversation(object(), "root", "child", "", order_id="order", told_first="It is gone.")
    task = continued(Task("Go on.", "new"), conversation)
    assert task.prompt == "<notice>\nIt is gone.\n</notice>\n\nGo on." and task.continues_order == "order"
