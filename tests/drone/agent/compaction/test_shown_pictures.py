"""Pictures of one conversation: a model that is shown fewer than its request has, or finds it too long, is asked again
with fewer, and a drone that takes over shows the same ones."""

from collections.abc import Sequence

import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ContextOverflow, ModelError, TooManyPictures
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Task
from drone.models.retry import Fallback
from drone.models.scripted import Said, ScriptedModel
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import Message
from mcc.transcript.pictures import PictureLimits, pictures_of

TOOLS = AgentDefinition(name="seer", prompt="You look at pictures.")


class Few(ScriptedModel):
    """A model that is shown at most two pictures, as an adapter says it."""

    picture_limits = PictureLimits(2)


def few(ask: Ask) -> Said:
    return TooManyPictures("At most two.", PictureLimits(2)) if len(shown_in(ask.messages)) > 2 else "Seen."


def shown_in(messages: Sequence[Message]) -> list[str]:
    return [one.image.name for message in messages for one in pictures_of(message)]


async def looked(model: object, number: int) -> tuple[AgentRuntime, Task, MemoryJournal]:
    """The run of an agent that is given so many pictures."""
    journal = MemoryJournal(fresh_id())
    attachments = []
    for name in map(str, range(number)):
        image = ImageBlock(artifact=await journal.keep(f"data of {name}"), media_type="image/png", name=name, bytes=9)
        attachments.append(ShownAttachment(id=name, name=name, text=f"[{name}]", image=image))
    agent = AgentRuntime(TOOLS, model=model)  # type: ignore[arg-type]
    task = Task("Look.", root_record_id(journal.order_id), "Look", attachments=tuple(attachments))
    report = await agent.run(task, agent.turn(journal))
    assert report.status is RecordStatus.COMPLETED
    return agent, task, journal


def hidden_in(journal: MemoryJournal) -> list[TranscriptCompacted]:
    return [entry.data for entry in journal.entries if isinstance(entry.data, TranscriptCompacted)]


async def test_a_fallback_that_is_shown_fewer_is_asked_with_fewer_and_the_entry_says_so() -> None:
    broken = ScriptedModel([ModelError("away"), ModelError("away")])
    second = Few(few)
    _, _, journal = await looked(Fallback([broken, second]), 5)
    assert [shown_in(ask.messages) for ask in second.asks] == [["0", "1", "2", "3", "4"], ["4"]]
    [fact] = hidden_in(journal)
    assert (fact.stage, fact.reason, len(fact.pictures)) == ("images", "images", 4)


async def test_where_nothing_else_makes_a_request_shorter_the_older_half_of_the_pictures_goes() -> None:
    model = ScriptedModel(lambda ask: ContextOverflow("too long") if len(shown_in(ask.messages)) > 1 else "Seen.")
    _, _, journal = await looked(model, 4)
    assert [shown_in(ask.messages) for ask in model.asks] == [["0", "1", "2", "3"], ["2", "3"], ["3"]]
    assert {(fact.stage, fact.reason) for fact in hidden_in(journal)} == {("images", "full")}


@pytest.mark.parametrize("kept_entries", range(3, 9))
async def test_a_drone_that_takes_over_anywhere_shows_the_same_pictures(kept_entries: int) -> None:
    _, task, journal = await looked(first := Few(["Seen."]), 5)
    left = MemoryJournal(journal.order_id, entries=list(journal.entries)[:kept_entries])
    left.texts.update(journal.texts)
    again = AgentRuntime(TOOLS, model=(second := Few(["Seen."])))
    await again.run(task, again.turn(left, Tree.of(list(left.entries))))
    assert len(hidden_in(left)) == 1
    assert all([*ask.messages] == [*first.asks[0].messages] for ask in second.asks)
