"""Sentences of a conversation that must outlive it: which hold a rule or an identifier, and their short forms."""

from collections.abc import Iterator
from functools import lru_cache

from mcc.rules.patterns import Pattern

MOST_CHARACTERS = 400
"""A longer sentence is none: it is text from a file or a program."""

_ENDS = Pattern(r"[.!?;]+(?:[\"')\]]*)\s+|\n+")
_BULLET = Pattern(r"^\s*(?:[-*•>#]+|\d{1,3}[.)])\s+")
_LABEL = Pattern(r"^\W{0,3}([A-Z][A-Z]+(?: [A-Z]{2,}){0,3}|[A-Z][a-z]{2,15}(?: [a-z]{2,12})?):\s+")
"""`HARD CONSTRAINT: …`, `Decision: …`, `Quick update: …`."""

_RULE = Pattern(
    r"\b(?:never|always|must|only|do not|don't|does not|cannot|can't|may not|not|no|nobody|without|until|unless|"
    r"at most|at least|no more than|limit|limits|cap|capped|deadline|due|from now on|instead|prefer|prefers|preferred|"
    r"wants?|would rather|please|should|keep|required?|requires|forbidden|agreed|decided|approv(?:e|es|ed|al)|"
    r"before|until after|next step|next up|awaiting|waiting for|open question|current task|remember)\b",
    ignore_case=True,
)

_POINTS_BACK = Pattern(r"\b(?:it|them|they)\b|^(?:this|that|these|those)\b", ignore_case=True)
_CHANGE = Pattern(
    r"\b(?:now|update|updated|changed?|changes|moved|rotated|switched|renamed|rebased|replaced|no longer|instead|"
    r"retired|from now on)\b",
    ignore_case=True,
)

_VALUES = (
    r"https?://[^\s<>\"')\]]+",
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    r"[$€£]\s?\d[\d,.]*\d|[$€£]\s?\d",
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?",
    r"v?\d+\.\d+(?:\.\d+)*",
    r"~?/?(?:[\w.+-]+/)+[\w.+-]*(?::\d+(?::\d+)?)?",
    r"[\w-]+\.(?:py|ts|js|go|rs|java|md|toml|yaml|yml|json|sql|sh|txt|cfg|ini|c|h|cpp|html|css)(?::\d+)?",
    r"\b[0-9a-f]*(?:[0-9][0-9a-f]*[a-f]|[a-f][0-9a-f]*[0-9])[0-9a-f]*\b",
    r"[A-Za-z][A-Za-z]*[-_]?\d[\w-]*",
    r"\d[\d,]*(?:\s?(?:%|ms|s|min|h|days?|hours?|minutes?|seconds?|[KMG]i?B|tokens?|dollars?|euros?)\b)?",
)
_NAMES = (r"[A-Za-z]+(?:_[A-Za-z0-9]+)+", r"[a-z]+[A-Z]\w+|(?:[A-Z][a-z0-9]+){2,}", r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+")
_VALUE = Pattern("|".join(f"(?:{one})" for one in _VALUES))
_NAMED = Pattern("|".join(f"(?:{one})" for one in (*_VALUES, *_NAMES)))
_HEX = 7
_WORD = Pattern(r"[\w']+|¤")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILLERS = _listed(
    "a an the is are was were be been being am that this these those it its there here in order just also very quite "
    "really currently total now please so then and all any has have had will shall would to"
)
_SMALL = _listed("from for at by in on with into onto as user user's users we our us you your i or")
_SPARED = _FILLERS | _SMALL | {"of"}


def sentences(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence of a text with the label of its line ("" without one), which counts for all sentences of a line."""
    for line in text.split("\n"):
        line = _BULLET.sub("", line.strip())
        label = ""
        if (labelled := _LABEL.match(line)) is not None:
            label, line = labelled[1], line[labelled.end() :]
        start = 0
        for end in _ENDS.finditer(line):
            if (piece := line[start : end.end()].strip()) and len(piece) <= MOST_CHARACTERS:
                yield piece, label
            start = end.end()
        if (rest := line[start:].strip()) and len(rest) <= MOST_CHARACTERS:
            yield rest, label


def has_rule(sentence: str) -> bool:
    return _RULE.search(sentence) is not None


def has_change(sentence: str) -> bool:
    """Whether it says that something is different from before."""
    return _CHANGE.search(sentence) is not None


def points_back(sentence: str) -> bool:
    """Whether it can be understood only together with the sentence before it."""
    return _POINTS_BACK.search(sentence) is not None


def has_identifier(sentence: str, *, of_person: bool) -> bool:
    """Whether it names something that cannot be guessed. Of a name such as snake_case this is said only where a person
    used it."""
    pattern = _NAMED if of_person else _VALUE
    return any(_tells(match.group(), of_person) for match in pattern.finditer(sentence))


def _tells(value: str, of_person: bool) -> bool:
    plain = value.strip()
    if plain.isdigit():
        return of_person and len(plain) >= 2
    is_hex = all(letter in "0123456789abcdef" for letter in plain)
    return not is_hex or len(plain) >= _HEX


@lru_cache(maxsize=4_096)
def key_of(sentence: str) -> str:
    """The same for two sentences that say the same of different values: the later one goes for the earlier one, also
    where an earlier summary has shortened it."""
    masked = _NAMED.sub("¤", sentence)
    words = (word.lower() for word in _WORD.findall(masked))
    return " ".join(word for word in words if word not in _SPARED)


def shortened(sentence: str, step: int) -> str:
    """The sentence without words that say nothing (step 1), and without all words that can be spared (step 2)."""
    if step == 0:
        return sentence
    words = sentence.split()
    kept = [word for place, word in enumerate(words) if not _spared(words, place, step)]
    return " ".join(kept).rstrip(".;,") or sentence


def _spared(words: list[str], place: int, step: int) -> bool:
    word = words[place].lower()
    if word == "of":  # but not in "3 of 5"
        return step == 2 and not (place and words[place - 1][-1:].isdigit())
    return word in _FILLERS or (step == 2 and word in _SMALL)
