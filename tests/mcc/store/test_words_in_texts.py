"""The words of texts in ASCII, which are split by a table, are those of any text."""

from mcc.store.rows.note_rows import words_of
from mcc.store.rows.words import WORD_CHARACTERS, stored_words

OTHER = "ß"
"""A letter beyond ASCII: a text that has it is split character by character."""


def test_a_text_in_ascii_has_the_words_that_it_has_among_other_letters() -> None:
    for code in range(128):
        text = f"Aa{chr(code)}Z9 {chr(code)}x"
        assert words_of(text) == words_of(f"{text} {OTHER}")[:-1], code


def test_a_long_word_is_stored_up_to_a_bound_in_either_alphabet() -> None:
    assert stored_words("B" * 2 * WORD_CHARACTERS) == "w" + "b" * WORD_CHARACTERS
    assert stored_words("é" * 2 * WORD_CHARACTERS) == "w" + "q000e9" * WORD_CHARACTERS
    assert stored_words("né a-B a") == "wnq000e9 wa wb"
