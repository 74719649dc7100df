"""The lock on a workspace among the processes of one machine, beside the one in the database, and the workspace's key.

Whoever has the workspace's row in the database is in the right; the lock tells whether an earlier holder still lives
here: one that was fenced, and stands still or has not noticed. Its children, and if need be itself, are ended first.

    DIRECTORY/KEY/lock         held with flock, together by readers, alone by a writer
    DIRECTORY/KEY/ORDER.json   who holds it for this order: epoch, incarnation, process, the record of its children

The key is the same for everybody who sees the directory, another for its copies. A small file in the root,
`.mcc-workspace/id`, names the directory; git leaves it out, and so do the tools. The key is made of what is in it and
of the numbers that the file system gave to it and to the root: these are the same on every machine that shares the
disk, stay when the directory is renamed, and are new in a copy, which therefore never shares a lock with what it was
copied from. Where nothing can be written and nothing was, it is made of the machine and the path.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from drone.sandbox.custody import left_behind
from drone.sandbox.paths import Workspace
from drone.sandbox.reaper import Process, signal_all
from mcc.configuration.places import NotPrivate, make_private_directory, refuse_others

_END_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_SHARED = (Path("/run/lock"),)
_LOCK = "lock"
_PAGE_BYTES = 65_536


class Overtaken(Exception):
    """A later holder of the same order was here."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who works in a workspace. `space` is the machine since its last start, and the view of processes in it.

    `service` is what leases of incarnations are asked of; nothing is known of those of another one.
    """

    order_id: str
    epoch: int
    incarnation: str
    pid: int
    started: int
    space: str
    children: str
    service: str = ""

    @classmethod
    def here(cls, order_id: str, epoch: int, incarnation: str, children: Path, service: str = "") -> "Holder":
        """This process; `children` is its record of those (see `drone.sandbox.custody`)."""
        me = _of_this(os.getpid())
        started = me.started if me else 0
        return cls(order_id, epoch, incarnation, os.getpid(), started, this_space(), str(children), service)

    @property
    def process(self) -> Process | None:
        """None when its number means nothing here."""
        return Process(self.pid, self.started) if self.space == this_space() else None

    @property
    def is_me(self) -> bool:
        return self.process == _of_this(os.getpid())


@lru_cache(maxsize=1)
def _of_this(pid: int) -> Process | None:
    """This process, which knows itself by its number: when it began does not change."""
    return Process.of(pid)


@cache
def this_space() -> str:
    """The boot of this machine and the process namespace that we are in."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


@dataclass(frozen=True, slots=True)
class Locks:
    """Where the locks on workspaces are; `service` stands for the database that the leases are in."""

    directory: Path
    service: str = ""


