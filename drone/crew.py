"""The crew: a drone's definitions, models and tools, which carry out orders."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from drone.access import CHECKOUTS, WORKTREES, addresses_of_forges, addresses_of_servers, roots_of, toolbox_of
from drone.agent.agent import AgentRuntime
from drone.agent.compaction.of_session import SessionCompaction
from drone.agent.gates.report_gate import ReportGate
from drone.agent.parts import AgentParts
from drone.agent.ports.journal import Journal, RedactedJournal
from drone.agent.ports.permits import Permits
from drone.agent.ports.report import outcome_of
from drone.agent.ports.write_access import KnownFiles
from drone.agent.subagents.children import CannotHire
from drone.agent.subagents.offers import of_background, offers
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Task, Turn, title_of
from drone.checkouts.sessions import Checkouts
from drone.checkpoints.directory import CheckpointDirectory
from drone.checkpoints.others import changed_by_others
from drone.definitions import Definitions
from drone.delivery.deliveries import Deliveries, ForgeErrors
from drone.egress.egress import Egress, egress_for_order
from drone.generation.chat import GROUPS, open_chat
from drone.generation.node_agents import NodeAgentRequest
from drone.generation.orchestrator import GenerationTask, Orchestrator
from drone.generation.port import DocumentLost, DocumentPort
from drone.hiring import Hiring, ModelNames, Parent, Place, Terms
from drone.mcp_servers.connection import Open
from drone.mcp_servers.server_state import MemoryTokens, OAuthTokenStore, Pins
from drone.mcp_servers.servers import McpServers
from drone.mcp_servers.transports import Transports
from drone.models.guards import ModelSource, RedactedModels, UnknownModel
from drone.models.registry import Models
from drone.order_context import OrderContext, OrderTools, Seen
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.custody import Custody
from drone.sandbox.places.paths import PathError, Workspace
from drone.settings import Settings
from drone.threads import Pools, in_thread
from drone.tools.attachments import Showing
from drone.tools.catalog import MCP, Toolbox
from drone.tools.environment import DETECTION, Detected, Look, WorkspaceSurvey
from drone.tools.frame.capabilities import capability
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.own import NO_OWN, own_tools
from drone.tools.frame.tool import Joined
from drone.tools.frame.wrappers import Redacted
from drone.tools.rules_and_skills import with_agents_of
from drone.worktrees.ending import clear_up
from drone.worktrees.git_changes import used_git, with_current_head, with_git_facts
from drone.worktrees.places import WorktreeHome
from mcc.configuration.mcp_servers import McpServer
from mcc.configuration.memory import Accepts
from mcc.configuration.trust import AgentConsent, TrustStore
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.changes import Changes
from mcc.contracts.drones import Capability, SandboxState
from mcc.contracts.fact import Fact
from mcc.contracts.generation import Generation
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings, OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.questions import with_words
from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.turn_context import ContextMode
from mcc.definitions.rights import SERVER_TOOL
from mcc.documents.functions import Functions
from mcc.documents.own_functions import own_functions
from mcc.transcript.previews import READ_ARTIFACT

if TYPE_CHECKING:
    from drone.models.checks import Tell


@hints_keywords
class Crew:
    """Runs orders with the agents, models and tools of one drone, without broker or database; many orders at once."""

    def __init__(
        self,
        settings: Settings,
        definitions: Definitions,
        models: Models,
        toolbox: Toolbox | None = None,
        trust: TrustStore | None = None,
        functions: Functions | None = None,
    ) -> None:
        """`functions`: the operator's functions that rules of documents may call."""
        self._settings = settings
        self.functions: Functions = functions or {}
        self._definitions = definitions
        self._models = models
        self._toolbox = toolbox or toolbox_of(settings, NO_OWN)
        self._egress = self._toolbox.shell.egress
        self._roots = roots_of(settings)
        self.checkpoints = CheckpointDirectory.within(settings.data_dir)
        self._home = WorktreeHome(settings.data_dir / WORKTREES)
        self._trust = trust or settings.trust_store()
        self._tokens: OAuthTokenStore = MemoryTokens()
        self.servers = McpServers(settings.mcp, self._opening, lambda: settings.redactor)
        self.pools = Pools()
        self._gates_made: set[tuple[str, str]] = set()
        """Agent and mode of the drone's own definitions whose gates are compiled."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "Crew":
        own = settings.configuration.own
        tools = own_tools(settings.tools.modules, own.parent if own else None)
        servers = (f"{name}{SERVER_TOOL}*" for name in settings.mcp)
        groups = {**tools.groups, MCP: (*tools.groups[MCP], *servers)}
        definitions = Definitions.load(settings.prompts_dir, groups, own_dir=settings.own_agents())
        functions = own_functions(settings.documents.functions, own.parent if own else None).functions
        return cls(settings, definitions, Models(settings), toolbox_of(settings, tools), functions=functions)

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        """Run one turn of the Master Agent, one generation, one revert, or one compaction of a session.

        Raises `JournalError`, `Exhausted` and CancelledError; all other problems are in the outcome.
        """
        redactor, threads = self._settings.redactor, self.pools.of(order.id)
        turn = context.turn(order, threads, redactor)
        async with egress_for_order(self._egress, order.id), Jobs(turn.tree.jobs, self._settings.sandbox.jobs) as jobs:
            try:
                workspace = context.workspace
                if workspace is None and order.workspace is not None:
                    workspace = await threads.claim(self._open_workspace, order.workspace)
                if order.kind is OrderKind.REVERT and workspace is not None:
                    return redactor.model(await self.checkpoints.revert(order, workspace, turn, context.reached))
                if order.kind is OrderKind.COMPACT:
                    return redactor.model(await self._compact(order, context, turn))
                order_tools = OrderTools(
                    self._toolbox, self._home, redactor, order.id, context.notes, context.history, jobs
                )
                seen = context.seen
                if workspace is not None and seen is None:
                    seen = await threads.claim(self.seen_in, workspace)
                hiring, tools = await self._hiring(order, turn, order_tools, workspace, seen)
                if order.kind is OrderKind.GENERATE:
                    return redactor.model(await self._generate(order, hiring, tools, context.documents))
                master = await self._master(order, context, hiring, tools)
            except (CannotHire, DocumentLost, UnknownModel) as error:
                failed = OrderOutcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=str(error))
                return redactor.model(failed)
            prompt = redactor.text(with_words(order.words, order.prompt))
            root = turn.root or root_record_id(order.id)
            attachments = await self._attachments(order, context, turn, master)
            task = Task(prompt, root, title_of(redactor.text(order.prompt)), attachments=attachments)
            with closing(hiring.place):
                return redactor.model(outcome_of(await master.run(task, turn)))

    async def _attachments(
        self, order: WorkOrder, context: OrderContext, turn: Turn, master: AgentRuntime
    ) -> tuple[ShownAttachment, ...]:
        """What the master is given with its prompt; nothing anew where it has begun, since its journal has it."""
        if not order.attachments or context.attachments is None or turn.root is not None:
            return ()
        readable = any(spec.name == READ_ARTIFACT for spec in master.specs)
        showing = Showing(context.attachments, turn.artifacts, turn.threads, turn.redactor, readable)
        return await showing.all(order.attachments)

    async def _make_gates(self, hiring: Hiring, order: WorkOrder) -> None:
        """Compile the gates of the order's agents; only once for all orders that hire from the drone's own definitions
        and bring neither terms nor permissions of their own."""
        from_drone = hiring.definitions is self._definitions and order.agent in hiring.definitions.agents
        shared = from_drone and hiring.terms == Terms() and not order.permission
        kind = (order.agent, order.mode)
        if shared and kind in self._gates_made:
            return
        await hiring.turn.threads.gate(hiring.make_gates, order.agent)
        if shared:
            self._gates_made.add(kind)

    async def _hiring(
        self, order: WorkOrder, turn: Turn, order_tools: OrderTools, workspace: Workspace | None, seen: Seen | None
    ) -> tuple[Hiring, ToolSet]:
        """The hiring for the order, and the tools of its workspace. Raises `CannotHire`."""
        definitions, look, place, checkpoints = self._definitions, Look(), Place(), None
        if workspace is not None and seen is not None:
            definitions, look = seen.agents, await self._toolbox.look(seen.survey, workspace, turn.threads)
            checkpoints = self.checkpoints.of(order, workspace)
            place = order_tools.place(workspace, look, checkpoints)
        if order.egress is not None:
            place = replace(place, egress=(order.egress,))
        here = "" if workspace is None else str(workspace.root)
        turn.router.workspace_key = turn.router.workspace_key or here
        operator = self._settings.permission.rules
        permits = Permits.of_order(operator, order.mode, order.permission, order.on_ask or "deny", here)
        models, names = RedactedModels(self._models, turn.redactor), model_names_of(self._settings)
        terms = Terms(order.result_schema, order.rules, order.verify)
        hiring = Hiring(definitions, models, turn, terms, place, names, permits, self._settings.compaction)
        detected = Detected(already=look.succeeded or DETECTION in turn.tree.succeeded)
        tools = order_tools.within(workspace, detected, checkpoints)
        if self.servers:
            tools = Joined(tools, Redacted(await self.servers.tools(), turn.redactor))
        return hiring, tools

    async def _master(self, order: WorkOrder, context: OrderContext, hiring: Hiring, tools: ToolSet) -> AgentRuntime:
        """The agent that answers for the order. Raises `CannotHire`, `DocumentLost`."""
        redactor = hiring.turn.redactor
        await self._make_gates(hiring, order)
        if context.documents is not None:
            document_tools, told = await open_chat(context.documents, order.id)
            tools = Joined(tools, Redacted(document_tools, redactor))
            hiring = hiring.telling(redactor.text(told)).with_groups(order.agent, GROUPS)
        key = hiring.turn.router.workspace_key or ""
        surroundings = to_json((order.mode, order.permission, order.document_id, key)).decode()
        session = replace(context.session.without(redactor), surroundings=surroundings, session_id=order.session_id)
        return hiring.master(order.agent, order.model, tools, session, ModelSettings.of(order))

    async def _compact(self, order: WorkOrder, context: OrderContext, turn: Turn) -> OrderOutcome:
        """Shorten what a session is shown. Raises `CannotHire`, `JournalError`."""
        session = replace(context.session.without(turn.redactor), session_id=order.compacts or "")
        hiring = Hiring(self._definitions, RedactedModels(self._models, turn.redactor), turn)
        terms, deferred = self._settings.compaction, of_background()
        if self.servers and session.before is not None and session.before.found:
            deferred = (*deferred, *Redacted(await self.servers.tools(), turn.redactor).specs())
        return await SessionCompaction(order, turn, session, hiring.model, terms, deferred).run()

    async def with_changes(
        self,
        order: WorkOrder,
        workspace: Workspace,
        journal: Journal,
        outcome: OrderOutcome,
        git_facts: Sequence[Fact] = (),
    ) -> OrderOutcome:
        """The outcome, extended by what the order changed in its workspace; `git_facts`: facts about its commits and
        worktrees. Raises `JournalError`."""
        redactor, threads = self._settings.redactor, self.pools.of(order.id)
        written = RedactedJournal(journal, redactor)
        outcome = await self.checkpoints.with_changes(order, workspace, written, threads, outcome)
        if outcome.changes is not None or used_git(git_facts):
            changes = with_git_facts(outcome.changes or Changes(workspace=str(workspace.root)), git_facts)
            changes = await with_current_head(changes, self._toolbox.git, workspace, threads)
            outcome = outcome.model_copy(update={"changes": changes})
        return redactor.model(outcome)

    async def _generate(
        self, order: WorkOrder, hiring: Hiring, tools: ToolSet, documents: DocumentPort | None
    ) -> OrderOutcome:
        """Raises `CannotHire`, `JournalError`, `Exhausted`."""
        if documents is None:
            raise CannotHire("This drone keeps no documents: a generation is an order of a service.")
        redactor = self._settings.redactor
        how, egress = ModelSettings.of(order), hiring.place.egress
        parent = Parent(hiring.model(order.model), tools, model_settings=how, egress=egress)

        def hire(wanted: NodeAgentRequest) -> AgentParts:
            clean = wanted.definition.model_copy(update={"prompt": redactor.text(wanted.definition.prompt)})
            own = Redacted(wanted.own, redactor)
            return hiring.of_node(clean, parent, own, wanted.gate, wanted.owed, wanted.form)

        request = GenerationTask(order.id, order.generation or Generation(), redactor.text(order.prompt), redactor.text)
        return (await Orchestrator(documents, hiring.turn, hire, request).run()).outcome()

    def _opening(self, name: str, config: McpServer, changed: Callable[[], None]) -> Open:
        """How to connect to an MCP server; `changed` is called when its tools change."""
        settings = self._settings
        transports = Transports(
            self._toolbox.git.sandbox, addresses_of_servers(settings), settings.key, settings.egress_proxy
        )
        if self._egress is not None:
            transports = replace(transports, network=self._egress.network_to)
        return replace(transports, tokens=self._tokens, learn=settings.learn).opening(name, config, changed)

    def share(self, pins: Pins, tokens: OAuthTokenStore) -> None:
        """Use these approvals and tokens of MCP servers, which all drones share. Call before the first connection."""
        self._tokens = tokens
        self.servers.pin_by(pins)

    @property
    def context_mode(self) -> ContextMode:
        """What turns leave to the later turns of their session."""
        return self._settings.sessions.context

    @property
    def model_source(self) -> ModelSource:
        return self._models

    @property
    def accepts(self) -> Accepts:
        """Which memories count without a person."""
        return self._settings.memory.accepts

    @property
    def expire_seconds(self) -> float:
        """How long a call waits for a person's approval."""
        return float(self._settings.approvals.expire_seconds)

    @property
    def wait_seconds(self) -> float:
        """How long an order waits for answers to questions without a deadline."""
        return self._settings.approvals.wait_days * 86_400.0

    def agents(self) -> tuple[Capability, ...]:
        return self._definitions.capabilities([tool for tool in self.tools() if tool.problem is None])

    def tools(self) -> tuple[Capability, ...]:
        own = (*offers({}, Limits().subagents_per_call), *ReportGate().specs())
        return (*self._toolbox.capabilities(), *map(capability, own), *self.servers.capabilities())

    def changed_by_others(self, order: WorkOrder, workspace: Workspace, known: KnownFiles) -> Sequence[str]:
        """Those of the files that the order's agents know which somebody else has changed since. Blocks."""
        return changed_by_others(workspace, self.checkpoints.of(order, workspace), known)

    @property
    def custody(self) -> Custody | None:
        """The custody of the programs that tools run; None where tools run no programs."""
        return self._toolbox.custody

    def deliveries(self, checkouts: Checkouts, errors: ForgeErrors) -> Deliveries:
        """How orders deliver what they did in these checkouts; `errors` counts what forges refuse."""
        rule = addresses_of_forges(self._settings)
        return Deliveries(self._settings, checkouts, self._toolbox.git, self.checkpoints, rule, errors)

    @property
    def egress(self) -> Egress | None:
        """The proxy through which programs reach allowed hosts; None where no programs run."""
        return self._egress

    @property
    def programs(self) -> Bubblewrap | None:
        """The sandbox in which git runs; None where git cannot run here."""
        return None if self._toolbox.git.problem else self._toolbox.git.sandbox

    async def sandbox(self) -> SandboxState:
        """The state of the sandbox for programs, after testing each of its restrictions, or why no programs run."""
        return await self._toolbox.sandbox()

    def models(self) -> tuple[Capability, ...]:
        return self._models.capabilities()

    async def check_models(self, names: Iterable[str], tell: "Tell") -> None:
        """Try these models, or all if none is named, with one call each; `tell` receives each result at once."""
        from drone.models.checks import check_all

        wanted = tuple(names) or tuple(one.name for one in self.models())
        await check_all(self._models, wanted, self._settings.redactor, tell)

    async def close(self) -> None:
        await self.servers.close()
        await self._models.aclose()
        if self._egress is not None:
            self._egress.close()
        if self.custody is not None:
            await in_thread(self.custody.close)

    def seen_in(self, workspace: Workspace) -> Seen:
        """The first look at an order's workspace. Blocks."""
        return Seen(self._agents_in(workspace), WorkspaceSurvey.of(workspace))

    def _agents_in(self, workspace: Workspace) -> Definitions:
        """The agents that an order with this workspace may hire, including those of the workspace's files. Blocks."""
        consent = AgentConsent.read(self._trust, workspace.root)
        return with_agents_of(workspace, self._definitions, consent, self._settings.redactor.data)

    async def clear_up(self, order_id: str) -> int:
        """Save and delete the worktrees of an ended order; answers how many stay because they alone hold some work."""
        threads = self.pools.of(order_id)
        return await clear_up(self._toolbox.git, self._home, order_id, self._reopened, threads)

    def _reopened(self, path: str) -> Workspace:
        """A workspace that an ended order had. Blocks. Raises `PathError`."""
        if Path(path).is_relative_to(self._settings.data_dir / CHECKOUTS):
            return Workspace(path, private=self._roots.private)
        return self._roots.opened(path)

    def orders_with_worktrees(self) -> Sequence[str]:
        """Ids of the orders that have worktrees on this machine. Blocks."""
        return self._home.orders()

    def _open_workspace(self, path: str) -> Workspace:
        """Blocks. Raises `CannotHire`."""
        try:
            return self._roots.opened(path)
        except PathError as error:
            raise CannotHire(str(error)) from error


def model_names_of(settings: Settings) -> ModelNames:
    """The names, roles and own settings of the configured models."""
    own = {
        alias: tuple(ModelSettings(thinking=one.thinking, temperature=one.temperature).given)
        for alias, one in settings.models.items()
    }
    return ModelNames(tuple(own), settings.roles, own)
