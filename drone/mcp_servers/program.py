"""Starting a server's program in the sandbox: what it is shown of this machine, and with what in its environment."""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from drone.mcp_servers.words import one_line
from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile, Running
from drone.sandbox.child import Bounds, Captured
from drone.sandbox.paths import Workspace
from drone.sandbox.profile import SYSTEM, Network
from mcc.configuration.mcp_servers import McpServer

_VENV = "pyvenv.cfg"
_KEPT_BYTES = 4_000
_SAID = 500


class CannotStart(Exception):
    """The program is not started; a sentence that says what to do."""


class Program:
    """A program in the sandbox that sees no workspace, only itself and what its table names."""

    def __init__(self, sandbox: Bubblewrap, config: McpServer, key: Callable[[str], str | None]) -> None:
        """`key` reads a variable of the drone."""
        self._sandbox = sandbox
        self._config = config
        self._key = key

    async def start(self, network: Network | None = None) -> "Held":
        """Raises `CannotStart`, OSError."""
        assert self._config.command is not None
        program = _found(self._config.command[0])
        environment = {inside: self._value(name) for inside, name in self._config.env.items()}
        with ExitStack() as held:
            empty = held.enter_context(tempfile.TemporaryDirectory(prefix="mcc-mcp-"))
            workspace = Workspace(empty)
            shown = dict.fromkeys(_shown(program, (*self._config.command[1:], *self._config.paths)))
            mounts = [Mount(_opened(path, held), str(path)) for path in shown]
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
                raise CannotStart(_said(ended.stderr) or "it ended before anybody spoke to it")
            return Held(running, held.pop_all())

    def _value(self, name: str) -> str:
        value = self._key(name)
        if value is None:
            raise CannotStart(f"the variable {name} is not set for this drone")
        return value


class Held:
    """A running program, with what is kept open for it until it is gone."""

    def __init__(self, running: Running, held: ExitStack) -> None:
        assert running.stdin is not None and running.stdout is not None
        self.stdin, self.stdout = running.stdin, running.stdout
        self._running = running
        self._held = held
        self.said = ""
        """The end of what it said on standard error, once it has ended."""

    async def wait(self) -> object:
        ended = await self._running.wait()
        self.said = _said(ended.stderr)
        self._held.close()
        return ended

    async def kill(self) -> None:
        await self._running.kill()


def _said(stderr: Captured) -> str:
    return one_line((stderr.head + stderr.tail)[-_SAID * 2 :].decode("utf-8", "replace"), _SAID)


def _found(name: str) -> Path:
    """Raises `CannotStart`."""
    found = shutil.which(name)
    if found is None:
        raise CannotStart(
            f"there is no program {name!r} on this machine, or it may not be run: install it, or name its whole path"
        )
    return Path(found)


def _shown(program: Path, words: tuple[str, ...]) -> Iterator[Path]:
    """What the sandbox shows of this machine beside the system: where the program is, and paths among the words."""
    yield from _of_program(program)
    for word in words:
        path = Path(word)
        if path.is_absolute() and path.exists() and not _in_system(path):
            yield from _of_program(path) if path.is_file() else (path,)


def _of_program(path: Path) -> Iterator[Path]:
    """A file and what it needs: its virtual environment with the Python of that, the packages of npm around it."""
    for one in dict.fromkeys((path, Path(os.path.realpath(path)))):
        if _in_system(one):
            continue
        home = next((above for above in one.parents if (above / _VENV).is_file()), None)
        packages = next((above for above in one.parents if above.name == "node_modules"), None)
        if home is not None:
            yield home
            yield from _of_program_outside(home / "bin" / "python")
        elif packages is not None:
            yield packages
        elif one.parent.name == "bin" and (one.parent.parent / "lib").is_dir() and one.name.startswith("python"):
            yield one.parent.parent
        else:
            yield one


def _of_program_outside(python: Path) -> Iterator[Path]:
    real = Path(os.path.realpath(python))
    if not _in_system(real) and real.is_file():
        yield real.parent.parent


def _in_system(path: Path) -> bool:
    return any(str(path).startswith(f"{directory}/") for directory in SYSTEM)


def _opened(path: Path, held: ExitStack) -> int:
    """Raises `CannotStart`."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise CannotStart(f"{path} cannot be shown to it: {error.strerror}") from error
    held.callback(os.close, fd)
    return fd
