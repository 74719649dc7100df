"""What calls have shown of a workspace, and the next calls: each stage asks for what earlier results point to."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import basename, dirname
from typing import Any

from drone.agent.ports.model import WantedCall
from drone.agent.ports.receipts import passages_shown
from drone.models.offline.look import SUBJECTS, NextStep, RequestSoFar, Wish
from mcc.rules.patterns import Pattern

EVERYTHING = "**/*"
_MOST_LISTED = 2_000
_HEAD_LINES = 80
_MOST_MANIFESTS = 2
_MOST_CENTRAL = 6
_MOST_HITS = 40
_AROUND = 8
_TOTAL = Pattern(r"^(?:the first [\d,]+ of )?(?P<files>[\d,]+) files?\b")

_SUFFIXES: Mapping[str, str] = {
    **{"Python": "py", "Rust": "rs", "Go": "go", "TypeScript": "ts tsx mts", "JavaScript": "js mjs cjs jsx"},
    **{"Java": "java", "C": "c h", "C++": "cpp cc cxx hpp", "C#": "cs", "Ruby": "rb", "PHP": "php", "Shell": "sh bash"},
}
_BY_SUFFIX = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_BEGINS = (
    r"^if __name__ ==|^(async )?def main\(|^\s*(pub )?(async )?fn main\(|^func main\(|^#!.*\b(node|php|ruby)\b"
    r"|^main\(\)|^(int|void)\s+main\s*\(|static void main\(|static .*\bMain\(|^if __FILE__ =="
)
"""Lines (RE2) on which programs begin."""

IMPORTS = (
    r"^\s*(from|import)\s+[.\w]+[^'\"]*$|^\s*#\s*include\s+\"|^\s*(pub )?(mod \w+;|use (crate|super|self)::)"
    r"|(require\(|from |import |import\()\s*['\"]\.{1,2}/"
)
"""Lines (RE2) that import a file of the same project, if the first name after `from` or `import` is one of its own."""

_MODULE = Pattern(r"^\s*(?:from|import)\s+(?P<first>\w+)[^'\"]*$")
TEST_LIBRARIES = (
    r"\b(import|from|use|require)\b.*\b(unittest|pytest|nose|testing|node:test|vitest|mocha|jest|junit|rspec)\b"
)
"""Lines (RE2) on which test files name what runs them."""

BUILD_FILES = (
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts"),
    *("setup.py", "setup.cfg", "composer.json", "Gemfile", "mix.exs", "configure.ac", "CMakeLists.txt"),
    *("meson.build", "Makefile.am", "Makefile", "Dockerfile"),
)
"""Files that describe a project and its build, the most telling first."""

_FRONTS = ("__init__.py", "__main__.py", "lib.rs", "main.rs", "mod.rs", "main.go", "doc.go", "index.js", "index.ts")
_TEST = Pattern(
    r"(?:^|/)(?:tests?|__tests__|specs?|testdata)/|(?:^|/)test_[^/]*$|[._-](?:tests?|spec)\.\w+$"
    r"|(?:^|/)conftest\.py$|(?:^|/)Test[A-Z]\w*\.java$|Tests?\.(?:java|kt|cs)$"
)
_ASIDE = Pattern(
    r"(?:^|/)(?:bench\w*|perf|examples?|samples?|demos?|docs?|fixtures?|vendor|third_party|node_modules|contrib|scripts?"
    r"|tools?|\.[\w-]+)/|(?:^|/)(?:build\.rs|setup\.py|noxfile\.py)$"
)
_README = Pattern(r"(?:^|/)readme(?:\.\w+)?$", ignore_case=True)
GUIDES = (
    "{README*,CONTRIBUTING*,HACKING*,DEVELOP*,INSTALL*,LICEN*,Makefile,*.toml,package.json,tox.ini,setup.cfg,go.mod}"
)
"""Where a project says how it is built, run and tested."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that a reviewer looks for; `pattern` in RE2's syntax. `is_secret`: its lines are not quoted."""

    title: str
    severity: str
    pattern: str
    is_secret: bool = False


