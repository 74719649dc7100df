"""Runs the agents of nodes, and settles each node with its stamp and outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from drone.agent.gates.gate import Evidence
from drone.agent.parts import AgentParts
from drone.agent.ports.model import NodeForm
from drone.agent.ports.report import Cause, Report, failure_reason
from drone.agent.state.record import RecordState
from drone.agent.subagents.children import run_child, take_spawn
from drone.agent.turns.turn import Task, Turn
from drone.generation.document_gate import DocumentGate
from drone.generation.document_tools import DocumentTools, Editor
from drone.generation.jobs import NodeJob, Part, StampBasis
from drone.generation.node_check import CheckedNode, NodeCheck
from drone.generation.node_forms import form_of
from drone.generation.outline import outline_of
from drone.generation.port import DocumentLost, DocumentPort
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.blueprints import MAX_TURNS, NodeAgent
from mcc.contracts.documents import By
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.limits import AgentLimits
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason
from mcc.documents.briefs import Brief, brief_of, told_section
from mcc.documents.change import Author, DispatchRefused
from mcc.documents.commands import Judged, RunFailure, Settle
from mcc.documents.state import DocumentState

GENERATOR = "generator"
"""The agent name of the root record, which uses no model; the node agents' records are its children."""

AUTHORS: Mapping[Part, By] = {"node": "agent", "metadata": "metadata_agent", "outline": "outline"}
MESSAGE = 2_000
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class NodeAgentRequest:
    """A node agent to be made from `definition`, whose `tools` are the groups of reading tools that it gets beside its
    `own` document tools. `owed` becomes part of its set-up, `form` does not."""

    definition: AgentDefinition
    own: DocumentTools
    gate: DocumentGate
    owed: Mapping[str, object]
    form: NodeForm | None = None


Hire: TypeAlias = Callable[[NodeAgentRequest], AgentParts]
"""Makes an agent. Raises `CannotHire`."""


