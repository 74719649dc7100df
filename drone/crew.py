"""This room is for the crew: all that a drone has at hand to run an order, from its workspace to its outcome."""

from contextlib import closing
from dataclasses import replace
from typing import assert_never

from drone.agent.controls.bridge import Bridge
from drone.agent.definitions import Definitions
from drone.agent.gates.report_gate import ReportGate
from drone.agent.past import Past
from drone.agent.ports import Journal, ToolSet
from drone.agent.redacted import RedactedJournal
from drone.agent.report import Cause, Report
from drone.agent.spending.budget import Budget
from drone.agent.subagents.offers import offers
from drone.agent.subagents.wanted import CannotHire
from drone.agent.threads import Pools, in_thread
from drone.agent.turn import Task, Turn, title_of
from drone.hiring import Hiring, Terms
from drone.models.redacted import RedactedModels
from drone.models.registry import Models
from drone.sandbox.custody import Custody
from drone.sandbox.paths import PathError, Workspace
from drone.sandbox.private import Private
from drone.sandbox.roots import Roots
from drone.settings import Settings
from drone.tools.agent_files import agent_files
from drone.tools.agents_aside import AgentReader
from drone.tools.artifacts import ArtifactTools
from drone.tools.catalog import Toolbox
from drone.tools.detected import DETECTION, Detected
from drone.tools.provision import provision
from drone.tools.redacted import Redacted
from drone.tools.tool import Joined
from mcc.configuration.agents import AgentConsent
from mcc.configuration.trust import TrustStore
from mcc.contracts.drones import Capability
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import EarlierTurn, Outcome, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.definitions.files import place_of

BUDGET_LIMITS = frozenset({"cost_usd", "total_tokens"})
"""Limits whose end is called `budget_exhausted`; all others `limit_reached`."""


WRITING_GROUPS = frozenset({"workspace_write", "git_write", "shell_write"})
"""Tool groups whose tools may change what is in a workspace."""


