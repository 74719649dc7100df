"""This room is for the catalog: the tools of this package, assembled for one order, and named for registration."""

from pathlib import Path

from drone.agent.ports import ToolSet
from drone.sandbox.paths import Workspace
from drone.tools.capped import Capped
from drone.tools.environment import environment_detect
from drone.tools.files import find_files, list_files, read_file
from drone.tools.ripgrep import Ripgrep
from drone.tools.search import search_tool
from drone.tools.tool import FunctionTools
from mcc.contracts.drones import Capability


def workspace_tools(workspace: Path | None) -> ToolSet:
    """The tools for an order's workspace; none without one. Raises `PathError` when it is no directory."""
    if workspace is None:
        return FunctionTools([])
    return Capped(_tools(Workspace(workspace)))


def catalog() -> tuple[Capability, ...]:
    """What this package has, as a drone registers it."""
    return tuple(Capability(name=spec.name, description=_first(spec.description)) for spec in _tools(None).specs())


def _tools(workspace: Workspace | None) -> FunctionTools:
    functions = (environment_detect, list_files, find_files, search_tool(Ripgrep.found()), read_file)
    return FunctionTools(functions, workspace=workspace)


def _first(description: str) -> str:
    """The first paragraph of a description."""
    return description.partition("\n\n")[0]
