"""What an order changed in its workspace, in a line or two."""

from mcc.contracts.changes import Changes
from mcc.view.output import one_line

_SHOWN = 5
_LONGEST = 4_096
"""Characters of a path: all that a file system takes."""


def change_rows(changes: Changes | None, order_id: str) -> list[tuple[str, str]]:
    """Names and values: files with their lines, commits, worktrees that were not merged, how it is taken back."""
    if changes is None:
        return []
    added, removed = sum(one.added for one in changes.files), sum(one.removed for one in changes.files)
    paths = [one_line(one.path, _LONGEST) for one in changes.files]
    more = [f"{len(paths) - _SHOWN} more"] if len(paths) > _SHOWN else []
    rows = [("changed", f"+{added} −{removed} lines: {', '.join(paths[:_SHOWN] + more)}")] if paths else []
    rows += [("commit", f"{one.id[:12]} {one_line(one.subject, _LONGEST)}") for one in changes.commits]
    rows += [
        ("worktree", f"{one.agent}: {one.state}, {one.ref}")
        for one in changes.worktrees
        if one.state in ("conflict", "kept", "lost")
    ]
    return [*rows, ("take back", f"mcc orders revert {order_id}")] if changes.checkpoints else rows