class Crew:
    """Everything that a drone needs to run orders, without broker or database. Safe for many orders at once."""

    def __init__(
        self,
        settings: Settings,
        definitions: Definitions,
        models: Models,
        toolbox: Toolbox | None = None,
        trust: TrustStore | None = None,
    ) -> None:
        self._settings = settings
        self._definitions = definitions
        self._models = models
        self._toolbox = toolbox or Toolbox.found(settings.prompts_dir)
        self._roots = roots_of(settings)
        self._trust = trust or settings.trust_store()
        self.pools = Pools()

    @classmethod
    def from_settings(cls, settings: Settings) -> "Crew":
        return cls(settings, Definitions.load(settings.prompts_dir), Models(settings))

    async def run(
        self,
        order: WorkOrder,
        *,
        journal: Journal,
        bridge: Bridge | None = None,
        past: Past | None = None,
        session: tuple[EarlierTurn, ...] = (),
        workspace: Workspace | None = None,
    ) -> Outcome:
        """One turn of the Master Agent; `bridge` brings what people ask of its agents.

        `past`: what the journal says of a turn that another drone began; it goes on where that was. `session`: the
        turns before this one, for a turn that begins; one that goes on has kept them. `workspace`: what the order works
        in, opened by whoever holds it; None = it is opened here. Raises `JournalError`, `Exhausted` and CancelledError;
        everything else is in the outcome.
        """
        redactor = self._settings.redactor
        written, threads = RedactedJournal(journal, redactor), self.pools.of(order.id)
        turn = Turn.begun(written, Budget(order.limits or Limits()), bridge, past, threads)
        try:
            workspace = workspace or await threads.claim(self._workspace, order)
            known = await threads.claim(self._agents_in, workspace)
            models = RedactedModels(self._models, redactor)
            hiring = Hiring(known, models, turn, Terms(order.result_schema, order.rules))
            await threads.gate(hiring.make_gates, order.agent)
            earlier = tuple(map(redactor.model, session))
            master = hiring.master(order.agent, order.model, self._tools(workspace, turn.past), earlier)
        except CannotHire as error:
            return redactor.model(Outcome(status=OrderStatus.FAILED, reason=FailureReason.INVALID, detail=str(error)))
        prompt = redactor.text(order.prompt)
        task = Task(prompt, turn.past.root or root_record_id(order.id), title_of(prompt))
        return redactor.model(outcome_of(await master.run(task, turn)))

    def agents(self) -> tuple[Capability, ...]:
        return self._definitions.capabilities([tool.name for tool in self.tools() if tool.problem is None])

    def tools(self) -> tuple[Capability, ...]:
        own = (*offers({}, Limits().subagents_per_call), *ReportGate().specs())
        known = [Capability(name=spec.name, description=spec.description.partition(". ")[0] + ".") for spec in own]
        return (*self._toolbox.capabilities(), *known)

    def may_write(self, order: WorkOrder, workspace: Workspace) -> bool:
        """Whether some agent of the order can write in its workspace, whose tools no other one has more of. Blocks.

        Where that cannot be told it counts as writing.
        """
        try:
            there = self._toolbox.tools(workspace).specs()
            writing = {spec.name for spec in there if spec.group in WRITING_GROUPS}
            if not writing:
                return False
            return not writing.isdisjoint(provision(there, self._agents_in(workspace).get(order.agent)).names)
        except (CannotHire, LookupError, PathError):
            return True

    @property
    def custody(self) -> Custody | None:
        """Who looks after the programs that tools run; None where none are run."""
        return self._toolbox.custody

    @property
    def sandbox(self) -> str:
        """What programs run in here, or why none do."""
        return self._toolbox.sandbox

    def models(self) -> tuple[Capability, ...]:
        return self._models.capabilities()

    async def close(self) -> None:
        await self._models.aclose()
        if self.custody is not None:
            await in_thread(self.custody.close)

    def _agents_in(self, workspace: Workspace | None) -> Definitions:
        """The agents that an order may hire there. Blocks."""
        if workspace is None:
            return self._definitions
        consent = AgentConsent.read(self._trust, workspace.root)
        clean = self._settings.redactor.data
        found = agent_files(workspace)
        trusted = {file.name for file in found if consent.covers(place_of(file.name), file.content)}
        files = [replace(file, content=clean(file.content)) for file in found]
        with closing(AgentReader()) as read:
            return self._definitions.nearer(files, read, trusted)

    def _tools(self, workspace: Workspace | None, past: Past) -> ToolSet:
        """The tools of an order with this workspace, or without one."""
        detected = Detected(already=past.succeeded(DETECTION))
        tools = Joined(self._toolbox.tools(workspace, detected), ArtifactTools())
        return Redacted(tools, self._settings.redactor)

    def _workspace(self, order: WorkOrder) -> Workspace | None:
        """The order's workspace, opened; None when it asks for none. Blocks. Raises `CannotHire`."""
        if order.workspace is None:
            return None
        try:
            return self._roots.opened(order.workspace)
        except PathError as error:
            raise CannotHire(str(error)) from error


def roots_of(settings: Settings) -> Roots:
    """Where orders of this drone may work."""
    return Roots(settings.workspace_roots, Private(settings.private_places()))


def outcome_of(report: Report) -> Outcome:
    """What the master's report means for its order."""
    match report.cause:
        case None:
            return Outcome(status=OrderStatus.SUCCEEDED, answer=report.text, result=report.result)
        case Cause.CANCELLED:
            return Outcome(status=OrderStatus.CANCELLED, detail=report.error, answer=report.text or None)
        case Cause.LIMIT if report.limit in BUDGET_LIMITS:
            reason = FailureReason.BUDGET_EXHAUSTED
        case Cause.LIMIT | Cause.NO_PROGRESS:
            reason = FailureReason.LIMIT_REACHED
        case Cause.GATE:
            reason = FailureReason.GATE_FAILED
        case Cause.MODEL:
            reason = FailureReason.MODEL_ERROR
        case Cause.BROKE:
            reason = FailureReason.INTERNAL
        case _:
            assert_never(report.cause)
    return Outcome(status=OrderStatus.FAILED, reason=reason, detail=f"{report.error}", answer=report.text or None)
