"""Forks commands of this project from one process that has imported them; see `tests.forking.popen`, which asks it.

    python -P -m tests.forking.zygote DESCRIPTOR    # a socket of sequenced packets to the process that asks

A request is JSON with descriptors beside it, the answer the pid of the new process. That is by then a child of the
process that asked and not of this one: whoever asks waits for it, is told of its end and can be what it dies with.
"""

import ctypes
import faulthandler
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import drone
import mcc
from mcc.local.launch import SET_DEATH_SIGNAL

TELL_SIGNAL = signal.SIGUSR2
"""A program of the tests writes to its standard error where each of its threads is."""

LARGEST_REQUEST = 1 << 20
MOST_DESCRIPTORS = 64
ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
MOST_NUMBERS = 1 << 20
"""Descriptors have lower numbers."""
STANDARD = (0, 1, 2)

RUN_AS_MAIN = frozenset(
    {
        "celery.__main__",
        "drone.cli",
        "mcc.cli.main",
        "mcc.demo",
        "tests.drone.worker.fake_drone",
        "tests.drone.worker.tool_drone",
        "tests.faults.drone_app",
        "tests.faults.llm",
        "tests.faults.mcc_app",
        "tests.forking.probe",
    }
)
"""They are run anew in each process, and so not imported before."""

IMPORTED_WHILE_RUNNING = (
    "celery.app.control",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.events.state",
    "celery.worker.autoscale",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.worker",
    "flower.command",
    "jsonschema.validators",
    "kombu.transport.redis",
    "psycopg",
    "tests.drone.worker.fake_crew",
    "tests.faults.assembly",
    "tests.faults.bad_calls",
    "tests.faults.clock",
    "tests.faults.llm_faults",
    "tests.faults.poison",
    "tests.faults.ports",
    "tests.faults.repositories",
    "tests.faults.wire",
    "typer.rich_utils",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
)
"""What others import only in the middle of their work."""

STARTS_FAMILIES = frozenset({"generate", "run", "up"})
"""Commands of `mcc` whose processes start others of these commands, and so get a zygote of their own."""


@dataclass(frozen=True, slots=True)
class Request:
    """A process to begin. `environment` is complete; `targets` are the numbers of the descriptors sent along."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    targets: Sequence[int]
    asking: int
    """The pid of the process that asks."""
    own_session: bool
    dies_with_asking: bool
    safe_path: bool
    """As -P: the working directory is no place of modules."""
    umask: int


def serve(asking: socket.socket) -> Request | None:
    """Fork whenever asked. Answers None when nobody can ask any more; in a new process, what it is to become."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(asking, LARGEST_REQUEST, MOST_DESCRIPTORS)
        if not text:
            return None
        request = Request(**json.loads(text))
        if (pid := _forked(request, descriptors)) == 0:
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        asking.send(str(pid).encode())


def _forked(request: Request, descriptors: Sequence[int]) -> int:
    """The pid of the new process; 0 in it. It comes from a process that ends at once, so that the kernel gives it to
    the process that asks, which is for this moment the one that orphans go to."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid != 0:
            os.write(writer, str(pid).encode())
            os._exit(0)
        while os.getppid() != request.asking:
            if os.getppid() == 1:  # nobody asks any more
                os._exit(1)
            time.sleep(0.0005)
        _become(request, descriptors)
        return 0
    os.close(writer)
    os.waitpid(between, 0)
    pid = int(os.read(reader, 32))
    os.close(reader)
    return pid


def _become(request: Request, descriptors: Sequence[int]) -> None:
    """Leave behind all that was the zygote's; be as a program that was just executed."""
    if request.own_session:
        os.setsid()
    if request.dies_with_asking:
        die_with_parent(request.asking)
    os.chdir(request.directory)
    if request.umask >= 0:
        os.umask(request.umask)
    _take(dict(zip(request.targets, descriptors, strict=True)))
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    tempfile.tempdir = None  # the zygote may have looked for its own
    _open_streams(unbuffered=bool(request.environment.get("PYTHONUNBUFFERED")))
    if request.module.startswith("tests."):
        faulthandler.register(TELL_SIGNAL)
    if "MALLOC_ARENA_MAX" in request.environment:
        ctypes.CDLL(None).mallopt(ARENA_MAX, int(request.environment["MALLOC_ARENA_MAX"]))
    sys.argv = [request.module, *request.arguments]
    if not request.safe_path:
        sys.path.insert(0, os.getcwd())


def die_with_parent(parent: int) -> None:
    """SIGKILL when it ends, also when it has already."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _take(wanted: Mapping[int, int]) -> None:
    """Have each descriptor under its number, and no other one open."""
    highest = max((*wanted, *wanted.values())) + 1
    # First out of the way of all numbers: one descriptor may have the number that is another one's.
    moved = {target: _copy_above(descriptor, highest) for target, descriptor in wanted.items()}
    for target, descriptor in moved.items():
        os.dup2(descriptor, target, inheritable=True)
    left = 0
    for target in sorted(wanted):
        if left < target:  # an empty range is taken for all descriptors
            os.closerange(left, target)
        left = target + 1
    os.closerange(left, MOST_NUMBERS)


def _copy_above(descriptor: int, lowest: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)


def _open_streams(*, unbuffered: bool) -> None:
    """Standard streams as the interpreter makes them at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before: Any = getattr(sys, f"__{name}__")
        try:
            raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
        except OSError:
            stream = None
        else:
            kept: Any = io.BufferedReader(raw) if number == 0 else raw if unbuffered else io.BufferedWriter(raw)
            stream = io.TextIOWrapper(
                kept,
                encoding=before.encoding,
                errors=before.errors,
                line_buffering=not unbuffered and (number == 2 or raw.isatty()),
                write_through=unbuffered,
            )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def load() -> None:
    """Import whatever the commands import while they run."""
    for package in (mcc, drone):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in RUN_AS_MAIN and ".migrations." not in module.name:
                importlib.import_module(module.name)
    for name in IMPORTED_WHILE_RUNNING:
        importlib.import_module(name)


def begin_family(module: str, arguments: Sequence[str]) -> socket.socket | None:
    """In a process that may start others: a zygote of its own, forked while it has no threads; the socket to it."""
    if module != "mcc.demo" and not (module == "mcc.cli.main" and STARTS_FAMILIES & set(arguments[:1])):
        return None
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if os.fork() == 0:
        os.setsid()
        die_with_parent(parent)
        nothing = os.open(os.devnull, os.O_RDWR)
        _take({0: nothing, 1: nothing, 2: nothing, 3: there.fileno()})
        here.detach()
        there.detach()
        _live(socket.socket(fileno=3))
    there.close()
    return here


def _live(asking: socket.socket) -> None:
    """As a zygote until nobody asks; in a process that was forked, as that program, to its end."""
    request = serve(asking)
    asking.detach()
    if request is None:
        os._exit(0)
    family = begin_family(request.module, request.arguments)
    if family is not None:
        # Above what it imports: only a process that starts families needs it.
        from tests.forking.popen import Asked, fork_in_new_loops

        fork_in_new_loops(Asked(family, os.environ))
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    sys.exit()


def main(descriptor: int) -> None:
    load()
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()
    _live(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]))
