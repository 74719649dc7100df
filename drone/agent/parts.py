"""The parts of an agent (definition, model, tools, gate), and its setup, stored so that a run can resume with it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

from drone.agent.gates.gate import Gate
from drone.agent.gates.verifier import Verifier
from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.ports.model import Model, NodeForm
from drone.agent.ports.permits import Permits
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Share
from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from drone.agent.turns.turn import Task, Turn, title_of
from mcc.contracts.agents import INHERIT, AgentDefinition, DefinitionOrigin, definition_digest
from mcc.contracts.compaction import DEFAULT_TERMS, OWN_MODEL, CompactionTerms
from mcc.contracts.fence import EXPLAINED
from mcc.contracts.git_facts import WorktreeEnded
from mcc.contracts.journal import JOURNAL_VERSION, AgentStarted, AgentStep, Outcome
from mcc.contracts.limits import LimitChoice, Limits
from mcc.contracts.order import ModelSettings
from mcc.contracts.record import ModelChoice
from mcc.contracts.shape import JsonAny, to_json
from mcc.contracts.turn_context import TurnContext
from mcc.permission.layers import Layer
from mcc.transcript.environment import NO_ENVIRONMENT, Environment
from mcc.transcript.messages import ToolSpec
from mcc.transcript.opening import NO_OPENING, SessionOpening


def system_prompt(
    prompt: str, missing: Sequence[str], guidelines: Sequence[str], guidance: str, *, shows_fences: bool = False
) -> str:
    """The non-empty parts, always in the same order, so that providers can cache the prompt.

    `missing`: tools that the agent should have and lacks (those it has are described by their schemas alone).
    `guidance`: the gate's. `shows_fences`: whether the model may be shown untrusted text.
    """
    listed = "".join(f"\n- {line}" for line in guidelines)
    lacking = f"Not available here: {', '.join(missing)}. Do without, and say so where it matters." if missing else ""
    explained = EXPLAINED if shows_fences else ""
    parts = (prompt, lacking, explained, f"Guidelines:{listed}" if listed else "", guidance)
    return "\n\n".join(part for part in parts if part)


SHARED_CHARACTERS = 16_384
"""Longer texts are not shared: they contain a session's conversation, which no other agent has."""


def shared(text: str) -> str:
    """The text as one object shared by all agents with an equal text; saves kilobytes per running agent."""
    return _interned(text) if len(text) <= SHARED_CHARACTERS else text


@lru_cache(maxsize=64)
def _interned(text: str) -> str:
    return text


def encoded_setup(
    system: str,
    specs: Sequence[ToolSpec],
    model: ModelChoice,
    limits: Limits,
    definition: AgentDefinition,
    owed: object,
) -> str:
    """The setup as JSON: system prompt, tools, model, limits, the definition without its prompt, and what the gate was
    made of (`owed`)."""
    parts = (
        b'{"system":',
        _as_json(system),
        b',"tools":',
        _tools_as_json(*specs),
        b',"model":',
        to_json(model),
        b',"limits":',
        to_json(limits),
        b',"definition":',
        _definition_as_json(definition),
        b',"gate":',
        to_json(owed),
        b"}",
    )
    return b"".join(parts).decode()


# Most of the text is the same for all orders: it is encoded once per object.
_as_json = IdentityCache[[str], bytes](to_json, most=64)


def _encode_tools(*specs: ToolSpec) -> bytes:
    return to_json(
        [
            {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.parameters,
                "group": spec.group,
                "idempotent": spec.idempotent,
                "seconds": spec.seconds,
            }
            for spec in specs
        ]
    )


_tools_as_json = IdentityCache(_encode_tools, most=64)


def _encode_definition(definition: AgentDefinition) -> bytes:
    return to_json(definition.model_copy(update={"prompt": ""}))


_definition_as_json = IdentityCache(_encode_definition, most=64)

_digest_of = IdentityCache[[AgentDefinition], str](definition_digest, most=64)


_FROM_LIBRARY = DefinitionOrigin(scope="library")


class NoTools:
    """An empty tool set."""

    def specs(self) -> Sequence[ToolSpec]:
        return ()

    async def call(self, call: StartedCall) -> Output:
        return Output(f"There is no tool {call.name}: this agent has none.", is_error=True, outcome=Outcome.ERROR)


class Isolation(Protocol):
    """Gives an agent a working directory of its own."""

    async def enter(self, task: Task, turn: Turn) -> None:
        """Create or reopen the directory before the run. Raises `CannotHire` and `JournalError`."""

    async def leave(self, task: Task, turn: Turn, report: Report) -> WorktreeEnded | None:
        """Close it after the run; returns what became of it, None where there was none. Raises `JournalError`."""


@dataclass(frozen=True, slots=True)
class Hired:
    """How an agent was hired (assembled from a definition), for its record and for resuming its runs.

    `requested_model`: the model name requested, None = that of its model. `notes`: steps at the start of each of its
    records. `tools_requested`: the names its tools were selected by, None = all of its parent's. `missing`: requested
    tools it lacks. `owed`: what its gate was made of, as JSON. `session`: what its model is shown of its
    session. `origin`: where its definition comes from. `model_settings` None: the definition's.
    `verifier`: judges its result. `permits` None: the definition's. `environment`: told before its
    prompt. `roots`: the spellings of its workspace's path. `isolation`: gives it a working directory other than its
    parent's. `egress`: as in `StartedCall`. `shows_fences`: whether its model may be shown untrusted text even without
    a tool that brings such, since its task may hold another agent's report. `form`: its task as data, for `AskHint`.
    `compaction`: when its conversation is compacted, where its definition does not say. `model_of`: another model by
    its name, raises LookupError; None: there are no others.
    """

    requested_model: str | None = None
    notes: tuple[AgentStep, ...] = ()
    tools_requested: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    owed: JsonAny = None
    model_settings: ModelSettings | None = None
    session: SessionOpening = NO_OPENING
    origin: DefinitionOrigin = _FROM_LIBRARY
    environment: Environment = NO_ENVIRONMENT
    roots: tuple[str, ...] = ()
    verifier: Verifier | None = None
    permits: Permits | None = None
    isolation: Isolation | None = None
    egress: Sequence[Sequence[str]] = ()
    shows_fences: bool = True
    form: NodeForm | None = None
    compaction: CompactionTerms = DEFAULT_TERMS
    model_of: Callable[[str], Model] | None = None


