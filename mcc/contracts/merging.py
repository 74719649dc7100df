"""Which calls of tools people see as one row: the rule of the page and of the terminal."""

UNMERGED = frozenset({"write_file", "edit_file", "apply_patch", "move_file", "delete_file", "git_commit"})
"""Tools whose calls are never merged: each shows what it changed."""


def ended_badly(is_error: bool, exit_code: int | None) -> bool:
    """Whether a call that ended so stands in a row of its own, as what failed is not to be overlooked."""
    return bool(is_error or exit_code)


def joins(before: tuple[str, bool], call: tuple[str, bool]) -> bool:
    """Whether a call shares the row of the one before it, its neighbour among the rows of one agent.

    Each is the name of its tool, and whether it ended badly.
    """
    return before[0] == call[0] and call[0] not in UNMERGED and not before[1] and not call[1]
