"""Judging of nodes by the committed document and the tool calls of their agents, and of function rules left open."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drone.agent.gates.gate import Evidence
from drone.agent.gates.report_gate import variables
from drone.generation.jobs import NodeJob, of_children
from drone.generation.port import DocumentPort
from drone.threads import OwnThreads
from mcc.contracts.documents import RuleError
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.shape import now
from mcc.documents.change import Author
from mcc.documents.commands import Judge, Judged
from mcc.documents.component import CompiledComponent
from mcc.documents.judging import Verdicts, errors_of, judge, judge_evidence, judge_functions
from mcc.documents.node import RuleVerdict
from mcc.documents.state import DocumentState
from mcc.rules.reads import READS, Reads

LONG_SECONDS = 0.01
"""Judging that takes longer would block the other agents of the process for too long."""

AT_ONCE = 200
"""Most nodes whose function verdicts are written by one dispatch."""


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """`errors` are what the agent must fix; `verdicts` those of evidence and function rules, which a dispatch cannot
    judge by itself."""

    errors: tuple[RuleError, ...]
    verdicts: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Judges one node by all rules of its component, for the agent of `job`."""

    documents: DocumentPort
    job: NodeJob
    slow: set[str]
    """Components whose judging has taken long once: they are judged in a thread from then on. For the others, a thread
    would cost more than the judging."""

    async def errors(self, evidence: Evidence) -> Sequence[RuleError]:
        """The errors found now, in the form that a gate needs."""
        return (await self.check(evidence)).errors

    async def check(self, evidence: Evidence) -> CheckedNode:
        """Judge all rules. Raises `DocumentLost`, `JournalError`, and LookupError when the node was removed."""
        state = await self._state()
        by_evidence, by_functions = await self._own_verdicts(state, evidence)
        verdicts = await self._judge_timed(state, by_functions, by_evidence, evidence.threads)
        path = state.path(state.nodes[self.job.node_id])
        wrong = errors_of(verdicts, path, self.job.role)
        # A function that this process does not have is never a pass.
        unasked = [verdict for verdict in verdicts if verdict.kind == "function" and verdict.ok is None]
        wrong += errors_of([replace(verdict, ok=False) for verdict in unasked], path, self.job.role)
        if self.job.part == "outline":
            wrong = [verdict for verdict in wrong if of_children(verdict["rule"])]
        return CheckedNode(tuple(RuleError(**verdict) for verdict in wrong), _judged(by_functions, by_evidence))

    async def own_verdicts(self, evidence: Evidence) -> tuple[Judged, ...]:
        """Only the verdicts of evidence and function rules. Raises as `check` does."""
        state = await self._state()
        by_evidence, by_functions = await self._own_verdicts(state, evidence)
        return _judged(by_functions, by_evidence)

    async def _state(self) -> DocumentState:
        state = await self.documents.state()
        if self.job.node_id not in state.nodes:
            raise LookupError(f"the node {self.job.path} has been taken out of the document")
        return state

    async def _own_verdicts(self, state: DocumentState, evidence: Evidence) -> tuple[Verdicts, Verdicts]:
        component = self.documents.blueprint.component(self.job.component)
        by_evidence = await self._by_evidence(state, component, evidence)
        return by_evidence, await self._by_functions(state, component, evidence.threads)

    async def _judge_timed(
        self, state: DocumentState, by_functions: Verdicts, by_evidence: Verdicts, threads: OwnThreads
    ) -> tuple[RuleVerdict, ...]:
        if self.job.component in self.slow:
            return await threads.gate(self._judge, state, by_functions, by_evidence)
        began = time.thread_time()
        verdicts = self._judge(state, by_functions, by_evidence)
        if time.thread_time() - began > LONG_SECONDS:
            self.slow.add(self.job.component)
        return verdicts

    def _judge(self, state: DocumentState, by_functions: Verdicts, by_evidence: Verdicts) -> tuple[RuleVerdict, ...]:
        blueprint, node_id = self.documents.blueprint, self.job.node_id
        return judge(blueprint, state, node_id, functions=by_functions, evidence=by_evidence, version=state.version)

    async def _by_evidence(self, state: DocumentState, component: CompiledComponent, evidence: Evidence) -> Verdicts:
        if not _has(component, "evidence"):
            return {}
        whole = await evidence.whole_texts()
        return await evidence.threads.gate(self._by_receipts, state, evidence, tuple(evidence.passages(whole)))

    def _by_receipts(self, state: DocumentState, evidence: Evidence, shown: Sequence[object]) -> Verdicts:
        known = variables(None, evidence, ("receipts", READS), shown)  # type: ignore[arg-type]
        reads = known[READS]
        return judge_evidence(
            self.documents.blueprint,
            state,
            self.job.node_id,
            receipts=known["receipts"],
            reads=reads if isinstance(reads, Reads) else None,
            record_id=self.job.record_id,
            role=self.job.role,
            version=state.version,
        )

    async def _by_functions(self, state: DocumentState, component: CompiledComponent, threads: OwnThreads) -> Verdicts:
        if not _has(component, "function"):
            return {}
        blueprint, functions = self.documents.blueprint, self.documents.functions
        return await threads.gate(judge_functions, blueprint, state, self.job.node_id, functions, state.version)


def _judged(*found: Verdicts) -> tuple[Judged, ...]:
    return tuple(Judged.of(verdict) for verdicts in found for verdict in verdicts.values())


def _has(component: CompiledComponent, kind: str) -> bool:
    return component.validates and any(rule.kind == kind for rule in component.rules)


async def judge_open_functions(documents: DocumentPort, threads: OwnThreads, origin: Origin, order_id: str) -> None:
    """Run the function rules of all nodes on which they have no verdict since the node or its descendants changed.

    A dispatch does not run functions, because they block. Raises `DocumentLost`, `JournalError`.
    """
    state = await documents.state()
    open_ids = [
        node.id
        for node in state.walk()
        if any(verdict.kind == "function" and verdict.ok is None for verdict in node.verdicts)
    ]
    for begin in range(0, len(open_ids), AT_ONCE):
        open_nodes = {
            id: await _function_verdicts(documents, state, id, threads) for id in open_ids[begin : begin + AT_ONCE]
        }
        known = {id: verdicts for id, verdicts in open_nodes.items() if verdicts}
        if known:
            author = Author(by="person", at=now(), order_id=order_id)
            command_id = derived_id(order_id, "functions", state.version, begin)
            await documents.dispatch(origin, [Judge(version=state.version, verdicts=known)], author, command_id)


async def _function_verdicts(
    documents: DocumentPort, state: DocumentState, id: str, threads: OwnThreads
) -> tuple[Judged, ...]:
    found = await threads.gate(judge_functions, documents.blueprint, state, id, documents.functions, state.version)
    return tuple(Judged.of(verdict) for verdict in found.values() if verdict.ok is not None)
