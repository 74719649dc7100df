"""Where one drone works, as its settings allow it: under its roots, and in checkouts of git addresses."""

import hashlib
from datetime import timedelta

from drone.agent.idle_watch import LONGEST_WAIT, Block
from drone.checkouts.mirror import Mirrors
from drone.checkouts.sessions import Checkouts
from drone.crew import Crew
from drone.outside import CHECKOUTS, roots_of
from drone.sandbox.host_lock import Locks, locks_of_this_host
from drone.sandbox.private import Private
from drone.settings import Settings
from drone.worker.workspaces import Site
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

FETCH_AGAIN = timedelta(minutes=2)
"""So long after several tries in a row an address is tried again."""


def site_of(settings: Settings, crew: Crew) -> Site:
    run = settings.data_dir / "run"
    locks = Locks(locks_of_this_host(run / "workspaces"), digest_of(settings.database_url))
    return Site(roots_of(settings), run, checkouts=checkouts_of(settings, crew), locks=locks)


def digest_of(database_url: str) -> str:
    """What stands for a database, whoever asks it."""
    return hashlib.sha256(database_url.rpartition("@")[2].encode()).hexdigest()[:40]


def checkouts_of(settings: Settings, crew: Crew) -> Checkouts | None:
    """None where this machine has no git and no sandbox for it, or the operator allows no address."""
    if crew.programs is None or crew.egress is None or not settings.workspaces.git:
        return None
    home = settings.data_dir / CHECKOUTS
    mirrors = Mirrors(crew.programs, home / "mirrors", crew.egress.network_to)
    return Checkouts(mirrors, settings.workspaces, home, settings.key, Private(settings.private_places()))


def tried_again(order: WorkOrder, problem: str) -> Block | None:
    """What an order waits for whose address cannot be fetched now; None once it was tried for long enough."""
    at, began = now(), order.started_at or order.created_at
    if at >= (order.expires_at or began + LONGEST_WAIT):
        return None
    return Block(WaitingReason.WORKSPACE, problem.rstrip("."), until=at + FETCH_AGAIN)
