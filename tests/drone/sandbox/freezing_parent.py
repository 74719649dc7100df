"""A small process that is watched by its reaper, with a child in custody: FROZEN_SECONDS EXIT_SECONDS WHAT NAP NOTES.

`freeze`: hold the interpreter for ever after "ready" was said; `stammer`: for most of FROZEN_SECONDS; `deaf`: hear
SIGTERM, and do nothing about it.
"""

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from drone.sandbox.custody import Custody
from drone.sandbox.reaper import boot_seconds

MARGIN_SECONDS = 0.4


def hold_for(seconds: float) -> None:
    """Compute for about this long while holding the interpreter; may overrun."""
    over, size = time.monotonic() + seconds, 16
    sys.setswitchinterval(60.0)
    while time.monotonic() < over:
        re.match("(a*)*b", "a" * size)


def main(frozen_seconds: str, exit_seconds: str, what: str, nap: str, notes: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    custody = Custody()
    custody.guard(lambda: boot_seconds() + 1.0, margin_seconds=MARGIN_SECONDS)
    told = custody.watch_over(float(frozen_seconds), float(exit_seconds), Path(notes))
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    child = subprocess.Popen(("sleep", nap), start_new_session=True)
    custody.watch(child.pid)
    print("ready", flush=True)
    custody.note(threading.get_native_id(), "a-busy-order")
    custody.note(1, "an-idle-order")
    if what == "freeze":
        re.match("(a*)*b", "a" * 60)
    if what == "stammer":
        hold_for(0.7 * float(frozen_seconds))
        print("spoke again", flush=True)
    while True:
        threading.Event().wait(60.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
