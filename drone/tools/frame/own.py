"""The operator's own tools: functions of modules named in mcc.toml and of installed packages, loaded at the start.

A tool that cannot be used is left out and reported, and the drone starts: a broken tool must not disable the others.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from drone.tools.frame.capabilities import capability
from drone.tools.frame.schema import ToolDeclarationError
from drone.tools.frame.tool import FunctionTool, declared
from mcc.configuration.own_code import own_code
from mcc.contracts.drones import Capability
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, known_names

ENTRY_POINTS = "mcc.tools"
"""The entry point group in which an installed package names a module, a function or a list of functions."""

log = logging.getLogger("drone.tools")


@dataclass(frozen=True, slots=True)
class OwnTools:
    """`tools`: each tool with its origin. `problems`: what was left out and why, by the name of the tool or module."""

    tools: tuple[tuple[FunctionTool, str], ...] = ()
    problems: tuple[Capability, ...] = ()

    @property
    def groups(self) -> GroupTable:
        """The tool groups, these tools included, so that agent files may name the tools."""
        table: dict[str, tuple[str, ...]] = {name: tuple(tools) for name, tools in TOOL_GROUPS.items()}
        for tool, _ in self.tools:
            table[tool.spec.group] = (*table[tool.spec.group], tool.spec.name)
        return table

    def capabilities(self) -> Iterator[Capability]:
        for tool, origin in self.tools:
            yield capability(tool.spec, origin=origin)
        yield from self.problems


def own_tools(modules: Iterable[str], directory: Path | None) -> OwnTools:
    """Load the tools of installed packages, then those of `modules`; each problem is logged as well.

    A module is a file in `directory`, the operator's configuration directory, or else an importable name.
    """
    tools: dict[str, tuple[FunctionTool, str]] = {}
    problems: list[Capability] = []
    for code in own_code(modules, directory, ENTRY_POINTS):
        name, origin = code.name, code.origin
        try:
            functions = list(_functions(code.load()))
        except (Exception, SystemExit) as error:
            problems.append(_problem(name, origin, f"cannot be loaded: {type(error).__name__}: {error}"))
            continue
        if not functions:
            problems.append(_problem(name, origin, "holds no tool: declare a function with @drone.tool(group=…)"))
        for function in functions:
            tool = _checked_tool(function, origin, tools)
            if isinstance(tool, Capability):
                problems.append(tool)
            else:
                tools[tool.spec.name] = (tool, origin)
    for problem in problems:
        log.warning("the tool %s (%s) is left out: %s", problem.name, problem.origin, problem.problem)
    return OwnTools(tuple(tools.values()), tuple(problems))


def _functions(found: object) -> Iterator[Callable[..., object]]:
    """The declared functions of a module, a list or a single function; functions that a module imports do not count.

    Raises `ToolDeclarationError`.
    """
    if isinstance(found, ModuleType):
        yield from (value for value in vars(found).values() if declared(value) and value.__module__ == found.__name__)
        return
    for value in found if isinstance(found, list | tuple) else (found,):
        if not inspect.isroutine(value) or not declared(value):
            raise ToolDeclarationError(f"{value!r} is no function that @drone.tool declares")
        yield value


def _checked_tool(
    function: Callable[..., object], origin: str, others: Mapping[str, tuple[FunctionTool, str]]
) -> FunctionTool | Capability:
    """The function as a tool, or the reason why it is left out."""
    name = getattr(function, "__name__", "tool")
    try:
        tool = FunctionTool.of(function)
    except (ToolDeclarationError, TypeError, ValueError, NameError) as error:
        return _problem(name, origin, f"is no tool: {error}")
    name = tool.spec.name
    if not tool.spec.group:
        return _problem(name, origin, f"declares no group: one of {', '.join(TOOL_GROUPS)}")
    if name in known_names(TOOL_GROUPS):
        return _problem(name, origin, "has the name of a tool or group of this version: give it another one")
    if name in others:
        return _problem(name, origin, f"has the name of one of {others[name][1]}: give it another one")
    return tool


def _problem(name: str, origin: str, problem: str) -> Capability:
    return Capability(name=name, problem=problem, origin=origin, state="broken")


NO_OWN = OwnTools()
