"""Function rules of documents that people change: run on the state after the change, before its transaction begins.

A function is the operator's code: it runs in a thread with a time limit, never inside a transaction. A function that
this service does not have is reported as missing and never counts as passed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from mcc.contracts.shape import now
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, DispatchRefused
from mcc.documents.commands import Command, Judge, Judged
from mcc.documents.functions import Functions
from mcc.documents.judging import judge_functions
from mcc.documents.node import Node
from mcc.documents.state import DocumentState
from mcc.store.database.errors import StoreError
from mcc.store.store import Offload, Store

PATIENCE_SECONDS = 3.0
"""How long a change waits for its functions. If they take longer, they are run again after the change."""

THREADS = 4

T = TypeVar("T")

log = logging.getLogger(__name__)


class FunctionRules:
    """Runs function rules. `functions` maps the names that blueprints use to functions."""

    def __init__(self, store: Store, functions: Functions, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.functions = functions
        self._store = store
        self._patience_seconds = patience_seconds
        self._threads = Offload(THREADS, "function-rules")
        self._running: set[asyncio.Future[Any]] = set()

    async def with_verdicts(
        self, document_id: str, commands: Sequence[Command], author: Author
    ) -> tuple[Sequence[Command], bool]:
        """The commands, followed by one with the functions' verdicts on the state that they lead to.

        True when the functions took too long: the commands are then unchanged, and the caller must call `judge_later`.
        Raises `StoreError`.
        """
        judged = await self._within_patience(lambda: self._judged(document_id, commands, author))
        return (commands, True) if judged is None else judged

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which calls functions itself, in one of the threads for functions."""
        return await self._threads(work)

    def judge_later(self, document_id: str, principal: str) -> None:
        """In the background, run the functions that have no verdict on the current document, and store the verdicts."""
        self._keep(asyncio.ensure_future(self._threads(self._judge_all, document_id, principal)))

    async def drain(self) -> None:
        """Wait for all background work."""
        while self._running:
            await asyncio.wait(set(self._running))

    def close(self) -> None:
        for task in self._running:
            task.cancel()
        self._threads.close()

    async def _within_patience(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, or None if it takes too long. It then runs to its end, and its result is dropped."""
        task = asyncio.ensure_future(self._threads(work))
        self._keep(task)
        await asyncio.wait({task}, timeout=self._patience_seconds)
        return task.result() if task.done() else None

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("function rules were not judged: %s", error)

    def _judged(self, document_id: str, commands: Sequence[Command], author: Author) -> tuple[Sequence[Command], bool]:
        blueprint = self._store.documents.blueprint(document_id)
        if not has_functions(blueprint):
            return commands, False
        try:
            before, after = self._store.documents.planned(document_id, commands, author)
        except DispatchRefused:
            # Executing the commands will be refused as well, unless the request was answered before: the repetition
            # gets the same answer again.
            return commands, False
        changed = (node for id, node in after.nodes.items() if node is not before.nodes.get(id))
        verdicts = self._new_verdicts(blueprint, after, changed)
        return ([*commands, Judge(version=after.version, verdicts=verdicts)] if verdicts else commands), False

    def _judge_all(self, document_id: str, principal: str) -> None:
        state = self._store.documents.state(document_id)
        verdicts = self._new_verdicts(self._store.blueprints.get(state.blueprint), state, state.walk())
        if not verdicts:
            return
        author = Author(by="person", at=now(), principal=principal)
        try:
            self._store.documents.dispatch(document_id, [Judge(version=state.version, verdicts=verdicts)], author)
        except (StoreError, DispatchRefused) as error:
            log.warning("what functions say of document %s was not written down: %s", document_id, error)

    def _new_verdicts(
        self, blueprint: Blueprint, state: DocumentState, nodes: Iterable[Node]
    ) -> dict[str, tuple[Judged, ...]]:
        """The functions' verdicts on nodes that lack one, by node id, where a verdict differs from the known one."""
        new: dict[str, tuple[Judged, ...]] = {}
        for node in _unjudged(nodes):
            verdicts = judge_functions(blueprint, state, node.id, self.functions, state.version)
            known = {verdict.rule: (verdict.ok, verdict.message) for verdict in node.verdicts}
            if any(known.get(rule) != (verdict.ok, verdict.message) for rule, verdict in verdicts.items()):
                new[node.id] = tuple(map(Judged.of, verdicts.values()))
        return new


def has_functions(blueprint: Blueprint) -> bool:
    return any(rule.kind == "function" for one in blueprint.components.values() for rule in one.rules)


def _unjudged(nodes: Iterable[Node]) -> Iterator[Node]:
    return (node for node in nodes if any(one.kind == "function" and one.ok is None for one in node.verdicts))
