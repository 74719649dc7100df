"""Ignore files such as .gitignore: which names of a directory a project does not count as its own.

Rules within a small bound are matched in the drone, all others in a process aside of it that can be killed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import re2

from drone.sandbox.side_process import CutOff, SideProcess
from drone.tools.pattern import GlobError, expression

MAX_BYTES = 64_000
MAX_RULES = 1_000
MAX_CHARACTERS = 200
"""What is heeded of one ignore file: its first bytes, its first rules, and no rule that is longer."""

PLAIN_BYTES = 8_000
PLAIN_PATTERNS = 64
PLAIN_WILDCARDS = 4
PLAIN_CHARACTERS = 1_000
"""An ignore file within these bounds is held against names at once: its worst name costs some milliseconds.

The last is of all its patterns: an automaton that meets too many states to keep follows every character of them.
"""

_NESTED = 4_000_000
_WILD = "*?["


class Rules(Protocol):
    """What an ignore file says of paths relative to its directory, each with whether it is a directory.

    True: ignored, False: wanted after all, None: nothing is said.
    """

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file. `glob` without a slash is about a last name, any other about the whole path."""

    negated: bool
    glob: str
    only_directories: bool
    whole_path: bool

    @property
    def plain(self) -> str | None:
        """What a name must be; None for a pattern."""
        return None if any(mark in self.glob for mark in (*_WILD, "\\")) else self.glob

    @property
    def suffix(self) -> str | None:
        """What a name must end in, for a rule such as `*.pyc`."""
        ending = self.glob[1:]
        plain = self.glob.startswith("*") and ending and not any(mark in ending for mark in (*_WILD, "\\"))
        return ending if plain and not self.whole_path else None


@dataclass(frozen=True, slots=True)
class Read:
    """The rules of a file's bytes, and what was not heeded, in the middle of a sentence; empty when all was."""

    rules: tuple[Rule, ...]
    left_out: str = ""

    @classmethod
    def of(cls, data: bytes) -> "Read":
        """Lines that are no valid pattern match nothing, as in git."""
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
        """Whether holding these rules against a name takes no time worth speaking of, whatever the name."""
        patterns = [rule.glob for rule in self.rules if rule.plain is None and rule.suffix is None]
        few = len(patterns) <= PLAIN_PATTERNS and sum(map(len, patterns)) <= PLAIN_CHARACTERS
        return few and all(sum(glob.count(mark) for mark in _WILD) <= PLAIN_WILDCARDS for glob in patterns)


class IgnoreFile:
    """The rules of one ignore file. The last rule that matches decides."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        runs = [(negated, _Run.of(run)) for negated, run in groupby(rules, lambda rule: rule.negated)]
        self._runs = tuple(reversed(runs))

    @classmethod
    def parse(cls, data: bytes) -> "IgnoreFile":
        return cls(Read.of(data).rules)

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
    """Rules about one kind of subject, sorted by how they are held against it."""

    plain: set[bytes] = field(default_factory=set)
    plain_directories: set[bytes] = field(default_factory=set)
    suffixes: tuple[bytes, ...] = ()
    suffixes_directories: tuple[bytes, ...] = ()
    patterns: "list[re2._Regexp]" = field(default_factory=list)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "_Subjects":
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
        written = subject + b"/" if directory else subject
        return any(pattern.fullmatch(written) is not None for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class _Run:
    """Rules that stand one after the other and say the same."""

    names: _Subjects
    paths: _Subjects

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "_Run":
        listed = list(rules)
        return cls(
            _Subjects.of(rule for rule in listed if not rule.whole_path),
            _Subjects.of(rule for rule in listed if rule.whole_path),
        )


def _rules(lines: Iterable[str]) -> Iterator[Rule]:
    for line in lines:
        text = _trimmed(line.removesuffix("\r"))
        if text.startswith("#"):
            continue
        negated = text.startswith("!")
        pattern = text[1:] if negated else text
        bare = pattern.removesuffix("/")
        if bare and _is_valid(bare):
            yield Rule(negated, bare.removeprefix("/"), pattern.endswith("/"), "/" in bare)


def _is_valid(glob: str) -> bool:
    """A rule that is too long is one that is told to be left out."""
    try:
        return len(glob) > MAX_CHARACTERS or bool(expression(glob.removeprefix("/")))
    except GlobError:
        return False


def _trimmed(text: str) -> str:
    """Without trailing spaces, but for one that a backslash keeps."""
    bare = text.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(text) else bare


def _compiled(expressions: list[str]) -> "list[re2._Regexp]":
    """The expressions as few automata as their size allows; each is linear in the length of a subject."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _NESTED
    try:
        return [re2.compile("|".join(f"(?:{one})" for one in expressions).encode("latin-1"), options)]
    except re2.error:
        if len(expressions) == 1:
            return []
        middle = len(expressions) // 2
        return _compiled(expressions[:middle]) + _compiled(expressions[middle:])


