"""The tools that change a repository: they stage, and they commit. Nothing of the repository runs for it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from drone.agent.toolset import Preview
from drone.checkpoints.store import StoreBroken
from drone.sandbox.child import Bounds, Captured
from drone.sandbox.paths import Workspace
from drone.sandbox.worktree import common_of
from drone.tools.display_text import display_path, strip_controls
from drone.tools.files import workspace_of
from drone.tools.git_program import PATCH, SECONDS, Checkout, Git, readable
from drone.tools.git_repository import pathspec
from drone.tools.tool import ToolContext, ToolFailed, threads_of, tool
from mcc.contracts.git_facts import WorkspaceCommitted
from mcc.contracts.journal import Outcome
from mcc.contracts.shape import Text

MESSAGE_CHARACTERS = 20_000
PATHS = 200
LISTED = 100
"""Paths that are told of what was staged."""

_TIMEOUT = 120.0
_FILTERED = (":(top,literal).git", ":(top,exclude,attr:!filter)", ":(top,exclude,attr:-filter)")
"""Leaves out what goes through no filter. The first names nothing that git lists: where all that is named lies in one
directory, git 2.39 asks for the attributes of it by the rest of its path, and finds none."""

_GITLINK = "160000 "
NAMES = Bounds(SECONDS, 8_000_000, 0)
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "mcc"), ("EMAIL", "mcc@localhost"))
}
"""Whoever the repository or the machine says that its user is, an agent is not that person."""

Message = Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARACTERS)]
Paths = Annotated[tuple[Text, ...], Field(min_length=1, max_length=PATHS)]


@dataclass(frozen=True, slots=True)
class GitWriteTools:
    """The tools of one `Git` that change the repository of the order's workspace."""

    git: Git

    def tools(self) -> tuple[Callable[..., object], ...]:
        return (self.git_add, self.git_commit)

    async def staging(self, context: ToolContext, paths: Paths) -> Preview:
        """What `git_add` would stage, a line a path."""
        checkout = await self._opened(context)
        asked = ("add", "--dry-run", "--all", *await chosen(checkout, _specs(checkout.workspace, paths)))
        return Preview("text", readable(await checkout.magic().output(*asked)))

    async def committing(self, context: ToolContext, message: Message) -> Preview:
        """What `git_commit` would commit: the staged patch."""
        checkout = await self._opened(context)
        patch = await checkout.output("diff", *PATCH, "--cached")
        if not patch.total:
            raise ToolFailed(_NOTHING)
        return Preview("diff", f"{_clean(message)}\n\n{readable(patch)}")

    @tool(idempotent=True, seconds=_TIMEOUT, effects="write", preview=staging)
    async def git_add(self, context: ToolContext, paths: Paths) -> str:
        """Stage files, new, changed and deleted ones, for git_commit.

        Args:
            paths: Files or directories; `.` is everything.
        """
        checkout = await self._opened(context)
        staged = await chosen(checkout, _specs(checkout.workspace, paths))
        async with _kept(context, checkout):
            await checkout.magic().output("add", "--all", *staged)
        return await _staged(checkout)

    @tool(seconds=_TIMEOUT, effects="write", preview=committing)
    async def git_commit(self, context: ToolContext, message: Message) -> str:
        """Commit what is staged.

        Args:
            message: One line that says what and why; a blank line and more where it helps.
        """
        checkout = await self._opened(context)
        before = await _head(checkout)
        async with _kept(context, checkout):
            await _commit(checkout, _clean(message))
        after = await _head(checkout)
        if after is None or after == before:
            raise ToolFailed("git made no commit; git_status shows where the repository stands.")
        branch = (await checkout.run("symbolic-ref", "--quiet", "--short", "HEAD")).stdout
        subject = _clean(message).partition("\n")[0]
        name = readable(branch).strip()
        if context.turn is not None:
            fact = WorkspaceCommitted(
                call_id=context.call_id,
                commit=after,
                parent=before,
                branch=name or None,
                subject=subject,
                worktree=checkout.repository.linked,
            )
            await context.turn.journal.write(context.origin, fact)
        stat = await checkout.text("diff-tree", "--root", "--no-commit-id", "--stat=100", "--no-renames", after)
        return f"Commit {after[:10]} on {name or 'no branch'}: {subject}\n{stat.rstrip()}"

    async def _opened(self, context: ToolContext) -> Checkout:
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        checkout.needs_files()
        common = await checkout.threads.tool(common_of, checkout.workspace, checkout.repository.directory)
        return checkout.given(**IDENTITY).recording(common)


