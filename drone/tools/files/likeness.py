"""Texts that look alike: the part of a file that is most like what a call named, and the characters that differ."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from mcc.contracts.similar import close_matches
from mcc.rules.patterns import Pattern

LINES = 20_000
"""Lines of a file that are compared by likeness."""

_ALIKE = 0.6
_AT_ONCE = 1_000
_WINDOW = 200
_PLACES = 5
_MOST_NAMED = 5
_LONGEST_REGION = 200_000

_SAME = {
    " ": "\t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "": "\r\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063"
    "\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff",
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4`",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63",
    "...": "\u2026",
    "ss": "\u00df",
    "*": "\u2217\u2022",
    "x": "\u00d7",
}


def _folding() -> dict[int, str]:
    """A character that looks like others, or that cannot be seen, with what it is compared as."""
    table = {ord(char): same for same, chars in _SAME.items() for char in chars}
    table.update((code, chr(code - 0xFEE0)) for code in range(0xFF01, 0xFF5F))
    table.update(dict.fromkeys(range(0x300, 0x370), ""))  # accents that stand by themselves
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0xFB00, 0xFB07)):
        decomposed = unicodedata.normalize("NFKD", chr(code))
        plain = "".join(char for char in decomposed if not unicodedata.combining(char))
        if plain != chr(code):
            table.setdefault(code, plain)
    return table


_FOLDING: Mapping[int, str] = _folding()
_NUMBERED = Pattern(r"^[ ]*\d+(?:\t|[ ]?→|[ ]?\||:[ ]?)")


def folded(text: str) -> str:
    """`text` as it looks: without accents, with plain quotes, dashes and blanks, and none at the ends of lines."""
    plain = text.translate(_FOLDING)
    while "  " in plain:
        plain = plain.replace("  ", " ")
    return plain.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


def without_numbers(text: str) -> str | None:
    """The text without the line numbers that tools show before lines; None where not every line has one."""
    lines = text.strip("\n").split("\n")
    found = [_NUMBERED.match(line) for line in lines]
    if not all(one is not None or not line.strip() for one, line in zip(found, lines, strict=True)) or not any(found):
        return None
    return "\n".join(line if one is None else line[one.end() :] for one, line in zip(found, lines, strict=True))


def differences(text: str, wanted: str) -> tuple[int, list[str]] | None:
    """Where `text` holds something that only looks like `wanted`: index of its first line, and what differs.

    Each difference says which characters are in the text where `wanted` has others. Both with `\\n` line ends; linear.
    """
    look = folded(wanted.strip("\n"))
    folded_text = folded(text) if look else ""
    at = folded_text.find(look) if look else -1
    if at < 0:
        return None
    line = folded_text.count("\n", 0, at)
    region = "\n".join(text.split("\n")[line : line + look.count("\n") + 1])
    if len(region) > _LONGEST_REGION:
        return line, []
    units, parts = _units(region)
    place, (_, sought) = units.find(look), _units(wanted.strip("\n"))
    actual = parts[place : place + len(look)]
    return line, list(_named(sought, actual)) if place >= 0 and len(sought) == len(actual) else []


def _units(text: str) -> tuple[str, list[str]]:
    """`folded` of the text, and for each of its characters those of the text that it stands for."""
    looks: list[str] = []
    parts: list[str] = []
    for char in text:
        look = _FOLDING.get(ord(char), char)
        last = looks[-1] if looks else "\n"
        if look == "\n" and last == " ":
            looks[-1] = "\n"
            parts[-1] += char
        elif parts and (look == "" or (look == " " and last in " \n")):
            parts[-1] += char
        elif look and not (look == " " and not looks):
            looks += look
            parts += [char, *[""] * (len(look) - 1)]
    if looks and looks[-1] == " ":
        looks.pop()
        parts.pop()
    return "".join(looks), parts


def _named(wanted: Sequence[str], actual: Sequence[str]) -> Iterator[str]:
    """Sentences on the runs in which the two differ, the first few."""
    named, at = 0, 0
    while at < len(wanted) and named < _MOST_NAMED:
        end = at
        while end < len(wanted) and wanted[end] != actual[end]:
            end += 1
        if end > at:
            named += 1
            present, sought = _apart("".join(actual[at:end]), "".join(wanted[at:end]))
            yield f"{characters(present)} where old has {characters(sought)}"
        at = max(end, at + 1)


def _apart(one: str, other: str) -> tuple[str, str]:
    """Both without what they begin and end with alike."""
    begin = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[begin:], other[begin:]
    pairs = zip(reversed(one), reversed(other), strict=False)
    end = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    return one[: len(one) - end], other[: len(other) - end]


def characters(text: str) -> str:
    """The first characters by their code points, with their names: `U+00A0 NO-BREAK SPACE`, `4 x U+0020 SPACE`."""
    runs = [(char, len(list(run))) for char, run in groupby(text[:_WINDOW])][:_MOST_NAMED]
    shown = (f"{f'{count} x ' if count > 1 else ''}U+{ord(char):04X} {_name(char)}".rstrip() for char, count in runs)
    return " and ".join(shown) or "nothing"


def _name(char: str) -> str:
    return {"\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN"}.get(char, unicodedata.name(char, ""))


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> tuple[int, Sequence[str]] | None:
    """The part that is most like `wanted`: index of its first line, its lines. None if nothing is like it.

    First the one that shares most lines, not counting indentation; else most lines that look the same; else the one
    line that is most like the longest one wanted. Only the first `LINES` lines are compared.
    """
    searched, sought = [line.strip() for line in lines[:LINES]], [line.strip() for line in wanted[:_WINDOW]]
    start = _by_votes(searched, sought)
    if start is None:
        start = _by_votes([folded(line[:_WINDOW]) for line in searched], [folded(line[:_WINDOW]) for line in sought])
    if start is None:
        start = _by_likeness(searched, sought)
    return None if start is None else (start, lines[start : start + len(sought)])


def _by_votes(searched: Sequence[str], sought: Sequence[str]) -> int | None:
    """Each line that both share votes for the start which would align the two; the start with most votes wins."""
    offsets: dict[str, list[int]] = {}
    for number, line in enumerate(sought):
        if line:
            offsets.setdefault(line, []).append(number)
    votes: dict[int, int] = {}
    for number, line in enumerate(searched):
        for offset in offsets.get(line, ())[:_PLACES]:
            votes[number - offset] = votes.get(number - offset, 0) + 1
    return max(0, max(votes, key=lambda candidate: (votes[candidate], -candidate))) if votes else None


def _by_likeness(searched: Sequence[str], sought: Sequence[str]) -> int | None:
    number, longest = max(enumerate(sought), key=lambda one: len(one[1]), default=(0, ""))
    likest = [
        line
        for at in range(0, len(searched), _AT_ONCE)
        for line in close_matches(longest, searched[at : at + _AT_ONCE], cutoff=_ALIKE)
    ]
    matches = close_matches(longest, likest, cutoff=_ALIKE)
    return max(0, searched.index(matches[0]) - number) if matches else None
