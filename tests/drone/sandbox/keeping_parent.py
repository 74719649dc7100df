"""This room is for a small parent process with children in custody: `bubblewrap` or `plain`, then SCRIPT and SECONDS.

It may act for SECONDS from its start; a line on standard input gives it as many more. It says `started` when its child
does, and `ended STATUS` when that is over.
"""

import asyncio
import sys
from pathlib import Path

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.custody import Custody
from drone.sandbox.reaper import boot_seconds

MARGIN_SECONDS = 0.5


async def main(kind: str, script: str, seconds: str, record: str) -> None:
    until = boot_seconds() + float(seconds)
    custody = Custody()
    custody.guard(lambda: until, margin_seconds=MARGIN_SECONDS, record=Path(record))

    def more() -> None:
        nonlocal until
        until = boot_seconds() + float(sys.stdin.readline())

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), more)
    if kind == "bubblewrap":
        sandbox = Bubblewrap.found()
        assert sandbox is not None
        sandbox.custody = custody
        ended = await sandbox.run(("sh", "-c", script), Path("/usr"), Bounds(600.0))
        status = ended.status
    else:
        child = await asyncio.create_subprocess_exec("sh", "-c", script, start_new_session=True)
        custody.watch(child.pid)
        status = await child.wait()
        custody.release(child.pid)
    print(f"ended {status}", flush=True)
    custody.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
