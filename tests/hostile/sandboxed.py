"""A look from the sandbox, in a process of its own: SECRET WORKSPACE PRIVATE…; says where it stands."""

import asyncio
import sys

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private


async def main(secret: str, root: str, *private: str) -> None:
    sandbox = Bubblewrap.found()
    assert sandbox is not None
    workspace = Workspace(root, private=Private(private))
    script = 'grep -rlF "$0" . /usr/src; test -e plain && echo looked'
    ended = await sandbox.run(("sh", "-c", script, secret), workspace, Bounds(20.0))
    print((ended.stdout.head + ended.stderr.head).decode(), end="")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
