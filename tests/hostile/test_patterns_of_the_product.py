"""No expression of the product looks at the same characters again and again; those that could are not there at all."""

import re

import pytest

from tests.hostile.growth import grows_faster_than_its_input
from tests.hostile.product_patterns import ROOT, Found, imported, modules, patterns

SIZE = 1_500
FOUND = list(patterns())

BACKTRACKING = {
    "mcc/contracts/ids.py": "one class and fixed counts; this room uses nothing but the standard library",
    "mcc/contracts/invisible.py": "classes and one fixed form, over lone surrogates too, which RE2 does not have",
    "drone/tools/frame/display_text.py": "characters that RE2 does not have; no alternative begins as another does",
}
"""Who may use `re`, and why that is harmless. Everybody else takes `mcc.rules.patterns`."""

COMPARING = {
    "mcc/rules/errors.py": "the bounded one that everybody else takes",
}
"""The only one to use `difflib`, whose time is the square of the lengths of two names."""


def test_backtracking_and_comparing_is_left_to_a_few() -> None:
    users = {str(path.relative_to(ROOT)): imported(path) for _, path in modules()}
    assert {path for path, names in users.items() if names & {"re", "regex", "sre_compile", "fnmatch"}} == set(
        BACKTRACKING
    )
    assert {path for path, names in users.items() if "difflib" in names} == set(COMPARING)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.where)
def test_its_time_grows_with_the_text_and_not_faster(found: Found) -> None:
    for text in found.texts():
        assert not grows_faster_than_its_input(found.work(text), SIZE), f"{found.source!r} on {text(40)!r}"


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
    assert any(grows_faster_than_its_input(found.work(text), size) for text in found.texts())


def test_all_of_them_are_found() -> None:
    where = {found.where.partition(":")[0] for found in FOUND}
    assert {
        "drone/models/failures.py",
        "drone/models/offline/report.py",
        "mcc/contracts/invisible.py",
        "mcc/rules/syntax.py",
    } <= where
    assert len(FOUND) > 80
