"""Words to search in: how texts are split into them, and what a question asks for, alike on both databases.

A stored word is `w` and the word, of which other characters than ASCII are written as numbers. So both databases split
at the spaces alone, and neither's own rules for scripts, accents or numbers count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mcc.store.rows.note_rows import WORDS, words_of

TEXT_CHARACTERS = 20_000
"""Characters of a text that are indexed."""

QUESTION_CHARACTERS = 10_000
"""Characters of a question that are read."""

WORD_CHARACTERS = 40
"""Of a longer word, this beginning is indexed and asked for."""

ENDINGS = ("ing", "ion", "ed", "es", "ly", "er", "s")
STEM_CHARACTERS = 4
"""Characters that are left at least when an ending is taken off."""

SHORT_CHARACTERS = 2
"""A word of so few ASCII characters is not the beginning of a longer one: too many begin alike."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a question. `stored`: as in the index, `shown`: as in texts in lower case. `begins`: it is the
    beginning of the words that match, else all of them."""

    stored: str
    shown: str
    begins: bool


def stored_words(text: str) -> str:
    """The words of a text as they are indexed, each once."""
    return " ".join(dict.fromkeys(map(_stored, words_of(text[:TEXT_CHARACTERS]))))


def terms_of(question: str) -> Sequence[Term]:
    """What the words of a question ask for, each once, at most `WORDS`."""
    terms: dict[str, Term] = {}
    for word in words_of(question[:QUESTION_CHARACTERS]):
        stem = _stem(word)
        begins = not (stem.isascii() and len(stem) <= SHORT_CHARACTERS)
        terms.setdefault(stem, Term(_stored(stem), stem[:WORD_CHARACTERS], begins))
        if len(terms) == WORDS:
            break
    return [*terms.values()]


def session_word(session_id: str) -> str:
    """The word that all entries of a session have, and no text."""
    return f"s{session_id.replace('-', '')}"


def having_all(terms: Sequence[Term], dialect: str) -> str:
    """The query for texts that have all of these words, as a full-text index of this database reads it.

    Stored words have letters and digits of ASCII alone: nothing in a question reaches a database's query language.
    """
    quote, beginning, also = ("'", ":*", " & ") if dialect == "postgresql" else ('"', " *", " AND ")
    return also.join(f"{quote}{term.stored}{quote}{beginning if term.begins else ''}" for term in terms)


def _stem(word: str) -> str:
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= STEM_CHARACTERS:
            return word.removesuffix(ending)
    return word


def _stored(word: str) -> str:
    word = word[:WORD_CHARACTERS]
    return "w" + (word if word.isascii() else "".join(one if one.isascii() else f"q{ord(one):05x}" for one in word))
