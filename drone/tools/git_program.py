"""Running git: only in the sandbox, on a configuration of ours, with what it says made plain."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drone.agent.threads import OwnThreads
from drone.sandbox.bubblewrap import PATH, WORKSPACE, Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, Captured, Ended
from drone.sandbox.paths import Workspace
from drone.sandbox.worktree import COMMON, GIT, Worktree
from drone.tools.display_text import cut, strip_controls, word_before
from drone.tools.git_repository import Repository, cleaned, no_file_among_working_files, repository_of
from drone.tools.tool import ToolFailed
from mcc.contracts.journal import Outcome
from mcc.rules.patterns import Pattern

SECONDS = 50.0
SHOWN_BYTES = 150_000
"""How much of git's output one result shows."""

PATCH = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=dirty"),
    *("--stat=140", "--stat-count=300", "--patch"),
)
"""How a patch is asked for: the list of its files first, nothing of the repository run for it."""

OURS = Profile(ours=True)
_BOUNDS = Bounds(SECONDS, SHOWN_BYTES, 0)
_CONFIG_BYTES = 1_000_000
_SLOW_SECONDS = 2.0
"""When it is looked why git has not ended yet."""

_REVISION = Pattern(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,250}(?:[~^][0-9]{0,6}){0,20}")

ENVIRONMENT: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ASKPASS": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
}

_NO_PROGRAMS = ("PATH=/dev/null", "GIT_EXEC_PATH=/dev/null")

SETTINGS: Mapping[str, str] = {
    "advice.statusHints": "false",
    "color.ui": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.packedGitLimit": "512m",
    "core.packedGitWindowSize": "64m",
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.sshCommand": "false",
    "core.untrackedCache": "false",
    "credential.helper": "",
    "gc.auto": "0",
    "gpg.program": "false",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "safe.directory": "*",
    "submodule.recurse": "false",
}
"""What holds for every command, whatever stands in the repository's configuration."""


@dataclass(frozen=True, slots=True)
class Git:
    """git on this machine; `problem` says why it cannot be used here, None when it can."""

    sandbox: Bubblewrap | None
    problem: str | None = None

    @classmethod
    def found(cls, sandbox: Bubblewrap | None) -> "Git":
        """Tries it once, which takes some 20 ms."""
        if sandbox is None:
            return cls(None, "bubblewrap (bwrap) is not installed, and git runs only inside its sandbox; install it.")
        if shutil.which("git", path=PATH) is None:
            return cls(sandbox, f"git is not installed in {PATH}; install it.")
        return cls(sandbox, sandbox.problem(("git", "--version")))

    async def opened(self, workspace: Workspace, threads: OwnThreads) -> "Checkout":
        """The repository of a workspace, ready for commands. Raises `ToolFailed` and `PathError`."""
        if self.sandbox is None or self.problem is not None:
            raise ToolFailed(f"The git tools are off on this machine: {self.problem}", Outcome.DENIED)
        repository = await threads.tool(repository_of, workspace)
        plainly = Checkout(self.sandbox, workspace, repository, {}, threads)
        if not repository.configured:
            return plainly
        listed = await plainly.run(
            *("config", "--file", repository.config, "--no-includes", "--null", "--list"),
            bounds=Bounds(SECONDS, _CONFIG_BYTES, 0),
        )
        if listed.status or listed.stdout.left_out:
            why = _said(listed.stderr) or f"it has more than {_CONFIG_BYTES:,} bytes"
            raise ToolFailed(f"The configuration of this repository cannot be read: {why}")
        instead = {repository.config: cleaned(listed.stdout.head)}
        return Checkout(self.sandbox, workspace, repository, instead, threads)


