"""Tools of one's own: every function here that is declared is given to agents that have its group."""

import drone
from drone.tools.frame.tool import ToolContext, ToolFailed


@drone.tool(group="workspace_read", idempotent=True, effects="read")
def count_words(context: ToolContext, path: str) -> int:
    """Count the words of a text file.

    Args:
        path: The file, relative to the workspace.
    """
    if context.workspace is None:
        raise ToolFailed("This order has no workspace: name one to have words counted.")
    with context.workspace.open_file(path) as file:
        return len(file.read(1_000_000).split())
