"""Tables of people, and of the tokens by which they and other programs call."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row, partial_index


class PersonRow(Row, table=True):
    """Somebody who signs in. `removed_at`: since then name and e-mail are blank, and the id is all that is left.

    `issuer`, `subject`: the provider that vouches for the person, and what it calls them; None: signs in by links.
    """

    __tablename__ = "people"
    __table_args__ = (
        partial_index("person_of_provider", "issuer", "subject", where="issuer IS NOT NULL", unique=True),
    )

    id: str = Field(primary_key=True)
    name_json: str
    email_json: str | None = None
    role: str
    disabled_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    removed_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    created_at: int = Field(sa_type=sa.BigInteger)
    last_seen_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    issuer: str | None = None
    subject: str | None = None
    budget_json: str | None = None


class ApiTokenRow(Row, table=True):
    """A token. `digest`: its SHA-256 in hexadecimal. `role`: of a service token; that of a personal one is its
    person's. `scopes`: with blanks between them."""

    __tablename__ = "api_tokens"
    __table_args__ = (
        sa.Index("tokens_by_digest", "digest", unique=True),
        sa.Index("tokens_of_principal", "principal", "id"),
    )

    id: str = Field(primary_key=True)
    digest: str
    kind: str
    principal: str
    name_json: str
    role: str | None = None
    scopes: str
    prefix: str
    created_at: int = Field(sa_type=sa.BigInteger)
    created_by: str
    expires_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    last_used_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    revoked_at: int | None = Field(default=None, sa_type=sa.BigInteger)
    budget_json: str | None = None


PEOPLE, API_TOKENS = (Row.metadata.tables[name] for name in ("people", "api_tokens"))
