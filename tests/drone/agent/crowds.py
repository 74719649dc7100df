"""Agent trees for the tests of delegation: a root agent and scripted children."""

import asyncio
import json
from typing import Any

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.delegation import DELEGATION_TOOLS, CannotHire, Delegation, Wanted
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Author, Line, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import unfenced
from mcc.contracts.fold import Fold
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished
from mcc.contracts.limits import Limits
from mcc.contracts.record import ChatRecord

ORDER = "order-1"
OFFERED = {"explore": "Looks around.", "general": "Does anything."}
CRASHES = "crashes"
"""A type that is offered and whose maker breaks."""


class Tree:
    """A root agent that may delegate to `explore` and `general`, which may delegate further, to the depth limit."""

    def __init__(
        self, script: Author, limits: Limits | None = None, *, tools: tuple[str, ...] = DELEGATION_TOOLS
    ) -> None:
        self.model = ScriptedModel(script)
        self.journal = MemoryJournal(ORDER)
        self.turn = Turn.begun(self.journal, Budget(limits or Limits(), asyncio.get_running_loop().time))
        self.wanted: list[Wanted] = []
        self._tools = tools

    async def run(self, prompt: str = "master") -> Report:
        return await self.agent("master", 0).run(Task(prompt, root_record_id(ORDER)), self.turn)

    def agent(self, name: str, depth: int) -> AgentRuntime:
        tools = Delegation(self.turn, {**OFFERED, CRASHES: ""}, self._hire, depth=depth, tools=self._tools)
        definition = AgentDefinition(name=name, prompt=f"You are {name}.")
        return AgentRuntime(definition, model=self.model, tools=tools, limits=self.turn.budget.limits)

    def _hire(self, wanted: Wanted) -> AgentRuntime:
        self.wanted.append(wanted)
        if wanted.agent_type == CRASHES:
            raise KeyError("no such room")
        if wanted.model == "nobody":
            raise CannotHire("There is no model 'nobody'.")
        return self.agent(wanted.agent_type, wanted.depth)

    def record(self) -> ChatRecord:
        """The chat record; checks that refolding the journal gives the same, and that everything in it has ended."""
        record = self.journal.fold.record()
        assert record is not None
        assert Fold.of(ORDER, self.journal.entries).record() == record
        begun = [entry.record_id for entry in self.journal.entries if isinstance(entry.data, AgentStarted)]
        ended = [entry.record_id for entry in self.journal.entries if isinstance(entry.data, AgentFinished)]
        assert sorted(map(str, begun)) == sorted(map(str, ended))
        return record

    def record_so_far(self) -> tuple[ChatRecord, ...]:
        """The root agent's children so far."""
        record = self.journal.fold.record()
        return () if record is None else record.subagent_history

    def results(self, depth: int = 0) -> list[ToolFinished]:
        """Tool results of the agents at this depth, in the order in which they finished."""
        entries = [entry for entry in self.journal.entries if entry.depth == depth]
        return [entry.data for entry in entries if isinstance(entry.data, ToolFinished)]

    def told(self) -> list[dict[str, Any]]:
        """The reports in the result of the root agent's first `subagents_run` call."""
        reports = json.loads(unfenced(self.results()[0].content))["agents"]
        assert isinstance(reports, list)
        return reports


def piece(name: str, **more: object) -> dict[str, object]:
    """One agent of a `subagents_run` call; its task defaults to its id."""
    return {"id": name, "role": "explore", "task": name, **more}


def several(*agents: dict[str, object], mode: str = "parallel", **more: object) -> Line:
    return Line(calls=(call("subagents_run", agents=list(agents), mode=mode, **more),))
