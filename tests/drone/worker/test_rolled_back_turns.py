"""After a turn in the midst of a session was rolled back, the next turn says that as what breaks the prefix."""

from pathlib import Path

from drone.agent.ports.prefix import PREFIX_CHANGED
from mcc.contracts.callers import Actor
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import WorkOrder
from mcc.contracts.sessions import NewSessionFork
from tests.drone.worker.test_transcripts_of_sessions import Talk


def told(talk: Talk, order: WorkOrder) -> list[str | None]:
    steps = (entry.data for entry in talk.journal(order.id) if isinstance(entry.data, AgentStep))
    return [step.why for step in steps if step.name == PREFIX_CHANGED]


async def test_a_turn_and_a_fork_after_a_rollback_in_the_midst_of_the_session_say_so_once(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        third = await talk.say("three", first.session_id)
        fork = talk.store.sessions.fork(first.session_id, NewSessionFork(turn=3), by=Actor("test"))
        talk.store.orders.roll_back(second.id, by=Actor("test"))
        orders = [await talk.say("next", fork.id), await talk.say("next", first.session_id)]
        orders += [await talk.say("last", fork.id), await talk.say("last", first.session_id)]
        assert [told(talk, order) for order in (third, *orders)] == [[], ["rollback"], ["rollback"], [], []]
