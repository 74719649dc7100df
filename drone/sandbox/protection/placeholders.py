"""Placeholders for protected paths that do not exist: a mount point must exist for something to be mounted over it.

A placeholder is a socket without permissions and without a listener: git neither shows nor adds sockets, and no program
can read from one. Those that a killed process left behind are recognised by that, and the next program removes them.
"""

import os
import secrets
import stat
import threading
from collections import Counter
from contextlib import suppress

from drone.sandbox.places.private import identity

ASIDE = ".env.mcc-"
"""Prefix of the name that a placeholder is renamed to before its removal. The name is protected, so a sweep also finds
those of a process that was killed in between."""

_Place = tuple[int, int, str]


class Placeholders:
    """Counts the placeholders of one process, which several of its programs may share. Safe for many threads."""

    def __init__(self) -> None:
        self._held: Counter[_Place] = Counter()
        self._lock = threading.Lock()

    def put(self, directory: int, name: str) -> bool:
        """Make a placeholder, or share one; False where another file exists or none can be made. End it with `take`."""
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
        """Remove a placeholder, unless another program needs it or it was replaced by another file."""
        place = (*identity(os.fstat(directory)), name)
        with self._lock:
            self._held[place] -= 1
            if self._held[place] > 0:
                return
            del self._held[place]
            remove(directory, name)


def remove(directory: int, name: str) -> None:
    """Remove this name if it is a placeholder; any other file that has the name, or gets it meanwhile, stays. Blocks.

    No system call removes a name on the condition that it means a certain file. The file is therefore renamed to a
    unique name, examined there, and renamed back unless it is a placeholder.
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
    """Rename a file back. Raises OSError where the name is taken again; the file then keeps its temporary name."""
    if stat.S_ISDIR(os.stat(aside, dir_fd=directory, follow_symlinks=False).st_mode):
        os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)  # replaces nothing but an empty directory
    else:
        os.link(aside, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(aside, dir_fd=directory)


def is_placeholder(directory: int, name: str) -> bool:
    """Whether this name is a socket without permissions."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:
        return False
    return has_mode(mode)


def has_mode(mode: int) -> bool:
    """Whether this is the mode of a placeholder. Code that lists a workspace while a program runs must skip those."""
    return stat.S_ISSOCK(mode) and not stat.S_IMODE(mode)
