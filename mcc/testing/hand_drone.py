"""A drone driven by hand: the test decides when it registers, claims, writes and finishes."""

from dataclasses import dataclass, field

from mcc.contracts.changes import Changes
from mcc.contracts.drones import Capability, Registration
from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.git_delivery import GitDelivery
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep
from mcc.contracts.limits import LimitChoice
from mcc.contracts.order import OrderOutcome
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.store.rows.values import Batch, Claim, Ending
from mcc.store.store import Store


@dataclass
class HandDrone:
    """A drone that registers itself when constructed. `agents` and `models` are the names of usable ones."""

    store: Store
    name: str = "drone-1"
    agents: tuple[str, ...] = ("master",)
    models: tuple[str, ...] = ("offline",)
    tools: tuple[Capability, ...] = (Capability(name="read_file"),)
    workspace_roots: tuple[str, ...] = ()
    lease_seconds: float = 3_600.0
    incarnation: str = field(default_factory=fresh_id)

    def __post_init__(self) -> None:
        self.store.leases.register(
            Registration(
                incarnation=self.incarnation,
                name=self.name,
                pid=1,
                host="test",
                version="0",
                queues=("default",),
                slots=10,
                agents=tuple(Capability(name=name, description=f"The agent {name}.") for name in self.agents),
                tools=self.tools,
                models=tuple(Capability(name=name) for name in self.models),
                workspace_roots=self.workspace_roots,
            ),
            lease_seconds=self.lease_seconds,
        )

    def claim(self, order_id: str) -> "HeldOrder":
        """Claim a queued order. Raises AssertionError when it cannot be claimed."""
        claim = self.store.claims.claim(order_id, incarnation=self.incarnation, claim_token=fresh_id(), drone=self.name)
        assert claim is not None, f"order {order_id} cannot be claimed"
        return HeldOrder(self.store, claim, claim.last_seq)


@dataclass
class HeldOrder:
    """A claimed order, whose entries are written at the time of the store's clock. `seq` is the number of its last
    journal entry."""

    store: Store
    claim: Claim
    seq: int

    @property
    def id(self) -> str:
        return self.claim.order.id

    @property
    def master(self) -> Origin:
        return Origin(record_id=root_record_id(self.id), agent="master")

    def write(self, *facts: Fact, origin: Origin | None = None) -> int:
        """Commit these facts as the next entries of the master (or of `origin`). Answers the last entry's number."""
        at = self.store.database.clock.now()
        drafts = [Draft(at=at, origin=origin or self.master, data=fact) for fact in facts]
        entries = [draft.numbered(self.id, seq) for seq, draft in enumerate(drafts, start=self.seq + 1)]
        appended = self.store.journal.append([Batch(self.id, self.claim.epoch, self.seq, entries)])
        assert not appended.fenced and not appended.culprits, appended
        self.seq += len(entries)
        return self.seq

    def start(self, prompt: str = "", *, setup: str | None = None) -> int:
        """Write the start of the master. `setup` is its kept set-up, as JSON. Answers the entry's number."""
        return self.write(
            AgentStarted(
                title="master",
                prompt=prompt or self.claim.order.prompt,
                model=ModelChoice(requested="offline", effective="offline"),
                tools=(),
                limits=LimitChoice(),
                definition_digest="",
                setup_digest=self.store.texts.keep(setup, owner=self.id) if setup else "",
            )
        )

    def steps(self, count: int) -> int:
        """Write `count` small entries in one commit. Answers the last entry's number."""
        return self.write(*(AgentStep(name="note", message=f"step {number}") for number in range(count)))

    def finish(self, answer: str = "done", changes: Changes | None = None, delivery: GitDelivery | None = None) -> int:
        """End the master and then the order with success. Answers the final entry's number."""
        self.write(AgentFinished(status=RecordStatus.COMPLETED, answer=answer))
        return self.finish_without_start(answer, changes, delivery)

    def finish_without_start(
        self, answer: str = "done", changes: Changes | None = None, delivery: GitDelivery | None = None
    ) -> int:
        """End the order with success, without ending the master. Answers the final entry's number."""
        fold = Fold.of(self.id, self.store.journal.read(self.id, limit=1_000_000))
        last = OrderFinished(status=OrderStatus.SUCCEEDED, usage=fold.spent)
        self.seq = self.store.claims.finish(
            Ending(
                order_id=self.id,
                epoch=self.claim.epoch,
                last_seq=self.seq,
                control_seq=self.claim.control_seq,
                drafts=[Draft(at=self.store.database.clock.now(), origin=Origin(), data=last)],
                outcome=OrderOutcome(
                    status=OrderStatus.SUCCEEDED, answer=answer, usage=fold.spent, changes=changes, delivery=delivery
                ),
                record=fold.record(),
            )
        )
        return self.seq
