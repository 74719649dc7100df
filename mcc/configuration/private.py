"""Files and directories that are their user's alone: made so, and read only where nobody else can have written."""

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1_000_000
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(ValueError):
    """Others may have written what was to be read; the message is a sentence that says what to do."""


def read_private(file: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """What `file` holds, when it and its directory belong to this user and nobody else can write them.

    The file itself must be no symlink; its directory may be reached through some. Raises `NotPrivate`, and OSError for
    what is not there or cannot be read.
    """
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        refuse_others(os.fstat(directory), file.parent)
        with open(_opened(directory, file), "rb") as stream:
            refuse_others(os.fstat(stream.fileno()), file)
            content = stream.read(most_bytes + 1)
    finally:
        os.close(directory)
    if len(content) > most_bytes:
        raise NotPrivate(f"{file} is larger than {most_bytes:,} bytes, so it is not what it should be: remove it.")
    return content


def make_private_directory(path: Path) -> None:
    """`path`, and what is missing above it, for its owner alone; one that is there stays as it is. Raises OSError."""
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that is made is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def refuse_others(found: os.stat_result, path: Path) -> None:
    """Raises `NotPrivate` for what belongs to another user, or what others can write."""
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to another user (uid {found.st_uid}): use a directory of your own.")
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise NotPrivate(f"{path} can be written by others: chmod go-w {path}, after a look at what is in it.")


def _opened(directory: int, file: Path) -> int:
    """A regular file, without waiting for a pipe's other end."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file.name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(f"{file} is a symlink, so others may decide what it says: put a file there.") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPrivate(f"{file} is no regular file: remove it.")
    return descriptor
