"""The ignore files in force during a walk, from its root down to where it is: easy ones matched here, others aside."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from drone.tools.ignore import MAX_BYTES, PLAIN_BYTES, IgnoreFile, Read, Rules

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

    aside: Aside
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
        if new and not rules.told:
            rules.told = True
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
    told: bool = False
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
