"""Where an agent's definition comes from, as far as people who watch must know it."""

from mcc.contracts.journal import AgentStarted


def workspace_file(started: AgentStarted) -> str | None:
    """The file of the workspace that defines the agent; None when it is not defined there."""
    origin = started.definition_origin
    return origin.path if origin is not None and origin.scope == "workspace" else None
