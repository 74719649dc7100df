"""Files of the user that several processes change: replaced as a whole, under a lock, readable by the user alone."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcc.configuration.places import make_private_directory, refuse_others


@contextmanager
def locked_directory(file: Path) -> Iterator[int]:
    """A descriptor of the file's directory, which is made if necessary; nobody else has it until the block ends.

    The directory is locked, since the file itself is replaced: a lock on the old one would keep nobody out. Raises
    OSError, and `NotPrivate` where others could change the directory.
    """
    make_private_directory(file.parent)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        refuse_others(os.fstat(directory), file.parent)
        yield directory
    finally:
        os.close(directory)


def replace_json(directory: int, name: str, value: object) -> None:
    """Replace the file of this name atomically and durably, with mode 0600. Raises OSError."""
    fresh = f".{name}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, 0o600, dir_fd=directory), "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=directory)
        raise
