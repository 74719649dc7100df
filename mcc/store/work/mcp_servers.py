"""MCP servers: approved definitions of their tools, shared access tokens, and test calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.shape import to_json
from mcc.contracts.tool_tests import ToolTest
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import UnknownServerTool
from mcc.store.database.tables import MCP_PINS, MCP_TOKENS, MCP_TRIALS
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.texts import parsed

APPROVED = "tool.approved"
TRIAL_SECONDS = 60
"""A test call that no drone has taken by then is not made any more."""

_OF_SERVER = sa.select(MCP_PINS).where(MCP_PINS.c.server == sa.bindparam("of")).order_by(MCP_PINS.c.tool_json)
_PIN = sa.text(
    "INSERT INTO mcp_pins (server, tool_json, digest, seen, seen_at) VALUES (:server, :tool_json, :digest, :seen, :at)"
    " ON CONFLICT (server, tool_json) DO NOTHING"
)
_SEEN = (
    sa.update(MCP_PINS)
    .where(MCP_PINS.c.server == sa.bindparam("of"), MCP_PINS.c.tool_json == sa.bindparam("tool"))
    .values(seen=sa.bindparam("digest_seen"), seen_at=sa.bindparam("at"))
)
_APPROVE = (
    sa.update(MCP_PINS)
    .where(MCP_PINS.c.server == sa.bindparam("of"), MCP_PINS.c.tool_json == sa.bindparam("tool"))
    .values(digest=MCP_PINS.c.seen, approved_by=sa.bindparam("by"), approved_at=sa.bindparam("at"))
)
_LOGGED_IN = sa.select(MCP_TOKENS.c.server).order_by(MCP_TOKENS.c.server)
_TOKEN = sa.select(MCP_TOKENS).where(MCP_TOKENS.c.server == sa.bindparam("of"))
_PUT = sa.text(
    "INSERT INTO mcp_tokens (server, token_json, version) VALUES (:of, :token, 1)"
    " ON CONFLICT (server) DO UPDATE SET token_json = :token, version = mcp_tokens.version + 1,"
    " held_by = NULL, held_until = NULL"
)
_HOLD = (
    sa.update(MCP_TOKENS)
    .where(
        MCP_TOKENS.c.server == sa.bindparam("of"),
        MCP_TOKENS.c.version == sa.bindparam("known"),
        sa.or_(MCP_TOKENS.c.held_until.is_(None), MCP_TOKENS.c.held_until < sa.bindparam("at")),
    )
    .values(held_by=sa.bindparam("who"), held_until=sa.bindparam("until"))
)
_LET_GO = (
    sa.update(MCP_TOKENS)
    .where(MCP_TOKENS.c.server == sa.bindparam("of"), MCP_TOKENS.c.held_by == sa.bindparam("who"))
    .values(held_by=None, held_until=None)
)
_ADD_TRIAL = sa.insert(MCP_TRIALS)
_TRIAL = sa.select(MCP_TRIALS).where(MCP_TRIALS.c.id == sa.bindparam("wanted"))
_TAKE = (
    sa.update(MCP_TRIALS)
    .where(MCP_TRIALS.c.id == sa.bindparam("wanted"), ~MCP_TRIALS.c.taken)
    .where(MCP_TRIALS.c.requested_at >= sa.bindparam("since"))
    .values(taken=True)
)
_DROP_OLD = sa.delete(MCP_TRIALS).where(MCP_TRIALS.c.requested_at < sa.bindparam("before"))


@dataclass(frozen=True, slots=True)
class KeptToken:
    """An access token for a server, as JSON, and its version number."""

    token: Mapping[str, Any]
    version: int


class McpServerStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def approved(self, server: str) -> Mapping[str, str]:
        """The approved digests, by the server's own tool names."""
        return self._database.read(lambda connection: _approved(connection, server))

    def seen(self, server: str, digests: Mapping[str, str]) -> Mapping[str, str]:
        """Note the definitions that a drone sees; answers the approved digests, as `approved`.

        When a server is seen for the first time, all its definitions are approved.
        """
        rows = {f"{text_json(tool)}": digest for tool, digest in digests.items()}
        known = self._database.read(lambda connection: _seen(connection, server))
        # Nearly always everything is known already, and a read locks nobody out.
        if rows == {tool: known.get(tool) for tool in rows}:
            return self.approved(server)
        at = micros(self._database.clock.now())

        def work(connection: Connection) -> Mapping[str, str]:
            known = _seen(connection, server)
            for tool, digest in rows.items():
                if tool not in known:
                    # A server is trusted as it is first seen; a tool that it adds later waits for a person.
                    first = None if known else digest
                    pin = {"server": server, "tool_json": tool, "digest": first, "seen": digest, "at": at}
                    connection.execute(_PIN, pin)
                elif known[tool] != digest:
                    connection.execute(_SEEN, {"of": server, "tool": tool, "digest_seen": digest, "at": at})
            return _approved(connection, server)

        return self._database.write(work, repeatable=True)

    def approve(self, server: str, tool: str | None, *, by: Actor) -> Sequence[str]:
        """Approve the definitions that were seen last, of one tool or of all; answers the names of the tools whose
        approved definition changed.

        Raises `UnknownServerTool`.
        """
        at = self._database.clock.now()

        def work(connection: Connection) -> Sequence[str]:
            rows = connection.execute(_OF_SERVER, {"of": server}).mappings().all()
            wanted = [row for row in rows if tool is None or text_of(row["tool_json"]) == tool]
            if not wanted:
                raise UnknownServerTool(_unknown(server, tool, has_tools=bool(rows)))
            changed = [row for row in wanted if row["digest"] != row["seen"]]
            for row in changed:
                approval = {"of": server, "tool": row["tool_json"], "by": by.principal, "at": micros(at)}
                connection.execute(_APPROVE, approval)
            names = [text_of(row["tool_json"]) or "" for row in changed]
            if names:
                detail = {"server": server, "tools": {text_of(row["tool_json"]): row["seen"] for row in changed}}
                add_note(connection, at, APPROVED, by=by, order_id=None, detail=detail)
            return names

        return self._database.write(work)

    def token(self, server: str) -> KeptToken | None:
        row = self._database.read(lambda connection: connection.execute(_TOKEN, {"of": server}).mappings().first())
        return None if row is None else KeptToken(parsed(row["token_json"]), row["version"])

    def logged_in(self) -> Sequence[str]:
        """The servers that have a stored token."""
        return self._database.read(lambda connection: connection.scalars(_LOGGED_IN).all())

    def put_token(self, server: str, token: Mapping[str, Any]) -> None:
        """Store a new token for the server, and end the hold of whoever refreshed the old one."""
        row = {"of": server, "token": to_json(token).decode()}
        self._database.write(lambda connection: connection.execute(_PUT, row))

    def hold_token(self, server: str, version: int, who: str, seconds: float) -> bool:
        """Reserve the refresh of this version for `who`, for some seconds; False: another one refreshes or has
        refreshed it."""
        at = micros(self._database.clock.now())
        row = {"of": server, "known": version, "who": who, "at": at, "until": at + round(seconds * 1_000_000)}
        return self._database.write(lambda connection: connection.execute(_HOLD, row).rowcount) == 1

    def release_token(self, server: str, who: str) -> None:
        """End the hold of `who`, if it still has it."""
        row = {"of": server, "who": who}
        self._database.write(lambda connection: connection.execute(_LET_GO, row), repeatable=True)

    def ask(self, test: ToolTest) -> str:
        """Store a test call; answers its id, by which a drone takes it."""
        trial_id, at = fresh_id(), micros(self._database.clock.now())
        row = {"id": trial_id, "request_json": to_json(test).decode(), "requested_at": at, "taken": False}

        def work(connection: Connection) -> None:
            # Removed by whoever adds: tests that no drone took need no housekeeping of their own.
            connection.execute(_DROP_OLD, {"before": at - TRIAL_SECONDS * 1_000_000})
            connection.execute(_ADD_TRIAL, row)

        self._database.write(work)
        return trial_id

    def take(self, trial_id: str) -> ToolTest | None:
        """Take a test call, which only one drone can; None when it was taken, is too old, or does not exist."""
        since = micros(self._database.clock.now()) - TRIAL_SECONDS * 1_000_000
        if not is_identifier(trial_id):
            return None

        def work(connection: Connection) -> ToolTest | None:
            if connection.execute(_TAKE, {"wanted": trial_id, "since": since}).rowcount != 1:
                return None
            row = connection.execute(_TRIAL, {"wanted": trial_id}).mappings().one()
            return ToolTest.model_validate(parsed(row["request_json"]))

        return self._database.write(work)


def _seen(connection: Connection, server: str) -> dict[str, str]:
    return {row["tool_json"]: row["seen"] for row in connection.execute(_OF_SERVER, {"of": server}).mappings()}


def _approved(connection: Connection, server: str) -> dict[str, str]:
    rows = connection.execute(_OF_SERVER, {"of": server}).mappings()
    return {text_of(row["tool_json"]) or "": row["digest"] for row in rows if row["digest"] is not None}


def _unknown(server: str, tool: str | None, *, has_tools: bool) -> str:
    if has_tools:
        return f"the MCP server {server[:80]!r} has no tool {(tool or '')[:80]!r}: mcc tools list names what it has"
    return f"no drone has seen an MCP server {server[:80]!r} yet: mcc tools list says which there are"
