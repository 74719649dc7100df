"""A drone's own access to the database adds to the history of its orders and changes nothing of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from mcc.testing.hand_drone import HandDrone
from tests.conformance.store.course import BLUEPRINT
from tests.journey.conftest import SERVER

ROLES = Path(__file__).parents[2] / "deploy" / "roles.sh"
HARMS = (
    "UPDATE journal SET data_json = '{}'",
    "UPDATE journal SET seq = seq + 100 WHERE seq = 1",
    "UPDATE blobs SET text_json = '\"forged\"'",
    "UPDATE audit SET principal = 'somebody else'",
    "UPDATE blueprints SET text_json = '\"{}\"'",
    "UPDATE document_heads SET brief_json = '\"forged\"'",
    "UPDATE document_nodes SET node_json = '{}' WHERE newest",
    "UPDATE document_history SET set_by = 'person'",
)


@contextmanager
def drones_address() -> Iterator[str]:
    """A database made as deploy/roles.sh and the migrations make it, and the address under which a drone uses it."""
    suffix = uuid4().hex[:12]
    names = {role: f"{role}_{suffix}" for role in ("migrate", "mcc", "drone")}
    script = ROLES.read_text().partition("<<'SQL'\n")[2].partition("\nSQL")[0]
    statements = re.sub(r"\b(migrate|mcc|drone)\b(?!')", lambda found: names[found[1]], script)
    statements = re.sub(r"PASSWORD :'\w+'", "PASSWORD 'not-a-secret'", statements)
    database = sql.Identifier(f"mcc_roles_{suffix}")
    try:
        server = psycopg.connect(SERVER, connect_timeout=3, autocommit=True)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL answers: {str(error).splitlines()[0]}")
    with server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(database))
        base = SERVER.rpartition("/")[0].replace("postgresql://", "").rpartition("@")[2]
        url = f"postgresql://{{}}:not-a-secret@{base}/mcc_roles_{suffix}"
        try:
            with psycopg.connect(SERVER.rpartition("/")[0] + f"/mcc_roles_{suffix}", autocommit=True) as own:
                own.execute(statements.encode())
            upgrade(url.format(names["migrate"]))
            yield url.format(names["drone"])
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
            for name in names.values():
                server.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgresql":
        with drones_address() as address:
            yield address
    else:
        upgrade(f"sqlite:///{tmp_path}/mcc.db")
        yield f"sqlite:///{tmp_path}/mcc.db"


def test_what_was_journaled_cannot_be_rewritten(url: str) -> None:
    store = open_store(url)
    try:
        store.documents.create(BLUEPRINT, by=Actor("ann"), metadata={"topic": "Light"})
        placed = store.orders.place(NewOrder(prompt="p" * 200_000), by=Actor("ann")).order
        drone = HandDrone(store)
        held = drone.claim(placed.id)
        held.start()
        store.audit.note("kind", by=Actor("ann"), order_id=placed.id, detail={})
        before = store.journal.read(placed.id)
        engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        for harm in HARMS:
            with pytest.raises(sa.exc.DBAPIError, match="never changed"), engine.begin() as connection:
                connection.execute(sa.text(harm))
        engine.dispose()
        assert store.journal.read(placed.id) == before
        held.finish()
    finally:
        store.close()


def test_a_drone_deletes_nothing_in_a_database_with_roles() -> None:
    with drones_address() as address, psycopg.connect(address, autocommit=True) as drone:
        for table in (
            "journal",
            "blobs",
            "audit",
            "orders",
            "chat_records",
            "documents",
            "document_nodes",
            "document_history",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                drone.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                drone.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.Identifier(table)))
