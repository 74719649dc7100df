"""The master mends small things itself where its order's mode allows, and writes nothing by other means."""

from pathlib import Path

import pytest

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said, call
from mcc.contracts.tool_groups import TOOL_GROUPS
from tests.parity.world import World

TYPO = {"README.md": "# A gardne\n"}


def mends(task: str, replies: int, ask: Ask) -> Said:
    edit = call("edit_file", path="README.md", old="gardne", new="garden")
    said: list[Said] = [Line(calls=(call("read_file", path="README.md"),)), Line(calls=(edit,)), "Mended."]
    return said[replies]


@pytest.mark.parametrize(
    ("mode", "content", "outcome"),
    [("develop", "# A garden\n", "ok"), ("build", "# A garden\n", "ok"), ("plan", "# A gardne\n", "denied")],
)
async def test_a_typo_is_mended_by_the_master_itself_unless_its_order_only_plans(
    tmp_path: Path, mode: str, content: str, outcome: str
) -> None:
    world = World(tmp_path, mends, files=TYPO)
    await world.run("Mend the typo", mode=mode)
    assert (world.workspace / "README.md").read_text() == content
    assert [step.outcome for step in world.results() if step.name == "edit_file"] == [outcome]
    assert [record.agent for record in world.records()] == ["master"]


async def test_of_the_tools_that_change_files_the_master_has_the_smallest_alone(tmp_path: Path) -> None:
    offered: list[str] = []

    def looks(task: str, replies: int, ask: Ask) -> Said:
        offered.extend(spec.name for spec in ask.tools)
        return "Seen."

    await World(tmp_path, looks).run("Look")
    changing = {*TOOL_GROUPS["workspace_write"], *TOOL_GROUPS["git_write"], *TOOL_GROUPS["shell_write"]}
    assert changing & {*offered} == {"edit_file"}