_UNHIRED = Hired(shows_fences=False)


class StoredSetup(NamedTuple):
    """A stored set-up, as the start of a record names it: its digest, its key (`AgentParts.setup_key`), its tools."""

    digest: str
    key: str
    tools: tuple[str, ...]


class ToldAtStart(NamedTuple):
    """What an agent is shown before its prompt: its surroundings and its session. `tainted`: as in `AgentStarted`."""

    environment: str
    context: TurnContext | None
    tainted: bool


class AgentParts:
    """A definition with its model and tools (None = no tools); `drone.agent.agent.AgentRuntime` runs it.

    `gate` None = a reply without tool calls is the result. Raises ValueError for two tools of the same name, the gate's
    included, and LookupError for a model of its summaries that is not known.
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
        self.hired = hired = hired or _UNHIRED
        specs = (*self.tools.specs(), *(gate.specs() if gate else ()))
        self.specs = tuple(spec for spec in specs if not spec.deferred)
        _refuse_duplicates([spec.name for spec in specs])
        self.permits = hired.permits or Permits().of((Layer("agent", definition.permission),))
        self.compaction = hired.compaction.nearer(definition.compaction)
        named = self.compaction.model
        self.summary_model = hired.model_of(named) if hired.model_of is not None and named != OWN_MODEL else None
        self.model_settings = hired.model_settings or ModelSettings.of(definition)
        self._choice = ModelChoice(requested=hired.requested_model or model.name, effective=model.name)

    @cached_property
    def earlier_model(self) -> Model | None:
        """That of the turn before, where it is another one that is still there."""
        before = self.hired.session.before
        last = None if before is None else before.last
        if last is None or self.hired.model_of is None or last.model == self.model.name:
            return None
        try:
            # By the name of an alias first, as servers share names of models.
            model = self.hired.model_of(last.model if last.requested in (None, INHERIT) else last.requested)
        except LookupError:
            return None
        return model if model.name == last.model else None

    @cached_property
    def system(self) -> str:
        """The system prompt: the definition's prompt, missing tools, fences, guidelines, the gate's guidance."""
        made = system_prompt(
            self.definition.prompt,
            self.hired.missing,
            self.definition.guidelines,
            self.gate.guidance if self.gate else "",
            shows_fences=self.hired.shows_fences or any(spec.untrusted for spec in self.specs),
        )
        return shared(made)

    @property
    def setup(self) -> str:
        """What a resumed run must use again, as JSON. Not cached: kilobytes that each run needs only once."""
        return self.setup_with(self.system, self.specs)

    def setup_with(self, system: str, specs: Sequence[ToolSpec]) -> str:
        """The same with this system prompt and these tools."""
        made = encoded_setup(system, specs, self._choice, self.limits, self.definition, self.hired.owed)
        return shared(made)

    def setup_key(self, surroundings: str) -> str:
        """A digest of what system prompt and tools depend on: agent, definition, gate, `surroundings`, this version."""
        hired = self.hired
        # The path of a checkout differs from order to order.
        owed = {**hired.owed, "roots": ()} if isinstance(hired.owed, Mapping) else hired.owed
        parts = (self.definition.name, self.definition_digest, hired.origin, owed, surroundings, JOURNAL_VERSION)
        return hashlib.sha256(to_json(parts)).hexdigest()

    @property
    def known_specs(self) -> tuple[ToolSpec, ...]:
        """All its tools now, deferred ones and those of its gate included."""
        return (*self.tools.specs(), *(self.gate.specs() if self.gate else ()))

    @property
    def definition_digest(self) -> str:
        return _digest_of(self.definition)

    def started(self, task: Task, turn_limits: Limits, setup: StoredSetup, told: ToldAtStart) -> AgentStarted:
        requested = self.definition.limits
        return AgentStarted(
            title=task.title or title_of(task.prompt),
            node=task.node,
            call_id=task.call_id,
            continues=task.continues,
            continues_order=task.continues_order,
            prompt=task.prompt,
            environment=told.environment,
            attachments=task.attachments,
            model=self._choice,
            model_settings=self.model_settings,
            tools=setup.tools,
            finish_tools=tuple(spec.name for spec in self.gate.specs()) if self.gate else (),
            tools_requested=self.hired.tools_requested,
            limits=LimitChoice(
                requested=requested,
                effective=Share.of(turn_limits, requested, task.depth).within(task.seconds).as_limits(),
            ),
            definition_digest=self.definition_digest,
            definition_origin=self.hired.origin,
            setup_digest=setup.digest,
            setup_key=setup.key,
            context=told.context,
            tainted=told.tainted,
        )


def _refuse_duplicates(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twin = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"Two tools are called {twin!r}; the gate's own keep their names, so rename the other one.")
