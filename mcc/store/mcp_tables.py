"""The tables of MCP servers: digests of definitions, tokens, and what people want to be tried."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.columns import Row


class PinRow(Row, table=True):
    """A tool of a server: `digest` is that of the definition that counts, None while nobody approved one; `seen` that
    of the last one that a drone saw."""

    __tablename__ = "mcp_pins"

    server: str = Field(primary_key=True)
    tool_json: str = Field(primary_key=True)
    digest: str | None = None
    seen: str
    approved_by: str | None = None
    approved_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    seen_at: int = Field(sa_type=sa.BigInteger)


class TokenRow(Row, table=True):
    """What the drones are let in to a server with. `version` counts its changes; who refreshes it holds it until a
    moment."""

    __tablename__ = "mcp_tokens"

    server: str = Field(primary_key=True)
    token_json: str
    version: int
    held_by: str | None = None
    held_until: int | None = Field(default=None, sa_type=sa.BigInteger)


class TrialRow(Row, table=True):
    """A call that the operator wants a drone to make, once."""

    __tablename__ = "mcp_trials"

    id: str = Field(primary_key=True)
    request_json: str
    requested_at: int = Field(sa_type=sa.BigInteger)
    taken: bool = False


MCP_PINS = Row.metadata.tables["mcp_pins"]
MCP_TOKENS = Row.metadata.tables["mcp_tokens"]
MCP_TRIALS = Row.metadata.tables["mcp_trials"]
