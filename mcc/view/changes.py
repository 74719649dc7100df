"""What an order changed in its workspace, in a line or two."""

from mcc.contracts.changes import Changes

_SHOWN = 5


def changes_told(changes: Changes | None, order_id: str) -> list[tuple[str, str]]:
    """Names and values: files with their lines, commits, worktrees that were not merged, how it is taken back."""
    if changes is None:
        return []
    added, removed = sum(one.added for one in changes.files), sum(one.removed for one in changes.files)
    paths = [one.path for one in changes.files]
    more = [f"{len(paths) - _SHOWN} more"] if len(paths) > _SHOWN else []
    told = [("changed", f"+{added} −{removed} lines: {', '.join(paths[:_SHOWN] + more)}")] if paths else []
    told += [("commit", f"{one.id[:12]} {one.subject}") for one in changes.commits]
    told += [
        ("worktree", f"{one.agent}: {one.state}, {one.ref}")
        for one in changes.worktrees
        if one.state in ("conflict", "kept")
    ]
    return [*told, ("take back", f"mcc orders revert {order_id}")] if changes.checkpoints else told
