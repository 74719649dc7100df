"""`generate` for documents in memory, without broker or database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from drone.agent.agent import AgentRuntime
from drone.agent.parts import AgentParts, Hired
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Turn
from drone.generation.node_agents import NodeAgentRequest
from drone.generation.orchestrator import GenerationTask, Orchestrator
from drone.generation.port import LiveDocument, MemoryDocuments
from drone.generation.results import Generated
from drone.library import Tool, toolset
from drone.tools.catalog import provision
from drone.tools.frame.tool import Joined
from drone.tools.frame.wrappers import Only
from mcc.contracts.documents import Counts
from mcc.contracts.generation import CONCURRENCY, LIMITS, Generation, OnFailure
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings, OrderOutcome
from mcc.contracts.record import ChatRecord
from mcc.contracts.usage import Usage
from mcc.documents.functions import Functions, functions_in


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """`counts` are the document's nodes by status, `failed` the paths of nodes in question that are not done, `usage`
    the total. `ok`: whether enough nodes are done for `on_failure`; `error` says why not. `journal` has all entries.
    """

    counts: Counts
    failed: tuple[str, ...]
    usage: Usage
    ok: bool
    error: str | None
    outcome: OrderOutcome
    journal: MemoryJournal

    @property
    def record(self) -> ChatRecord | None:
        """The generator's record, with those of the node agents below it."""
        return self.journal.fold.record()


async def generate(
    document: LiveDocument,
    *,
    model: Model,
    concurrency: int = CONCURRENCY,
    on_failure: OnFailure = "collect",
    nodes: Sequence[str] = (),
    brief: str = "",
    tools: ToolSet | Iterable[Tool] | None = None,
    functions: Functions | Iterable[ModuleType] | None = None,
    limits: Limits | None = None,
    journal: MemoryJournal | None = None,
) -> GenerationReport:
    """Let agents fill in all nodes that are pending, stale or failed, or only these `nodes` (paths) among them.

    All agents use `model`, also where their component names another. Reading tools that components name come from
    `tools`. `functions` are those that rules name: by name, or the modules to search; None = the document's own.
    Pass the `journal` of an interrupted generation of this document to resume it. Raises `Exhausted` when this process
    lacks resources; failures of agents are in the report.
    """
    journal = journal or MemoryJournal(fresh_id())
    asked = Generation(concurrency=concurrency, on_failure=on_failure, nodes=tuple(nodes))
    limits = limits or Limits.model_validate({**LIMITS, "concurrency": concurrency})
    turn = Turn.begun(journal, Budget(limits), tree=Tree.of(journal.entries))
    documents = MemoryDocuments(document, turn.journal, _functions(document, functions))
    hire = _hiring(model, toolset(tools), limits)
    generated = await Orchestrator(documents, turn, hire, GenerationTask(journal.order_id, asked, brief)).run()
    return _report(generated, journal)


def _report(generated: Generated, journal: MemoryJournal) -> GenerationReport:
    outcome = generated.outcome()
    return GenerationReport(
        counts=generated.counts,
        failed=generated.result.failed,
        usage=journal.fold.spent,
        ok=generated.succeeded,
        error=None if generated.succeeded else generated.why,
        outcome=outcome,
        journal=journal,
    )


def _functions(document: LiveDocument, given: Functions | Iterable[ModuleType] | None) -> Functions:
    if given is None:
        return document.functions
    return given if isinstance(given, Mapping) else functions_in(given)


def _hiring(model: Model, tools: ToolSet, limits: Limits) -> Callable[[NodeAgentRequest], AgentParts]:
    readable = [spec for spec in tools.specs() if not spec.may_write]

    def hire(request: NodeAgentRequest) -> AgentParts:
        definition = request.definition
        provided = provision(readable, definition)
        own = Joined(Only(tools, provided.names), request.own) if provided.names else request.own
        hired = Hired(
            model_settings=ModelSettings.of(definition),
            tools_requested=definition.tools,
            missing=provided.missing,
            owed=request.owed,
            form=request.form,
        )
        return AgentRuntime(definition, model=model, tools=own, limits=limits, gate=request.gate, hired=hired)

    return hire
