"""Tables of the files that people give to orders."""

import sqlalchemy as sa
from sqlmodel import Field

from mcc.store.database.columns import Row


class ArtifactRow(Row, table=True):
    """A file. `digest` is empty until all its bytes have arrived; `bytes` counts those that have."""

    __tablename__ = "artifacts"
    __table_args__ = (
        sa.Index("artifacts_of_principal", "principal", "created_at"),
        sa.Index("artifacts_by_age", "created_at"),
    )

    id: str = Field(primary_key=True)
    principal: str
    name_json: str
    media_type: str = ""
    digest: str = ""
    bytes: int = Field(default=0, sa_type=sa.BigInteger)
    width: int | None = None
    height: int | None = None
    created_at: int = Field(sa_type=sa.BigInteger)


class ArtifactChunkRow(Row, table=True):
    __tablename__ = "artifact_chunks"

    artifact_id: str = Field(primary_key=True, foreign_key="artifacts.id", ondelete="CASCADE")
    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    data: bytes


class ArtifactUseRow(Row, table=True):
    """The orders that a file was given to; while one of them has its journal, retention keeps the file."""

    __tablename__ = "artifact_uses"
    __table_args__ = (sa.Index("artifacts_of_order", "order_id"),)

    artifact_id: str = Field(primary_key=True, foreign_key="artifacts.id", ondelete="CASCADE")
    order_id: str = Field(primary_key=True, foreign_key="orders.id")


ARTIFACTS, ARTIFACT_CHUNKS, ARTIFACT_USES = (
    Row.metadata.tables[name] for name in ("artifacts", "artifact_chunks", "artifact_uses")
)
