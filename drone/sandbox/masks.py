"""Masks: other contents, or none, in place of files and directories that a sandbox would see."""

import os
from collections.abc import Iterator, Mapping, Sequence

from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private
from drone.sandbox.profile import SYSTEM, WORKSPACE

Hidden = Mapping[str, bool]
"""Path in the sandbox of each private file or directory → whether it is a directory."""


class Overlays:
    """Contents that replace files in the sandbox, each in a memory file with a descriptor of its own."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._files = {path: in_memory(content) for path, content in contents.items()}

    @property
    def options(self) -> tuple[str, ...]:
        places = ((str(fd), path) for path, fd in self._files.items())
        return tuple(word for place in places for word in ("--ro-bind-data", *place))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._files.values())

    def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)


def in_memory(content: bytes) -> int:
    """A descriptor of an anonymous memory file with this content, positioned at its beginning."""
    fd = os.memfd_create("overlay")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def mask(directory: str) -> Sequence[str]:
    """Bubblewrap options that put an empty read-only directory over one in the sandbox."""
    return ("--tmpfs", directory, "--remount-ro", directory)


def hidden(workspace: Workspace) -> Hidden:
    """The private files and directories that a sandbox with this workspace would show. Raises OSError where they cannot
    be determined."""
    below = {f"{WORKSPACE}/{name}": is_directory for name, is_directory in workspace.hidden()}
    return below | dict(_in_the_system(workspace.private))


def _in_the_system(private: Private) -> Iterator[tuple[str, bool]]:
    """Private paths below the system directories, /usr/src for example; for each, whether it is a directory."""
    for directory in SYSTEM if private else ():
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            yield from ((f"{directory}/{name}", is_directory) for name, is_directory in private.names_in(fd))
        finally:
            os.close(fd)
