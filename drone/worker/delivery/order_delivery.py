"""What follows an order's work: its delivery, and the wait for a forge that cannot be asked now."""

from datetime import timedelta

from drone.agent.control.idle_watch import LONGEST_WAIT, Block
from drone.crew import Crew
from drone.delivery.deliveries import DeliveredWork
from drone.delivery.delivering import DeliverLater
from drone.order_context import OrderContext
from drone.worker.claiming import Claiming
from drone.worker.executions import Execution
from drone.worker.loop import AsyncStore
from mcc.contracts.git_delivery import LATER, GitDelivery
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 1_800.0
"""Pauses between the tries of a waiting delivery; each is twice the one before."""


class OrderDelivery:
    """Carries the orders of one drone out, and delivers what they have done."""

    def __init__(self, store: AsyncStore, crew: Crew, claiming: Claiming) -> None:
        self._store = store
        self._crew = crew
        self._deliveries = claiming.deliveries

    async def outcome(self, execution: Execution, context: OrderContext) -> OrderOutcome:
        """Carry the order out, unless it only delivers what another one did, and deliver.

        Parks the execution and raises `DeliverLater` where a forge cannot be asked now. Raises what `Crew.run` does.
        """
        assert execution.held is not None
        order = execution.held[0].order
        worked = None if order.kind is OrderKind.DELIVER else await self._crew.run(order, context)
        return await self._delivered(execution, context, worked)

    async def _delivered(
        self, execution: Execution, context: OrderContext, outcome: OrderOutcome | None
    ) -> OrderOutcome:
        """The outcome, with what became of the `deliver` of an order whose result was accepted."""
        assert execution.held is not None
        claim, _ = execution.held
        order, wish = claim.order, claim.order.deliver
        is_accepted = outcome is None or (outcome.status is OrderStatus.SUCCEEDED and outcome.accepted is not False)
        if wish is None or not is_accepted:
            return outcome or OrderOutcome(status=OrderStatus.SUCCEEDED)
        redactor = execution.redactor
        turn = context.turn(order, self._crew.pools.of(order.id), redactor)
        work = await self._work(order, outcome)
        if outcome is not None:
            spent = outcome.model_copy(update={"usage": turn.tree.spent})
            work = DeliveredWork(order, spent)
        if self._deliveries is None or execution.directory is None:
            return _undelivered(work.outcome, "This drone has no checkout of a git address from which to deliver.")
        try:
            clean = DeliveredWork(redactor.model(work.order), redactor.model(work.outcome))
            done = await self._deliveries.delivered(order, redactor.model(wish), clean, turn, execution.directory)
        except DeliverLater as later:
            block = _until(later, execution, order)
            if block is None:
                hours = LONGEST_WAIT.total_seconds() / 3_600
                return _undelivered(work.outcome, f"It could not be delivered within {hours:g} hours: {later}")
            execution.wait_for(block)
            # The error ends the turn; as the execution has stopped, `outcome_of` answers None, and the order is parked.
            raise
        return redactor.model(done)

    async def _work(self, order: WorkOrder, outcome: OrderOutcome | None) -> DeliveredWork:
        if outcome is not None or order.origin is None:
            return DeliveredWork(order, outcome or OrderOutcome(status=OrderStatus.SUCCEEDED))
        of = order.origin.order_id
        source = await self._store.patiently(lambda store: store.orders.get(of))
        said = OrderOutcome(
            status=OrderStatus.SUCCEEDED, answer=source.answer, accepted=source.accepted, usage=source.usage
        )
        return DeliveredWork(source, said)


def _undelivered(outcome: OrderOutcome, why: str) -> OrderOutcome:
    failed = {"status": OrderStatus.FAILED, "reason": FailureReason.NOT_DELIVERED, "detail": why}
    return outcome.model_copy(update={**failed, "delivery": GitDelivery(why=why)})


def _until(later: DeliverLater, execution: Execution, order: WorkOrder) -> Block | None:
    """What the order waits for; None once it has waited for as long as it may."""
    assert execution.held is not None
    node = execution.held[1].fold.node(later.record_id)
    steps = () if node is None else node.steps
    tried = [step.at for step in steps if isinstance(step.fact, AgentStep) and step.fact.name == LATER]
    # From the first of them on: what a person took to approve the delivery before is no wait for a forge.
    at = now()
    before, began = len(tried), tried[0] if tried else at
    latest = began + LONGEST_WAIT if order.expires_at is None else min(began + LONGEST_WAIT, order.expires_at)
    if at >= latest:
        return None
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(before - 1, 10), LONGEST_PAUSE_SECONDS)
    until = at + timedelta(seconds=max(pause, later.seconds or 0.0))
    return Block(WaitingReason.DELIVERY, str(later).rstrip("."), until=min(until, latest), tries=before + 1)
