"""An agent that has read a file can change it only while it is as it was read."""

from collections.abc import Callable
from pathlib import Path

from drone.agent.ports.model import WantedCall
from drone.checkpoints.recording import OrderCheckpoints
from drone.models.scripted import Line, call
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.tools.files.reading import read_file
from drone.tools.files.writing import WritingTools
from drone.tools.frame.tool import FunctionTools, tool
from tests.drone.agent.lone import Lone


async def ran(root: Path, *script: WantedCall) -> list[bool]:
    """Whether each call of the tools failed; `meddle` is somebody else."""

    @tool(effects="read")
    def meddle() -> str:
        """Change a."""
        (root / "a").write_text("mine\nsomebody's\n")
        return "done"

    (root / "a").write_text("mine\nyours\n")
    checkpoints = OrderCheckpoints(Workspace(root), root.parent / "data", "order-1")
    functions: tuple[Callable[..., object], ...] = (read_file, meddle, *WritingTools(Protected()).tools())
    lone = Lone(
        [*(Line(calls=(one,)) for one in script), "Done."],
        FunctionTools(functions, workspace=checkpoints.workspace, checkpoints=checkpoints),
    )
    await lone.run()
    return [result.is_error for result in lone.results()]


EDIT = call("edit_file", path="a", old="mine", new="ours")


async def test_what_changed_since_it_was_read_is_not_changed(tmp_path: Path) -> None:
    (root := tmp_path / "shop").mkdir()
    for change in (EDIT, call("write_file", path="./a", content="x"), call("delete_file", path="a")):
        assert await ran(root, call("read_file", path="a", end_line=1), call("meddle"), change) == [False, False, True]
        assert (root / "a").read_text() == "mine\nsomebody's\n"


async def test_read_again_it_is_changed(tmp_path: Path) -> None:
    (root := tmp_path / "shop").mkdir()
    read = call("read_file", path=str(root / "a"))
    assert await ran(root, read, call("meddle"), EDIT, read, EDIT) == [False, False, True, False, False]
    assert (root / "a").read_text() == "ours\nsomebody's\n"


async def test_its_own_changes_are_known(tmp_path: Path) -> None:
    (root := tmp_path / "shop").mkdir()
    again = call("edit_file", path="a", old="yours", new="ours")
    assert await ran(root, call("read_file", path="a"), EDIT, again) == [False, False, False]
    assert await ran(root, EDIT, call("meddle"), call("write_file", path="a", content="x")) == [False, False, True]


async def test_what_was_never_read_is_changed(tmp_path: Path) -> None:
    (root := tmp_path / "shop").mkdir()
    assert await ran(root, call("meddle"), EDIT) == [False, False]
