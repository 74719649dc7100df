"""Leases of drones: one row per incarnation, timed by the clock of the database (docs/decisions/10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.drones import NOTHING_COUNTED, DrainRequest, Drone, DroneCounters, DroneStatus, Registration
from mcc.contracts.shape import to_json
from mcc.store.database.clock import moment
from mcc.store.database.engine import Database, DatabaseTime
from mcc.store.database.errors import BadEntry, UnknownDrone
from mcc.store.database.tables import DRONES
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import keep_blobs
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import LeaseState
from mcc.store.rows.views import in_time

LIVE, LOST, CUT, LEFT = (state.value for state in (LeaseState.LIVE, LeaseState.LOST, LeaseState.CUT, LeaseState.LEFT))
DRAINED, UNDRAINED = "drone.drained", "drone.undrained"
"""Kinds of the audit notes about drones that were told to take no orders, and to take some again."""

SHOWN_SECONDS = 86_400
SILENT_SECONDS = 600
"""A drone that has been silent for longer is history, which only those see who ask for all."""
"""A drone without a heartbeat for this long is not shown any more."""


def has_lease(time: DatabaseTime, incarnation: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """This incarnation may hold orders now: it is live, and its lease has not run out."""
    holder = sa.select(DRONES.c.incarnation)
    return holder.where(DRONES.c.incarnation == incarnation, DRONES.c.state == LIVE, in_time(time)).exists()


def _until(time: DatabaseTime) -> sa.ColumnElement[int]:
    return time.uptime + sa.bindparam("lease", type_=sa.BigInteger)


@lru_cache(maxsize=8)
def _register(time: DatabaseTime) -> sa.Insert:
    return sa.insert(DRONES).values(
        lease_until=_until(time), boot=time.boot, started_at=time.now, heartbeat_at=time.now
    )


_MINE = sa.update(DRONES).where(DRONES.c.incarnation == sa.bindparam("wanted"), DRONES.c.state == LIVE)
_LEAVE = _MINE.values(state=LEFT)
_TOLD = (
    sa.update(DRONES)
    .where(DRONES.c.name == sa.bindparam("named"), DRONES.c.state == LIVE)
    .values(drain=sa.bindparam("told"))
)
_DESCRIBE = _MINE.values(registration_json=sa.bindparam("said"))


@lru_cache(maxsize=8)
def _renew(time: DatabaseTime) -> sa.UpdateBase:
    renewal = _MINE.values(
        lease_until=_until(time),
        boot=time.boot,
        heartbeat_at=time.now,
        active=sa.bindparam("busy"),
        draining=sa.bindparam("leaving"),
        **{counter: sa.bindparam(f"counted_{counter}") for counter in DroneCounters.model_fields},
    )
    return renewal.returning(DRONES.c.drain)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A renewed lease. `drain`: what an operator told the drone to do, None = to take orders."""

    drain: DrainRequest | None


@lru_cache(maxsize=8)
def _seen(time: DatabaseTime) -> sa.Select[Any]:
    later = DRONES.alias()
    succeeded = sa.select(later.c.incarnation).where(
        later.c.name == DRONES.c.name, later.c.state == LIVE, later.c.started_at > DRONES.c.started_at
    )
    return (
        sa.select(
            DRONES,
            sa.and_(DRONES.c.state == LIVE, in_time(time)).label("up"),
            (DRONES.c.heartbeat_at > time.now - SILENT_SECONDS * 1_000_000).label("lately"),
        )
        .where(
            DRONES.c.state != LEFT,
            DRONES.c.heartbeat_at > time.now - SHOWN_SECONDS * 1_000_000,
            sa.or_(DRONES.c.state == LIVE, ~succeeded.exists()),
        )
        .order_by(DRONES.c.name, DRONES.c.started_at, DRONES.c.incarnation)
    )


