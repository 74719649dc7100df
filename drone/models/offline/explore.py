"""Exploring a workspace step by step: each stage asks for what the results so far point to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from drone.agent.model import WantedCall
from drone.models.offline.conversation import Conversation
from drone.models.offline.languages import (
    Language,
    depth_of,
    glob_of,
    is_aside,
    is_document,
    is_test,
    language_of,
    languages_of,
)
from drone.models.offline.request import Focus
from drone.models.offline.survey import Survey
from drone.models.offline.watch import WATCHED, Watch

_MOST_ROUNDS = 8
EVERYTHING = "**/*"
_HEAD_LINES = 60
_OPENING_LINES = 14
_COMMITS = 10
_MOST_AGAIN = 8
_MOST_WATCHED = 60
_MOST_LISTED = 2_000

Wanted: TypeAlias = Iterator[WantedCall | None]


@dataclass(frozen=True, slots=True)
class Step:
    """What the explorer does next: a sentence about it, and the calls, which do not depend on each other."""

    saying: str
    calls: tuple[WantedCall, ...]


def next_step(conversation: Conversation, known: Survey, focus: Focus) -> Step | None:
    """The next calls that have not been made yet; None when it is time to report."""
    if conversation.must_finish or conversation.rounds >= _MOST_ROUNDS:
        return None
    for saying, stage in _STAGES:
        calls = _different(stage(conversation, known, focus))
        if calls:
            return Step(saying, calls)
    return None


def read_again(conversation: Conversation, known: Survey) -> Step | None:
    """In a later turn the files that were read in earlier ones, for they may have changed."""
    if not conversation.earlier or conversation.must_finish or not known.pages:
        return None
    if any(done.name == "read_file" for done in conversation.done):
        return None
    calls = _different(_head(conversation, path, _HEAD_LINES) for path in list(known.pages)[:_MOST_AGAIN])
    return Step("I look at the files once more.", calls) if calls else None


def _look(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    yield conversation.call("list_files", depth=3, limit=_MOST_LISTED)
    yield conversation.call("environment_detect")
    if "list_files" not in conversation.tools:
        yield conversation.call("find_files", pattern=EVERYTHING, limit=_MOST_LISTED)


def _orient(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    for path in (*known.readmes[:1], *known.build_files[:3]):
        yield conversation.call("read_file", path=path)
    yield conversation.call("find_files", pattern=EVERYTHING, limit=_MOST_LISTED)
    if focus.trade and known.environment.has_git:
        yield conversation.call("git_status")
        yield conversation.call("git_log", limit=_COMMITS)


def _count(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    """Where the listing of everything was cut short, the files of each language are counted by themselves."""
    if not known.whole:
        for language, _ in languages_of(known.files)[:3]:
            yield conversation.call("find_files", pattern=f"**/{glob_of(language)}", limit=_MOST_LISTED)


def _search(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    yield from _count(conversation, known, focus)
    languages = [language for language, _ in languages_of(known.sources)]
    if focus.structure:
        for language in languages[:3]:
            yield conversation.call("search_text", pattern=language.entry, glob=glob_of(language))
    if focus.content and languages:
        for directory in fullest_directories(known)[:3]:
            names = languages[0].public
            yield conversation.call(
                "search_text", pattern=names, path=directory or None, glob=glob_of(languages[0]), limit=200
            )
    for watch in watched(known, focus):
        glob = glob_of(*(language for language, _ in languages_of(known.sources)))
        yield conversation.call("search_text", pattern=watch.pattern, glob=glob, limit=_MOST_WATCHED)
    for term in focus.terms:
        yield conversation.call("search_text", pattern=term, literal=True, case_sensitive=False, limit=40)


def _read_central(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    if focus.structure:
        for path in entry_files(known)[:3] or fronts(known)[:1]:
            yield _head(conversation, path, _HEAD_LINES)
    if focus.content:
        for path in (*presentations(known)[:1], *fronts(known)[:3]):
            yield _head(conversation, path, _HEAD_LINES)
        for path in documents(known)[:1]:
            yield _head(conversation, path, _HEAD_LINES)
    for path, line in _places(known, focus.terms)[:3]:
        yield _around(conversation, path, line)
    for watch in watched(known, focus):
        places = [place for place in _places(known, (watch.pattern,)) if not is_test(place[0])]
        for path, line in places[:2]:
            yield _around(conversation, path, line)


def _read_openings(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    if focus.content:
        for path in spread(known)[:8]:
            yield _head(conversation, path, _OPENING_LINES)


_Stage: TypeAlias = Callable[[Conversation, Survey, Focus], Wanted]
_STAGES: Sequence[tuple[str, _Stage]] = (
    ("I look around first.", _look),
    ("I read what the workspace says about itself, and list all of it.", _orient),
    ("I search where things begin and what they are called.", _search),
    ("I read the files that the searches point to.", _read_central),
    ("I read how further modules introduce themselves.", _read_openings),
)


def _around(conversation: Conversation, path: str, line: int) -> WantedCall | None:
    return conversation.call("read_file", path=path, start_line=max(1, line - 8), end_line=line + 32)


def _head(conversation: Conversation, path: str, lines: int) -> WantedCall | None:
    """The first lines of a file that was not opened yet."""
    if any(done.name == "read_file" and done.arguments.get("path") == path for done in conversation.done):
        return None
    return conversation.call("read_file", path=path, start_line=1, end_line=lines)


def _different(wanted: Iterable[WantedCall | None]) -> tuple[WantedCall, ...]:
    calls: list[WantedCall] = []
    for call in wanted:
        if call is not None and call not in calls:
            calls.append(call)
    return tuple(calls)


def source_directories(known: Survey) -> list[str]:
    """Directories, two levels deep at most, that hold sources; the root is the empty text.

    What goes along with a program comes last, packages before what is below them, the fullest first.
    """
    counts = Counter(_directory_of(path) for path in known.sources)
    return sorted(
        counts,
        key=lambda directory: (is_aside(directory + "/"), depth_of(directory), -counts[directory], directory),
    )


def fullest_directories(known: Survey) -> list[str]:
    """The same directories, those with the most sources first."""
    counts = Counter(_directory_of(path) for path in known.sources if not is_aside(path))
    return sorted(counts, key=lambda directory: (-counts[directory], directory))


def _directory_of(path: str) -> str:
    return "/".join(path.split("/")[:-1][:2])


def entry_files(known: Survey) -> list[str]:
    """Files in which a program begins, those first that build files start, then the shallow ones."""
    patterns = {language.entry for language, _ in languages_of(known.sources)}
    paths = {hit.path for search in known.searches if search.pattern in patterns for hit in search.hits}
    started = "\n".join(line for found in known.manifests for line in found.starts)
    return sorted(
        (path for path in paths if not is_test(path)),
        key=lambda path: (not _is_started(path, started), is_aside(path), depth_of(path), path),
    )


def _is_started(path: str, started: str) -> bool:
    """The lines about what is started name this file, as a path or as a module."""
    module = path.rsplit(".", 1)[0].removeprefix("src/").replace("/", ".")
    return path in started or f"`{module}:" in started or f"`{module}`" in started


def presentations(known: Survey) -> list[str]:
    """Files in which a package presents itself as a whole, the shallowest first; of use where no README does."""
    names = {"__init__.py", "lib.rs", "doc.go", "index.js", "index.ts"}
    found = [path for path in known.sources if path.rsplit("/", 1)[-1] in names and not is_aside(path)]
    return [] if known.readmes else sorted(found, key=lambda path: (depth_of(path), path))


def fronts(known: Survey) -> list[str]:
    """One file that stands for each source directory."""
    ranked = _ranked(known)
    return [ranked[directory][0] for directory in source_directories(known)]


def spread(known: Survey) -> list[str]:
    """Further sources, taken in turn from each source directory so that none is left out."""
    ranked = _ranked(known)
    columns = [ranked[directory][1:] for directory in source_directories(known)[:8]]
    longest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def documents(known: Survey) -> list[str]:
    """Prose beside the README, the shallowest first."""
    paths = [path for path in known.files if is_document(path) and path not in known.readmes and not is_test(path)]
    return sorted((path for path in paths if language_of(path) is None), key=lambda path: (depth_of(path), path))


def _ranked(known: Survey) -> dict[str, list[str]]:
    """The sources of each directory, those first that stand for it: by name, then by how many names they define."""
    hits = Counter(hit.path for search in known.searches for hit in search.hits)
    found: dict[str, list[str]] = {}
    for path in sorted(known.sources, key=lambda path: (*_front_rank(path), -hits[path], path)):
        found.setdefault(_directory_of(path), []).append(path)
    return found


def _front_rank(path: str) -> tuple[int, int]:
    language: Language | None = language_of(path)
    name = path.rsplit("/", 1)[-1]
    if language and name in language.fronts and name != "__init__.py":
        return (0, language.fronts.index(name))
    return (2 if name.startswith("_") else 1, 0)


def watched(known: Survey, focus: Focus) -> list[Watch]:
    """What a reviewer of these languages looks out for; nothing where there are no sources."""
    languages = [language.name for language, _ in languages_of(known.sources)]
    return [watch for watch in WATCHED[focus.trade] if languages and watch.fits(languages)]


def _places(known: Survey, patterns: Sequence[str]) -> list[tuple[str, int]]:
    """Where to read about these: the first hit of the files with the most hits, code before prose and tests."""
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for search in known.searches:
        if search.pattern in patterns:
            for hit in search.hits:
                first.setdefault(hit.path, hit.line)
                count[hit.path] = count.get(hit.path, 0) + 1
    ranked = sorted(count, key=lambda path: (is_test(path) or language_of(path) is None, -count[path], path))
    return [(path, first[path]) for path in ranked]
