"""A sandbox with a network, on machines that can make one."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.egress.egress import Egress, ProxiedNetwork
from drone.egress.plan import EgressPlan
from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.custody import Custody
from drone.sandbox.places.paths import Workspace
from tests.drone.sandbox.machine import found_sandbox

Run = Callable[[ProxiedNetwork | None, str], Coroutine[Any, Any, str]]
"""Runs a command of the shell with this way out; what it said."""

Make = Callable[[EgressPlan], Egress]


@pytest.fixture
def sandbox() -> Bubblewrap:
    return found_sandbox()


@pytest.fixture
def run(sandbox: Bubblewrap, tmp_path: Path) -> Run:
    async def run(network: ProxiedNetwork | None, command: str) -> str:
        profile = Profile(egress=network)
        ended = await sandbox.run(
            ("sh", "-c", command), Workspace(tmp_path), Bounds(30.0), profile=profile, merged=True
        )
        return ended.stdout.head.decode()

    return run


@pytest.fixture
async def egress_by() -> AsyncIterator[Make]:
    made: list[Egress] = []

    def make(plan: EgressPlan) -> Egress:
        made.append(Egress(plan, Custody()))
        return made[-1]

    yield make
    for one in made:
        one.close()
