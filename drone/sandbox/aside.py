"""Work on text that strangers wrote, in a process that can be killed, and is when its time is over: both ends of it."""

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
"""Address space of the process."""

ANSWER_BYTES = 16_000_000
"""Longest answer that is taken."""

PATIENCE = 4
"""How many times the processor time that a question may cost its answer is waited for: other processes work as well."""

_START_SECONDS = 10.0
"""More time for the first question: on a busy machine a process takes its time to come up."""

_BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from drone.sandbox.aside import main; main()"
_POLL_SECONDS = 0.05
_PIECE = 65_536

_PR_SET_PDEATHSIG = 1
_NICER = 10


class CutOff(Exception):
    """The work on one question did not come to its end; a sentence that says why."""


class Aside:
    """Asks `make()`, a function made in a process beside this one, one question after the other, all of them JSON.

    `make` stands at the top of a module, takes nothing and gives back the function that answers. The process is started
    by the first question, and anew by the first after it was killed; it inherits no environment, has lower priority,
    and ends with the thread that started it. Use by one thread; close it.
    """

    def __init__(self, make: Callable[[], Callable[[Any], object]], stop: Event | None = None) -> None:
        """`stop`: nobody waits for answers any more."""
        self._name = f"{make.__module__}:{make.__qualname__}"
        self._stop = stop or Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def ask(self, question: object, seconds: float) -> Any:
        """The answer, within so many seconds of processor time.

        Raises `CutOff`: it took more time or memory than it may, or the work broke; ValueError as the work did.
        """
        until = time.monotonic() + PATIENCE * seconds
        if self._process is None:
            until += _START_SECONDS
            self._process = self._started()
        try:
            line = json.dumps({"seconds": seconds, "question": question}).encode() + b"\n"
            answer = json.loads(self._exchanged(self._process, line, until))
        except (CutOff, OSError, ValueError) as error:
            self.close()
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
            # Isolated and without site: neither the environment nor a directory that it stands in says what it loads.
            with PROCESSORS.all_available():
                process = subprocess.Popen(
                    (sys.executable, "-I", "-S", "-c", _BEGIN, json.dumps(import_path()), self._name, str(os.getpid())),
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
        """Send a line, and take the one that answers it."""
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
                    raise CutOff("reading it took too long, or too much memory")
                answer += piece
            if len(answer) > ANSWER_BYTES:
                raise CutOff("there is too much in it")
        return bytes(answer)


def _ready(back: int, to: int | None) -> frozenset[int]:
    """Which of them can be read from, or written to, within a moment; by poll, for drones have more than 1,024 open."""
    polled = select.poll()
    polled.register(back, select.POLLIN)
    if to is not None:
        polled.register(to, select.POLLOUT)
    return frozenset(fd for fd, _ in polled.poll(_POLL_SECONDS * 1_000))


def import_path() -> list[str]:
    """Where modules come from, this package first, so that the directory one stands in adds none of its own."""
    here = str(Path(__file__).resolve().parents[2])
    return [here, *(entry for entry in sys.path if os.path.isabs(entry) and entry != here)]


def main() -> None:
    """`argv`: where modules are looked for, the work as `module:function`, the number of the process that asks."""
    _, _, name, parent = sys.argv
    _bound(int(parent))
    module, _, function = name.partition(":")
    work: Callable[[Any], object] = getattr(importlib.import_module(module), function)()
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        # Both end this process, whatever it is at: also when whoever waits for it is stopped itself.
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


def _bound(parent: int) -> None:
    """Go with the process that asks, take no more memory than may be, and let others go first."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the call above, and then no signal comes any more.
    if os.getppid() != parent:
        sys.exit(0)
    os.nice(_NICER)
    for limit, value in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(limit)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (allowed, allowed))
