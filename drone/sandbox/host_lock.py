"""The lock on a workspace among the processes of one machine.

The workspace's row in the database decides which drone owns it. This lock, in addition, shows whether an earlier holder
still lives on this machine: one that was fenced, but is stopped or has not noticed. The new holder first ends that
holder's children and, if need be, the holder itself.

    DIRECTORY/KEY/lock         held with flock, shared by readers, exclusive for a writer
    DIRECTORY/KEY/ORDER.json   the holder for this order: epoch, incarnation, process, the record of its children
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from drone.sandbox.custody import left_behind
from drone.sandbox.reaper import Process, signal_all
from mcc.configuration.places import NotPrivate, make_private_directory, refuse_others

_END_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_SHARED = (Path("/run/lock"),)
_LOCK = "lock"
_PAGE_BYTES = 65_536


class Overtaken(Exception):
    """A holder of the same order with a later epoch has taken the lock before."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that works in a workspace for an order. `space` names the boot of the machine and the pid namespace;
    only within one space does a pid mean anything.

    `children` is the path of the record of its children. `service` names the database that knows the lease of its
    incarnation; leases of another service cannot be looked up.
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
        """This process as a holder; `children` is the record that its `Custody` writes."""
        me = _own_process(os.getpid())
        started = me.started if me else 0
        return cls(order_id, epoch, incarnation, os.getpid(), started, this_space(), str(children), service)

    @property
    def process(self) -> Process | None:
        """None when its pid belongs to another space and means nothing here."""
        return Process(self.pid, self.started) if self.space == this_space() else None

    @property
    def is_me(self) -> bool:
        return self.process == _own_process(os.getpid())


@lru_cache(maxsize=1)
def _own_process(pid: int) -> Process | None:
    """This process. Cached by pid, as the start time of a process does not change; a fork has another pid."""
    return Process.of(pid)


@cache
def this_space() -> str:
    """The boot id of this machine and the pid namespace of this process; empty without /proc."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


@dataclass(frozen=True, slots=True)
class Locks:
    """Where the locks on workspaces lie; `service` names the database that holds the leases."""

    directory: Path
    service: str = ""


class HostLock:
    """The lock on one workspace for one order. Every method blocks, for milliseconds.

    `live` answers the incarnations whose lease holds; a process under any other incarnation is fenced.
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
        """Whether an earlier holder died in here or was fenced, so that its work may be half done."""

    def take(self) -> bool:
        """Take the lock, after ending the children of dead holders; False when another process has it.

        If `release` is called meanwhile, the lock is given back at once and the answer is False. Raises `Overtaken`,
        and OSError when a lock cannot be made here.
        """
        while True:
            make_private_directory(self._home)
            try:
                fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # the last holder has just removed the directory on its way out
            try:
                fcntl.flock(fd, self._how | fcntl.LOCK_NB)
                if not self._is_current(fd):
                    os.close(fd)
                    continue
                signed = self._signature(self._me.order_id)
                if signed is not None and signed.epoch > self._me.epoch:
                    raise Overtaken(f"order {self._me.order_id} is held under epoch {signed.epoch} on this machine")
                # Before the lock counts as taken: children of a dead holder may still work in the workspace.
                self._end_dead_holders()
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

    def others(self) -> Sequence[Holder]:
        """The holders of this lock that have signed, but for this process."""
        return [holder for holder in self._holders() if not holder.is_me]

    def end_others(self) -> bool:
        """Kill the fenced holders that block this lock, and their children; False when other holders remain.

        Only the drone that owns the workspace's row in the database may call this.
        """
        others = self.others()
        fenced = [holder for holder in others if self._is_gone(holder)]
        for holder in fenced:
            _end_children(holder)
            if holder.process is not None:
                holder.process.kill()
        return bool(fenced) and len(fenced) == len(others)

    def release(self) -> None:
        """Release the lock for good, also when another thread is just taking it."""
        with self._changing:
            fd, self._fd, self._over = self._fd, None, True
        if fd is None:
            return
        alone = self._how == fcntl.LOCK_EX and self._is_current(fd)  # the page is ours then: nobody else can be here
        signed = self._me if alone else self._signature(self._me.order_id)
        if signed and signed.epoch == self._me.epoch:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._page(self._me.order_id))
        with contextlib.suppress(OSError):  # another holder is here, or has left a page
            if not alone:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if alone or not any(self._pages()):
                os.unlink(self._lock)
                os.rmdir(self._home)
        os.close(fd)

    def _is_current(self, fd: int) -> bool:
        """Whether `fd` is still the file of that name, which the next process will lock."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._lock))
        except FileNotFoundError:
            return False

    def _end_dead_holders(self) -> None:
        for holder in self._holders():
            if not holder.is_me and self._is_gone(holder):
                _end_children(holder)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._page(holder.order_id))
                self.succeeds = True

    def _is_gone(self, holder: Holder) -> bool:
        """Whether the holder has ended or is fenced; False where that cannot be determined from here."""
        process = holder.process
        if process is None or not process.there:
            return process is not None
        return holder.service == self._me.service and holder.incarnation not in self._live()

    def _sign(self) -> None:
        """Write the page of this holder. Raises OSError."""
        draft = f"{self._home}/{self._me.order_id}.{self._me.epoch}.new"
        page = json.dumps({name: getattr(self._me, name) for name in Holder.__slots__})
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(fd, page.encode())
        finally:
            os.close(fd)
        if written < len(page):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(draft, self._page(self._me.order_id))

    def _holders(self) -> Iterator[Holder]:
        for order_id in self._pages():
            if (holder := self._signature(order_id)) is not None:
                yield holder

    def _pages(self) -> Sequence[str]:
        """The ids of orders that have a page here."""
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
        # Strings and not `Path`, here and wherever files are named: building a Path takes longer than the file access.
        return f"{self._home}/{order_id}.json"


def locks_of_this_host(otherwise: Path) -> Path:
    """The directory of the locks that all drones of this user share, whatever their data directories; `otherwise` where
    that directory cannot be made, or could belong to another user. Blocks."""
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
    """Kill the holder's children, and wait up to two seconds until they are gone: a killed process first finishes its
    system call."""
    children = left_behind(Path(holder.children))
    signal_all(children, signal.SIGKILL)
    give_up = time.monotonic() + _END_SECONDS
    while any(child.there for child in children) and time.monotonic() < give_up:
        threading.Event().wait(_LOOK_SECONDS)
