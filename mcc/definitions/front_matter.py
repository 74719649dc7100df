"""Splitting of agent and skill files into front matter and prompt, and the errors of such files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcc.contracts.similar import closest_name

Location: TypeAlias = tuple[str | int, ...]
"""The path to a part of a document: keys and indices from the outside in."""


class YamlProblem(ValueError):
    """The text is not valid YAML, or uses a refused feature; `line` counts from 1 within the text."""

    def __init__(self, sentence: str, line: int | None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value of a document, and the line (from 1) on which each part begins, by location."""

    value: Any
    lines: Mapping[Location, int]


class DefinitionError(ValueError):
    """An agent file cannot be used. `source` labels the file, `line` counts from 1 (None = unknown).

    `sentence` says what is wrong and what to do; `str()` joins all three. `others` are further problems of the file.
    `tool`: the name that it lists, where all that is wrong is that no tool or group is known by it.
    """

    others: tuple["DefinitionError", ...] = ()
    tool: str = ""

    def __init__(self, source: str, sentence: str, line: int | None = None) -> None:
        super().__init__(f"{source}{'' if line is None else f', line {line}'}: {sentence}")
        self.source = source
        self.sentence = sentence
        self.line = line


class Notice(DefinitionError):
    """A message about a file that is not an error."""


class NotAgreed(Notice):
    """The file is valid but not used, because the operator did not agree to what it asks for."""


LISTED = "; there is: "
"""Stands in a message before a list of all that would have been right."""


def suggestion(word: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """`; did you mean 'x'?` for the nearest name; else a list of what exists: `listed`, or all of `known`."""
    names = sorted(known)
    near = closest_name(word, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    shown = sorted(names if listed is None else listed)
    return f"{LISTED}{', '.join(shown)}" if shown else "; there is none"


FILE_BYTES = 32 * 1024
"""Most bytes of an agent file."""

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class Parts:
    """`front` begins on line 2 of the file; `prompt` is stripped and has no carriage returns."""

    front: str
    prompt: str


def decoded(content: bytes, source: str) -> str:
    """The text of a UTF-8 file of at most `FILE_BYTES`, without a byte order mark. Raises `DefinitionError`."""
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
    """Front matter and prompt of an agent file's text, with any line endings. Raises `DefinitionError`."""
    # Counted in bytes here too: a text may come from elsewhere than a file.
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
