"""Parsing tool results: listings, search hits, file contents, the environment, and paths named in prose."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import basename
from typing import Any

from drone.agent.ports.receipts import passages
from drone.models.offline.languages import is_accompanying, is_test
from mcc.rules.patterns import Pattern

_BARE_WORDS = "Dockerfile Makefile Gemfile Rakefile Procfile Justfile LICENSE README CHANGELOG NOTICE"
_BARE_NAMES = frozenset(_BARE_WORDS.split())
_LONGEST_PATH = 5_000
_NOT_IN_PATHS = ("//", "*", "\n")
_SUFFIX = Pattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_FILE_COUNT = Pattern(r" \([\d,]+ files?\)$")
_WORD_PATH = Pattern(r"(?:^|[^\w/:@.])((?:\./)?[\w.@+~-]+(?:/[\w.@+~-]+)*/?)")
_HIT = Pattern(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+)[:-] ?(?P<text>.*)$")
_HIT_UNDER_HEADING = Pattern(r"^(?P<line>\d+):(?P<text>.*)$")
_CUT = Pattern(r"cut (?:at|off|short)|left out|not shown|\bfirst \d+ |\bmore (?:files|lines)\b", ignore_case=True)
_FILE_HEADER = Pattern(r"\b(?:lines? \d|\d+ lines?\b|bytes\b|empty\b)")
_TOTAL_FILES = Pattern(r"\b(\d[\d,]*) (?:files?|paths?|matches)\b|\bof (\d[\d,]*)\b")
_COUNTS = Pattern(r"\d[\d,]* (?:more|files?|director(?:y|ies)|paths?|matches|entries|results|lines?)\b")


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths in a listing, directories without the slash. `total`: the number of files it states, if any."""

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
    """The lines of a file that was read, without line numbers."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Environment:
    """`starts`: lines about entry points; `commit`: the current git branch and commit; `files`: the number of all
    files.

    `has_git` is False only if the result says that there is no repository.
    """

    files: int | None = None
    starts: tuple[str, ...] = ()
    commit: str = ""
    has_git: bool = True


def unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def looks_like_path(word: str) -> bool:
    name = basename(word.rstrip("/"))
    if not name or name in (".", "..") or any(mark in word for mark in _NOT_IN_PATHS) or _COUNTS.match(word):
        return False
    return word.endswith("/") or bool(_SUFFIX.search(name)) or name in _BARE_NAMES or ("/" in word and " " not in word)


def paths_in(text: str) -> tuple[str, ...]:
    """All words in prose that look like file paths, in order, without duplicates."""
    words = (word.rstrip(".").removeprefix("./") for word in _WORD_PATH.findall(text))
    return unique(word for word in words if looks_like_path(word) and (_SUFFIX.search(word) or word in _BARE_NAMES))


def listing(text: str) -> Listing:
    """Parse a result of `list_files` or `find_files`: one path per line, directories with a slash, and lines about the
    listing."""
    names, notes = list[str](), list[str]()
    for line in text.split("\n"):
        name = _FILE_COUNT.sub("", line[:_LONGEST_PATH].strip())
        is_path = looks_like_path(name) or (name and " " not in name and ":" not in name)
        (names if is_path and len(line) <= _LONGEST_PATH else notes).append(name)
    joined = "\n".join(notes)
    return Listing(
        files=unique(name for name in names if not name.endswith("/")),
        directories=unique(name.rstrip("/") for name in names if name.endswith("/")),
        total=_total(joined),
        cut=bool(_CUT.search(joined)),
    )


def hits(text: str) -> tuple[Hit, ...]:
    """Parse a result of `search_text`: a path with lines of `line:text` below it, or lines of `path:line:text`."""
    found: list[Hit] = []
    heading = ""
    for line in text.split("\n"):
        if heading and (under := _HIT_UNDER_HEADING.match(line)):
            found.append(Hit(heading, int(under["line"]), under["text"]))
        elif full := _HIT.match(line):
            found.append(Hit(full["path"], int(full["line"]), full["text"]))
        elif looks_like_path(line.strip()):
            heading = line.strip()
    return tuple(found)


def is_cut(text: str) -> bool:
    """Whether the first or last line of a result says that it was cut short."""
    lines = text.strip().split("\n")
    return any(_CUT.search(line) and not _HIT.match(line) for line in (lines[0], lines[-1]))


def page(text: str, path: str) -> Page:
    """Parse a result of `read_file` for `path`: a first line about the file, then its lines, numbered or not."""
    lines = text.split("\n")
    if not (_FILE_HEADER.search(lines[0]) and path in lines[0]):
        return Page(tuple(lines))
    found = next(passages(text), None)
    return Page(found.lines if found else tuple(lines[1:]))


def environment(text: str) -> Environment:
    """Parse a result of `environment_detect`."""
    try:
        document = json.loads(text)
    except ValueError:
        return Environment()
    if not isinstance(document, dict):
        return Environment()
    files, git = document.get("files"), document.get("git")
    return Environment(
        files=files if isinstance(files, int) else None,
        starts=tuple(_starts(document.get("entry_points"))),
        commit=_commit(git) if isinstance(git, dict) else "",
        has_git=document.get("git", True) is not None,
    )


def _commit(git: Mapping[str, Any]) -> str:
    return f"git branch `{git.get('branch')}` at `{str(git['head'])[:10]}`" if git.get("head") else ""


def _starts(points: object) -> Iterator[str]:
    """Skips make targets, which are read from the Makefile, and entry points outside the program itself."""
    for point in points if isinstance(points, list) else ():
        if isinstance(point, Mapping) and point.get("name") and point.get("kind") != "make target":
            path = str(point.get("file") or "")
            if not is_accompanying(path) and not is_test(path):
                yield _start(point, path)


def _start(point: Mapping[str, Any], path: str) -> str:
    target = f" → `{point['target']}`" if point.get("target") else ""
    return f"{point.get('kind') or 'start'} `{point['name']}`{target}" + (f" (`{path}`)" if path else "")


def _total(notes: str) -> int | None:
    found = _TOTAL_FILES.search(notes)
    return int(next(group for group in found.groups() if group).replace(",", "")) if found else None
