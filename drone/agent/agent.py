"""This room is for the agent: a definition with its model and its tools, ready to be given tasks."""

from collections.abc import Sequence
from functools import cached_property

from drone.agent.controls.bridge import Bridge
from drone.agent.gates.gate import Gate
from drone.agent.memory import MemoryJournal
from drone.agent.messages import ToolSpec
from drone.agent.past import Past
from drone.agent.ports import Call, Journal, Model, Output, ToolSet
from drone.agent.prompt import system_prompt
from drone.agent.report import Report
from drone.agent.run import Run, broken
from drone.agent.setup import kept_setup
from drone.agent.spending.budget import Budget, Share
from drone.agent.turn import Task, Turn, title_of
from mcc.contracts.agents import AgentDefinition, DefinitionOrigin
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentStarted, AgentStep, Outcome
from mcc.contracts.limits import LimitChoice, Limits
from mcc.contracts.order import EarlierTurn
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import JsonAny, digest

_HANDED_OVER = DefinitionOrigin(scope="library")


class NoTools:
    """A tool set with nothing in it."""

    def specs(self) -> Sequence[ToolSpec]:
        return ()

    async def call(self, call: Call) -> Output:
        return Output(f"There is no tool {call.name}: this agent has none.", is_error=True, outcome=Outcome.ERROR)


class Agent:
    """A definition with its model and tools (None = no tools). Runs tasks, several at once if asked; keeps nothing.

    `gate` None = a reply without tool calls is the result. `notes` are steps that every record of this agent begins
    with; `tools_requested` is what its tools were chosen by, None = everything that its parent has. `inventory` is what
    the system prompt says of its tools; `owed` is what its gate was made of, as JSON, for a run that goes on later.
    `session` are turns that went before, which its model is shown as the beginning of the conversation. `origin` says
    whose definition it is.
    Raises ValueError for a tool that is called as one of the gate's own.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model,
        tools: ToolSet | None = None,
        limits: Limits | None = None,
        requested_model: str | None = None,
        gate: Gate | None = None,
        notes: Sequence[AgentStep] = (),
        tools_requested: Sequence[str] | None = None,
        inventory: str = "",
        owed: JsonAny = None,
        session: Sequence[EarlierTurn] = (),
        origin: DefinitionOrigin = _HANDED_OVER,
    ) -> None:
        self.definition = definition
        self.model = model
        self.tools = tools or NoTools()
        self.limits = limits or Limits()
        self.gate = gate
        self.notes = tuple(notes)
        self.inventory = inventory
        self.specs = (*self.tools.specs(), *(gate.specs() if gate else ()))
        _refuse_twins([spec.name for spec in self.specs])
        self.session = tuple(session)
        self._definition_origin = origin
        self._owed = owed
        self._tools_requested = None if tools_requested is None else tuple(tools_requested)
        self._choice = ModelChoice(requested=requested_model or model.name, effective=model.name)

    @cached_property
    def system(self) -> str:
        """The system prompt: the definition's own, the inventory, the fence, the guidelines, the gate's word.

        One that was hired may be handed another agent's report with its task, also without a tool.
        """
        return system_prompt(
            self.definition.prompt,
            self.inventory,
            self.definition.guidelines,
            self.gate.guidance if self.gate else "",
            shows_fences=bool(self.inventory) or any(spec.untrusted for spec in self.specs),
        )

    @cached_property
    def setup(self) -> str:
        """What a resumed run must use again, as JSON."""
        return kept_setup(self.system, self.specs, self._choice, self.limits, self.definition, self._owed, self.session)

    @cached_property
    def definition_digest(self) -> str:
        return digest(self.definition)

    async def run(self, task: str | Task, turn: Turn | None = None) -> Report:
        """Do one task to its end. Without a turn this is a tree of its own, its journal in memory.

        Whatever the models and tools do is in the report; raises only `JournalError`, `Exhausted` and CancelledError.
        """
        if turn is None:
            turn = self.turn()
        if isinstance(task, str):
            task = Task(task, turn.past.root or root_record_id(fresh_id()), title_of(task))
        try:
            return await Run(self, task, turn).to_its_end()
        except BaseException as error:
            return await broken(self, task, turn, error)

    def turn(self, journal: Journal | None = None, past: Past | None = None) -> Turn:
        """A turn of this agent's own: its limits for the whole tree, the journal in memory unless one is given.

        `past`: what the journal of a turn that broke off says; `run` with the same task then goes on where that was.
        """
        journal = journal or MemoryJournal(fresh_id())
        return Turn.begun(journal, Budget(self.limits), Bridge(journal), past)

    def started(self, task: Task, turn_limits: Limits, setup_digest: str) -> AgentStarted:
        own = self.definition.limits
        return AgentStarted(
            title=task.title or title_of(task.prompt),
            call_id=task.call_id,
            continues=task.continues,
            prompt=task.prompt,
            model=self._choice,
            tools=tuple(spec.name for spec in self.specs),
            tools_requested=self._tools_requested,
            limits=LimitChoice(requested=own, effective=Share.of(turn_limits, own, task.depth).as_limits()),
            definition_digest=self.definition_digest,
            definition_origin=self._definition_origin,
            setup_digest=setup_digest,
        )


def _refuse_twins(names: Sequence[str]) -> None:
    twin = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twin is not None:
        raise ValueError(f"Two tools are called {twin!r}; the gate's own keep their names, so rename the other one.")
