"""Which pictures of a conversation a request shows: the same ones until a limit is passed, then half of them go."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import Clipped, Stage, TranscriptCompacted
from mcc.contracts.fence import fenced
from mcc.transcript.messages import Message, Picture, ToolResult, ToolResults, UserMessage
from mcc.transcript.pictures import (
    MOST,
    NO_LIMITS,
    OLDER,
    REFUSED,
    HiddenPictures,
    PictureLimits,
    is_beyond,
    next_to_drop,
    pictures_of,
    put_away,
    shown_pictures,
    with_picture_bytes,
)
from mcc.transcript.previews import handle_of
from mcc.transcript.transcript import Transcript, first_message, opening_message, request_in


def picture(name: str, size: int = 1_000) -> Picture:
    return Picture(ImageBlock(artifact=f"digest of {name}", media_type="image/png", name=name, bytes=size))


def result(*names: str) -> ToolResults:
    return ToolResults((ToolResult(f"call-{names[0]}", "read_file", "seen", False, tuple(map(picture, names))),))


def names_in(messages: Sequence[Message]) -> list[str]:
    return [one.image.name for message in messages for one in pictures_of(message)]


async def kept(digest: str) -> str | None:
    return f"data of {digest}"


def after(messages: Sequence[Message], limits: PictureLimits, hidden: HiddenPictures) -> Sequence[Message]:
    """The messages after what is beyond the limits was put away."""
    gone = put_away(shown_pictures(messages), limits)
    return hidden.hide(gone, "images", messages, readable=False) if gone else messages


async def test_up_to_the_limit_all_are_shown_and_beyond_it_the_newest_half() -> None:
    full = [result(str(number)) for number in range(MOST)]
    assert put_away(shown_pictures(full), NO_LIMITS) == ()
    over = await with_picture_bytes(after([*full, result("one more")], NO_LIMITS, HiddenPictures()), kept)
    assert names_in(over) == [*(str(number) for number in range(MOST - 9, MOST)), "one more"]
    assert isinstance(over[0], ToolResults)
    assert over[0].results[0].content == f"seen\n[picture 0 not shown: {OLDER}]"
    assert pictures_of(over[-1])[0].data == "data of digest of one more"


async def test_a_picture_that_was_put_away_is_shown_again_where_a_tool_brings_it_again() -> None:
    hidden = HiddenPictures()
    limits = PictureLimits(2)
    before = after([result("a"), result("b"), result("c")], limits, hidden)
    again = [*before, hidden.in_new(result("a"))]
    assert names_in(await with_picture_bytes(again, kept)) == ["c", "a"]
    assert [*hidden.in_opening(before)] == before, "what it is opened with again stays hidden"


def test_one_that_is_shown_again_counts_as_new() -> None:
    assert put_away(shown_pictures([result("a"), result("b"), result("a")]), PictureLimits(2)) == ("digest of b",)


def test_a_refused_picture_is_not_shown_where_a_tool_brings_it_again() -> None:
    hidden = HiddenPictures()
    hidden.hide(["digest of a"], "refused", [], readable=True)
    assert [one.hidden for one in pictures_of(hidden.in_new(result("a", "b")))] == [REFUSED, ""]


def test_a_model_that_can_read_artifacts_is_told_how_to_see_it_again() -> None:
    [message] = HiddenPictures().hide(["digest of a"], "images", [result("a")], readable=True)
    assert pictures_of(message)[0].hidden == f"{OLDER}; read_artifact {handle_of('digest of a')} shows it again"


async def test_messages_without_pictures_are_left_as_they_are() -> None:
    plain: list[Message] = [UserMessage("Hi")]
    assert await with_picture_bytes(plain, kept) is plain
    assert HiddenPictures().hide(["digest of a"], "images", plain, readable=True)[0] is plain[0]


SIZES = st.lists(st.lists(st.integers(0, 3_000_000), max_size=6), max_size=30)
LIMITS = st.builds(PictureLimits, st.integers(1, 12), st.integers(0, 9_000_000))


@given(SIZES, LIMITS)
def test_what_is_put_away_stays_so_and_the_rest_is_within_the_limits(
    sizes: list[list[int]], limits: PictureLimits
) -> None:
    hidden, messages = HiddenPictures(), list[Message]()
    for number, group in enumerate(sizes):
        pictures = tuple(picture(f"{number} {place}", size) for place, size in enumerate(group))
        before = [one.hidden for one in pictures_of_all(messages)]
        messages = [*after([*messages, UserMessage("", pictures)], limits, hidden)]
        now = [one.hidden for one in pictures_of_all(messages)]
        assert all(new for old, new in zip(before, now, strict=False) if old)
        assert not is_beyond(shown_pictures(messages), limits)
        assert [*hidden.in_opening(messages)] == messages, "a drone that takes over shows the same"


def pictures_of_all(messages: Sequence[Message]) -> list[Picture]:
    return [one for message in messages for one in pictures_of(message)]


def test_after_a_break_the_next_half_of_the_limit_changes_nothing() -> None:
    limits, hidden, messages, breaks = PictureLimits(8), HiddenPictures(), list[Message](), 0
    for number in range(40):
        messages.append(result(str(number)))
        breaks += bool(put_away(shown_pictures(messages), limits))
        messages = [*after(messages, limits, hidden)]
    assert breaks == 7


@pytest.mark.parametrize("at", range(4))
def test_a_takeover_shows_the_same_whenever_a_picture_of_a_shortened_result_was_hidden(at: int) -> None:
    order = ["clip", "clip more", "put away"]
    order.insert(at, "hide")
    facts = {
        "hide": TranscriptCompacted(stage="images", reason="images", message="", pictures=("digest of a",)),
        "clip": clipping("clip", 2_000),
        "clip more": clipping("clip", 400),
        "put away": clipping("results", 0),
    }
    shown = ToolResults((ToolResult("call-a", "read_file", "x" * 9_000, False, (picture("a"), picture("b"))),))
    live, again = Transcript(), Transcript()
    live.open([shown])
    for step in order:
        live.compact(facts[step])
        again.compact(facts[step])
    again.open([shown])
    assert live.opening == again.opening


def clipping(stage: Stage, kept_characters: int) -> TranscriptCompacted:
    clip = Clipped(call_id="call-a", kept=kept_characters, characters=9_000, artifact="f" * 64)
    return TranscriptCompacted(stage=stage, message="", clipped=(clip,))


def attachment(name: str, text: str = "", *, image: bool = True) -> ShownAttachment:
    return ShownAttachment(id=name, name=name, text=text or f"[{name}]", image=picture(name).image if image else None)


async def test_pictures_of_the_first_message_stand_behind_their_lines_shown_or_not() -> None:
    first = opening_message("", "Look.", [attachment("a"), attachment("b"), attachment("c", image=False)])
    left = HiddenPictures().hide(["digest of a"], "refused", [first], readable=True)
    [shown] = await with_picture_bytes(left, kept)
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
    hidden = HiddenPictures()
    rounds = []
    while digests := next_to_drop(messages, hidden.refused, words):
        messages = hidden.hide(digests, "refused", messages, readable=False)
        rounds.append([one.removeprefix("digest of ") for one in digests])
    return rounds


def test_the_named_picture_goes_alone_first() -> None:
    assert dropped([result("shot.png", "logo.png"), result("new.png")], "shot.png is broken")[0] == ["shot.png"]


def test_the_one_named_by_its_place_goes_before_one_whose_name_is_in_the_words() -> None:
    messages = [result("shot.png", "logo.png"), result("new.png")]
    assert next_to_drop(messages, (), "logo.png", "digest of shot.png") == ["digest of shot.png"]
    left = HiddenPictures().hide(["digest of shot.png"], "refused", messages, readable=False)
    assert next_to_drop(left, (), "logo.png", "digest of shot.png") == ["digest of logo.png"], "it is gone"


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