_UNFINISHED = r"(^|\s)(#+|//+|/\*+|\*|--|;+|<!--)[^\"'=]*\b(TODO|FIXME|XXX|HACK)\b"
_SECRET = r"(?i)(api_?key|secret|passw(or)?d|token)\w*\s*[:=]\s*[\"'][\w+/-]{16,}[\"']"
WATCHES: Mapping[str, Sequence[Doubt]] = {
    "review": (
        Doubt("Marked as unfinished", "info", _UNFINISHED),
        Doubt("Errors that nobody hears of", "medium", r"except( \w+)?:\s*pass$|catch\s*(\([^)]*\))?\s*\{\s*\}"),
        Doubt("A check that was silenced", "info", r"# type: ignore|# noqa|eslint-disable|@ts-ignore|#!?\[allow\("),
        Doubt("Left over from debugging", "medium", r"\bbreakpoint\(\)|\bpdb\.set_trace|^\s*debugger;|\bdbg!\("),
    ),
    "security": (
        Doubt("Text that is run as code", "medium", r"(^|[^.\w])(eval|exec)\("),
        Doubt("A shell is started", "medium", r"shell=True|\bos\.system\(|child_process|\bpopen\(|(^|[^.\w])system\("),
        Doubt("Data that may run code when read", "medium", r"\b(pickle|marshal)\.loads?\(|yaml\.load\("),
        Doubt("A certificate is not checked", "high", r"verify=False|InsecureSkipVerify|rejectUnauthorized: *false"),
        Doubt("What looks like a secret", "high", _SECRET, is_secret=True),
        Doubt("Copies without a bound", "medium", r"\b(strcpy|strcat|sprintf|gets)\s*\("),
    ),
}
"""What a review of each kind searches for."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    path: str
    number: int
    text: str


@dataclass(frozen=True)
class FilesSurvey:
    """What the results so far show. `files`: listed paths; `total`: how many files there are, None if nothing says it;
    `whole`: whether all are listed. `pages`: the lines that were read, by path and number. `hits`: found lines by
    pattern. `problems`: what tools answered with errors."""

    files: tuple[str, ...] = ()
    total: int | None = None
    whole: bool = False
    pages: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    hits: Mapping[str, tuple[SourceLine, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The program's own files: no tests, and nothing that only accompanies it."""
        known = [path for path in self.files if language_of(path) and not is_test(path)]
        return tuple([path for path in known if not _ASIDE.search(path)] or known)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        return tuple(path for path in self.files if is_test(path) and language_of(path))

    @cached_property
    def languages(self) -> tuple[tuple[str, int], ...]:
        """Languages with the number of listed files in each, most first."""
        counts = Counter(language for path in self.files if (language := language_of(path)))
        return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))

    @cached_property
    def readmes(self) -> list[str]:
        return sorted((path for path in self.files if _README.search(path)), key=_depth)

    @cached_property
    def build_files(self) -> list[str]:
        near = (path for path in self.files if basename(path) in BUILD_FILES and path.count("/") <= 1)
        return sorted(near, key=lambda path: (path.count("/"), BUILD_FILES.index(basename(path)), path))

    @cached_property
    def entries(self) -> list[SourceLine]:
        """The first line of each file on which a program begins."""
        lines = [one for one in self.hits.get(_BEGINS, ()) if not is_test(one.path) and not _ASIDE.search(one.path)]
        firsts = {line.path: line for line in reversed(lines)}
        return sorted(firsts.values(), key=lambda line: _depth(line.path))

    @cached_property
    def imports(self) -> list[SourceLine]:
        """Lines that import a file of this project: the name after `import` is a module at its top or in `src/`."""
        tops = {path.removeprefix("src/").split("/")[0].partition(".")[0] for path in self.files if language_of(path)}
        lines = ((line, _MODULE.match(line.text[:500])) for line in self.hits.get(IMPORTS, ()))
        kept = [line for line, module in lines if module is None or module["first"] in tops]
        return sorted(kept, key=lambda line: bool(_ASIDE.search(line.path)))

    def central(self) -> list[str]:
        """A few sources to read: of each directory, the largest first, the file that speaks for it."""
        by_directory: dict[str, list[str]] = {}
        for path in self.sources:
            by_directory.setdefault("/".join(dirname(path).split("/")[:2]), []).append(path)
        ordered = sorted(by_directory.items(), key=lambda one: (-len(one[1]), one[0]))
        fronts = [min(paths, key=lambda path: (path.count("/"), *_front(path))) for _, paths in ordered]
        others = [path for _, paths in ordered for path in sorted(paths, key=_depth)[:3]]
        return list(dict.fromkeys([*fronts, *others]))[:_MOST_CENTRAL]


