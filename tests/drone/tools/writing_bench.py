"""The tools that change files, in a workspace with a store of checkpoints, called as a turn calls them."""

from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, Preview, StartedCall, preview_of
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.tools.files.reading import read_file
from drone.tools.files.writing import WritingTools
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.entry import Origin
from mcc.contracts.limits import Limits

ORIGIN = Origin(record_id="record-1", agent="master")
STOP = Event()


@dataclass
class WritingBench:
    """`root` is the workspace; each call has an id of its own unless one is named."""

    root: Path
    data: Path
    order_id: str = "order-1"
    protected: tuple[str, ...] = ()
    calls: int = 0
    journal: MemoryJournal = field(init=False)
    turn: Turn = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.journal = MemoryJournal(self.order_id)
        self.turn = Turn.begun(self.journal, Budget(Limits()))
        self.take_over()

    def take_over(self) -> None:
        """Make the tools anew, as another drone on this host would."""
        self.checkpoints = OrderCheckpoints(Workspace(self.root), self.data, self.order_id)
        functions = (read_file, *WritingTools(Protected(self.protected)).tools())
        self.tools = FunctionTools(functions, workspace=self.checkpoints.workspace, checkpoints=self.checkpoints)

    async def use(self, name: str, /, **arguments: object) -> Output:
        self.calls += 1
        return await self.tools.call(StartedCall(f"call-{self.calls}", name, arguments, ORIGIN, self.turn))

    async def rerun(self, name: str, /, **arguments: object) -> Output:
        """The last call, run by a drone that took the order over."""
        self.calls -= 1
        self.take_over()
        return await self.use(name, **arguments)

    async def preview(self, name: str, /, **arguments: object) -> Preview | Output | None:
        return await preview_of(self.tools, StartedCall("preview", name, arguments, ORIGIN, self.turn))

    def interrupted(self, *paths: str) -> None:
        """The next call began, and its drone died right after making the checkpoint."""
        self.calls += 1
        wanted = [path.encode() for path in paths]
        self.checkpoints.begin(f"call-{self.calls}", wanted, STOP)

    def tree(self) -> dict[str, bytes]:
        """Path to content of all files, but the marker's."""
        files = (path for path in self.root.rglob("*") if path.is_file() and ".mcc-workspace" not in path.parts)
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}
