"""Commands that do harm: hang, ignore signals, hide, multiply, flood, fill; run by the shipped tools in one process.

python -m tests.faults.commands DIRECTORY [--whole] [NAME…]     # a line of JSON for each, then one for the process
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import FunctionTools
from drone.tools.shell.commands import Shell, ShellTools
from mcc.contracts.entry import Origin
from mcc.contracts.limits import Limits

GRACE_SECONDS = 5.0
"""Whatever runs is gone so long after its time was over."""


@dataclass(frozen=True, slots=True)
class Harm:
    """`seconds`: its time. `ends`: with this status, None = it is killed when its time is over."""

    command: str
    seconds: float = 0.5
    ends: int | None = None


_DEEP = "p=$(printf 'd/%.0s' $(seq {})); for n in 1 2 3 4 5; do mkdir -p $p && cd $p || exit 9; done"
_BOMB = "bomb() { [ $1 = 0 ] && exec sleep 1000; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 8"

HARMS: Mapping[str, Harm] = {
    "hang": Harm("sleep 1000"),
    "deaf": Harm("trap '' TERM INT HUP QUIT; while :; do sleep 1; done"),
    "daemon": Harm("(setsid nohup sh -c 'trap \"\" HUP TERM; sleep 1000' > /dev/null 2>&1 &); exit 0", 10.0, 0),
    "fork bomb": Harm(_BOMB, 1.0),
    "flood": Harm("cat /dev/zero", 1.0),
    "one line": Harm("head -c 30000000 /dev/zero | tr '\\0' x", 20.0, 0),
    "binary": Harm("head -c 3000000 /dev/urandom", 20.0, 0),
    "closed pipe": Harm("exec 1>&- 2>&-; echo lost; exit 7", 10.0, 7),
    "huge file": Harm(
        "dd if=/dev/zero of=big bs=1M seek=1023 count=3 2>&1; end=$?; rm -f big; exit $end", 20.0, 128 + 25
    ),
    "fifo": Harm("mkfifo pipe; cat pipe"),
    "zero": Harm("cat /dev/zero > /dev/null"),
    "deep directory": Harm(_DEEP.format(500), 20.0, 0),
    "many files": Harm("mkdir many && cd many && seq 3000 | xargs touch", 20.0, 0),
    "after all": Harm("rm -rf d many pipe && echo well", 20.0, 0),
}
"""In this order, in one workspace; what stays in it is there for those that follow."""

WHOLE: Mapping[str, Harm] = {
    **HARMS,
    "flood": Harm("head -c 1000000000 /dev/zero", 60.0, 0),
    "deep directory": Harm(_DEEP.format(2000), 120.0, 0),
    "many files": Harm("mkdir many && cd many && seq 1000000 | xargs touch", 300.0, 0),
    "after all": Harm("rm -rf d many pipe && echo well", 600.0, 0),
}
"""At full size: minutes."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one. `late`: seconds between the end of its time and that of the call. `orphans` were left."""

    name: str
    problem: str
    seconds: float
    late: float
    size: int
    shown: int
    orphans: int


async def do_harm(directory: Path, harms: Mapping[str, Harm]) -> Sequence[Done]:
    """Run all of them, one after the other, as one order would."""
    root = directory / "workspace"
    root.mkdir()
    workspace = Workspace(root)
    turn = Turn.begun(MemoryJournal("order"), Budget(Limits()))
    shell = Shell.found(Bubblewrap.found())
    if shell.problem:
        raise SystemExit(shell.problem)
    async with Jobs() as jobs:
        kept = OrderCheckpoints(workspace, directory / "checkpoints", "order")
        tools = FunctionTools(ShellTools(shell).tools(), workspace=workspace, checkpoints=kept, jobs=jobs)
        return [await _done(tools, turn, name, harm) for name, harm in harms.items()]


async def _done(tools: FunctionTools, turn: Turn, name: str, harm: Harm) -> Done:
    mark = uuid4().hex
    arguments = {"command": f"export MARK={mark}; {harm.command}", "timeout_seconds": harm.seconds}
    began = time.monotonic()
    output = await tools.call(
        StartedCall(name, "run_shell", arguments, Origin(record_id="record", agent="general"), turn)
    )
    took = time.monotonic() - began
    if output.is_error:
        return Done(name, output.content, took, 0.0, 0, 0, 0)
    answer = json.loads(output.content)
    ended = None if answer["timed_out"] else answer["exit_code"]
    problem = "" if ended == harm.ends else f"it ended with {ended}: {answer['output'][-200:]}"
    late, shown = took - harm.seconds, len(answer["output"].encode())
    return Done(name, problem, took, late if answer["timed_out"] else 0.0, answer["bytes"], shown, orphans(mark))


def orphans(mark: str) -> int:
    """Processes of this machine that were begun with the mark in their environment or arguments."""
    found = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                found += mark.encode() in said
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    harms = WHOLE if asked.whole else HARMS
    wanted = {name: harm for name, harm in harms.items() if not asked.names or name in asked.names}
    for done in asyncio.run(do_harm(asked.directory, wanted)):
        print(json.dumps(asdict(done)), flush=True)
    print(json.dumps({"rss_mb": _peak_mb()}))


def _peak_mb() -> float:
    """The most memory that this program has had. `getrusage` counts what its process was before it became this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
