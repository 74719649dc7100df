"""A small parent process with children in custody: `bubblewrap` or `plain`, then SCRIPT and SECONDS.

It may act for SECONDS from its start; a line on standard input gives it as many more. The child does nothing before it
is in custody. The process prints `ended STATUS` when the child has ended.
"""

import asyncio
import sys
from pathlib import Path

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.custody import Custody
from drone.sandbox.places.paths import Workspace
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
        ended = await sandbox.run(("sh", "-c", script), Workspace("/usr"), Bounds(600.0))
        status = ended.status
    else:
        waiting = ("sh", "-c", f"read go; {script}")
        child = await asyncio.create_subprocess_exec(*waiting, stdin=asyncio.subprocess.PIPE, start_new_session=True)
        custody.watch(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        status = await child.wait()
        custody.release(child.pid)
    print(f"ended {status}", flush=True)
    custody.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
