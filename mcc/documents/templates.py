"""Templates of bindings and descriptions: text with field names in braces, without expressions."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from mcc.contracts.similar import closest_name
from mcc.definitions.front_matter import suggestion
from mcc.rules.patterns import Pattern

MAX_TEXT = 100_000
"""Most characters that a template produces. Bounded because templates may read the output of other templates."""

UNSET = "(not set)"

_PIECES = Pattern(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
_NAME = Pattern(r"(?:parent\.)?(?:metadata|props)\.[a-z][a-z0-9_]{0,63}|position")
_FORMS = "{metadata.x}, {props.x} and {position}"

Lookup = Callable[[str], Any]


class TemplateError(ValueError):
    """The text is no valid template; the message is a sentence without its full stop."""


class TooLong(ValueError):
    """A template produced more than `MAX_TEXT` characters."""


@dataclass(frozen=True, slots=True)
class Template:
    """`pieces` are literal texts and, as one-tuples, names; `names` are the names used, each once."""

    source: str
    pieces: tuple[str | tuple[str], ...]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, known: Collection[str] | None = None, *, parent: bool = False) -> "Template":
        """`known` are the existing names (those of the parent are not checked), None = any name; `parent`: whether
        `parent.` names are allowed. Raises `TemplateError`."""
        pieces: list[str | tuple[str]] = []
        at = 0
        for match in _PIECES.finditer(text):
            pieces.append(text[at : match.start()])
            at = match.end()
            brace = text[match.start() : at]
            if brace in ("{{", "}}"):
                pieces.append(brace[0])
            elif len(brace) == 1:
                raise TemplateError(f"A single {brace!r} stands here; write {brace * 2!r} for a brace")
            else:
                pieces.append((_name(brace[1:-1].strip(), known, parent),))
        pieces.append(text[at:])
        names = tuple(dict.fromkeys(piece[0] for piece in pieces if isinstance(piece, tuple)))
        return cls(text, tuple(piece for piece in pieces if piece), names)

    @property
    def alone(self) -> str | None:
        """The name, where the template is one name in braces and nothing else."""
        return self.pieces[0][0] if len(self.pieces) == 1 and isinstance(self.pieces[0], tuple) else None

    def text(self, lookup: Lookup, unset: str = UNSET) -> str:
        """The text with each name replaced by its value, or by `unset` where it has none. Raises `TooLong`."""
        made: list[str] = []
        left = MAX_TEXT
        for piece in self.pieces:
            value = lookup(piece[0]) if isinstance(piece, tuple) else piece
            made.append(unset if value is None else as_text(value))
            left -= len(made[-1])
            if left < 0:
                raise TooLong(f"This makes more than {MAX_TEXT:,} characters.")
        return "".join(made)

    def value(self, lookup: Lookup) -> Any:
        """A lone name gives its value unconverted; other templates give text, or None if any name has no value.

        Raises `TooLong`.
        """
        if self.alone is not None:
            return lookup(self.alone)
        return None if any(lookup(name) is None for name in self.names) else self.text(lookup)


def _name(name: str, known: Collection[str] | None, parent: bool) -> str:
    if not _NAME.fullmatch(name):
        parents = " and {parent.metadata.x}, {parent.props.x}" if parent else ""
        raise TemplateError(f"{{{name[:60]}}} is no name of a template; there is {_FORMS}{parents}")
    if name.startswith("parent.") and not parent:
        raise TemplateError(f"{{{name}}} is not known here: only a binding names what the parent has")
    if known is not None and name != "position" and not name.startswith("parent.") and name not in known:
        raise TemplateError(f"There is no {name}{nearest_field(name, known)}")
    return name


def nearest_field(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'props.title'?` for the nearest key in the same section of `known`; else the list of all."""
    section, _, key = name.partition(".")
    keys = [one.partition(".")[2] for one in known if one.startswith(f"{section}.")]
    near = closest_name(key, keys)
    return f"; did you mean '{section}.{near}'?" if near is not None else suggestion("", known)


def as_text(value: object) -> str:
    """A field's value as text, such as a template inserts."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case list() | tuple():
            return ", ".join(map(as_text, value))
    return str(value)
