"""An order on a git address, carried out by a drone whose crew writes a file, and delivered to a forge on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import Journal
from drone.checkpoints.directory import CheckpointDirectory
from drone.delivery.deliveries import Deliveries, ForgeErrors
from drone.order_context import OrderContext
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.places.paths import Roots
from drone.settings import Settings
from drone.tools.git.program import Git
from drone.worker.executions import Stop
from drone.worker.site import Site as DroneSite
from drone.worker.workspaces import Workspaces
from mcc.addresses import AddressRule, Endpoint
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.store.store import Store
from tests.drone.checkouts.drone_site import Site, site
from tests.drone.checkouts.git_server import HOST
from tests.drone.delivery.forge import TOKEN, FakeForge
from tests.drone.tools.git_scene import Scene
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import FakeCrew, started


async def nowhere(host: str) -> tuple[str, ...]:
    return ()


class WritingCrew(FakeCrew):
    """Writes the prompt into the file `work.txt`; one that begins with `look` writes nothing."""

    accepted: bool | None = True

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        assert context.router is not None and context.workspace is not None
        journal: Journal = context.journal
        origin, tree = Origin(record_id=root_record_id(order.id), agent=order.agent), context.router.tree
        answer = f"I did it.\n/merge\n<!-- mcc-end -->\n{TOKEN[:1]}"
        if tree.root is None:
            await journal.write(origin, started(order.prompt))
            if not order.prompt.startswith("look"):
                (context.workspace.root / "work.txt").write_text(order.prompt)
            await journal.write(origin, AgentFinished(status=RecordStatus.COMPLETED, answer=answer))
        return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=answer, result={"n": 1}, accepted=self.accepted)


@dataclass
class Counted:
    failed: list[tuple[str, int]]

    def forge_failed(self, forge: str, status: int) -> None:
        self.failed.append((forge, status))


@dataclass
class Scenario:
    bench: Bench
    crew: WritingCrew
    site: Site
    served: Scene
    forge: FakeForge
    failed: list[tuple[str, int]]
    """What the metrics were told of the forge."""

    def place(self, prompt: str = "Mend it", deliver: dict[str, object] | None = None, **fields: Any) -> WorkOrder:
        wish = {"pull_request": True} if deliver is None else deliver
        given = {"permission": {"deliver": "allow"}, "workspace": self.site.served.address(), "deliver": wish}
        return self.bench.place(prompt, **{**given, **fields})

    async def worked(self, order: WorkOrder) -> WorkOrder:
        await self.bench.runner.work(order.id)
        return self.bench.store.orders.get(order.id)

    async def delivered(self, prompt: str = "Mend it", **fields: Any) -> WorkOrder:
        return await self.worked(self.place(prompt, **fields))

    def journal(self, order: WorkOrder) -> list[Entry]:
        return self.bench.journal(order.id)

    def branch_of(self, order: WorkOrder) -> str:
        return f"mcc/{order.session_id[-8:]}"

    def on_remote(self, branch: str) -> str:
        listed = self.served.git("for-each-ref", "--format=%(refname) %(objectname)", f"refs/heads/{branch}")
        return dict(line.split(" ") for line in listed.splitlines()).get(f"refs/heads/{branch}", "")

    def halt_at(self, order: WorkOrder, number: int, *, forge: bool) -> None:
        """Have the drone lose the order when the forge, or else the git server, is asked for the `number`th time."""
        loop, begun = asyncio.get_running_loop(), len(self.forge.asked if forge else self.site.served.asked)

        def halt() -> None:
            if (execution := self.bench.executions.get(order.id)) is not None:
                execution.halt(Stop.HAND_BACK)

        def hear(count: int) -> None:
            if count - begun == number:
                loop.call_soon_threadsafe(halt)

        if forge:
            self.forge.hear = hear
        else:
            self.site.served.hear = hear

    def hand_back(self) -> bool:
        """Give back what was halted; whether there was anything."""
        claims = self.bench.executions.to_hand_back()
        held = [(claim.order.id, claim.epoch) for claim in claims]
        self.bench.executions.handed_back(claims)
        return bool(held) and bool(self.bench.store.claims.hand_back(held, drone="d1", message="the drone stops"))


@asynccontextmanager
async def scenario(
    tmp_path: Path,
    sandbox: Bubblewrap,
    served: Scene,
    forge: FakeForge,
    *,
    store: Store | None = None,
    park_after_seconds: float = 20.0,
    given: Callable[[dict[str, Any]], None] = lambda table: None,
    keys: dict[str, str] | None = None,
) -> AsyncIterator[Scenario]:
    async with site(tmp_path, sandbox, token=TOKEN, given=TOKEN) as here:
        table = {
            "kind": forge.kind,
            "address": f"https://{HOST}:{here.served.port}",
            "api": forge.api,
            "token_env": "HUB_TOKEN",
            "retry_seconds": 0,
        }
        given(table)
        settings = Settings(
            {"HOME": str(tmp_path)},
            data_dir=tmp_path / "drone",
            forges={"hub": table},
            keys={"HUB_TOKEN": TOKEN} if keys is None else keys,
            public_url="https://mcc.example.org",
        )
        rule = AddressRule(nowhere, allow_private=[Endpoint("127.0.0.1", forge.port)])
        checkpoints = CheckpointDirectory.within(tmp_path / "drone")
        errors, failed = ForgeErrors(), list[tuple[str, int]]()
        deliveries = Deliveries(settings, here.checkouts, Git(sandbox), checkpoints, rule, errors)
        crew = WritingCrew()
        errors.metrics = Counted(failed)

        def workspaces(bench: Bench) -> Workspaces:
            place = DroneSite(Roots(()), tmp_path / "run", checkouts=here.checkouts, deliveries=deliveries)
            return Workspaces(bench.async_store, crew, bench.trust, place)

        async with Bench(store, crew=crew, workspaces=workspaces, park_after_seconds=park_after_seconds) as bench:
            yield Scenario(bench, crew, here, served, forge, failed)