@dataclass(frozen=True, slots=True)
class Beside:
    """What git may do and is given beside what holds for every command. `writes`: it may change the repository, and
    finds no program that it could start for that: no hook, filter, editor, or git in a submodule."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, Workspace], ...] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository with its workspace. `instead`: the files that git sees with another content."""

    sandbox: Bubblewrap
    workspace: Workspace
    repository: Repository
    instead: Mapping[str, bytes]
    threads: OwnThreads
    beside: Beside = Beside()

    def magic(self) -> "Checkout":
        """The same, for paths of ours that say how they are to be taken."""
        return self.given(GIT_LITERAL_PATHSPECS="0")

    def given(self, **environment: str) -> "Checkout":
        return replace(self, beside=replace(self.beside, environment={**self.beside.environment, **environment}))

    def recording(self, common: Workspace, **mounts: Workspace) -> "Checkout":
        """The same, where git may change index, objects and refs, but no working file, and starts no program at all.

        `common` is its own directory. `mounts`: further directories, by their names below `/`, which it may change.
        """
        own = () if self.repository.linked else ((f"{WORKSPACE}/{self.repository.directory}", common),)
        there = (*own, *((f"/{name}", directory) for name, directory in mounts.items()))
        return replace(self, beside=Beside(self.beside.environment, there, writes=True))

    async def run(self, *arguments: str, bounds: Bounds = _BOUNDS) -> Ended:
        """What came of it. Raises `ToolFailed` when git waits for what is no file, soon after it began."""
        running = asyncio.create_task(self._run(*arguments, bounds=bounds))
        try:
            await asyncio.wait((running,), timeout=_SLOW_SECONDS)
            if not running.done() and not self.repository.bare:
                wrong = await self.threads.tool(no_file_among_working_files, self.workspace)
                if wrong and not running.done():
                    raise ToolFailed(f"{wrong}, not a regular file, so git waits for it in vain.", Outcome.DENIED)
            return await running
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))

    async def _run(self, *arguments: str, bounds: Bounds) -> Ended:
        settings = (word for pair in SETTINGS.items() for word in ("-c", "=".join(pair)))
        try:
            return await self.sandbox.run(
                (*self._program(), "--no-pager", *settings, *arguments),
                self.workspace,
                bounds,
                profile=OURS,
                environment={**ENVIRONMENT, **self.repository.place(WORKSPACE), **self.beside.environment},
                instead=self.instead,
                look=self.threads.tool,
                mounts=self._mounts(),
            )
        except OSError as error:
            raise ToolFailed(f"The sandbox for git could not be started: {error.strerror}. Try again.") from error

    def _program(self) -> Sequence[str]:
        if not self.beside.writes:
            return ("git",)
        return ("env", *_NO_PROGRAMS, shutil.which("git", path=PATH) or "git")

    def _mounts(self) -> Sequence[Mount]:
        """What of the repository lies outside of the workspace, or is to be changed although the workspace is not."""
        writes = self.beside.writes
        there = [Mount(directory.fd, at, writes) for at, directory in self.beside.mounts]
        if isinstance(self.workspace, Worktree):
            there += [Mount(self.workspace.git.fd, GIT, writes), Mount(self.workspace.common.fd, COMMON, writes)]
        return there

    async def output(self, *arguments: str, bounds: Bounds = _BOUNDS) -> Captured:
        """What the command prints. Raises `ToolFailed` when it fails or takes too long."""
        ended = await self.run(*arguments, bounds=bounds)
        if ended.timed_out:
            raise ToolFailed(
                f"git {arguments[0]} took longer than {bounds.seconds:g} s; ask for less.", Outcome.TIMEOUT
            )
        if ended.status:
            raise ToolFailed(f"git {arguments[0]} failed: {_said(ended.stderr) or f'exit status {ended.status}'}")
        return ended.stdout

    async def text(self, *arguments: str, bounds: Bounds = _BOUNDS) -> str:
        return readable(await self.output(*arguments, bounds=bounds))

    async def commit(self, revision: str) -> str:
        """The full id of a commit that a model named. Raises `ToolFailed`."""
        if not _REVISION.fullmatch(revision) or ".." in revision:
            raise ToolFailed(
                f"{revision[:100]!r} cannot be used as a ref: name a branch, a tag or a commit id, of letters, digits "
                "and ./_- only, with ~1 or ^ behind it if need be. git_branches and git_log show the ids."
            )
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        ended = await self.run(*asked)
        found = ended.stdout.head.decode("ascii", "replace").strip()
        if ended.status or not found:
            none_yet = (await self.run("rev-parse", "--verify", "--quiet", "HEAD")).status
            raise ToolFailed(
                "This repository has no commit yet."
                if none_yet and revision == "HEAD"
                else f"There is no commit {revision!r} here; git_branches and git_log show what there is."
            )
        return found

    def needs_files(self) -> None:
        """Raises `ToolFailed` for a bare repository."""
        if self.repository.bare:
            raise ToolFailed(
                "This is a bare repository, without working files or an index; git_log, git_show, git_branches and "
                "git_diff with a ref such as main..feature work."
            )


def readable(captured: Captured) -> str:
    """The whole lines at the beginning of an output, without terminal commands; carriage returns are shown as ␍."""
    data = captured.head
    if captured.left_out:
        data = data[: data.rfind(b"\n") + 1] or data[: word_before(data, len(data) - 1)]
    return strip_controls(data.decode("utf-8", "replace").replace("\r", "␍"))


def _said(stderr: Captured) -> str:
    """git's own reason, on one line."""
    lines = strip_controls(stderr.head.decode("utf-8", "replace")).replace(f"{WORKSPACE}/", "").splitlines()
    return cut(" ".join(line.strip() for line in lines if line.strip()), 500)
