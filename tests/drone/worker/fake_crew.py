"""A crew that does what the prompt says.

`sleep SECONDS`, `break`, `exit` (raises SystemExit), `stubborn SECONDS` (deaf to cancellation), `block SECONDS` (holds
the loop up), `write for ever`; anything else is done at once. `write …` writes in its workspace, once it may.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from drone.agent.ports.journal import Journal, TextDelta
from drone.agent.turns.writing import hold_workspace
from drone.crew import Crew
from drone.definitions import Definitions
from drone.mcp_servers.server_state import OAuthTokenStore, Pins
from drone.mcp_servers.servers import McpServers
from drone.models.guards import ModelSource, NamedModels
from drone.order_context import OrderContext, Seen
from drone.sandbox.custody import Custody
from drone.sandbox.places.paths import Workspace
from drone.threads import Pools
from mcc.configuration.mcp_servers import McpServer
from mcc.configuration.memory import Accepts, MemorySettings
from mcc.contracts.drones import Capability, SandboxState
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.order import OrderOutcome, WorkOrder
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.contracts.turn_context import ContextMode
from mcc.definitions.scopes import UsableAgents
from mcc.documents.functions import Functions
from mcc.redaction import Redactor


def started(prompt: str) -> AgentStarted:
    return AgentStarted(
        title="Turn",
        prompt=prompt,
        model=ModelChoice(requested="fake", effective="fake"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="0",
        setup_digest="0",
    )


class FakeCrew(Crew):
    custody: Custody | None = None
    programs = None
    egress = None
    expire_seconds = 3_600.0
    wait_seconds = 30 * 86_400.0
    context_mode: ContextMode = "full"

    @property
    def accepts(self) -> Accepts:
        return MemorySettings().accepts

    async def sandbox(self) -> SandboxState:
        return SandboxState()

    @property
    def model_source(self) -> ModelSource:
        return NamedModels({})

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.pools = Pools()
        self.functions: Functions = {}
        self.servers = no_servers()

    def share(self, pins: Pins, tokens: OAuthTokenStore) -> None:
        """Ignored: this crew uses no MCP server."""

    def orders_with_worktrees(self) -> list[str]:
        return []

    async def clear_up(self, order_id: str) -> int:
        return 0

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        assert context.router is not None
        journal, origin = context.journal, Origin(record_id=root_record_id(order.id), agent=order.agent)
        if context.router.tree.root is None:
            await journal.write(origin, started(order.prompt))
        journal.delta(origin, TextDelta("model.delta", 1, 1, 0, "work"))
        journal.delta(origin, TextDelta("model.delta", 1, 1, 4, "ing"))
        self.journal = journal
        if order.prompt.startswith("write") and context.access is not None:
            await hold_workspace(context.turn(order, self.pools.of(order.id), Redactor()), "a call", origin)
        self.began.set()
        await self._obey(order.prompt)
        await journal.write(origin, AgentFinished(status=RecordStatus.COMPLETED, answer=f"did {order.prompt}"))
        return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=f"did {order.prompt}")

    async def with_changes(
        self,
        order: WorkOrder,
        workspace: Workspace,
        journal: Journal,
        outcome: OrderOutcome,
        git_facts: Sequence[Fact] = (),
    ) -> OrderOutcome:
        return outcome

    async def _obey(self, prompt: str) -> None:
        word, _, rest = prompt.partition(" ")
        if word == "break":
            raise RuntimeError("the crew is broken")
        if word == "exhaust":
            raise MemoryError
        if word == "exit":
            raise SystemExit(2)
        if rest == "for ever":
            await asyncio.Event().wait()
        if word == "block":
            hold_up(float(rest))
        if word == "sleep":
            await asyncio.sleep(float(rest))
        if word == "stubborn":
            await self._ignoring_cancellation(float(rest))

    async def _ignoring_cancellation(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue

    def agents(self) -> tuple[Capability, ...]:
        return (Capability(name="master"),)

    def tools(self) -> tuple[Capability, ...]:
        return ()

    def models(self) -> tuple[Capability, ...]:
        return (Capability(name="fake"),)

    def seen_in(self, workspace: Workspace) -> Seen:
        return Seen(Definitions(UsableAgents()), None)

    async def close(self) -> None:
        pass


def no_servers() -> McpServers:
    def opening(name: str, config: McpServer, changed: Callable[[], None]) -> NoReturn:
        raise AssertionError("there is no server")

    return McpServers({}, opening)


def hold_up(seconds: float) -> None:
    """What a tool must not do: nothing else runs on the loop meanwhile."""
    threading.Event().wait(seconds)
