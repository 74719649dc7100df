"""A provider that refuses one picture names it by its place in the request, in whatever form the request has."""

import json
from collections.abc import Iterator

import pytest

from drone.agent.ports.model import Ask, ModelError, PictureRefused
from drone.models.dialects.forms import formats
from drone.models.prices import KnownModel
from drone.models.refused_pictures import judged, refused_picture
from drone.models.remote import ModelEndpoint
from mcc.configuration.providers import Form
from mcc.contracts.blocks import ImageBlock, ToolCallBlock
from mcc.transcript.messages import AssistantMessage, Message, Picture, ToolResult, ToolResults, UserMessage


def picture(name: str, at: int = 0) -> Picture:
    return Picture(ImageBlock(artifact=f"digest of {name}", media_type="image/png", name=name), f"DATA{name * 40}", at)


NAMES = ("a", "b", "c", "d")
CALL = ToolCallBlock(call_id="call-1", provider_id="p1", name="read_file", arguments={})
MESSAGES: list[Message] = [
    UserMessage("Look at these.", (picture("a", 4), picture("b", 14))),
    AssistantMessage((CALL,)),
    ToolResults((ToolResult("call-1", "read_file", "seen", False, (picture("c"), picture("d"))),)),
]


def places(node: object, data: str, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in the body these bytes stand."""
    if isinstance(node, str) and data in node:
        yield path
    for key, below in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(below, data, (*path, key))


def body(form: Form) -> bytes:
    endpoint = ModelEndpoint("x/m", "m", "https://models.test/v1", key="k", known=KnownModel(images=True))
    return b"".join(formats[form](endpoint).body(Ask("Look.", MESSAGES), frozenset()))


def named(words: str, form: Form = "anthropic") -> str | None:
    return refused_picture(MESSAGES, iter([body(form)]), words)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini", "responses"])
def test_a_path_into_the_request_names_one(form: Form, name: str) -> None:
    [path] = places(json.loads(body(form)), f"DATA{name * 40}")
    dots = ".".join(map(str, path))
    brackets = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    for words in (f"{dots}: image exceeds 5 MB maximum", f"Invalid value: '{brackets[1:]}'. Bad image."):
        assert named(words, form) == f"digest of {name}", words


def test_a_path_to_several_pictures_names_none() -> None:
    for words in (
        "messages.0: bad image",
        "messages.99.content.0: bad image",
        "messages.0.content: bad",
        "messages: bad",
    ):
        assert named(words) is None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Could not process image 2.", "b"),
        ("image number 4 is too large", "d"),
        ("Image #1: unsupported", "a"),
        ("image at index 0 cannot be read", "a"),
        ("images[3] is broken", "d"),
        ("image 5 is broken", None),
        ("image 0 is broken", None),
        ("image 8000 pixels wide", None),
        ("Could not process image", None),
        ("messages[" * 10_000, None),
        ("messages.0" + ".content" * 10_000, None),
    ],
)
def test_a_number_or_an_index_names_one(words: str, name: str | None) -> None:
    assert named(words) == (None if name is None else f"digest of {name}")


@pytest.mark.parametrize(("name", "suspects"), [("x/m", ("c", "d")), ("x/other", NAMES)])
def test_of_a_refusal_that_names_nothing_only_what_this_model_never_answered_is_suspected(
    name: str, suspects: tuple[str, ...]
) -> None:
    messages = [MESSAGES[0], AssistantMessage((CALL,), "x/m"), MESSAGES[2]]
    error = judged(Ask("Look.", messages), name, ModelError("Bad request", status=400), iter([body("chat")]))
    assert isinstance(error, PictureRefused) and error.suspects == tuple(f"digest of {one}" for one in suspects)


def test_once_all_pictures_were_answered_such_a_refusal_is_what_it_is() -> None:
    error = ModelError("Bad request", status=400)
    answered = [*MESSAGES, AssistantMessage.of("Seen.", model="x/m"), UserMessage("And?")]
    assert judged(Ask("Look.", answered), "x/m", error, iter([body("chat")])) is error
