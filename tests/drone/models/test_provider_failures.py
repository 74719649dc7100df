"""Provider errors: a sentence without secrets, and whether a retry may help."""

import gzip
import zlib
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from drone.models import collected
from drone.models.failures import header_seconds, worded_seconds

PAGE = "<html><head><title>502 Bad\nGateway</title></head><body><script>x()</script>nginx</body></html>"


async def failure(bench: Any, status: int, form: str = "openai", **answer: Any) -> Any:
    return await bench.refused(getattr(bench, form)(bench.Provider(httpx.Response(status, **answer))))


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_transient_errors_are_retryable(bench: Any, status: int) -> None:
    error = await failure(bench, status, json={"error": {"message": "Later"}})
    assert (error.retryable, error.status) == (True, status)
    assert str(error) == f"openai/m answered {status}: Later."


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
async def test_errors_of_the_request_are_not_retryable(bench: Any, status: int) -> None:
    assert not (await failure(bench, status, json={"error": {"message": "No"}})).retryable


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "It says", "type": "x", "code": 7}},
        {"error": "It says"},
        {"message": "It says", "object": "error"},
        {"detail": "It says"},
        {"detail": [{"loc": ["body"], "msg": "It says"}]},
        {"type": "error", "error": {"type": "invalid_request_error", "message": "It says"}},
        [{"error": {"code": 400, "message": "It says", "status": "INVALID"}}],
        {"errors": [{"message": "It says"}]},
        {"error": {"error": {"message": "It says"}}},
        "It says",
    ],
)
@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_the_provider_s_words_are_found_in_every_shape(bench: Any, form: str, body: object) -> None:
    assert str(await failure(bench, 400, form, json=body)) == f"{form}/m answered 400: It says."


async def test_a_page_of_html_is_reported_by_its_title(bench: Any) -> None:
    error = await failure(bench, 502, html=PAGE)
    assert str(error) == "openai/m answered 502: 502 Bad Gateway."


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/event-stream"])
async def test_a_page_is_recognized_whatever_its_headers_say(bench: Any, kind: str) -> None:
    error = await failure(bench, 200, content=f"\n {PAGE}", headers={"content-type": kind})
    assert "Bad Gateway" in str(error) and "base_url" in str(error)
    assert not error.retryable