@dataclass(frozen=True, slots=True)
class NodeAgents:
    """Runs the agents of one generation. `on_lost` is called when work on the document cannot continue; `redact`
    removes known secrets from prompts."""

    documents: DocumentPort
    turn: Turn
    hire: Hire
    order_id: str
    on_lost: Callable[[DocumentLost], None]
    redact: Callable[[str], str] = str
    asked: dict[str, StampBasis] = field(default_factory=dict)
    """The stamp bases of running agents, by record id."""
    slow: set[str] = field(default_factory=set)

    async def run(self, job: NodeJob, state: DocumentState) -> Report:
        """Run the agent of the job to its end, resuming its record if there is one. `state` is the present one.

        Raises `CannotHire`, `SpawnsExceeded`, `DocumentLost`, `JournalError`.
        """
        brief = self._brief(state, job)
        record = self.turn.tree.begun(job.record_id)
        asked = self.asked[job.record_id] = await self._kept_basis(record) or StampBasis.of(brief)
        check = NodeCheck(self.documents, job, self.slow)
        form = form_of(self.documents.blueprint, state, job.node_id, job.role)
        agent = self.hire(replace(self._request(job, brief, asked, check), form=form))
        prompt = self.redact("\n\n".join(filter(None, (brief.task, brief.present, told_section(job.told)))))
        if job.again and record is not None:
            # The rule may hold by now, or find something else: what this run was told stands in its record alone.
            prompt = record.conversation.task
        task = Task(
            prompt=prompt,
            record_id=job.record_id,
            title=job.title,
            parent_id=job.generator_id,
            depth=job.origin.depth,
            agent=job.agent,
            node=job.path,
        )
        take_spawn(self.turn, task)
        return (await run_child(agent, task, self.turn)).report

    async def settle(self, job: NodeJob, report: Report) -> None:
        """Write stamp, verdicts and outcome of the run to the node. Repeating it changes nothing."""
        record = self.turn.tree.records[job.record_id]
        if job.part == "outline" and report.completed:
            return  # the agent for the node's values runs later and stamps the node
        state = await self.documents.state()
        if job.node_id not in state.nodes:
            return  # a person has removed it
        asked = (
            self.asked.pop(job.record_id, None)
            or await self._kept_basis(record)
            or StampBasis.of(self._brief(state, job))
        )
        failure, verdicts = await self._outcome(job, report, record)
        command = Settle(
            node=job.node_id,
            role=job.role,
            asked=asked.asked,
            inputs=dict(asked.inputs),
            rules=asked.rules,
            summary=report.text or None if failure is None else None,
            failure=failure,
            verdicts=verdicts,
            order_id=self.order_id,
            record_id=job.record_id,
        )
        origin = Origin(record_id=job.generator_id, agent=GENERATOR)
        try:
            await self.documents.dispatch(
                origin, [command], self.author(job, asked), derived_id(job.record_id, "settle")
            )
        except DispatchRefused as refusal:
            # A person has removed the node between the look and this.
            if refusal.status != 404:
                raise
        # Frees memory: the receipts are not needed any more, and a document has many nodes.
        record.receipts.clear()

    def author(self, job: NodeJob, asked: StampBasis) -> Author:
        return Author(
            by=AUTHORS[job.part],
            at=now(),
            order_id=self.order_id,
            record_id=job.record_id,
            node=job.node_id,
            asked=asked.asked,
            rules=asked.rules,
        )

    def _brief(self, state: DocumentState, job: NodeJob) -> Brief:
        brief = brief_of(self.documents.blueprint, state, job.node_id, job.role)
        return outline_of(brief) if job.part == "outline" else brief

    async def _kept_basis(self, record: RecordState | None) -> StampBasis | None:
        """The stamp basis of an agent that another drone started, read from its kept set-up."""
        if record is None or record.started is None:
            return None
        kept = await self.turn.journal.kept(record.started.setup_digest)
        return None if kept is None else StampBasis.read(kept)

    def _request(self, job: NodeJob, brief: Brief, asked: StampBasis, check: NodeCheck) -> NodeAgentRequest:
        settings = self.documents.blueprint.component(job.component).settings
        gated = settings.validates is not False
        gate = DocumentGate(job.path, check.errors if gated else None)
        editor = Editor(lambda origin: self.author(job, asked), job.node_id, self.on_lost)
        own = DocumentTools(self.documents, brief.tools, editor)
        return NodeAgentRequest(definition_of(job, brief, settings), own, gate, asked.as_json(gate.finish))

    async def _outcome(
        self, job: NodeJob, report: Report, record: RecordState
    ) -> tuple[RunFailure | None, tuple[Judged, ...]]:
        """The failure of the run, None for a pass, and the verdicts to keep with it."""
        evidence = Evidence(
            task=record.conversation.task,
            receipts=tuple(record.receipts),
            children=(),
            usage=record.spending.spent,
            threads=self.turn.threads,
            kept=self.turn.journal.kept,
        )
        check = NodeCheck(self.documents, job, self.slow)
        try:
            if report.completed:
                return None, await check.own_verdicts(evidence)
            checked = await check.check(evidence)
        except LookupError:
            checked = CheckedNode((), ())
        reason, message = reason_of(report), report.error or "The agent has not done its work."
        if reason == FailureReason.NOT_DONE and checked.errors:
            # An agent that gives up fails like one that used up its attempts: by the rules that are broken.
            reason = FailureReason.GATE_FAILED.value
            errors = "; ".join(f"{error.field or error.rule}: {error.message}" for error in checked.errors)
            message = f"its agent gave up; {errors}"
        return RunFailure(reason=reason, message=message[:MESSAGE], errors=checked.errors), checked.verdicts


def reason_of(report: Report) -> str:
    """Why a run did not pass: a `FailureReason`, or "cancelled"."""
    if report.cause is None:
        return FailureReason.NOT_DONE.value
    reason = failure_reason(report.cause, report.limit)
    return CANCELLED if reason is None or report.cause is Cause.CANCELLED else reason.value


def definition_of(job: NodeJob, brief: Brief, settings: NodeAgent) -> AgentDefinition:
    """The definition of a node's agent by its component's settings; `tools` are groups of reading tools."""
    return AgentDefinition(
        name=job.component,
        prompt=brief.system,
        tools=settings.tools,
        model=settings.model,
        thinking=settings.thinking,
        temperature=settings.temperature,
        max_output_tokens=settings.max_tokens,
        limits=AgentLimits(rounds=settings.max_turns or MAX_TURNS),
    )
