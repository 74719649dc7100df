"""Results of servers: text and pictures within limits; links are named and never followed."""

from base64 import b64encode
from typing import Any

import pytest

from drone.agent.ports.artifacts import Artifacts
from drone.agent.ports.journal import MemoryJournal
from drone.mcp_servers.results import MOST_PARTS, MOST_PICTURES, output_of, reason_of
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import Outcome
from tests.drone.tools.test_pictures_and_pdfs import png

types = pytest.importorskip("mcp_types")


def result(*content: dict[str, Any], **more: Any) -> Any:
    return types.CallToolResult.model_validate({"content": list(content), **more})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def artifacts() -> Artifacts:
    return Artifacts(MemoryJournal(fresh_id()))


async def test_texts_stand_one_below_the_other_and_an_error_is_one() -> None:
    output = await output_of(result(text("one"), text("two")), None)
    assert (output.content, output.is_error, output.outcome) == ("one\ntwo", False, Outcome.OK)
    assert (await output_of(result(text("no"), isError=True), None)).outcome is Outcome.ERROR
    assert (await output_of(result(), None)).content == "(nothing)"


async def test_commands_to_a_terminal_are_taken_out() -> None:
    assert (await output_of(result(text("a\x1b]0;title\x07b\x1b[2J")), None)).content == "ab"


async def test_structured_content_is_shown_once() -> None:
    for bare, told in ((5, "5"), ("five", "five"), ([1], "[1]")):
        assert (await output_of(result(text(told), structuredContent={"result": bare}), None)).content == told
    said = {"sum": 8}
    assert (await output_of(result(structuredContent=said), None)).content == '{"sum":8}'
    assert (await output_of(result(text('{"sum": 8}'), structuredContent=said), None)).content == '{"sum": 8}'
    assert (await output_of(result(text("eight"), structuredContent=said), None)).content == 'eight\n{"sum":8}'


async def test_links_and_sounds_are_named_and_resources_are_shown() -> None:
    link = {"type": "resource_link", "uri": "file:///etc/passwd", "name": "x"}
    held = {"type": "resource", "resource": {"uri": "note://1", "text": "words"}}
    blob = {"type": "resource", "resource": {"uri": "note://2", "blob": "AAAA"}}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    content = (await output_of(result(link, held, blob, sound), None)).content
    assert "[link, not followed: file:///etc/passwd]" in content and "[note://1]\nwords" in content
    assert "[note://2: 4 characters of base64, not shown]" in content and "cannot be heard" in content


async def test_pictures_are_kept_and_shown_within_bounds() -> None:
    def image(data: bytes) -> dict[str, Any]:
        return {"type": "image", "data": b64encode(data).decode(), "mimeType": "image/png"}

    good = image(png(20, 10))
    output = await output_of(result(*[good] * (MOST_PICTURES + 1)), artifacts())
    assert len(output.images) == MOST_PICTURES and (output.images[0].width, output.images[0].height) == (20, 10)
    assert "picture 1: image/png, 20 x 10" in output.content and "not shown" in output.content
    wrong = [image(b"no picture at all"), {**good, "data": "%%%"}, image(png(20_000, 20_000)), image(png(20, 10)[:30])]
    output = await output_of(result(*wrong), artifacts())
    assert output.images == () and output.content.count("not shown") == len(wrong)


async def test_parts_without_end_are_cut() -> None:
    output = await output_of(result(*(text("x") for _ in range(MOST_PARTS + 3))), None)
    assert output.content.endswith("[3 more parts are left out]")


def test_an_error_that_holds_others_is_told_by_what_went_wrong() -> None:
    inner = ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("more", [OSError("no route")])])
    assert reason_of(inner) == "no route" and reason_of(ValueError()) == "ValueError"
