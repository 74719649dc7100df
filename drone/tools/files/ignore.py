"""Ignore files such as .gitignore: which names of a directory they exclude.

Small rule sets are matched in this process, all others in a separate one that can be killed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import re2

from drone.tools.files.pattern import GlobError, expression
from mcc.side_process import CutOff, SideProcess

MAX_BYTES = 64_000
MAX_RULES = 1_000
MAX_CHARACTERS = 200
"""Limits of one ignore file: bytes and rules beyond these, and longer rules, are ignored."""

PLAIN_BYTES = 8_000
PLAIN_PATTERNS = 64
PLAIN_WILDCARDS = 4
PLAIN_CHARACTERS = 1_000
"""An ignore file within these limits is matched in this process: the worst name costs some milliseconds.

PLAIN_CHARACTERS limits all its patterns together: once RE2 has too many states to cache, it follows every character of
them.
"""

_RE2_BYTES = 4_000_000
_WILD = "*?["


class Rules(Protocol):
    """The rules of one ignore file.

    `verdicts` takes paths relative to the file's directory, each with whether it is a directory, and returns for each
    True (ignored), False (explicitly kept) or None (no rule matches).
    """

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]: ...


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of an ignore file. `whole_path`: the glob matches the whole path, else only its last name."""

    negated: bool
    glob: str
    only_directories: bool
    whole_path: bool

    @property
    def plain(self) -> str | None:
        """The only string that matches; None if the glob has wildcards."""
        return None if any(mark in self.glob for mark in (*_WILD, "\\")) else self.glob

    @property
    def suffix(self) -> str | None:
        """The required suffix of a name, for a rule such as `*.pyc`; None for any other rule."""
        ending = self.glob[1:]
        plain = self.glob.startswith("*") and ending and not any(mark in ending for mark in (*_WILD, "\\"))
        return ending if plain and not self.whole_path else None


@dataclass(frozen=True, slots=True)
class ParsedRules:
    """The rules of an ignore file; `left_out` says, as a part of a sentence, what exceeded the limits."""

    rules: tuple[IgnoreRule, ...]
    left_out: str = ""

    @classmethod
    def of(cls, data: bytes) -> "ParsedRules":
        """Parse a file; lines that are no valid pattern match nothing, as in git."""
        text = data[:MAX_BYTES].removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        lines = text.split("\n")
        left_out = []
        if len(data) > MAX_BYTES:
            lines.pop()
            left_out.append(f"what comes after {MAX_BYTES:,} bytes")
        rules = list(_rules(lines))
        short = [rule for rule in rules if len(rule.glob) <= MAX_CHARACTERS]
        if len(short) < len(rules):
            left_out.append(f"{len(rules) - len(short):,} rules of more than {MAX_CHARACTERS} characters")
        if len(short) > MAX_RULES:
            left_out.append(f"rules after the first {MAX_RULES:,}")
        return cls(tuple(short[:MAX_RULES]), " and ".join(left_out))

    @property
    def plain(self) -> bool:
        """Whether matching any name against these rules takes negligible time."""
        patterns = [rule.glob for rule in self.rules if rule.plain is None and rule.suffix is None]
        few = len(patterns) <= PLAIN_PATTERNS and sum(map(len, patterns)) <= PLAIN_CHARACTERS
        return few and all(sum(glob.count(mark) for mark in _WILD) <= PLAIN_WILDCARDS for glob in patterns)


class IgnoreFile:
    """The rules of one ignore file. The last rule that matches decides."""

    def __init__(self, rules: Iterable[IgnoreRule]) -> None:
        runs = [(negated, _Run.of(run)) for negated, run in groupby(rules, lambda rule: rule.negated)]
        self._runs = tuple(reversed(runs))

    @classmethod
    def parse(cls, data: bytes) -> "IgnoreFile":
        return cls(ParsedRules.of(data).rules)

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        return [self.verdict(path, directory=directory) for path, directory in paths]

    def verdict(self, path: bytes, *, directory: bool) -> bool | None:
        name = path[path.rfind(b"/") + 1 :]
        for negated, run in self._runs:
            if run.names.match(name, directory) or run.paths.match(path, directory):
                return not negated
        return None


