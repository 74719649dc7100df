"""Installations to examine, in a test's directory."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from mcc.contracts.callers import Actor
from mcc.contracts.drones import NOT_CHOSEN, Capability, Registration
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.doctor.installation import Installation
from mcc.findings.finding import Finding
from mcc.settings import ServiceSettings, load
from mcc.store.store import open_store
from mcc.testing import FakeClock


def settings_in(tmp_path: Path, **more: str) -> ServiceSettings:
    return load({"MCC_DATA_DIR": str(tmp_path), **more}, directory=tmp_path)


def installed(tmp_path: Path, redis_url: str = "", **environment: str) -> Installation:
    return Installation(settings_in(tmp_path), {"MCC_DATA_DIR": str(tmp_path), **environment}, redis_url, 0.5)


def states_by_check(findings: Sequence[Finding]) -> dict[str, str]:
    return {finding.what: finding.state for finding in findings}


def register(
    tmp_path: Path,
    *,
    lease_seconds: float,
    name: str = "tiny",
    slots: int = 2,
    pid: int = 1,
    claims: str | None = None,
    leaves: bool = False,
    problem: str | None = "it needs a key",
) -> None:
    """Register a drone, some time ago if it is one that has left. `problem`: the problem of its model `fast`."""
    clock = FakeClock(now() - timedelta(seconds=60)) if leaves else None
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}", clock=clock)
    incarnation = fresh_id()
    store.leases.register(
        Registration(
            incarnation=incarnation,
            name=name,
            pid=pid,
            host="here",
            version="0",
            queues=("default",),
            slots=slots,
            models=(Capability(name="fast", problem=problem),),
            tools=(
                *(Capability(name=name, problem="no bubblewrap") for name in ("git_diff", "git_log")),
                Capability(name="web_search", problem=f"{NOT_CHOSEN}no search engine is chosen"),
            ),
        ),
        lease_seconds=lease_seconds,
    )
    if claims is not None:
        assert store.claims.claim(claims, incarnation=incarnation, claim_token="t", drone=name)
    if leaves:
        store.leases.leave(incarnation)
    store.close()


def place(tmp_path: Path) -> str:
    """Place an order, some time ago by the store's clock."""
    clock = FakeClock(now() - timedelta(seconds=60))
    store = open_store(f"sqlite:///{tmp_path / 'mcc.db'}", clock=clock)
    order = store.orders.place(NewOrder(prompt="do it"), by=Actor("someone")).order
    store.close()
    return order.id
