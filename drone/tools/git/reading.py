"""The tools that read a git repository: status, diff, show, log, blame, branches, tracked files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from drone.sandbox.child import Bounds, Captured
from drone.tools.files.listing import LineNumber, workspace_of
from drone.tools.frame.display_text import cut, display_path
from drone.tools.frame.tool import ToolContext, ToolFailed, threads_of, tool
from drone.tools.git.program import PATCH, SECONDS, SHOWN_BYTES, Git, GitCheckout, names_in, readable
from drone.tools.git.repository import pathspec
from drone.tools.git.submodules import joined, submodules_of
from mcc.contracts.shape import Text

MAX_LINES = 2_000
PATCH_BYTES = 40_000
"""The longest patch, in bytes, that a call without a path shows."""

Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
_TIMEOUT = 120.0
_LINE_LENGTH = 400
_NAMES = Bounds(SECONDS, 8_000_000, 0)
_SNIFFED = 8_000
_BLAMED_LINES = 200

_COMMIT = "--format=commit %H%d%nauthor %an <%ae>%ndate %aI%nparents %p%n%n%w(0,4,4)%B"
_LOGGED = "--format=%h %ad %an: %s%d"
_BRANCH = (
    "--format=%(HEAD) %(refname:lstrip=2)  %(objectname:short)  %(committerdate:short)  %(contents:subject)"
    "%(if)%(upstream)%(then)  [follows %(upstream:lstrip=2)]%(end)"
)


@dataclass(frozen=True, slots=True)
class GitTools:
    """The tools of one `Git`; each call finds the repository of the order's workspace anew."""

    git: Git

    def tools(self) -> tuple[Callable[..., object], ...]:
        reading_changes = (self.git_status, self.git_diff, self.git_show)
        return (*reading_changes, self.git_log, self.git_blame, self.git_branches, self.git_ls_files)

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_status(self, context: ToolContext) -> str:
        """Show what is changed in the workspace's git repository: branch, what is staged, changed, not tracked."""
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        checkout.needs_files()
        text = await checkout.text(
            "status", "--long", "--no-column", "--untracked-files=normal", "--ignore-submodules=dirty"
        )
        text = joined(text, await submodules_of(checkout))
        return _lines(text, "Name a path in git_diff, or list_files, to see the rest.")

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_diff(
        self, context: ToolContext, path: Text | None = None, ref: Text | None = None, staged: bool = False
    ) -> str:
        """Show changes: which files with how many lines, then the lines. Of a large change only its files come.

        Without a ref: what is changed and not staged; untracked files are not part of it.

        Args:
            path: Only this file or directory.
            ref: Compare with this branch, tag or commit; `a..b` compares two, `a...b` b with where it left a.
            staged: What is staged against the last commit or ref.
        """
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        narrowed = pathspec(checkout.workspace, path)
        compared, description = await _comparison(checkout, ref, staged)
        patch = await checkout.output("diff", *PATCH, *compared, *narrowed)
        about = f"{description}{f', only {display_path(path)}' if path and narrowed else ''}"
        if patch.total:
            return f"{about}:\n\n{_patch(patch, path)}"
        inner = [] if ref or staged else list((await submodules_of(checkout)).lines())
        return "\n".join((f"No difference: {about}.", *inner))

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_show(self, context: ToolContext, ref: Text, path: Text | None = None) -> str:
        """Show one commit with its message and its patch or, with a path, that file as it was then.

        Of a large patch only its files come; `git_diff` with ref `X~1..X` and a path shows one of them.

        Args:
            ref: A branch, tag or commit id; `HEAD~2` works.
            path: A file, to be shown whole, or a directory, to be listed.
        """
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        narrowed = pathspec(checkout.workspace, path)
        commit = await checkout.commit(ref)
        if path is not None:
            return await _at_commit(checkout, commit, narrowed[-1] if narrowed else "")
        return _patch(await checkout.output("show", *PATCH, "--no-notes", "--no-show-signature", _COMMIT, commit))

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_log(
        self,
        context: ToolContext,
        path: Text | None = None,
        limit: Annotated[int, Field(ge=1, le=500)] = 20,
        since: Day | None = None,
        until: Day | None = None,
    ) -> str:
        """List commits, newest first: id, date, author, subject, branches and tags.

        Args:
            path: Only commits that changed this file or directory.
            limit: Commits at most.
            since: Only of this day (YYYY-MM-DD, UTC) or later.
            until: Only of this day or earlier.
        """
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        narrowed = pathspec(checkout.workspace, path)
        commit = await checkout.commit("HEAD")
        options = ("--no-color", "--no-notes", "--no-show-signature", "--decorate=short", "--date=iso", _LOGGED)
        follow = ("--follow", "--no-ext-diff", "--no-textconv") if narrowed else ()
        from_day = ("--since", f"{since}T00:00:00Z") if since else ()
        days = (*from_day, *(("--until", f"{until}T23:59:59Z") if until else ()))
        text = await checkout.text("log", *options, *follow, *days, f"--max-count={limit + 1}", commit, *narrowed)
        lines = [_short(line) for line in text.splitlines()]
        if not lines:
            return f"No commit {'of these days ' if days else ''}changed {display_path(path or '.')}."
        more = ["[There are older ones; raise limit to see them.]"] if len(lines) > limit else []
        return "\n".join([*lines[:limit], *more])

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_blame(
        self,
        context: ToolContext,
        path: Text,
        start_line: LineNumber = 1,
        end_line: LineNumber | None = None,
        ref: Text | None = None,
    ) -> str:
        """Show who changed each line of a file last, in which commit and when; 200 lines unless end_line says so.

        Args:
            path: The file.
            start_line: First line, from 1.
            end_line: Last line, included.
            ref: As of this branch, tag or commit.
        """
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        if ref is None:
            checkout.needs_files()
        last = min(end_line or start_line + _BLAMED_LINES - 1, start_line + MAX_LINES - 1)
        if last < start_line:
            raise ToolFailed(f"end_line ({end_line}) is before start_line ({start_line}).")
        commit = () if ref is None else (await checkout.commit(ref),)
        options = ("--date=short", "--abbrev=9", "-L", f"{start_line},{last}", *commit)
        text = await checkout.text("blame", *options, *pathspec(checkout.workspace, path))
        return "\n".join(map(_short, text.splitlines()))

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_branches(self, context: ToolContext) -> str:
        """List local and remote branches, the one changed last first; the current one has a star."""
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        options = ("--sort=-committerdate", f"--count={MAX_LINES + 1}", _BRANCH, "refs/heads", "refs/remotes")
        text = await checkout.text("for-each-ref", *options)
        lines = "\n".join([await _current_branch(checkout), *map(_short, text.splitlines())])
        return _lines(lines, "These were changed longest ago.")

    @tool(idempotent=True, seconds=_TIMEOUT, effects="read")
    async def git_ls_files(self, context: ToolContext, path: Text | None = None) -> str:
        """List the files that git tracks, one path per line.

        Args:
            path: Only this file or directory.
        """
        checkout = await self.git.opened(workspace_of(context), threads_of(context))
        checkout.needs_files()
        listed = await checkout.output("ls-files", "-z", "--cached", *pathspec(checkout.workspace, path), bounds=_NAMES)
        names = list(dict.fromkeys(names_in(listed)))
        least = "more than " if listed.left_out else ""
        head = f"{least}{len(names):,} tracked {'file' if len(names) == 1 else 'files'} in {display_path(path or '.')}"
        return _lines("\n".join([head, *map(display_path, names)]), "Name a path to see the rest.")