SECONDS = 1.0
"""Processor time that the rules of one ignore file may take for the names of one directory, a thousand at a time."""

MOST_IN_FORCE = 64
"""Ignore files that are heeded for one directory: those of so many directories above it."""

_AT_ONCE = 1_000
_HERE_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Ignored:
    """Ignore files from the root down to a directory; the deepest that says anything decides."""

    files: tuple[tuple[bytes, Rules], ...] = ()

    def among(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool]:
        """Whether each path (with whether it is a directory) is left out."""
        decided: dict[int, bool] = {}
        for base, rules in reversed(self.files):
            open_ones = [index for index in range(len(paths)) if index not in decided]
            verdicts = rules.verdicts([(paths[index][0][len(base) :], paths[index][1]) for index in open_ones])
            decided.update((index, said) for index, said in zip(open_ones, verdicts, strict=True) if said is not None)
        return [decided.get(index, False) for index in range(len(paths))]

    def plus(self, base: bytes, rules: Rules) -> "Ignored":
        return Ignored((*self.files, (base, rules)))


@dataclass(slots=True)
class IgnoreReader:
    """Makes rules of ignore files: those that are plain here, the others in the process of `aside`.

    What is not heeded is told by sentences in `notes`. `is_over`: nobody wants to know any more; from then on the rules
    say nothing, so that no number of names holds them for longer.
    """

    aside: SideProcess
    notes: list[str]
    is_over: Callable[[], bool] = lambda: False
    _held: dict[int, "_Aside"] = field(default_factory=dict)

    def rules(self, name: str, data: bytes, above: Ignored) -> Rules | None:
        """The rules in `data` of the file `name`, at most a byte longer than is heeded; None where none may be more."""
        if len(above.files) >= MOST_IN_FORCE:
            self.notes.append(f"{name} was not heeded: {MOST_IN_FORCE} ignore files above it are.")
            return None
        if len(data) <= PLAIN_BYTES and (read := Read.of(data)).plain:
            self.tell(name, read.left_out)
            return _Here(IgnoreFile(read.rules), self.is_over)
        return _Aside(self, name, data, len(above.files))

    def tell(self, name: str, left_out: str) -> None:
        if left_out:
            self.notes.append(f"Of {name}, {left_out} were not heeded.")

    def asked(self, rules: "_Aside", paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        """What the rules say, from the process aside, which holds one file for each level. Raises `CutOff`."""
        question: dict[str, object] = {
            "level": rules.level,
            "paths": [(path.decode("latin-1"), directory) for path, directory in paths],
        }
        new = self._held.get(rules.level) is not rules
        if new:
            question["text"] = rules.data.decode("latin-1")
        answer = self.aside.ask(question, SECONDS)
        self._held[rules.level] = rules
        if new and not rules.reported:
            rules.reported = True
            self.tell(rules.name, answer["left_out"])
        verdicts: list[bool | None] = answer["verdicts"]
        return verdicts

    def forget(self) -> None:
        """The process aside is gone, and what it held with it."""
        self._held.clear()


@dataclass(frozen=True, slots=True)
class _Here:
    """The rules of a file that is plain."""

    file: IgnoreFile
    is_over: Callable[[], bool]

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        found: list[bool | None] = []
        for begin in range(0, len(paths), _HERE_AT_ONCE):
            piece = paths[begin : begin + _HERE_AT_ONCE]
            found.extend([None] * len(piece) if self.is_over() else self.file.verdicts(piece))
        return found


@dataclass(slots=True, eq=False)
class _Aside:
    """The rules of a file that could be slow. One that is, is not heeded any longer."""

    reader: IgnoreReader
    name: str
    data: bytes
    level: int
    reported: bool = False
    dropped: bool = False

    def verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        found: list[bool | None] = []
        for begin in range(0, len(paths), _AT_ONCE):
            piece = paths[begin : begin + _AT_ONCE]
            is_dropped = self.dropped or self.reader.is_over()
            found.extend([None] * len(piece) if is_dropped else self._verdicts(piece))
        return found

    def _verdicts(self, paths: Sequence[tuple[bytes, bool]]) -> list[bool | None]:
        try:
            return self.reader.asked(self, paths)
        except CutOff as error:
            self.dropped = True
            self.reader.forget()
            self.reader.notes.append(f"{self.name} was not heeded any more: {error}.")
            return [None] * len(paths)


def answering() -> Callable[[Any], object]:
    """What the process aside does: keeps the rules of each level, and holds names against them."""
    levels: dict[int, IgnoreFile] = {}

    def answer(question: Any) -> object:
        level, left_out = question["level"], ""
        if "text" in question:
            read = Read.of(question["text"].encode("latin-1")[: MAX_BYTES + 1])
            levels[level], left_out = IgnoreFile(read.rules), read.left_out
        paths = [(path.encode("latin-1"), directory) for path, directory in question["paths"]]
        return {"left_out": left_out, "verdicts": levels[level].verdicts(paths)}

    return answer
