"""`subprocess` for commands of this project: forked from a process that has imported them, as children of this one.

A fresh interpreter spends a second of CPU or more on imports. What a command does otherwise is the same: a process of
its own with this environment, this directory and these descriptors and nothing else, a real child, real signals.
Not for tests of the start itself, of the interpreter's options, or of /proc/PID/environ and /proc/PID/cmdline, which
show those of the zygote.
"""

import array
import asyncio
import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mcc.local import launch
from mcc.local.family import Family, family_in_thread
from tests.forking.zygote import LARGEST_REQUEST, RUN_AS_MAIN, STANDARD, Request

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)

OF_THE_INTERPRETER = ("PYTHON", "LANG", "LC_", "LD_")
"""Prefixes of variables that are read when an interpreter starts: with other ones than the zygote's, one has to."""
NOT_OF_THE_INTERPRETER = (
    # What matters of these the zygote takes over, and where bytecode lies changes nothing.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONUNBUFFERED"),
    # What images of containers and build systems note about it (`PYTHON_VERSION`, `PYTHON_SHA256`) and it never reads.
    "PYTHON_",
)

COERCED_LOCALE = "C.UTF-8"
"""What an interpreter makes of no locale at all (PEP 538)."""

AT_START = dict(os.environ)
"""What every zygote is started with: a test that needs the first one may have set something for itself."""

