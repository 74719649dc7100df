"""Thinking that a server leaves in the text, separated while streaming; text that may be a call is held back."""

from collections.abc import Iterator
from functools import cache
from typing import Literal, TypeAlias

from mcc.rules.patterns import Pattern

Kind: TypeAlias = Literal["text", "thinking"]

THINKING = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
}
_MOST_BLANKS = 1_000
_LONGEST = max(map(len, (*THINKING, *THINKING.values())))
_CALL = Pattern(
    r"(?:<[|｜]|</?(?:[a-z_]{1,20}:)?(?:tool_?|function|invoke|parameter)"
    r"|\[/?(?:TOOL|FUNCTION)|functools\[|```tool_)",
    ignore_case=True,
)
_BEGUN = Pattern(r"<|</?[a-z_:]*|\[/?[a-z_]*|f[a-z]*|`{1,3}[a-z_]*", ignore_case=True)
_BEGINNINGS = ("<", "[", "f", "F", "`")
_LONGEST_BEGINNING = 32
"""Characters of a line after which it is certain whether it begins with a mark."""


class TagSplitter:
    """Separates thinking from the text of one streamed reply; it can only stand at the very beginning. From the
    first call mark at the start of a line, everything goes into `held`: whether it is a call shows only once it is
    complete."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._closing = ""
        self._begun = False
        self._after_thinking = False
        self._line_begins = True
        self._rest = ""

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """The (kind, text) pieces that are certain so far."""
        if self.held:
            self.held.append(piece)
            return
        text, self._rest = self._rest + piece, ""
        if not self._begun:
            text = self._after_opening(text)
        if self._closing:
            thought, text = self._thinking(text)
            if thought:
                yield "thinking", thought
        if text and not self._closing and self._begun and (words := self._answer(text)):
            yield "text", words

    def end(self) -> Iterator[tuple[Kind, str]]:
        """The text kept back as a possible start of a mark; `held` is left to the caller, who knows the tools."""
        rest, self._rest = self._rest, ""
        if rest:
            yield ("thinking" if self._closing else "text"), rest

    def _after_opening(self, text: str) -> str:
        """Handle the opening tag. Returns the text after it, or an empty string while more text is needed to decide."""
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
        """The thinking in `text`, and the text after it."""
        inside, closed, after = text.partition(self._closing)
        if closed:
            self._closing, self._after_thinking = "", True
            return inside, after
        cut = _start_of_mark(text, (self._closing,))
        self._rest = text[cut:]
        return text[:cut], ""

    def _answer(self, text: str) -> str:
        if self._after_thinking:
            text = text.lstrip()
            if not text:
                return ""
            self._after_thinking = False
        begin = self._first_call(text)
        if begin is not None:
            self.held.append(text[begin:])
            return text[:begin]
        cut = self._undecided(text)
        self._rest, text = text[cut:], text[:cut]
        if text:
            self._line_begins = not text.rpartition("\n")[2].strip() and ("\n" in text or self._line_begins)
        return text

    def _first_call(self, text: str) -> int | None:
        """Where the first line begins its words that begins with the mark of a call."""
        line = 0 if self._line_begins else text.find("\n") + 1
        while line or self._line_begins:
            place = line
            while text.startswith((" ", "\t"), place):
                place += 1
            if text.startswith(_BEGINNINGS, place) and _CALL.match(text[place : place + _LONGEST_BEGINNING]):
                return place
            line = text.find("\n", place) + 1
            if not line:
                return None
        return None

    def _undecided(self, text: str) -> int:
        """Index from which the end of `text` may be the beginning of a mark; its length if there is none."""
        line = text.rfind("\n") + 1
        begun = text[line:].lstrip(" \t")
        if not begun or not (line or self._line_begins):
            return len(text)
        open_ended = len(begun) < _LONGEST_BEGINNING and _BEGUN.fullmatch(begun) is not None
        return len(text) - len(begun) if open_ended else len(text)


def _start_of_mark(text: str, marks: tuple[str, ...]) -> int:
    """Index from which the end of `text` may be an incomplete mark; its length if there is none."""
    begun = _prefixes(marks)
    for cut in range(max(0, len(text) - _LONGEST + 1), len(text)):
        if text[cut:] in begun:
            return cut
    return len(text)


@cache
def _prefixes(marks: tuple[str, ...]) -> frozenset[str]:
    return frozenset(mark[:end] for mark in marks for end in range(1, len(mark) + 1))


def without_opening(text: str) -> tuple[str, str] | None:
    """Thinking and answer of a text whose opening tag was part of the prompt, so that only the closing tag arrived, on
    a line of its own. None for other texts."""
    for opening, closing in THINKING.items():
        before, mark, after = text.partition(closing)
        alone = before.endswith("\n") and (not after or after.startswith(("\n", "\r\n")))
        if mark and alone and opening not in before:
            return before.rstrip(), after.lstrip()
    return None