def survey(conversation: RequestSoFar) -> FilesSurvey:
    """Everything that the results of reading tools show."""
    files, pages, hits = dict[str, None](), dict[str, dict[int, str]](), dict[str, tuple[SourceLine, ...]]()
    total, whole = None, False
    for done in conversation.results("find_files"):
        named, counted, complete = listing(done.content)
        files.update(dict.fromkeys(named))
        if done.arguments.get("pattern") == EVERYTHING:
            total, whole = counted, complete
    for done in conversation.results("search_text", "read_file"):
        shown = passages_shown(done.name, done.arguments, done.content)
        places = [(page.path.removeprefix("./"), *line) for page in shown for line in enumerate(page.lines, page.first)]
        if done.name == "search_text":
            pattern, lines = str(done.arguments.get("pattern")), (SourceLine(*place) for place in places)
            hits[pattern] = tuple(dict.fromkeys((*hits.get(pattern, ()), *lines)))
            continue
        for path, number, text in places:
            pages.setdefault(path, {})[number] = text
    problems = dict.fromkeys(done.content.strip() for done in conversation.done if done.is_error)
    return FilesSurvey(tuple(files), total, whole, pages, hits, tuple(problems))


def listing(text: str) -> tuple[list[str], int | None, bool]:
    """The files in a result of `find_files`, how many there are, and whether all are shown."""
    first, *lines = text.split("\n")
    counted = _TOTAL.match(first)
    named = [json_text(line) for line in lines if line and line[0] not in "[…"]
    total = int(counted["files"].replace(",", "")) if counted else None
    return named, total, total is not None and not any(line.startswith("[") for line in lines)


def next_step(conversation: RequestSoFar, known: FilesSurvey, wish: Wish) -> NextStep | None:
    """The next calls not made yet; None when it is time to report."""
    if conversation.must_finish:
        return None
    stages = (
        ("I look around first.", _look_around),
        ("I read what the workspace says about itself.", _orient),
        ("I search for what the request is about.", _search),
        ("I read the files that this points to.", _read_central),
    )
    steps = (conversation.step(saying, stage(conversation, known, wish)) for saying, stage in stages)
    return next((step for step in steps if step is not None), None)


def _look_around(conversation: RequestSoFar, known: FilesSurvey, wish: Wish) -> Iterator[WantedCall | None]:
    yield conversation.call("find_files", pattern=EVERYTHING, limit=_MOST_LISTED)


def _orient(conversation: RequestSoFar, known: FilesSurvey, wish: Wish) -> Iterator[WantedCall | None]:
    if wish.kind in ("explain", "parts", "code"):
        for path in (*known.readmes[:1], *known.build_files[:_MOST_MANIFESTS]):
            yield _read(conversation, path)


