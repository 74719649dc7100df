"""The deliveries of a drone: finds the forge of an order's git address, and delivers what the order has done."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import httpx

from drone.agent.ports.permits import Permits
from drone.agent.turns.turn import Turn
from drone.checkouts.pushing import BranchPush
from drone.checkouts.sessions import Checkouts, session_digits
from drone.checkpoints.directory import CheckpointDirectory
from drone.delivery.committing import Committing
from drone.delivery.delivering import CannotDeliver, Delivering, DeliveryHands, DeliveryTask
from drone.delivery.delivery_record import DeliveryTarget
from drone.delivery.forges import client_of
from drone.delivery.request_text import RequestSummary
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings
from drone.tools.git.program import Git
from mcc.addresses import AddressRule
from mcc.configuration.forges import forge_of, unknown_forge
from mcc.configuration.workspaces import git_address
from mcc.contracts.entry import Origin
from mcc.contracts.fence import first_lines
from mcc.contracts.git_delivery import DELIVER, Deliver, GitDelivery
from mcc.contracts.ids import delivery_record_id, root_record_id
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.forges.wire import CheckedRoutes

NAMELESS = "Work of an order"
"""The title of work whose prompt has no words."""


class DeliveredWork(NamedTuple):
    """The order whose work is delivered, and its outcome. It is another order than the one that delivers where the
    latter does nothing else."""

    order: WorkOrder
    outcome: OrderOutcome


class CountsForges(Protocol):
    def forge_failed(self, forge: str, status: int) -> None:
        """This forge, by its name, has answered so; 0: it has not answered."""


class ForgeErrors:
    """Where it is counted what forges answer that is no success."""

    metrics: CountsForges | None = None

    def note(self, forge: str, status: int) -> None:
        if self.metrics is not None:
            self.metrics.forge_failed(forge, status)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Delivers for all orders of a drone. `checkouts` None: this drone has no git addresses."""

    settings: Settings
    checkouts: Checkouts | None
    git: Git
    checkpoints: CheckpointDirectory
    rule: AddressRule
    errors: ForgeErrors

    async def delivered(
        self, order: WorkOrder, wish: Deliver, work: DeliveredWork, turn: Turn, workspace: Workspace
    ) -> OrderOutcome:
        """The outcome of the order, with what became of the delivery. Where it is not delivered, the order has failed,
        and keeps its answer and its work. Raises `DeliverLater`, `JournalError`."""
        routes = CheckedRoutes(self.rule, self.settings.egress_proxy)
        try:
            delivery, is_done = await self._deliver(order, wish, work, turn, workspace, routes)
        except CannotDeliver as problem:
            delivery, is_done = GitDelivery(why=str(problem)), False
        finally:
            await routes.aclose()
        outcome = work.outcome
        if order.kind is OrderKind.DELIVER:
            outcome = OrderOutcome(status=OrderStatus.SUCCEEDED, answer=delivery.in_words if is_done else None)
        if is_done:
            return outcome.model_copy(update={"delivery": delivery})
        failed = {"status": OrderStatus.FAILED, "reason": FailureReason.NOT_DELIVERED, "detail": delivery.why}
        return outcome.model_copy(update={"delivery": delivery, **failed})

    async def _deliver(
        self,
        order: WorkOrder,
        wish: Deliver,
        work: DeliveredWork,
        turn: Turn,
        workspace: Workspace,
        routes: httpx.AsyncBaseTransport,
    ) -> tuple[GitDelivery, bool]:
        """Raises `CannotDeliver` where nothing can be begun."""
        if self.checkouts is None or order.workspace is None:
            raise CannotDeliver("This drone has no checkout of a git address from which it could deliver.")
        address = git_address(order.workspace)
        known = forge_of(self.settings.forges, address)
        if known is None:
            raise CannotDeliver(unknown_forge(self.settings.forges, address))
        name, forge, project = known
        token = self.settings.key(forge.token_env)
        if not token:
            raise CannotDeliver(
                f"{forge.token_env}, which has the token of [forges.{name}], is not set on this drone: set it where "
                "the drone starts."
            )
        page = await self.checkouts.page(order.workspace, order.session_id, turn.threads)
        if page is None:
            raise CannotDeliver(f"There is no checkout of {address.text} on this drone.")
        # A checkout of a forge with another prefix keeps its own branch, which is pushed under another name.
        is_fitting = page.branch.startswith(forge.prefix)
        branch = page.branch if is_fitting else f"{forge.prefix}{session_digits(order.session_id)}"
        push = BranchPush(self.checkouts, address, workspace, turn.threads, token)
        commits = Committing(self.git, workspace, self.checkpoints.of(order, workspace))
        client = client_of(forge, project, token, routes, lambda status: self.errors.note(name, status))
        hands = DeliveryHands(client, push, commits)
        target = DeliveryTarget(name, forge, project, branch, page.ref)
        task = DeliveryTask(target, wish, self._said(wish, work), *_records(order))
        on_ask, root = order.on_ask or "deny", str(workspace.root)
        permits = Permits.of_order(self.settings.permission.rules, order.mode, order.permission, on_ask, root)
        return await Delivering(task, hands, turn, permits).run()

    def _said(self, wish: Deliver, work: DeliveredWork) -> RequestSummary:
        order, outcome = work
        public = self.settings.public_url
        subject, quoted = first_lines(order.prompt)
        return RequestSummary(
            session_id=order.session_id,
            title=wish.title or f"{subject} {quoted}".strip() or NAMELESS,
            subject=wish.title or subject or NAMELESS,
            summary=outcome.answer or "",
            files=(),
            verdict="its checks passed" if outcome.accepted else "",
            cost_usd=outcome.usage.cost_usd,
            order_id=order.id,
            link=f"{public}/orders/{order.id}" if public else "",
            closes=wish.close,
        )


def _records(order: WorkOrder) -> tuple[Origin, Origin | None]:
    """The record of an order's delivery, and that of its master."""
    root = root_record_id(order.id)
    if order.kind is OrderKind.DELIVER:
        return Origin(record_id=root, agent=DELIVER), None
    above = Origin(record_id=root, agent=order.agent)
    return Origin(record_id=delivery_record_id(order.id), parent_id=root, agent=DELIVER, depth=1), above
