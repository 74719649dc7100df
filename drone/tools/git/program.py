"""git as a program: runs only in the sandbox, on a sanitized configuration; its output is made safe to show."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drone.sandbox.bubblewrap import PATH, WORKSPACE, Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, Captured, EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.worktree import COMMON, GIT, Worktree
from drone.threads import OwnThreads
from drone.tools.frame.display_text import cut, strip_controls, word_before
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.repository import (
    Repository,
    repository_of,
    sanitized_config,
    submodule_at,
    unreadable_working_file,
)
from mcc.contracts.journal import Outcome
from mcc.rules.patterns import Pattern

SECONDS = 50.0
SHOWN_BYTES = 150_000
"""The bytes of git's output that one result shows."""

PATCH = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=dirty"),
    *("--stat=140", "--stat-count=300", "--patch"),
)
"""Options for patches: the list of changed files first, and no program that the repository configures is run."""

OURS = Profile(ours=True)
_BOUNDS = Bounds(SECONDS, SHOWN_BYTES, 0)
_CONFIG_BYTES = 1_000_000
_SLOW_SECONDS = 2.0
"""After so long, a running git is checked for reading from something that is no regular file."""

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
    # Commands that only read would otherwise rewrite the index.
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
    # It names a program, like several below: a repository must not choose what runs.
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
    # The workspace may belong to another user. Git asks for that because of configurations, of which it sees only a
    # part.
    "safe.directory": "*",
    "submodule.recurse": "false",
}
"""Settings for every command; they override the repository's configuration."""


@dataclass(frozen=True, slots=True)
class Git:
    """git on this machine; `problem` says why it cannot be used, None if it can."""

    sandbox: Bubblewrap | None
    problem: str | None = None

    @classmethod
    def found(cls, sandbox: Bubblewrap | None) -> "Git":
        """git inside this sandbox; runs it once as a test, which takes some 20 ms."""
        if sandbox is None:
            return cls(None, "bubblewrap (bwrap) is not installed, and git runs only inside its sandbox; install it.")
        if shutil.which("git", path=PATH) is None:
            return cls(sandbox, f"git is not installed in {PATH}; install it.")
        return cls(sandbox, sandbox.problem(("git", "--version")))

    async def opened(self, workspace: Workspace, threads: OwnThreads) -> "GitCheckout":
        """The repository of a workspace, ready for commands. Raises `ToolFailed` and `PathError`."""
        if self.sandbox is None or self.problem is not None:
            raise ToolFailed(f"The git tools are off on this machine: {self.problem}", Outcome.DENIED)
        repository = await threads.tool(repository_of, workspace)
        return await GitCheckout(self.sandbox, workspace, repository, {}, threads).sanitized()


