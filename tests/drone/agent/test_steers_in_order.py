"""What people tell an agent reaches it in order, each once and with its time, several in one message, while its
children run too."""

import pytest

from drone.agent.control.agent_control import MOST_CHARACTERS
from drone.agent.state.tree import Tree
from mcc.contracts.control import Control, ControlKind, SteerMode
from mcc.contracts.entry import Entry
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import ControlApplied
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import UserMessage
from mcc.transcript.own_messages import OwnMessages, TurnEnd
from mcc.transcript.transcript import length
from tests.drone.agent.steered_tree import MASTER, ORDER, TWO, SteeredTree, delegate, end_of, two_at_work


def applied(tree: SteeredTree) -> list[Entry]:
    return [entry for entry in tree.journal.entries if isinstance(entry.data, ControlApplied)]


def said(*controls: Control) -> str:
    """The message that these steers are to their agent."""
    return "\n\n".join(f"[{one.requested_at:%Y-%m-%dT%H:%M:%SZ}] {one.message}" for one in controls)


async def test_several_steers_at_a_boundary_are_one_commit_and_one_message_while_children_run() -> None:
    tree = SteeredTree(
        {**TWO, MASTER: [delegate("north"), delegate("south"), "Done."], "north": [delegate("quay"), "N"]}
    )
    tree.hold("quay", "south")
    tree.begin()
    await tree.until_asked("quay")
    north = tree.child("north").id
    to_master = [await tree.steering.steer(f"{text} first.") for text in ("This", "That", "Both")]
    to_child = [await tree.steering.steer(text, record_id=north) for text in ("Count.", "Count twice.")]
    assert applied(tree) == [], "none of them has come to its next request"
    tree.release("quay")
    await tree.until_asked("south")
    assert tree.said_to("north") == ["north", said(*to_child)]
    assert tree.said_to(MASTER) == [MASTER, said(*to_master)]
    seqs = [entry.seq for entry in applied(tree)]
    assert seqs == [*range(seqs[0], seqs[0] + 2), *range(seqs[2], seqs[2] + 3)]
    times = [getattr(entry.data, "at", None) for entry in applied(tree)]
    assert times == [one.requested_at for one in (*to_child, *to_master)]
    later = await tree.steering.steer("And the end?")
    tree.release("south")
    await end_of(tree)
    assert tree.said_to(MASTER) == [MASTER, said(*to_master), said(later)], "a request lies between them"


async def test_steers_that_arrive_out_of_order_are_read_by_their_number() -> None:
    tree = await two_at_work()
    controls = [
        Control(
            id=fresh_id(),
            order_id=ORDER,
            number=number,
            kind=ControlKind.STEER,
            message=f"Number {number}.",
            mode=SteerMode.INJECT,
            requested_at=now(),
        )
        for number in (3, 1, 2)
    ]
    for control in controls:
        assert await tree.turn.router.take(control) is None
    tree.release("north", "south")
    await end_of(tree)
    assert tree.said_to(MASTER)[1] == said(*sorted(controls, key=lambda one: one.number))


async def test_what_is_too_much_for_one_request_comes_with_the_next_ones_in_order_and_each_once() -> None:
    tree = await two_at_work()
    asked = [await tree.steering.steer(letter * 20_000) for letter in "abcde"]
    tree.release("north", "south")
    await end_of(tree)
    assert tree.said_to(MASTER) == [MASTER, said(*asked[:2]), said(*asked[2:4]), said(asked[4])]
    assert tree.calls.count(MASTER) == 4, "it does not end before it has read everything"


async def test_ten_thousand_steers_are_read_in_order() -> None:
    tree = await two_at_work()
    asked = [await tree.steering.steer(f"{number:05}" * 20) for number in range(10_000)]
    tree.release("north", "south")
    await end_of(tree)
    told = tree.said_to(MASTER)[1:]
    assert "\n\n".join(told) == said(*asked)
    assert all(len(one) < MOST_CHARACTERS * 1.5 for one in told)


async def test_one_message_that_is_longer_than_all_that_is_read_at_once_is_read() -> None:
    tree = await two_at_work()
    asked = await tree.steering.steer("x" * (MOST_CHARACTERS + 1))
    tree.release("north", "south")
    await end_of(tree)
    assert tree.said_to(MASTER)[-1] == said(asked)


async def test_a_resume_and_a_later_turn_have_the_same_messages_as_were_sent() -> None:
    tree = await two_at_work()
    for text in ("First.", "Second."):
        await tree.steering.steer(text)
    tree.release("north", "south")
    await end_of(tree)
    sent = tree.model.asks[-1].messages
    again, own = Tree(), OwnMessages()
    for entry in tree.journal.entries:
        again.add(entry)
        own.add(entry)
    root = again.begun(again.root)
    assert root is not None and root.conversation.transcript.messages[: len(sent) - 1] == sent[1:]
    shown = own.at_end(TurnEnd(ORDER, 1, MASTER, OrderStatus.SUCCEEDED, "Both looked."), "full")
    assert tuple(one.message for one in shown)[: len(sent)] == sent
    transcript = root.conversation.transcript
    assert transcript.characters_said == sum(map(length, transcript.said))


@pytest.mark.parametrize("with_times", [True, False])
async def test_steers_of_a_version_before_times_stay_messages_of_their_own(with_times: bool) -> None:
    tree = await two_at_work()
    for text in ("First.", "Second."):
        await tree.steering.steer(text)
    tree.release("north", "south")
    await end_of(tree)
    again = Tree()
    for entry in tree.journal.entries:
        if isinstance(entry.data, ControlApplied) and not with_times:
            entry = entry.model_copy(update={"data": entry.data.model_copy(update={"at": None})})
        again.add(entry)
    root = again.begun(again.root)
    assert root is not None
    texts = [one.text for one in root.conversation.transcript.messages if isinstance(one, UserMessage)]
    assert len(texts) == (1 if with_times else 2)
    assert with_times or texts == ["First.", "Second."]
