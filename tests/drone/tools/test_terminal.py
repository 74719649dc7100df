"""Output is shown as a terminal leaves it; what was never overwritten stays to the byte."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drone.sandbox.child import Captured
from drone.tools.frame.display_text import strip_controls
from drone.tools.frame.terminal import FRAMES, Overwriting, rendered
from drone.tools.shell.output import CapturedOutput, captured, output_text
from mcc.redaction import Redactor


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("10%\r20%\r100%\n", "100%\n"),
        ("10%\r20%\r", "20%"),
        ("\r10%\r20%", "20%"),
        ("wait\rDone", "Done"),
        ("progress\rDone", "Doneress"),
        ("progress\r\x1b[KDone", "Done"),
        ("progress\x1b[2K\rDone", "Done"),
        ("progress\r        \rDone\n", "Done\n"),
        ("progress\r        \r\nDone\n", "\nDone\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\r\r\ntwo", "one\ntwo"),
        ("ab\bc", "ac"),
        ("abc\b\b\bxy", "xyc"),
        ("\b\bx", "x"),
        ("N\bNA\bA_\bM", "NAM"),
        ("|\b/\b-\b\\\bdone", "done"),
        ("abcdef\x1b[3Dxy", "abcxyf"),
        ("abc\x1b[1Gx\x1b[2Cy", "xbcy"),
        ("abc\x1b[1K!", "   !"),
        ("a: 1\nb: 1\n\x1b[2Aa: 2\nb: 2\n", "a: 2\nb: 2\n"),
        ("a: 1\nb: 1\x1b[1A\r\x1b[Ka: 2\x1b[1B\rb: 2", "a: 2\nb: 2"),
        ("spin\nmore\n\x1b[2A\x1b[Jdone\n", "done\n"),
        ("a\n\x1b[Fb", "b\n"),
        ("kept\n\x1b[2J\x1b[Hmore\n", "kept\nmore\n"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07plain\n", "red plain\n"),
        ("\x1b[32m 5%\x1b[0m\r\x1b[32m10%\x1b[0m\n", "10%\n"),
        ("tab\there  \n", "tab\there  \n"),
    ],
)
def test_moves_are_played_and_all_other_sequences_left_out(written: str, left: str) -> None:
    assert rendered(written) == left


@given(st.text(st.sampled_from("ab \n\t\x1b[31mé\x00"), max_size=60))
def test_a_text_without_moves_only_loses_its_controls(text: str) -> None:
    assert rendered(text) == strip_controls(text)
    assert rendered(text.replace("\n", "\r\n")) == strip_controls(text)


SEQUENCES = ["\r", "\b", "\n", "\x1b[K", "\x1b[2A", "\x1b[9C", "\x1b[4G", "\x1b[G", "\x1b[J", "\x1b[1K", "\x1b[B"]
MOVES = st.lists(st.sampled_from(["a", "bc", "é", *SEQUENCES]))


@given(MOVES)
def test_no_control_is_left_and_nothing_is_invented(pieces: list[str]) -> None:
    left = rendered("".join(pieces))
    assert not set(left) - set("abcé \n")
    assert all(left.count(letter) <= "".join(pieces).count(letter) for letter in "abcé")


def kept(output: bytes, piece: int = 65_536) -> Overwriting:
    taken = captured()
    for at in range(0, len(output), piece):
        taken.add(output[at : at + piece])
    return taken


def shown(output: bytes, piece: int = 65_536) -> str:
    return output_text(CapturedOutput.of(kept(output, piece)), Redactor()).shown


@pytest.mark.parametrize("frames", [10, 3_000, 60_000])
@pytest.mark.parametrize("end", ["\r", "\x1b[2K\r", "\x1b[1G"])
def test_an_error_between_two_progress_bars_is_seen(frames: int, end: str) -> None:
    bar = "".join(f"{end}{'#' * 40} {number}/{frames} MB" for number in range(frames))
    said = shown(f"{bar}\nERROR: checksum of part 7 is wrong\n{bar}\ngiving up\n".encode())
    last = f"{'#' * 40} {frames - 1}/{frames} MB"
    assert said == f"{last}\nERROR: checksum of part 7 is wrong\n{last}\ngiving up\n"


@given(MOVES, st.integers(1, 7))
def test_output_that_fits_is_shown_as_it_is_however_it_arrives(pieces: list[str], size: int) -> None:
    output = "".join(pieces).encode()
    assert shown(output, size) == rendered(output.decode())


def test_frames_that_move_the_cursor_to_other_lines_are_all_kept() -> None:
    bars = b"a\nb\n" + b"".join(b"\x1b[2A\r%d\r\x1b[1B" % number for number in range(2 * FRAMES))
    assert kept(bars).total == len(bars)


def test_a_secret_that_is_only_there_in_the_end_is_redacted() -> None:
    taken = kept(b"hunter2-hunteX\b2-hunter2\n")
    text = output_text(CapturedOutput.of(taken), Redactor(["hunter2-hunte2-hunter2"]))
    assert text.shown == "[redacted]\n" and text.size == 25


def test_the_unfinished_line_counts_and_a_long_one_does_not_wait() -> None:
    taken = kept(b"10%\r20%")
    assert (taken.head, taken.tail, taken.total, taken.written) == (b"10%\r20%", b"", 7, 7)
    long = Overwriting(Captured(10, 10))
    for _ in range(3):
        long.add(b"x" * 20_000)
    assert (long.head, long.tail, long.total) == (b"x" * 10, b"x" * 10, 60_000)


@pytest.mark.parametrize(
    "unit",
    ["\r#", "a\b", "\x1b[1A", "\x1b[9999Cx\n", "\x1b[", "\x1b[0", "x\x1b[B", "\n\x1b[99A\x1b[J", "#" * 99 + "\r"],
)
def test_hostile_output_costs_time_in_proportion_to_its_length(unit: str) -> None:
    output = (unit * (200_000 // len(unit))).encode()
    began = time.process_time()
    assert len(output_text(CapturedOutput.of(kept(output)), Redactor()).shown) <= 40_000
    assert time.process_time() - began < 3
