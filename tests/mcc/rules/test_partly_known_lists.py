"""Lists of which only the beginning is known: an expression has a value only if the known items decide it."""

from typing import Any

import pytest

from mcc.rules.errors import Fault, Frame
from mcc.rules.expression import expression
from mcc.rules.kinds import ANYTHING, Partial


def value(cel: str) -> Any:
    made = expression(cel, {"list": ANYTHING})
    return made.value(Frame([Partial(["a", "b"]), *[None] * made.macro_slots], 10_000))


@pytest.mark.parametrize(
    ("cel", "found"),
    [
        ("list[0]", "a"),
        ('"b" in list', True),
        ('list.exists(x, x == "b")', True),
        ('list.all(x, x == "a")', False),
        ('list[0] == "x" && list[7] == "y"', False),
        ('list[0] == "a" || list[7] == "y"', True),
    ],
)
def test_what_the_beginning_decides_has_a_value(cel: str, found: object) -> None:
    assert value(cel) == found


@pytest.mark.parametrize(
    "cel",
    [
        "list[2]",
        "list[-1]",
        "size(list)",
        'list == ["a", "b"]',
        '["a", "b"] == list',
        'list != ["c"]',
        '"c" in list',
        'list.exists(x, x == "c")',
        'list.all(x, x != "c")',
        "list.map(x, x)",
        'list + ["c"]',
        'list[0] == "a" && list[2] == "c"',
    ],
)
def test_what_depends_on_the_rest_has_none(cel: str) -> None:
    with pytest.raises(Fault):
        value(cel)
