"""Streams that end early: a reply counts only if the provider declared it complete."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drone.agent.ports.model import ModelError, Reply
from tests.drone.models.cuts import cuts

TEXT = "Grüße – 😀 und mehr"
ARGUMENTS = '{"path": "src/ü.py", "deep": [1, {"x": null}]}'


def chat_reference(bench: Any) -> bytes:
    function = {"name": "read_file", "arguments": ""}
    return b"".join(
        (
            b": opening\n\n",
            bench.sse(
                bench.chunk(role="assistant", content=""),
                *(bench.chunk(reasoning_content=word) for word in ("I ", "think")),
                *(bench.chunk(content=letter) for letter in TEXT),
                bench.chunk(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": function}]),
                *(
                    bench.chunk(tool_calls=[{"index": 0, "function": {"arguments": ARGUMENTS[i : i + 6]}}])
                    for i in range(0, len(ARGUMENTS), 6)
                ),
                bench.chunk("tool_calls"),
                {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 22}},
                "[DONE]",
            ),
        )
    )


def messages_reference(bench: Any) -> bytes:
    def delta(index: int, kind: str, **told: str) -> dict[str, object]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **told}}

    def start(index: int, **block: object) -> dict[str, object]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    usage = {"input_tokens": 11, "output_tokens": 1}
    data: bytes = bench.named_sse(
        {"type": "message_start", "message": {"content": [], "usage": usage}},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="I think"),
        delta(0, "signature_delta", signature="sealed=="),
        start(1, type="text", text=""),
        {"type": "ping"},
        *(delta(1, "text_delta", text=letter) for letter in TEXT),
        start(2, type="tool_use", id="c1", name="read_file", input={}),
        *(delta(2, "input_json_delta", partial_json=ARGUMENTS[i : i + 6]) for i in range(0, len(ARGUMENTS), 6)),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 22}},
        {"type": "message_stop"},
    )
    return data


def gemini_reference(bench: Any) -> bytes:
    def chunk(*parts: dict[str, object], **more: object) -> dict[str, object]:
        content = {"content": {"role": "model", "parts": list(parts)}}
        return {"candidates": [{**content, **more}], "usageMetadata": {"promptTokenCount": 11}}

    arguments = json.loads(ARGUMENTS)
    return bench.sse(  # type: ignore[no-any-return]
        *(chunk({"text": word, "thought": True}) for word in ("I ", "think")),
        *(chunk({"text": letter}) for letter in TEXT),
        chunk({"functionCall": {"name": "read_file", "args": arguments, "id": "c1"}, "thoughtSignature": "c2ln"}),
        chunk({"text": ""}, finishReason="STOP"),
        {"usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 20, "thoughtsTokenCount": 2}},
    )


def same(reply: Reply, whole: Reply) -> bool:
    """Whether everything that a turn continues with is equal; a stream without its tail may lack usage and times."""
    return (reply.blocks, reply.finish_reason) == (whole.blocks, whole.finish_reason)


@pytest.mark.parametrize(
    ("reference", "form", "signal"),
    [
        (chat_reference, "openai", b'"finish_reason": "tool_calls"}]}\n\n'),
        (messages_reference, "anthropic", None),
        (gemini_reference, "gemini", b'"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 11}}\n\n'),
    ],
    ids=["chat completions", "messages", "gemini"],
)
async def test_no_cut_of_a_stream_becomes_a_reply_unless_it_was_whole(
    bench: Any, reference: Callable[[Any], bytes], form: str, signal: bytes | None
) -> None:
    whole_bytes = reference(bench)
    make = getattr(bench, form)
    whole = await make(bench.Provider(bench.streamed(whole_bytes))).ask(bench.asking(), bench.RecordingListener())
    assert (whole.text, whole.thinking) == (TEXT, "I think")
    assert whole.tool_calls[0].arguments == {"path": "src/ü.py", "deep": [1, {"x": None}]}
    complete_from = len(whole_bytes) if signal is None else whole_bytes.index(signal) + len(signal)

    for cut in cuts(whole_bytes):
        error = httpx.ReadError("gone") if cut % 2 else None  # The connection breaks, or the answer ends.
        provider = bench.Provider(bench.streamed(whole_bytes[:cut], error=error))
        try:
            reply = await make(provider).ask(bench.asking(), bench.RecordingListener())
        except ModelError as told:
            assert cut < complete_from
            assert told.retryable
        else:
            assert cut >= complete_from, f"cut at {cut} became {reply}"
            assert same(reply, whole)


@pytest.mark.parametrize(
    ("reference", "form"),
    [(chat_reference, "openai"), (messages_reference, "anthropic"), (gemini_reference, "gemini")],
    ids=["chat", "messages", "gemini"],
)
async def test_pieces_of_one_byte_give_the_reply_that_one_piece_gives(
    bench: Any, reference: Callable[[Any], bytes], form: str
) -> None:
    data = reference(bench)
    make, listener = getattr(bench, form), bench.RecordingListener()
    whole = await make(bench.Provider(bench.streamed(data))).ask(bench.asking(), bench.RecordingListener())
    pieces = [data[i : i + 1] for i in range(len(data))]
    reply = await make(bench.Provider(bench.streamed(*pieces))).ask(bench.asking(), listener)
    assert same(reply, whole)
    assert reply.usage == whole.usage
    assert (listener.heard(), listener.heard("thinking.delta")) == (TEXT, "I think")


async def test_a_piece_in_the_middle_of_an_event_is_taken_for_no_page(bench: Any) -> None:
    pieces = [b'data: {"choices":[{"delta":{"content":"a', b'<b>"},"finish_reason":"stop"}]}\n\n']
    assert (await bench.chat(*pieces)).text == "a<b>"


async def test_a_page_after_blanks_is_a_page(bench: Any) -> None:
    page = bench.streamed(b" \n", b"\n", b"<!doctype html>")
    assert "a page and no reply" in str(await bench.refused(bench.openai(bench.Provider(page))))


@pytest.mark.parametrize("form", ["openai", "anthropic", "gemini"])
async def test_a_whole_body_cut_at_any_byte_is_no_reply(bench: Any, form: str) -> None:
    chat = b'{"choices":[{"message":{"content":"caf\xc3\xa9"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}'
    message = b'{"content":[{"type":"text","text":"caf\xc3\xa9"}],"stop_reason":"end_turn","usage":{"input_tokens":1}}'
    gemini = b'{"candidates":[{"content":{"parts":[{"text":"caf\xc3\xa9"}]},"finishReason":"STOP"}],"responseId":"r"}'
    body = {"openai": chat, "anthropic": message, "gemini": gemini}[form]
    headers = {"content-type": "application/json"}
    make = getattr(bench, form)
    for cut in range(len(body)):
        answer = httpx.Response(200, headers=headers, stream=bench.Pieces([body[:cut]]))
        error = await bench.refused(make(bench.Provider(answer), stream=False))
        assert error.retryable
    answer = httpx.Response(200, headers=headers, stream=bench.Pieces([body]))
    reply = await make(bench.Provider(answer), stream=False).ask(bench.asking(), bench.listener)
    assert reply.text == "café"
