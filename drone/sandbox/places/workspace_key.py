"""The key that identifies a workspace, and the file in its root that it comes from.

All machines that see the same directory compute the same key, and a copy of the directory has another key. A small file
in the root, `.mcc-workspace/id`, names the directory; git and the tools leave it out. The key is a digest of its
content and of the inodes of the file and of the root: these are the same on every machine that shares the disk, survive
a rename, and are new in a copy, which therefore never shares a lock with its original. Where there is no such file and
none can be written, the key is a digest of the machine and the path.
"""

import contextlib
import hashlib
import os
import secrets
import socket
import stat
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from drone.sandbox.places.paths import Workspace

MARKER = ".mcc-workspace"
FILE = "id"
IGNORE = "# What drones need of this workspace, for themselves alone. It may be deleted while no order needs it.\n*\n"

_DIGITS = b"0123456789abcdef"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Key(NamedTuple):
    """The key of a workspace. `lasting`: it comes from the marker file, so every machine computes the same key, and
    another key means another directory. `by_path` is the key that the directory has without a marker file."""

    text: str
    lasting: bool
    by_path: str


def workspace_key(workspace: Workspace, *, mark: bool = True) -> Key:
    """The key of this directory. `mark`: write its marker file if there is none and it can be written. Blocks. Raises
    OSError when a disk fails."""
    marked = _read_marker(workspace.fd) or (_write_marker(workspace.fd) if mark else None)
    by_path = _digest("here", _machine(), str(workspace.root))
    return Key(_digest("shared", *marked), True, by_path) if marked else Key(by_path, False, by_path)


def keys_above(workspace: Workspace) -> tuple[str, ...]:
    """The keys of the directories above a workspace, the nearest first: by path, and by marker where there is one."""
    keys: dict[str, None] = {}
    machine, path = _machine(), str(workspace.root)
    while path != (path := os.path.dirname(path)):
        keys[_digest("here", machine, path)] = None
        if not os.path.lexists(f"{path}/{MARKER}"):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(path, _OPEN)
            try:
                marked = _read_marker(fd)
            finally:
                os.close(fd)
            if marked:
                keys[_digest("shared", *marked)] = None
    return tuple(keys)


def _read_marker(root: int) -> tuple[str, str, str] | None:
    """Token, inode of its file, inode of the root; None when there is no marker file in the form that MCC writes."""
    try:
        home = os.open(MARKER, _OPEN, dir_fd=root)
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


def _write_marker(root: int) -> tuple[str, str, str] | None:
    """Write the marker, or read the one that another process wrote at the same moment; None when it cannot be
    written."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(MARKER, 0o755, dir_fd=root)
        home = os.open(MARKER, _OPEN, dir_fd=root)
    except OSError:
        return None
    try:
        _put(home, ".gitignore", IGNORE)
        _put(home, FILE, f"{secrets.token_hex(16)}\n")
    except OSError:
        return None
    finally:
        os.close(home)
    return _read_marker(root)


def _put(home: int, name: str, content: str) -> None:
    """Make this file atomically; an existing one stays as it is."""
    draft = f".{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=home)
    try:
        os.write(fd, content.encode())
        with contextlib.suppress(FileExistsError):
            # A link and not a rename: when two drones write the marker at once, the first token stays.
            os.link(draft, name, src_dir_fd=home, dst_dir_fd=home)
    finally:
        os.close(fd)
        os.unlink(draft, dir_fd=home)


def _machine() -> str:
    return f"{_machine_id()} {socket.gethostname()}".strip()


@cache
def _machine_id() -> str:
    """The content of /etc/machine-id; empty where there is none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=1_000)
def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:40]
