"""Generating a document of this process: no broker, no database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from drone.agent.agent import Agent
from drone.agent.budget import Budget
from drone.agent.journal import MemoryJournal
from drone.agent.model import Model
from drone.agent.parts import AgentParts, Hired
from drone.agent.toolset import ToolSet
from drone.agent.tree import Tree
from drone.agent.turn import Turn
from drone.generation.node_agents import Wanted
from drone.generation.orchestrator import Orchestrator, Request
from drone.generation.port import Held, MemoryDocuments
from drone.generation.results import Generated
from drone.library import Tool, toolset
from drone.tools.catalog import provision
from drone.tools.tool import Joined
from drone.tools.wrappers import Only
from mcc.contracts.documents import Counts
from mcc.contracts.generation import CONCURRENCY, LIMITS, Generation, OnFailure
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.order import ModelSettings, Outcome
from mcc.contracts.record import ChatRecord
from mcc.contracts.usage import Usage
from mcc.documents.functions import Functions, functions_in


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """`counts` are the document's nodes by status, `failed` the paths of those in question that are not done, `usage`
    what all of it cost. `ok`: whether as many are done as were to be; `error` says why not. `journal` is its history.
    """

    counts: Counts
    failed: tuple[str, ...]
    usage: Usage
    ok: bool
    error: str | None
    outcome: Outcome
    journal: MemoryJournal

    @property
    def record(self) -> ChatRecord | None:
        """The generator's record, with those of the nodes' agents below it."""
        return self.journal.fold.record()


async def generate(
    document: Held,
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
    """Let agents fill in whatever of the document is pending, stale or failed, or these `nodes` of that alone.

    Every agent asks `model`, whatever its component says. Components whose agents name reading tools find them among
    `tools`. `functions` are those that rules name: by name, or the modules that they stand in; None = those that
    the document knows. `journal`: that of a generation of this document that broke off; it goes on where that was.
    Raises what is about this process and not about the document: `Exhausted`.
    """
    journal = journal or MemoryJournal(fresh_id())
    asked = Generation(concurrency=concurrency, on_failure=on_failure, nodes=tuple(nodes))
    limits = limits or Limits.model_validate({**LIMITS, "concurrency": concurrency})
    turn = Turn.begun(journal, Budget(limits), tree=Tree.of(journal.entries))
    documents = MemoryDocuments(document, turn.journal, _functions(document, functions))
    hire = _hiring(model, toolset(tools), limits)
    generated = await Orchestrator(documents, turn, hire, Request(journal.order_id, asked, brief)).run()
    return _report(generated, turn, journal)


def _report(generated: Generated, turn: Turn, journal: MemoryJournal) -> GenerationReport:
    outcome = generated.outcome()
    return GenerationReport(
        counts=generated.counts,
        failed=generated.result.failed,
        usage=turn.budget.spent,
        ok=generated.succeeded,
        error=None if generated.succeeded else generated.why,
        outcome=outcome,
        journal=journal,
    )


def _functions(document: Held, given: Functions | Iterable[ModuleType] | None) -> Functions:
    if given is None:
        return document.functions
    return given if isinstance(given, Mapping) else functions_in(given)


def _hiring(model: Model, tools: ToolSet, limits: Limits) -> Callable[[Wanted], AgentParts]:
    there = [spec for spec in tools.specs() if not spec.may_write]

    def hire(wanted: Wanted) -> AgentParts:
        definition = wanted.definition
        given = provision(there, definition)
        own = Joined(Only(tools, given.names), wanted.own) if given.names else wanted.own
        hired = Hired(
            model_settings=ModelSettings.of(definition),
            tools_requested=definition.tools,
            missing=given.missing,
            owed=wanted.owed,
        )
        return Agent(definition, model=model, tools=own, limits=limits, gate=wanted.gate, hired=hired)

    return hire
