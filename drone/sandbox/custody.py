"""Custody of child processes: they run only while their drone may act, and never outlive it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from drone.sandbox import reaper
from drone.sandbox.reaper import Process, boot_seconds, signal_all
from mcc.configuration.places import make_private_directory, private_opener
from mcc.processors import PROCESSORS

_TRUST_SECONDS = 0.05
_END_SECONDS = 2.0


class TermOver(Exception):
    """The child must not start: the drone lost its lease since the call began."""


class Custody:
    """Looks after child processes, each of which leads its own process group. Safe for several threads.

    Before `guard` is called, children simply run. Afterwards a reaper process (`drone.sandbox.reaper`) stops them while
    the drone may not act, continues them when it may act again, and kills them when this process is dead or stopped.
    """

    def __init__(self) -> None:
        self._until: Callable[[], float] | None = None
        self._margin_seconds = 1.0
        self._record: Path | None = None
        self._clock: Callable[[], float] = boot_seconds
        self._term = 0
        self._watched: dict[int, Process] = {}
        self._lock = threading.Lock()
        self._recording = threading.Lock()
        self._watch: tuple[str, ...] | None = None
        self._signals: int | None = None
        self._beats: int | None = None
        self._at_work: dict[int, str] = {}
        self._busy = threading.Event()
        self._closed = False
        self._reaper: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def guard(
        self,
        until: Callable[[], float],
        *,
        margin_seconds: float,
        record: Path | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """From now on children may run until the time that `until()` answers, in seconds since boot; it is called
        often.

        The reaper takes a drone for dead that is silent for half of `margin_seconds` past that time. `record` is a file
        that lists the children, for other processes that find this one dead (`left_behind`).
        """
        self._until, self._margin_seconds, self._clock, self._record = until, margin_seconds, clock, record
        if record is not None:
            make_private_directory(record.parent)

    def watch_over(self, frozen_seconds: float, exit_seconds: float, notes: Path) -> int:
        """From now on the reaper watches this process too, which must be guarded. It kills this process after
        `frozen_seconds` without a sign of life, and `exit_seconds` after a signal that tells it to end. The pipe to the
        reaper stays open until this process ends. The reaper notes the order that froze it, as far as `note` told, in
        the directory `notes`.

        Answers the descriptor for `signal.set_wakeup_fd`, to which the interpreter writes the numbers of signals.
        """
        with self._lock:
            self._watch = (repr(frozen_seconds), repr(exit_seconds), str(notes))
            self._signals = os.open(os.devnull, os.O_WRONLY | os.O_NONBLOCK)
            self._replace_reaper()
            self._start_keep_alive()
        self._busy.set()
        return self._signals

    def beat_on(self, descriptor: int) -> None:
        """Send signs of life also to this pipe, at whose other end a supervisor reads."""
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
        self._beats = descriptor

    def note(self, thread: int, order_id: str | None) -> None:
        """Say for which order a thread (by its native id) works now; None = for no order. Fast, from any thread."""
        if order_id is None:
            self._at_work.pop(thread, None)
        else:
            self._at_work[thread] = order_id
        if self._signals is not None:
            with contextlib.suppress(OSError):
                os.write(self._signals, (f"< {thread}\n" if order_id is None else f"> {thread} {order_id}\n").encode())

    @property
    def term(self) -> int:
        """Counts lost leases: a call that began in one term starts no child in the next."""
        return self._term

    @property
    def trusted(self) -> bool:
        """Whether a child may be started now."""
        return self._until is None or self._clock() < self._until()

    async def wait_until_trusted(self, term: int) -> None:
        """Return when a child of this term may start. Raises `TermOver` when the term has ended."""
        while not self.trusted and term == self._term:  # noqa: ASYNC110 - trust runs out by the clock, no event tells
            await asyncio.sleep(_TRUST_SECONDS)
        if term != self._term:
            raise TermOver

    def watch(self, pid: int) -> None:
        """Look after this child until `release`. It must not be reaped yet, so that its pid is still its own."""
        process = Process.of(pid)
        if self._until is None or process is None:
            return
        with self._recording:
            # The record is written first: a process that finds this one dead then finds the child too.
            self._write_down(f"+ {process.pid} {process.started}\n")
            with self._lock:
                self._watched[pid] = process
                self._tell(f"{self._pulse()}+ {process.pid} {process.started}\n")
                self._start_keep_alive()
        self._busy.set()

    def release(self, pid: int) -> None:
        """Stop looking after a child, which has ended."""
        with self._recording:
            with self._lock:
                if self._watched.pop(pid, None) is None:
                    return
                self._tell(f"- {pid}\n")
                left = bool(self._watched)
                if not left and self._watch is None:
                    self._busy.clear()
            self._write_down(f"- {pid}\n" if left else None)

    def end_term(self) -> None:
        """The lease is lost: kill the running children; those that are about to start raise `TermOver`."""
        with self._lock:
            self._term += 1
            left = list(self._watched.values())
        signal_all(left, signal.SIGKILL)

    def close(self) -> None:
        """Kill the running children and dismiss the reaper, unless it watches this process to its end."""
        with self._lock:
            self._closed = True
            left, self._watched = list(self._watched.values()), {}
            if self._watch is not None:
                signal_all(left, signal.SIGKILL)
                return
            self._write_down(None)
            gone, self._reaper = self._reaper, None
        self._busy.set()
        signal_all(left, signal.SIGKILL)
        if gone is not None:
            _dismiss(gone)

    def _start_keep_alive(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._keep_alive, name="custody", daemon=True)
            self._thread.start()

    def _keep_alive(self) -> None:
        while self._watch is not None or not self._closed:
            self._busy.wait()
            with self._lock:
                if self._watch is not None or (self._watched and not self._closed):
                    self._tell(self._pulse())
            if self._beats is not None:
                with contextlib.suppress(OSError):
                    os.write(self._beats, b".")
            threading.Event().wait(self._margin_seconds / 4)

    def _pulse(self) -> str:
        return f"= {self._until() if self._until else 0.0!r}\n"

    def _tell(self, lines: str) -> None:
        """Send lines to the reaper. A reaper that is dead, or whose pipe is full, is replaced by one that is told the
        whole state."""
        if (self._closed and self._watch is None) or self._was_sent(lines):
            return
        self._replace_reaper()

    def _replace_reaper(self) -> None:
        if self._reaper is not None:
            _dismiss(self._reaper, at_once=True)
        everything = "".join(f"+ {child.pid} {child.started}\n" for child in self._watched.values())
        everything += "".join(f"> {thread} {order_id}\n" for thread, order_id in list(self._at_work.items()))
        self._reaper = _start_reaper(self._margin_seconds / 2, self._watch, (self._pulse() + everything).encode())
        if self._reaper is None:
            # Without a reaper the children could outlive this process: better none than those.
            signal_all(self._watched.values(), signal.SIGKILL)
        elif self._signals is not None and self._reaper.stdin is not None:
            # Keep the descriptor number that `signal.set_wakeup_fd` got: the interpreter goes on writing to it.
            os.dup2(self._reaper.stdin.fileno(), self._signals, inheritable=False)

    def _was_sent(self, lines: str) -> bool:
        if self._reaper is None or self._reaper.stdin is None:
            return False
        try:
            return os.write(self._reaper.stdin.fileno(), lines.encode()) == len(lines)
        except (OSError, ValueError):
            return False

    def _write_down(self, line: str | None) -> None:
        """Append to the record; None deletes it. The record only helps other processes, so failures are ignored."""
        if self._record is None:
            return
        with contextlib.suppress(OSError):
            if line is None:
                self._record.unlink(missing_ok=True)
            else:
                with open(self._record, "a", opener=private_opener) as file:
                    file.write(line)


def left_behind(record: Path) -> list[Process]:
    """The children that a record lists and that were not released."""
    try:
        lines = record.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    left: dict[int, Process] = {}
    for line in lines:
        match line.split():
            case ["+", pid, started] if pid.isdigit() and started.isdigit():
                left[int(pid)] = Process(int(pid), int(started))
            case ["-", pid] if pid.isdigit():
                left.pop(int(pid), None)
    return list(left.values())


def _start_reaper(
    silent_seconds: float, watch: tuple[str, ...] | None, commands: bytes
) -> "subprocess.Popen[bytes] | None":
    """Start a reaper with these commands already in its pipe, so that no reaper ever runs without the whole state.
    None when it cannot be started."""
    environment: Mapping[str, str] = {}
    watched = () if watch is None else (str(os.getpid()), *watch)
    read_end, write_end = os.pipe()
    # A reaper that does not read must not block its drone: a full pipe counts as a dead reaper.
    os.set_blocking(write_end, False)
    try:
        if os.write(write_end, commands) < len(commands):
            raise BlockingIOError("more children than a pipe holds")
        with PROCESSORS.all_available():
            started = subprocess.Popen(
                (sys.executable, "-I", "-S", reaper.__file__, repr(silent_seconds), *watched),
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=None if watched else subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                cwd="/",
            )
    except OSError:
        os.close(write_end)
        return None
    finally:
        os.close(read_end)
    started.stdin = os.fdopen(write_end, "wb", buffering=0)
    return started


def _dismiss(gone: "subprocess.Popen[bytes]", *, at_once: bool = False) -> None:
    """Close the pipe of a reaper, whereupon it ends by itself; kill one that does not, `at_once` without waiting."""
    assert gone.stdin is not None
    with contextlib.suppress(OSError):
        gone.stdin.close()
    try:
        gone.wait(0 if at_once else _END_SECONDS)
    except subprocess.TimeoutExpired:
        gone.kill()
        gone.wait()
