"""The text of a command's output: whole, or its two ends; and what viewers see while the command runs."""

import asyncio

import pytest

from drone.tools.shell.output import (
    HEAD_BYTES,
    PENDING_BYTES,
    TAIL_BYTES,
    CapturedOutput,
    Live,
    captured,
    output_text,
)
from mcc.redaction import Redactor

SECRET = "hunter2-hunter2-hunter2"


def of(output: bytes) -> CapturedOutput:
    taken = captured()
    for at in range(0, len(output), 65_536):
        taken.add(output[at : at + 65_536])
    return CapturedOutput.of(taken)


@pytest.mark.parametrize("line", [b"line\n", b"word ", b"x", "é".encode()])
def test_of_a_long_output_the_ends_and_the_gap_make_up_the_whole(line: bytes) -> None:
    output = line * (200_000 // len(line))
    told = output_text(of(output), Redactor())
    head, _, rest = told.shown.partition("\n… [")
    left_out, _, tail = rest.partition(" bytes left out] …\n")
    assert told.whole == output.decode() and told.size == len(output)
    assert told.whole.startswith(head) and told.whole.endswith(tail)
    assert len(head.encode()) <= HEAD_BYTES and len(tail.encode()) <= TAIL_BYTES
    shown = len(head.encode()) + len(tail.encode())
    assert len(output) - shown - len(line) <= int(left_out.replace(",", "")) <= len(output) - shown


def test_of_a_huge_output_the_ends_are_kept_and_no_half_of_a_secret_at_the_cut() -> None:
    line = f"{SECRET} {SECRET}\n".encode()
    told = output_text(of(line * 200_000), Redactor([SECRET]))
    assert told.whole is not None and len(told.whole) < 2_100_000
    assert "bytes were not kept" in told.whole and told.size == len(line) * 200_000
    [other] = [one for one in told.whole.split("\n") if one not in ("[redacted] [redacted]", "")]
    assert other.startswith("… [") and other.endswith(" bytes were not kept] …")


def test_an_output_without_words_is_no_trouble() -> None:
    assert output_text(of(b""), Redactor()).shown == ""
    told = output_text(of(bytes(range(256)) * 10_000), Redactor())
    assert told.size == 2_560_000 and "\x1b" not in told.shown and "\0" not in told.shown


class Viewer:
    def __init__(self, *secrets: str) -> None:
        self.received: list[tuple[int, str]] = []
        self.arrived = asyncio.Event()
        self.live = Live(self._receive, Redactor(secrets))

    def _receive(self, offset: int, text: str) -> None:
        self.received.append((offset, text))
        self.arrived.set()

    async def after(self, *pieces: bytes) -> tuple[int, str]:
        """The next text sent to viewers after the command wrote all of these pieces at once."""
        self.arrived.clear()
        for piece in pieces:
            self.live.feed(piece)
        await self.arrived.wait()
        return self.received[-1]


async def test_viewers_are_told_whole_lines_and_all_that_came_since_at_once() -> None:
    viewer = Viewer()
    assert await viewer.after(*[b"one\n"] * 500, b"tw") == (0, "one\n" * 500)
    assert await viewer.after("o é\n".encode()[:3], "o é\n".encode()[3:], b"\rhalf") == (2_000, "two é\n\n")
    assert len(viewer.received) == 2
    viewer.live.close()


async def test_of_what_comes_too_fast_viewers_see_the_newest_and_no_half_of_a_secret() -> None:
    viewer = Viewer(SECRET)
    assert await viewer.after(b"begins\n") == (0, "begins\n")
    flood = f"{SECRET}\n".encode() * 1_000
    offset, text = await viewer.after(b"hunter2-", flood, b"the end\n")
    assert text.endswith("the end\n") and set(text.replace("[redacted]", "").split()) == {"the", "end"}
    assert offset + len(text) <= len(b"begins\nhunter2-") + len(flood) and offset > len(flood) - PENDING_BYTES


async def test_a_line_without_an_end_is_told_when_it_is_long_and_nothing_after_the_end() -> None:
    viewer = Viewer()
    assert (await viewer.after(b"word " * 1_000))[1].startswith("word word ")
    viewer.live.feed(b"late\n")
    viewer.live.close()
    before = len(viewer.received)
    await Viewer().after(b"as long as sending takes\n")
    assert len(viewer.received) == before
