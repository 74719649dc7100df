"""A server's program in the sandbox: the files of this machine it can see, and its environment variables."""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile, Running
from drone.sandbox.child import Bounds, Captured
from drone.sandbox.places.paths import Workspace
from drone.sandbox.profile import SYSTEM, Network
from drone.tools.frame.display_text import both_ends
from mcc.configuration.mcp_servers import McpServer

_VENV = "pyvenv.cfg"
_KEPT_BYTES = 4_000
_SHOWN = 500


class ProgramCannotStart(Exception):
    """The program cannot be started; the message says why and what to do."""


class ServerProgram:
    """A program in the sandbox; it sees no workspace, only its own files and the paths that its configuration names."""

    def __init__(self, sandbox: Bubblewrap, config: McpServer, key: Callable[[str], str | None]) -> None:
        """`key` reads a variable of the drone's environment."""
        self._sandbox = sandbox
        self._config = config
        self._key = key

    async def start(self, network: Network | None = None) -> "RunningProgram":
        """Start the program. Raises `ProgramCannotStart` and OSError."""
        assert self._config.command is not None
        program = _located(self._config.command[0])
        environment = {inside: required_variable(self._key, name) for inside, name in self._config.env.items()}
        with ExitStack() as held:
            empty = held.enter_context(tempfile.TemporaryDirectory(prefix="mcc-mcp-"))
            workspace = Workspace(empty)
            visible = dict.fromkeys(_visible_paths(program, (*self._config.command[1:], *self._config.paths)))
            mounts = [Mount(_opened(path, held), str(path)) for path in visible]
            running = await self._sandbox.start(
                (str(program), *self._config.command[1:]),
                workspace,
                Bounds(math.inf, _KEPT_BYTES, _KEPT_BYTES),
                profile=Profile(egress=network),
                environment=environment,
                mounts=mounts,
                stdin=True,
            )
            if running.stdin is None or running.stdout is None:
                ended = await running.wait()
                raise ProgramCannotStart(_error_text(ended.stderr) or "it ended before anybody spoke to it")
            # From here on they are closed when the program has ended, not when this returns.
            return RunningProgram(running, held.pop_all())


def required_variable(key: Callable[[str], str | None], name: str) -> str:
    """The value of a variable that `key` reads. Raises `ProgramCannotStart` if it is not set."""
    value = key(name)
    if value is None:
        raise ProgramCannotStart(f"the variable {name} is not set for this drone")
    return value


class RunningProgram:
    """A running program, and the resources that stay open until it has ended."""

    def __init__(self, running: Running, held: ExitStack) -> None:
        assert running.stdin is not None and running.stdout is not None
        self.stdin, self.stdout = running.stdin, running.stdout
        self._running = running
        self._held = held
        self.error_text = ""
        """The end of its standard error, once it has ended."""

    async def wait(self) -> object:
        ended = await self._running.wait()
        self.error_text = _error_text(ended.stderr)
        self._held.close()
        return ended

    async def kill(self) -> None:
        await self._running.kill()


def _error_text(stderr: Captured) -> str:
    return both_ends((stderr.head + stderr.tail).decode("utf-8", "replace"), _SHOWN)


def _located(name: str) -> Path:
    """The program's path. Raises `ProgramCannotStart`."""
    found = shutil.which(name)
    if found is None:
        raise ProgramCannotStart(
            f"there is no program {name!r} on this machine, or it may not be run: install it, or name its whole path"
        )
    return Path(found)


def _visible_paths(program: Path, arguments: tuple[str, ...]) -> Iterator[Path]:
    """The paths outside of the system directories that the sandbox shows: the program's, and those among the
    arguments."""
    yield from _with_dependencies(program)
    for argument in arguments:
        path = Path(argument)
        if path.is_absolute() and path.exists() and not _in_system(path):
            yield from _with_dependencies(path) if path.is_file() else (path,)


def _with_dependencies(path: Path) -> Iterator[Path]:
    """A file, or the whole that it needs: its virtual environment with its Python, or its npm packages.

    Both for the path itself and for the target of a link.
    """
    for file in dict.fromkeys((path, Path(os.path.realpath(path)))):
        if _in_system(file):
            continue
        venv = next((parent for parent in file.parents if (parent / _VENV).is_file()), None)
        packages = next((parent for parent in file.parents if parent.name == "node_modules"), None)
        if venv is not None:
            yield venv
            python = Path(os.path.realpath(venv / "bin" / "python"))
            if not _in_system(python) and python.is_file():
                yield python.parent.parent
        elif packages is not None:
            yield packages
        elif file.parent.name == "bin" and (file.parent.parent / "lib").is_dir() and file.name.startswith("python"):
            yield file.parent.parent
        else:
            yield file


def _in_system(path: Path) -> bool:
    return any(str(path).startswith(f"{directory}/") for directory in SYSTEM)


def _opened(path: Path, held: ExitStack) -> int:
    """A descriptor of the path, which `held` closes. Raises `ProgramCannotStart`."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise ProgramCannotStart(f"{path} cannot be shown to it: {error.strerror}") from error
    held.callback(os.close, fd)
    return fd
