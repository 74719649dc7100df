"""A turn as a conversation shows it: whole lines, the master's text once, whatever order its pieces come in."""

import pytest

from mcc.contracts.blocks import blocks_of
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.journal import ControlApplied
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.usage import Usage
from mcc.contracts.waits import WaitsFor
from mcc.contracts.wire import Delta, OrderWaits
from mcc.view.chat import ChatScreen
from tests.mcc.view.order_journal import CHILD, CLAIMED, END, MASTER, ORDER_ID, QUEUED, call, journal, result, started

TEXT = "One \x1b[2Jline.\nAnd two."


def delta(text: str, offset: int, *, attempt: int = 1, depth: int = 0) -> Delta:
    return Delta(
        kind="model.delta",
        order_id=ORDER_ID,
        epoch=1,
        record_id="m",
        round=1,
        attempt=attempt,
        offset=offset,
        text=text,
        depth=depth,
    )


def replied(text: str = TEXT, attempt: int = 1) -> ModelReplied:
    return ModelReplied(
        round=1, attempt=attempt, model="a/b", blocks=blocks_of(text=text), finish_reason="stop", usage=Usage()
    )


def entries(*facts: tuple[Origin, Fact]) -> list[Entry]:
    return journal(QUEUED, CLAIMED, (MASTER, started()), *facts)


def shown(*items: Entry | Delta, width: int = 80) -> list[str]:
    lines: list[str] = []
    screen = ChatScreen(lambda style, line: lines.append(line), width)
    for item in items:
        screen.show(item)
    return lines


ASKED = (MASTER, ModelStarted(round=1, attempt=1, model="a/b"))
SAID = ["One ⟦U+001B⟧[2Jline.", "And two."]


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [delta("One \x1b[2J", 0), delta("line.\nAnd", 8), delta(" two.", len(TEXT) - 5)],
        [delta("One \x1b[2J", 0), delta(" two.", len(TEXT) - 5)],
        [delta("One \x1b[2J", 0), delta("One \x1b[2Jline.", 0)],
        [delta("a child's", 0, depth=1)],
    ],
    ids=["none", "all", "one is lost", "one twice", "of a child"],
)
@pytest.mark.parametrize("late", [False, True])
def test_the_masters_text_stands_once_however_its_pieces_come(pieces: list[Delta], late: bool) -> None:
    *before, started_model, reply = entries(ASKED, (MASTER, replied()))
    middle: list[Entry | Delta] = [*pieces, started_model] if late else [started_model, *pieces]
    assert shown(*before, *middle, reply, *pieces) == SAID


def test_a_cancel_of_the_turn_is_told_once_by_how_the_turn_ended() -> None:
    def cancel(control_id: str) -> ControlApplied:
        return ControlApplied(control_id=control_id, control="cancel", reason="stopped from the keyboard")

    order = Origin(record_id=None, parent_id=None, agent=None, depth=0)
    assert shown(*entries((order, cancel("a")), (MASTER, cancel("b")))) == []
    assert any("cancel" in line for line in shown(*entries((CHILD, started()), (CHILD, cancel("c")))))


def test_a_try_that_broke_off_leaves_its_text_and_the_next_one_is_told_whole() -> None:
    *before, reply = entries((MASTER, replied("Whole.", attempt=2)))
    assert shown(*before, delta("Hal", 0), delta("Who", 0, attempt=2), reply) == ["Hal", "Whole."]


def test_long_lines_are_written_as_they_come() -> None:
    long = " ".join(["word"] * 30)
    lines = shown(*entries(), delta(long, 0), width=40)
    assert len(lines) >= 3 and all(len(line) <= 40 for line in lines) and set(" ".join(lines).split()) == {"word"}


def test_calls_and_failures_are_lines_and_what_was_just_asked_for_is_not_told() -> None:
    told = entries((CHILD, started("Look", "k")), (MASTER, call("1", "read_file", path="b")), *END)
    assert shown(*told)[0].startswith("  explore: starts") and shown(*told)[1:] == [
        "master: read_file b",
        "  explore: completed",
    ]
    failed = entries(
        (MASTER, call("1", "read_file", path="b")), (MASTER, result("1", "read_file", "no", is_error=True))
    )
    assert shown(*failed) == ["master: read_file b", "master: read_file failed: no"]


def test_what_the_order_waits_for_stands_until_it_goes_on() -> None:
    screen = ChatScreen(lambda style, line: None, 80)
    queued, claimed = journal(QUEUED, CLAIMED)
    screen.show(queued)
    screen.show(OrderWaits(waits_for=WaitsFor(kind="slot", message="2nd in line")))
    assert screen.waits == "2nd in line"
    screen.show(claimed)
    assert screen.waits == ""
