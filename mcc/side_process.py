"""Untrusted text is parsed in a side process, which is killed when it exceeds its time: both ends of the pipe."""

import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from mcc.processors import PROCESSORS

MEMORY_BYTES = 1 << 30
"""Limit on the address space of a side process (RLIMIT_AS), unless it is told another."""

ANSWER_BYTES = 16_000_000
"""Longest accepted answer."""

PATIENCE = 4
"""Wall-clock limit of a question, as a multiple of its CPU limit: other processes need the processor as well."""

_START_SECONDS = 10.0
"""Extra wall-clock time for the first question: on a busy machine a process starts slowly."""

_BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from mcc.side_process import main; main()"
_POLL_SECONDS = 0.05
_END_SECONDS = 1.0
"""Within so long a process that has closed its end of the pipe is gone."""

_PIECE = 65_536

_PR_SET_PDEATHSIG = 1
_NICER = 10


class CutOff(Exception):
    """The side process did not answer a question; the message is a sentence that says why."""


class KilledByOthers(CutOff):
    """Somebody else has killed the side process: it may be asked again."""


class SideProcess:
    """Calls the function that `make()` returns in a process of its own, one question at a time. Questions and answers
    are JSON.

    `make` is a module-level function without arguments. The first question starts the process, and so does the first
    one after the process was killed. The process inherits no environment, runs at lower priority and dies with the
    thread that started it. Use from one thread; close it.
    """

    def __init__(
        self,
        make: Callable[[], Callable[[Any], object]],
        stop: Event | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        """`stop`: when it is set, the caller no longer waits, and a running question raises `CutOff`. `memory_bytes`:
        limit on the address space of the process."""
        self._memory_bytes = memory_bytes
        self._name = f"{make.__module__}:{make.__qualname__}"
        self._stop = stop or Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def ask(self, question: object, seconds: float) -> Any:
        """The answer, within `seconds` of CPU time.

        Raises `CutOff` when the work exceeds its time or memory, or fails; ValueError when the work raised one.
        """
        until = time.monotonic() + PATIENCE * seconds
        if self._process is None:
            until += _START_SECONDS
            self._process = self._started()
        try:
            line = json.dumps({"seconds": seconds, "question": question}).encode() + b"\n"
            answer = json.loads(self._exchanged(self._process, line, until))
        except (CutOff, OSError, ValueError) as error:
            killed = isinstance(error, _Ended | BrokenPipeError) and _was_killed(self._process)
            self.close()
            if killed:
                raise KilledByOthers("the process that reads it was killed") from error
            raise error if isinstance(error, CutOff) else CutOff("the process that reads it ended early") from error
        if "refused" in answer:
            raise ValueError(answer["refused"])
        if "broke" in answer:
            raise CutOff(answer["broke"])
        return answer["value"]

    def close(self) -> None:
        """Kill the process, and wait until it is gone."""
        gone, self._process = self._process, None
        if gone is None:
            return
        gone.kill()
        for pipe in (gone.stdin, gone.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        gone.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        self.starts += 1
        try:
            mine = (json.dumps(import_path()), self._name, str(os.getpid()), str(self._memory_bytes))
            with PROCESSORS.all_available():
                process = subprocess.Popen(
                    (*isolated_interpreter(), "-c", _BEGIN, *mine),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    start_new_session=True,
                    bufsize=0,
                )
        except OSError as error:
            raise CutOff(f"no process could be started to read it: {error.strerror}") from error
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return process

    def _exchanged(self, process: "subprocess.Popen[bytes]", line: bytes, until: float) -> bytes:
        """Send a line and read the line that answers it, until `until` on the monotonic clock. Raises `CutOff`."""
        assert process.stdin is not None and process.stdout is not None
        to, back = process.stdin.fileno(), process.stdout.fileno()
        left, answer = memoryview(line), bytearray()
        while not answer.endswith(b"\n"):
            if self._stop.is_set():
                raise CutOff("nobody waits for it any more")
            if time.monotonic() > until:
                raise CutOff("reading it took too long")
            ready = _ready(back, to if left else None)
            if to in ready:
                left = left[os.write(to, left[:_PIECE]) :]
            if back in ready:
                piece = os.read(back, _PIECE)
                if not piece:
                    raise _Ended("reading it took too long, or too much memory")
                answer += piece
            if len(answer) > ANSWER_BYTES:
                raise CutOff("there is too much in it")
        return bytes(answer)


class _Ended(CutOff):
    """The process has ended before it answered."""


def _was_killed(process: "subprocess.Popen[bytes]") -> bool:
    """Whether an ended process was killed by somebody else: its own timers and limits end it by other signals."""
    try:
        return process.wait(_END_SECONDS) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


def _ready(back: int, to: int | None) -> frozenset[int]:
    """Which of these descriptors is ready (`back` for reading, `to` for writing) within 50 ms.

    By poll and not select: a drone has more than 1,024 descriptors open.
    """
    polled = select.poll()
    polled.register(back, select.POLLIN)
    if to is not None:
        polled.register(to, select.POLLOUT)
    return frozenset(fd for fd, _ in polled.poll(_POLL_SECONDS * 1_000))


def isolated_interpreter() -> list[str]:
    """The command of an interpreter for a child process: neither environment nor current directory decides what it
    imports (-I), and `site` is not run (-S). Compiled sources are read, and written, where this process does it."""
    prefix = () if sys.pycache_prefix is None else ("-X", f"pycache_prefix={sys.pycache_prefix}")
    return [sys.executable, "-I", "-S", *(("-B",) if sys.dont_write_bytecode else ()), *prefix]


def import_path() -> list[str]:
    """`sys.path` for a child process: this package first, relative entries left out, so that the current directory
    contributes no modules."""
    here = str(Path(__file__).resolve().parents[1])
    return [here, *(entry for entry in sys.path if os.path.isabs(entry) and entry != here)]


def main() -> None:
    """The side process. `argv`: its `sys.path` as JSON, the work as `module:function`, the pid of its parent, its
    limit of memory in bytes."""
    _, _, name, parent, memory_bytes = sys.argv
    _limit_self(int(parent), int(memory_bytes))
    module, _, function = name.partition(":")
    work: Callable[[Any], object] = getattr(importlib.import_module(module), function)()
    # Not before: where compiled modules cannot be kept, every process compiles them anew.
    _limit(resource.RLIMIT_FSIZE, 0)
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        # Either timer kills this process whatever it is doing, even while its parent is stopped (SIGSTOP).
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * asked["seconds"])
        out.write(json.dumps(_answer(work, asked["question"])).encode() + b"\n")
        out.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(work: Callable[[Any], object], question: object) -> dict[str, object]:
    try:
        return {"value": work(question)}
    except ValueError as error:
        return {"refused": str(error)[:1_000]}
    except MemoryError:
        gc.collect()
        return {"broke": "reading it took too much memory"}
    except Exception as error:
        return {"broke": f"reading it failed: {type(error).__name__}"}


def _limit_self(parent: int, memory_bytes: int) -> None:
    """Die with the parent, cap memory, and lower the priority."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # If the parent died before the call above, no signal comes any more.
    if os.getppid() != parent:
        sys.exit(0)
    os.nice(_NICER)
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_CORE, 0)


def _limit(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(limit, (allowed, allowed))
