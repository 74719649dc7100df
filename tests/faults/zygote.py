"""Quick starts: a process that has imported a program once, and forks a new one whenever asked.

    python -m tests.faults.zygote tests.faults.drone_app     # requests are JSON lines on standard input

A started program is as alone as any other: its own process group, environment and log, killed when the zygote ends.
A fresh interpreter would spend seconds of CPU on imports, at every restart of every member.
"""

import atexit
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any, cast

from mcc.local.launch import SET_DEATH_SIGNAL

ROOT = Path(__file__).parents[2]
WORKER = (
    "celery.app.control",
    "celery.apps.worker",
    "celery.events.state",
    "celery.worker.autoscale",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.worker",
    "drone.worker.components",
    "jsonschema.validators",
    "kombu.transport.redis",
)
LOADED: Mapping[str, tuple[str, ...]] = {
    "tests.drone.worker.fake_drone": WORKER,
    "tests.drone.worker.tool_drone": WORKER,
    "tests.faults.drone_app": (
        *WORKER,
        "drone.models.dialects.anthropic",
        "drone.models.dialects.chat",
        "drone.models.offline",
        "psycopg",
    ),
    "tests.faults.mcc_app": (
        "kombu.transport.redis",
        "psycopg",
        "uvicorn.lifespan.on",
        "uvicorn.loops.auto",
        "uvicorn.protocols.http.auto",
    ),
}
"""What a program imports only while it runs."""

LOOK_SECONDS = 0.05

TELL_SIGNAL = signal.SIGUSR2
"""A started program writes into its log where each of its threads is."""


@dataclass(frozen=True, slots=True)
class Start:
    """A program to start: its complete environment, and the file that its output is appended to."""

    environment: Mapping[str, str]
    log: str


class Zygote:
    """The zygote of one program (a module with `main`), as the process sees it that asks. Use from one thread."""

    def __init__(self, module: str, environment: Mapping[str, str], directory: Path, log: Path) -> None:
        self._module = module
        self._environment = environment
        self._directory = directory
        self._log = log
        self._process: subprocess.Popen[str]
        self._started: Queue[int] = Queue()
        self._ended: dict[int, int] = {}

    def begin(self) -> None:
        """Returns at once; the first `start` waits for the imports."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.zygote", self._module],
                cwd=self._directory,
                env=dict(self._environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="zygote", daemon=True).start()

    def start(self, start: Start, seconds: float = 60.0) -> int:
        """The pid of the new program, which is its process group as well. Raises RuntimeError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(start)) + "\n")
        try:
            return self._started.get(timeout=seconds)
        except Empty:
            said = self._log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"the zygote of {self._module} starts nothing: {said}") from None

    def status(self, pid: int) -> int | None:
        """How this program ended (minus the signal's number when it was killed); None while it runs."""
        return self._ended.get(pid)

    def end(self) -> None:
        """Whatever it started ends with it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                told = json.loads(line)
                if "started" in told:
                    self._ended.pop(told["started"], None)
                    self._started.put(told["started"])
                else:
                    self._ended[told["ended"]] = told["status"]
        except ValueError:
            return


@cache
def zygote_of(module: str) -> Zygote:
    """One for all that this process starts of a program; it ends with it."""
    directory = tempfile.TemporaryDirectory(prefix="zygote-")
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1"}
    zygote = Zygote(module, environment, ROOT, Path(directory.name) / "log")
    zygote.begin()
    atexit.register(directory.cleanup)
    atexit.register(zygote.end)
    return zygote


def _told(**what: int) -> None:
    print(json.dumps(what), flush=True)


def _next_request() -> Start | None:
    """The next request; meanwhile tell of programs that ended. None when nobody will ask any more."""
    while True:
        ready, _, _ = select.select([sys.stdin.fileno()], [], [], LOOK_SECONDS)
        _reap()
        if ready:
            line = _line()
            return Start(**json.loads(line)) if line else None


def _line() -> bytes:
    """One line without a buffer, which would hide from `select` what is in it."""
    pieces = []
    while (piece := os.read(sys.stdin.fileno(), 1)) not in (b"", b"\n"):
        pieces.append(piece)
    return b"".join(pieces)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _told(ended=pid, status=os.waitstatus_to_exitcode(status))


def _become(start: Start, zygote: int) -> None:
    """In the new process: leave behind all that was the zygote's."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != zygote:
        os._exit(1)
    os.environ.clear()
    os.environ.update(start.environment)
    tempfile.tempdir = None  # the zygote may have looked for its own
    log = os.open(start.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.close(log)
    os.close(nothing)
    faulthandler.register(TELL_SIGNAL)


def main(module: str) -> int:
    program: Any = importlib.import_module(module)
    for name in LOADED.get(module, ()):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()
    zygote = os.getpid()
    while (start := _next_request()) is not None:
        pid = os.fork()
        if pid == 0:
            _become(start, zygote)
            return cast(int, program.main())
        _told(started=pid)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
