"""The document that an order generates or talks about, as its drone reads and changes it in the store."""

from collections.abc import Sequence

from drone.generation.port import DocumentLost
from drone.worker.journal import OrderJournal
from drone.worker.loop import AsyncStore
from mcc.contracts.entry import Origin
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change
from mcc.documents.commands import Command
from mcc.documents.functions import Functions
from mcc.documents.state import State
from mcc.store.agent_changes import AgentCommands
from mcc.store.errors import UnknownDocument


class OrderDocuments:
    """A document under the epoch of one order, whose journal tells of what its agents change; a
    `drone.generation.port.Documents`. Make it with `opened`.
    """

    def __init__(
        self, store: AsyncStore, journal: OrderJournal, document_id: str, blueprint: Blueprint, functions: Functions
    ) -> None:
        self._store = store
        self._journal = journal
        self._blueprint = blueprint
        self._id = document_id
        self.functions = functions

    @classmethod
    async def opened(
        cls, store: AsyncStore, journal: OrderJournal, document_id: str, functions: Functions
    ) -> "OrderDocuments":
        """Raises `DocumentLost`, `Fenced`."""
        journal.check_open()
        try:
            blueprint = await store.patiently(lambda store: store.documents.blueprint(document_id))
            await store.patiently(lambda store: store.documents.warm(document_id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        return cls(store, journal, document_id, blueprint, functions)

    @property
    def id(self) -> str:
        return self._id

    @property
    def blueprint(self) -> Blueprint:
        return self._blueprint

    async def state(self) -> State:
        """As it is committed now. Raises `DocumentLost`, `Fenced`."""
        self._journal.check_open()
        try:
            state = await self._store.patiently(lambda store: store.documents.state(self._id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        return self._as_opened(state)

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        """What the port promises; the change and its entries are one transaction, fenced by the order's row."""
        try:
            done = await self._journal.change(AgentCommands(self._id, commands, author, origin, command_id))
        except UnknownDocument as problem:
            raise DocumentLost(str(problem)) from problem
        self._as_opened(done.change.state)
        return done.change

    def _as_opened(self, state: State) -> State:
        if state.blueprint != self._blueprint.digest:
            raise DocumentLost(f"the document {self._id} has another blueprint by now: {state.blueprint}")
        return state
