"""The key of a workspace: the same for everybody who sees this directory, another for its copies.

A small file in the root, `.mcc-workspace/id`, names the directory; git leaves it out, and so do the tools. The key is
made of what is in it and of the numbers that the file system gave to it and to the root: these are the same on every
machine that shares the disk, stay when the directory is renamed, and are new in a copy, which therefore never shares a
lock with what it was copied from. Where nothing can be written and nothing was, it is made of the machine and the path.
"""

import contextlib
import hashlib
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import NamedTuple

from drone.sandbox.paths import Workspace

DIRECTORY = ".mcc-workspace"
FILE = "id"
IGNORE = "# What drones need of this workspace, for themselves alone. It may be deleted while no order needs it.\n*\n"

_DIGITS = b"0123456789abcdef"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Key(NamedTuple):
    """`lasting`: everybody who sees this directory gives it this key, so that another key means another directory.

    `by_path` is the key that it has where it is not marked.
    """

    text: str
    lasting: bool
    by_path: str


def workspace_key(workspace: Workspace, *, mark: bool = True) -> Key:
    """The key of this directory, which is marked on the way if it can be. Blocks. Raises OSError when a disk fails.

    `mark` False: it is left as it is.
    """
    marked = _marked(workspace.fd) or (_marking(workspace.fd) if mark else None)
    by_path = _digest("here", _machine(), str(workspace.root))
    return Key(_digest("shared", *marked), True, by_path) if marked else Key(by_path, False, by_path)


def _marked(root: int) -> tuple[str, str, str] | None:
    """Token, number of its file, number of the root; None when there is no marker that could be one of ours."""
    try:
        home = os.open(DIRECTORY, _OPEN, dir_fd=root)
    except OSError:
        return None
    try:
        fd = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=home)
    except OSError:
        return None
    finally:
        os.close(home)
    try:
        status = os.fstat(fd)
        token = os.read(fd, 64) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(fd)
    if len(token) != 33 or token[32:] != b"\n" or token[:32].strip(_DIGITS):
        return None
    return token.decode().strip(), str(status.st_ino), str(os.fstat(root).st_ino)


def _marking(root: int) -> tuple[str, str, str] | None:
    """Mark the root, unless somebody else does at this moment; None when it cannot be."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(DIRECTORY, 0o755, dir_fd=root)
        home = os.open(DIRECTORY, _OPEN, dir_fd=root)
    except OSError:
        return None
    try:
        _put(home, ".gitignore", IGNORE)
        _put(home, FILE, f"{secrets.token_hex(16)}\n")
    except OSError:
        return None
    finally:
        os.close(home)
    return _marked(root)


def _put(home: int, name: str, content: str) -> None:
    """Make this file whole at once; one that is there stays as it is."""
    draft = f".{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=home)
    try:
        os.write(fd, content.encode())
        with contextlib.suppress(FileExistsError):
            os.link(draft, name, src_dir_fd=home, dst_dir_fd=home)
    finally:
        os.close(fd)
        os.unlink(draft, dir_fd=home)


def _machine() -> str:
    try:
        return f"{Path('/etc/machine-id').read_text().strip()} {socket.gethostname()}"
    except (OSError, UnicodeDecodeError):
        return socket.gethostname()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:40]