@dataclass(frozen=True, slots=True)
class Extras:
    """What commands of one checkout get in addition: environment variables, mounts, and permission to write.

    `writes`: git may change the repository, and can then start no other program: no hook, filter, editor, or git in a
    submodule.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, Workspace], ...] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True)
class GitCheckout:
    """A repository with its workspace. `instead`: files that git sees with other content, by path."""

    sandbox: Bubblewrap
    workspace: Workspace
    repository: Repository
    instead: Mapping[str, bytes]
    threads: OwnThreads
    extras: Extras = Extras()

    async def sanitized(self) -> "GitCheckout":
        """A copy in which git sees only the permitted part of the repository's configuration. Raises `ToolFailed`."""
        repository = self.repository
        if not repository.configured:
            return self
        listed = await self.run(
            *("config", "--file", repository.config, "--no-includes", "--null", "--list"),
            bounds=Bounds(SECONDS, _CONFIG_BYTES, 0),
        )
        if listed.status or listed.stdout.left_out:
            why = _error_line(listed.stderr) or f"it has more than {_CONFIG_BYTES:,} bytes"
            raise ToolFailed(f"The configuration of this repository cannot be read: {why}")
        return replace(self, instead={repository.config: sanitized_config(listed.stdout.head)})

    async def at(self, directory: str, files: str) -> "GitCheckout":
        """The checkout of a submodule whose git directory and working files lie in this one's workspace, for reading.

        Raises `ToolFailed` and `PathError`.
        """
        repository = await self.threads.tool(submodule_at, self.workspace, directory, files)
        return await replace(self, repository=repository, instead={}, extras=Extras()).sanitized()

    def with_pathspec_magic(self) -> "GitCheckout":
        """A copy in which paths may carry pathspec magic, such as `:(top,literal)`."""
        return self.with_environment(GIT_LITERAL_PATHSPECS="0")

    def with_environment(self, **environment: str) -> "GitCheckout":
        return replace(self, extras=replace(self.extras, environment={**self.extras.environment, **environment}))

    def writable(self, common: Workspace, **mounts: Workspace) -> "GitCheckout":
        """A copy in which git may change index, objects and refs, but no working file, and can start no program.

        `common` is the git directory. `mounts`: further directories that git may change, by their names below `/`.
        """
        own = () if self.repository.linked else ((f"{WORKSPACE}/{self.repository.directory}", common),)
        writable = (*own, *((f"/{name}", directory) for name, directory in mounts.items()))
        return replace(self, extras=Extras(self.extras.environment, writable, writes=True))

    async def run(self, *arguments: str, bounds: Bounds = _BOUNDS) -> EndedProgram:
        """Run a command, whatever its exit status.

        Raises `ToolFailed` if git has not ended after some seconds and a working file that it reads is, for example, a
        pipe.
        """
        running = asyncio.create_task(self._run(*arguments, bounds=bounds))
        try:
            await asyncio.wait((running,), timeout=_SLOW_SECONDS)
            if not running.done() and not self.repository.bare:
                wrong = await self.threads.tool(unreadable_working_file, self.workspace)
                if wrong and not running.done():
                    raise ToolFailed(f"{wrong}, not a regular file, so git waits for it in vain.", Outcome.DENIED)
            return await running
        finally:
            if not running.done():
                running.cancel()
                # Git must be gone before its call ends, or it would go on in the workspace.
                await asyncio.wait((running,))

    async def _run(self, *arguments: str, bounds: Bounds) -> EndedProgram:
        settings = (word for pair in SETTINGS.items() for word in ("-c", "=".join(pair)))
        program = ("env", *_NO_PROGRAMS, shutil.which("git", path=PATH) or "git") if self.extras.writes else ("git",)
        try:
            return await self.sandbox.run(
                (*program, "--no-pager", *settings, *arguments),
                self.workspace,
                bounds,
                profile=OURS,
                environment={**ENVIRONMENT, **self.repository.place(WORKSPACE), **self.extras.environment},
                instead=self.instead,
                look=self.threads.tool,
                mounts=self._mounts(),
            )
        except OSError as error:
            raise ToolFailed(f"The sandbox for git could not be started: {error.strerror}. Try again.") from error

    def _mounts(self) -> Sequence[Mount]:
        """The repository's directories outside of the workspace, and those writable although the workspace is not."""
        writes = self.extras.writes
        mounts = [Mount(directory.fd, at, writes) for at, directory in self.extras.mounts]
        if isinstance(self.workspace, Worktree):
            mounts += [Mount(self.workspace.git.fd, GIT, writes), Mount(self.workspace.common.fd, COMMON, writes)]
        return mounts

    async def output(self, *arguments: str, bounds: Bounds = _BOUNDS) -> Captured:
        """The command's standard output. Raises `ToolFailed` when it fails or takes too long."""
        ended = await self.run(*arguments, bounds=bounds)
        if ended.timed_out:
            raise ToolFailed(
                f"git {arguments[0]} took longer than {bounds.seconds:g} s; ask for less.", Outcome.TIMEOUT
            )
        if ended.status:
            raise ToolFailed(f"git {arguments[0]} failed: {_error_line(ended.stderr) or f'exit status {ended.status}'}")
        return ended.stdout

    async def text(self, *arguments: str, bounds: Bounds = _BOUNDS) -> str:
        return readable(await self.output(*arguments, bounds=bounds))

    async def commit(self, revision: str) -> str:
        """The full id of the commit that a model named by `revision`. Raises `ToolFailed`."""
        if not _REVISION.fullmatch(revision) or ".." in revision:
            raise ToolFailed(
                f"{revision[:100]!r} cannot be used as a ref: name a branch, a tag or a commit id, of letters, digits "
                "and ./_- only, with ~1 or ^ behind it if need be. git_branches and git_log show the ids."
            )
        ended = await self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        commit_id = ended.stdout.head.decode("ascii", "replace").strip()
        if ended.status or not commit_id:
            none_yet = (await self.run("rev-parse", "--verify", "--quiet", "HEAD")).status
            raise ToolFailed(
                "This repository has no commit yet."
                if none_yet and revision == "HEAD"
                else f"There is no commit {revision!r} here; git_branches and git_log show what there is."
            )
        return commit_id

    def needs_files(self) -> None:
        """Raise `ToolFailed` if the repository is bare."""
        if self.repository.bare:
            raise ToolFailed(
                "This is a bare repository, without working files or an index; git_log, git_show, git_branches and "
                "git_diff with a ref such as main..feature work."
            )


def readable(captured: Captured) -> str:
    """The complete lines at the beginning of an output, without terminal controls; carriage returns appear as ␍."""
    data = captured.head
    if captured.left_out:
        data = data[: data.rfind(b"\n") + 1] or data[: word_before(data, len(data) - 1)]
    return strip_controls(data.decode("utf-8", "replace").replace("\r", "␍"))


def exact(captured: Captured) -> str:
    """An output as it is, for somebody who decides on it; bytes that are not UTF-8 as lone surrogates.

    Of one that is cut, the complete lines at its beginning.
    """
    data = captured.head
    if captured.left_out:
        data = data[: data.rfind(b"\n") + 1]
    return data.decode("utf-8", "surrogateescape")


def names_in(captured: Captured) -> list[str]:
    """The complete NUL-terminated names in an output."""
    whole = captured.head[: captured.head.rfind(b"\0") + 1]
    return whole.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _error_line(stderr: Captured) -> str:
    """git's own error message, on one line."""
    lines = strip_controls(stderr.head.decode("utf-8", "replace")).replace(f"{WORKSPACE}/", "").splitlines()
    return cut(" ".join(line.strip() for line in lines if line.strip()), 500)
