"""A process that holds a workspace: DIRECTORY KEY ORDER INCARNATION shared|exclusive CHILDREN.

It starts a child, lists it in the file CHILDREN, prints `held` and runs until it is killed.
"""

import subprocess
import sys
import threading
from pathlib import Path

from drone.sandbox.host_lock import Holder, HostLock
from drone.sandbox.reaper import Process


def main(directory: str, key: str, order: str, incarnation: str, how: str, children: str, nap: str) -> None:
    me = Holder.here(order, 1, incarnation, Path(children))
    lock = HostLock(Path(directory), key, me, exclusive=how == "exclusive", live=lambda: {incarnation})
    assert lock.take()
    child = subprocess.Popen(("sleep", nap), stdout=subprocess.DEVNULL, start_new_session=True)
    known = Process.of(child.pid)
    assert known is not None
    Path(children).write_text(f"+ {known.pid} {known.started}\n")
    print(f"held {child.pid}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