@dataclass(slots=True)
class _Subjects:
    """Rules that match the same kind of subject, a name or a path, sorted by the way they match."""

    plain: set[bytes] = field(default_factory=set)
    plain_directories: set[bytes] = field(default_factory=set)
    suffixes: tuple[bytes, ...] = ()
    suffixes_directories: tuple[bytes, ...] = ()
    patterns: "list[re2._Regexp]" = field(default_factory=list)

    @classmethod
    def of(cls, rules: Iterable[IgnoreRule]) -> "_Subjects":
        found, expressions = cls(), []
        for rule in rules:
            if rule.plain is not None:
                (found.plain_directories if rule.only_directories else found.plain).add(rule.plain.encode("latin-1"))
            elif (suffix := rule.suffix) is not None and rule.only_directories:
                found.suffixes_directories += (suffix.encode("latin-1"),)
            elif suffix is not None:
                found.suffixes += (suffix.encode("latin-1"),)
            else:
                expressions.append(expression(rule.glob) + ("/" if rule.only_directories else "/?"))
        found.patterns = _compiled(expressions) if expressions else []
        return found

    def match(self, subject: bytes, directory: bool) -> bool:
        if subject in self.plain or (self.suffixes and subject.endswith(self.suffixes)):
            return True
        if directory and (subject in self.plain_directories or subject.endswith(self.suffixes_directories)):
            return True
        if not self.patterns:
            return False
        marked = subject + b"/" if directory else subject
        return any(pattern.fullmatch(marked) is not None for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive rules with the same verdict."""

    names: _Subjects
    paths: _Subjects

    @classmethod
    def of(cls, rules: Iterable[IgnoreRule]) -> "_Run":
        listed = list(rules)
        return cls(
            _Subjects.of(rule for rule in listed if not rule.whole_path),
            _Subjects.of(rule for rule in listed if rule.whole_path),
        )


def _rules(lines: Iterable[str]) -> Iterator[IgnoreRule]:
    for line in lines:
        text = _trimmed(line.removesuffix("\r"))
        if text.startswith("#"):
            continue
        negated = text.startswith("!")
        pattern = text[1:] if negated else text
        bare = pattern.removesuffix("/")
        if bare and _is_valid(bare):
            yield IgnoreRule(negated, bare.removeprefix("/"), pattern.endswith("/"), "/" in bare)


def _is_valid(glob: str) -> bool:
    """Whether a rule's glob is valid; too long ones count as valid here, because they are reported as left out."""
    try:
        return len(glob) > MAX_CHARACTERS or bool(expression(glob.removeprefix("/")))
    except GlobError:
        return False


def _trimmed(text: str) -> str:
    """The line without trailing spaces, except one that a backslash escapes."""
    bare = text.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(text) else bare


def _compiled(expressions: list[str]) -> "list[re2._Regexp]":
    """The expressions combined into as few automata as their size allows; matching takes linear time."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _RE2_BYTES
    try:
        return [re2.compile("|".join(f"(?:{part})" for part in expressions).encode("latin-1"), options)]
    except re2.error:
        if len(expressions) == 1:
            return []
        middle = len(expressions) // 2
        return _compiled(expressions[:middle]) + _compiled(expressions[middle:])


SECONDS = 1.0
"""Processor time in the separate process for matching one ignore file against up to a thousand names."""

MOST_IN_FORCE = 64
"""The most ignore files, in the directories above, that apply to one directory."""

_BATCH = 1_000
_IN_PROCESS_BATCH = 20


@dataclass(frozen=True, slots=True)
class Ignored:
    """The ignore files from the root down to a directory; the deepest one with a verdict decides."""

    files: tuple[tuple[bytes, Rules], ...] = ()

    def among(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool]:
        """Whether each path (given with whether it is a directory) is ignored."""
        decided: dict[int, bool] = {}
        for base, rules in reversed(self.files):
            undecided = [index for index in range(len(paths)) if index not in decided]
            verdicts = rules.verdicts([(paths[index][0][len(base) :], paths[index][1]) for index in undecided])
            pairs = zip(undecided, verdicts, strict=True)
            decided.update((index, verdict) for index, verdict in pairs if verdict is not None)
        return [decided.get(index, False) for index in range(len(paths))]

    def plus(self, base: bytes, rules: Rules) -> "Ignored":
        return Ignored((*self.files, (base, rules)))


@dataclass(slots=True)
class IgnoreReader:
    """Makes rules of ignore files: plain ones are matched in this process, others in the process of `aside`.

    `notes` collects sentences on what was left out. Once `is_over` answers True, all rules answer None for every path,
    so that a walk ends in time however many names are left.
    """

    aside: SideProcess
    notes: list[str]
    is_over: Callable[[], bool] = lambda: False
    _loaded: dict[int, "_AsideRules"] = field(default_factory=dict)

    def rules(self, name: str, data: bytes, above: Ignored) -> Rules | None:
        """The rules of the file `name`; None if too many ignore files above it are in force.

        `data` is the file's content, of which the caller need not read more than `MAX_BYTES` and one.
        """
        if len(above.files) >= MOST_IN_FORCE:
            self.notes.append(f"{name} was not applied: {MOST_IN_FORCE} ignore files above it already are.")
            return None
        # Asking another process takes longer than matching such a file, and nearly all ignore files are like that.
        if len(data) <= PLAIN_BYTES and (parsed := ParsedRules.of(data)).plain:
            self.note_left_out(name, parsed.left_out)
            return _InProcessRules(IgnoreFile(parsed.rules), self.is_over)
        return _AsideRules(self, name, data, len(above.files))

    def note_left_out(self, name: str, left_out: str) -> None:
        if left_out:
            self.notes.append(f"Of {name}, {left_out} were not applied.")

    def ask(self, rules: "_AsideRules", paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        """The verdicts of the separate process, which keeps one ignore file per level. Raises `CutOff`."""
        question: dict[str, object] = {
            "level": rules.level,
            "paths": [(path.decode("latin-1"), directory) for path, directory in paths],
        }
        new = self._loaded.get(rules.level) is not rules
        if new:
            question["text"] = rules.data.decode("latin-1")
        answer = self.aside.ask(question, SECONDS)
        self._loaded[rules.level] = rules
        if new and not rules.reported:
            rules.reported = True
            self.note_left_out(rules.name, answer["left_out"])
        verdicts: list[bool | None] = answer["verdicts"]
        return verdicts

    def forget(self) -> None:
        """The separate process is gone, with the files it had loaded."""
        self._loaded.clear()


@dataclass(frozen=True, slots=True)
class _InProcessRules:
    """The rules of a plain file, matched in this process."""

    file: IgnoreFile
    is_over: Callable[[], bool]

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        found: list[bool | None] = []
        for begin in range(0, len(paths), _IN_PROCESS_BATCH):
            piece = paths[begin : begin + _IN_PROCESS_BATCH]
            found.extend([None] * len(piece) if self.is_over() else self.file.verdicts(piece))
        return found


@dataclass(slots=True, eq=False)
class _AsideRules:
    """The rules of a file that might match slowly, matched in the separate process; dropped once they prove slow."""

    reader: IgnoreReader
    name: str
    data: bytes
    level: int
    reported: bool = False
    dropped: bool = False

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        found: list[bool | None] = []
        for begin in range(0, len(paths), _BATCH):
            piece = paths[begin : begin + _BATCH]
            is_dropped = self.dropped or self.reader.is_over()
            found.extend([None] * len(piece) if is_dropped else self._verdicts(piece))
        return found

    def _verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        try:
            return self.reader.ask(self, paths)
        except CutOff as error:
            # Asked no more: each further question about it would take as long again.
            self.dropped = True
            self.reader.forget()
            self.reader.notes.append(f"{self.name} applies to nothing from here on: {error}.")
            return [None] * len(paths)


def ignore_matcher() -> Callable[[Any], object]:
    """The function that the separate process runs: it keeps the rules of each level and matches paths against them."""
    levels: dict[int, IgnoreFile] = {}

    def answer(question: Any) -> object:
        level, left_out = question["level"], ""
        if "text" in question:
            parsed = ParsedRules.of(question["text"].encode("latin-1")[: MAX_BYTES + 1])
            levels[level], left_out = IgnoreFile(parsed.rules), parsed.left_out
        paths = [(path.encode("latin-1"), directory) for path, directory in question["paths"]]
        return {"left_out": left_out, "verdicts": levels[level].verdicts(paths)}

    return answer
