"""States of documents that this process keeps, so that a command does not read all nodes anew."""

from collections import OrderedDict
from threading import Lock

from mcc.documents.state import State

NODES = 50_000
"""So many nodes of all documents are kept, some 5 KB each; the document that was used last in any case."""


class StateCache:
    """States as they were committed, never newer than that. Safe for several threads."""

    def __init__(self, most_nodes: int = NODES) -> None:
        self._most = most_nodes
        self._lock = Lock()
        self._states: OrderedDict[str, State] = OrderedDict()
        self._nodes = 0

    def get(self, document_id: str) -> State | None:
        with self._lock:
            state = self._states.get(document_id)
            if state is not None:
                self._states.move_to_end(document_id)
            return state

    def put(self, state: State) -> None:
        """Keep it, unless a newer one of its document is there already."""
        with self._lock:
            before = self._states.get(state.id)
            if before is not None and before.version > state.version:
                return
            self._drop(state.id)
            self._states[state.id] = state
            self._nodes += len(state.nodes)
            while self._nodes > self._most and len(self._states) > 1:
                self._drop(next(iter(self._states)))

    def drop(self, document_id: str) -> None:
        with self._lock:
            self._drop(document_id)

    def _drop(self, document_id: str) -> None:
        if (gone := self._states.pop(document_id, None)) is not None:
            self._nodes -= len(gone.nodes)
