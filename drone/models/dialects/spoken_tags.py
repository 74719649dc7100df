"""What a server leaves of its model's template in the text, told apart while it streams: thinking, and calls."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "thinking"]

THINKING = {"<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>"}
CALLS = ("<tool_call>", "<function=", "[TOOL_CALLS]")
_MOST_BLANKS = 1_000
_LONGEST = max(map(len, (*THINKING, *THINKING.values(), *CALLS)))


class SpokenTags:
    """The text of one reply on its way. Thinking stands at its very beginning. From the first mark of a call on that
    begins a line, everything is held back in `held`: whether it is calls can only be said when it is whole."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._closing = ""
        self._begun = False
        self._after_thinking = False
        self._line_begins = True
        self._rest = ""

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """What can be told of the text so far."""
        if self.held:
            self.held.append(piece)
            return
        text, self._rest = self._rest + piece, ""
        if not self._begun:
            text = self._beginning(text)
        if self._closing:
            said, text = self._thinking(text)
            if said:
                yield "thinking", said
        if text and not self._closing and self._begun and (said := self._saying(text)):
            yield "text", said

    def end(self) -> Iterator[tuple[Kind, str]]:
        """What was kept back because more might have come; `held` stays for whoever knows the tools."""
        rest, self._rest = self._rest, ""
        if rest:
            yield ("thinking" if self._closing else "text"), rest

    def _beginning(self, text: str) -> str:
        """What follows the opening tag, if there is one; empty as long as that is open."""
        start = text.lstrip()
        if any(tag.startswith(start) for tag in THINKING) and len(text) < _MOST_BLANKS:
            self._rest = text
            return ""
        self._begun = True
        tag = next((tag for tag in THINKING if start.startswith(tag)), "")
        if not tag:
            return text
        self._closing = THINKING[tag]
        return start[len(tag) :].lstrip("\n")

    def _thinking(self, text: str) -> tuple[str, str]:
        """The thinking in `text`, and what comes after it."""
        inside, closed, after = text.partition(self._closing)
        if closed:
            self._closing, self._after_thinking = "", True
            return inside, after
        cut = _maybe_begun(text, (self._closing,))
        self._rest = text[cut:]
        return text[:cut], ""

    def _saying(self, text: str) -> str:
        if self._after_thinking:
            text = text.lstrip()
            if not text:
                return ""
            self._after_thinking = False
        begin = self._first_call(text)
        if begin is not None:
            self.held.append(text[begin:])
            return text[:begin]
        cut = _maybe_begun(text, CALLS)
        if cut < len(text) and self._begins_a_line(text, cut):
            self._rest, text = text[cut:], text[:cut]
        if text:
            self._line_begins = self._begins_a_line(text, len(text))
        return text

    def _first_call(self, text: str) -> int | None:
        line = 0 if self._line_begins else text.find("\n") + 1
        while line or self._line_begins:
            place = line
            while text.startswith((" ", "\t"), place):
                place += 1
            if text.startswith(CALLS, place):
                return place
            line = text.find("\n", place) + 1
            if not line:
                return None
        return None

    def _begins_a_line(self, text: str, place: int) -> bool:
        """Whether nothing but blanks stands before this place in its line."""
        line = text.rfind("\n", 0, place) + 1
        return not text[line:place].strip() and (line > 0 or self._line_begins)


def _maybe_begun(text: str, marks: tuple[str, ...]) -> int:
    """Where the end of `text` may be the beginning of a mark; its length where it is none."""
    for cut in range(max(0, len(text) - _LONGEST + 1), len(text)):
        if any(mark.startswith(text[cut:]) for mark in marks):
            return cut
    return len(text)


def without_opening(text: str) -> tuple[str, str] | None:
    """Thinking and answer of a text whose opening tag stood in the prompt: the closing one, in a line of its own, is
    all that came."""
    for opening, closing in THINKING.items():
        before, found, after = text.partition(closing)
        alone = before.endswith("\n") and (not after or after.startswith(("\n", "\r\n")))
        if found and alone and opening not in before:
            return before.rstrip(), after.lstrip()
    return None
