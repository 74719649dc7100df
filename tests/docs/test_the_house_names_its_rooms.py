"""The page of the house has a line for each room, no other, and draws no arrow that the code may not have."""

import itertools
import re
from pathlib import Path

from tests.architecture.test_arrows import AGENT_LAYERS, ALLOWED, FLOOR, inside

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "the-house.md").read_text("utf-8")
HOUSE, INSIDE_AN_AGENT = PAGE.split("## Inside an agent")


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


def test_the_layers_of_an_agent_are_those_that_the_code_is_held_to() -> None:
    rows = re.findall(r"^\| .*`drone/agent/.*$", INSIDE_AN_AGENT, re.MULTILINE)
    told = [set(re.findall(r"`drone/agent/(\w+)(?:\.py|/)`", row)) for row in rows]
    upper = [set(names) for names in AGENT_LAYERS]
    assert told == upper