@asynccontextmanager
async def _kept(context: ToolContext, checkout: Checkout) -> AsyncIterator[None]:
    """Of git's directory is kept what it held before. Raises `ToolFailed`."""
    if context.checkpoints is None or checkout.repository.linked:
        yield
        return
    try:
        await context.checkpoints.before(context.call_id)
        try:
            yield
        finally:
            await context.checkpoints.changed()
    except (StoreBroken, OSError) as error:
        raise ToolFailed(f"What the workspace holds could not be kept, so nothing was done: {error}") from error


_NOTHING = "Nothing is staged; git_add stages the files that you mean."


async def _commit(checkout: Checkout, message: str) -> None:
    if (await checkout.run("diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=dirty")).status == 0:
        raise ToolFailed(_NOTHING)
    asked = ("--quiet", "--no-verify", "--no-gpg-sign", "--no-post-rewrite", "--no-status", "--cleanup=whitespace")
    await checkout.output("commit", *asked, "--no-edit", f"--message={message}")


def _clean(message: str) -> str:
    """Without commands to a terminal: whoever reads the history shows it there. Raises `ToolFailed`."""
    said = strip_controls(message.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if not said or "\0" in said:
        raise ToolFailed("The message is empty: say in a line what the commit does.")
    return said


async def _head(checkout: Checkout) -> str | None:
    found = await checkout.run("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}")
    return found.stdout.head.decode("ascii", "replace").strip() or None


def _specs(workspace: Workspace, paths: Sequence[str]) -> tuple[str, ...]:
    """The paths as git is told them, relative to the root. Raises `PathDenied`."""
    narrowed = [pathspec(workspace, path) for path in paths]
    return tuple(spec[-1] if spec else "." for spec in narrowed)


async def chosen(checkout: Checkout, paths: Sequence[str]) -> tuple[str, ...]:
    """The arguments that name these paths, without what git must not be led into. Raises `ToolFailed` where a path is
    nothing else, or goes through a filter."""
    out = await off_limits(checkout, await untracked(checkout))
    for path in paths:
        if any(path == one or path.startswith(f"{one}/") for one in out):
            raise ToolFailed(
                f"{display_path(path)} lies in a repository of its own, or belongs to MCC itself; it is not staged.",
                Outcome.DENIED,
            )
    asked = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", *specs(paths, out), *_FILTERED)
    if names := names_in(await checkout.magic().output(*asked, bounds=NAMES)):
        listed = ", ".join(map(display_path, names[:10]))
        raise ToolFailed(
            "These go through a filter (git-lfs is one), and none runs here, so that something else than what is "
            f"meant would be staged: {listed}. A person can stage them; name the other paths one by one.",
            Outcome.DENIED,
        )
    return specs(paths, out)


def specs(paths: Sequence[str], out: Sequence[str]) -> tuple[str, ...]:
    """The arguments that name `paths`, taken literally, but for those that are `out`."""
    named = (f":(top,literal){'' if path == '.' else path}" for path in paths)
    return ("--", *named, *(f":(top,literal,exclude){path}" for path in out))


async def off_limits(checkout: Checkout, others: Sequence[str]) -> tuple[str, ...]:
    """What git must not be led into: what belongs to MCC itself, which it would see empty, and repositories of their
    own, submodules or not, in which it would have to run. `others` are the `untracked` ones."""
    hidden = await checkout.threads.tool(lambda: [name for name, _ in checkout.workspace.hidden()])
    listed = names_in(await checkout.output("ls-files", "-z", "--stage", bounds=NAMES))
    modules = [path for mode, _, path in (entry.partition("\t") for entry in listed) if mode.startswith(_GITLINK)]
    return (*hidden, *modules, *(path[:-1] for path in others if path.endswith("/")))


async def untracked(checkout: Checkout) -> list[str]:
    """Files that git neither tracks nor ignores; a repository of its own is one name, with a slash at its end."""
    return names_in(await checkout.output("ls-files", "-z", "--others", "--exclude-standard", bounds=NAMES))


def names_in(captured: Captured) -> list[str]:
    """The whole ones of names that are ended by NUL."""
    whole = captured.head[: captured.head.rfind(b"\0") + 1]
    return whole.decode("utf-8", "surrogateescape").split("\0")[:-1]


async def _staged(checkout: Checkout) -> str:
    asked = ("diff", "--cached", "--name-status", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z")
    words = names_in(await checkout.output(*asked, bounds=NAMES))
    lines = [f"{how} {display_path(path)}" for how, path in zip(words[::2], words[1::2], strict=False)]
    if not lines:
        return "Nothing is staged: these paths are as they were committed."
    more = [f"[{len(lines) - LISTED:,} more]"] if len(lines) > LISTED else []
    return "\n".join((f"Staged, {len(lines):,} in all:", *lines[:LISTED], *more))
