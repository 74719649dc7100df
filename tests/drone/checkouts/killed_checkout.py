"""A process that checks an address out for a session, and is killed right before its Nth act on files or programs.

    python -m tests.drone.checkouts.killed_checkout DIRECTORY PORT ACTS

DIRECTORY/certificate is that of the server at PORT. ACTS 0: it is not killed. It prints how many acts there were.
"""

import asyncio
import sys
from pathlib import Path

from drone.sandbox.bubblewrap import Bubblewrap
from drone.threads import OwnThreads
from tests.drone.checkouts.drone_site import checkouts_in
from tests.drone.checkouts.git_server import HOST
from tests.drone.worktrees.killed import Killing

SESSION = "0199a3c0-0000-7000-8000-000000000001"


async def check_out(directory: Path, port: int, killing: Killing) -> None:
    sandbox = Bubblewrap.found()
    assert sandbox is not None
    with checkouts_in(directory / "data", sandbox, port, (directory / "certificate").read_bytes()) as checkouts:
        killing.counts = True
        await checkouts.opened(f"https://{HOST}:{port}/team/shop", None, SESSION, OwnThreads())
        killing.counts = False


if __name__ == "__main__":
    killing = Killing(int(sys.argv[3]))
    sys.addaudithook(killing)
    asyncio.run(check_out(Path(sys.argv[1]), int(sys.argv[2]), killing))
    print(killing.count)
