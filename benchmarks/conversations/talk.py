"""A session that is talked through: a real drone's parts with the shipped master agent, and what its journals say."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from benchmarks.conversations.counted import Counter as BytesRead
from benchmarks.conversations.counted import forwarded, read_from_files
from benchmarks.journal import postgres_url
from drone.agent.ports.model import Model
from drone.agent.ports.prefix import PREFIX_CHANGED
from drone.crew import Crew
from drone.definitions import Definitions
from drone.settings import Settings
from drone.worker.sessions.idle import IdleCompaction
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import WorkOrder
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.transcript.opening import PUT_AWAY
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel

LEASE_SECONDS = 3_600
FILE = "README.md"
"""The one file of the workspace, which some turns read."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a talk is held: an empty database, a workspace, and the count of bytes read from the database."""

    store: Store
    folder: Path
    bytes_read: BytesRead


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn showed and cost."""

    shown_tokens: int
    shortened: bool
    cpu_ms: float
    bytes_read: int


@dataclass(slots=True)
class Journaled:
    """What the journals of a session's turns say. `moments`: compactions by when they were made (`opening`:
    before the first request of a turn, lines alone), `told`: entries that
    say why a request does not begin with the one before, `same` of `before` bytes: those of a request that the next
    one repeats, where nothing was shortened between them."""

    moments: Counter[str] = field(default_factory=Counter)
    same: int = 0
    before: int = 0
    told: int = 0
    _last: int | None = None

    def add(self, store: Store, order_id: str) -> tuple[int, bool]:
        """Read a turn's journal; the tokens that it was shown, and whether anything was shortened in it."""
        tokens, shortened = 0, False
        for entry in store.journal.read(order_id):
            fact = entry.data
            match fact:
                case TranscriptCompacted(reason=reason):
                    self.moments[reason] += 1
                    shortened, self._last = True, None
                case AgentStep(name=name):
                    self.told += name == PREFIX_CHANGED
                    if name == PUT_AWAY:
                        self.moments["opening"] += 1
                        shortened, self._last = True, None
                case AgentStarted() if entry.parent_id is None and fact.session is not None:
                    tokens = fact.session.tokens
                case ModelReplied(prefix=prefix) if entry.parent_id is None and prefix is not None:
                    if self._last is not None:
                        self.same, self.before = self.same + prefix.same_bytes, self.before + self._last
                    self._last = prefix.bytes
                case _:
                    pass
        return tokens, shortened


class Talk(Bench):
    """Use inside `async with`. `journaled`: of all turns so far."""

    def __init__(self, place: Place, model: Model) -> None:
        settings = Settings(workspace_roots=(place.folder,))
        models: Any = OneModel(model)
        crew = Crew(settings, Definitions.load(settings.prompts_dir), models)
        super().__init__(place.store, crew=crew, idle=IdleCompaction(settings.compaction, models))
        self._place = place
        self.journaled = Journaled()

    async def say(self, prompt: str, session_id: str | None) -> tuple[WorkOrder, Turn]:
        """One turn, as it ended, and what it cost. Raises `RuntimeError` for one that did not succeed."""
        placed = self.place(prompt, session_id=session_id, workspace=str(self._place.folder))
        read, began = self._place.bytes_read(), time.process_time()
        order = await self.work(placed)
        cost = 1000 * (time.process_time() - began), self._place.bytes_read() - read
        tokens, shortened = self.journaled.add(self.store, order.id)
        return order, Turn(tokens, shortened, *cost)

    async def work(self, placed: WorkOrder) -> WorkOrder:
        """Do an order to its end. Raises `RuntimeError` where it does not succeed."""
        self.store.leases.renew(self.trust.incarnation or "", lease_seconds=LEASE_SECONDS, active=0)
        ran = await self.runner.work(placed.id)
        order = self.store.orders.get(placed.id)
        if ran is None or order.answer is None:
            raise RuntimeError(f"an order of the benchmark is {order.status.value}: {order.detail}")
        return order


@contextmanager
def place_on(database: str) -> Iterator[Place]:
    """An empty place on `sqlite` or `postgresql`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="mcc-")))
        url, bytes_read = f"sqlite:///{folder / 'mcc.db'}", read_from_files
        if database == "postgresql":
            url, bytes_read = stack.enter_context(forwarded(stack.enter_context(postgres_url())))
        upgrade(url)
        work = folder / "work"
        work.mkdir()
        (work / FILE).write_text("# A garden\n" + "Roses and tulips.\n" * 40)
        store = open_store(url)
        if database == "sqlite":
            sa.event.listen(store.database.engine, "connect", _without_cache)
        stack.callback(store.close)
        yield Place(store, work, bytes_read)


def _without_cache(connection: Any, _: object) -> None:
    """Let every page that is read come from the file."""
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA mmap_size = 0")


def disk_bytes(store: Store) -> int:
    """The size of the database."""
    is_sqlite = store.database.dialect == "sqlite"
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    query = sa.text(pages if is_sqlite else "SELECT pg_database_size(current_database())")
    return int(store.database.read(lambda connection: connection.execute(query).scalar_one()))
