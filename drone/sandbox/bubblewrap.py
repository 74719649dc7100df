"""This room is for bubblewrap: the profile in which foreign programs run, and whether this machine can make it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from drone.sandbox.child import Bounds, Ended, run
from drone.sandbox.custody import Custody
from drone.sandbox.leash import Leash

WORKSPACE = "/workspace"
"""Where the workspace is, for whatever runs in the sandbox."""

PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT: Mapping[str, str] = {
    "PATH": PATH,
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}
"""All that is in a child's environment, whatever is in ours."""

_NAMESPACES = ("user", "pid", "ipc", "uts", "net")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_TRIAL_SECONDS = 10.0
_AT_ONCE = 8


class Bubblewrap:
    """Runs programs without network, with nothing but the system and one workspace to read, and nothing to write to.

    Namespaces of their own for users, processes, IPC, host name and network; no capability, no new privilege; a private
    /tmp that is gone afterwards. They die with this process, and are held back while it may not act (`custody`). At
    most 8 run at once, further ones wait.
    """

    def __init__(self, program: str, custody: Custody | None = None) -> None:
        self.custody = custody or Custody()
        self._program = program
        self._system = tuple(_system())
        self._places = asyncio.Semaphore(_AT_ONCE)

    @classmethod
    def found(cls, path: str | None = None) -> "Bubblewrap | None":
        """The `bwrap` of `path` (colon-separated, None = the environment's PATH), if there is one."""
        program = shutil.which("bwrap", path=path)
        return None if program is None else cls(program)

    async def run(
        self,
        argv: Sequence[str],
        workspace: Path,
        bounds: Bounds,
        *,
        environment: Mapping[str, str] | None = None,
        instead: Mapping[str, bytes] | None = None,
    ) -> Ended:
        """Run `argv` in the workspace, which is read-only. Raises OSError when bubblewrap cannot be started.

        `environment` is added to `ENVIRONMENT`. `instead`: files of the workspace (relative paths) that the child sees
        with another content.
        """
        async with self._places:
            with closing(Leash()) as leash, closing(_Overlays(instead or {})) as overlays:
                options = (*leash.options, *self._profile(workspace, environment or {}), *overlays.options)
                command = (self._program, *options, "--", *argv)
                return await run(command, leash, bounds, self.custody, overlays.descriptors)

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        """Why this command cannot be run here, None when it can: it is tried. Blocks for some 20 ms."""
        options = self._profile(Path("/usr"), {})
        try:
            tried = subprocess.run(
                (self._program, *options, "--", *argv), capture_output=True, timeout=_TRIAL_SECONDS, env={}, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self._program} does not work: {error}"
        if tried.returncode:
            said = tried.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            return f"{self._program} cannot make a sandbox here: {said or f'exit status {tried.returncode}'}"
        return None

    def _profile(self, workspace: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
        return (
            *(f"--unshare-{name}" for name in _NAMESPACES),
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            *("--cap-drop", "ALL"),
            "--clearenv",
            *(word for pair in {**ENVIRONMENT, **environment}.items() for word in ("--setenv", *pair)),
            *self._system,
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *("--ro-bind", str(workspace), WORKSPACE),
            *("--remount-ro", "/"),
            *("--chdir", WORKSPACE),
        )


class _Overlays:
    """Contents that take the place of files, each in memory behind a descriptor of its own."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._files = {path: _in_memory(content) for path, content in contents.items()}

    @property
    def options(self) -> tuple[str, ...]:
        places = ((str(fd), f"{WORKSPACE}/{path}") for path, fd in self._files.items())
        return tuple(word for place in places for word in ("--ro-bind-data", *place))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._files.values())

    def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("overlay")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _system() -> Iterator[str]:
    """Programs and libraries, laid out as they are outside; of /etc only where the libraries are."""
    for directory in _SYSTEM:
        if os.path.islink(directory):
            yield from ("--symlink", os.readlink(directory), directory)
        elif os.path.isdir(directory):
            yield from ("--ro-bind", directory, directory)
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
