"""Making the agents of one order, each with its model, its tools and its limits."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from drone.agent.agent import Agent
from drone.agent.artifacts import READ_ARTIFACT
from drone.agent.definitions import Definitions
from drone.agent.gates.gate import Gate
from drone.agent.gates.report_gate import gate_for
from drone.agent.messages import ToolSpec
from drone.agent.model import Model
from drone.agent.parts import Hired
from drone.agent.spending.budget import Share
from drone.agent.subagents.children import CannotHire, Wanted
from drone.agent.subagents.delegation import DELEGATION_TOOLS, Delegation
from drone.agent.toolset import ToolSet
from drone.agent.transcript import note_of
from drone.agent.turn import Turn
from drone.models.redacted import ModelSource
from drone.models.registry import UnknownModel
from drone.tools.catalog import provision
from drone.tools.tool import Joined
from drone.tools.wrappers import Only, Timed
from mcc.contracts.agents import INHERIT, AgentDefinition
from mcc.contracts.journal import AgentStep
from mcc.contracts.limits import Limits
from mcc.contracts.order import EarlierTurn, Rule
from mcc.definitions.rights import expanded
from mcc.rules.errors import RuleError, SchemaError

_DELEGATION = tuple(ToolSpec(name, "", {}, group="delegation") for name in DELEGATION_TOOLS)


@dataclass(frozen=True, slots=True)
class Parent:
    """What a parent passes on to its children, which get no more than that.

    `delegation` are the parent's delegation tools, `spawns` the agents that it may hire (None = every one).
    """

    model: Model
    tools: ToolSet
    delegation: frozenset[str] = frozenset(DELEGATION_TOOLS)
    spawns: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What an order demands of the answer to it, beside the file of the agent that gives it."""

    result_schema: object = None
    rules: tuple[Rule, ...] = ()

    def as_json(self, finish: str) -> dict[str, object]:
        return {"finish": finish, "result_schema": self.result_schema, "rules": self.rules}


