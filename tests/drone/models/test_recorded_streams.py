"""Streams as servers send them, kept as files: each is the reply beside it, however its bytes arrive.

`streams/chat` speaks chat completions, `streams/messages` Anthropic's Messages. A `.json` leaves out what is empty.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import ModelError, Reply
from mcc.contracts.blocks import RedactedBlock, ThinkingBlock

STREAMS = sorted((Path(__file__).parent / "streams").glob("*/*.sse"))
FORMS = {"chat": "openai", "messages": "anthropic"}
COUNTED = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")


THOUGHTS = (ThinkingBlock, RedactedBlock)


def recorded(path: Path) -> bytes:
    return path.read_bytes()


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


async def reply_to(bench: Any, path: Path, *pieces: bytes) -> Reply:
    model = getattr(bench, FORMS[path.parent.name])(bench.Provider(bench.streamed(*pieces)))
    reply: Reply = await model.ask(bench.asking(), bench.listener)
    return reply


def told(reply: Reply) -> dict[str, Any]:
    """The content of a reply, without empty fields."""
    known = {
        "text": reply.text,
        "thinking": reply.thinking,
        "refusal": reply.refusal,
        "finish": reply.finish_reason,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls],
        "ids": [call.provider_id for call in reply.tool_calls],
    }
    return {key: value for key, value in known.items() if value}


def expected(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return value


@pytest.mark.parametrize("path", STREAMS, ids=name_of)
async def test_a_stream_is_the_reply_beside_it(bench: Any, path: Path) -> None:
    reply, wanted = await reply_to(bench, path, recorded(path)), expected(path)
    assert told(reply) == {key: value for key, value in wanted.items() if key not in ("usage", "thoughts")}
    if "thoughts" in wanted:
        blocks = [block.model_dump(exclude_none=True) for block in reply.blocks if isinstance(block, THOUGHTS)]
        assert blocks == wanted["thoughts"]
    counted = {name: getattr(reply.usage, name) for name in COUNTED if name in wanted.get("usage", {})}
    assert counted == wanted.get("usage", {})
    assert (bench.listener.heard(), bench.listener.heard("thinking.delta")) == (
        reply.text + reply.refusal,
        reply.thinking,
    )


@pytest.mark.parametrize("path", STREAMS, ids=name_of)
async def test_a_stream_gives_the_same_reply_however_its_bytes_arrive(bench: Any, path: Path) -> None:
    data = recorded(path)
    whole = told(await reply_to(bench, path, data))
    for size in (1, 7):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert told(await reply_to(bench, path, *pieces)) == whole
    assert told(await reply_to(bench, path, data.replace(b"\n", b"\r\n"))) == whole


@pytest.mark.parametrize("path", STREAMS, ids=name_of)
async def test_a_stream_that_stops_early_never_gives_another_reply(bench: Any, path: Path) -> None:
    data = recorded(path)
    whole = told(await reply_to(bench, path, data))
    for cut in range(0, len(data), 11):
        try:
            reply = await reply_to(bench, path, data[:cut])
        except ModelError as error:
            assert error.retryable
        else:
            assert told(reply) == whole


def test_every_stream_has_its_reply_and_every_reply_its_stream() -> None:
    folder = Path(__file__).parent / "streams"
    assert {path.with_suffix("") for path in folder.glob("*/*.json")} == {path.with_suffix("") for path in STREAMS}
    assert len(STREAMS) >= 20
