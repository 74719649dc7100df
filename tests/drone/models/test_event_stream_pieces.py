"""The parser of server-sent events, with bytes cut at any place."""

import pytest

from drone.models import body
from drone.models.body import Event, EventStreamParser, TooLarge

REFERENCE = (
    "\ufeff: a comment\ndata: one\n\nevent: named\r\ndata: zwei – 😀\r\n\r\ndata:three\rdata: lines\r\r"
    "id: 7\nretry: 5\ndata\n\n: keep-alive\n\ndata: last\n\n"
).encode()
EVENTS: list[Event] = [
    (b"", b"one"),
    (b"named", "zwei – 😀".encode()),
    (b"", b"three\nlines"),
    (b"", b""),
    (b"", b"last"),
]


def events_of(*pieces: bytes) -> list[Event]:
    stream = EventStreamParser()
    return [event for piece in pieces for event in stream.feed(piece)]


def test_a_stream_in_one_piece_gives_every_event() -> None:
    assert events_of(REFERENCE) == EVENTS


def test_a_stream_in_pieces_of_one_byte_gives_the_same_events() -> None:
    assert events_of(*(REFERENCE[i : i + 1] for i in range(len(REFERENCE)))) == EVENTS


@pytest.mark.parametrize("cut", range(len(REFERENCE)))
def test_a_stream_cut_in_two_at_any_byte_gives_the_same_events(cut: int) -> None:
    assert events_of(REFERENCE[:cut], b"", REFERENCE[cut:]) == EVENTS


def test_an_event_without_its_blank_line_is_not_an_event() -> None:
    assert events_of(b"data: one\n\ndata: half\n") == [(b"", b"one")]


def test_the_name_of_an_event_without_data_does_not_leak_into_the_next() -> None:
    assert events_of(b"event: ping\n\ndata: x\n\n") == [(b"", b"x")]


def test_one_space_after_the_colon_is_dropped_and_the_others_stay() -> None:
    assert events_of(b"data:  x \n\n") == [(b"", b" x ")]


def test_a_line_without_end_is_given_up_at_the_bound() -> None:
    stream = EventStreamParser()
    piece = b"x" * (1 << 20)
    with pytest.raises(TooLarge):
        for _ in range((body.MAX_EVENT_BYTES >> 20) + 1):
            stream.feed(piece)


def test_an_event_of_too_many_lines_is_given_up_at_the_bound() -> None:
    stream = EventStreamParser()
    piece = b"data: " + b"x" * (1 << 20) + b"\n"
    with pytest.raises(TooLarge):
        for _ in range((body.MAX_EVENT_BYTES >> 20) + 1):
            stream.feed(piece)
