"""A drone carries out work orders. As a library: the agent runtime, without broker or database.

    agent = drone.Agent(definition, model=…, tools=…)
    report = await agent.run("task")

Each name is imported when it is first used, so that `import drone` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mcc.loading import gc_paused

if TYPE_CHECKING:
    from drone.agent.gates.gate import Evidence as Evidence
    from drone.agent.gates.gate import StateGate as StateGate
    from drone.agent.gates.report_gate import ReportGate as ReportGate
    from drone.agent.ports.journal import MemoryJournal as MemoryJournal
    from drone.agent.ports.report import Report as Report
    from drone.agent.state.tree import Tree as Tree
    from drone.agent.subagents.children import DepthExceeded as DepthExceeded
    from drone.agent.subagents.runner import DelegationTools as DelegationTools
    from drone.agent.subagents.runner import Fork as Fork
    from drone.agent.subagents.runner import ForkResult as ForkResult
    from drone.agent.subagents.runner import SubagentRunner as SubagentRunner
    from drone.agent.subagents.subagent import SubAgent as SubAgent
    from drone.agent.subagents.subagent import SubAgentSession as SubAgentSession
    from drone.agent.subagents.subagent import SubAgentTool as SubAgentTool
    from drone.agent.turns.toolset import Preview as Preview
    from drone.agent.turns.turn import Steering as Steering
    from drone.crew import Crew as Crew
    from drone.in_process import InProcessRunner as InProcessRunner
    from drone.library import Agent as Agent
    from drone.library import Tool as Tool
    from drone.library import load_agent as load_agent
    from drone.models.cache import CachedModel as CachedModel
    from drone.models.guards import RedactedModel as RedactedModel
    from drone.models.registry import Models as Models
    from drone.order_context import OrderContext as OrderContext
    from drone.settings import Settings as Settings
    from drone.tools.frame.tool import FunctionTools as FunctionTools
    from drone.tools.frame.tool import Joined as Joined
    from drone.tools.frame.tool import tool as tool
    from drone.tools.frame.wrappers import Redacted as Redacted
    from mcc.contracts.agents import AgentDefinition as AgentDefinition
    from mcc.contracts.limits import Limits as Limits
    from mcc.redaction import Redactor as Redactor

_HOMES = {
    "Agent": "drone.library",
    "AgentDefinition": "mcc.contracts.agents",
    "CachedModel": "drone.models.cache",
    "Crew": "drone.crew",
    "DelegationTools": "drone.agent.subagents.runner",
    "DepthExceeded": "drone.agent.subagents.children",
    "Evidence": "drone.agent.gates.gate",
    "Fork": "drone.agent.subagents.runner",
    "ForkResult": "drone.agent.subagents.runner",
    "FunctionTools": "drone.tools.frame.tool",
    "InProcessRunner": "drone.in_process",
    "Joined": "drone.tools.frame.tool",
    "Limits": "mcc.contracts.limits",
    "MemoryJournal": "drone.agent.ports.journal",
    "Models": "drone.models.registry",
    "OrderContext": "drone.order_context",
    "Preview": "drone.agent.turns.toolset",
    "Report": "drone.agent.ports.report",
    "Redacted": "drone.tools.frame.wrappers",
    "RedactedModel": "drone.models.guards",
    "Redactor": "mcc.redaction",
    "ReportGate": "drone.agent.gates.report_gate",
    "Settings": "drone.settings",
    "Steering": "drone.agent.turns.turn",
    "SubAgent": "drone.agent.subagents.subagent",
    "SubAgentSession": "drone.agent.subagents.subagent",
    "SubAgentTool": "drone.agent.subagents.subagent",
    "SubagentRunner": "drone.agent.subagents.runner",
    "Tool": "drone.library",
    "Tree": "drone.agent.state.tree",
    "load_agent": "drone.library",
    "StateGate": "drone.agent.gates.gate",
    "tool": "drone.tools.frame.tool",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"drone has no {name!r}; it offers {', '.join(__all__)}")
    with gc_paused():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