async def test_a_page_of_html_in_place_of_a_reply_is_an_error(bench: Any) -> None:
    error = await failure(bench, 200, html=PAGE)
    assert "check base_url, which often ends with /v1" in str(error)
    assert "502 Bad Gateway" in str(error)
    assert not error.retryable


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", b"{", b"[]", b"null", b"[" * 5000])
async def test_an_error_without_words_still_is_a_sentence(bench: Any, body: bytes) -> None:
    error = await failure(bench, 503, content=body)
    assert str(error).startswith("openai/m answered 503")
    assert "\x00" not in str(error)


async def test_long_words_are_cut_and_stay_on_one_line(bench: Any) -> None:
    error = await failure(bench, 500, json={"error": {"message": "a\nb\x1b[31m " + "x" * 100_000}})
    assert len(str(error)) < 500
    assert str(error).isprintable()


async def test_no_key_appears_in_a_sentence(bench: Any) -> None:
    words = f"Incorrect API key provided: {bench.key}, sk-proj-abc***xyz, Bearer abcdefghij"
    error = await failure(bench, 401, json={"error": {"message": words}})
    assert bench.key not in str(error)
    assert "abc***" not in str(error) and "abcdefghij" not in str(error)
    assert "MY_KEY" in str(error)


async def test_the_key_is_not_in_what_the_model_shows_of_itself(bench: Any) -> None:
    model = bench.openai(bench.Provider(httpx.Response(500)))
    assert bench.key not in repr(vars(model))


async def test_an_exhausted_balance_is_not_retried(bench: Any) -> None:
    error = await failure(bench, 429, json={"error": {"message": "You exceeded", "code": "insufficient_quota"}})
    assert not error.retryable


async def test_a_redirect_is_an_error_that_names_base_url(bench: Any) -> None:
    provider = bench.Provider(httpx.Response(307, headers={"location": "https://evil.test/?key=1"}))
    error = await bench.refused(bench.openai(provider))
    assert "base_url" in str(error) and "evil" not in str(error)
    assert (error.retryable, len(provider.requests)) == (False, 1)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        ({"message": "Overloaded", "code": 529}, True),
        ({"message": "Bad", "code": 400}, False),
        ({"message": "Oops"}, True),
        ("Oops", True),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_inside_an_answer_of_status_200_is_an_error(
    bench: Any, error: object, retryable: bool, stream: bool
) -> None:
    body = {"error": error}
    if stream:
        answer = bench.streamed(bench.sse(bench.chunk(content="half"), body, "[DONE]"))
    else:
        answer = httpx.Response(200, json=body)
    told = await bench.refused(bench.openai(bench.Provider(answer), stream=stream))
    assert told.retryable is retryable


@pytest.mark.parametrize(
    "data",
    [b'event: error\ndata: {"message":"Oops"}\n\n', b'data: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n'],
)
async def test_other_ways_to_say_error_in_a_stream_are_errors(bench: Any, data: bytes) -> None:
    answer = bench.streamed(bench.sse(bench.chunk(content="half")), data, bench.sse("[DONE]"))
    assert (await bench.refused(bench.openai(bench.Provider(answer)))).retryable


@pytest.mark.parametrize("event", ["{", "nonsense", '{"choices": [}'])
async def test_events_that_are_not_json_may_be_tried_again(bench: Any, event: str) -> None:
    answer = bench.streamed(bench.sse(bench.chunk(content="half"), event, "[DONE]"))
    error = await bench.refused(bench.openai(bench.Provider(answer)))
    assert error.retryable and "not JSON" in str(error)


@pytest.mark.parametrize(
    "event", ["7", "null", "[]", '{"choices": null}', '{"choices": [7]}', '{"choices":[{"delta":7}]}']
)
async def test_events_of_a_strange_shape_are_passed_over(bench: Any, event: str) -> None:
    assert (await bench.chat(bench.sse(event, bench.chunk("stop", content="x")))).text == "x"


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": 7}, {"content": 7}, 7, None, []])
@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_whole_bodies_of_a_strange_shape_are_errors(bench: Any, form: str, body: object) -> None:
    answer = httpx.Response(200, json=body)
    error = await bench.refused(getattr(bench, form)(bench.Provider(answer), stream=False))
    assert error.retryable


async def test_a_delta_of_20_megabytes_is_cut_off(bench: Any) -> None:
    piece = b'data: {"choices":[{"delta":{"content":"' + b"x" * (20 << 20) + b'"}}]}\n\n'
    pieces = [piece[start : start + 16_384] for start in range(0, len(piece), 16_384)]
    body = bench.Pieces(pieces)
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=body)
    error = await bench.refused(bench.openai(bench.Provider(answer)))
    assert "cut off" in str(error)
    assert (error.retryable, body.closed) == (False, True)


async def test_a_reply_of_many_large_deltas_is_cut_off(bench: Any) -> None:
    piece = bench.sse(bench.chunk(content="x" * (1 << 20)))
    error = await bench.refused(bench.openai(bench.Provider(bench.streamed(*[piece] * 20))))
    assert f"{collected.MAX_CHARACTERS >> 20} million characters" in str(error)


async def test_a_whole_body_without_end_is_cut_off(bench: Any) -> None:
    answer = httpx.Response(
        200, headers={"content-type": "application/json"}, stream=bench.Pieces(b" " * (1 << 20) for _ in range(100))
    )
    assert "cut off" in str(await bench.refused(bench.openai(bench.Provider(answer), stream=False)))


async def test_an_error_body_without_end_is_read_in_part(bench: Any) -> None:
    answer = httpx.Response(500, stream=bench.Pieces(b"words " * 10_000 for _ in range(1000)))
    assert "words words" in str(await bench.refused(bench.openai(bench.Provider(answer))))


async def test_a_compressed_stream_is_unpacked(bench: Any) -> None:
    data = gzip.compress(bench.sse(bench.chunk("stop", content="x")))
    pieces = [data[i : i + 1] for i in range(len(data))]
    answer = bench.streamed(*pieces, headers={"content-encoding": "gzip"})
    assert (await bench.openai(bench.Provider(answer)).ask(bench.asking(), bench.listener)).text == "x"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_gzip_bomb_is_stopped(bench: Any, stream: bool) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = packer.compress(b": ") + packer.flush(zlib.Z_SYNC_FLUSH)
    comment = b"\n:" * (1 << 19) if stream else b" " * (1 << 20)
    bomb = [head, *(packer.compress(comment) + packer.flush(zlib.Z_SYNC_FLUSH) for _ in range(20))]
    kind = "text/event-stream" if stream else "application/json"
    headers = {"content-encoding": "gzip", "content-type": kind}
    answer = httpx.Response(200, headers=headers, stream=bench.Pieces(bomb))
    error = await bench.refused(bench.openai(bench.Provider(answer), stream=stream))
    assert not error.retryable


async def test_a_broken_or_unknown_compression_is_an_error(bench: Any) -> None:
    broken = bench.streamed(b"not gzip", headers={"content-encoding": "gzip"})
    assert (await bench.refused(bench.openai(bench.Provider(broken)))).retryable
    unknown = bench.streamed(b"?", headers={"content-encoding": "br"})
    assert "'br'" in str(await bench.refused(bench.openai(bench.Provider(unknown))))


NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0.0),
        ("3", 3.0),
        (" 2.5 ", 2.5),
        ("86400", 86400.0),
        (format_datetime(datetime.fromtimestamp(NOW + 30, UTC), usegmt=True), 30.0),
        (format_datetime(datetime.fromtimestamp(NOW - 30, UTC), usegmt=True), 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("1e9", None),
        ("nan", None),
        ("Wed, 99 Foo 2026", None),
        ("9" * 5000, None),
        ("²", None),
    ],
)
def test_retry_after_is_understood_or_ignored(said: str, seconds: float | None) -> None:
    assert header_seconds({"retry-after": said}, NOW) == seconds