class Leases:
    """`database` should have connections of its own, so that a renewal never waits for other queries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answers(self) -> bool:
        """Whether the database answers a new connection, be it with a refusal to write."""
        return self._database.answers()

    def register(self, registration: Registration, *, lease_seconds: float, drain: DrainRequest | None = None) -> None:
        """Add a new incarnation with a lease; `drain`: what the process was told under the one before. Raises
        ValueError when the incarnation exists."""
        row = {
            "incarnation": registration.incarnation,
            "name": registration.name,
            "registration_json": to_json(registration).decode(),
            "state": LIVE,
            "drain": drain,
            "lease": _micros(lease_seconds),
        }
        prompts = {
            offer.agent.prompt_digest for offer in registration.agents if offer.agent and offer.agent.prompt_digest
        }

        def work(connection: Connection) -> None:
            connection.execute(_register(self._database.time), row)
            # The texts are in the database already; the use keeps them for as long as the drone is there.
            keep_blobs(connection, {}, 0, ((digest, registration.incarnation) for digest in prompts))

        try:
            self._database.write(work)
        except BadEntry as error:
            raise ValueError(f"incarnation {registration.incarnation} exists: every start has a new one") from error

    def describe(self, registration: Registration) -> None:
        """Replace what the drone says about itself."""
        row = {"wanted": registration.incarnation, "said": to_json(registration).decode()}
        self._database.write(lambda connection: connection.execute(_DESCRIBE, row), repeatable=True)

    def renew(
        self,
        incarnation: str,
        *,
        lease_seconds: float,
        active: int,
        draining: bool = False,
        counters: DroneCounters = NOTHING_COUNTED,
    ) -> Renewal | None:
        """Renew the lease, and update the drone's figures. None: the incarnation was declared lost, which is final."""
        row = {
            "wanted": incarnation,
            "lease": _micros(lease_seconds),
            "busy": active,
            "leaving": draining,
            **{f"counted_{counter}": number for counter, number in counters},
        }
        renewed = self._database.write(
            lambda connection: connection.execute(_renew(self._database.time), row).all(), repeatable=True
        )
        return Renewal(renewed[0].drain) if renewed else None

    def drain(self, name: str, drain: DrainRequest | None, *, by: Actor) -> None:
        """Tell the live drones of this name to take no orders, or with None to take orders again; they read it with the
        next renewal of their leases. Raises `UnknownDrone`."""
        at = self._database.clock.now()

        def tell(connection: Connection) -> None:
            told = connection.execute(_TOLD, {"named": name, "told": drain}).rowcount if "\0" not in name else 0
            if not told:
                raise UnknownDrone(f"there is no live drone {name[:200]!r}")
            kind = DRAINED if drain is not None else UNDRAINED
            add_note(connection, at, kind, by=by, order_id=None, detail={"drone": name, "drain": drain})

        self._database.write(tell, repeatable=True)

    def leave(self, incarnation: str) -> None:
        """Note that the process shuts down in good order."""
        self._database.write(lambda connection: connection.execute(_LEAVE, {"wanted": incarnation}), repeatable=True)

    def drones(self, *, with_long_silent: bool = False) -> Sequence[Drone]:
        """All drones with a heartbeat within ten minutes (`with_long_silent`: within a day) that have not left.

        A lost one is left out once a later incarnation of the same name is live.
        """
        return [_drone(row) for row in self._rows() if row["lately"] or with_long_silent]

    def registrations(self) -> Sequence[Registration]:
        """The registrations of the drones that are up or draining."""
        return [_registration(row) for row in self._rows() if row["up"]]

    def _rows(self) -> Sequence[sa.RowMapping]:
        return self._database.read(lambda connection: connection.execute(_seen(self._database.time)).mappings().all())


def counters_of(row: sa.RowMapping) -> DroneCounters:
    """The counters in a row of the table `drones`."""
    return DroneCounters.model_validate({counter: row[counter] for counter in DroneCounters.model_fields})


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _registration(row: sa.RowMapping) -> Registration:
    return _read(row["registration_json"])


@lru_cache(maxsize=256)
def _read(registration_json: str) -> Registration:
    """Cached, because a registration names all tools and agents of a drone, is read many times a second, and changes
    only when its drone starts."""
    return Registration.model_validate(parsed(registration_json))


def _drone(row: sa.RowMapping) -> Drone:
    registration = _registration(row)
    up = DroneStatus.DRAINING if row["draining"] or row["drain"] else DroneStatus.UP
    return Drone(
        name=registration.name,
        pid=registration.pid,
        host=registration.host,
        version=registration.version,
        queues=registration.queues,
        slots=registration.slots,
        # The figure of a drone that was lost is that of its last heartbeat; its orders run elsewhere by now.
        active=row["active"] if row["state"] == LIVE else 0,
        **counters_of(row).model_dump(),
        status=up if row["up"] else DroneStatus.SILENT,
        drain=row["drain"],
        sandbox=registration.sandbox,
        started_at=moment(row["started_at"]),
        last_heartbeat_at=moment(row["heartbeat_at"]),
        incarnation=registration.incarnation,
    )
