"""This room is for the crew: it hires the agents that an order needs, with their model, tools and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drone.agent.agent import Agent
from drone.agent.budget import Budget, Share
from drone.agent.definitions import Definitions
from drone.agent.delegation import SUBAGENT, Delegation
from drone.agent.mail import Mailbox
from drone.agent.messages import ToolSpec
from drone.agent.ports import Journal, Model, ToolSet
from drone.agent.report import Report
from drone.agent.turn import Task, Turn, title_of
from drone.models.registry import Models, UnknownModel
from drone.sandbox.paths import PathError
from drone.settings import Settings
from drone.tools.catalog import catalog, workspace_tools
from drone.tools.groups import chosen
from drone.tools.only import Only
from drone.tools.timed import Timed
from drone.tools.tool import Joined
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import Capability
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import Outcome, WorkOrder
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus

BUDGET_LIMITS = frozenset({"cost_usd", "total_tokens"})
"""Limits whose end is called `budget_exhausted`; all others `limit_reached`."""


class CannotHire(Exception):
    """The order asks for something that this drone does not have; a sentence that says what to do."""


class Crew:
    """Everything that a drone needs to run orders, without broker or database. Safe for many orders at once."""

    def __init__(self, settings: Settings, definitions: Definitions, models: Models) -> None:
        self._settings = settings
        self._definitions = definitions
        self._models = models

    @classmethod
    def from_settings(cls, settings: Settings) -> "Crew":
        return cls(settings, Definitions.load(settings.prompts_dir), Models(settings))

    async def run(self, order: WorkOrder, *, attempt: int, journal: Journal, mail: Mailbox | None = None) -> Outcome:
        """One turn of the Master Agent, who reads `mail` between rounds.

        Raises `JournalError` and CancelledError; everything else is in the outcome.
        """
        turn = Turn(journal, Budget(order.limits or Limits()), Mailbox() if mail is None else mail)
        try:
            workspace = self._workspace(order)
            master = Post(self, order, turn, workspace).master()
        except (CannotHire, UnknownModel) as error:
            return Outcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=str(error))
        task = Task(order.prompt, root_record_id(order.id, attempt), title_of(order.prompt))
        return outcome_of(await master.run(task, turn))

    def agents(self) -> tuple[Capability, ...]:
        return self._definitions.capabilities()

    def tools(self) -> tuple[Capability, ...]:
        return (*catalog(), Capability(name=SUBAGENT, description="Delegate a piece of work to a subagent."))

    def models(self) -> tuple[Capability, ...]:
        return self._models.capabilities()

    async def close(self) -> None:
        await self._models.aclose()

    def definition(self, name: str) -> AgentDefinition:
        try:
            return self._definitions.get(name)
        except LookupError as error:
            raise CannotHire(str(error.args[0])) from error

    def model(self, name: str | None) -> Model:
        return self._models.default if name is None else self._models.get(name)

    def _workspace(self, order: WorkOrder) -> Path | None:
        """The order's workspace, real and under an allowed root; None when it asks for none."""
        if order.workspace is None:
            return None
        asked = Path(order.workspace)
        if not asked.is_absolute():
            raise CannotHire(f"The workspace {asked} is not an absolute path.")
        real = asked.resolve()
        roots = [Path(root).expanduser().resolve() for root in self._settings.workspace_roots]
        if not any(real.is_relative_to(root) for root in roots):
            allowed = ", ".join(map(str, roots)) or "none"
            raise CannotHire(
                f"The workspace {asked} lies outside this drone's allowed roots ({allowed}); "
                "add its parent to DRONE_WORKSPACE_ROOTS or choose another."
            )
        if not real.is_dir():
            raise CannotHire(f"The workspace {asked} is not a directory on this drone's machine.")
        return real


@dataclass(frozen=True, slots=True)
class Post:
    """The hiring for one order: every agent of its tree gets tools and spawn rights that its parent has."""

    crew: Crew
    order: WorkOrder
    turn: Turn
    workspace: Path | None

    @property
    def limits(self) -> Limits:
        return self.turn.budget.limits

    def master(self) -> Agent:
        definition = self.crew.definition(self.order.agent)
        asked = self.order.model or (None if definition.model == "inherit" else definition.model)
        try:
            tools = workspace_tools(self.workspace)
        except PathError as error:
            raise CannotHire(f"The workspace cannot be opened: {error}") from error
        return self._agent(definition, self.crew.model(asked), asked, tools, depth=0)

    def _agent(
        self, definition: AgentDefinition, model: Model, asked: str | None, inherited: ToolSet, *, depth: int
    ) -> Agent:
        tools = Only(inherited, _granted(inherited.specs(), definition))
        offered = self._offered(definition) if depth < self.limits.depth else {}
        timed = Timed(tools, Share.of(self.limits, definition.limits, depth).tool_seconds)
        own = Joined(timed, self._delegation(offered, model, tools, depth)) if offered else timed
        return Agent(definition, model=model, tools=own, limits=self.limits, requested_model=asked)

    def _delegation(self, offered: Mapping[str, str], model: Model, tools: ToolSet, depth: int) -> Delegation:
        def hire(agent_type: str, child_depth: int) -> Agent:
            definition = self.crew.definition(agent_type)
            own = None if definition.model == "inherit" else definition.model
            child_model = model if own is None else self.crew.model(own)
            return self._agent(definition, child_model, own or model.name, tools, depth=child_depth)

        return Delegation(self.turn, offered, hire, depth=depth)

    def _offered(self, definition: AgentDefinition) -> dict[str, str]:
        """The usable agents that this one may delegate to, with their descriptions; none without the delegation tools.

        An agent whose file is broken is left out here; registration tells its problem.
        """
        if SUBAGENT not in _granted(_DELEGATION, definition):
            return {}
        known = {agent.name: agent.description for agent in self.crew.agents() if agent.problem is None}
        return {name: known[name] for name in definition.spawns if name in known}


_DELEGATION = (ToolSpec(name=SUBAGENT, description="", parameters={}, group="delegation"),)


def _granted(inherited: Sequence[ToolSpec], definition: AgentDefinition) -> list[str]:
    """Which of the inherited tools the definition lets its agent have, in their order."""
    names = [spec.name for spec in inherited]
    wanted = names if definition.tools is None else chosen(inherited, definition.tools)
    refused = set(chosen(inherited, definition.disallowed_tools))
    return [name for name in wanted if name not in refused]


def outcome_of(report: Report) -> Outcome:
    """What the master's report means for its order."""
    if report.completed:
        return Outcome(status=OrderStatus.SUCCEEDED, answer=report.text)
    if report.status is RecordStatus.LIMIT_REACHED:
        spent = report.limit in BUDGET_LIMITS
        reason = FailureReason.BUDGET_EXHAUSTED if spent else FailureReason.LIMIT_REACHED
    else:
        reason = FailureReason.MODEL_ERROR
    return Outcome(status=OrderStatus.FAILED, reason=reason, detail=f"{report.error}", answer=report.text or None)