class HostLock:
    """The lock on one workspace for one order. Every method blocks, for milliseconds.

    `live` asks for the incarnations whose lease holds; a process that works under another one is fenced.
    """

    def __init__(
        self, directory: Path, key: str, me: Holder, *, exclusive: bool, live: Callable[[], Collection[str]]
    ) -> None:
        self._home = directory / key
        self._lock = f"{self._home}/{_LOCK}"
        self._me = me
        self._how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        self._live = live
        self._fd: int | None = None
        self._over = False
        self._changing = threading.Lock()
        self.succeeds = False
        """Whether one was here that is gone, in the middle of whatever it did."""

    def take(self) -> bool:
        """Take it, once what holders that are gone left running is ended; False when another process has it.

        One that is released meanwhile is given back at once. Raises `Overtaken`, and OSError when there cannot be a
        lock here.
        """
        while True:
            make_private_directory(self._home)
            try:
                fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # the last one to leave took the directory with it
            try:
                fcntl.flock(fd, self._how | fcntl.LOCK_NB)
                if not self._is_current(fd):
                    os.close(fd)
                    continue
                self._check()
                # Before it is ours: what a lost holder left running may still be at work in the workspace.
                self._clear_up()
                self._sign()
                break
            except BlockingIOError:
                os.close(fd)
                return False
            except BaseException:
                os.close(fd)
                raise
        with self._changing:
            self._fd, over = fd, self._over
        if over:
            self.release()
        return not over

    def end_others(self) -> bool:
        """End the fenced holders that keep us from it, and their children; False when there are others as well.

        To be called by whoever has the workspace's row in the database.
        """
        others = [holder for holder in self._holders() if not holder.is_me]
        fenced = [holder for holder in others if self._is_gone(holder)]
        for holder in fenced:
            _end_children(holder)
            if holder.process is not None:
                holder.process.kill()
        return bool(fenced) and len(fenced) == len(others)

    def release(self) -> None:
        """For good, also when another thread is just taking it."""
        with self._changing:
            fd, self._fd, self._over = self._fd, None, True
        if fd is None:
            return
        alone = self._how == fcntl.LOCK_EX and self._is_current(fd)  # the page is ours, for nobody else can be here
        signed = self._me if alone else self._signature(self._me.order_id)
        if signed and signed.epoch == self._me.epoch:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._page(self._me.order_id))
        with contextlib.suppress(OSError):  # somebody else is in there, or has left a page
            if not alone:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if alone or not any(self._pages()):
                os.unlink(self._lock)
                os.rmdir(self._home)
        os.close(fd)

    def _is_current(self, fd: int) -> bool:
        """Whether this is the file that whoever comes next will lock."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._lock))
        except FileNotFoundError:
            return False

    def _check(self) -> None:
        signed = self._signature(self._me.order_id)
        if signed is not None and signed.epoch > self._me.epoch:
            raise Overtaken(f"order {self._me.order_id} is held under epoch {signed.epoch} on this machine")

    def _clear_up(self) -> None:
        for holder in self._holders():
            if not holder.is_me and self._is_gone(holder):
                _end_children(holder)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._page(holder.order_id))
                self.succeeds = True

    def _is_gone(self, holder: Holder) -> bool:
        """Whether the process has ended, or may not act any more; False where that cannot be told from here."""
        process = holder.process
        if process is None or not process.there:
            return process is not None
        return holder.service == self._me.service and holder.incarnation not in self._live()

    def _sign(self) -> None:
        draft = f"{self._home}/{self._me.order_id}.{self._me.epoch}.new"
        said = json.dumps({name: getattr(self._me, name) for name in Holder.__slots__})
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(fd, said.encode())
        finally:
            os.close(fd)
        if written < len(said):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(draft, self._page(self._me.order_id))

    def _holders(self) -> Iterator[Holder]:
        for order_id in self._pages():
            if (holder := self._signature(order_id)) is not None:
                yield holder

    def _pages(self) -> Sequence[str]:
        """The orders whose holders have left a page."""
        try:
            names = os.listdir(self._home)
        except FileNotFoundError:
            return ()
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def _signature(self, order_id: str) -> Holder | None:
        try:
            fd = os.open(self._page(order_id), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return Holder(**json.loads(os.read(fd, _PAGE_BYTES)))
            finally:
                os.close(fd)
        except (OSError, ValueError, TypeError):
            return None

    def _page(self, order_id: str) -> str:
        # No `Path`, here and where files are named: each is taken apart, which takes longer than what is done there.
        return f"{self._home}/{order_id}.json"


def locks_of_this_host(otherwise: Path) -> Path:
    """Where the locks of all drones of this user are, whatever their data directories; `otherwise` where a place for
    them cannot be had, or could be another user's. Blocks."""
    shared = next((path for path in _SHARED if os.access(path, os.W_OK | os.X_OK)), Path(tempfile.gettempdir()))
    own = shared / f"mcc-{os.geteuid()}"
    try:
        make_private_directory(own)
        refuse_others(own.lstat(), own)
        make_private_directory(own / "workspaces")
    except (OSError, NotPrivate):
        return otherwise
    return own / "workspaces"


def _end_children(holder: Holder) -> None:
    """Kill them, and wait a moment until they are gone: a killed process first comes to the end of its system call."""
    children = left_behind(Path(holder.children))
    signal_all(children, signal.SIGKILL)
    give_up = time.monotonic() + _END_SECONDS
    while any(child.there for child in children) and time.monotonic() < give_up:
        threading.Event().wait(_LOOK_SECONDS)


MARKER = ".mcc-workspace"
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


def keys_above(workspace: Workspace) -> tuple[str, ...]:
    """The keys of the directories that it lies in, the next one first; by their paths, and by marks that are there."""
    found: dict[str, None] = {}
    machine, path = _machine(), str(workspace.root)
    while path != (path := os.path.dirname(path)):
        found[_digest("here", machine, path)] = None
        if not os.path.lexists(f"{path}/{MARKER}"):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(path, _OPEN)
            try:
                marked = _marked(fd)
            finally:
                os.close(fd)
            if marked:
                found[_digest("shared", *marked)] = None
    return tuple(found)


def _marked(root: int) -> tuple[str, str, str] | None:
    """Token, number of its file, number of the root; None when there is no marker that could be one of ours."""
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


def _marking(root: int) -> tuple[str, str, str] | None:
    """Mark the root, unless somebody else does at this moment; None when it cannot be."""
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
    return _marked(root)


def _put(home: int, name: str, content: str) -> None:
    """Make this file whole at once; one that is there stays as it is."""
    draft = f".{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=home)
    try:
        os.write(fd, content.encode())
        with contextlib.suppress(FileExistsError):
            # A link and not a rename: of two drones that mark at once the first one's token stands, and is not
            # replaced.
            os.link(draft, name, src_dir_fd=home, dst_dir_fd=home)
    finally:
        os.close(fd)
        os.unlink(draft, dir_fd=home)


def _machine() -> str:
    return f"{_machine_id()} {socket.gethostname()}".strip()


@cache
def _machine_id() -> str:
    """Empty where the machine has none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=1_000)
def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:40]
