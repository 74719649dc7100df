"""Pictures of a session: which of them later turns are shown is what its journals say, and none ends a turn."""

import re
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

from drone.agent.ports.model import Ask, Listener, PictureRefused, Reply
from drone.agent.ports.prefix import PREFIX_CHANGED
from drone.models.scripted import Line, Said, call
from mcc.contracts.callers import Actor
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.sessions import NewSessionFork
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import Message, ToolResults, UserMessage
from mcc.transcript.pictures import OLDER, REFUSED, PictureLimits, pictures_of
from mcc.transcript.transcript import request_in
from tests.drone.worker.test_transcripts_of_sessions import Talk, Windowed


class Eyes(Windowed):
    """A model that is shown a few pictures at once, and refuses requests with those named `bad`."""

    picture_limits = PictureLimits(4)
    bad = ""
    refusals = 0

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        assert len(shown_in(ask.messages)) <= self.picture_limits.most
        if self.bad in shown_in(ask.messages):
            self.refusals += 1
            raise PictureRefused("An image is broken.", status=400)
        return await super().ask(ask, listener)


class Gallery(Talk):
    """A talk whose model looks at the pictures that a prompt numbers, "look 1 2", or sees again what a handle names."""

    model_class = Eyes

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for number in range(30):
            Image.new("RGB", (3, 2), (number, 0, 0)).save(folder / f"{number}.png")

    async def __aenter__(self) -> "Gallery":
        await super().__aenter__()
        return self

    @property
    def eyes(self) -> Eyes:
        assert isinstance(self.model, Eyes)
        return self.model

    async def _say(self, ask: Ask) -> Said:
        self.asked.append(ask)
        last = ask.messages[-1]
        wanted = request_in(last.text).split() if isinstance(last, UserMessage) else []
        match wanted:
            case ["look", *numbers]:
                return Line("I look.", tuple(call("read_file", path=f"{number}.png") for number in numbers))
            case ["again", handle]:
                return Line("I look.", (call("read_artifact", id=handle),))
        return "Seen."

    def hidden(self, order: WorkOrder) -> list[TranscriptCompacted]:
        facts = (entry.data for entry in self.journal(order.id) if isinstance(entry.data, TranscriptCompacted))
        return [fact for fact in facts if fact.stage == "images"]

    def untold(self, order: WorkOrder) -> list[str | None]:
        steps = (entry.data for entry in self.journal(order.id) if isinstance(entry.data, AgentStep))
        return [step.why for step in steps if step.name == PREFIX_CHANGED]


def shown_in(messages: Sequence[Message]) -> list[str]:
    return [one.image.name.removesuffix(".png") for message in messages for one in pictures_of(message)]


def words_in(messages: Sequence[Message]) -> str:
    results = (result.content for message in messages if isinstance(message, ToolResults) for result in message.results)
    return "\n".join(results)


@pytest.fixture
async def gallery(tmp_path: Path) -> AsyncIterator[Gallery]:
    async with Gallery(tmp_path) as opened:
        yield opened


async def test_beyond_the_limit_the_oldest_go_at_once_and_the_next_requests_repeat_that(gallery: Gallery) -> None:
    first = await gallery.say("look 1 2")
    orders = [first, *[await gallery.say(f"look {number}", first.session_id) for number in range(3, 9)]]
    assert all(order.status is OrderStatus.SUCCEEDED for order in orders)
    assert [len(gallery.hidden(order)) for order in orders] == [0, 0, 0, 1, 0, 0, 1]
    assert [shown_in(ask.messages) for ask in gallery.asked[6:10]] == [
        ["1", "2", "3", "4"],
        ["4", "5"],
        ["4", "5"],
        ["4", "5", "6"],
    ]
    sent = [[*ask.messages] for ask in gallery.asked]
    breaks = [after for before, after in pairwise(sent) if after[: len(before)] != before]
    assert [shown_in(messages) for messages in breaks] == [["4", "5"], ["7", "8"]]
    assert not any(map(gallery.untold, orders)), "the entries say it"


