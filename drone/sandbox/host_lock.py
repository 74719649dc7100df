"""The lock on a workspace among the processes of one machine, beside the one in the database.

Whoever has the workspace's row in the database is in the right; the lock tells whether an earlier holder still lives
here: one that was fenced, and stands still or has not noticed. Its children, and if need be itself, are ended first.

    DIRECTORY/KEY/lock         held with flock, together by readers, alone by a writer
    DIRECTORY/KEY/ORDER.json   who holds it for this order: epoch, incarnation, process, the record of its children
"""

import contextlib
import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from drone.sandbox.custody import left_behind
from drone.sandbox.reaper import Process, signal_all
from mcc.configuration.places import make_private_directory, private_opener

_END_SECONDS, _LOOK_SECONDS = 2.0, 0.005


class Overtaken(Exception):
    """A later holder of the same order was here."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who works in a workspace. `space` is the machine since its last start, and the view of processes in it."""

    order_id: str
    epoch: int
    incarnation: str
    pid: int
    started: int
    space: str
    children: str

    @classmethod
    def here(cls, order_id: str, epoch: int, incarnation: str, children: Path) -> "Holder":
        """This process; `children` is its record of those (see `drone.sandbox.custody`)."""
        me = Process.of(os.getpid())
        started = me.started if me else 0
        return cls(order_id, epoch, incarnation, os.getpid(), started, this_space(), str(children))

    @property
    def process(self) -> Process | None:
        """None when its number means nothing here."""
        return Process(self.pid, self.started) if self.space == this_space() else None

    @property
    def is_me(self) -> bool:
        return self.process == Process.of(os.getpid())


def this_space() -> str:
    """The boot of this machine and the process namespace that we are in."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


class HostLock:
    """The lock on one workspace for one order. Every method blocks, for milliseconds.

    `live` asks for the incarnations whose lease holds; a process that works under another one is fenced.
    """

    def __init__(
        self, directory: Path, key: str, me: Holder, *, exclusive: bool, live: Callable[[], Collection[str]]
    ) -> None:
        self._home = directory / key
        self._me = me
        self._how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        self._live = live
        self._fd: int | None = None

    def take(self) -> bool:
        """Take it, once what holders that are gone left running is ended; False when another process has it.

        Raises `Overtaken`, and OSError when there cannot be a lock here.
        """
        make_private_directory(self._home)
        fd = os.open(self._home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, self._how | fcntl.LOCK_NB)
            self._check()
            self._clear_up()
            self._sign()
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

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
        if self._fd is None:
            return
        if (signed := self._signature(self._me.order_id)) is not None and signed.epoch == self._me.epoch:
            self._page(self._me.order_id).unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = None

    def _check(self) -> None:
        signed = self._signature(self._me.order_id)
        if signed is not None and signed.epoch > self._me.epoch:
            raise Overtaken(f"order {self._me.order_id} is held under epoch {signed.epoch} on this machine")

    def _clear_up(self) -> None:
        for holder in self._holders():
            if not holder.is_me and self._is_gone(holder):
                _end_children(holder)
                self._page(holder.order_id).unlink(missing_ok=True)

    def _is_gone(self, holder: Holder) -> bool:
        """Whether the process has ended, or may not act any more; False where that cannot be told from here."""
        process = holder.process
        return process is not None and (not process.there or holder.incarnation not in self._live())

    def _sign(self) -> None:
        draft = self._home / f"{self._me.order_id}.{self._me.epoch}.new"
        with open(draft, "w", opener=private_opener) as file:
            file.write(json.dumps(asdict(self._me)))
        draft.replace(self._page(self._me.order_id))

    def _holders(self) -> Iterator[Holder]:
        for page in self._home.glob("*.json"):
            if (holder := self._signature(page.stem)) is not None:
                yield holder

    def _signature(self, order_id: str) -> Holder | None:
        try:
            return Holder(**json.loads(self._page(order_id).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _page(self, order_id: str) -> Path:
        return self._home / f"{order_id}.json"


def _end_children(holder: Holder) -> None:
    """Kill them, and wait a moment until they are gone: a killed process first comes to the end of its system call."""
    children = left_behind(Path(holder.children))
    signal_all(children, signal.SIGKILL)
    give_up = time.monotonic() + _END_SECONDS
    while any(child.there for child in children) and time.monotonic() < give_up:
        threading.Event().wait(_LOOK_SECONDS)
