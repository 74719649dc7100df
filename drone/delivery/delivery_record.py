"""The record of a delivery: the entries of its steps, by which a drone that takes it over knows what was begun."""

from collections.abc import Mapping
from dataclasses import dataclass

from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.turn import Turn
from mcc.configuration.forges import Forge
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.git_delivery import DELIVER, DeliveryFinished, DeliveryStarted, DeliveryStep, GitDelivery
from mcc.contracts.ids import derived_id
from mcc.contracts.journal import AgentFinished, AgentStarted, Outcome, ToolFinished, ToolStarted
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json


@dataclass(frozen=True, slots=True)
class DeliveryTarget:
    """Where the work goes: a project of the forge `name`. `branch`: the session's; `ref`: what its checkout began
    with, None = the default branch."""

    name: str
    forge: Forge
    project: str
    branch: str
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """The entries of one delivery, in the record `who`."""

    turn: Turn
    who: Origin
    target: DeliveryTarget

    @property
    def id(self) -> str:
        return self.who.record_id or ""

    @property
    def ended(self) -> tuple[GitDelivery, bool] | None:
        """What became of it, and whether it was delivered as wished; None while it goes on."""
        record = self.turn.tree.begun(self.who.record_id)
        if record is None or record.finished is None:
            return None
        return GitDelivery.model_validate(record.finished.result), record.finished.status is RecordStatus.COMPLETED

    @property
    def facts(self) -> list[DeliveryStarted | DeliveryFinished]:
        return [fact for fact in self.turn.tree.git_facts if isinstance(fact, DeliveryStarted | DeliveryFinished)]

    def has_started(self, step: DeliveryStep, commit: str, branch: str) -> bool:
        """Whether this step was begun for this commit and this branch."""
        wanted = (step, commit, branch)
        begun = (fact for fact in self.facts if isinstance(fact, DeliveryStarted))
        return any((fact.step, fact.commit, fact.branch) == wanted for fact in begun)

    def call_id(self, commit: str, branch: str) -> str:
        """The id of the call that permissions are asked for; one that pushes something else has another."""
        return derived_id(self.id, DELIVER, commit, branch)

    async def begin(self) -> None:
        """Write the beginning of the record, unless a drone before this one has."""
        if self.turn.tree.begun(self.who.record_id) is not None:
            return
        setup = {"system": "", "tools": (), "model": {}, "definition": {"name": DELIVER}, "session": ()}
        started = AgentStarted(
            title=f"Deliver to {self.target.project}",
            prompt=f"Bring the work to {self.target.project} at {self.target.name}.",
            model=None,
            tools=(DELIVER,),
            definition_digest="",
            setup_digest=await self.turn.journal.keep(to_json(setup).decode()),
        )
        await self.write(started)

    async def step(
        self,
        step: DeliveryStep,
        delivery: GitDelivery,
        commit: str | None,
        call: StartedCall | None = None,
        approval_id: str | None = None,
    ) -> None:
        """Write that a step begins, and with it the call that was permitted."""
        begun = DeliveryStarted(
            step=step,
            forge=self.target.name,
            project=self.target.project,
            branch=delivery.branch,
            base=delivery.base,
            commit=commit,
        )
        await self.write(*(() if call is None else (_started(call.call_id, call.arguments, approval_id),)), begun)

    async def end(self, delivery: GitDelivery, commit: str, in_words: str, *, is_done: bool) -> None:
        """Write the end of the record, and of what is open in it."""
        facts: list[Fact] = []
        last = next(iter(reversed(self.facts)), None)
        if not is_done and isinstance(last, DeliveryStarted):
            facts.append(DeliveryFinished(step=last.step, ok=False, commit=last.commit, why=in_words))
        if self.has_started("push", commit, delivery.branch):
            outcome = Outcome.OK if is_done else Outcome.ERROR
            call_id = self.call_id(commit, delivery.branch)
            facts.append(
                ToolFinished(call_id=call_id, name=DELIVER, content=in_words, is_error=not is_done, outcome=outcome)
            )
        result = delivery.model_dump(mode="json")
        if is_done:
            facts.append(AgentFinished(status=RecordStatus.COMPLETED, answer=in_words, result=result))
        else:
            facts.append(AgentFinished(status=RecordStatus.FAILED, result=result, error=in_words))
        await self.write(*facts)

    async def write(self, *facts: Fact) -> None:
        await self.turn.journal.write(self.who, *facts)


def _started(call_id: str, arguments: Mapping[str, object], approval_id: str | None) -> ToolStarted:
    return ToolStarted(
        call_id=call_id,
        round=0,
        index=0,
        name=DELIVER,
        arguments=dict(arguments),
        idempotent=True,
        approval_id=approval_id,
    )
