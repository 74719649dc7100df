"""The tools that change a git repository: they stage and commit, and run no hook or filter of the repository."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

from pydantic import Field

from drone.agent.turns.toolset import Output, Preview
from drone.checkpoints.diff import on_one_line
from drone.checkpoints.recording import NOTHING_CHANGED
from drone.checkpoints.store import StoreBroken
from drone.sandbox.child import Bounds
from drone.sandbox.places.worktree import common_of
from drone.tools.files.listing import workspace_of
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.display_text import controls_refused, display_path
from drone.tools.frame.tool import ToolContext, ToolFailed, threads_of, tool
from drone.tools.git.program import PATCH, SECONDS, Git, GitCheckout, exact, names_in, readable
from drone.tools.git.repository import pathspec
from drone.tools.git.submodules import gitlinks
from mcc.contracts.git_facts import WorkspaceCommitted
from mcc.contracts.journal import Outcome
from mcc.contracts.line_ends import crlf_in_heads
from mcc.contracts.shape import Text

MESSAGE_CHARACTERS = 20_000
PATHS = 200
LISTED = 100
"""Staged paths that a result lists."""

_TIMEOUT = 120.0
_RECORD_SECONDS = 30.0
_FILTERED = (":(top,literal).git", ":(top,exclude,attr:!filter)", ":(top,exclude,attr:-filter)")
"""Pathspecs that leave only files with a filter. The first matches nothing that git lists; it is there because git
2.39, when all pathspecs lie in one directory, looks attributes up by the path below that directory and finds none."""

NAMES = Bounds(SECONDS, 8_000_000, 0)
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "mcc"), ("EMAIL", "mcc@localhost"))
}
"""The author and committer of agents' commits, whatever user the repository or the machine configures."""

Message = Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARACTERS)]
Paths = Annotated[tuple[Text, ...], Field(min_length=1, max_length=PATHS)]


