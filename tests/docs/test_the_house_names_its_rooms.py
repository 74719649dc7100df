"""The page of the house has a line for each room, no other, and draws no arrow that the code may not have."""

import itertools
import re
from pathlib import Path

import pytest

from tests.architecture.test_arrows import ALLOWED, FLOOR, inside

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "the-house.md").read_text("utf-8")
HOUSE, _ = PAGE.split("## Inside an agent")
UNTOLD = {"mcc/store/migrations"}
"""Folders that a sentence tells of."""


def test_each_room_has_a_line_and_each_line_a_room() -> None:
    told = set(re.findall(r"^\| `((?:mcc|drone)/\w+)/`", PAGE, re.MULTILINE))
    assert told == {
        str(path.parent.relative_to(ROOT))
        for path in ROOT.glob("[md][cr]*/*/__init__.py")
        if path.parts[-3] in ("mcc", "drone")
    }


def test_each_arrow_of_the_picture_is_one_that_the_code_may_have() -> None:
    names = {room.split(".")[1]: room for room in sorted(ALLOWED) if room.count(".") == 1}
    arrows = 0
    for line in re.findall(r"^ +(\w.*-->.*)$", HOUSE, re.MULTILINE):
        chain = [
            [names[name.strip()] for name in part.split("&")] for part in line.split("-->") if part.strip() != "floor"
        ]
        for sources, targets in itertools.pairwise(chain):
            for source in sources:
                for target in targets:
                    assert inside(target, ALLOWED[source]), f"{source} --> {target}"
                    arrows += 1
    assert arrows > len(FLOOR)


@pytest.mark.parametrize("room", ["drone/agent", "mcc/store", "drone/tools", "drone/sandbox"])
def test_each_folder_within_a_room_has_a_line_and_no_line_a_higher_one_below_it(room: str) -> None:
    told = re.findall(rf"^\| `({room}/\w+)/` \|", PAGE, re.MULTILINE)
    there = {str(path.parent.relative_to(ROOT)) for path in (ROOT / room).glob("*/__init__.py")} - UNTOLD
    assert set(told) == there
    for place, folder in enumerate(told):
        known = ALLOWED.get(folder.replace("/", "."), ())
        assert not [higher for higher in told[:place] if higher.replace("/", ".") in known], folder
