"""What stands for a protected path that is not there, so that something can be mounted over it: nothing can be mounted
over nothing.

It is a socket that nobody listens at and nobody may open: git neither shows nor adds one, and nothing is read from it.
One that was left behind by a process that was killed is known by that, and goes with the next program.
"""

import os
import secrets
import stat
import threading
from collections import Counter
from contextlib import suppress

from drone.sandbox.private import identity

ASIDE = ".env.mcc-"
"""Begins the name that one has on its way out: a protected name, so that one of a killed process is swept as well."""

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
            remove(directory, name)


def remove(directory: int, name: str) -> None:
    """Take this away if it is a placeholder; whatever else has the name, or gets it meanwhile, stays. Blocks.

    No system call removes a name only while it means a certain file: so it is moved to a name that nobody else has,
    looked at there, and given back unless it is one.
    """
    if not is_placeholder(directory, name):
        return
    aside = f"{ASIDE}{secrets.token_hex(8)}"
    with suppress(OSError):
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        if is_placeholder(directory, aside):
            os.unlink(aside, dir_fd=directory)
        else:
            _give_back(directory, aside, name)


def _give_back(directory: int, aside: str, name: str) -> None:
    """Raises OSError where the name is taken again, so that it stays aside."""
    if stat.S_ISDIR(os.stat(aside, dir_fd=directory, follow_symlinks=False).st_mode):
        os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)  # takes the place of nothing but emptiness
    else:
        os.link(aside, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(aside, dir_fd=directory)


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
