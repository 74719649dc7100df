"""This room is for what is wrong with a declared rule or schema, told to the person who wrote it.

ValueError
├── RuleError      a CEL expression that cannot be used
└── SchemaError    a JSON Schema that cannot be used
"""

from collections.abc import Iterable

from mcc.rules.nearness import alike


class RuleError(ValueError):
    """A CEL expression that cannot be used; `sentence` says what is wrong and what to do.

    `line` and `column` count from 1 and `offset` from 0 within the expression; all None when the whole is meant.
    `str()` is the sentence with its position.
    """

    def __init__(
        self, sentence: str, line: int | None = None, column: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(sentence if column is None else f"{sentence} (line {line}, column {column} of the expression)")
        self.sentence = sentence
        self.line = line
        self.column = column
        self.offset = offset


class SchemaError(ValueError):
    """A JSON Schema that cannot be used. `place` leads to the part that is wrong, such as `properties.age.type`,
    and is empty when the whole is meant; `str()` joins place and sentence.
    """

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(f"{place}: {sentence}" if place else sentence)
        self.sentence = sentence
        self.place = place


def meant(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `word` was probably meant to be; None when nothing is near."""
    plainly = {_plain(name): name for name in sorted(known, reverse=True)}
    found = alike(_plain(word[:100]), plainly)
    return plainly[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
