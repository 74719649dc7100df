"""This room is for what is wrong with an agent file, told to the person who wrote it."""

from collections.abc import Iterable

from mcc.rules.errors import meant


class DefinitionError(ValueError):
    """An agent file that cannot be used: `source` labels the file, `line` counts from 1 (None when unknown).

    `sentence` says what is wrong and what to do; `str()` joins all three.
    """

    def __init__(self, source: str, sentence: str, line: int | None = None) -> None:
        super().__init__(f"{source}{'' if line is None else f', line {line}'}: {sentence}")
        self.source = source
        self.sentence = sentence
        self.line = line


class NotAgreed(DefinitionError):
    """Nothing is wrong with the file, but its operator did not agree to what it wants to be."""


def suggestion(word: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """`; did you mean 'x'?`, or, when nothing is near, what there is: `listed`, else all of `known`."""
    names = sorted(known)
    near = meant(word, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    shown = sorted(names if listed is None else listed)
    return f"; there is: {', '.join(shown)}" if shown else "; there is none"
