"""The record of a generation: the root of its order's tree, which uses no model; and which nodes it is about."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from drone.agent.control.agent_control import AgentControl
from drone.agent.ports.report import Cause
from drone.agent.spending.budget import Share
from drone.agent.turns.turn import Turn, title_of
from drone.generation.node_agents import GENERATOR
from drone.generation.port import DocumentPort
from drone.generation.results import Generated, GenerationHalt
from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.entry import Origin
from mcc.contracts.generation import Generation
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep
from mcc.contracts.limits import AgentLimits, LimitChoice
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import to_json
from mcc.contracts.status import FailureReason
from mcc.documents.state import DocumentState

SKIPPED = "nodes_skipped"


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes that a generation is about. `named` None: all. Otherwise the named nodes, and descendants that they get
    during the generation; not `before`, the descendants that existed at its start."""

    named: frozenset[str] | None = None
    before: frozenset[str] = frozenset()

    @classmethod
    def of(cls, state: DocumentState, asked: Generation) -> "Selection":
        """The selection for these paths in the present state. Raises `UnknownNode`."""
        if not asked.nodes:
            return cls()
        named = [state.find(path) for path in asked.nodes]
        below = {one.id for node in named for one in state.walk(node)}
        ids = frozenset(node.id for node in named)
        return cls(ids, frozenset(below) - ids)

    def has(self, state: DocumentState, node_id: str) -> bool:
        if self.named is None:
            return True
        one: str | None = node_id
        while one is not None and one not in self.named:
            one = None if one in self.before else state.nodes[one].parent_id
        return one is not None


@dataclass(frozen=True, slots=True)
class RootRecord:
    """Writes first and last entry of the record, each once, also where several drones work on it in turn."""

    turn: Turn
    documents: DocumentPort
    id: str
    asked: Generation
    brief: str

    @property
    def origin(self) -> Origin:
        return Origin(record_id=self.id, agent=GENERATOR)

    @asynccontextmanager
    async def controlled(self) -> AsyncIterator[AgentControl]:
        """Inside, people can pause and cancel the generation."""
        router = self.turn.router
        with router.entered(self.origin) as control, self.turn.idle.moving(self.id, control.block):
            yield control

    async def begin(self, state: DocumentState) -> Selection:
        """Write the first entry, unless an earlier drone did. Answers the selection made at that time.

        Raises `UnknownNode`.
        """
        begun = self.turn.tree.begun(self.id)
        if begun is not None and begun.started is not None:
            kept = await self.turn.journal.kept(begun.started.setup_digest)
            return _selection(kept) if kept is not None else Selection.of(state, self.asked)
        selection = Selection.of(state, self.asked)
        spec, limits = self.documents.blueprint.spec, self.turn.budget.limits
        setup = await self.turn.journal.keep(self._setup(selection))
        started = AgentStarted(
            title=title_of(self.brief) or state.title or spec.blueprint,
            prompt=self.brief,
            model=None,
            tools=(),
            limits=LimitChoice(requested=AgentLimits(), effective=Share.of(limits, AgentLimits(), 0).as_limits()),
            definition_digest=self.documents.blueprint.digest,
            definition_origin=DefinitionOrigin(scope="order"),
            setup_digest=setup,
        )
        await self.turn.journal.write(self.origin, started)
        return selection

    async def end(self, generated: Generated, skipped: int) -> None:
        """Write the last entry, if there is a first one, and those of interrupted records below it."""
        await self.turn.router.settled()
        if self.is_over or self.turn.tree.begun(self.id) is None:
            return
        halted, facts = generated.halted, []
        if skipped:
            count = "1 node" if skipped == 1 else f"{skipped:,} nodes"
            facts.append(AgentStep(name=SKIPPED, message=f"{count} skipped: nothing to do there"))
        # Agents below are still open: `close` ends them before the root.
        if halted is not None and halted.cuts_off:
            await self.turn.journal.write(self.origin, *facts)
            await self.turn.journal.close(_status(generated), halted.message, self.id)
            return
        finished = AgentFinished(
            status=_status(generated),
            answer=generated.sentence,
            result=generated.result.model_dump(mode="json"),
            error=None if generated.succeeded else generated.why,
            cause=_cause(generated),
            limit=halted.limit if halted else None,
        )
        await self.turn.journal.write(self.origin, *facts, finished)

    def earlier_halt(self) -> GenerationHalt | None:
        """Why the generation was halted by a limit, where the record has ended already."""
        record = self.turn.tree.begun(self.id)
        end = None if record is None else record.finished
        if end is None or end.limit is None:
            return None
        return GenerationHalt(FailureReason.LIMIT_REACHED, end.error or "", limit=end.limit)

    @property
    def is_over(self) -> bool:
        record = self.turn.tree.begun(self.id)
        return record is not None and record.finished is not None

    def _setup(self, selection: Selection) -> str:
        """The set-up in the form of an agent's, without prompt and tools; the gate part keeps the selection."""
        spec = self.documents.blueprint.spec
        kept = {
            "system": "",
            "tools": (),
            "model": {},
            "limits": self.turn.budget.limits,
            "definition": {"name": GENERATOR, "blueprint": spec.blueprint, "digest": self.documents.blueprint.digest},
            "gate": {
                "generation": self.asked,
                "named": None if selection.named is None else sorted(selection.named),
                "before": sorted(selection.before),
            },
            "session": (),
        }
        return to_json(kept).decode()


def _selection(kept: str) -> Selection:
    gate = json.loads(kept)["gate"]
    named = gate["named"]
    return Selection(None if named is None else frozenset(named), frozenset(gate["before"]))


def _status(generated: Generated) -> AgentEnd:
    halted = generated.halted
    if halted is None:
        return RecordStatus.COMPLETED if generated.enough else RecordStatus.FAILED
    if halted.reason is None:
        return RecordStatus.CANCELLED
    return RecordStatus.LIMIT_REACHED if halted.limit else RecordStatus.FAILED


def _cause(generated: Generated) -> str | None:
    if generated.succeeded:
        return None
    halted = generated.halted
    if halted is None:
        return Cause.GATE.value
    if halted.reason is None:
        return Cause.CANCELLED.value
    return Cause.LIMIT.value if halted.limit else None
