"""What people say at great length: it ends no turn, and the model reads the whole where it wants to."""

import pytest

from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Steering, Task
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.ids import root_record_id
from mcc.contracts.status import OrderStatus
from mcc.transcript.clipping import with_words
from mcc.transcript.compaction.built import PersonWords, words_of_people
from mcc.transcript.messages import Picture, UserMessage
from mcc.transcript.own_messages import OwnMessages, TurnEnd
from mcc.transcript.pictures import PictureLimits
from tests.drone.agent.compaction.long_runs import ORDER, LongModel, LongRun, tokens_of, unanswered

LONG = "Look at door-1. " + "word " * 12_000 + " And at gate-9."


def texts(world: LongRun) -> list[str]:
    return [one.text for one in world.model.asks[-1].messages if isinstance(one, UserMessage)]


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("window", [12_000, 4_000])
async def test_a_prompt_longer_than_the_window_is_read_in_part_and_can_be_read_whole(window: int, tells: bool) -> None:
    world = LongRun(LongModel(3, window, tells=tells), prompt=LONG)
    assert (await world.run()).text == "All read."
    words = [short for fact in world.compacted() for short in fact.words]
    assert words and world.journal.texts[words[-1].artifact] == LONG
    assert any("door-1" in text and "gate-9" in text and "read_artifact" in text for text in texts(world))
    assert not [wrong for ask in world.model.asks for wrong in unanswered(ask.messages)]


@pytest.mark.parametrize("tells", [True, False])
async def test_a_steer_longer_than_the_window_does_not_end_its_turn(tells: bool) -> None:
    world = LongRun(LongModel(8, 12_000, length=100, tells=tells))
    turn = world.agent.turn(world.journal)
    steering = Steering(turn)

    async def steered() -> None:
        await steering.steer(LONG)

    world.model.before_round = {4: steered}
    report = await world.agent.run(Task(world.prompt, root_record_id(ORDER)), turn)
    assert (report.text, report.error) == ("All read.", None)
    facts = [fact for fact in world.compacted() if fact.words]
    assert len(facts) == 1 and world.journal.texts[facts[0].words[0].artifact].endswith(LONG)
    # Nothing else had to go: what it was too long for was its own length.
    assert not world.compacted("handles") and not world.compacted("summary")
    assert world.prompt in texts(world)[0]
    for after in range(1, len(world.journal.entries), 3):
        entries = world.journal.entries[:after]
        left = LongRun(LongModel(8, 12_000, length=100, tells=tells), left=entries, texts=world.journal.texts)
        left.model.said = Tree.of(entries).records[root_record_id(ORDER)].rounds if after > 1 else 0
        assert (await left.run()).text == "All read.", after
    own = OwnMessages()
    for entry in world.journal.entries:
        own.add(entry)
    end = TurnEnd(ORDER, 1, world.prompt, OrderStatus.SUCCEEDED, "All read.")
    kept = [one.message.text for one in own.at_end(end, "full") if isinstance(one.message, UserMessage)]
    assert all(len(text) < len(LONG) for text in kept) and all(tokens_of(ask) <= 12_000 for ask in world.model.asks)


def test_the_newest_words_in_a_summary_have_a_beginning_and_an_end() -> None:
    said = [PersonWords("First."), PersonWords(f"begins {'x' * 9_000} ends", "7/3")]
    *_, last = words_of_people(said, 400, 2_000)
    assert last.startswith("begins") and last.endswith("ends") and "history_read 7/3" in last and len(last) <= 2_000


def attached(name: str, text: str = "") -> ShownAttachment:
    """A picture, or with `text` a document."""
    image = None if text else ImageBlock(artifact=f"digest of {name}", media_type="image/png", name=name)
    return ShownAttachment(id=name, name=name, text=text or f"[attachment: {name}]", image=image)


class Seeing(LongModel):
    picture_limits = PictureLimits(20)


async def test_a_long_prompt_with_pictures_is_shortened_and_its_pictures_stay() -> None:
    world = LongRun(Seeing(3, 12_000), prompt=LONG)
    given = (attached("door.png"), attached("list", "word " * 6_000), attached("gate.png"))
    for name in ("door.png", "gate.png"):
        world.journal.texts[f"digest of {name}"] = "AAAA"
    task = Task(world.prompt, root_record_id(ORDER), attachments=given)
    report = await world.agent.run(task, world.agent.turn(world.journal))
    assert (report.text, report.error) == ("All read.", None)
    (fact, *_) = [fact for fact in world.compacted() if fact.words]
    assert world.journal.texts[fact.words[0].artifact].startswith(LONG)
    first = world.model.asks[-1].messages[0]
    assert isinstance(first, UserMessage) and len(first.text) < 12_000
    parts = [part if isinstance(part, str) else part.image.name for part in first.parts]
    head, door, rest, gate = parts
    assert (door, gate) == ("door.png", "gate.png")
    assert head.startswith("Look at door-1.") and "read_artifact" in head and rest.endswith("[attachment: gate.png]")
    for after in range(1, len(world.journal.entries), 2):
        left = LongRun(Seeing(3, 12_000), left=world.journal.entries[:after], texts=world.journal.texts)
        left.model.said = Tree.of(left.left).records[root_record_id(ORDER)].rounds if after > 1 else 0
        assert (await left.run()).text == "All read.", after
        assert all(ask.messages[0] == first for ask in left.model.asks), after


def test_pictures_keep_their_places_in_the_words_that_stay() -> None:
    text = "begins here, middle, and it ends"
    image = ImageBlock(artifact="a", media_type="image/png")
    pictures = tuple(Picture(image, at=at) for at in (0, 6, 15, 20, 28, len(text)))
    (short,) = with_words([UserMessage(text, pictures)], {1: "begins [gap] ends"})
    assert isinstance(short, UserMessage)
    assert [short.text[: one.at] for one in short.pictures] == [
        "",
        "begins",
        "begins [gap]",
        "begins [gap]",
        "begins [gap] ",
        "begins [gap] ends",
    ]
