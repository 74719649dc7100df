"""Where a drone works: its roots, its checkouts of git addresses, and whether it sees the directory of an order."""

import hashlib
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from pathlib import Path

from drone.access import CHECKOUTS, roots_of
from drone.agent.control.idle_watch import LONGEST_WAIT, Block
from drone.checkouts.mirror import Mirrors
from drone.checkouts.sessions import Checkouts
from drone.crew import Crew
from drone.delivery.deliveries import Deliveries, ForgeErrors
from drone.sandbox.host_lock import Locks, locks_of_this_host
from drone.sandbox.places.paths import PathError, Roots, Workspace, without_links
from drone.sandbox.places.private import Private
from drone.settings import Settings
from mcc.contracts.drones import Registration
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason
from mcc.store.store import Store

FETCH_AGAIN = timedelta(minutes=2)
"""Pause before an address is fetched again, after several failed tries in a row."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a drone works: in directories under its `roots` on this `host`, and in `checkouts` of git addresses.

    `directory` holds this drone's own records on this machine, `locks` those that it shares with other drones.
    """

    roots: Roots
    directory: Path
    host: str = field(default_factory=socket.gethostname)
    checkouts: Checkouts | None = None
    deliveries: Deliveries | None = None
    forge_errors: ForgeErrors = field(default_factory=ForgeErrors)
    locks: Locks | None = None


def site_of(settings: Settings, crew: Crew) -> Site:
    run = settings.data_dir / "run"
    locks = Locks(locks_of_this_host(run / "workspaces"), _digest_of(settings.database_url))
    roots = roots_of(settings)
    checkouts = _checkouts_of(settings, crew, roots.private)
    errors = ForgeErrors()
    deliveries = None if checkouts is None else crew.deliveries(checkouts, errors)
    return Site(roots, run, checkouts=checkouts, deliveries=deliveries, forge_errors=errors, locks=locks)


def _digest_of(database_url: str) -> str:
    """Identifies a database, whichever user and password an address names."""
    return hashlib.sha256(database_url.rpartition("@")[2].encode()).hexdigest()[:40]


def _checkouts_of(settings: Settings, crew: Crew, private: Private) -> Checkouts | None:
    """None where this machine lacks git or a sandbox for it, or the operator allows no address."""
    if crew.programs is None or crew.egress is None or not settings.workspaces.git:
        return None
    home = settings.data_dir / CHECKOUTS
    # A table of the operator's names these hosts, so they may have private addresses.
    hosts = [str(endpoint) for forge in settings.forges.values() for endpoint in forge.endpoints]
    mirrors = Mirrors(crew.programs, home / "mirrors", partial(crew.egress.network_to, private=hosts))
    return Checkouts(mirrors, settings.workspaces, home, settings.key, private)


def live_incarnations(store: Store) -> set[str]:
    """The incarnations of all live drones. Blocks."""
    return {one.incarnation for one in store.leases.registrations()}


def fetch_again(order: WorkOrder, problem: str) -> Block | None:
    """What an order waits for when its address cannot be fetched now; None once it has waited long enough."""
    at, began = now(), order.started_at or order.created_at
    if at >= (order.expires_at or began + LONGEST_WAIT):
        return None
    return Block(WaitingReason.WORKSPACE, problem.rstrip("."), until=at + FETCH_AGAIN)


class SiteVerdict(Enum):
    """What a drone does with an order that names a workspace."""

    HERE = auto()  # this drone sees the workspace: claim
    INVALID = auto()  # no drone can ever have seen it, or it is not allowed: claim, to end the order with the reason
    ELSEWHERE = auto()  # another drone of this machine sees it: leave the order to that drone
    PERHAPS = auto()  # drones elsewhere may see it: leave the order to them for a while, then park it
    NOBODY = auto()  # the order has begun, and no drone sees the workspace now: park it


@dataclass(frozen=True, slots=True)
class Sight:
    """What one drone knows of a path: whether it `exists` as a directory here, and is `covered` by the drone's roots.

    `workspace` is that directory, open for as long as this object exists. `problem` says why it could not be opened.
    """

    path: Path
    exists: bool
    covered: bool
    workspace: Workspace | None = None
    problem: str | None = None

    @property
    def seen(self) -> bool:
        return self.workspace is not None

    @property
    def refused(self) -> bool:
        """Whether the directory exists under this drone's roots, but cannot or must not be opened."""
        return self.exists and self.covered and not self.seen


def sight_of(path: str, roots: Roots) -> Sight:
    """Blocks."""
    try:
        workspace = roots.opened(path)
        return Sight(workspace.root, exists=True, covered=True, workspace=workspace)
    except PathError as problem:
        real = without_links(path)
        exists, covered = os.path.isabs(path) and real.is_dir(), roots.covering(path, real) is not None
        return Sight(real, exists, covered, problem=str(problem))


def verdict(sight: Sight, *, begun: bool, host: str, others: Sequence[Registration]) -> SiteVerdict:
    """`begun`: whether any drone has worked on the order. `others`: the live drones besides this one, which is on
    `host`.

    Drones of one machine see the same files. What a drone of another machine sees, only that drone can tell.
    """
    if sight.seen:
        return SiteVerdict.HERE
    if sight.refused:
        return SiteVerdict.NOBODY if begun else SiteVerdict.INVALID
    covering = [drone for drone in others if _is_under(sight.path, map(Path, drone.workspace_roots))]
    if sight.exists and any(drone.host == host for drone in covering):
        return SiteVerdict.ELSEWHERE
    if any(drone.host != host for drone in covering):
        return SiteVerdict.PERHAPS
    return SiteVerdict.NOBODY if begun else SiteVerdict.INVALID


def _is_under(path: Path, roots: Iterable[Path]) -> bool:
    return any(path.is_relative_to(without_links(str(root))) for root in roots)
