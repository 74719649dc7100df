"""Makes a text that matches a simple regular expression of letters, classes and repetitions."""

from collections.abc import Iterator

from mcc.rules.patterns import Found, Pattern

_PIECE = Pattern(
    r"\[(?P<not>\^?)(?P<class>(?:\\.|[^\]\\])+)\]|\\(?P<escape>.)|(?P<sign>[\^$().?*+|])|(?P<letter>[^{}\[\]\\])"
    r"|\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}"
)
_RANGE = Pattern(r"(?P<first>[^\\])-(?P<last>[^\\])|\\(?P<escape>.)|(?P<one>.)")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_CLASSES = {"d": _DIGITS, "w": _LETTERS, "s": " "}
_LONGEST = 60


def example_of(pattern: str, chance: int) -> str:
    """A match of the first alternative; unsupported syntax is taken literally."""
    made: list[str] = []
    for number, (allowed, times) in enumerate(_pieces(pattern)):
        if not allowed:
            continue
        step = chance >> (number % 40)
        made += [allowed[(step + place * 7) % len(allowed)] for place in range(min(times, _LONGEST))]
    return "".join(made)


def _pieces(pattern: str) -> Iterator[tuple[str, int]]:
    """The characters allowed at each position, and how many are needed."""
    pending = ""
    for found in _PIECE.finditer(pattern):
        if found["least"] is not None:
            yield pending, int(found["least"])
            pending = ""
            continue
        if found["sign"] in ("?", "*", "+"):
            yield pending, 0 if found["sign"] in "?*" else 1
            pending = ""
            continue
        if found["sign"] == "|":
            break
        if pending:
            yield pending, 1
        pending = _allowed(found)
    if pending:
        yield pending, 1


def _allowed(found: Found) -> str:
    if found["class"]:
        inside = "".join(_members(found["class"]))
        every = _LETTERS + _LETTERS.upper() + _DIGITS
        return "".join(one for one in every if one not in inside) if found["not"] else inside
    if found["escape"]:
        return str(_CLASSES.get(found["escape"], found["escape"]))
    if found["sign"]:
        return _LETTERS if found["sign"] == "." else ""
    return str(found["letter"])


def _members(inside: str) -> Iterator[str]:
    for found in _RANGE.finditer(inside):
        if found["first"]:
            yield from map(chr, range(ord(found["first"]), min(ord(found["last"]), ord(found["first"]) + 100) + 1))
        elif found["escape"]:
            yield _CLASSES.get(found["escape"], found["escape"])
        else:
            yield found["one"]
