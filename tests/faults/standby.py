"""Two PostgreSQL servers, of which one follows the other, behind one address that leads to one of them at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.faults.members import until
from tests.faults.postgres import INITDB, NoPostgres, Postgres, folder_of_a_server, server_in
from tests.faults.services import Background
from tests.faults.tcp import Proxy

REPLICATED = {"wal_level": "replica", "max_wal_senders": "4", "wal_keep_size": "64MB", "hot_standby": "on"}
STREAMING_SECONDS = 20.0


@dataclass(slots=True)
class Pair:
    """`url`: the one address, which `relay` leads on. `wire`: by which the standby follows. A fail-over exchanges
    `primary` and `standby`."""

    primary: Postgres
    standby: Postgres
    relay: Proxy
    wire: Proxy
    url: str

    def lead_to(self, server: Postgres) -> None:
        """Lead new connections to this server; those that are there stay."""
        self.relay.aim(("127.0.0.1", server.port))

    def fail_over(self) -> None:
        """The primary loses its power, the standby is promoted, and the former primary comes back as its standby, while
        the address still leads there."""
        self.primary.stop()
        self.standby.promote()
        self.primary.follow(self.standby.port)
        self.primary.start()
        self.primary, self.standby = self.standby, self.primary


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    """`synchronous`: a commit waits for the standby. Raises `NoPostgres`."""
    if INITDB is None:
        raise NoPostgres("there is no initdb to make a PostgreSQL with")
    with folder_of_a_server() as one, folder_of_a_server() as other, server_in(one, REPLICATED) as primary:
        standby = Postgres(other, REPLICATED)
        background, wire = Background(), Proxy(("127.0.0.1", primary.port))
        background.run(wire.start())
        standby.follow(wire.port)
        standby.begin()
        try:
            until(lambda: _states(primary) == ["streaming"], STREAMING_SECONDS, "the standby follows")
            if synchronous:
                # After the copy, which keeps no such setting: once promoted, it has no standby to wait for.
                primary.command("ALTER SYSTEM SET synchronous_standby_names = '*'")
                primary.command("SELECT pg_reload_conf()")
            relay = Proxy(("127.0.0.1", primary.port))
            background.run(relay.start())
            yield Pair(primary, standby, relay, wire, f"postgresql://postgres@127.0.0.1:{relay.port}/postgres")
            background.run(relay.stop())
        finally:
            background.run(wire.stop())
            background.close()
            standby.stop()


def _states(primary: Postgres) -> list[str]:
    return [str(row[0]) for row in primary.command("SELECT state FROM pg_stat_replication")]
