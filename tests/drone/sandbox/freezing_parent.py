"""A small process that is watched by its reaper, with a child in custody: FROZEN_SECONDS, EXIT_SECONDS, what to do.

`freeze`: hold the interpreter for ever after "ready" was said; `deaf`: hear SIGTERM, and do nothing about it.
"""

import re
import signal
import subprocess
import sys
import threading

from drone.sandbox.custody import Custody
from drone.sandbox.reaper import boot_seconds

MARGIN_SECONDS = 0.4


def main(frozen_seconds: str, exit_seconds: str, what: str, nap: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    custody = Custody()
    custody.guard(lambda: boot_seconds() + 1.0, margin_seconds=MARGIN_SECONDS)
    signal.set_wakeup_fd(custody.watch_over(float(frozen_seconds), float(exit_seconds)), warn_on_full_buffer=False)
    child = subprocess.Popen(("sleep", nap), start_new_session=True)
    custody.watch(child.pid)
    print("ready", flush=True)
    if what == "freeze":
        re.match("(a*)*b", "a" * 60)
    while True:
        threading.Event().wait(60.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