@dataclass(frozen=True, slots=True)
class Hiring:
    """The hiring for one order: every agent of its tree gets tools and spawn rights that its parent has."""

    definitions: Definitions
    models: ModelSource
    turn: Turn
    terms: Terms = Terms()
    environment: str = ""
    """What agents are told of the order's surroundings before their prompt."""
    aliases: tuple[str, ...] = ()
    """Names of models that an agent may choose from for its subagents."""

    @property
    def limits(self) -> Limits:
        return self.turn.budget.limits

    def make_gates(self, master: str | None = None) -> None:
        """Make the gate of every agent, so that hiring finds them compiled and does not hold the event loop up. Blocks.

        `master` is the agent that answers for the order. What is wrong with a gate is raised when its agent is hired.
        """
        for name, definition in self.definitions.agents.items():
            with suppress(CannotHire):
                self._gate(definition, is_subagent=True)
            with suppress(CannotHire):
                if name == master:
                    self._gate(definition, is_subagent=False)

    def master(self, name: str, model: str | None, tools: ToolSet, session: tuple[EarlierTurn, ...] = ()) -> Agent:
        """The agent that answers for the order, after these turns of its session. Raises `CannotHire`."""
        definition = self._definition(name)
        asked = model if model not in (None, INHERIT) else _own_model(definition)
        notes = [AgentStep(name="definition_warning", message=said) for said in self.definitions.warnings]
        if session:
            notes.append(note_of(session))
        return self._agent(definition, Parent(self._model(asked), tools), Wanted(name, 0, model=asked), notes, session)

    def child(self, wanted: Wanted, parent: Parent) -> Agent:
        """An agent below `parent`, as it was asked for. Raises `CannotHire`."""
        definition = self._definition(wanted.agent_type)
        own = wanted.model if wanted.model not in (None, INHERIT) else _own_model(definition)
        above = parent if own is None else replace(parent, model=self._model(own))
        return self._agent(definition, above, replace(wanted, model=own or INHERIT))

    def _definition(self, name: str) -> AgentDefinition:
        try:
            return self.definitions.get(name)
        except LookupError as error:
            raise CannotHire(str(error.args[0])) from error

    def _model(self, name: str | None) -> Model:
        try:
            return self.models.default if name is None else self.models.get(name)
        except UnknownModel as error:
            raise CannotHire(str(error)) from error

    def _agent(
        self,
        definition: AgentDefinition,
        parent: Parent,
        wanted: Wanted,
        notes: Sequence[AgentStep] = (),
        session: Sequence[EarlierTurn] = (),
    ) -> Agent:
        """The agent of this definition. `parent` has the model that the agent gets, `wanted` what was asked for."""
        team = self._team(definition, parent) if wanted.depth < self.limits.depth else {}
        hiring = tuple(spec for spec in _DELEGATION if team and spec.name in parent.delegation)
        given = provision((*parent.tools.specs(), *hiring), definition, wanted.groups)
        delegation = frozenset(spec.name for spec in hiring) & frozenset(given.names)
        tools = Only(parent.tools, (*given.names, *(_for_reports(definition) if delegation else ())))
        share = Share.of(self.limits, definition.limits, wanted.depth)
        own: ToolSet = Timed(tools, share.tool_seconds)
        if delegation:
            below = Parent(parent.model, tools, delegation, frozenset(team))
            own = Joined(own, Only(self._delegation(team, below, wanted.depth), delegation))
        gate = self._gate(definition, is_subagent=wanted.depth > 0)
        specs = (*own.specs(), *(gate.specs() if gate else ()))
        return Agent(
            definition,
            model=parent.model,
            tools=own,
            limits=self.limits,
            gate=gate,
            hired=Hired(
                requested_model=wanted.model,
                owed=None if gate is None else (self.terms if wanted.depth == 0 else Terms()).as_json(gate.finish),
                tools_requested=definition.tools if wanted.groups is None else wanted.groups,
                notes=(*notes, *given.steps([spec.name for spec in specs])),
                missing=given.missing,
                session=tuple(session),
                origin=self.definitions.known.origin(definition.name),
                environment=self._environment(share),
            ),
        )

    def _environment(self, share: Share) -> str:
        if not self.environment:
            return ""
        calls, tokens = f"{share.tool_calls:,} tool calls", f"{share.output_tokens:,} output tokens"
        return (
            f"Your limits: {share.rounds:,} rounds, {calls}, {tokens}, {share.wall_seconds:,.0f} s.\n{self.environment}"
        )

    def _delegation(self, team: Mapping[str, str], parent: Parent, depth: int) -> Delegation:
        return Delegation(
            self.turn,
            team,
            lambda child: self.child(child, parent),
            depth=depth,
            tools=parent.delegation,
            models=self.aliases,
        )

    def _gate(self, definition: AgentDefinition, *, is_subagent: bool) -> Gate | None:
        """The gate of an agent: what its definition asks for and, for the master, what the order demands as well."""
        terms = Terms() if is_subagent else self.terms
        try:
            return gate_for(definition, is_subagent=is_subagent, result_schema=terms.result_schema, rules=terms.rules)
        except (SchemaError, RuleError) as error:
            raise CannotHire(f"What {definition.name} owes cannot be checked: {error}") from error

    def _team(self, definition: AgentDefinition, parent: Parent) -> dict[str, str]:
        """The usable agents that this one may delegate to, with what models are told of them, in its file's order.

        A child may delegate only where its parent may. An agent whose file is broken is left out; the registration
        of the drone tells its problem.
        """
        known = self.definitions.agents
        names = self.definitions.spawns(definition.name)
        allowed = [name for name in names if parent.spawns is None or name in parent.spawns]
        return {name: self.definitions.known.description(name) for name in allowed if name in known}


def _own_model(definition: AgentDefinition) -> str | None:
    return None if definition.model == INHERIT else definition.model


def _for_reports(definition: AgentDefinition) -> tuple[str, ...]:
    """The tool that an agent which gets reports reads the whole of a shortened one with; its file may forbid it."""
    return () if READ_ARTIFACT in expanded(definition.disallowed_tools) else (READ_ARTIFACT,)
