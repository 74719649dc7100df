"""The runtime as a library: `drone.Agent` with functions as tools, and `load_agent`."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from drone.agent import agent
from drone.agent.control.approver import Approver
from drone.agent.gates.gate import Gate
from drone.agent.gates.report_gate import gate_for
from drone.agent.gates.result_class import typed
from drone.agent.gates.verifier import VERIFY, Verifier, as_verifier
from drone.agent.parts import Hired
from drone.agent.ports.model import Model
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Share
from drone.agent.subagents.runner import DelegationTools, SubagentRunner, restraints
from drone.agent.subagents.subagent import SubAgent, SubAgentTool
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Task, Turn
from drone.definitions import shipped_prompts
from drone.models.guards import ModelSource, NamedModels, UnknownModel
from drone.tools.frame.tool import FunctionTools, Joined
from drone.tools.frame.wrappers import Only, OnlyReading, Timed
from mcc.configuration.providers import NAMES
from mcc.contracts.agents import INHERIT, AgentDefinition
from mcc.contracts.journal import AgentStep
from mcc.contracts.limits import Limits
from mcc.contracts.similar import hints_keywords
from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import FILE_BYTES, decoded
from mcc.permission.layers import Layer
from mcc.rules.report import TEXT_NAME

if TYPE_CHECKING:
    from drone.models.registry import Models

Tool: TypeAlias = Callable[..., object] | ToolSet | SubAgent
"""A function (with `@drone.tool` or without), a tool set, or an agent."""


@hints_keywords
class Agent(agent.AgentRuntime):
    """An agent whose tools are a tool set, or any mixture of functions, tool sets and `SubAgent`s.

    Every field of the definition means what it means in an order: `tools` and `disallowed_tools` choose among the tools
    given here, `verify` judges the result, and so on. `model`: the model, its name (an alias of mcc.toml,
    `provider/model`, `provider:model` or `offline`), or models by name, of which the definition's `model` chooses
    (`inherit`: the default). `gate` None: the gate that the definition's `result` and `rules` require; where `result`
    is a pydantic class, that of the report is an object of it. The limits bound the time of each tool call.
    `subagent_runner`: runs the agents that `spawns` names.

    Raises TypeError for something that is no definition, or cannot be a tool, `ToolDeclarationError` for two tools of
    the same name, `UnknownModel` for the name of no model, and ValueError, which names the field, for a definition that
    cannot be kept here.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model | str | ModelSource | Mapping[str, Model],
        tools: ToolSet | Iterable[Tool] | None = None,
        limits: Limits | None = None,
        gate: Gate | None = None,
        subagent_runner: SubagentRunner | None = None,
    ) -> None:
        if not isinstance(definition, AgentDefinition):
            raise TypeError(
                f"Agent takes an AgentDefinition, not {type(definition).__name__}: make one, or load_agent(file)"
            )
        limits = limits or Limits()
        _refuse_what_needs_an_order(definition, subagent_runner, gate)
        agent_tools, share = toolset(tools), Share.of(limits, definition.limits, 0)
        if subagent_runner is not None:
            agent_tools = Joined(
                agent_tools, DelegationTools(subagent_runner, dict.fromkeys(definition.spawns, ""), limits=limits)
            )
        chosen, notes = _chosen(definition, agent_tools)
        self._opened, self._runs = _opened(model), 0
        named = _model(definition, model, self._opened)
        super().__init__(
            definition,
            model=named,
            tools=Timed(chosen, share.tool_seconds),
            limits=limits,
            gate=gate or gate_for(definition, is_subagent=False),
            hired=Hired(
                requested_model=None if definition.model == INHERIT else definition.model,
                tools_requested=definition.tools,
                notes=notes,
                verifier=_verifier(definition, named, limits),
                egress=() if definition.egress is None else (definition.egress,),
                shows_fences=False,
            ),
        )

    async def run(self, task: str | Task, turn: Turn | None = None, *, approver: Approver | None = None) -> Report:
        self._runs += 1
        try:
            return typed(await super().run(task, turn, approver=approver), self.gate)
        finally:
            self._runs -= 1
            if not self._runs:
                await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of a model that was given by name. `run` does so at its end; needed only for an agent
        that ran as a `SubAgent`. A later run opens new ones."""
        if self._opened is not None:
            await self._opened.aclose()


def _refuse_what_needs_an_order(definition: AgentDefinition, runner: SubagentRunner | None, gate: Gate | None) -> None:
    """Raises ValueError for fields that mean something in an order and nothing here."""
    name = definition.name
    if not definition.prompt.strip():
        raise ValueError(f"{name} has no prompt: write what the agent is to do.")
    if definition.spawns and runner is None:
        raise ValueError(f"{name} spawns {', '.join(definition.spawns)}, and nobody runs them: give a subagent_runner.")
    if runner is not None and not definition.spawns:
        raise ValueError(f"{name} has a runner and nobody to run: name agents in its spawns.")
    egress = () if definition.egress is None else (definition.egress,)
    if runner is not None and (lost := restraints((Layer("agent", definition.permission),), egress)):
        raise ValueError(
            f"{name} has {lost}, which its runner does not keep for those in spawns: leave one of them out."
        )
    if definition.passes_on:
        raise ValueError(f"{name} has passes_on, and its runner gives its subagents their tools: leave passes_on out.")
    if definition.isolation != "none":
        raise ValueError(f"{name} has isolation: worktree, which only orders know: leave it out.")
    if gate is not None and (definition.rules or definition.result not in (None, TEXT_NAME)):
        raise ValueError(f"{name} has a gate by its result or rules, and a second one by gate=: leave one of them out.")


def _chosen(definition: AgentDefinition, given: ToolSet) -> tuple[ToolSet, tuple[AgentStep, ...]]:
    """Those of the given tools that the definition chooses, and the steps that say so. Raises ValueError."""
    if definition.tools is None and not definition.disallowed_tools:
        return given, ()
    from drone.tools.catalog import UnknownToolName, provision  # loads all tools, which few agents choose among

    try:
        provided = provision(given.specs(), definition)
    except UnknownToolName as error:
        raise ValueError(f"The tools of {definition.name}: {error}") from error
    if provided.missing:
        raise ValueError(f"{definition.name} names tools that it was not given: {', '.join(provided.missing)}.")
    usable = OnlyReading(given) if provided.only_reading else given
    return Only(usable, provided.names), provided.steps(provided.names)


def _opened(model: object) -> "Models | None":
    """The configured models when `model` is a name; None when it is no name."""
    if not isinstance(model, str):
        return None
    from drone.models.registry import Models  # with the settings: an agent with a model of its own needs neither
    from drone.settings import Settings

    return Models(Settings())


def _named(definition: AgentDefinition, name: str, models: "Models") -> Model:
    """The configured model `name`. Raises `UnknownModel`, and ValueError when the definition names another."""
    try:
        model = models.get(name)
    except UnknownModel:
        # Only here: a definition of a workspace may name no provider's model, and is known to by the slash.
        provider, colon, rest = name.partition(":")
        if not (colon and rest and provider in NAMES):
            raise
        model = models.get(f"{provider}/{rest}")
    return _kept(definition, model, name)


def _kept(definition: AgentDefinition, model: Model, *names: str) -> Model:
    """The model given, if the definition agrees. Raises ValueError when it names another."""
    if definition.model in (INHERIT, model.name, *names):
        return model
    raise ValueError(
        f"{definition.name} names the model {definition.model}, and is given {model.name}: give models by name "
        "(drone.Models, or a mapping), or let the definition inherit."
    )


def _model(
    definition: AgentDefinition, models: Model | str | ModelSource | Mapping[str, Model], opened: "Models | None"
) -> Model:
    """The model that the definition names. Raises ValueError, TypeError, `UnknownModel`."""
    if isinstance(models, str):
        assert opened is not None
        return _named(definition, models, opened)
    if isinstance(models, Mapping):
        models = NamedModels(models)
    if hasattr(models, "ask"):
        return _kept(definition, cast(Model, models))
    if not hasattr(models, "get"):
        raise TypeError(
            f"model= is a model, its name, or models by name (drone.Models, or a mapping); {models!r} is none of them"
        )
    return models.default if definition.model == INHERIT else models.get(definition.model)


def _verifier(definition: AgentDefinition, model: Model, limits: Limits) -> Verifier | None:
    """The verifier by a rubric, with the agent's own model. Raises ValueError for one that is named."""
    terms = definition.verify
    if terms is None:
        return None
    if terms.agent not in (None, VERIFY):
        raise ValueError(f"{definition.name} is verified by {terms.agent}, whom nobody here knows: use a rubric.")
    judge = as_verifier(load_agent(shipped_prompts() / "subagent" / VERIFY / "system.md"))
    run = agent.AgentRuntime(
        judge, model=model, limits=limits, gate=gate_for(judge, is_subagent=True), hired=Hired()
    ).run
    return Verifier(VERIFY, run, terms)


def toolset(tools: ToolSet | Iterable[Tool] | None) -> ToolSet:
    """Combine tools into one tool set, in their order. Raises TypeError, `ToolDeclarationError`."""
    if tools is None:
        return FunctionTools([])
    if _is_toolset(tools):
        return cast(ToolSet, tools)
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools must be a tool set or a list of tools; {tools!r} is neither")
    return Joined(*map(_single, tools))


@hints_keywords
def load_agent(path: Path | str) -> AgentDefinition:
    """Read an agent file. Raises `DefinitionError` with file and line, OSError when it cannot be read."""
    with Path(path).open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    return parse_agent(decoded(content, str(path)), str(path))


def _single(tool: Tool) -> ToolSet:
    if isinstance(tool, SubAgent):
        return SubAgentTool(tool)
    if _is_toolset(tool):
        return cast(ToolSet, tool)
    if callable(tool):
        return FunctionTools([tool])
    raise TypeError(f"a tool is a function, a tool set or a SubAgent; {tool!r} is none of them")


def _is_toolset(tool: object) -> bool:
    return not isinstance(tool, type) and all(callable(getattr(tool, name, None)) for name in ("specs", "call"))