def test_retry_after_in_milliseconds_is_the_more_exact_one() -> None:
    assert header_seconds({"retry-after": "1", "retry-after-ms": "250"}, NOW) == 0.25


async def test_retry_after_is_passed_on_with_the_error(bench: Any) -> None:
    assert (await failure(bench, 429, headers={"retry-after": "7"})).retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "6m0s"}, 0.02),
        (
            {
                "x-ratelimit-reset-requests": "20ms",
                "x-ratelimit-reset-tokens": "6m0.5s",
                "x-ratelimit-remaining-tokens": "0",
            },
            360.5,
        ),
        ({"x-ratelimit-reset": f"{int(NOW) + 60}000"}, 60.0),
        ({"x-ratelimit-reset": f"{int(NOW) + 60}"}, 60.0),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:30Z"}, 30.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:30"}, 30.0),
        ({"x-ratelimit-reset": "9999999999999"}, None),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-limit": "12"}, None),
        ({"retry-after": "7", "x-ratelimit-reset": "12"}, 7.0),
    ],
)
def test_headers_of_rate_limits_say_when_there_is_room_again(headers: dict[str, str], seconds: float | None) -> None:
    assert header_seconds(headers, NOW) == seconds
    assert header_seconds(headers, NOW, limited=False) == (seconds if "retry-after" in headers else None)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 6s. Visit our page.", 6.0),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 1h3m2.5s", 3782.5),
        ("Please retry in 39.5s.", 39.5),
        ("Please retry after 6 seconds.", 6.0),
        ("Try again in 1 minute and 5 seconds", 65.0),
        ("The limit resets in 2 hours", 7200.0),
        ('{"retryDelay": "38s"}', 38.0),
        ("Try again later", None),
        ("try again in 5 monkeys", None),
        ("It took 5s.", None),
        ("try again in " + "9" * 5000 + "s", None),
    ],
)
def test_words_say_when_to_come_again(words: str, seconds: float | None) -> None:
    assert worded_seconds(words) == seconds


async def test_words_count_where_no_header_says_when(bench: Any) -> None:
    body = {"error": {"message": "Slow down. Please try again in 6s.", "type": "tokens"}}
    assert (await failure(bench, 429, json=body)).retry_after == 6.0
    assert (await failure(bench, 429, json=body, headers={"retry-after": "7"})).retry_after == 7.0
    answer = bench.streamed(bench.sse({"error": {"message": "Busy, try again in 6s", "code": 429}}))
    assert (await bench.refused(bench.openai(bench.Provider(answer)))).retry_after == 6.0


@pytest.mark.parametrize(
    ("words", "retryable"),
    [
        ("Quota exceeded for today", False),
        ("You exceeded your current quota, please check your plan and billing details.", False),
        ("You exceeded your current quota, please check your plan and billing details. Please retry in 8s.", True),
        ("Quota exceeded: requests per day. Please retry in 8s.", False),
        ("Limit reached on tokens per day (TPD). Please try again in 7m12s.", True),
        ("Too many requests", True),
    ],
)
async def test_a_daily_quota_is_not_retried_unless_a_time_is_named(bench: Any, words: str, retryable: bool) -> None:
    assert (await failure(bench, 429, json={"error": {"message": words}})).retryable is retryable


@pytest.mark.parametrize("status", [501, 505])
async def test_what_a_server_cannot_do_is_not_retried(bench: Any, status: int) -> None:
    assert not (await failure(bench, status, json={"error": {"message": "No"}})).retryable


@pytest.mark.parametrize(
    ("words", "advised"),
    [
        ("Streaming is not supported for this model", True),
        ("Unsupported parameter: 'stream'", True),
        ("The stream of tokens is too long; tools are supported", False),
    ],
)
async def test_the_error_of_a_server_without_streaming_names_the_setting(bench: Any, words: str, advised: bool) -> None:
    error = await failure(bench, 400, json={"error": {"message": words}})
    assert ("Set stream = false" in str(error)) is advised


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_the_error_of_a_missing_path_names_the_base_url(bench: Any, status: int) -> None:
    assert "base_url" in str(await failure(bench, status, html="<title>Error response</title>"))
