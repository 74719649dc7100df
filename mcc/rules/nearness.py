"""Which of some names was probably meant, within bounds: comparing two long names takes their lengths squared."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

_CHARACTERS = 80
_NAMES = 1_000
_COMPARED = 20
"""Characters of a name and names that are looked at, and how many of those that share most letters are compared."""


def alike(word: str, names: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `n` of `names`, the nearest first, none of them less like `word` than `cutoff` (1.0 is the same)."""
    matcher = SequenceMatcher(b=word[:_CHARACTERS], autojunk=False)
    promising: list[tuple[float, str]] = []
    for name in islice(names, _NAMES):
        matcher.set_seq1(name[:_CHARACTERS])
        if matcher.real_quick_ratio() >= cutoff and (most := matcher.quick_ratio()) >= cutoff:
            promising.append((most, name))
    found: list[tuple[float, str]] = []
    for _, name in nlargest(_COMPARED, promising):
        matcher.set_seq1(name[:_CHARACTERS])
        if (ratio := matcher.ratio()) >= cutoff:
            found.append((ratio, name))
    return [name for _, name in nlargest(n, found)]
