"""Calls about sessions for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.requests import session_calls as calls
from mcc.client.sync_connection import Connection

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.history import HistoryFound
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.sessions import Session, SessionWithTurns, TurnUsage


class Sessions:
    """Conversations, whose turns are orders."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(self, title: str = "", **fields: Any) -> "Session":
        """Open a session. `fields`: agent, model, mode, workspace and limits, which its chat turns get where their
        orders leave them out; context."""
        return self._connection.send(calls.open_session(title, fields))

    def get(self, session_id: str, *, before: int | None = None, limit: int = 50) -> "SessionWithTurns":
        """A session with its newest turns, newest first: the `limit` before turn `before`. Where the answer has a
        `next_before`, there are earlier ones."""
        return self._connection.send(calls.get_session(session_id, before=before, limit=limit))

    def list(
        self,
        *,
        archived: bool | None = None,
        text: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[Session]":
        """One page, newest first, of those that are not archived; with `archived` of those that are. `text`: in the
        title. `part`: those whose id begins or ends so, by at least four characters, archived or not."""
        filters = {"text": text, "part": part, "cursor": cursor, "limit": limit}
        return self._connection.send(calls.list_sessions(archived, **filters))

    def set(self, session_id: str, **fields: Any) -> "Session":
        """Change title, archived, agent, model, mode, workspace, context, limits; None unsets one. Raises `Conflict`
        for another context of a session that has turns."""
        return self._connection.send(calls.change_session(session_id, fields))

    def rename(self, session_id: str, title: str) -> "Session":
        return self.set(session_id, title=title)

    def archive(self, session_id: str) -> "Session":
        """Leave it out of lists; everything in it stays."""
        return self.set(session_id, archived=True)

    def unarchive(self, session_id: str) -> "Session":
        return self.set(session_id, archived=False)

    def delete(self, session_id: str) -> "OrdersCancelled":
        """Delete a session with all that its turns left; its unfinished orders are cancelled. Never retried. Raises
        `Conflict` for the session of a document."""
        return self._connection.send(calls.delete_session(session_id))

    def fork(self, session_id: str, turn: int, *, title: str | None = None) -> "Session":
        """A new session whose next turn is shown this one's turns up to `turn`. Never retried. Raises `Conflict` while
        that turn has not ended."""
        return self._connection.send(calls.fork_session(session_id, turn, title))

    def compact(self, session_id: str) -> "WorkOrder":
        """Have what later turns are shown shortened by a summary: the order that does so, or one that is under way.
        Raises `Conflict` where no turn has ended since the last one."""
        return self._connection.send(calls.compact_session(session_id))

    def read(self, session_id: str, turn: int) -> None:
        """Mark the turns up to this one as read."""
        self._connection.send(calls.mark_read(session_id, turn))

    def usage(self, session_id: str) -> "Sequence[TurnUsage]":
        """What each turn has used, in their sequence."""
        return self._connection.send(calls.session_usage(session_id))

    def search(
        self, session_id: str, words: str, *, turn: int | None = None, back: int | None = None, limit: int = 10
    ) -> "HistoryFound":
        """What was said in the session's turns, where at least one of these words stands, the best `limit` (at most
        50). `turn`: only in that one, of the session so many forks `back`; None: the fewest."""
        return self._connection.send(calls.search_session(session_id, words, turn=turn, back=back, limit=limit))

    def export(self, session_id: str, format: str = "md") -> Generator[bytes]:
        """The whole session in pieces, oldest turn first: `md`, or `jsonl` with a JSON object a line. Not retried."""
        yield from self._connection.pieces(calls.export_path(session_id), {"format": format})
