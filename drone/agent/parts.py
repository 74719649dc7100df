"""What an agent is made of: a definition with its model, its tools and its gate, and how it was hired."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from drone.agent.gates.gate import Gate
from drone.agent.messages import ToolSpec
from drone.agent.model import Model
from drone.agent.setup import kept_setup, system_prompt
from drone.agent.spending.budget import Share
from drone.agent.toolset import Call, Output, ToolSet
from drone.agent.turn import Task, title_of
from drone.agent.verifier import Verifier
from mcc.contracts.agents import AgentDefinition, DefinitionOrigin
from mcc.contracts.journal import AgentStarted, AgentStep, Outcome
from mcc.contracts.limits import LimitChoice, Limits
from mcc.contracts.order import EarlierTurn, ModelSettings
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import JsonAny, digest

_HANDED_OVER = DefinitionOrigin(scope="library")


class NoTools:
    """A tool set with nothing in it."""

    def specs(self) -> Sequence[ToolSpec]:
        return ()

    async def call(self, call: Call) -> Output:
        return Output(f"There is no tool {call.name}: this agent has none.", is_error=True, outcome=Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Hired:
    """How an agent was hired, for its record and for a run that goes on later.

    `requested_model`: the name that was asked for, None = that of its model. `notes` are steps that every record of it
    begins with; `tools_requested` is what its tools were chosen by, None = everything that its parent has. `missing`
    is what it was to have and has not; `owed` is what its gate was made of, as JSON. `session` are turns that
    went before, which its model is shown as the beginning of the conversation. `origin` says whose definition it is.
    `model_settings` None: those of its definition. `verifier` judges what it brings.
    `environment` is what its first message says before the prompt, `roots` are the spellings of its workspace's path.
    """

    requested_model: str | None = None
    notes: tuple[AgentStep, ...] = ()
    tools_requested: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    owed: JsonAny = None
    model_settings: ModelSettings | None = None
    session: tuple[EarlierTurn, ...] = ()
    origin: DefinitionOrigin = _HANDED_OVER
    environment: str = ""
    roots: tuple[str, ...] = ()
    verifier: Verifier | None = None


class AgentParts:
    """A definition with its model and tools (None = no tools); `drone.agent.agent.Agent` runs them.

    `gate` None = a reply without tool calls is the result. Raises ValueError for a tool that is called as one of the
    gate's own.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model,
        tools: ToolSet | None = None,
        limits: Limits | None = None,
        gate: Gate | None = None,
        hired: Hired | None = None,
    ) -> None:
        self.definition = definition
        self.model = model
        self.tools = tools or NoTools()
        self.limits = limits or Limits()
        self.gate = gate
        self._is_hired = hired is not None
        self.hired = hired = hired or Hired()
        self.specs = (*self.tools.specs(), *(gate.specs() if gate else ()))
        _refuse_twins([spec.name for spec in self.specs])
        self.model_settings = hired.model_settings or ModelSettings.of(definition)
        self._choice = ModelChoice(requested=hired.requested_model or model.name, effective=model.name)

    @cached_property
    def system(self) -> str:
        """The system prompt: the definition's own, what is not there, the fence, the guidelines, the gate's word.

        One that was hired may be handed another agent's report with its task, also without a tool.
        """
        return system_prompt(
            self.definition.prompt,
            self.hired.missing,
            self.definition.guidelines,
            self.gate.guidance if self.gate else "",
            shows_fences=self._is_hired or any(spec.untrusted for spec in self.specs),
        )

    @cached_property
    def setup(self) -> str:
        """What a resumed run must use again, as JSON."""
        return kept_setup(
            self.system, self.specs, self._choice, self.limits, self.definition, self.hired.owed, self.hired.session
        )

    @cached_property
    def definition_digest(self) -> str:
        return digest(self.definition)

    def started(self, task: Task, turn_limits: Limits, setup_digest: str) -> AgentStarted:
        own = self.definition.limits
        return AgentStarted(
            title=task.title or title_of(task.prompt),
            call_id=task.call_id,
            continues=task.continues,
            prompt=task.prompt,
            # A conversation that goes on has been told its surroundings before.
            environment="" if task.continues else self.hired.environment,
            model=self._choice,
            model_settings=self.model_settings,
            tools=tuple(spec.name for spec in self.specs),
            finish_tools=tuple(spec.name for spec in self.gate.specs()) if self.gate else (),
            tools_requested=self.hired.tools_requested,
            limits=LimitChoice(requested=own, effective=Share.of(turn_limits, own, task.depth).as_limits()),
            definition_digest=self.definition_digest,
            definition_origin=self.hired.origin,
            setup_digest=setup_digest,
        )


def _refuse_twins(names: Sequence[str]) -> None:
    twin = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twin is not None:
        raise ValueError(f"Two tools are called {twin!r}; the gate's own keep their names, so rename the other one.")