ENTRY_POINTS = {"mcc": "mcc.cli.main", "drone": "drone.cli"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command line of this project, taken to pieces."""

    module: str
    arguments: Sequence[str]
    safe_path: bool = False
    dies_with_asking: bool = False

    @classmethod
    def read(cls, words: Sequence[str]) -> "Command | None":
        """None where it is another program, or Python with options whose meaning is not known here."""
        launcher = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        launched = list(words[: len(launcher)]) == launcher
        program, *rest = words[len(launcher) :] if launched else words
        if Path(program).parent == Path(sys.executable).parent and (module := ENTRY_POINTS.get(Path(program).name)):
            return cls(module, rest, True, launched)
        if program != sys.executable:
            return None
        safe = rest[:1] == ["-P"]
        option, module, *arguments = [*rest[safe:], "", ""][: len(rest) - safe] if len(rest) - safe >= 2 else ["", ""]
        module = f"{module}.__main__" if module == "celery" else module
        return cls(module, arguments, safe, launched) if option == "-m" and module in RUN_AS_MAIN else None


class Asked:
    """A zygote that is a child of this process, as this process asks it. Use from any thread."""

    def __init__(self, asking: socket.socket, started_with: Mapping[str, str]) -> None:
        self._asking = asking
        self._started_with = _of_the_interpreter(started_with)
        self._one_at_a_time = threading.Lock()

    def started_with(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter with this environment would be one like the zygote."""
        return self._started_with == _of_the_interpreter(environment)

    def fork(self, request: Request, descriptors: Sequence[int]) -> int:
        """The pid of the new child. Raises OSError where there is no zygote any more."""
        text = json.dumps(asdict(request)).encode()
        assert len(text) < LARGEST_REQUEST
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._one_at_a_time, _adopting_orphans():
            self._asking.sendmsg([text], rights)
            told = self._asking.recv(32)
        if not told:
            raise BrokenPipeError("the zygote has ended")
        return int(told)


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    prctl = ctypes.CDLL(None).prctl
    prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(ADOPT_ORPHANS, 0, 0, 0, 0)


@cache
def zygote() -> Asked:
    """That of this process, which ends with it."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (here, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    with there:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.forking.zygote", str(there.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
            start_new_session=True,
            env=AT_START,
        )
    atexit.register(process.wait)
    atexit.register(here.close)
    return Asked(here, AT_START)


class Popen(subprocess.Popen[Any]):
    """A command of this project is forked; any other program is executed."""

    def __init__(self, words: Sequence[str], *, asked: Asked | None = None, **options: Any) -> None:
        self._asked = asked
        super().__init__(words, **options)

    def _execute_child(self, *given: Any) -> None:
        names = subprocess.Popen._execute_child.__code__.co_varnames[1:]  # type: ignore[attr-defined]
        options = dict(zip(names, given, strict=False))
        environment = os.environ if options["env"] is None else options["env"]
        command = None if sys.platform != "linux" else _forkable(options)
        if command is None or not (asked := self._asked or zygote()).started_with(environment):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        standard = [number if pipe == -1 else pipe for number, pipe in zip(STANDARD, pipes, strict=True)]
        passed = [*options["pass_fds"]]
        request = Request(
            command.module,
            [os.fspath(word) for word in command.arguments],
            {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
            os.fspath(options["cwd"] or os.getcwd()),
            [*STANDARD, *passed],
            os.getpid(),
            options["start_new_session"],
            command.dies_with_asking,
            command.safe_path or bool(environment.get("PYTHONSAFEPATH")),
            options["umask"],
        )
        try:
            self.pid = asked.fork(request, [*standard, *passed])
        finally:
            ours = [options[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
            self._close_pipe_fds(*ours)  # type: ignore[attr-defined]
        self._child_created = True


def _forkable(options: Mapping[str, Any]) -> Command | None:
    """The command, where a fork of it is what an interpreter would be that was started with these options."""
    words = [os.fspath(word) for word in options["args"]] if not isinstance(options["args"], (str, bytes)) else []
    special = ("shell", "executable", "preexec_fn", "gid", "gids", "uid")
    if not words or any(options[name] not in (None, False, -1) for name in special):
        return None
    if options.get("process_group", -1) not in (None, -1):
        return None
    return Command.read(words)


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(OF_THE_INTERPRETER)
        and not name.startswith(NOT_OF_THE_INTERPRETER)
        and name != "PYTHON"
        and value != COERCED_LOCALE
    }


def run(words: Sequence[str], *, timeout: float = 120.0, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run`, of whose own options it knows `capture_output`, `check`, `input` and `timeout`."""
    said, check = options.pop("input", None), options.pop("check", False)
    if said is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(words, **options) as process:
        try:
            stdout, stderr = process.communicate(said, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


class ForkedTransport(BaseSubprocessTransport):
    """The child of an event loop, forked where it can be."""

    def __init__(self, asked: Asked, *given: Any, **options: Any) -> None:
        self._asked = asked
        super().__init__(*given, **options)

    def _start(self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **more: Any) -> None:
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        self._proc = Popen(args, asked=self._asked, shell=shell, bufsize=bufsize, **streams, **more)
        self._child = self._proc.pid

    def ended(self, pidfd: int) -> None:
        """The kernel says that the child has ended."""
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(self._child, 0)
        self._process_exited(os.waitstatus_to_exitcode(status))


class ForkingLoop(asyncio.SelectorEventLoop):
    """An event loop whose children of this project are forked."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked

    async def _make_subprocess_transport(self, *given: Any, **options: Any) -> ForkedTransport:
        waiter = self.create_future()
        transport = ForkedTransport(self._asked, self, *given, waiter=waiter, **options)
        pidfd = os.pidfd_open(transport.get_pid() or 0)
        self.add_reader(pidfd, transport.ended, pidfd)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport


class _ForkingPolicy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return ForkingLoop(self._asked)


def fork_in_new_loops(asked: Asked) -> None:
    asyncio.set_event_loop_policy(_ForkingPolicy(asked))


@contextmanager
def forking_loops() -> Iterator[None]:
    """Event loops that are made inside of the block fork their children, as long as they live."""
    before = asyncio.get_event_loop_policy()
    fork_in_new_loops(zygote())
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(before)


@contextmanager
def family_of_forks(family: Family) -> Iterator[Family]:
    """As `mcc.local.family.family_in_thread`. Not for tests of a death of this process, or of that thread."""
    with ExitStack() as stack:
        with forking_loops():
            stack.enter_context(family_in_thread(family))
        yield family