def _search(conversation: RequestSoFar, known: FilesSurvey, wish: Wish) -> Iterator[WantedCall | None]:
    code = glob_of(name for name, _ in known.languages)
    if wish.kind in ("explain", "parts") and code:
        yield conversation.call("search_text", pattern=_BEGINS, glob=code, limit=10 * _MOST_HITS)
    if wish.kind in ("explain", "code") and code:
        yield conversation.call("search_text", pattern=IMPORTS, glob=code, limit=10 * _MOST_HITS)
    if wish.subject == "tests" and code:
        yield conversation.call("search_text", pattern=TEST_LIBRARIES, glob=code, limit=_MOST_HITS)
    if wish.kind in ("explain", "code") or wish.subject:
        pattern = SUBJECTS[wish.subject or "tests"][1]
        yield conversation.call("search_text", pattern=pattern, glob=GUIDES, case_sensitive=False, limit=_MOST_HITS)
    for watch in WATCHES.get(wish.kind, ()) if code else ():
        yield conversation.call("search_text", pattern=watch.pattern, glob=code, limit=_MOST_HITS)
    for term in wish.terms:
        # Prose sorts first by its path, and would leave no room for the code.
        for glob in (code, None):
            yield conversation.call(
                "search_text", pattern=term, literal=True, case_sensitive=False, glob=glob, limit=_MOST_HITS
            )


def _read_central(conversation: RequestSoFar, known: FilesSurvey, wish: Wish) -> Iterator[WantedCall | None]:
    if wish.kind in ("explain", "parts"):
        for line in known.entries[:3]:
            yield _read(conversation, line.path, line.number)
    if wish.kind in ("explain", "code"):
        for path in (*known.central(), *sorted(known.tests, key=_depth)[:1]):
            yield _read(conversation, path)
    patterns = [watch.pattern for watch in WATCHES.get(wish.kind, ())] + list(wish.terms)
    patterns += [SUBJECTS[wish.subject][1]] if wish.subject else []
    lines = [line for pattern in patterns for line in [*known.hits.get(pattern, ())][:3]]
    for line in lines:
        yield _read(conversation, line.path, line.number)
    if not lines and not known.pages:
        for path in (known.readmes or known.central() or list(known.files))[:1]:
            yield _read(conversation, path)


def _read(conversation: RequestSoFar, path: str, line: int = 1) -> WantedCall | None:
    """A call that reads the head of a file, or the lines around one; None if that was asked for before."""
    start = max(1, line - _AROUND)
    reads = (done.arguments for done in conversation.done if done.name == "read_file")
    spans = [(one.get("start_line", 1), one.get("end_line", line)) for one in reads if one.get("path") == path]
    if any(first <= line <= last for first, last in spans):
        return None
    return conversation.call("read_file", path=path, start_line=start, end_line=start + _HEAD_LINES)


def language_of(path: str) -> str | None:
    return _BY_SUFFIX.get(basename(path).rpartition(".")[2].lower()) if "." in basename(path)[1:] else None


def is_test(path: str) -> bool:
    return bool(_TEST.search(path))


def glob_of(languages: Iterable[str]) -> str | None:
    """A glob for files in these languages; None without any."""
    suffixes = [suffix for name in languages for suffix in _SUFFIXES[name].split()]
    return f"*.{{{','.join(suffixes)}}}" if len(suffixes) > 1 else f"*.{suffixes[0]}" if suffixes else None


def json_object(text: str) -> dict[str, Any]:
    """The JSON object that the text is, or that begins on one of its first lines; empty if there is none."""
    start = 0 if text.startswith("{") else text.find("\n{", 0, 2_000) + 1
    try:
        value = json.JSONDecoder().raw_decode(text, start)[0] if text.startswith("{", start) else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_text(line: str) -> str:
    """A path as tools write it on one line: as it is, or JSON-quoted."""
    try:
        return str(json.loads(line)) if line.startswith('"') else line
    except ValueError:
        return line


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _front(path: str) -> tuple[bool, str]:
    return basename(path) not in _FRONTS, path
