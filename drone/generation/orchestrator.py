"""The orchestrator of a generation: walks the document from its root down and runs an agent wherever one is due."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import product

from drone.agent.control.agent_control import AgentControl
from drone.agent.control.idle_watch import Block
from drone.agent.ports.report import Cause, LimitReached, Report, Stopped, failure_reason
from drone.agent.spending.allowance import LAST_REPLY_TOKENS, OWN_CLOCK_SECONDS, headroom_output, headroom_seconds
from drone.agent.subagents.children import CannotHire, SpawnsExceeded
from drone.agent.turns.turn import Turn, wait_while_paused
from drone.generation.jobs import (
    AGAIN,
    STRUCTURE,
    WHOLE,
    NodeJob,
    Part,
    due,
    functions_of,
    part_told,
    record_of,
    records_of,
    told_below,
)
from drone.generation.node_agents import Hire, NodeAgents
from drone.generation.node_check import judge_open_functions
from drone.generation.outline import NotApproved, OrderParked, Outline
from drone.generation.port import DocumentLost, DocumentPort
from drone.generation.progress import GenerationTracker
from drone.generation.results import Generated, GenerationHalt
from drone.generation.root_record import RootRecord, Selection
from drone.threads import side_by_side
from mcc.contracts.documents import Counts
from mcc.contracts.generation import Generation
from mcc.contracts.ids import derived_id, root_record_id
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, WaitingReason
from mcc.documents.change import Author
from mcc.documents.commands import Instruct
from mcc.documents.node import Stamp
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState, UnknownNode

LOOK_AGAIN_SECONDS = 300.0
"""How long an order is parked before it is tried again on a drone that may have the functions of its rules."""


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """What to generate, for which order. `brief` is the text for all agents; "" = keep the document's. `redact` removes
    known secrets from prompts."""

    order_id: str
    asked: Generation = field(default_factory=Generation)
    brief: str = ""
    redact: Callable[[str], str] = str


class Orchestrator:
    """One generation, new or resumed from what journal and document say."""

    def __init__(self, documents: DocumentPort, turn: Turn, hire: Hire, request: GenerationTask) -> None:
        self._documents = documents
        self._turn = turn
        self._request = request
        self._root = RootRecord(turn, documents, root_record_id(request.order_id), request.asked, request.brief)
        self._agents = NodeAgents(documents, turn, hire, request.order_id, self._document_lost, request.redact)
        self._progress = GenerationTracker(documents.blueprint, turn)
        self._selection = Selection()
        self._seen: DocumentState | None = None
        self._at_work: set[str] = set()
        self._skipped = 0
        self._failed_outlines: list[str] = []
        self._halted: GenerationHalt | None = None
        self._scope: asyncio.Timeout | None = None

    async def run(self) -> Generated:
        """Run the generation to its end. Failures of agents and models are part of the result; raises only
        `JournalError`, `Exhausted`, CancelledError, and `OrderParked` where the order must wait."""
        try:
            if self._root.is_over:
                return replace(await self._result(), halted=self._root.earlier_halt())
            async with self._root.controlled() as control:
                await self._walk(control)
                generated = await self._result()
                self._progress.close()
                await self._root.end(generated, self._skipped)
                return generated
        except DocumentLost as problem:
            return await self._end_without_document(problem)

    async def _walk(self, control: AgentControl) -> None:
        """Work from the root down, until everything is done or something halts it."""
        try:
            self._selection = await self._root.begin(await self._state())
            async with self._cancellable(control):
                await self._turn.router.arrived(self._root.id)
                await self._prepare()
                with self._turn.idle.waiting(self._root.id):
                    if self._request.asked.outline:
                        await self._make_outline(control)
                    await self._visit((await self._state()).root_id, control, WHOLE)
                    await self._mend(control)
        except UnknownNode as problem:
            # Nothing is in question then, so that the result counts no node as failed.
            self._selection = Selection(frozenset())
            self._halt(GenerationHalt(FailureReason.INVALID, f"{problem}"))
        except NotApproved as problem:
            self._halt(GenerationHalt(None, f"{problem}"))
        except Stopped as stopped:
            self._halt(GenerationHalt(None, f"{stopped}", cuts_off=True))

    async def _mend(self, control: AgentControl) -> None:
        """Judge by functions what is made, and let the agents run again that these tell what to change, each at most
        `AGAIN` times, and those below them whose prompts are others then."""
        followed = await self._begun_again()
        while True:
            await judge_open_functions(self._documents, self._turn.threads, self._root.origin, self._request.order_id)
            state = await self._state()
            told = self._told(state)
            tops = {node_id for node_id in (*told, *followed) if node_id in state.nodes}
            if self._halted is not None or not tops:
                return
            async with side_by_side() as start:
                for top in tops:
                    if not any(above.id in tops for above in state.ancestors(state.nodes[top])):
                        start(partial(self._visit_again, top, control, told))
            followed = ()

    async def _begun_again(self) -> tuple[str, ...]:
        """The nodes whose agents an earlier drone let run again, their ended runs settled: those below may not have
        followed yet."""
        state, begun = await self._state(), dict[str, None]()
        if not functions_of(self._documents.blueprint):
            return ()
        for node_id, part, again in product(state.nodes, WHOLE, range(1, AGAIN + 1)):
            record = self._turn.tree.begun(record_of(self._root.id, node_id, part, again))
            if record is not None:
                begun[node_id] = None
                if record.finished is not None:
                    await self._finish(self._job(state, node_id, part, again), record.report())
        return tuple(begun)

    def _told(self, state: DocumentState) -> Mapping[str, tuple[str, ...]]:
        """By node id, what agents that may still run again are told to change."""
        blueprint, told = self._documents.blueprint, dict[str, tuple[str, ...]]()
        for node_id, texts in told_below(state).items():
            part = part_told(blueprint, state.nodes[node_id])
            if part is not None and self._selection.has(state, node_id) and self._again(state, node_id, part):
                told[node_id] = texts
        return told

    def _again(self, state: DocumentState, node_id: str, part: Part) -> NodeJob | None:
        """The next further run of this agent, or the one under way; None where it has had all of them."""
        for again in range(1, AGAIN + 1):
            record = self._turn.tree.begun(record_of(self._root.id, node_id, part, again))
            if record is None or record.finished is None:
                return self._job(state, node_id, part, again)
        return None

    async def _visit_again(self, node_id: str, control: AgentControl, told: Mapping[str, tuple[str, ...]]) -> None:
        """Let the agents of a node work again that are told something or whose prompts have changed, then those of its
        children."""
        for part in WHOLE:
            state = self._seen
            assert state is not None
            if node_id not in state.nodes:
                return
            job = self._again(state, node_id, part)
            if job is not None and part == part_told(self._documents.blueprint, state.nodes[node_id]):
                job = replace(job, told=told.get(node_id, ()))
            if job is not None and await self._work(job, control) is False:
                return
        async with side_by_side() as start:
            for child in self._seen.children.get(node_id, ()) if self._seen else ():
                start(partial(self._visit_again, child, control, told))

    async def _make_outline(self, control: AgentControl) -> None:
        """Make the structure and have it approved. Raises `OrderParked`, `NotApproved`."""
        outline = Outline(self._documents, self._turn, self._root.origin, self._request.order_id)
        if not outline.is_requested:
            await self._visit((await self._state()).root_id, control, STRUCTURE)
            # Only the walk after the outline counts skipped nodes: it visits all of them again.
            self._skipped = 0
            if self._failed_outlines and self._halted is None:
                why = f"the outline of {self._failed_outlines[0]} was not made"
                self._halt(GenerationHalt(FailureReason.GATE_FAILED, why))
        if self._halted is None:
            await outline.approved()

    @asynccontextmanager
    async def _cancellable(self, control: AgentControl) -> AsyncIterator[None]:
        """Makes the work inside stop when people cancel the generation or the document is lost.

        Raises `Ended` where people cancelled.
        """
        try:
            async with asyncio.timeout(None) as self._scope:
                with control.in_rounds(self._scope):
                    yield
        except TimeoutError:
            if self._scope is None or not self._scope.expired():
                raise
            control.check()

    async def _prepare(self) -> None:
        """Set the brief of the document; park the order if functions of its rules are missing here."""
        missing = functions_of(self._documents.blueprint) - self._documents.functions.keys()
        if missing:
            await self._wait_for_functions(", ".join(sorted(missing)))
        brief = self._request.brief
        if brief and (await self._state()).brief != brief:
            author = Author(by="person", at=now(), order_id=self._request.order_id)
            command_id = derived_id(self._root.id, "instruct")
            await self._documents.dispatch(self._root.origin, [Instruct(brief=brief)], author, command_id)

    async def _wait_for_functions(self, names: str) -> None:
        """Park the order for a drone that has them, before anything is spent; halt where orders cannot be parked."""
        why = f"rules of the blueprint need functions that are not registered here: {names}"
        if not self._turn.idle.parks:
            self._halt(GenerationHalt(FailureReason.INVALID, f"{why[0].upper()}{why[1:]}"))
            return
        raise OrderParked(Block(WaitingReason.FUNCTION, why, now() + timedelta(seconds=LOOK_AGAIN_SECONDS)))

    async def _visit(self, node_id: str, control: AgentControl, parts: tuple[Part, ...]) -> None:
        """Let the agents of a node work (these `parts`, in order), then visit its children concurrently."""
        worked = False
        for part in parts:
            seen = self._seen
            assert seen is not None
            if self._halted is not None or node_id not in seen.nodes:
                return
            passed = await self._work(self._job(seen, node_id, part), control)
            if passed is False:
                return
            worked = worked or passed is True
        self._skipped += not worked
        assert self._seen is not None
        if children := self._seen.children.get(node_id, ()):
            async with side_by_side() as start:
                for child in children:
                    start(partial(self._visit, child, control, parts))

    def _job(self, state: DocumentState, node_id: str, part: Part, again: int = 0) -> NodeJob:
        return NodeJob.of(self._documents.blueprint, state, node_id, part, self._root.id, again)

    async def _work(self, job: NodeJob, control: AgentControl) -> bool | None:
        """Let this agent work. Answers whether it passed, None where it had nothing to do.

        The caller leaves out all below a node whose agent did not pass: their prompts would contain unchecked values.
        """
        seen, node_id = self._seen, job.node_id
        assert seen is not None
        if self._halted is not None or node_id not in seen.nodes:
            return False
        record = self._turn.tree.begun(job.record_id)
        if record is not None and record.finished is not None:
            return await self._finish(job, record.report())  # its run ended under an earlier drone
        if record is None and not self._is_due(seen, job):
            return None
        async with self._turn.slots.taken(job.record_id):
            await wait_while_paused(self._turn, control)
            state = await self._state()
            if self._halted is not None or node_id not in state.nodes:
                return False
            # By identity: each change of a node makes another object, and whether it is due takes long to find out.
            changed = state.nodes[node_id] is not seen.nodes[node_id]
            if record is None and changed and not self._is_due(state, job):
                return None
            report = await self._run(job, state)
            # Still inside the slot, so that the next agent to get it sees the node settled or the halt.
            return report is not None and await self._finish(job, report)

    def _is_due(self, state: DocumentState, job: NodeJob) -> bool:
        if not self._selection.has(state, job.node_id):
            return False
        if job.again and (job.told or state.nodes[job.node_id].failure is not None):
            return bool(job.told)
        return due(self._documents.blueprint, state, job.node_id, job.part)

    async def _run(self, job: NodeJob, state: DocumentState) -> Report | None:
        """Run the agent. Answers None where it could not start, which halts the generation."""
        since = self._progress.agent_started()
        self._at_work.add(job.record_id)
        try:
            self._turn.budget.check()
            return await self._agents.run(job, state)
        except LimitReached as reached:
            self._limit_reached(reached.limit, f"{reached}")
        except SpawnsExceeded as reached:
            self._limit_reached("spawns", f"the limit spawns ({reached.allowed}) is reached")
        except CannotHire as problem:
            self._halt(GenerationHalt(FailureReason.INVALID, f"{job.agent} cannot work here: {problem}"))
        finally:
            self._at_work.discard(job.record_id)
            self._progress.agent_ended(since)
        return None

    async def _finish(self, job: NodeJob, report: Report) -> bool:
        """Settle the node unless that was done. Answers whether the agents below it may work."""
        if report.cause is Cause.CANCELLED and self._halted is not None:
            # Cancelled by the halt: the node is not marked as failed, and is due again in the next generation.
            return False
        stamp = None if job.part == "outline" else self._stamp(job)
        later = records_of(self._root.id, job.node_id, job.part)[job.again :]
        if stamp is None or stamp.record_id not in later:
            await self._agents.settle(job, report)
            await self._state()
        if report.completed:
            return True
        if job.part == "outline":
            self._failed_outlines.append(job.path)
        if self._is_tree_exhausted(report):
            self._limit_reached(report.limit or "", report.error or "")
        elif self._request.asked.on_failure == "fail_fast":
            self._fail_fast(job)
        return False

    def _stamp(self, job: NodeJob) -> Stamp | None:
        assert self._seen is not None
        node = self._seen.nodes.get(job.node_id)
        return None if node is None else node.stamps.get(job.role)

    def _is_tree_exhausted(self, report: Report) -> bool:
        """Whether the agent reached a limit of the whole order, which stops all other agents too."""
        budget, limits = self._turn.budget, self._turn.budget.limits
        if report.cause is not Cause.LIMIT or report.limit == "rounds":
            return False
        if report.limit == "wall_seconds":
            return budget.seconds_left() <= headroom_seconds(limits.wall_seconds) + OWN_CLOCK_SECONDS
        if report.limit == "output_tokens":
            return budget.spent.output_tokens >= limits.output_tokens - headroom_output(
                LAST_REPLY_TOKENS, limits.output_tokens
            )
        return True

    def _limit_reached(self, limit: str, message: str) -> None:
        """Halt: no further agent starts; running ones still get their last reply."""
        self._halt(GenerationHalt(failure_reason(Cause.LIMIT, limit), message, limit))

    def _fail_fast(self, job: NodeJob) -> None:
        """Halt, and cancel all running agents."""
        why = f"{job.path} failed, and the order asks to stop then"
        self._halt(GenerationHalt(FailureReason.GATE_FAILED, why))
        for record_id in self._at_work:
            self._turn.router.cancel(record_id, why)

    def _document_lost(self, problem: DocumentLost) -> None:
        """Halt and interrupt everything, because an agent found that the document is lost."""
        self._halt(GenerationHalt(FailureReason.INVALID, f"{problem}", cuts_off=True))
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _halt(self, halt: GenerationHalt) -> None:
        """Keep the reason for stopping; the first one counts."""
        self._halted = self._halted or halt

    async def _state(self) -> DocumentState:
        self._seen = await self._documents.state()
        self._progress.update(self._seen)
        return self._seen

    async def _result(self) -> Generated:
        """The result, about selected nodes whose agents worked or that are not done."""
        state = await self._state()
        tree, statuses = self._turn.tree, assessed(self._documents.blueprint, state).statuses

        def has_worked(node_id: str) -> bool:
            return any(tree.begun(id) for part in WHOLE for id in records_of(self._root.id, node_id, part))

        selected = [node.id for node in state.walk() if self._selection.has(state, node.id)]
        worked = {node_id for node_id in selected if has_worked(node_id)}
        asked = [node_id for node_id in selected if node_id in worked or statuses[node_id] != "done"]
        on_failure = self._request.asked.on_failure
        generated = Generated.of(self._documents.blueprint, state, asked, worked, on_failure)
        return replace(generated, halted=self._halted, usage=self._turn.budget.spent)

    async def _end_without_document(self, problem: DocumentLost) -> Generated:
        """End the generation of a document that is lost."""
        halt = self._halted or GenerationHalt(FailureReason.INVALID, f"{problem}", cuts_off=True)
        generated = Generated(self._documents.id, 0, Counts(), 0, (), usage=self._turn.budget.spent, halted=halt)
        await self._root.end(generated, 0)
        return generated
