"""Requests that exceed the model's context: recognized in each provider's words, with the size if stated."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import Ask, ContextOverflow, ModelError, Reply
from drone.models.failures import error_inside, refused
from drone.models.retry import Fallback, Retrying
from drone.models.scripted import ScriptedModel
from tests.drone.models.conftest import RecordingListener

WORDINGS: list[tuple[int, Any, int | None]] = [
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in "
                "310794 tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        128_000,
    ),
    (
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model. Please adjust your input and try "
                "again.",
                "type": "invalid_request_error",
            }
        },
        None,
    ),
    (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
        200_000,
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease "
                "input length or `max_tokens` and try again",
            },
        },
        200_000,
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
        1_048_576,
    ),
    (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you requested about "
                "310794 tokens (308794 of text input, 2000 in the output).",
                "code": 400,
            }
        },
        131_072,
    ),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens "
            "(38000 in the messages, 2000 in the completion).",
            "type": "BadRequestError",
            "code": 400,
        },
        32_768,
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        4_096,
    ),
    (400, {"error": {"message": "the input length exceeds the context length", "type": "api_error"}}, None),
    (500, {"error": "the input length exceeds the context length"}, None),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length",
            "type": "invalid_request_prompt",
        },
        32_768,
    ),
    (400, {"message": "Input is too long for requested model."}, None),
    (
        400,
        {"error": "This model's maximum prompt length is 131072 but the request contains 310794 tokens."},
        131_072,
    ),
    (
        413,
        {"type": "error", "error": {"type": "request_too_large", "message": "Request too big"}},
        None,
    ),
]


def answer(status: int, body: Any) -> ModelError:
    return refused("p/m", status, {}, json.dumps(body).encode(), now=0.0)


@pytest.mark.parametrize(("status", "body", "window"), WORDINGS)
def test_an_overflow_is_recognized_by_its_words(status: int, body: Any, window: int | None) -> None:
    error = answer(status, body)
    assert isinstance(error, ContextOverflow)
    assert (error.window, error.status, error.retryable) == (window, status, False)


def test_an_overflow_inside_a_stream_is_recognized() -> None:
    error = error_inside("p/m", {"error": {"code": "context_length_exceeded", "message": "Too much."}})
    assert isinstance(error, ContextOverflow)


OTHERS = [
    (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 310794."),
    (429, "This model's maximum context length is 1 token a minute."),
    (400, "Invalid value for max_tokens: must be at most 8192."),
    (400, "The context parameter is not known."),
    (401, "This key exceeds the context length."),
    (500, "Internal error."),
]


@pytest.mark.parametrize(("status", "words"), OTHERS)
def test_other_refusals_are_no_overflow(status: int, words: str) -> None:
    assert not isinstance(answer(status, {"error": {"message": words}}), ContextOverflow)


def refusal(status: int, words: str, code: object = None) -> ModelError:
    error = {"message": words} if code is None else {"message": words, "code": code}
    return answer(status, {"error": error})


REFUSALS = [json.loads(line) for line in (Path(__file__).parent / "refusals.jsonl").read_text("utf-8").splitlines()]
"""Refusals in the words of many providers: whether each is an overflow, and the window that it states."""


@pytest.mark.parametrize("one", [one for one in REFUSALS if one["overflow"]], ids=lambda one: one["words"][:60])
def test_words_that_pair_the_request_with_too_much_are_an_overflow(one: dict[str, Any]) -> None:
    error = refusal(one["status"], one["words"], one["code"])
    assert isinstance(error, ContextOverflow)
    assert (error.window, error.retryable) == (one["window"], False)


@pytest.mark.parametrize("one", [one for one in REFUSALS if not one["overflow"]], ids=lambda one: one["words"][:60])
def test_limits_of_replies_rates_and_other_things_are_no_overflow(one: dict[str, Any]) -> None:
    assert not isinstance(refusal(one["status"], one["words"], one["code"]), ContextOverflow)


@pytest.mark.parametrize("shape", [{"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}}])
def test_a_code_in_the_words_is_no_size(shape: dict[str, Any]) -> None:
    for error in (answer(400, shape), refusal(400, "context window exceeds limit (2013)", 2013)):
        assert isinstance(error, ContextOverflow) and error.window is None


NO_WINDOWS = (
    ("Your input length is 140000 tokens, which exceeds the limit of 131072", 131_072),
    ("Input length (9000 tokens) exceeds the context window (8192 tokens)", 8_192),
    ("prompt size: 9000 tokens, limit: 8192 tokens", 8_192),
    ("context length of 140000 exceeds 131072", None),
    ("Token size 9000 tokens too large", None),
    ("input exceeds the limit by 1204 tokens", None),
    ("max_tokens must be <= 2048; the input exceeds the context window", None),
    ("The completion token limit is 4096 tokens; your prompt is too long", None),
    ("The output size limit is 4096 tokens. The prompt is too long", None),
)


@pytest.mark.parametrize(("words", "window"), NO_WINDOWS)
def test_the_size_of_a_request_an_excess_and_a_reply_limit_are_no_window(words: str, window: int | None) -> None:
    error = refusal(400, words)
    assert isinstance(error, ContextOverflow) and error.window == window


TOO_LONG = "Input is too long: 40000 tokens exceed the context window of 32768 tokens"
SHAPES: list[Any] = [
    {"Response": {"Error": {"Code": "FailedOperation", "Message": TOO_LONG}, "RequestId": "1"}},
    {"header": {"code": 10907, "message": TOO_LONG}},
    {"status": "error", "reason": TOO_LONG},
    {"error": {"code": "x", "details": TOO_LONG}},
    {"errorMessage": TOO_LONG},
    {"fault": {"faultstring": TOO_LONG}},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_words_of_a_refusal_are_found_in_the_envelopes_of_many_providers(shape: Any) -> None:
    error = answer(400, shape)
    assert isinstance(error, ContextOverflow) and error.window == 32_768


@pytest.mark.parametrize("page", [b"", b"<html><title>413 Request Entity Too Large</title></html>"])
def test_a_413_without_words_is_an_overflow(page: bytes) -> None:
    assert isinstance(refused("p/m", 413, {}, page, now=0.0), ContextOverflow)


def test_a_long_refusal_is_judged_in_linear_time() -> None:
    words = "maximum context " * 20_000 + "exceed" * 20_000
    began = time.process_time()
    refusal(400, words)
    assert time.process_time() - began < 1


async def test_an_overflow_passes_through_retries_and_reaches_no_fallback() -> None:
    first = ScriptedModel([ModelError("Busy.", retryable=True), ContextOverflow("Too long.", 4_096)])
    second = ScriptedModel(["Here."])

    async def at_once(_: float) -> None:
        return None

    chain = Fallback([Retrying(first, sleep=at_once), second])
    with pytest.raises(ContextOverflow) as caught:
        await _asked(chain)
    assert caught.value.window == 4_096 and not second.asks


async def _asked(model: Fallback) -> Reply:
    return await model.ask(Ask("You work.", ()), RecordingListener())