@dataclass(frozen=True, slots=True)
class GitWriteTools:
    """The tools of one `Git` that change the repository in the order's workspace."""

    git: Git

    def tools(self) -> tuple[Callable[..., object], ...]:
        return (self.git_add, self.git_commit)

    async def staging(self, context: ToolContext, paths: Paths) -> Preview:
        """What `git_add` would stage, one line per path."""
        checkout = await self._opened(context)
        arguments = await _add_arguments(checkout, paths)
        magic = checkout.with_pathspec_magic()
        listed = exact(await magic.output("add", "--dry-run", *arguments, bounds=NAMES))
        command = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", *arguments[1:])
        names = dict.fromkeys(names_in(await magic.output(*command, bounds=NAMES)))
        if any("\n" in name for name in names):
            # git prints such names as they are, so that one path can look like two.
            listed = "".join(f"stage {on_one_line(name)}\n" for name in names)
        return Preview("text", listed)

    async def committing(self, context: ToolContext, message: Message) -> Preview:
        """What `git_commit` would commit: the message, the staged patch, and what tells them apart."""
        _check_message(message)
        checkout = await self._opened(context)
        patch = await checkout.output("diff", *PATCH, "--full-index", "--cached", bounds=NAMES)
        if not patch.total:
            raise ToolFailed(_NOTHING)
        staged = ""
        if patch.left_out:
            raw = await checkout.output("diff", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", bounds=NAMES)
            if raw.left_out:
                raise ToolFailed(_TOO_MUCH)
            staged = (
                f"; {patch.left_out:,} bytes more are staged, all of it with the sha256 {sha256(raw.head).hexdigest()}"
            )
        lines = message.count("\n") + 1
        end = f"[the message has {lines:,} {'line' if lines == 1 else 'lines'}{staged}]"
        return Preview("diff", f"{message}\n\n{crlf_in_heads(exact(patch))}\n{end}")

    @tool(idempotent=True, seconds=_TIMEOUT, effects="write", preview=staging)
    async def git_add(self, context: ToolContext, paths: Paths) -> Output:
        """Stage files, new, changed and deleted ones, for git_commit.

        Args:
            paths: Files or directories; `.` is everything.
        """
        checkout = await self._opened(context)
        arguments = await _add_arguments(checkout, paths)
        after = Aftermath(context.turn, context.stop, seconds=_RECORD_SECONDS)
        async with _checkpointed(context, checkout, after):
            await checkout.with_pathspec_magic().output("add", *arguments)
        return after.told(Output(await after.recorded(_staged(checkout), "These paths are staged.")))

    @tool(seconds=_TIMEOUT, effects="write", preview=committing)
    async def git_commit(self, context: ToolContext, message: Message) -> Output:
        """Commit what is staged.

        Args:
            message: One line that says what and why; a blank line and more where it helps.
        """
        _check_message(message)
        checkout = await self._opened(context)
        before = await _head(checkout)
        after = Aftermath(context.turn, context.stop, seconds=_RECORD_SECONDS)
        async with _checkpointed(context, checkout, after):
            await _commit(checkout, message)
        subject = message.strip("\n").partition("\n")[0]
        commit = await after.recorded(_head(checkout), "")
        if commit is None or commit == before:
            raise ToolFailed("git made no commit; git_status shows where the repository stands.")
        if not commit:
            return after.told(Output(f"Committed: {subject}"))
        name = await after.recorded(_branch(checkout), "")
        if context.turn is not None:
            fact = WorkspaceCommitted(
                call_id=context.call_id,
                commit=commit,
                parent=before,
                branch=name or None,
                subject=subject,
                worktree=checkout.repository.linked,
            )
            await after.recorded(context.turn.journal.write(context.origin, fact), 0)
        stat = ("diff-tree", "--root", "--no-commit-id", "--stat=100", "--no-renames", commit)
        changes = await after.recorded(checkout.text(*stat), "")
        said = f"Commit {commit[:10]} on {name or 'no branch'}: {subject}\n{changes.rstrip()}"
        return after.told(Output(said))

    async def _opened(self, context: ToolContext) -> GitCheckout:
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        checkout.needs_files()
        common = await checkout.threads.tool(common_of, checkout.workspace, checkout.repository.directory)
        return checkout.with_environment(**IDENTITY).writable(common)


@asynccontextmanager
async def _checkpointed(context: ToolContext, checkout: GitCheckout, after: Aftermath) -> AsyncIterator[None]:
    """Save the git directory in a checkpoint before the body changes it. Raises `ToolFailed` where it cannot be."""
    if context.checkpoints is None or checkout.repository.linked:
        yield
        return
    try:
        await context.checkpoints.before(context.call_id)
    except (StoreBroken, OSError) as error:
        raise ToolFailed(f"What the workspace holds could not be kept, so nothing was done: {error}") from error
    try:
        yield
    finally:
        await after.recorded(context.checkpoints.changed(), NOTHING_CHANGED)


_TOO_MUCH = "More is staged than can be shown before it is committed: commit it in parts."
_NOTHING = "Nothing is staged; git_add stages the files that you mean."


async def _commit(checkout: GitCheckout, message: str) -> None:
    if (await checkout.run("diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=dirty")).status == 0:
        raise ToolFailed(_NOTHING)
    options = ("--quiet", "--no-verify", "--no-gpg-sign", "--no-post-rewrite", "--no-status", "--cleanup=verbatim")
    await checkout.output("commit", *options, "--no-edit", f"--message={message}")


def _check_message(message: str) -> None:
    """Raise `ToolFailed` if this cannot be a message: it is committed exactly as it is, and read in terminals."""
    if not message.strip():
        raise ToolFailed("The message is empty: say in a line what the commit does.")
    if (refused := controls_refused("The message", message)) is not None:
        raise ToolFailed(refused)
    try:
        message.encode()
    except UnicodeEncodeError:
        raise ToolFailed("The message is not valid Unicode.") from None


async def _branch(checkout: GitCheckout) -> str:
    """The branch that is checked out; "" for none."""
    return readable((await checkout.run("symbolic-ref", "--quiet", "--short", "HEAD")).stdout).strip()


async def _head(checkout: GitCheckout) -> str | None:
    found = await checkout.run("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}")
    return found.stdout.head.decode("ascii", "replace").strip() or None


async def _add_arguments(checkout: GitCheckout, paths: Sequence[str]) -> tuple[str, ...]:
    """The arguments of `git add` for these paths, without those that must not be staged.

    Raises `ToolFailed` if a path lies in one that must not be staged, or if files go through a filter, and `PathDenied`
    if one is no path of the repository.
    """
    narrowed = [pathspec(checkout.workspace, path) for path in paths]
    names = [spec[-1] if spec else "." for spec in narrowed]
    excluded = await excluded_paths(checkout, await untracked(checkout))
    for path in names:
        if any(path == other or path.startswith(f"{other}/") for other in excluded):
            raise ToolFailed(
                f"{display_path(path)} lies in a repository of its own, or belongs to MCC itself; it is not staged.",
                Outcome.DENIED,
            )
    specs = pathspecs(names, excluded)
    command = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", *specs, *_FILTERED)
    if filtered := names_in(await checkout.with_pathspec_magic().output(*command, bounds=NAMES)):
        listed = ", ".join(map(display_path, filtered[:10]))
        raise ToolFailed(
            "These go through a filter (git-lfs is one), and none runs here, so that something else than what is "
            f"meant would be staged: {listed}. A person can stage them; name the other paths one by one.",
            Outcome.DENIED,
        )
    return ("--all", *specs)


def pathspecs(paths: Sequence[str], excluded: Sequence[str]) -> tuple[str, ...]:
    """The arguments that name `paths`, taken literally, without those `excluded`."""
    named = (f":(top,literal){'' if path == '.' else path}" for path in paths)
    return ("--", *named, *(f":(top,literal,exclude){path}" for path in excluded))


async def excluded_paths(checkout: GitCheckout, others: Sequence[str]) -> tuple[str, ...]:
    """The paths that git must not enter; `others` are the `untracked` ones.

    They are MCC's own files, which git would see empty, and nested repositories, submodules or not, in which another
    git would have to run.
    """
    hidden = await checkout.threads.tool(lambda: [name for name, _ in checkout.workspace.hidden()])
    return (*hidden, *await gitlinks(checkout), *(path[:-1] for path in others if path.endswith("/")))


async def untracked(checkout: GitCheckout) -> list[str]:
    """The files that git neither tracks nor ignores; a nested repository is one name that ends with a slash."""
    return names_in(await checkout.output("ls-files", "-z", "--others", "--exclude-standard", bounds=NAMES))


async def _staged(checkout: GitCheckout) -> str:
    command = ("diff", "--cached", "--name-status", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z")
    words = names_in(await checkout.output(*command, bounds=NAMES))
    pairs = list(zip(words[::2], words[1::2], strict=False))
    lines = [f"{how} {display_path(path)}" for how, path in pairs if how != _UNMERGED]
    unmerged = [display_path(path) for how, path in pairs if how == _UNMERGED]
    more = [f"[{len(lines) - LISTED:,} more]"] if len(lines) > LISTED else []
    if unmerged:
        others = f" and {len(unmerged) - LISTED:,} more" if len(unmerged) > LISTED else ""
        more.append(f"In conflict, and not staged: {', '.join(unmerged[:LISTED])}{others}.")
    if not lines:
        return "\n".join(("Nothing is staged." if unmerged else _AS_COMMITTED, *more))
    return "\n".join((f"Staged, {len(lines):,} in all:", *lines[:LISTED], *more))


_UNMERGED = "U"
_AS_COMMITTED = "Nothing is staged: these paths are as they were committed."
