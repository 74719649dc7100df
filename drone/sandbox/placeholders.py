"""What stands for a protected path that is not there, so that something can be mounted over it: nothing can be mounted
over nothing.

It is a socket that nobody listens at and nobody may open: git neither shows nor adds one, and nothing is read from it.
One that was left behind by a process that was killed is known by that, and goes with the next program.
"""

import os
import stat
import threading
from collections import Counter
from contextlib import suppress

from drone.sandbox.private import identity

_Place = tuple[int, int, str]


class Placeholders:
    """Those of one process, which several of its programs may share. Safe for many threads."""

    def __init__(self) -> None:
        self._held: Counter[_Place] = Counter()
        self._lock = threading.Lock()

    def put(self, directory: int, name: str) -> bool:
        """Whether there is one now, to be taken away by `take`; False where something else is, or none can be made."""
        place = (*identity(os.fstat(directory)), name)
        with self._lock:
            try:
                os.mknod(name, stat.S_IFSOCK, dir_fd=directory)
            except FileExistsError:
                if not is_placeholder(directory, name):
                    return False
            except OSError:
                return False
            self._held[place] += 1
            return True

    def take(self, directory: int, name: str) -> None:
        """Away, unless another program needs it, or somebody has put something else there."""
        place = (*identity(os.fstat(directory)), name)
        with self._lock:
            self._held[place] -= 1
            if self._held[place] > 0:
                return
            del self._held[place]
            with suppress(OSError):
                if is_placeholder(directory, name):
                    os.unlink(name, dir_fd=directory)


def is_placeholder(directory: int, name: str) -> bool:
    """Whether it is a socket without any permission."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:
        return False
    return has_mode(mode)


def has_mode(mode: int) -> bool:
    """Whether a placeholder has this mode: whoever looks through a workspace beside a program takes it for nothing."""
    return stat.S_ISSOCK(mode) and not stat.S_IMODE(mode)
