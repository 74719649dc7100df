"""This room is for the agent files of a workspace: found and read under its path rule, never through a link."""

import os

from drone.sandbox.paths import PathError, PathMissing, Workspace
from mcc.definitions.files import WORKSPACE_DIRECTORY, AgentFile, within_bounds
from mcc.definitions.front_matter import FILE_BYTES

_SUFFIX = ".md"


def agent_files(workspace: Workspace) -> tuple[AgentFile, ...]:
    """The `*.md` of the workspace's `.mcc/agents` by name, as many as are read; one that cannot be says why.

    Blocks for as long as the disk takes.
    """
    try:
        directory = workspace.open_directory(WORKSPACE_DIRECTORY, symlinks=False)
    except PathMissing:
        return ()
    except PathError as error:
        return (AgentFile("", WORKSPACE_DIRECTORY, problem=str(error)),)
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX) and not name.startswith("."))
    finally:
        os.close(directory)
    return within_bounds(names, lambda name: _read(workspace, name))


def _read(workspace: Workspace, name: str) -> AgentFile:
    path = f"{WORKSPACE_DIRECTORY}/{name}"
    agent = name.removesuffix(_SUFFIX)
    try:
        with workspace.open_file(path, symlinks=False) as file:
            return AgentFile(agent, path, file.read(FILE_BYTES + 1))
    except PathError as error:
        return AgentFile(agent, path, problem=str(error))
    except OSError as error:
        return AgentFile(agent, path, problem=f"the file cannot be read: {error.strerror}")
