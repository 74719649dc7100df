"""Launcher of a child process: makes the kernel kill the child with its supervisor, then becomes the program.

Run as a script: `launch.py SUPERVISOR_PID PROGRAM [ARGUMENT …]`. A script, not a `preexec_fn`: code between fork and
exec may deadlock in a process that has threads.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2): survives exec, and sends its signal when the thread that started the child ends."""

CANNOT_RUN = 127


def main(arguments: Sequence[str]) -> int:
    supervisor, program = int(arguments[0]), arguments[1]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:  # it ended before the death signal was set
        return CANNOT_RUN
    try:
        os.execvp(program, list(arguments[1:]))
    except OSError as error:
        print(f"{program} cannot be started: {error.strerror}.", file=sys.stderr)
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
