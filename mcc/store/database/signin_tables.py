"""Tables of who is signed in, of secrets that count once, and of what the page remembers of a principal."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row


class SigninRow(Row, table=True):
    """A browser that is signed in. `digest`: SHA-256 of its cookie, in hexadecimal. `sid`: its session at a provider of
    identities. `agent_json`: what the browser calls itself, as JSON text."""

    __tablename__ = "signins"
    __table_args__ = (
        sa.Index("signins_by_digest", "digest", unique=True),
        sa.Index("signins_of_principal", "principal", "created_at"),
        sa.Index("signins_by_end", "expires_at"),
    )

    id: str = Field(primary_key=True)
    digest: str
    principal: str
    sid: str | None = None
    created_at: int = Field(sa_type=sa.BigInteger)
    expires_at: int = Field(sa_type=sa.BigInteger)
    last_seen_at: int = Field(sa_type=sa.BigInteger)
    agent_json: str


class OneTimeRow(Row, table=True):
    """A secret that counts once, by its SHA-256 in hexadecimal: whoever deletes the row has used it."""

    __tablename__ = "one_time"
    __table_args__ = (sa.Index("one_time_by_end", "expires_at"),)

    digest: str = Field(primary_key=True)
    kind: str
    data_json: str
    expires_at: int = Field(sa_type=sa.BigInteger)


class PreferencesRow(Row, table=True):
    __tablename__ = "preferences"

    principal: str = Field(primary_key=True)
    preferences_json: str


SIGNINS, ONE_TIME, PREFERENCES = (Row.metadata.tables[name] for name in ("signins", "one_time", "preferences"))
