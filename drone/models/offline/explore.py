"""Step-by-step exploration of a workspace: each stage requests what earlier results point to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Literal, TypeAlias

from drone.agent.ports.model import WantedCall
from drone.models.offline.conversation import Conversation
from drone.models.offline.languages import depth_of, glob_of, is_accompanying, is_test, language_of, languages_of
from drone.models.offline.parts import to_read
from drone.models.offline.request import Focus, ReviewKind
from drone.models.offline.survey import Survey

Severity: TypeAlias = Literal["info", "warning", "error"]

_MOST_ROUNDS = 8
EVERYTHING = "**/*"
_HEAD_LINES = 60
_MANIFEST_LINES = 400
_MOST_MANIFESTS = 8
_COMMITS = 10
_PROGRAMS = frozenset({"__main__.py", "main.py", "cli.py", "app.py", "manage.py"})
_MOST_READ_AGAIN = 8
_MOST_REVIEW_HITS = 60
_MOST_LISTED = 2_000


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """One thing that a reviewer looks for. `pattern`: RE2 syntax, matched per line; `languages`: None = all;
    `is_secret`: hits must not be quoted in full."""

    title: str
    severity: Severity
    pattern: str
    languages: frozenset[str] | None = None
    is_secret: bool = False

    def fits(self, languages: Sequence[str]) -> bool:
        return self.languages is None or not self.languages.isdisjoint(languages)


_SCRIPTS = frozenset({"Python", "JavaScript", "TypeScript", "Ruby", "PHP"})
_NATIVE = frozenset({"C", "C++"})
_COMPILED = frozenset({"Rust", "Go", "C"})

_SILENCED = r"# type: ignore|# noqa|eslint-disable|@ts-ignore|#!?\[allow\("
_UNCHECKED = r"verify=False|InsecureSkipVerify|rejectUnauthorized: *false"
_UNFINISHED = r"(^|\s)(#+|//+|/\*+|\*|--|;+|<!--)[^\"'=]*\b(TODO|FIXME|XXX|HACK)\b"
_SECRET = r"(?i)(api_?key|secret|passw(or)?d|token)\w*\s*[:=]\s*[\"'][\w+/-]{16,}[\"']"

REVIEW_RULES: Mapping[ReviewKind, Sequence[ReviewRule]] = {
    "": (),
    "review": (
        ReviewRule("Marked as unfinished", "info", _UNFINISHED),
        ReviewRule("Errors that nobody hears of", "warning", r"except( \w+)?:\s*pass$|catch\s*(\([^)]*\))?\s*\{\s*\}"),
        ReviewRule("Checks that were silenced", "info", _SILENCED),
        ReviewRule("Left over from debugging", "warning", r"\bbreakpoint\(\)|\bpdb\.set_trace|^\s*debugger;|\bdbg!\("),
        ReviewRule("Ends the program on an error", "info", r"\.unwrap\(\)|\bpanic!?\(|\babort\(\)", _COMPILED),
    ),
    "security": (
        ReviewRule("Text that is run as code", "warning", r"(^|[^.\w])(eval|exec)\(", _SCRIPTS),
        ReviewRule(
            "A shell is started", "warning", r"shell=True|\bos\.system\(|child_process|\bpopen\(|(^|[^.\w])system\("
        ),
        ReviewRule(
            "Data that may run code when read", "warning", r"\b(pickle|marshal)\.loads?\(|yaml\.load\(", _SCRIPTS
        ),
        ReviewRule("A certificate that is not checked", "error", _UNCHECKED),
        ReviewRule("What looks like a secret", "error", _SECRET, is_secret=True),
        ReviewRule("Copies without a bound", "warning", r"\b(strcpy|strcat|sprintf|gets)\s*\(", _NATIVE),
        ReviewRule("Unchecked by the compiler", "info", r"\bunsafe\b", frozenset({"Rust"})),
    ),
}

Wanted: TypeAlias = Iterator[WantedCall | None]


@dataclass(frozen=True, slots=True)
class Step:
    """The next step: a sentence about it, and calls that are independent of each other."""

    saying: str
    calls: tuple[WantedCall, ...]


def next_step(conversation: Conversation, known: Survey, focus: Focus) -> Step | None:
    """The next calls not made yet; None when it is time to report."""
    if conversation.must_finish or conversation.rounds >= _MOST_ROUNDS:
        return None
    for saying, stage in _STAGES:
        calls = _distinct(stage(conversation, known, focus))
        if calls:
            return Step(saying, calls)
    return None


def read_again(conversation: Conversation, known: Survey) -> Step | None:
    """In a later turn, read the files of earlier turns again, as they may have changed."""
    if not conversation.earlier or conversation.must_finish or not known.pages:
        return None
    if any(done.name == "read_file" for done in conversation.done):
        return None
    calls = _distinct(_read_head(conversation, path, _HEAD_LINES) for path in list(known.pages)[:_MOST_READ_AGAIN])
    return Step("I look at the files once more.", calls) if calls else None


def _look_around(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    yield conversation.call("list_files", depth=3, limit=_MOST_LISTED)
    yield conversation.call("environment_detect")
    if "list_files" not in conversation.tools:
        yield conversation.call("find_files", pattern=EVERYTHING, limit=_MOST_LISTED)


def _orient(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    near = [path for path in known.build_files if depth_of(path) <= 1]
    for path in (*known.readmes[:1], *near[:_MOST_MANIFESTS]):
        yield _read_head(conversation, path, _MANIFEST_LINES)
    yield conversation.call("find_files", pattern=EVERYTHING, limit=_MOST_LISTED)
    if focus.review and known.environment.has_git:
        yield conversation.call("git_status")
        yield conversation.call("git_log", limit=_COMMITS)


def _count_languages(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    """Count the files per language if the listing of all files was cut short."""
    if not known.whole:
        for language, _ in languages_of(known.files)[:3]:
            yield conversation.call("find_files", pattern=f"**/{glob_of(language)}", limit=_MOST_LISTED)


def _search(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    yield from _count_languages(conversation, known, focus)
    for language in known.languages if focus.structure or focus.content else ():
        yield conversation.call("search_text", pattern=language.entry, glob=glob_of(language))
    for language in known.languages if focus.content else ():
        for pattern in (known.importing(language), language.public):
            for path in known.regions() if pattern else ():
                yield conversation.call(
                    "search_text", pattern=pattern, path=path or None, glob=glob_of(language), limit=_MOST_LISTED
                )
    for watch in review_rules(known, focus):
        glob = glob_of(*(language for language, _ in languages_of(known.sources)))
        yield conversation.call("search_text", pattern=watch.pattern, glob=glob, limit=_MOST_REVIEW_HITS)
    for term in focus.terms:
        # Prose sorts first alphabetically, and would leave no room for the code.
        for files, most in ((glob_of(*known.languages) if known.languages else None, 400), (None, 60)):
            yield conversation.call(
                "search_text", pattern=term, literal=True, case_sensitive=False, glob=files, limit=most
            )


def _read_central(conversation: Conversation, known: Survey, focus: Focus) -> Wanted:
    if focus.structure:
        for path in entry_files(known)[:3]:
            yield _read_head(conversation, path, _HEAD_LINES)
    if focus.content:
        for path, _ in to_read(known, known.graph(), started_files(known)):
            yield _read_head(conversation, path, _HEAD_LINES)
    for path, line in _places_of(known, focus.terms)[:3]:
        yield _read_around(conversation, path, line)
    for watch in review_rules(known, focus):
        places = [place for place in _places_of(known, (watch.pattern,)) if not is_test(place[0])]
        for path, line in places[:2]:
            yield _read_around(conversation, path, line)


_Stage: TypeAlias = Callable[[Conversation, Survey, Focus], Wanted]
_STAGES: Sequence[tuple[str, _Stage]] = (
    ("I look around first.", _look_around),
    ("I read what the workspace says about itself, and list all of it.", _orient),
    ("I search where things begin, what uses what, and what it is called.", _search),
    ("I read the files that the searches point to.", _read_central),
)


def _read_around(conversation: Conversation, path: str, line: int) -> WantedCall | None:
    return conversation.call("read_file", path=path, start_line=max(1, line - 8), end_line=line + 32)


def _read_head(conversation: Conversation, path: str, lines: int) -> WantedCall | None:
    """Read the first lines of a file that has not been opened yet."""
    if any(done.name == "read_file" and done.arguments.get("path") == path for done in conversation.done):
        return None
    return conversation.call("read_file", path=path, start_line=1, end_line=lines)


def _distinct(wanted: Iterable[WantedCall | None]) -> tuple[WantedCall, ...]:
    calls: list[WantedCall] = []
    for call in wanted:
        if call is not None and call not in calls:
            calls.append(call)
    return tuple(calls)


def entry_files(known: Survey) -> list[str]:
    """Files in which a program begins: those started by build files first, then by depth."""
    patterns = {language.entry for language in known.languages}
    paths = {hit.path for search in known.searches if search.pattern in patterns for hit in search.hits}
    started = _start_lines(known)
    return sorted(
        (path for path in paths if not is_test(path) and not is_accompanying(path)),
        key=lambda path: (not _is_started(path, started), depth_of(path), path),
    )


def started_files(known: Survey) -> list[str]:
    """Entry files meant to be started: in Python many modules can be run and are mainly imported."""
    started = _start_lines(known)
    return [
        path
        for path in entry_files(known)
        if not path.endswith(".py") or basename(path) in _PROGRAMS or _is_started(path, started)
    ]


def _start_lines(known: Survey) -> str:
    return "\n".join(line for found in known.manifests for line in found.starts)


def _is_started(path: str, started: str) -> bool:
    """Whether the lines about entry points name this file, as a path or as a module."""
    module = path.rsplit(".", 1)[0].removeprefix("src/").replace("/", ".")
    return path in started or f"`{module}:" in started or f"`{module}`" in started


def review_rules(known: Survey, focus: Focus) -> list[ReviewRule]:
    """What a reviewer of these languages looks for; empty without sources."""
    languages = [language.name for language, _ in languages_of(known.sources)]
    return [watch for watch in REVIEW_RULES[focus.review] if languages and watch.fits(languages)]


def _places_of(known: Survey, patterns: Sequence[str]) -> list[tuple[str, int]]:
    """Where to read about these patterns: the first hit of each file, most hits first, code before prose and tests."""
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for search in known.searches:
        if search.pattern in patterns:
            for hit in search.hits:
                first.setdefault(hit.path, hit.line)
                count[hit.path] = count.get(hit.path, 0) + 1
    ranked = sorted(count, key=lambda path: (is_test(path) or language_of(path) is None, -count[path], path))
    return [(path, first[path]) for path in ranked]
