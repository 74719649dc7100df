"""Where one drone works, as its settings allow it: under its roots, and in checkouts of git addresses."""

from drone.checkouts.mirror import Mirrors
from drone.checkouts.sessions import Checkouts
from drone.crew import CHECKOUTS, Crew, roots_of
from drone.sandbox.private import Private
from drone.settings import Settings
from drone.worker.workspaces import Site


def site_of(settings: Settings, crew: Crew) -> Site:
    return Site(roots_of(settings), settings.data_dir / "run", checkouts=checkouts_of(settings, crew))


def checkouts_of(settings: Settings, crew: Crew) -> Checkouts | None:
    """None where this machine has no git and no sandbox for it, or the operator allows no address."""
    if crew.programs is None or crew.egress is None or not settings.workspaces.git:
        return None
    home = settings.data_dir / CHECKOUTS
    mirrors = Mirrors(crew.programs, home / "mirrors", crew.egress.of_hosts)
    return Checkouts(mirrors, settings.workspaces, home, settings.key, Private(settings.private_places()))
