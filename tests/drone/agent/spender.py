"""An agent that spends from a budget without a real run; its tree's state holds what it asked, used and was told."""

from drone.agent.spending.allowance import Allowance
from drone.agent.spending.budget import Budget, Reservation, Share
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, BudgetWarned
from mcc.contracts.limits import AgentLimits, LimitChoice
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.record import ModelChoice
from mcc.contracts.usage import Usage


class Spender:
    def __init__(
        self, budget: Budget, depth: int = 0, record_id: str = "", continues: str | None = None, **own: float
    ) -> None:
        self.origin = Origin(
            record_id=record_id or fresh_id(), parent_id="above" if depth else None, agent="spender", depth=depth
        )
        self._budget = budget
        self.state = budget.tree.record(self.origin)
        budget.tree.apply(self.origin, _started(continues, "call" if depth else None))
        share = Share.of(budget.limits, AgentLimits(**own), depth)  # type: ignore[arg-type]
        self.allowance = Allowance(budget, share, self.state)

    async def reserve(self, number: int, characters: int) -> Reservation:
        """Reserve for round `number`, whose request has so many characters."""
        self.state.rounds = number - 1
        self.state.conversation.transcript.characters_before = characters
        return await self.allowance.reserve()

    def settle(self, reservation: Reservation, usage: Usage | None, model: str = "m") -> tuple[BudgetWarned, ...]:
        """End the call; returns the warnings about its price."""
        said: tuple[BudgetWarned, ...] = ()
        if usage is not None:
            number = self.state.rounds + 1
            reply = ModelReplied(round=number, attempt=1, model=model, finish_reason="stop", usage=usage)
            said = self.allowance.unpriced(usage, model)
            self._budget.tree.apply(self.origin, reply, *said)
        self.allowance.settle(reservation)
        return said

    def spend(self, usage: Usage) -> None:
        """Make a whole round with this usage."""
        self._budget.hold(Reservation())
        self.settle(Reservation(), usage)

    def warning(self, number: int) -> BudgetWarned | None:
        """The warning due before round `number`, if any; each is given only once."""
        self.state.rounds = number - 1
        said = self.allowance.warning()
        if said is not None:
            self._budget.tree.apply(self.origin, said)
        return said


def _started(continues: str | None, call_id: str | None) -> AgentStarted:
    return AgentStarted(
        title="",
        call_id=call_id,
        continues=continues,
        prompt="Spend.",
        model=ModelChoice(requested="m", effective="m"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="",
        setup_digest="",
    )