async def test_what_was_put_away_stays_so_in_later_turns_and_forks_also_when_all_that_is_stored_is_lost(
    gallery: Gallery,
) -> None:
    first = await gallery.say("look 1 2")
    second = await gallery.say("look 3 4 5", first.session_id)
    assert len(gallery.hidden(second)) == 1
    third = await gallery.say("and?", first.session_id)
    expected = gallery.asked[-1].messages
    assert shown_in(expected) == ["4", "5"] and words_in(expected).count(OLDER) == 3
    assert gallery.stored(second) == gallery.folded(second)
    fork = gallery.store.sessions.fork(first.session_id, NewSessionFork(turn=2), by=Actor("test"))
    await gallery.say("and?", fork.id)
    assert gallery.asked[-1].messages == expected
    again = gallery.store.orders.retry(third.id, by=Actor("test")).order
    gallery.forget()
    await gallery.work(again)
    assert gallery.asked[-1].messages == expected
    assert not gallery.hidden(third) and not gallery.hidden(again), "no turn puts them away once more"


async def test_a_fork_inside_a_turn_shows_what_its_source_had_left(gallery: Gallery) -> None:
    first = await gallery.say("look 1 2")
    second = await gallery.say("look 3 4 5", first.session_id)
    [put_away] = [entry.seq for entry in gallery.journal(second.id) if isinstance(entry.data, TranscriptCompacted)]
    expected = gallery.asked[-1].messages
    fork = gallery.store.orders.fork(second.id, NewFork(after=put_away), by=Actor("test")).order
    assert (await gallery.work(fork)).status is OrderStatus.SUCCEEDED
    assert shown_in(gallery.asked[-1].messages) == shown_in(expected) == ["4", "5"]
    assert len(gallery.hidden(fork)) == 1, "the copy of its source's"


async def test_a_picture_that_was_put_away_can_be_seen_again_in_a_later_turn(gallery: Gallery) -> None:
    first = await gallery.say("look 1 2")
    await gallery.say("look 3 4 5", first.session_id)
    [handle] = re.findall(
        r"picture 1\.png not shown: .*; read_artifact (\w+) shows it again", words_in(gallery.asked[-1].messages)
    )
    await gallery.say(f"again {handle}", first.session_id)
    assert shown_in(gallery.asked[-1].messages) == ["4", "5", "1"]
    await gallery.say("and?", first.session_id)
    assert shown_in(gallery.asked[-1].messages) == ["4", "5", "1"]


async def test_a_refused_picture_is_left_out_for_good_and_no_turn_ends(gallery: Gallery) -> None:
    gallery.eyes.bad = "7"
    first = await gallery.say("look 1 7")
    later = [await gallery.say("and?", first.session_id), await gallery.say("look 7", first.session_id)]
    assert all(order.status is OrderStatus.SUCCEEDED for order in (first, *later))
    [fact] = gallery.hidden(first)
    assert fact.reason == "refused" and gallery.eyes.refusals == 2, "once where it comes, and where it comes again"
    assert f"[picture 7.png not shown: {REFUSED}]" in words_in(gallery.asked[-1].messages)
    assert shown_in(gallery.asked[-1].messages) == ["1"]
    expected = gallery.asked[-1].messages
    gallery.forget()
    await gallery.say("and?", first.session_id)
    assert gallery.asked[-1].messages[: len(expected)] == expected and gallery.eyes.refusals == 2


async def test_a_picture_that_a_later_provider_refuses_does_not_end_the_session(gallery: Gallery) -> None:
    first = await gallery.say("look 1 2")
    gallery.eyes.bad = "1"
    second = await gallery.say("and?", first.session_id)
    third = await gallery.say("and?", first.session_id)
    assert {order.status for order in (second, third)} == {OrderStatus.SUCCEEDED}
    assert len(gallery.hidden(second)) == 2 and not gallery.hidden(third), "the newest goes first, then the next"
    assert gallery.eyes.refusals == 2
    assert [base.reason for base in gallery.bases()] == ["clip"]


async def test_a_model_that_is_shown_fewer_pictures_puts_more_away(gallery: Gallery) -> None:
    first = await gallery.say("look 1 2 3 4")
    gallery.eyes.picture_limits = PictureLimits(2)
    second = await gallery.say("and?", first.session_id)
    assert shown_in(gallery.asked[-1].messages) == ["4"]
    gallery.eyes.picture_limits = PictureLimits(0)
    third = await gallery.say("and?", first.session_id)
    assert len(gallery.hidden(second)) == 1 and not gallery.hidden(third), "one without eyes is told by its adapter"
