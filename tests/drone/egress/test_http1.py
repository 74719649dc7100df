"""HTTP/1.1 is parsed so strictly that no server can read a message differently than the proxy."""

import asyncio

import pytest

from drone.egress.http1 import BadMessage, Framing, chunk, read_body, read_request, read_response


def reader(data: bytes) -> asyncio.StreamReader:
    made = asyncio.StreamReader(limit=64 * 1024)
    made.feed_data(data)
    made.feed_eof()
    return made


async def read(data: bytes) -> bytes:
    """The body of the single request in `data`."""
    stream = reader(data)
    head = await read_request(stream)
    assert head is not None
    return b"".join([piece async for piece in read_body(stream, head.request_framing)])


async def test_a_parsed_request_encodes_to_the_same_bytes() -> None:
    raw = b"GET /a?b HTTP/1.1\r\nHost: a.de\r\nX-One: two\r\n\r\n"
    head = await read_request(reader(raw))
    assert head is not None
    assert head.encoded() == raw


async def test_after_the_last_request_there_is_none() -> None:
    assert await read_request(reader(b"")) is None


SMUGGLED = [
    b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nContent-Length: 3, 4\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: a\nHost: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\nX : a\r\n\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
    b"GET /\rx HTTP/1.1\r\n\r\n",
    b"GET / HTTP/2\r\n\r\n",
    b"GET /\r\n\r\n",
    b"G@T / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 201 + b"\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a",
    b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
]


@pytest.mark.parametrize("data", SMUGGLED, ids=range(len(SMUGGLED)))
async def test_ambiguous_messages_are_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        await read(data)


async def test_a_chunked_body_is_joined() -> None:
    data = (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"abc") + b"2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n"
    )
    assert await read(data) == b"abcde"


@pytest.mark.parametrize(
    ("said", "method", "length"),
    [
        (b"200 OK\r\nContent-Length: 5", b"GET", 5),
        (b"200 OK\r\nContent-Length: 5", b"HEAD", Framing.NONE),
        (b"204 No", b"GET", Framing.NONE),
        (b"304 No\r\nContent-Length: 5", b"GET", Framing.NONE),
        (b"200 OK", b"GET", Framing.TO_THE_END),
        (b"200 OK\r\nTransfer-Encoding: chunked", b"GET", Framing.CHUNKED),
    ],
)
async def test_how_long_an_answer_is(said: bytes, method: bytes, length: object) -> None:
    answer = await read_response(reader(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 " + said + b"\r\n\r\n"))
    assert answer.response_framing(method) == length


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 101 Up\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n"])
async def test_an_invalid_answer_is_refused(said: bytes) -> None:
    with pytest.raises(BadMessage):
        await read_response(reader(said))


async def test_headers_of_one_connection_are_not_passed_on() -> None:
    lines = (
        "GET / HTTP/1.1",
        "Connection: close, X-Mine",
        "X-Mine: a",
        "Proxy-Authorization: b",
        "Upgrade: h2c",
        "X: c",
    )
    head = await read_request(reader("\r\n".join((*lines, "", "")).encode()))
    assert head is not None
    assert list(head.end_to_end) == [(b"X", b"c")]