async def _comparison(checkout: GitCheckout, ref: str | None, staged: bool) -> tuple[tuple[str, ...], str]:
    """The arguments of `git diff` for what is compared, and a description of it. Raises `ToolFailed`."""
    dots = next((dots for dots in ("...", "..") if ref is not None and dots in ref), None)
    if ref is not None and dots is not None:
        if staged:
            raise ToolFailed("What is staged is compared with one ref, not with two; leave out staged or one ref.")
        before, _, after = ref.partition(dots)
        ends = [await checkout.commit(end or "HEAD") for end in (before, after)]
        since = " since it left" if dots == "..." else " against"
        return (dots.join(ends),), f"{after or 'HEAD'}{since} {before or 'HEAD'}"
    checkout.needs_files()
    commits = () if ref is None else (await checkout.commit(ref),)
    if staged:
        return ("--cached", *commits), f"What is staged against {ref or 'the last commit'}"
    return commits, f"The working files against {ref or 'what is staged'}"


async def _at_commit(checkout: GitCheckout, commit: str, path: str) -> str:
    """A file's text or a directory's entries at a commit. Raises `ToolFailed`."""
    what, where = f"{commit}:{path}", f"{display_path(path or '.')} in commit {commit[:10]}"
    kind = (await checkout.run("cat-file", "-t", what)).stdout.head.strip()
    if kind == b"tree":
        return _lines(f"{where}:\n{await checkout.text('ls-tree', '--name-only', what)}", "Name a directory below.")
    if kind != b"blob":
        is_module = kind == b"commit"
        raise ToolFailed(f"{where} is a submodule." if is_module else f"There is no {where}; git_show without a path.")
    blob = await checkout.output("cat-file", "blob", what)
    if b"\0" in blob.head[:_SNIFFED]:
        raise ToolFailed(f"{where} is binary ({blob.total:,} bytes) and cannot be shown as text.")
    return f"{where}, {blob.total:,} bytes\n{_cut(blob)}"


async def _current_branch(checkout: GitCheckout) -> str:
    branch = (await checkout.run("symbolic-ref", "--quiet", "--short", "HEAD")).stdout
    head = (await checkout.run("rev-parse", "--short", "--verify", "--quiet", "HEAD")).stdout
    on = f"On branch {readable(branch).strip()}" if branch.total else f"Detached at {readable(head).strip()}"
    return on if head.total else f"{on}, which has no commit yet"


def _patch(captured: Captured, path: str | None = None) -> str:
    """The changed files, and the patch itself if it is short or the call named a `path`."""
    if path is not None or captured.total <= PATCH_BYTES:
        return _cut(captured)
    files, separator, _ = readable(captured).partition("\ndiff --git ")
    if not separator:
        return _cut(captured)
    note = f"[The patch itself has {captured.total:,} bytes and is not shown; name one of these files as path.]"
    return f"{files.rstrip()}\n{note}"


def _cut(captured: Captured) -> str:
    text = readable(captured).rstrip("\n")
    if not captured.left_out:
        return text
    return f"{text}\n[Cut: {captured.total:,} bytes are more than the {SHOWN_BYTES:,} that are shown; name a path.]"


def _lines(text: str, narrow: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= MAX_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:MAX_LINES], f"[{len(lines) - MAX_LINES:,} more lines are not shown. {narrow}]"])


def _short(line: str) -> str:
    return line if len(line) <= _LINE_LENGTH else f"{cut(line, _LINE_LENGTH)}…"
