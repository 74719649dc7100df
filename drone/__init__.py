"""A drone does one work order: the agent runtime, usable as a library without broker or database.

    agent = drone.Agent(definition, model=…, tools=…)
    report = await agent.run("task")

Names are loaded when they are first used, so that `import drone` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drone.agent.agent import Agent as Agent
    from drone.agent.memory import MemoryJournal as MemoryJournal
    from drone.agent.report import Report as Report
    from drone.crew import Crew as Crew
    from drone.models.registry import Models as Models
    from drone.settings import Settings as Settings
    from drone.tools.tool import FunctionTools as FunctionTools
    from drone.tools.tool import Joined as Joined
    from drone.tools.tool import tool as tool
    from mcc.contracts.agents import AgentDefinition as AgentDefinition
    from mcc.contracts.limits import Limits as Limits

_HOMES = {
    "Agent": "drone.agent.agent",
    "AgentDefinition": "mcc.contracts.agents",
    "Crew": "drone.crew",
    "FunctionTools": "drone.tools.tool",
    "Joined": "drone.tools.tool",
    "Limits": "mcc.contracts.limits",
    "MemoryJournal": "drone.agent.memory",
    "Models": "drone.models.registry",
    "Report": "drone.agent.report",
    "Settings": "drone.settings",
    "tool": "drone.tools.tool",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"drone has no {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
