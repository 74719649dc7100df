"""Orders that destroy what they work in, killed anywhere, and taken back: is the workspace what it was, byte for byte?

    python -m tests.faults.destructive --orders 1000 --seed 1

Each order changes, patches (rightly and wrongly), moves and deletes files with the tools and wrecks directories as bad
commands do; half of them are killed in the middle. Each is reverted, half of the reverts are killed and begun again.
Exit code 1 and the seed of each order whose workspace is not as it was before.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.revert import Revert
from drone.sandbox.places.paths import Workspace
from mcc.contracts.limits import Limits
from mcc.contracts.order import OrderKind, OrderOrigin, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from tests.drone.tools.writing_bench import STOP, WritingBench

ORDER, REVERT = "0190c9a2-0000-7000-8000-000000000001", "0190c9a2-0000-7000-8000-000000000002"
SOON_SECONDS = 0.06
"""A process that is to be killed has at most so long."""

NAMES = ["a.py", "b c", ".hidden", os.fsdecode(b"caf\xe9"), "\u00fc\u4e2d", "run.log", "x" * 200, "-rf", "two\nlines"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    began, wrong, kills = time.monotonic(), [], 0
    for seed in range(said.seed, said.seed + said.orders):
        with tempfile.TemporaryDirectory() as directory:
            killed, problem = one(Path(directory), seed)
        kills += killed
        if problem:
            wrong.append(seed)
            print(f"seed {seed}: {problem}", file=sys.stderr)
    seconds = time.monotonic() - began
    print(f"{said.orders - len(wrong)} of {said.orders} restored, {kills} kills, {seconds:.1f} s")
    return 1 if wrong else 0


def one(directory: Path, seed: int) -> tuple[int, str]:
    """How often something was killed, and what is not as it was; empty when all is."""
    dice, root = random.Random(seed), directory / "shop"
    root.mkdir()
    fill(root, dice)
    before, kills = picture(root), 0
    kills += run(lambda: ordered(root, directory / "data", seed), dice, killable=dice.random() < 0.5)
    while run(lambda: reverted(root, directory / "data"), dice, killable=dice.random() < 0.5):
        kills += 1
    after = picture(root)
    wrong = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    told = [f"{path!r}: {before.get(path)!r:.80} is {after.get(path)!r:.80}" for path in wrong[:3]]
    return kills, "; ".join(told)


def run(work: Callable[[], Awaitable[None]], dice: random.Random, *, killable: bool) -> bool:
    """Do it in a process of its own; whether that was killed. Raises RuntimeError where it failed by itself."""
    if not (child := os.fork()):
        try:
            asyncio.run(work())  # type: ignore[arg-type]
        except BaseException as problem:
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    if killable:
        time.sleep(dice.random() * SOON_SECONDS)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("the order or its revert failed")
    return os.WIFSIGNALED(status)


async def ordered(root: Path, data: Path, seed: int) -> None:
    dice, bench = random.Random(seed), WritingBench(root, data, ORDER)
    for number in range(dice.randint(2, 8)):
        if dice.random() < 0.3:
            bench.checkpoints.begin(f"command-{number}", None, STOP)
            wreck(root, dice)
            bench.checkpoints.close(f"command-{number}", STOP)
        else:
            name, arguments = wanted(root, dice)
            await bench.use(name, **arguments)


def wanted(root: Path, dice: random.Random) -> tuple[str, dict[str, str]]:
    files = [os.path.relpath(path, root) for path in root.rglob("*") if path.is_file() and ".git" not in path.parts]
    path = dice.choice(files) if files else "none"
    new = f"new-{dice.randint(0, 3)}/{dice.choice(NAMES)}"
    good = f"--- /dev/null\n+++ b/made-{dice.random()}/x\n@@ -0,0 +1 @@\n+x\n"
    match dice.randint(0, 5):
        case 0:
            return "write_file", {
                "path": dice.choice([path, new]),
                "content": f"{dice.random()}\n" * dice.randint(0, 99),
            }
        case 1:
            return "edit_file", {"path": path, "old": "1", "new": "one"}
        case 2:
            return "move_file", {"source": path, "target": new}
        case 3:
            return "delete_file", {"path": path}
        case 4:
            return "apply_patch", {"patch": good}
        case _:
            return "apply_patch", {"patch": f"{good}--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n"}


def wreck(root: Path, dice: random.Random) -> None:
    """What a bad command does to some of what is there."""
    for path in sorted(root.iterdir()):
        if path.name == ".mcc-workspace" or dice.random() < 0.5:
            continue
        is_directory = path.is_dir() and not path.is_symlink()
        match dice.randint(0, 4):
            case 0 if is_directory:
                os.chmod(path, dice.choice([0o700, 0o711, 0o755]))
            case 1 if not path.is_symlink() and not is_directory:
                path.write_bytes(dice.randbytes(dice.randint(0, 5_000)))
            case _:
                shutil.rmtree(path) if is_directory else path.unlink()
                if dice.random() < 0.3:
                    path.symlink_to("elsewhere")
                elif dice.random() < 0.5:
                    (path / "instead").mkdir(parents=True)
                elif is_directory:
                    path.write_text("a file where a directory was")
    (root / f"junk-{dice.random()}").mkdir()


async def reverted(root: Path, data: Path) -> None:
    OrderCheckpoints(Workspace(root), data, ORDER).summary(STOP)
    checkpoints = OrderCheckpoints(Workspace(root), data, REVERT)
    if not OrderCheckpoints(checkpoints.workspace, data, ORDER).known():
        return  # it was killed before its first checkpoint, and so before its first write
    origin = OrderOrigin(kind="revert", order_id=ORDER)
    in_session: dict[str, Any] = {
        "session_id": REVERT,
        "session_seq": 1,
        "status": OrderStatus.RUNNING,
        "created_at": now(),
    }
    made = WorkOrder.model_construct(id=REVERT, kind=OrderKind.REVERT, origin=origin, **in_session)
    outcome = await Revert(made, origin, checkpoints, Turn.begun(MemoryJournal(REVERT), Budget(Limits())), ()).run()
    if outcome.status is not OrderStatus.SUCCEEDED:
        raise RuntimeError(outcome.detail)


def fill(root: Path, dice: random.Random) -> None:
    places = [root, root / "src", root / "src/deep", root / "node_modules/x", root / ".git/objects/ab", root / "empty"]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    for place in places[:-1]:
        for name in dice.sample(NAMES, dice.randint(1, 5)):
            (place / name).write_bytes(dice.choice([dice.randbytes(300), b"1\r\n2\r\n", "\ufeff1\n".encode(), b""]))
            os.chmod(place / name, dice.choice([0o644, 0o755, 0o600]))
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "link").symlink_to("src/deep")
    (root / "dangling").symlink_to("/nowhere")


def picture(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in root.rglob("*"):
        if ".mcc-workspace" in path.parts:
            continue
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        mode = 0 if path.is_symlink() else stat.S_IMODE(status.st_mode)
        found[os.path.relpath(path, root)] = (stat.S_IFMT(status.st_mode), mode, content)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
