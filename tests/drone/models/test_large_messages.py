"""Large messages stay in memory only once: they are encoded anew for each request."""

import json

import pytest

from drone.agent.ports.model import Ask
from drone.models.body import LARGE_BYTES, body_of, coalesced, comma_separated
from drone.models.dialects.anthropic import Messages
from drone.models.dialects.chat import ChatCompletions
from drone.models.remote import ModelEndpoint, WireFormat
from mcc.transcript.messages import ToolResult, ToolResults

ENDPOINT = ModelEndpoint(name="test/m", model="m", base_url="http://127.0.0.1:1")
FORMS = [ChatCompletions(ENDPOINT), Messages(ENDPOINT)]


def result(content: str) -> ToolResults:
    return ToolResults((ToolResult("call", "read_file", content, is_error=False),))


@pytest.mark.parametrize("form", FORMS, ids=["openai", "anthropic"])
def test_a_large_result_is_not_held_a_second_time(form: WireFormat) -> None:
    small, large = result("few words"), result("x" * LARGE_BYTES)
    first = b"".join(form.body(Ask("", (small, large)), frozenset()))
    assert len(small.encoded) == 1 and not large.encoded
    assert b"".join(form.body(Ask("", (small, large)), frozenset())) == first
    assert first.count(b"x" * LARGE_BYTES) == 1


@pytest.mark.parametrize("form", FORMS, ids=["openai", "anthropic"])
def test_a_long_request_is_never_whole_and_says_how_long_it_is(form: WireFormat) -> None:
    said = [result(f"{number} " + "x" * 200_000) for number in range(20)]
    body = body_of(lambda: form.body(Ask("be brief", said), frozenset()))
    pieces = list(body)
    assert max(map(len, pieces)) < 250_000 and sum(map(len, pieces)) == len(body)
    assert json.loads(b"".join(pieces))["model"] == "m"
    assert list(body) == pieces, "for another try"


@pytest.mark.parametrize("sizes", [[], [1], [10, 20], [LARGE_BYTES + 1], [5, LARGE_BYTES + 1, 7], [LARGE_BYTES] * 3])
def test_a_list_comes_in_few_pieces_with_commas_between_its_elements(sizes: list[int]) -> None:
    elements = [b"x" * size for size in sizes]
    pieces = list(coalesced(comma_separated(elements)))
    assert b"".join(pieces) == b",".join(elements)
    assert len(pieces) <= 1 + sum(size > LARGE_BYTES // 2 for size in sizes)


def test_a_short_request_is_put_together_of_its_pieces_when_it_is_sent() -> None:
    pieces = [b"[", *comma_separated([b"1", b"22"]), b"]"]
    body = body_of(lambda: iter(pieces))
    assert (list(body), len(body)) == ([b"[1,22]"], 6)
