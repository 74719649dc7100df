"""The text of a command's output: whole, or its two ends; and what viewers are told of it on its way."""

import asyncio

import pytest

from drone.tools.command_output import HEAD_BYTES, TAIL_BYTES, TOLD_BYTES, CapturedOutput, Live, captured, said
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
    told = said(of(output), Redactor())
    head, _, rest = told.shown.partition("\n… [")
    left_out, _, tail = rest.partition(" bytes left out] …\n")
    assert told.whole == output.decode() and told.size == len(output)
    assert told.whole.startswith(head) and told.whole.endswith(tail)
    assert len(head.encode()) <= HEAD_BYTES and len(tail.encode()) <= TAIL_BYTES
    shown = len(head.encode()) + len(tail.encode())
    assert len(output) - shown - len(line) <= int(left_out.replace(",", "")) <= len(output) - shown


def test_of_a_huge_output_the_ends_are_kept_and_no_half_of_a_secret_at_the_cut() -> None:
    line = f"{SECRET} {SECRET}\n".encode()
    told = said(of(line * 200_000), Redactor([SECRET]))
    assert told.whole is not None and len(told.whole) < 2_100_000
    assert "bytes were not kept" in told.whole and told.size == len(line) * 200_000
    [other] = [one for one in told.whole.split("\n") if one not in ("[redacted] [redacted]", "")]
    assert other.startswith("… [") and other.endswith(" bytes were not kept] …")


def test_an_output_without_words_is_no_trouble() -> None:
    assert said(of(b""), Redactor()).shown == ""
    told = said(of(bytes(range(256)) * 10_000), Redactor())
    assert told.size == 2_560_000 and "\x1b" not in told.shown and "\0" not in told.shown


class Ear:
    def __init__(self, *secrets: str) -> None:
        self.told: list[tuple[int, str]] = []
        self.heard = asyncio.Event()
        self.live = Live(self._tell, Redactor(secrets))

    def _tell(self, offset: int, text: str) -> None:
        self.told.append((offset, text))
        self.heard.set()

    async def hear(self, *pieces: bytes) -> tuple[int, str]:
        """What is told next, once all of these came at once."""
        self.heard.clear()
        for piece in pieces:
            self.live.hear(piece)
        await self.heard.wait()
        return self.told[-1]


async def test_viewers_are_told_whole_lines_and_all_that_came_since_at_once() -> None:
    ear = Ear()
    assert await ear.hear(*[b"one\n"] * 500, b"tw") == (0, "one\n" * 500)
    assert await ear.hear("o é\n".encode()[:3], "o é\n".encode()[3:], b"\rhalf") == (2_000, "two é\n\n")
    assert len(ear.told) == 2
    ear.live.close()


async def test_of_what_comes_too_fast_viewers_see_the_newest_and_no_half_of_a_secret() -> None:
    ear = Ear(SECRET)
    assert await ear.hear(b"begins\n") == (0, "begins\n")
    flood = f"{SECRET}\n".encode() * 1_000
    offset, text = await ear.hear(b"hunter2-", flood, b"the end\n")
    assert text.endswith("the end\n") and set(text.replace("[redacted]", "").split()) == {"the", "end"}
    assert offset + len(text) <= len(b"begins\nhunter2-") + len(flood) and offset > len(flood) - TOLD_BYTES


async def test_a_line_without_an_end_is_told_when_it_is_long_and_nothing_after_the_end() -> None:
    ear = Ear()
    assert (await ear.hear(b"word " * 1_000))[1].startswith("word word ")
    ear.live.hear(b"late\n")
    ear.live.close()
    before = len(ear.told)
    await Ear().hear(b"as long as a tell takes\n")
    assert len(ear.told) == before
