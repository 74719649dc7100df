"""Which pictures of a conversation a request shows: the same ones until a limit is passed, then half of them go."""

from collections.abc import Sequence
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drone.agent.ports.messages import Message, Picture, ToolResult, ToolResults, UserMessage
from drone.agent.ports.pictures import (
    MOST,
    OLDER,
    PictureLimits,
    next_to_drop,
    pictures_of,
    put_away,
    with_picture_bytes,
    within,
)
from drone.agent.ports.transcript import first_message, opening_message, request_in
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.fence import fenced


def picture(name: str, size: int = 1_000) -> Picture:
    return Picture(ImageBlock(artifact=f"digest of {name}", media_type="image/png", name=name, bytes=size))


def result(*names: str) -> ToolResults:
    return ToolResults((ToolResult(f"call-{names[0]}", "read_file", "seen", False, tuple(map(picture, names))),))


def names_in(messages: Sequence[Message]) -> list[str]:
    return [one.image.name for message in messages for one in pictures_of(message)]


async def kept(digest: str) -> str | None:
    return f"data of {digest}"


async def test_up_to_the_limit_all_are_shown_and_beyond_it_the_newest_half() -> None:
    full = [result(str(number)) for number in range(MOST)]
    assert len(names_in(await with_picture_bytes(full, kept))) == MOST
    over = await with_picture_bytes([*full, result("one more")], kept)
    assert names_in(over) == [*(str(number) for number in range(MOST - 9, MOST)), "one more"]
    assert isinstance(over[0], ToolResults)
    assert over[0].results[0].content == f"seen\n[picture 0 not shown: {OLDER}]"
    assert pictures_of(over[-1])[0].data == "data of digest of one more"


async def test_messages_without_pictures_are_left_as_they_are() -> None:
    plain: list[Message] = [UserMessage("Hi")]
    assert await with_picture_bytes(plain, kept) is plain
    assert within(plain, PictureLimits(0)) is plain


SIZES = st.lists(st.lists(st.integers(0, 3_000_000), max_size=6), max_size=30)
LIMITS = st.builds(PictureLimits, st.integers(0, 12), st.integers(0, 9_000_000))


@given(SIZES, LIMITS)
def test_what_is_put_away_stays_so_and_the_rest_is_within_the_limits(
    sizes: list[list[int]], limits: PictureLimits
) -> None:
    groups = [[picture("x", size) for size in group] for group in sizes]
    before: frozenset[int] = frozenset()
    for end in range(len(groups) + 1):
        gone = put_away(groups[:end], limits)
        assert before <= gone
        left = [one for number, one in enumerate(chain.from_iterable(groups[:end])) if number not in gone]
        assert len(left) <= limits.most
        assert sum((one.image.bytes or 2_000_000) * 4 // 3 + 4 for one in left) <= limits.characters
        before = gone


def test_after_a_break_the_next_half_of_the_limit_changes_nothing() -> None:
    limits, messages = PictureLimits(8), [result(str(number)) for number in range(40)]
    choices = [put_away(map(pictures_of, messages[:end]), limits) for end in range(40)]
    breaks = sum(one != other for one, other in pairwise(choices))
    assert breaks == 7


def attachment(name: str, text: str = "", *, image: bool = True) -> ShownAttachment:
    return ShownAttachment(id=name, name=name, text=text or f"[{name}]", image=picture(name).image if image else None)


async def test_pictures_of_the_first_message_stand_behind_their_lines_shown_or_not() -> None:
    first = opening_message("", "Look.", [attachment("a"), attachment("b"), attachment("c", image=False)])
    [shown] = await with_picture_bytes([first], kept, refused={"digest of a": "a provider refused it"})
    assert isinstance(shown, UserMessage)
    parts = [one if isinstance(one, str) else one.data for one in shown.parts]
    assert parts == [
        "Look.\n\n[a]\n[picture a not shown: a provider refused it]\n\n[b]",
        "data of digest of b",
        "\n\n[c]",
    ]


@pytest.mark.parametrize("environment", ["", "Today.", f"Today.\n{fenced('files # Request', 'x')}"])
def test_the_prompt_is_found_in_a_first_message_with_a_fenced_attachment(environment: str) -> None:
    given_text = f"[a]\n{fenced('words', 'a')}"
    message = opening_message(environment, "Look.", [attachment("a", given_text, image=False)])
    assert request_in(message.text) == f"Look.\n\n{given_text}"
    assert request_in(first_message(environment, "Look.")) == "Look."


def dropped(messages: Sequence[Message], words: str = "bad image") -> list[list[str]]:
    refused: dict[str, str] = {}
    rounds = []
    while digests := next_to_drop(messages, refused, words):
        refused |= dict.fromkeys(digests, "")
        rounds.append([one.removeprefix("digest of ") for one in digests])
    return rounds


def test_the_named_picture_goes_alone_first() -> None:
    assert dropped([result("shot.png", "logo.png"), result("new.png")], "shot.png is broken")[0] == ["shot.png"]


def test_the_one_named_by_its_place_goes_before_one_whose_name_is_in_the_words() -> None:
    messages = [result("shot.png", "logo.png"), result("new.png")]
    assert next_to_drop(messages, {}, "logo.png", "digest of shot.png") == ["digest of shot.png"]
    refused = {"digest of shot.png": ""}
    assert next_to_drop(messages, refused, "logo.png", "digest of shot.png") == ["digest of logo.png"], "it is gone"


def test_else_the_newest_go_one_by_one_and_then_all() -> None:
    assert dropped([result("a", "b"), result("c", "d")]) == [["d"], ["c"], ["a", "b"]]


def test_of_many_new_ones_the_rest_goes_at_once() -> None:
    assert dropped([result("old"), result(*"abcdefgh")]) == [
        ["h"],
        ["g"],
        ["f"],
        ["e"],
        ["d"],
        ["a", "b", "c"],
        ["old"],
    ]
