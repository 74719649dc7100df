"""No expression of the product looks at the same characters again and again; those that could are not there at all."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import re2

from mcc.rules.patterns import Pattern
from tests.hostile.growth import grows_faster_than_its_input
from tests.hostile.product_patterns import ROOT, Found, imported, makers, modules, patterns, terminals

SIZE = 1_500
LARGEST_PROGRAM = 40_000
"""Steps of a compiled expression: about 20 ms of every start of a process that imports its module."""

BACKTRACKING = {
    "mcc/contracts/ids.py": "one class and fixed counts; this room uses nothing but the standard library",
    "mcc/contracts/invisible.py": "classes and one fixed form, over lone surrogates too, which RE2 does not have",
    "mcc/contracts/plain_text.py": "characters that RE2 does not have; no alternative begins as another does",
    "drone/tools/frame/display_text.py": "characters that RE2 does not have; no alternative begins as another does",
}
"""Who may use `re`, and why that is harmless. Everybody else takes `mcc.rules.patterns`."""

COMPARING = {
    "mcc/contracts/similar.py": "the bounded one that everybody else takes",
}
"""The only one to use `difflib`, whose time is the square of the lengths of two names."""


def test_backtracking_and_comparing_is_left_to_a_few() -> None:
    users = {str(path.relative_to(ROOT)): imported(path) for _, path in modules()}
    assert {path for path, names in users.items() if names & {"re", "regex", "sre_compile", "fnmatch"}} == set(
        BACKTRACKING
    )
    assert {path for path, names in users.items() if "difflib" in names} == set(COMPARING)


def hold(expressions: Iterable[Found]) -> None:
    for found in expressions:
        for text in found.texts():
            told = f"{found.where}: {found.source!r} on {text(40)!r}"
            assert not grows_faster_than_its_input(found.work(text), SIZE), told


@pytest.mark.parametrize(("name", "path"), list(makers()), ids=lambda value: "" if isinstance(value, Path) else value)
def test_their_time_grows_with_the_text_and_not_faster(name: str, path: Path) -> None:
    hold(patterns(name, path))


def test_that_of_the_terminals_of_rules_grows_with_the_text_and_not_faster() -> None:
    hold(terminals())


def test_none_takes_long_to_compile() -> None:
    """RE2 writes out a counted repetition: a hundred times a class of all letters took a tenth of a second."""
    sizes = {
        each.where: re2.compile(each.source).programsize
        for name, path in makers()
        for each in patterns(name, path)
        if isinstance(each.compiled, Pattern)
    }
    assert {where: size for where, size in sizes.items() if size > LARGEST_PROGRAM} == {}


@pytest.mark.parametrize(
    ("source", "size"),
    [
        (r"\s*(?:- )?\s*(?P<key>[^\s:#'\"]+):\s+(?P<value>.*\S)", 100),
        (r"(?m)^[ \t]*(ENTRYPOINT|CMD)[ \t]+(.+?)[ \t]*$", 1_000),
        (r"(?is)<title[^>]*>(.*?)</title>", 4_000),
        (r"(\w+)\s*=", 1_000),
    ],
)
def test_one_that_backtracks_is_found_out(source: str, size: int) -> None:
    found = Found("here", source, re.compile(source))
    # Noise may hide growth from one look at it, and makes none: what is seen once is there.
    assert any(grows_faster_than_its_input(found.work(text), size) for _ in range(3) for text in found.texts())


def test_all_of_them_are_found() -> None:
    found = [found for name, path in makers() for found in patterns(name, path)]
    where = {each.where.partition(":")[0] for each in found}
    assert {
        "drone/models/failures.py",
        "drone/models/offline/report.py",
        "mcc/contracts/invisible.py",
        "mcc/rules/syntax.py",
    } <= where
    assert len(found) > 80
    assert len(list(terminals())) > 20
