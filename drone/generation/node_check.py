"""Holding a node to its rules: the document as it is committed now, and what the tools of its agent really did."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drone.agent.gate import Evidence
from drone.agent.report_gate import variables
from drone.agent.threads import OwnThreads
from drone.generation.jobs import Job, of_children
from drone.generation.port import Documents
from mcc.contracts.documents import RuleError
from mcc.documents.commands import Judged
from mcc.documents.component import CompiledComponent
from mcc.documents.judging import Verdicts, errors_of, judge, judge_evidence, judge_functions
from mcc.documents.node import Verdict
from mcc.documents.state import State
from mcc.rules.reads import READS, Reads

LONG_SECONDS = 0.01
"""Judging that takes longer holds up all other agents of the process."""


@dataclass(frozen=True, slots=True)
class Checked:
    """`errors` are what the agent must mend; `kept` are the verdicts that whoever dispatches cannot find by itself."""

    errors: tuple[RuleError, ...]
    kept: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Every rule of one node, every time it is asked."""

    documents: Documents
    job: Job
    slow: set[str]
    """Components whose judging once took long: it is done in a thread from then on, where else a thread costs most."""

    async def errors(self, evidence: Evidence) -> Sequence[RuleError]:
        """What is wrong now, as a gate asks for it."""
        return (await self.look(evidence)).errors

    async def look(self, evidence: Evidence) -> Checked:
        """Raises `DocumentLost`, `JournalError`, and LookupError when the node is not there any more."""
        state = await self._state()
        proved, by_functions = await self._found(state, evidence)
        verdicts = await self._judged(state, by_functions, proved, evidence.threads)
        path = state.path(state.nodes[self.job.node_id])
        wrong = errors_of(verdicts, path, self.job.role)
        # A function that nobody here has is never a pass.
        unasked = [one for one in verdicts if one.kind == "function" and one.ok is None]
        wrong += errors_of([replace(one, ok=False) for one in unasked], path, self.job.role)
        if self.job.part == "outline":
            wrong = [one for one in wrong if of_children(one["rule"])]
        return Checked(tuple(RuleError(**one) for one in wrong), _kept(by_functions, proved))

    async def found(self, evidence: Evidence) -> tuple[Judged, ...]:
        """The verdicts that only this agent's tools and this process can tell. Raises as `look` does."""
        state = await self._state()
        proved, by_functions = await self._found(state, evidence)
        return _kept(by_functions, proved)

    async def _state(self) -> State:
        state = await self.documents.state()
        if self.job.node_id not in state.nodes:
            raise LookupError(f"the node {self.job.path} has been taken out of the document")
        return state

    async def _found(self, state: State, evidence: Evidence) -> tuple[Verdicts, Verdicts]:
        component = self.documents.blueprint.component(self.job.component)
        proved = await self._proved(state, component, evidence)
        return proved, await self._said(state, component, evidence.threads)

    async def _judged(
        self, state: State, by_functions: Verdicts, proved: Verdicts, threads: OwnThreads
    ) -> tuple[Verdict, ...]:
        if self.job.component in self.slow:
            return await threads.gate(self._judge, state, by_functions, proved)
        began = time.thread_time()
        verdicts = self._judge(state, by_functions, proved)
        if time.thread_time() - began > LONG_SECONDS:
            self.slow.add(self.job.component)
        return verdicts

    def _judge(self, state: State, by_functions: Verdicts, proved: Verdicts) -> tuple[Verdict, ...]:
        blueprint, node_id = self.documents.blueprint, self.job.node_id
        return judge(blueprint, state, node_id, functions=by_functions, evidence=proved, version=state.version)

    async def _proved(self, state: State, component: CompiledComponent, evidence: Evidence) -> Verdicts:
        if not _has(component, "evidence"):
            return {}
        whole = await evidence.whole()
        return await evidence.threads.gate(self._by_receipts, state, evidence, tuple(evidence.shown(whole)))

    def _by_receipts(self, state: State, evidence: Evidence, shown: Sequence[object]) -> Verdicts:
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

    async def _said(self, state: State, component: CompiledComponent, threads: OwnThreads) -> Verdicts:
        if not _has(component, "function"):
            return {}
        blueprint, functions = self.documents.blueprint, self.documents.functions
        return await threads.gate(judge_functions, blueprint, state, self.job.node_id, functions, state.version)


def _kept(*found: Verdicts) -> tuple[Judged, ...]:
    return tuple(Judged(rule=one.rule, ok=one.ok, message=one.message) for some in found for one in some.values())


def _has(component: CompiledComponent, kind: str) -> bool:
    return component.validates and any(rule.kind == kind for rule in component.rules)
