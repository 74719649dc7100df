"""Texts with CEL in braces: `Report for {date}`. Where one pair of braces is a whole text, the value keeps its kind."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from mcc.contracts.shape import to_json
from mcc.rules.errors import MAX_STEPS, ExpressionError, Fault, StepsExhausted
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import JsonCopy, Shape
from mcc.rules.patterns import Pattern
from mcc.rules.times import Duration, Timestamp

MOST_EXPRESSIONS = 50
"""In one text."""
MOST_CHARACTERS = 1_000_000
"""Of all that one `Braces` makes."""
MOST_CEL = 20_000
"""Characters of CEL in all of its expressions. Parsing that much takes up to about half a second."""
MOST_LEVELS = 100
QUOTED = 200

_OPENING = Pattern(r"\{\{|\{")
_INSIDE = Pattern(
    r'[rR]"""(?:.|\n)*?"""|[rR]\'\'\'(?:.|\n)*?\'\'\'|[rR]"[^"\n]*"|[rR]\'[^\'\n]*\''
    r'|"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|//[^\n]*|[{}]",
    across=True,
)
"""What may hold a brace that does not end an expression, and braces."""


class Unfilled(ValueError):
    """A text of a template that is not filled in. `place`: where it stands, such as `metadata.day`; `str()` is a
    sentence without its full stop."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


class Braces:
    """Fills texts in with values: `{…}` is a CEL expression over the names of `shapes`, `{{` a brace. All that one of
    these fills in shares one budget of steps and characters.

    `values`: JSON, for each of the names.
    """

    def __init__(self, shapes: Mapping[str, Shape], values: Mapping[str, object]) -> None:
        self._shapes = tuple(shapes.items())
        copy = JsonCopy()
        self._values = {name: copy.of(values[name]) for name in shapes}
        self._steps = MAX_STEPS
        self._characters = MOST_CHARACTERS
        self._cel = MOST_CEL

    def filled(self, value: Any, place: str) -> Any:
        """`value` with all its texts filled in, but for the keys of objects. Raises `Unfilled`."""
        return self._filled(value, place, self._text)

    def framed(self, text: str, place: str, frame: Callable[[str], str]) -> str:
        """`text` filled in, each value as words, framed, and on lines of its own. Raises `Unfilled`."""
        return str(self._filled(text, place, lambda each: self._in_frames(each, frame)))

    def check(self, value: Any, place: str) -> None:
        """Compile all expressions in `value`. Raises `Unfilled`."""
        self._filled(value, place, self._pieces)

    def _filled(self, value: Any, place: str, act: Callable[[str], Any], levels: int = MOST_LEVELS) -> Any:
        if levels == 0:
            raise Unfilled(place, f"this is nested deeper than {MOST_LEVELS} levels")
        if isinstance(value, str):
            try:
                return act(value)
            except (ExpressionError, Fault) as error:
                raise Unfilled(place, str(error)) from error
            except StepsExhausted as error:
                raise Unfilled(place, "its expressions take more steps than one order may") from error
            except RecursionError as error:
                raise Unfilled(place, "its values are nested too deeply") from error
        if isinstance(value, Mapping):
            return {name: self._filled(item, f"{place}.{name}", act, levels - 1) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(item, f"{place}[{index}]", act, levels - 1) for index, item in enumerate(value)]
        return value

    def _text(self, text: str) -> Any:
        pieces = self._pieces(text)
        if len(pieces) == 1 and isinstance(pieces[0], Expression):
            return self._counted(self._plain(pieces[0]))
        made = (piece if isinstance(piece, str) else as_words(self._plain(piece)) for piece in pieces)
        return self._counted("".join(made))

    def _in_frames(self, text: str, frame: Callable[[str], str]) -> str:
        made, is_behind_frame = "", False
        for piece in self._pieces(text):
            is_framed = isinstance(piece, Expression)
            words = frame(as_words(self._plain(piece))) if isinstance(piece, Expression) else piece
            if words:
                apart = (is_framed or is_behind_frame) and made and not made.endswith("\n") and words[0] != "\n"
                made += ("\n" if apart else "") + self._counted(words)
                is_behind_frame = is_framed
        return made

    def _pieces(self, text: str) -> list[str | Expression]:
        """Literal texts, and expressions. Raises `ExpressionError`."""
        pieces: list[str | Expression] = []
        literal, at, expressions = "", 0, 0
        while (opening := _OPENING.search(text, at)) is not None:
            literal += text[at : opening.start()]
            at = opening.end()
            if opening.group() == "{{":
                literal += "{"
                continue
            pieces += [literal] if literal else []
            literal, end = "", _end(text, at)
            expressions += 1
            self._cel -= end - at
            if expressions > MOST_EXPRESSIONS or self._cel < 0:
                raise ExpressionError(
                    f"there are more than {MOST_EXPRESSIONS} expressions in one text, or {MOST_CEL:,} characters in all"
                )
            pieces.append(_compiled(text[at:end], self._shapes))
            at = end + 1
        literal += text[at:]
        return [*pieces, literal] if literal or not pieces else pieces

    def _plain(self, piece: Expression) -> Any:
        """The value of an expression as JSON."""
        frame = piece.frame(self._values, self._steps)
        value = piece.value(frame)
        self._steps = frame.steps
        return JsonCopy().of(str(value) if isinstance(value, Timestamp | Duration) else value)

    def _counted(self, value: Any) -> Any:
        self._characters -= len(value if isinstance(value, str) else to_json(value))
        if self._characters < 0:
            raise Fault(f"this makes more than {MOST_CHARACTERS:,} characters")
        return value


def as_words(value: Any) -> str:
    """A value of JSON in the middle of a text: texts as they are, null as nothing, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()


def _end(text: str, start: int) -> int:
    """Where the brace stands that ends the expression which begins at `start`. Raises `ExpressionError`."""
    depth = 0
    for match in _INSIDE.finditer(text[start:]):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}" and depth == 0:
            return start + match.start()
        elif match.group() == "}":
            depth -= 1
    quoted = text[start - 1 : start + 40]
    raise ExpressionError(f"the expression that begins with {quoted!r} has no }} at its end; write {{{{ for a brace")


@functools.lru_cache(maxsize=512)
def _compiled(text: str, shapes: tuple[tuple[str, Shape], ...]) -> Expression:
    try:
        return expression(text, dict(shapes))
    except ExpressionError as error:
        raise ExpressionError(f"in {{{text[:QUOTED]}}}: {error}") from error
