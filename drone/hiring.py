"""Builds the agents of one order, each with its model, tools, permissions and limits."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import Gate
from drone.agent.gates.report_gate import gate_for
from drone.agent.gates.verifier import VERIFY, Verifier, as_verifier
from drone.agent.parts import Hired, NoTools
from drone.agent.ports.model import Model, NodeForm
from drone.agent.ports.permits import Permits
from drone.agent.spending.budget import Share
from drone.agent.subagents.children import CannotHire, Wanted
from drone.agent.subagents.delegation import DELEGATION_TOOLS, Delegation
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Turn
from drone.definitions import Definitions
from drone.models.guards import ModelSource, UnknownModel
from drone.models.prices import unsupported_level
from drone.tools.catalog import SHELL_WRITE, Provision, passed_on, provision
from drone.tools.frame.tool import Joined
from drone.tools.frame.tool_search import Searchable
from drone.tools.frame.wrappers import Only, OnlyReading, Timed
from drone.worktrees.isolation import IN_A_WORKTREE, Isolated, Worktrees
from mcc.contracts.agents import INHERIT, AgentDefinition, DefinitionOrigin
from mcc.contracts.compaction import DEFAULT_TERMS, CompactionTerms
from mcc.contracts.journal import AgentStep
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings, Rule, Verification
from mcc.definitions.rights import expanded
from mcc.rules.errors import ExpressionError, SchemaError
from mcc.transcript.environment import NO_ENVIRONMENT, Environment
from mcc.transcript.messages import ToolSpec
from mcc.transcript.opening import NO_OPENING, SessionOpening
from mcc.transcript.previews import READ_ARTIFACT

_DELEGATION = tuple(ToolSpec(name, "", {}, group="delegation") for name in DELEGATION_TOOLS)


@dataclass(frozen=True, slots=True)
class Parent:
    """What a parent passes on to its children; they get no more than that.

    `delegation`: the parent's delegation tools. `spawns`: names of the agents that it may hire; None = all.
    `model_settings`: how its model is called. `permits`: the parent's own permissions; None where the parent is the
    order itself. `isolated`: the worktree in which it works; None = the order's workspace. `egress`: as in `Call`.
    `alone`: no agent stands above the child, whose commands may therefore change the workspace as a master's may.
    """

    model: Model
    tools: ToolSet
    delegation: frozenset[str] = frozenset(DELEGATION_TOOLS)
    spawns: frozenset[str] | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    permits: Permits | None = None
    isolated: Isolated | None = None
    egress: Sequence[Sequence[str]] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What an order demands of its answer, in addition to the file of the agent that gives it."""

    result_schema: object = None
    rules: tuple[Rule, ...] = ()
    verify: Verification | None = None

    def as_json(self, finish: str, roots: Sequence[str]) -> dict[str, object]:
        return {"finish": finish, "result_schema": self.result_schema, "rules": self.rules, "roots": roots}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an order works. `environment`: its description, which agents get before their prompt. `roots`: the
    spellings of its path. Both are empty without a workspace. `worktrees`: for agents that need one of their own.
    `egress`: the order's own list of hosts, if any, as in `Call`."""

    environment: Environment = NO_ENVIRONMENT
    roots: tuple[str, ...] = ()
    worktrees: Worktrees | None = None
    egress: Sequence[Sequence[str]] = ()

    def close(self) -> None:
        """Close the worktrees, when no agent works here any more."""
        if self.worktrees is not None:
            self.worktrees.close()


