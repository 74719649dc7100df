"""Results must rest on what was read: invented lines and quotes are refused, real ones accepted in any spelling."""

import json
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.state.tree import Tree
from drone.models.scripted import Said, call
from mcc.contracts.journal import AgentStarted, GateChecked
from mcc.contracts.order import Rule
from mcc.contracts.status import OrderStatus
from tests.parity.world import World, calls, piece, report, team

ROLES = ("scout", "review", "security_analyst")
FINDING = {"title": "A number", "path": "src/a.py", "line": 1, "evidence": "A = 1"}


def checks(world: World) -> list[GateChecked]:
    return [entry.data for entry in world.entries if isinstance(entry.data, GateChecked)]


async def judged(folder: Path, role: str, read: dict[str, Any], *findings: dict[str, Any]) -> list[GateChecked]:
    """The gate's verdicts on results that each have one of these findings, after this call of `read_file`."""

    def play(task: str, replies: int, ask: Ask) -> Said:
        if replies == 0:
            return calls(call("read_file", **read))
        return report(findings=[findings[min(replies, len(findings)) - 1]])

    world = World(folder, play)
    await world.run("go", agent=role)
    return checks(world)


LINE = ({"line": 77}, "Not so: result.findings[0]: line 77: src/a.py was read to line 1 only.")
QUOTE = ({"evidence": "A = 2"}, "Not so: result.findings[0]: the text “A = 2” is not in what you read of src/a.py.")
NEVER_READ = {"path": "src/b.py", "line": None, "evidence": None}


@pytest.mark.parametrize(
    ("role", "invented", "said"),
    [
        *((role, *case) for role in ROLES for case in (LINE, QUOTE)),
        ("review", NEVER_READ, "Every path in findings is one that you have read"),
        ("security_analyst", NEVER_READ, "names a file that you have read with read_file"),
    ],
)
async def test_what_nobody_read_is_refused_and_mended(
    tmp_path: Path, role: str, invented: dict[str, Any], said: str
) -> None:
    refused, accepted = await judged(tmp_path, role, {"path": "src/a.py"}, {**FINDING, **invented}, FINDING)
    assert accepted.ok and not refused.ok
    assert len(refused.errors) == 1 and said in refused.errors[0]
    assert not refused.faults


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("read", "named"),
    [
        ("{root}/src/a.py", "src/a.py"),
        ("src/a.py", "{root}/src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("src/a.py", "./src/../src/a.py"),
    ],
)
async def test_one_file_may_be_spelled_in_several_ways(tmp_path: Path, role: str, read: str, named: str) -> None:
    root = str(tmp_path / "workspace")
    finding = {**FINDING, "path": named.format(root=root)}
    (only,) = await judged(tmp_path, role, {"path": read.format(root=root)}, finding)
    assert only.ok, only.errors


async def test_an_order_may_ask_for_quotes_of_what_its_subagents_read(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "look":
            return calls(call("read_file", path="README.md")) if replies == 0 else "It is a garden."
        if replies == 0:
            return team(piece("look"))
        return report("# A jungle" if replies == 1 else "# A garden")

    world = World(tmp_path, play)
    rule = Rule(cel="quoted('./README.md', result.summary) && read_lines('README.md', 1)", message="Quote it.")
    assert (await world.run("go", rules=(rule,))).status is OrderStatus.SUCCEEDED
    first, second = checks(world)
    assert first.errors == ("Quote it. Not so: the text “# A jungle” is not in what you read of ./README.md.",)
    assert second.ok


async def test_receipts_carry_the_lines_that_were_shown(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if replies == 0:
            looked = call("search_text", pattern="garden"), call("list_files")
            return calls(call("read_file", path=f"{tmp_path}/workspace/long", start_line=3, end_line=5), *looked)
        return report()

    world = World(tmp_path, play, files={"README.md": "# A garden\n", "long": "line\n" * 9})
    rules = (
        "receipts.exists(r, r.path == 'long' && r.lines == [{'path': 'long', 'start_line': 3, 'end_line': 5}])",
        "receipts.exists(r, r.tool == 'search_text' && r.lines.exists(l, l.path == 'README.md' && l.start_line == 1))",
        "receipts.exists(r, r.tool == 'list_files' && size(r.lines) == 0 && r.arguments.path == null)",
    )
    outcome = await world.run("go", rules=tuple(Rule(cel=cel) for cel in rules))
    assert outcome.status is OrderStatus.SUCCEEDED, checks(world)


async def test_the_whole_of_a_reading_that_was_shown_in_part_counts(tmp_path: Path) -> None:
    lines = [f"{number} {'x' * 500}" for number in range(1, 181)]

    def play(task: str, replies: int, ask: Ask) -> Said:
        if replies == 0:
            return calls(call("read_file", path="long", start_line=1, end_line=180))
        return report(lines[100])

    world = World(tmp_path, play, files={"long": "\n".join(lines)})
    outcome = await world.run("go", rules=(Rule(cel="quoted('long', result.summary) && read_lines('long', 101)"),))
    assert outcome.status is OrderStatus.SUCCEEDED, checks(world)
    assert world.results()[0].artifact is not None


async def test_where_the_workspace_is_stands_in_the_kept_set_up(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        return calls(call("read_file", path="src/a.py")) if replies == 0 else report(findings=[FINDING])

    world = World(tmp_path, play)
    await world.run("go", agent="scout")
    assert isinstance(world.journal, MemoryJournal)
    started = next(entry.data for entry in world.entries if isinstance(entry.data, AgentStarted))
    kept = json.loads(world.journal.texts[started.setup_digest or ""])
    assert set(kept["gate"]["roots"]) == {str(tmp_path / "workspace"), "/workspace"}
    again = Tree.of(world.entries)
    assert [one.content for one in next(iter(again.records.values())).receipts] == [world.results()[0].content]
