"""The orchestrator: plain code that walks a document from its root down and lets an agent work wherever one is due."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from drone.agent.agent_control import AgentControl
from drone.agent.allowance import OWN_CLOCK_SECONDS, ROOM, kept_output, kept_seconds
from drone.agent.idle_watch import Block
from drone.agent.report import Cause, LimitReached, Report, Stopped, failure_reason
from drone.agent.subagents.children import CannotHire, SpawnsExceeded
from drone.agent.threads import side_by_side
from drone.agent.turn import Turn, rest
from drone.generation.function_rules import ask_functions
from drone.generation.jobs import STRUCTURE, WHOLE, Job, Part, due, functions_of, record_of
from drone.generation.node_agents import Hire, NodeAgents
from drone.generation.outline import LaidAside, NotApproved, Outline
from drone.generation.port import DocumentLost, Documents
from drone.generation.progress import Progress
from drone.generation.results import Generated, Halt
from drone.generation.root_record import RootRecord, Selection
from mcc.contracts.documents import Counts
from mcc.contracts.generation import Generation
from mcc.contracts.ids import derived_id, root_record_id
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, WaitingReason
from mcc.documents.change import Author
from mcc.documents.commands import Instruct
from mcc.documents.node import Stamp
from mcc.documents.staleness import assessed
from mcc.documents.state import State, UnknownNode

LOOK_AGAIN_SECONDS = 300.0
"""An order that waits for a drone with the functions of its rules is looked at again after so long."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be generated, by which order; `brief` is what all agents read, "" = what the document has already.
    `clean` takes known secrets out of what agents are asked.
    """

    order_id: str
    asked: Generation = field(default_factory=Generation)
    brief: str = ""
    clean: Callable[[str], str] = str


class Orchestrator:
    """One generation: begun, or gone on with where the journal and the document say that it was."""

    def __init__(self, documents: Documents, turn: Turn, hire: Hire, request: Request) -> None:
        self._documents = documents
        self._turn = turn
        self._request = request
        self._root = RootRecord(turn, documents, root_record_id(request.order_id), request.asked, request.brief)
        self._agents = NodeAgents(documents, turn, hire, request.order_id, self._lose, request.clean)
        self._progress = Progress(documents.blueprint, turn)
        self._selection = Selection()
        self._seen: State | None = None
        self._at_work: set[str] = set()
        self._skipped = 0
        self._unoutlined: list[str] = []
        self._halted: Halt | None = None
        self._scope: asyncio.Timeout | None = None

    async def run(self) -> Generated:
        """Whatever agents and their models do is in what comes of it; raises only `JournalError`, `Exhausted`,
        CancelledError, and `LaidAside` where the order must wait for somebody."""
        try:
            if self._root.is_over:
                return replace(await self._generated(), halted=self._root.ended_before())
            async with self._root.entered() as control:
                await self._walked(control)
                generated = await self._generated()
                self._progress.close()
                await self._root.end(generated, self._skipped)
                return generated
        except DocumentLost as problem:
            return await self._without(problem)

    async def _walked(self, control: AgentControl) -> None:
        """From the root down, until everything is done or something halts it."""
        try:
            self._selection = await self._root.begin(await self._state())
            async with self._scoped(control):
                await self._turn.router.arrived(self._root.id)
                await self._prepared(control)
                with self._turn.idle.still(self._root.id):
                    if self._request.asked.outline:
                        await self._outlined(control)
                    await self._visit((await self._state()).root_id, control, WHOLE)
                    await ask_functions(self._documents, self._turn.threads, self._root.origin, self._request.order_id)
        except UnknownNode as problem:
            self._selection = Selection(frozenset())
            self._halt(Halt(FailureReason.INVALID, f"{problem}"))
        except NotApproved as problem:
            self._halt(Halt(None, f"{problem}"))
        except Stopped as stopped:
            self._halt(Halt(None, f"{stopped}", cuts_off=True))

    async def _outlined(self, control: AgentControl) -> None:
        """The structure made, and approved. Raises `LaidAside`, `NotApproved`."""
        outline = Outline(self._documents, self._turn, self._root.origin, self._request.order_id)
        if not outline.is_asked:
            await self._visit((await self._state()).root_id, control, STRUCTURE)
            self._skipped = 0
            if self._unoutlined and self._halted is None:
                why = f"the outline of {self._unoutlined[0]} was not made"
                self._halt(Halt(FailureReason.GATE_FAILED, why))
        if self._halted is None:
            await outline.approved()

    @asynccontextmanager
    async def _scoped(self, control: AgentControl) -> AsyncIterator[None]:
        """What happens inside can be cut off: by people, who end the generation, and by the loss of the document.

        Raises `Ended`.
        """
        try:
            async with asyncio.timeout(None) as self._scope:
                with control.steering(self._scope):
                    yield
        except TimeoutError:
            if self._scope is None or not self._scope.expired():
                raise
            control.check()

    async def _prepared(self, control: AgentControl) -> None:
        """What all agents read is said, and the functions of all rules are here."""
        missing = functions_of(self._documents.blueprint) - self._documents.functions.keys()
        if missing:
            await self._wait_for_functions(", ".join(sorted(missing)))
        brief = self._request.brief
        if brief and (await self._state()).brief != brief:
            author = Author(by="person", at=now(), order_id=self._request.order_id)
            command_id = derived_id(self._root.id, "instruct")
            await self._documents.dispatch(self._root.origin, [Instruct(brief=brief)], author, command_id)

    async def _wait_for_functions(self, names: str) -> None:
        """Lay the order aside until a drone that has them takes it, before anything is spent."""
        why = f"rules of the blueprint need functions that are not registered here: {names}"
        if not self._turn.idle.parks:
            self._halt(Halt(FailureReason.INVALID, f"{why[0].upper()}{why[1:]}"))
            return
        raise LaidAside(Block(WaitingReason.FUNCTION, why, now() + timedelta(seconds=LOOK_AGAIN_SECONDS)))

    async def _visit(self, node_id: str, control: AgentControl, parts: tuple[Part, ...]) -> None:
        """A node: its metadata, its own values (or its children alone), then its children side by side."""
        worked = False
        for part in parts:
            passed = await self._work(node_id, part, control)
            if passed is False:
                return
            worked = worked or passed is True
        self._skipped += not worked
        assert self._seen is not None
        if children := self._seen.children.get(node_id, ()):
            async with side_by_side() as start:
                for child in children:
                    start(partial(self._visit, child, control, parts))

    async def _work(self, node_id: str, part: Part, control: AgentControl) -> bool | None:
        """Let this agent of the node work: whether it passed, None where it had nothing to do.

        What hangs below a node whose agent did not pass is left: its agents would be told of values that nobody passed.
        """
        seen = self._seen
        assert seen is not None
        if self._halted is not None or node_id not in seen.nodes:
            return False
        job = Job.of(self._documents.blueprint, seen, node_id, part, self._root.id)
        record = self._turn.tree.begun(job.record_id)
        if record is not None and record.finished is not None:
            return await self._ended(job, record.report())  # by an earlier drone
        if record is None and not self._is_due(seen, job):
            return None
        async with self._turn.slots.taken(job.record_id):
            await rest(self._turn, control)
            state = await self._state()
            if self._halted is not None or node_id not in state.nodes:
                return False
            changed = state.nodes[node_id] is not seen.nodes[node_id]
            if record is None and changed and not self._is_due(state, job):
                return None
            report = await self._run(job, state)
            # In its place yet: whoever gets that next knows how this one ended.
            return report is not None and await self._ended(job, report)

    def _is_due(self, state: State, job: Job) -> bool:
        selected = self._selection.has(state, job.node_id)
        return selected and due(self._documents.blueprint, state, job.node_id, job.part)

    async def _run(self, job: Job, state: State) -> Report | None:
        """How the agent ended; None when none could begin, which halts the generation."""
        since = self._progress.began()
        self._at_work.add(job.record_id)
        try:
            self._turn.budget.check()
            return await self._agents.run(job, state)
        except LimitReached as reached:
            self._reached(reached.limit, f"{reached}")
        except SpawnsExceeded as reached:
            self._reached("spawns", f"the limit spawns ({reached.allowed}) is reached")
        except CannotHire as problem:
            self._halt(Halt(FailureReason.INVALID, f"{job.agent} cannot work here: {problem}"))
        finally:
            self._at_work.discard(job.record_id)
            self._progress.ended(since)
        return None

    async def _ended(self, job: Job, report: Report) -> bool:
        """Settle the node; whether the agents below it may work."""
        if report.cause is Cause.CANCELLED and self._halted is not None:
            return False
        stamp = None if job.part == "outline" else self._stamp(job)
        if stamp is None or stamp.record_id != job.record_id:
            await self._agents.settle(job, report)
            await self._state()
        if report.completed:
            return True
        if job.part == "outline":
            self._unoutlined.append(job.path)
        if self._is_tree_exhausted(report):
            self._reached(report.limit or "", report.error or "")
        elif self._request.asked.on_failure == "fail_fast":
            self._fail_fast(job, report)
        return False

    def _stamp(self, job: Job) -> Stamp | None:
        assert self._seen is not None
        node = self._seen.nodes.get(job.node_id)
        return None if node is None else node.stamps.get(job.role)

    def _is_tree_exhausted(self, report: Report) -> bool:
        """Whether the limit that the agent reached is the order's, which no other agent has more of."""
        budget, limits = self._turn.budget, self._turn.budget.limits
        if report.cause is not Cause.LIMIT or report.limit == "rounds":
            return False
        if report.limit == "wall_seconds":
            return budget.seconds_left() <= kept_seconds(limits.wall_seconds) + OWN_CLOCK_SECONDS
        if report.limit == "output_tokens":
            return budget.spent.output_tokens >= limits.output_tokens - kept_output(ROOM, limits.output_tokens)
        return True

    def _reached(self, limit: str, said: str) -> None:
        """No further agent begins; those at work have their last reply."""
        self._halt(Halt(failure_reason(Cause.LIMIT, limit), said, limit))

    def _fail_fast(self, job: Job, report: Report) -> None:
        why = f"{job.path} failed, and the order asks to stop then"
        self._halt(Halt(FailureReason.GATE_FAILED, why))
        for record_id in self._at_work:
            self._turn.router.end(record_id, why)

    def _lose(self, problem: DocumentLost) -> None:
        """An agent has found that the document cannot be gone on with."""
        self._halt(Halt(FailureReason.INVALID, f"{problem}", cuts_off=True))
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _halt(self, halt: Halt) -> None:
        """The first reason counts."""
        self._halted = self._halted or halt

    async def _state(self) -> State:
        self._seen = await self._documents.state()
        self._progress.saw(self._seen)
        return self._seen

    async def _generated(self) -> Generated:
        """The nodes in question are those whose agents worked, and those that are not done."""
        state = await self._state()
        tree, statuses = self._turn.tree, assessed(self._documents.blueprint, state).statuses

        def has_worked(node_id: str) -> bool:
            return any(tree.begun(record_of(self._root.id, node_id, part)) for part in WHOLE)

        selected = [node.id for node in state.walk() if self._selection.has(state, node.id)]
        worked = {node_id for node_id in selected if has_worked(node_id)}
        asked = [node_id for node_id in selected if node_id in worked or statuses[node_id] != "done"]
        on_failure = self._request.asked.on_failure
        generated = Generated.of(self._documents.blueprint, state, asked, worked, on_failure)
        return replace(generated, halted=self._halted, usage=self._turn.budget.spent)

    async def _without(self, problem: DocumentLost) -> Generated:
        """How a generation ends whose document is not there."""
        halt = self._halted or Halt(FailureReason.INVALID, f"{problem}", cuts_off=True)
        generated = Generated(self._documents.id, 0, Counts(), 0, (), usage=self._turn.budget.spent, halted=halt)
        await self._root.end(generated, 0)
        return generated
