"""Reading tool results of any shape: listings, search hits, file contents, paths named in prose."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from drone.agent.receipts import passages
from drone.models.offline.facts import unique
from mcc.rules.patterns import Pattern

_BARE_NAMES = frozenset(
    [
        "Dockerfile",
        "Makefile",
        "Gemfile",
        "Rakefile",
        "Procfile",
        "Justfile",
        "LICENSE",
        "README",
        "CHANGELOG",
        "NOTICE",
    ]
)
_LONGEST_PATH = 5_000
_NEVER = ("//", "*", "\n")
_SUFFIX = Pattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_TREE_LEAD = Pattern(r"^[\s│├└─┬|`•]*(?:[-*+] )?")
_ANNOTATION = Pattern(r"(?:\t.*|\s{2,}.*|\s+\([^()]*\)|\s+[—–]\s.*|\s+\d[\d,.]*\s*(?:[kKMG]?i?B|bytes|lines?)\b.*)$")
_WORD_PATH = Pattern(r"(?:^|[^\w/:@.])((?:\./)?[\w.@+~-]+(?:/[\w.@+~-]+)*/?)")
_HIT = Pattern(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?[:-] ?(?P<text>.*)$")
_HIT_UNDER_HEADING = Pattern(r"^\s*(?P<line>\d+)\s*[:\t|→] ?(?P<text>.*)$")
_NUMBERED = Pattern(r"^\s*\d+(?:\t|: ?|\| ?|→)")
_CUT = Pattern(
    r"truncat|cut (?:at|after) \d|cut off|cut short|bytes left out|not shown|\bfirst \d+ of\b"
    r"|\bmore (?:files|entries|matches|results|lines|paths)\b",
    ignore_case=True,
)
_ABOUT = Pattern(r"\b(?:lines? \d|\d+ lines?\b|bytes\b|empty\b)")
_TOTAL_FILES = Pattern(r"\b(\d[\d,]*) (?:files?|paths?|matches)\b|\bof (\d[\d,]*)\b")
_COUNTS = Pattern(r"\d[\d,]* (?:more|files?|director(?:y|ies)|paths?|matches|entries|results|lines?)\b")


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths as a listing gave them, directories without their slash. `total` is what it says of itself, if it does."""

    files: tuple[str, ...]
    directories: tuple[str, ...]
    total: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of a file that were read, line numbers taken off."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def looks_like_path(word: str) -> bool:
    name = word.rstrip("/").rsplit("/", 1)[-1]
    if not name or name in (".", "..") or any(mark in word for mark in _NEVER) or _COUNTS.match(word):
        return False
    return word.endswith("/") or bool(_SUFFIX.search(name)) or name in _BARE_NAMES or ("/" in word and " " not in word)


def paths_in(text: str) -> tuple[str, ...]:
    """Everything in prose that looks like a path of a file, in order, each once."""
    words = (word.rstrip(".").removeprefix("./") for word in _WORD_PATH.findall(text))
    return unique(word for word in words if looks_like_path(word) and (_SUFFIX.search(word) or word in _BARE_NAMES))


def listing(text: str) -> Listing:
    """A result of `list_files` or `find_files`: JSON, one path in a line, or a tree drawn by indentation."""
    decoded = _json(text)
    names = _tree(text.split("\n")) if decoded is None else [(name, False) for name in _strings(decoded)]
    entries = [(name.removeprefix("./"), is_directory) for name, is_directory in names]
    directories = unique(name.rstrip("/") for name, is_directory in entries if is_directory or name.endswith("/"))
    known = set(directories)
    files = unique(name for name, _ in entries if not name.endswith("/") and name not in known)
    lines = [line[:_LONGEST_PATH] for line in text.split("\n")]
    notes = "\n".join(line for line in lines if not looks_like_path(_cleaned(line)))
    return Listing(files, directories, _total(notes), bool(_CUT.search(notes)))


def _tree(lines: Iterable[str]) -> list[tuple[str, bool]]:
    """(path, is a directory) of every line that is one; a name under a deeper indentation gets its parents in front."""
    found: list[tuple[str, bool]] = []
    above: list[tuple[int, int]] = []
    for line in lines:
        name = _cleaned(line) if len(line) <= _LONGEST_PATH else ""
        if not looks_like_path(name) and (not name or " " in name or ":" in name):
            continue
        lead = len(_TREE_LEAD.match(line).group()) if line[:1] in " │├└|`\t" else 0  # type: ignore[union-attr]
        while above and above[-1][0] >= lead:
            above.pop()
        if above and lead > 0:
            parent = found[above[-1][1]][0].rstrip("/")
            found[above[-1][1]] = (parent, True)
            name = name if name.startswith(parent + "/") else f"{parent}/{name}"
        if name not in (".", "./"):
            found.append((name, name.endswith("/")))
            above.append((lead, len(found) - 1))
    return found


def _cleaned(line: str) -> str:
    bare = _TREE_LEAD.sub("", line, 1) if line[:1] in " │├└|`\t•-*+" else line
    return _ANNOTATION.sub("", bare.rstrip()).strip("\"'`, ")


def hits(text: str) -> tuple[Hit, ...]:
    """A result of `search_text`: `path:line: text`, or a path and under it `line: text`, or JSON objects."""
    decoded = _json(text)
    if decoded is not None:
        return tuple(_json_hits(decoded))
    found: list[Hit] = []
    heading = ""
    for line in text.split("\n"):
        if heading and (under := _HIT_UNDER_HEADING.match(line)):
            found.append(Hit(heading, int(under["line"]), under["text"]))
        elif full := _HIT.match(line):
            found.append(Hit(full["path"].removeprefix("./"), int(full["line"]), full["text"]))
        elif looks_like_path(line.strip().rstrip(":")):
            heading = line.strip().rstrip(":").removeprefix("./")
    return tuple(found)


def is_cut(text: str) -> bool:
    """What a result says of itself in its first or last line: there would have been more."""
    lines = text.strip().split("\n")
    return any(_CUT.search(line) and not _HIT.match(line) for line in (lines[0], lines[-1]))


def page(text: str, path: str) -> Page:
    """A result of `read_file` for `path`, with or without line numbers and a first line about the file."""
    decoded = _json(text)
    if isinstance(decoded, dict) and isinstance(decoded.get("content"), str):
        return page(decoded["content"], path)
    lines = text.split("\n")
    if _ABOUT.search(lines[0]) and path in lines[0]:
        if found := next(passages(text), None):
            return Page(found.lines)
        return Page(tuple(lines[1:]))
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if len(numbered) < 0.6 * sum(bool(line.strip()) for line in lines) or not numbered:
        return Page(tuple(lines))
    return Page(tuple(_NUMBERED.sub("", line, 1) for line in numbered))


def _total(notes: str) -> int | None:
    found = _TOTAL_FILES.search(notes)
    return int(next(group for group in found.groups() if group).replace(",", "")) if found else None


def _json(text: str) -> Any:
    """The JSON array or object that `text` is, else None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if looks_like_path(value):
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _json_hits(value: Any) -> Iterator[Hit]:
    if isinstance(value, list):
        for part in value:
            yield from _json_hits(part)
    elif isinstance(value, dict):
        path, line = value.get("path", value.get("file")), value.get("line", value.get("line_number"))
        if isinstance(path, str) and isinstance(line, int):
            yield Hit(path, line, str(value.get("text", value.get("content", ""))))
        else:
            yield from _json_hits(list(value.values()))
