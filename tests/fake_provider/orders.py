"""Orders on this repository with fake providers as models, over HTTP on the loopback."""

import tomllib
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drone.access import toolbox_of
from drone.agent.ports.journal import MemoryJournal
from drone.agent.state.tree import Tree
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.registry import Models
from drone.order_context import OrderContext
from drone.settings import ModelConfig, Settings
from drone.tools.catalog import Toolbox
from drone.tools.frame.own import NO_OWN
from mcc.contracts.entry import Entry
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import now
from mcc.contracts.status import OrderStatus
from tests.fake_provider.server import KEY, FakeProvider, configuration, served

REPOSITORY = Path(__file__).parents[2]
PROMPTS = REPOSITORY / "prompts"


@cache
def _toolbox() -> Toolbox:
    """What this machine has does not change between orders; to look for it and try it starts five programs."""
    return toolbox_of(Settings(prompts_dir=PROMPTS), NO_OWN)


@cache
def _definitions() -> Definitions:
    return Definitions.load(PROMPTS)


@dataclass(frozen=True)
class Ended:
    status: OrderStatus
    record: ChatRecord
    journal: MemoryJournal


class Orders:
    """The drone's side: models `fake0`, `fake1` … in the order of the providers; each falls back to the next ones."""

    def __init__(self, models: dict[str, ModelConfig]) -> None:
        roots = (REPOSITORY,)
        self._settings = Settings(models=models, workspace_roots=roots, prompts_dir=PROMPTS, keys={KEY: "sk-fake-0123"})
        self.models = Models(self._settings)
        self._definitions = _definitions()

    async def run(self, order: WorkOrder, entries: Iterable[Entry] = (), texts: dict[str, str] | None = None) -> Ended:
        """The order from its beginning, or from where `entries` end."""
        kept = list(entries)
        journal = MemoryJournal(order.id, entries=kept)
        journal.texts.update(texts or {})
        crew = Crew(self._settings, self._definitions, self.models, _toolbox())
        outcome = await crew.run(order, OrderContext(journal, tree=Tree.of(kept) if kept else None))
        record = journal.fold.record()
        assert record is not None
        return Ended(outcome.status, record, journal)


@asynccontextmanager
async def orders(*providers: FakeProvider, **model: Any) -> AsyncIterator[Orders]:
    async with AsyncExitStack() as stack:
        tables = {}
        for number, provider in enumerate(providers):
            address = await stack.enter_async_context(served(provider))
            told = tomllib.loads(configuration(provider.behaviour, address))["models"]["fake"]
            after = tuple(f"fake{later}" for later in range(number + 1, len(providers)))
            tables[f"fake{number}"] = ModelConfig(**told, fallback=after, **model)
        desk = Orders(tables)
        stack.push_async_callback(desk.models.aclose)
        yield desk


def order(**told: Any) -> WorkOrder:
    new = NewOrder(prompt="Look around.", workspace=str(REPOSITORY), model="fake0", **told)
    kept = {"id": fresh_id(), "session_id": fresh_id(), "session_seq": 1, "status": "running", "created_at": now()}
    return WorkOrder.model_validate({**new.model_dump(exclude={"session_id"}), **kept})
