"""Agent and skill files taken apart: front matter between two lines of ---, and the prompt; what is wrong with them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcc.rules.errors import meant

Location: TypeAlias = tuple[str | int, ...]
"""Where a part of a document stands: its keys and indices from the outside in."""


class YamlProblem(ValueError):
    """What YAML, or this reading of it, does not allow; `line` counts from 1 within the text."""

    def __init__(self, sentence: str, line: int | None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value of a document, and the line (from 1) on which the part at each place begins."""

    value: Any
    lines: Mapping[Location, int]


class DefinitionError(ValueError):
    """An agent file that cannot be used: `source` labels the file, `line` counts from 1 (None when unknown).

    `sentence` says what is wrong and what to do; `str()` joins all three. `others` are further problems of the file.
    """

    others: tuple["DefinitionError", ...] = ()

    def __init__(self, source: str, sentence: str, line: int | None = None) -> None:
        super().__init__(f"{source}{'' if line is None else f', line {line}'}: {sentence}")
        self.source = source
        self.sentence = sentence
        self.line = line


class Notice(DefinitionError):
    """Nothing is wrong with the file, and people are to know this of it."""


class NotAgreed(Notice):
    """Nothing is wrong with the file, but its operator did not agree to what it wants to be."""


def suggestion(word: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """`; did you mean 'x'?`, or, when nothing is near, what there is: `listed`, else all of `known`."""
    names = sorted(known)
    near = meant(word, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    shown = sorted(names if listed is None else listed)
    return f"; there is: {', '.join(shown)}" if shown else "; there is none"


FILE_BYTES = 32 * 1024
"""Largest agent file that is read."""

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class Parts:
    """`front` begins on line 2 of the file; `prompt` has neither blank lines around it nor carriage returns."""

    front: str
    prompt: str


def decoded(content: bytes, source: str) -> str:
    """The text of a file of at most `FILE_BYTES` in UTF-8, a byte order mark left out. Raises `DefinitionError`."""
    _refuse_size(len(content), source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(source, f"byte {error.start} is not UTF-8; save the file as UTF-8", line) from error


def _refuse_size(size: int, source: str) -> None:
    if size > FILE_BYTES:
        raise DefinitionError(
            source, f"an agent file may have {FILE_BYTES // 1024} KB at most; make the prompt shorter"
        )


def split(text: str, source: str) -> Parts:
    """Front matter and prompt of an agent file's text, whichever line endings it has. Raises `DefinitionError`."""
    _refuse_size(len(text.encode("utf-8", "surrogatepass")), source)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise DefinitionError(source, "there is no front matter: the first line must be --- and nothing else", 1)
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return Parts("\n".join(lines[1:index]), "\n".join(lines[index + 1 :]).strip())
    raise DefinitionError(
        source, "the front matter that line 1 opens is never closed; write --- on a line of its own", 1
    )
