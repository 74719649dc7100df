"""What files say about themselves: a README's opening, a source's description, the names it defines."""

import pytest

from drone.models.offline.prose import names_defined, opening_of_readme, own_words
from drone.models.offline.tool_output import Page


def page(text: str) -> Page:
    return Page(tuple(text.split("\n")))


@pytest.mark.parametrize(
    "badges",
    [
        "[![CI](https://x.example/badge.svg?b=main)](https://x.example/ci)",
        "[![Package Manager\nCI](https://x.example/badge.svg)](https://x.example/ci.yml)",
        "![a wide picture of what\nit does](https://x.example/picture.png)",
    ],
)
def test_a_badge_is_no_opening_even_over_several_lines(badges: str) -> None:
    readme = page(f"# Quorvex\n\n{badges}\n{badges}\n\nA press for grapes, and for whatever else needs pressing.\n")
    assert opening_of_readme(readme) == "A press for grapes, and for whatever else needs pressing."


def test_text_beside_an_image_is_kept() -> None:
    readme = page("# Quorvex\n\n![logo](l.png) A press for [grapes](g.md), and for whatever needs it.\n")
    assert opening_of_readme(readme) == "A press for grapes, and for whatever needs it."


@pytest.mark.parametrize(
    "line",
    [
        "const http = require('node:http')",
        "const fs = await import('node:fs')",
        "export const url = require ('url')",
    ],
)
def test_a_name_for_another_module_is_not_defined_here(line: str) -> None:
    assert names_defined([line, "function press (grape) {"]) == ("press",)


@pytest.mark.parametrize("word", ["istanbul ignore file", "c8 ignore next", "jshint esversion: 6"])
def test_a_tool_directive_is_not_a_file_s_description(word: str) -> None:
    assert own_words(page(f"/* {word} */\nconst x = 1\n")) == ""


def test_a_title_is_not_a_module_s_description() -> None:
    text = '"""\npress.grapes\n~~~~~~~~~~~~\n\nThis presses grapes. And more.\n"""\n'
    assert own_words(page(text)) == "This presses grapes."
    assert own_words(page('"""\nPressing grapes\n===============\n"""\n')) == "Pressing grapes"
