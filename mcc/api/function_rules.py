"""Function rules of documents that people change: asked of what the change comes to, before its transaction begins.

A function is somebody's code: it runs in a thread with a time limit, and never in a transaction. A function that this
service lacks is told as missing, and never counts as a pass.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from mcc.contracts.shape import now
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Refused
from mcc.documents.commands import Command, Judge, Judged
from mcc.documents.functions import Functions
from mcc.documents.judging import judge_functions
from mcc.documents.node import Node
from mcc.documents.state import State
from mcc.store.errors import StoreError
from mcc.store.store import Offload, Store

PATIENCE_SECONDS = 3.0
"""A change waits for its functions so long; those that take longer are heard after it."""

THREADS = 4

T = TypeVar("T")

log = logging.getLogger(__name__)


class FunctionRules:
    """`functions` by the names that blueprints know them by."""

    def __init__(self, store: Store, functions: Functions, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.functions = functions
        self._store = store
        self._patience_seconds = patience_seconds
        self._threads = Offload(THREADS, "function-rules")
        self._asking: set[asyncio.Future[Any]] = set()

    async def with_verdicts(
        self, document_id: str, commands: Sequence[Command], author: Author
    ) -> tuple[Sequence[Command], bool]:
        """The commands with what functions say of what they come to, and whether that is left to be asked, because they
        take too long. Raises `StoreError`."""
        asked = await self._within(lambda: self._judged(document_id, commands, author))
        return (commands, True) if asked is None else asked

    async def run(self, work: Callable[[], T]) -> T:
        """Work that asks functions itself, in a thread of theirs."""
        return await self._threads(work)

    def ask_later(self, document_id: str, principal: str) -> None:
        """Ask what nobody has judged of the document as it is, and write it down."""
        self._keep(asyncio.ensure_future(self._threads(self._judge_all, document_id, principal)))

    async def settled(self) -> None:
        """Return when all has been asked that was to be asked later."""
        while self._asking:
            await asyncio.wait(set(self._asking))

    def close(self) -> None:
        for task in self._asking:
            task.cancel()
        self._threads.close()

    async def _within(self, work: Callable[[], T]) -> T | None:
        """None where it takes too long; it goes on then, and nobody hears of it."""
        task = asyncio.ensure_future(self._threads(work))
        self._keep(task)
        await asyncio.wait({task}, timeout=self._patience_seconds)
        return task.result() if task.done() else None

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        self._asking.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Future[Any]") -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("function rules were not judged: %s", error)

    def _judged(self, document_id: str, commands: Sequence[Command], author: Author) -> tuple[Sequence[Command], bool]:
        """Blocks as long as the functions do."""
        blueprint = self._store.documents.blueprint(document_id)
        if not has_functions(blueprint):
            return commands, False
        try:
            before, after = self._store.documents.planned(document_id, commands, author)
        except Refused:
            # Whoever does them refuses too, but for a request that was answered before: it is answered again.
            return commands, False
        changed = (node for id, node in after.nodes.items() if node is not before.nodes.get(id))
        verdicts = self._ask(blueprint, after, changed)
        return ([*commands, Judge(version=after.version, verdicts=verdicts)] if verdicts else commands), False

    def _judge_all(self, document_id: str, principal: str) -> None:
        state = self._store.documents.state(document_id)
        verdicts = self._ask(self._store.blueprints.get(state.blueprint), state, state.walk())
        if not verdicts:
            return
        author = Author(by="person", at=now(), principal=principal)
        try:
            self._store.documents.dispatch(document_id, [Judge(version=state.version, verdicts=verdicts)], author)
        except (StoreError, Refused) as error:
            log.warning("what functions say of document %s was not written down: %s", document_id, error)

    def _ask(self, blueprint: Blueprint, state: State, nodes: Iterable[Node]) -> dict[str, tuple[Judged, ...]]:
        """What functions say of those of these nodes that they have not judged, where that is something new."""
        said: dict[str, tuple[Judged, ...]] = {}
        for node in _unjudged(nodes):
            found = judge_functions(blueprint, state, node.id, self.functions, state.version)
            known = {one.rule: (one.ok, one.message) for one in node.verdicts}
            if any(known.get(rule) != (one.ok, one.message) for rule, one in found.items()):
                said[node.id] = tuple(Judged(rule=rule, ok=one.ok, message=one.message) for rule, one in found.items())
        return said


def has_functions(blueprint: Blueprint) -> bool:
    return any(rule.kind == "function" for one in blueprint.components.values() for rule in one.rules)


def _unjudged(nodes: Iterable[Node]) -> Iterator[Node]:
    return (node for node in nodes if any(one.kind == "function" and one.ok is None for one in node.verdicts))