@dataclass(frozen=True, slots=True)
class ModelNames:
    """Names of the configured models.

    `aliases`: models that an agent may choose for its subagents. `roles`: agent name to the model that it uses where
    neither its order nor its file names one. `own_settings`: alias to the names of the settings in its table; for an
    agent that uses such a model, these take precedence over its parent's settings.
    """

    aliases: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    own_settings: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hiring:
    """Builds the agents of one order. No agent gets tools or spawn rights that its parent lacks."""

    definitions: Definitions
    models: ModelSource
    turn: Turn
    terms: Terms = Terms()
    place: Place = Place()
    names: ModelNames = ModelNames()
    permits: Permits = field(default_factory=Permits)  # set by operator, mode and order
    compaction: CompactionTerms = DEFAULT_TERMS

    @property
    def limits(self) -> Limits:
        return self.turn.budget.limits

    def telling(self, told: str) -> "Hiring":
        """The same hiring, with this text added to the description of the environment that its agents get."""
        return replace(self, place=replace(self.place, environment=self.place.environment.having(document=told)))

    def with_groups(self, agent: str, groups: Sequence[str]) -> "Hiring":
        """The same hiring, with these tool groups added to those that the agent's file names. Raises `CannotHire`."""
        definition = self._definition(agent)
        if definition.tools is None:
            return self
        known = self.definitions.known
        usable = {**known.usable, agent: definition.model_copy(update={"tools": (*definition.tools, *groups)})}
        return replace(self, definitions=replace(self.definitions, known=replace(known, usable=usable)))

    def make_gates(self, master: str | None = None) -> None:
        """Compile the gates of all agents and the conditions of their permissions, so that hiring finds them in the
        cache and does not block the event loop. Blocks.

        `master`: name of the agent that answers for the order. Problems of a gate are raised when its agent is hired.
        """
        self.permits.compile()
        for name, definition in self.definitions.agents.items():
            Permits(self.definitions.known.permission(name)).compile()
            with suppress(CannotHire):
                self._gate(definition, is_subagent=True)
            if definition.verify is not None or self.terms.verify is not None:
                self._gate(as_verifier(definition), is_subagent=True)
            with suppress(CannotHire):
                if name == master:
                    self._gate(definition, is_subagent=False)

    def master(
        self,
        name: str,
        model: str | None,
        tools: ToolSet,
        session: SessionOpening | None = None,
        wanted: ModelSettings | None = None,
    ) -> AgentRuntime:
        """The agent that answers for the order. `session`: what it is shown of its session. `wanted`: the order's model
        settings. Raises `CannotHire`, also for a level of thinking that this model is known not to accept.
        """
        definition, wanted = self._definition(name), wanted or ModelSettings()
        asked = model if model not in (None, INHERIT) else self._own_model(definition)
        notes = [*self.warnings, *(session.notes if session else ())]
        how = wanted.over(ModelSettings.of(definition))
        parent = Parent(self.model(asked), tools, model_settings=how, egress=self.place.egress)
        if wanted.thinking != INHERIT and (problem := unsupported_level(parent.model.name, wanted.thinking)):
            raise CannotHire(f"{parent.model.name} {problem}.")
        return self._agent(definition, parent, Wanted(name, 0, model=asked), notes, session)

    @property
    def warnings(self) -> tuple[AgentStep, ...]:
        """What is wrong with the agent files of the workspace, as the first steps of the agent that starts."""
        return tuple(AgentStep(name="definition_warning", message=said) for said in self.definitions.warnings)

    def child(self, wanted: Wanted, parent: Parent, notes: Sequence[AgentStep] = ()) -> AgentRuntime:
        """The agent that `parent` wants to hire. Raises `CannotHire`."""
        return self._child(self._definition(wanted.agent_type), wanted, parent, notes)

    def of_node(
        self,
        definition: AgentDefinition,
        parent: Parent,
        own: ToolSet,
        gate: Gate,
        owed: Mapping[str, object],
        form: NodeForm | None = None,
    ) -> AgentRuntime:
        """The agent of a document's node. It hires no other agents. Its tools are its commands (`own`), and those of
        the parent's tools that only read and that its definition names. `gate` checks its result; `owed` describes what
        the gate demands, `form` is its task as data. Raises `CannotHire`."""
        model = parent.model if definition.model == INHERIT else self.model(definition.model)
        asked = parent.model_settings.over(ModelSettings.of(definition))
        if problem := unsupported_level(model.name, asked.thinking):
            raise CannotHire(f"{model.name} {problem}.")
        provided = provision([spec for spec in parent.tools.specs() if spec.only_reads], definition)
        reads = (*provided.names, *(_artifact_tools(definition) if provided.names else ()))
        share = Share.of(self.limits, definition.limits, 1)
        tools: ToolSet = Timed(Only(parent.tools, reads), share.tool_seconds) if reads else NoTools()
        return AgentRuntime(
            definition,
            model=model,
            tools=Joined(own, tools) if reads else own,
            limits=self.limits,
            gate=gate,
            hired=Hired(
                requested_model=definition.model,
                owed={**owed, "roots": self.place.roots},
                form=form,
                model_settings=asked,
                tools_requested=definition.tools,
                notes=provided.steps(reads) if provided.missing else (),
                missing=provided.missing,
                origin=DefinitionOrigin(scope="order"),
                environment=self._environment(share) if reads else NO_ENVIRONMENT,
                roots=self.place.roots,
                permits=self._permits(definition, parent),
                egress=_egress(definition, parent),
            ),
        )

    def _child(
        self, definition: AgentDefinition, wanted: Wanted, parent: Parent, notes: Sequence[AgentStep] = ()
    ) -> AgentRuntime:
        name = wanted.model if wanted.model not in (None, INHERIT) else self._own_model(definition)
        nearer = () if name is None else self.names.own_settings.get(name, ())
        asked = ModelSettings.of(definition).over(parent.model_settings, without=nearer)
        model = parent.model if name is None else self.model(name)
        hirer = replace(parent, model=model, model_settings=asked)
        return self._agent(definition, hirer, replace(wanted, model=name or INHERIT), notes)

    def _own_model(self, definition: AgentDefinition) -> str | None:
        """The model that the agent's file names, else the operator for its role; None = its parent's model."""
        return self.names.roles.get(definition.name) if definition.model == INHERIT else definition.model

    def _definition(self, name: str) -> AgentDefinition:
        try:
            return self.definitions.get(name)
        except LookupError as error:
            raise CannotHire(str(error.args[0])) from error

    def model(self, name: str | None) -> Model:
        """Raises `CannotHire`."""
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
        session: SessionOpening | None = None,
    ) -> AgentRuntime:
        """The agent of this definition. It gets the model and the model settings of `parent`; `wanted` is the request
        of its hirer. Raises `CannotHire`, also where none of the wanted tool groups gives it a tool."""
        permits, egress = self._permits(definition, parent), _egress(definition, parent)
        team = self._team(definition, parent) if wanted.depth < self.limits.depth else {}
        offered = tuple(spec for spec in _DELEGATION if team and spec.name in parent.delegation)
        # A command may change any file, so that of a child must not write where its parent works.
        shell_writes = wanted.depth == 0 or parent.alone or definition.isolation == "worktree"
        provided = provision((*parent.tools.specs(), *offered), definition, wanted.groups, shell_writes=shell_writes)
        if provided.refused:
            raise CannotHire(provided.refused)
        isolated = self._isolated(definition, parent, provided.names) if wanted.depth > 0 else None
        lender = replace(parent, tools=isolated, isolated=isolated) if isolated else parent
        share = Share.of(self.limits, definition.limits, wanted.depth)
        delegation = frozenset(spec.name for spec in offered) & frozenset(provided.names)
        names = (*provided.names, *(_artifact_tools(definition) if delegation else ()))
        usable = OnlyReading(lender.tools) if provided.only_reading else lender.tools
        tools: ToolSet = Timed(Searchable(Only(usable, names)), share.tool_seconds)
        if delegation:
            below = replace(lender, delegation=delegation, alone=False, spawns=frozenset(team))
            below = replace(below, permits=permits, egress=egress, tools=_passed(definition, provided, lender.tools))
            # Outside of `Timed`: a child takes as long as its own limits allow.
            tools = Joined(tools, Only(self._delegation(team, below, wanted.depth), delegation))
        gate = self._gate(definition, is_subagent=wanted.depth > 0)
        specs = (*tools.specs(), *(gate.specs() if gate else ()))
        terms = self.terms if wanted.depth == 0 else Terms()
        return AgentRuntime(
            definition,
            model=parent.model,
            tools=tools,
            limits=self.limits,
            gate=gate,
            hired=Hired(
                requested_model=wanted.model,
                owed=None if gate is None else terms.as_json(gate.finish, self.place.roots),
                model_settings=parent.model_settings,
                tools_requested=definition.tools if wanted.groups is None else wanted.groups,
                notes=(*notes, *provided.steps([spec.name for spec in specs if not spec.deferred])),
                missing=provided.missing,
                session=session or NO_OPENING,
                origin=self.definitions.known.origin(definition.name),
                environment=self._environment(share, IN_A_WORKTREE if isolated else ""),
                roots=self.place.roots,
                verifier=self._verifier(definition, lender, wanted.depth),
                permits=permits,
                isolation=isolated,
                egress=egress,
                compaction=self.compaction,
                model_of=self.models.get,
            ),
        )

    def _permits(self, definition: AgentDefinition, parent: Parent) -> Permits:
        """The agent's permissions: those of its parent, narrowed by its own file. The agent of a node has no file."""
        known = self.definitions.known
        own = known.permission(definition.name) if definition.name in known.usable else ()
        return (parent.permits or self.permits).of(own)

    def _isolated(self, definition: AgentDefinition, parent: Parent, names: Sequence[str]) -> Isolated | None:
        """The worktree of an agent whose file asks for one and that has tools to write with. Raises `CannotHire`.

        None in an order that may not write (mode plan): such orders share their workspace, and creating a worktree
        writes refs there.
        """
        if (parent.permits or self.permits).mode == "plan":
            return None
        writes = any(spec.may_write for spec in parent.tools.specs() if spec.name in names)
        if definition.isolation != "worktree" or not writes:
            return None
        if self.place.worktrees is None:
            raise CannotHire(
                f"{definition.name} works in a git worktree of its own, and none can be made here: that needs a "
                "workspace which is a git repository, and a drone that has git and bubblewrap."
            )
        return self.place.worktrees.below(definition.name, parent.tools, parent.isolated)

    def _verifier(self, verified: AgentDefinition, parent: Parent, depth: int) -> Verifier | None:
        """The verifier that judges this agent's results: an agent whose tools are those of the hirer that only read.
        Raises `CannotHire`."""
        terms = (self.terms.verify if depth == 0 else None) or verified.verify
        if terms is None:
            return None
        definition = as_verifier(self._definition(terms.agent or VERIFY))
        reads = Only(parent.tools, [spec.name for spec in parent.tools.specs() if spec.only_reads])
        # A verifier without tools has no use for a description of the workspace.
        place = self.place if definition.tools != () else Place(roots=self.place.roots)
        above = replace(parent, tools=reads, delegation=frozenset())
        agent = replace(self, place=place)._child(definition, Wanted(definition.name, depth + 1), above)
        return Verifier(definition.name, agent.run, terms)

    def _environment(self, share: Share, also: str = "") -> Environment:
        if not self.place.environment:
            return NO_ENVIRONMENT
        calls, tokens = f"{share.tool_calls:,} tool calls", f"{share.output_tokens:,} output tokens"
        limits = f"Your limits: {share.rounds:,} rounds, {calls}, {tokens}, {share.wall_seconds:,.0f} s."
        return self.place.environment.having(limits=limits, worktree=also)

    def _delegation(self, team: Mapping[str, str], parent: Parent, depth: int) -> Delegation:
        return Delegation(
            self.turn,
            team,
            lambda child: self.child(child, parent),
            depth=depth,
            tools=parent.delegation,
            models=self.names.aliases,
        )

    def _gate(self, definition: AgentDefinition, *, is_subagent: bool) -> Gate | None:
        """The gate of an agent: checks what its definition demands and, for the master, what the order demands as
        well."""
        terms = Terms() if is_subagent else self.terms
        try:
            return gate_for(definition, is_subagent=is_subagent, result_schema=terms.result_schema, rules=terms.rules)
        except (SchemaError, ExpressionError) as error:
            raise CannotHire(f"What {definition.name} owes cannot be checked: {error}") from error

    def _team(self, definition: AgentDefinition, parent: Parent) -> dict[str, str]:
        """The usable agents that this one may delegate to, in its file's order: name to the description for models.

        A child may delegate only to agents that its parent may delegate to. An agent whose file is broken is left out;
        the drone's registration states its problem.
        """
        known = self.definitions.agents
        names = self.definitions.spawns(definition.name)
        allowed = [name for name in names if parent.spawns is None or name in parent.spawns]
        return {name: self.definitions.known.description(name) for name in allowed if name in known}


def _passed(definition: AgentDefinition, provided: Provision, lender: ToolSet) -> ToolSet:
    """The tools that an agent's children may get: its own, and those that its file passes on, perhaps to write."""
    reads = provided.only_reading and SHELL_WRITE not in definition.passes_on
    return Only(OnlyReading(lender) if reads else lender, (*provided.names, *passed_on(lender.specs(), definition)))


def _artifact_tools(definition: AgentDefinition) -> tuple[str, ...]:
    """The tool with which an agent reads the full text of a shortened report, unless its file forbids that tool."""
    return () if READ_ARTIFACT in expanded(definition.disallowed_tools) else (READ_ARTIFACT,)


def _egress(definition: AgentDefinition, parent: Parent) -> Sequence[Sequence[str]]:
    """The egress lists of the parent, then the agent's own."""
    return parent.egress if definition.egress is None else (*parent.egress, definition.egress)
